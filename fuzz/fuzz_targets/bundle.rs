//! An untrusted bundle of a toolchain: it is refused, or its files are below the folder that it is unpacked into.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

fn names(folder: &Path) -> Vec<std::ffi::OsString> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut names: Vec<_> = entries.map(|entry| entry.expect("it can be read").file_name()).collect();
    names.sort();
    names
}

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let (file, into) = (folder.path().join("bundle"), folder.path().join("into"));
    std::fs::create_dir(&into).expect("temporary files can be made");
    std::fs::write(&file, bytes).expect("temporary files can be written");
    let unpacked = belljar::cli::unpack_bundle(&file, &into);
    assert_eq!(names(folder.path()), ["bundle", "into"]);
    if unpacked.is_ok() {
        assert!(!names(&into).is_empty(), "a toolchain has a program");
    }
});
