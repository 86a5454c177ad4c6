//! An untrusted module: parsed, compiled and started.
#![no_main]

use belljar::{Command, Module, Program};
use belljar_fuzz::{ENGINE, machine};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(module) = Module::from_bytes("fuzz", bytes.to_vec()) else { return };
    let _ = module.compile_bytes_max();
    let Ok(program) = Program::new(&ENGINE, &module) else { return };
    let _ = Command::new(&program).output(&mut machine());
});
