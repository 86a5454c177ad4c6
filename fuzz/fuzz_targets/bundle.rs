//! An untrusted bundle of a toolchain: it is refused, or its files are below the folder that it is unpacked into.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    belljar_fuzz::unpack(bytes, |file, into| {
        if belljar::cli::unpack_bundle(file, into).is_ok() {
            assert!(!belljar_fuzz::names(into).is_empty(), "a toolchain has a program");
        }
    });
});
