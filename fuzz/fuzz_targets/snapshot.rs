//! An untrusted snapshot: resumed, used, saved again and resumed once more with the same files.
#![no_main]

use std::io::Read;
use std::sync::Arc;

use belljar::Digest;
use belljar::sandbox::SnapshotStore;
use belljar_fuzz::programs;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let store = SnapshotStore::new(folder.path());
    let id = Digest::of(bytes);
    let mut read = |offset: u64, buf: &mut [u8]| (&bytes[offset as usize..]).read(buf);
    store.cas().put(id, &mut read).expect("temporary files can be written");
    let Ok(mut sandbox) = store.resume(id, Arc::new(programs())) else { return };
    let _ = sandbox.diff();
    let Ok(again) = store.save(&mut sandbox) else { return };
    store.resume(again, Arc::new(programs())).expect("what was saved can be resumed");
});
