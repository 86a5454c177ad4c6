//! A policy file.
#![no_main]

use belljar::host::CommandPolicy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = CommandPolicy::from_json("policy.json", text) {
        assert!(error.to_string().starts_with("policy.json"), "{error}");
    }
});
