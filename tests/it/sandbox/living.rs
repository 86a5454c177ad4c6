//! Sessions of the library over folders that the user edits meanwhile.

use std::path::Path;

use belljar::kernel::vfs::{ApplyError, ConflictKind, Drift, DriftKind, TakenKind};
use belljar::sandbox::{
    ExecRequest, FilesystemAccess, MountSource, Sandbox, SandboxMount, SandboxSpec, SnapshotStore,
};

use super::{PROGRAMS, sandbox, sh};

fn over(folder: &Path) -> Sandbox {
    let mounts = vec![SandboxMount {
        target: "/work".into(),
        source: MountSource::Host(folder.into()),
        access: FilesystemAccess::ReadWrite,
    }];
    sandbox(SandboxSpec { mounts, ..SandboxSpec::default() })
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn kinds(drifts: &[Drift]) -> Vec<(&str, DriftKind)> {
    drifts.iter().map(|drift| (drift.path.as_str(), drift.kind)).collect()
}

fn fails(sandbox: &mut Sandbox, script: &str) -> String {
    let result = sandbox.exec(&ExecRequest::shell(script)).unwrap();
    assert_ne!(result.exit_code, 0, "{script}");
    String::from_utf8(result.stderr).unwrap()
}

#[test]
fn content_that_was_read_is_kept_and_unread_changes_are_errors() {
    let long = "long\n".repeat(200_000);
    let folder =
        folder(&[("read", "one\n"), ("long", &long), ("unread", "one\n"), ("d/in", "in\n")]);
    let at = |name: &str| folder.path().join(name);
    let mut origin = over(folder.path());
    assert_eq!(sh(&mut origin, "cat /work/read; head -n 1 /work/long"), "one\nlong\n");
    for name in ["read", "long", "unread"] {
        std::fs::write(at(name), "another, which is longer\n").unwrap();
    }
    let mut fork = origin.fork().unwrap();
    for session in [&mut origin, &mut fork] {
        let read = sh(session, "cat /work/read; wc -c < /work/long; cat /work/d/in");
        assert_eq!(read.split_whitespace().collect::<Vec<_>>(), ["one", "1000000", "in"]);
        assert!(session.files().take_drifts().is_empty());
        assert!(fails(session, "cat /work/unread").contains("I/O error"));
        assert_eq!(kinds(&session.files().take_drifts()), [("unread", DriftKind::Changed)]);
        assert!(session.files().take_drifts().is_empty(), "once");
    }
    // An entry that one fork has read is pinned for the other, because both began with the same state.
    std::fs::remove_dir_all(at("d")).unwrap();
    assert_eq!(sh(&mut fork, "cat /work/d/in"), "in\n");
    assert_eq!(origin.diff().unwrap().len(), 0);
}

/// Regression: `ls` listed names that `cat` did not find; new names were not found in listed directories
/// only.
#[test]
fn changed_directory_shows_its_old_state_or_is_reported() {
    let folder = folder(&[
        ("listed/old", "old"),
        ("listed/gone", "gone"),
        ("late/old", "old"),
        ("late/gone", ""),
    ]);
    let at = |name: &str| folder.path().join(name);
    let mut session = over(folder.path());
    assert_eq!(sh(&mut session, "ls /work/listed; test ! -e /work/late/never"), "gone\nold\n");
    for dir in ["listed", "late"] {
        std::fs::write(at(dir).join("new"), "new").unwrap();
        std::fs::remove_file(at(dir).join("gone")).unwrap();
    }
    assert_eq!(
        sh(&mut session, "cat /work/listed/old /work/late/old; ls /work/listed"),
        "oldoldgone\nold\n"
    );
    assert!(fails(&mut session, "cat /work/listed/new").contains("No such file"));
    assert!(session.files().take_drifts().is_empty(), "that is certain");
    assert!(fails(&mut session, "cat /work/listed/gone").contains("I/O error"));
    assert!(fails(&mut session, "cat /work/late/new").contains("I/O error"));
    assert!(fails(&mut session, "cat /work/late/gone").contains("No such file"));
    std::fs::write(at("late/never"), "by now").unwrap();
    assert!(fails(&mut session, "cat /work/late/never").contains("No such file"));
    let told = [
        ("late/gone", DriftKind::Missing),
        ("late/new", DriftKind::Newer),
        ("listed/gone", DriftKind::Gone),
    ];
    assert_eq!(kinds(&session.drifts()), told);
    assert_eq!(sh(&mut session, "cd /work/late; echo *"), "new old\n");
    assert!(kinds(&session.drifts()).contains(&("late", DriftKind::ListedLate)));
}

#[test]
fn replaced_directory_is_reported() {
    let folder =
        folder(&[("d/one", "old"), ("d/two", "old"), ("other/two", "other"), ("f/x", "x")]);
    let at = |name: &str| folder.path().join(name);
    let mut session = over(folder.path());
    assert_eq!(sh(&mut session, "cat /work/d/one; ls /work; ls /work/f"), "oldd\nf\nother\nx\n");
    std::fs::rename(at("d"), at("moved")).unwrap();
    std::fs::rename(at("other"), at("d")).unwrap();
    std::fs::remove_dir_all(at("f")).unwrap();
    std::fs::write(at("f"), "a file now").unwrap();
    assert_eq!(sh(&mut session, "cat /work/d/one"), "old");
    assert!(fails(&mut session, "cat /work/d/two").contains("I/O error"));
    assert!(fails(&mut session, "cat /work/other/two").contains("I/O error"));
    assert!(fails(&mut session, "cat /work/f/x").contains("I/O error"));
    assert_eq!(sh(&mut session, "ls /work /work/f"), "/work:\nd\nf\nother\n\n/work/f:\nx\n");
}

/// Tools set modification times back; they cannot set change times.
#[test]
fn a_time_that_was_set_back_hides_no_change() {
    let folder = folder(&[("f", "one\n")]);
    let path = folder.path().join("f");
    let before = std::fs::metadata(&path).unwrap().modified().unwrap();
    let mut session = over(folder.path());
    std::fs::write(&path, "two\n").unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
    assert!(fails(&mut session, "cat /work/f").contains("I/O error"));
}

#[test]
fn apply_writes_what_changed_and_moves_the_baseline() {
    let folder = folder(&[("f", "one\n"), ("gone", "gone\n"), ("d/in", "in\n"), ("edited", "1\n")]);
    let at = |name: &str| folder.path().join(name);
    let mut session = over(folder.path());
    sh(
        &mut session,
        "cd /work; echo two >> f; rm gone; mv d e; mkdir made; echo x > made/x; cat edited",
    );
    assert_eq!(session.apply().unwrap().written, 3);
    assert_eq!(std::fs::read_to_string(at("f")).unwrap(), "one\ntwo\n");
    assert!(!at("gone").exists() && at("e/in").exists() && at("made/x").exists());
    assert!(session.diff().unwrap().is_empty());
    // The written content is now the session's own state, even if the disk changes.
    std::fs::write(at("f"), "the user's\n").unwrap();
    std::fs::remove_file(at("made/x")).unwrap();
    assert_eq!(
        sh(&mut session, "cd /work; cat f made/x e/in; ls . e"),
        "one\ntwo\nx\nin\n.:\ne\nedited\nf\nmade\n\ne:\nin\n"
    );
    assert!(session.diff().unwrap().is_empty());
    assert!(session.drifts().is_empty());
    sh(&mut session, "cd /work; echo three >> f; echo new > new");
    let Err(ApplyError::Conflicts(conflicts)) = session.apply() else { panic!("a conflict") };
    assert_eq!((conflicts[0].path.as_str(), &conflicts[0].what), ("f", &ConflictKind::Changed));
    assert!(!at("new").exists());
    assert_eq!(std::fs::read_to_string(at("f")).unwrap(), "the user's\n");
    // A name that did not exist is still known not to exist, although the folder was written to.
    assert!(fails(&mut session, "cat /work/nothing").contains("No such file"));
}

/// A command that is killed after it wrote to the disk and before it saved the session finds all changes on
/// the disk.
#[test]
fn changes_already_on_the_disk_are_no_conflict_for_a_session() {
    let folder = folder(&[("f", "one\n"), ("gone", "gone\n"), ("d/in", "in\n")]);
    let store = tempfile::tempdir().unwrap();
    let store = SnapshotStore::new(store.path());
    let mut session = over(folder.path());
    sh(&mut session, "cd /work; echo two >> f; rm gone; mv d e; mkdir made; echo x > made/x");
    let before = store.save(&mut session).unwrap();
    session.apply().unwrap();
    let mut again = store.resume(before, PROGRAMS.clone()).unwrap();
    assert!(!again.diff().unwrap().is_empty());
    again.apply().unwrap();
    assert!(again.diff().unwrap().is_empty());
    let mut refreshed = store.resume(before, PROGRAMS.clone()).unwrap();
    assert_eq!(refreshed.refresh().unwrap().conflicts, []);
    assert!(refreshed.diff().unwrap().is_empty());
    assert_eq!(
        sh(&mut refreshed, "cd /work; cat f e/in made/x; ls"),
        "one\ntwo\nin\nx\ne\nf\nmade\n"
    );
}

#[test]
fn refresh_takes_disk_changes_and_keeps_session_changes() {
    let files =
        [("read", "one\n"), ("mine", "one\n"), ("both", "one\n"), ("d/a", "a\n"), ("d/b", "b\n")];
    let folder = folder(&files);
    let at = |name: &str| folder.path().join(name);
    let mut session = over(folder.path());
    sh(
        &mut session,
        "cd /work; cat read; echo me >> mine; echo me >> both; rm d/a; ls d; ln mine name; mv d/b moved",
    );
    let mut fork = session.fork().unwrap();
    std::fs::write(at("read"), "two\n").unwrap();
    std::fs::write(at("both"), "zero\none\n").unwrap();
    std::fs::write(at("new"), "new\n").unwrap();
    std::fs::write(at("d/c"), "c\n").unwrap();
    std::fs::set_permissions(at("mine"), std::fs::metadata(at("mine")).unwrap().permissions())
        .unwrap();
    let refreshed = session.refresh().unwrap();
    let taken: Vec<_> = refreshed.taken.iter().map(|it| (it.path.as_str(), it.kind)).collect();
    assert_eq!(taken, [("d/c", TakenKind::Added), ("read", TakenKind::Changed)]);
    let conflicts: Vec<_> = refreshed.conflicts.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(conflicts, ["both"]);
    let shown = sh(&mut session, "cd /work; cat read mine name both moved new; ls d");
    assert_eq!(shown, "two\none\nme\none\nme\none\nme\nb\nnew\nc\n");
    assert!(session.drifts().is_empty());
    // The conflict is still reported against the state with which the session began.
    let text = belljar::kernel::vfs::render_unified_diff(
        &session.diff().unwrap(),
        &belljar::kernel::vfs::VPath::root(),
    );
    assert!(!text.unwrap().contains("-zero"));
    assert!(matches!(session.apply(), Err(ApplyError::Conflicts(_))));
    // The fork still shows the old state.
    assert_eq!(sh(&mut fork, "cd /work; cat read; ls d; test ! -e d/c"), "one\n");
    session.discard_and_refresh().unwrap();
    assert_eq!(sh(&mut session, "cd /work; cat both mine; ls d"), "zero\none\none\na\nb\nc\n");
    assert!(session.diff().unwrap().is_empty());
    sh(&mut session, "echo more >> /work/both");
    session.apply().unwrap();
    assert_eq!(std::fs::read_to_string(at("both")).unwrap(), "zero\none\nmore\n");
}

/// Content that a session replaces or removes without reading it is stored when the session is saved.
#[test]
fn diff_of_files_replaced_unread_works_after_the_disk_changed() {
    let folder = folder(&[("f", "one\n"), ("gone", "gone\n")]);
    let store = tempfile::tempdir().unwrap();
    let store = SnapshotStore::new(store.path());
    let mut session = over(folder.path());
    sh(&mut session, "cd /work; echo new > f; rm gone");
    let id = store.save(&mut session).unwrap();
    for name in ["f", "gone"] {
        std::fs::write(folder.path().join(name), "the user's\n").unwrap();
    }
    let mut session = store.resume(id, PROGRAMS.clone()).unwrap();
    let entries = session.diff().unwrap();
    let text =
        belljar::kernel::vfs::render_unified_diff(&entries, &belljar::kernel::vfs::VPath::root());
    let text = text.unwrap();
    assert!(text.contains("-one\n+new\n") && text.contains("-gone\n"), "{text}");
    // Garbage collection keeps the contents that a snapshot names.
    let parts = store.parts_of(id).unwrap();
    assert!(parts.contains(&belljar::Digest::of(b"gone\n")));
}
