//! An untrusted fixture of a language model.
#![no_main]

use belljar::testbench::Testbench;
use belljar_fuzz::file;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = file("llm.jsonl", bytes);
    let _ = Testbench::builder().replay_llm(path).build().activate().map(|_| ());
});
