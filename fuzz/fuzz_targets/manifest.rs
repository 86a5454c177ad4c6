//! An untrusted manifest of a toolchain.
#![no_main]

use std::path::Path;

use belljar::Manifest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = Path::new("toolchain.json");
    let Ok(manifest) = Manifest::parse(path, bytes) else { return };
    let again = Manifest::parse(path, manifest.to_text().as_bytes()).expect("what is written is valid");
    assert_eq!(again, manifest);
});
