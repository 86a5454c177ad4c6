//! An untrusted snapshot with its parts: resumed, used, saved again and resumed once more with the same files.
//!
//! Each line of the input is a part, the last one the snapshot; `@0` in a line stands for the digest of the first line,
//! and so on.
#![no_main]

use std::io::Read;
use std::sync::Arc;

use belljar::Digest;
use belljar::sandbox::SnapshotStore;
use belljar_fuzz::programs;
use libfuzzer_sys::fuzz_target;

/// Most entries that are looked at.
const ENTRIES_MAX: usize = 50;

fuzz_target!(|text: &str| {
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let store = SnapshotStore::new(folder.path());
    let mut digests: Vec<Digest> = Vec::new();
    for line in text.lines().take(10) {
        let mut line = line.to_owned();
        for (number, digest) in digests.iter().enumerate() {
            line = line.replace(&format!("@{number}"), &digest.to_string());
        }
        let digest = Digest::of(line.as_bytes());
        let mut read = |offset: u64, buf: &mut [u8]| (&line.as_bytes()[offset as usize..]).read(buf);
        store.cas().put(digest, &mut read).expect("temporary files can be written");
        digests.push(digest);
    }
    let Some(id) = digests.last() else { return };
    let _ = store.parts_of(*id);
    let Ok(mut sandbox) = store.resume(*id, Arc::new(programs())) else { return };
    let mut left = vec!["/".to_owned()];
    let mut looked_at = 0;
    while let Some(dir) = left.pop() {
        for entry in sandbox.list(&dir).unwrap_or_default() {
            looked_at += 1;
            if looked_at < ENTRIES_MAX {
                left.push(format!("{}/{}", dir.trim_end_matches('/'), entry.name));
            }
        }
    }
    let _ = sandbox.diff();
    let Ok(again) = store.save(&mut sandbox) else { return };
    store.resume(again, Arc::new(programs())).expect("what was saved can be resumed");
});
