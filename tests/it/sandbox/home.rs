//! Sandboxes that outlive the process: saved state, locks, garbage collection.

use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

use belljar::Removed;
use belljar::sandbox::{
    ExecRequest, HomeError, HomeKind, Sandbox, SandboxHome, SandboxSpec, SnapshotError,
    SnapshotStore,
};

use super::{PROGRAMS, sandbox, sh};

pub fn open(dir: &Path) -> SandboxHome {
    SandboxHome::open(dir, Box::new(|_| Ok(PROGRAMS.clone()))).unwrap()
}

fn create(home: &SandboxHome, id: &str) {
    assert_eq!(home.create(Some(id), &mut sandbox(SandboxSpec::default())).unwrap(), id);
}

/// Runs `script` in the session `id` and saves the session; returns what the script printed.
fn run(home: &SandboxHome, id: &str, script: &str) -> String {
    let mut held = home.hold(id, || ()).unwrap();
    let mut sandbox = held.resume().unwrap();
    let printed = sh(&mut sandbox, script);
    held.save(&mut sandbox).unwrap();
    printed
}

#[test]
fn session_persists_in_the_home() {
    let folder = tempfile::tempdir().unwrap();
    create(&open(folder.path()), "box");
    run(&open(folder.path()), "box", "echo kept > /tmp/note; sleep 3");
    assert_eq!(run(&open(folder.path()), "box", "cat /tmp/note; date +%s"), "kept\n2114380803\n");
    let made = open(folder.path()).create(None, &mut sandbox(SandboxSpec::default())).unwrap();
    assert!(made.starts_with("session-"), "{made}");
    let entries = open(folder.path()).list().unwrap();
    assert_eq!(entries.iter().map(|entry| &*entry.id).collect::<Vec<_>>(), ["box", &*made]);
}

#[test]
fn a_fork_has_a_new_id_and_a_resumed_session_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(folder.path());
    create(&home, "box");
    run(&home, "box", "echo one > /tmp/note");
    let snapshot = home.snapshot("box").unwrap().to_string();
    run(&home, "box", "echo two > /tmp/note");
    assert_eq!(home.origin_of(&snapshot).unwrap(), "box");
    let fork = home.fork(&snapshot[..8], None).unwrap();
    assert_eq!(run(&home, &fork, "cat /tmp/note; echo fork > /tmp/note"), "one\n");
    let copy = home.fork("box", Some("copy")).unwrap();
    assert_eq!(run(&home, &copy, "cat /tmp/note"), "two\n");
    assert_eq!(run(&home, "box", "cat /tmp/note"), "two\n");
    assert_eq!(home.resume(&snapshot).unwrap().files().read("/tmp/note").unwrap(), b"one\n");

    assert!(matches!(home.fork(&snapshot, Some("box")), Err(HomeError::Exists { .. })));
    assert!(matches!(home.fork(&snapshot, Some("../box")), Err(HomeError::Id { .. })));
    assert!(matches!(home.fork(&snapshot, Some(&snapshot)), Err(HomeError::Id { .. })));
    assert!(matches!(home.fork(&snapshot[..7], None), Err(HomeError::NotFound { .. })));
    assert!(matches!(home.hold(&snapshot, || ()), Err(HomeError::IsSnapshot { .. })));
    for gone in ["nothing", "../sessions/box", ""] {
        assert!(matches!(home.hold(gone, || ()), Err(HomeError::NotFound { .. })), "{gone}");
        assert!(matches!(home.snapshot(gone), Err(HomeError::NotFound { .. })), "{gone}");
        assert!(matches!(home.remove(gone, || ()), Err(HomeError::NotFound { .. })), "{gone}");
    }
}

/// Without the lock, concurrent read, run and save would lose the changes of one command.
#[test]
fn second_command_waits_for_the_session_lock() {
    const THREADS: usize = 4;
    const TIMES: usize = 5;
    let folder = tempfile::tempdir().unwrap();
    create(&open(folder.path()), "box");
    let start = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let home = open(folder.path());
                start.wait();
                for _ in 0..TIMES {
                    run(&home, "box", "echo line >> /tmp/lines");
                }
            });
        }
    });
    let home = open(folder.path());
    assert_eq!(run(&home, "box", "wc -l < /tmp/lines").trim(), (THREADS * TIMES).to_string());

    let held = home.hold("box", || ()).unwrap();
    let (waits, waiting) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let removed = scope.spawn(|| open(folder.path()).remove("box", || waits.send(()).unwrap()));
        waiting.recv_timeout(Duration::from_mins(1)).unwrap();
        assert!(home.resume("box").is_ok(), "whoever looks does not wait");
        assert!(home.snapshot("box").is_ok());
        drop(held);
        removed.join().unwrap().unwrap();
    });
    assert!(matches!(home.hold("box", || ()), Err(HomeError::NotFound { .. })));
}

