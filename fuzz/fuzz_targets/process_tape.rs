//! An untrusted process tape: what is read from it can be written, and read again unchanged; a replay that makes files on
//! the disk makes none outside of its root.
#![no_main]

use belljar::Machine;
use belljar::native::{
    ProcessTape, SubprocessConfig, SubprocessFiles, SubprocessRequest, Subprocesses,
};
use belljar_fuzz::file;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = file("p.tape", bytes);
    let Ok(tape) = ProcessTape::load(&path) else { return };
    if tape.save(&path).is_ok() {
        let again = ProcessTape::load(&path).expect("what was written can be read");
        assert!(again == tape);
    }
    replay(&tape, &path);
});

/// Entries that are replayed of one tape.
const ENTRIES_MAX: usize = 4;

fn replay(tape: &ProcessTape, path: &std::path::Path) {
    let outside = tempfile::tempdir().unwrap();
    let root = outside.path().join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("a"), "a").unwrap();
    std::os::unix::fs::symlink("..", root.join("out")).unwrap();
    std::os::unix::fs::symlink("a", root.join("link")).unwrap();
    let config = SubprocessConfig::Replay { tape: path.to_owned() };
    let Ok(session) = Subprocesses::open(config, |_, _| Ok(None)) else { return };
    let mut session = session.root(&root).files(SubprocessFiles::on_disk());
    let mut machine = Machine::builder().build().unwrap();
    for entry in tape.entries.iter().take(ENTRIES_MAX) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut request = SubprocessRequest::new(text(&entry.program.0));
        request.args(entry.args.iter().map(|arg| text(&arg.0)));
        let _ = session.output(&request, &mut machine);
    }
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    assert!(!root.join(".git").exists());
}
