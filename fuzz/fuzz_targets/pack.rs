//! An untrusted pack in the store of a tape: each content that it names is read.
#![no_main]

use belljar::Digest;
use belljar::tape::{TapeStore, cas_dir};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let tape = folder.path().join("t.tape");
    let dir = cas_dir(&tape);
    std::fs::create_dir(&dir).expect("temporary files can be made");
    std::fs::write(dir.join("0.pack"), bytes).expect("temporary files can be written");
    let store = TapeStore::of(&tape);
    for digest in store.digests().expect("a regular file can be read") {
        if let Ok(content) = store.get(digest, 64 << 10) {
            assert_eq!(Digest::of(&content), digest);
        }
    }
});