#[test]
fn session_removed_while_waiting_for_it_is_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(folder.path());
    create(&home, "box");
    let (waits, waiting) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let held = home.hold("box", || ()).unwrap();
        let second = scope.spawn(|| {
            open(folder.path()).hold("box", || waits.send(()).unwrap()).map(|_| ()).unwrap_err()
        });
        waiting.recv_timeout(Duration::from_mins(1)).unwrap();
        // As `remove` does while it holds the lock.
        std::fs::remove_file(folder.path().join("sessions/box.json")).unwrap();
        std::fs::remove_file(folder.path().join("sessions/box.lock")).unwrap();
        drop(held);
        assert!(matches!(second.join().unwrap(), HomeError::NotFound { .. }));
    });
    assert_eq!(std::fs::read_dir(folder.path().join("sessions")).unwrap().count(), 0);
    create(&home, "box");
    run(&home, "box", ":");
}

#[test]
fn garbage_collection_removes_only_unreferenced_files() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(folder.path());
    create(&home, "box");
    run(&home, "box", "seq 100000 > /tmp/kept");
    let snapshot = home.snapshot("box").unwrap().to_string();
    run(&home, "box", "rm /tmp/kept; seq 90000 > /tmp/garbage");
    run(&home, "box", "rm /tmp/garbage; seq 80000 > /tmp/new");
    let leftover = |path: &str| std::fs::write(folder.path().join(path), "left").unwrap();
    leftover("contents/.belljar-x");
    leftover("sessions/.belljar-x");
    leftover("snapshots/.belljar-x");
    leftover("sessions/never-made.lock");
    let removed = home.collect_garbage().unwrap();
    // The first state, the intermediate state and its file. Incomplete files are not counted as contents.
    assert_eq!(removed.contents, 3);
    assert_eq!(home.collect_garbage().unwrap(), Removed::default());
    let names = |path: &str| {
        let mut names: Vec<String> = std::fs::read_dir(folder.path().join(path))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names("sessions"), ["box.json", "box.lock"]);
    assert_eq!(names("snapshots"), [snapshot.as_str()]);
    assert_eq!(run(&home, "box", "ls /tmp; tail -n 1 /tmp/new"), "new\n80000\n");
    let fork = home.fork(&snapshot, None).unwrap();
    assert_eq!(run(&home, &fork, "tail -n 1 /tmp/kept"), "100000\n");
    for id in ["box", &fork, &snapshot] {
        home.remove(id, || ()).unwrap();
    }
    home.collect_garbage().unwrap();
    assert_eq!(names("contents"), [""; 0]);
}

/// A content is unreferenced from the time when it is stored until a session refers to it.
#[test]
fn garbage_collection_waits_for_writers() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(folder.path());
    let writing = std::fs::File::open(folder.path().join("lock")).or_else(|_| {
        home.collect_garbage().unwrap();
        std::fs::File::open(folder.path().join("lock"))
    });
    let writing = writing.unwrap();
    writing.lock_shared().unwrap();
    let store = SnapshotStore::new(folder.path().join("contents"));
    let unnamed = store.save(&mut sandbox(SandboxSpec::default())).unwrap();
    std::thread::scope(|scope| {
        let collected = scope.spawn(|| open(folder.path()).collect_garbage().unwrap());
        std::thread::sleep(Duration::from_millis(300));
        assert!(store.cas().contains(unnamed), "it was to be named next");
        assert!(!collected.is_finished());
        drop(writing);
        assert_eq!(collected.join().unwrap().contents, 1);
    });
    // Conversely, no contents are written while garbage is collected.
    let writing = std::fs::File::open(folder.path().join("lock")).unwrap();
    writing.lock().unwrap();
    std::thread::scope(|scope| {
        let created = scope.spawn(|| create(&open(folder.path()), "box"));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!created.is_finished());
        assert!(!folder.path().join("contents").read_dir().unwrap().any(|_| true));
        drop(writing);
        created.join().unwrap();
    });
}

#[test]
fn id_whose_lock_is_held_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(folder.path());
    let lock = std::fs::File::create(folder.path().join("sessions/box.lock")).unwrap();
    lock.lock().unwrap();
    let refused = home.create(Some("box"), &mut sandbox(SandboxSpec::default()));
    assert!(matches!(refused, Err(HomeError::Exists { .. })), "{refused:?}");
    drop(lock);
    create(&home, "box");
}

