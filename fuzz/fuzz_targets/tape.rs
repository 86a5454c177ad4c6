//! An untrusted tape: read, annotated, compared with itself and replayed.
#![no_main]

use belljar::tape::{FidelityMode, Tape, TapeReader, compare};
use belljar::testbench::replay;
use belljar_fuzz::{ENGINE, file, limits};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = file("t.tape", bytes);
    let Ok(reader) = TapeReader::open(&path) else { return };
    reader.take(10_000).take_while(Result::is_ok).for_each(drop);
    if let Ok(tape) = Tape::load(&path) {
        let report = compare(&tape, &tape, FidelityMode::ByteIdentical);
        assert!(report.is_err() || report.is_ok_and(|report| report.is_faithful()));
    }
    let _ = replay(&ENGINE, &path, &limits(), |_, _| Err("no module".into()));
});
