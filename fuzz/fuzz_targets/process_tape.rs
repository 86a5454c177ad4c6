//! An untrusted process tape: what is read from it can be written, and read again unchanged.
#![no_main]

use belljar::native::ProcessTape;
use belljar_fuzz::file;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = file("p.tape", bytes);
    let Ok(tape) = ProcessTape::load(&path) else { return };
    if tape.save(&path).is_ok() {
        let again = ProcessTape::load(&path).expect("what was written can be read");
        assert!(again == tape);
    }
});