/// A file that cannot be parsed could refer to anything.
#[test]
fn garbage_collection_removes_nothing_if_a_file_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(folder.path());
    create(&home, "box");
    create(&home, "good");
    run(&home, "box", "seq 1000 > /tmp/kept");
    let path = folder.path().join("sessions/box.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let damages = [
        String::new(),
        text[..text.len() / 2].to_owned(),
        text.replace("belljar-session", "another"),
        text.replace("[1,2]", "[2,0]"),
        text.replace("state", "stat"),
    ];
    let contents = || std::fs::read_dir(folder.path().join("contents")).unwrap().count();
    let before = contents();
    for damaged in damages {
        assert_ne!(damaged, text);
        std::fs::write(&path, &damaged).unwrap();
        let refused = home.collect_garbage().unwrap_err();
        assert!(matches!(refused, HomeError::Record { .. } | HomeError::Version { .. }));
        let refused = home.hold("box", || ()).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("box"), "{damaged:?}: {refused}");
        let listed = home.list().unwrap();
        assert_eq!(
            (&*listed[0].id, listed[0].kind, listed[0].state),
            ("box", HomeKind::Session, None)
        );
        assert_eq!(contents(), before);
        run(&home, "good", ":");
    }
    std::fs::write(&path, text.replace("[1,1]", "[1,9]").replace('}', r#","new":1}"#)).unwrap();
    assert_eq!(run(&home, "box", "tail -n 1 /tmp/kept"), "1000\n", "a later minor version");
    std::fs::write(&path, "").unwrap();
    home.remove("box", || ()).unwrap();
    assert_ne!(home.collect_garbage().unwrap(), Removed::default());
}

#[test]
fn a_state_that_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(folder.path());
    create(&home, "box");
    let state = home.list().unwrap()[0].state.unwrap();
    std::fs::remove_file(folder.path().join("contents").join(state.to_string())).unwrap();
    let error = home.resume("box").map(|_| ()).unwrap_err();
    assert!(matches!(error, HomeError::Snapshot(SnapshotError::Store { .. })), "{error}");
    assert!(error.to_string().contains(&state.to_string()));
}

#[cfg(unix)]
#[test]
fn the_home_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("home");
    let home = open(&dir);
    create(&home, "box");
    home.snapshot("box").unwrap();
    let mut left = vec![dir];
    while let Some(path) = left.pop() {
        let metadata = std::fs::metadata(&path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o077, 0, "{}", path.display());
        if metadata.is_dir() {
            left.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
}

/// Regression: listing a home blocked on a named pipe in the place of a session's file, or read all of a huge
/// file; a link in the place of a lock was followed, and a file created at its target.
#[cfg(unix)]
#[test]
fn special_files_and_links_in_a_home_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = open(folder.path());
    create(&home, "box");
    let sessions = folder.path().join("sessions");
    let made = std::process::Command::new("mkfifo").arg(sessions.join("pipe.json")).status();
    assert!(made.unwrap().success());
    let long = std::fs::File::create(sessions.join("long.json")).unwrap();
    long.set_len(1 << 40).unwrap();
    let entries = home.list().unwrap();
    let shown: Vec<_> = entries.iter().map(|entry| (&*entry.id, entry.state.is_some())).collect();
    assert_eq!(shown, [("box", true), ("long", false), ("pipe", false)]);
    std::os::unix::fs::symlink("long.json", sessions.join("link.json")).unwrap();
    std::fs::create_dir_all(sessions.join("folder.json/in")).unwrap();
    for bad in ["folder", "link", "long", "pipe"] {
        home.remove(bad, || ()).unwrap();
        assert!(std::fs::symlink_metadata(sessions.join(format!("{bad}.json"))).is_err());
    }
    std::fs::remove_file(sessions.join("box.lock")).unwrap();
    std::os::unix::fs::symlink("../elsewhere", sessions.join("box.lock")).unwrap();
    assert!(matches!(home.hold("box", || ()), Err(HomeError::Disk(_))));
    assert!(!folder.path().join("elsewhere").exists());
}

/// Regression: a session's limit of virtual time counted from its creation, so that eventually every exec failed.
#[test]
fn time_limits_apply_to_each_exec() {
    let mut spec = SandboxSpec::default();
    spec.limits.virtual_timeout = Some(Duration::from_secs(5));
    let mut sandbox = sandbox(spec);
    let mut sleep = |seconds: &str, timeout| {
        let request = ExecRequest { timeout, ..ExecRequest::new("sleep", [seconds]) };
        Sandbox::exec(&mut sandbox, &request).unwrap().timed_out
    };
    for _ in 0..3 {
        assert!(!sleep("4", None));
    }
    assert!(sleep("6", None));
    assert!(sleep("6", Some(Duration::from_secs(10))));
    assert!(sleep("3", Some(Duration::from_secs(2))));
    assert!(!sleep("4", None));
}

#[test]
fn garbage_is_collected_while_sessions_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    create(&open(folder.path()), "box");
    std::thread::scope(|scope| {
        let forks = scope.spawn(|| {
            let home = open(folder.path());
            for _ in 0..200 {
                let fork = home.fork("box", None).unwrap();
                home.remove(&fork, || ()).unwrap();
            }
        });
        let home = open(folder.path());
        while !forks.is_finished() {
            home.collect_garbage().unwrap();
        }
    });
}
