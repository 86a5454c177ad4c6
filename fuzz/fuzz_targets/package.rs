//! An untrusted package of PyPI or npm: it is refused, or its files are below the folder that it is unpacked into.
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
    let (file, into) = (folder.path().join("package"), folder.path().join("into"));
    std::fs::create_dir(&into).expect("temporary files can be made");
    std::fs::write(&file, bytes).expect("temporary files can be written");
    let _ = belljar::cli::unpack_package(&file, &into);
    assert_eq!(names(folder.path()), ["into", "package"]);
});
