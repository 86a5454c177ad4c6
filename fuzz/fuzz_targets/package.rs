//! An untrusted package of PyPI or npm: it is refused, or its files are below the folder that it is unpacked into.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    belljar_fuzz::unpack(bytes, |file, into| {
        let _ = belljar::cli::unpack_package(file, into);
    });
});
