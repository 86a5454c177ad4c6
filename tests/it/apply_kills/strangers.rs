//! Entries in the folder of journals that are not journals of this user.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{can_trace, killed_halfway};
use crate::support::{belljar, cache_dir, stderr, stdout, tree};

/// The id of another user.
const STRANGER: u32 = 65534;

fn set(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Regression: a link to nothing, or to the lock, was retried forever, and opening a named pipe blocked.
#[test]
fn journal_that_is_not_a_regular_file_is_named_without_blocking() {
    let folder = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    let journals = home.path().join("journals");
    fs::create_dir(&journals).unwrap();
    let run = |args: &[&str]| -> Output {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "120", env!("CARGO_BIN_EXE_belljar")]).args(args);
        command.current_dir(folder.path());
        command.env("BELLJAR_CACHE_DIR", cache_dir()).env("BELLJAR_HOME", home.path());
        command.output().unwrap()
    };
    let pipe = |path: &Path| {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    let link = |to: &'static str| move |path: &Path| symlink(to, path).unwrap();
    let [nowhere, lock, away] = [link("nowhere"), link("lock"), link("/etc/passwd")];
    let dir = |path: &Path| fs::create_dir(path).unwrap();
    let entries: [&dyn Fn(&Path); 5] = [&pipe, &nowhere, &lock, &away, &dir];
    for (index, make) in entries.into_iter().enumerate() {
        for state in ["prepared", "committed"] {
            let entry = journals.join(format!("0123456789abcdef.{state}"));
            make(&entry);
            for (args, code) in [
                (&["sh", "-c", ":"][..], 0),
                (&["sh", "--apply", "-c", "echo new >> f"], 0),
                (&["recover"], 125),
                (&["recover", "--all"], 125),
                (&["recover", "--all", "--json"], 125),
            ] {
                let output = run(args);
                let (out, said) = (stdout(&output), stderr(&output));
                assert_eq!(output.status.code(), Some(code), "{index} {args:?}: {said}");
                assert!(said.contains(entry.to_str().unwrap()), "{index} {args:?}: {said}");
                assert!(said.contains("names no directory"), "{index} {args:?}: {said}");
                assert!(!out.contains("nothing to recover"), "{index} {args:?}: {out}");
            }
            if entry.is_dir() {
                fs::remove_dir(&entry).unwrap();
            } else {
                fs::remove_file(&entry).unwrap();
            }
            let output = run(&["recover", "--all"]);
            assert!(output.status.success(), "{}", stderr(&output));
            assert_eq!(stdout(&output), "nothing to recover in any directory\n");
        }
    }
    assert_eq!(fs::read_to_string(folder.path().join("f")).unwrap(), "new\n".repeat(10));
}

/// Leaves `folder` and `home` as a killed belljar leaves them; returns the journal.
fn left_behind(folder: &Path, home: &Path) -> PathBuf {
    killed_halfway(folder, home);
    let mut entries = fs::read_dir(home.join("journals")).unwrap().map(|it| it.unwrap().path());
    entries.find(|path| path.extension().is_some_and(|it| it == "prepared")).unwrap()
}

/// Regression: another user could put a journal into the folder, and belljar removed the files that it named.
#[test]
fn journals_writable_by_others_are_not_applied() {
    if !can_trace("journals_writable_by_others_are_not_applied") {
        return;
    }
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (folder, home) = (folder.path(), home.path());
    let journal = left_behind(folder, home);
    let journals = home.join("journals");
    let before = tree(folder);
    let run = |args: &[&str]| {
        let mut command = belljar(folder);
        let output = command.env("BELLJAR_HOME", home).args(args).output().unwrap();
        (output.status.code(), stderr(&output))
    };
    let refused = |path: &Path, what: &str| {
        for args in [&["sh", "-c", ":"][..], &["recover"], &["sh", "--apply", "-c", ": > y"]] {
            let (code, said) = run(args);
            assert_eq!(code, Some(125), "{args:?}: {said}");
            let named = format!("{} is not trusted", path.display());
            assert!(said.contains(&named) && said.contains(what), "{args:?}: {said}");
            assert!(said.contains("BELLJAR_HOME"), "{args:?}: {said}");
            assert_eq!(tree(folder), before, "{args:?}");
        }
    };
    for (path, mode, usual) in [(home, 0o775, 0o755), (&journals, 0o702, 0o755)] {
        set(path, mode);
        refused(path, &format!("chmod go-w {}", path.display()));
        set(path, usual);
    }
    // The sticky bit protects existing names, but others could create journals in this folder.
    set(&journals, 0o1777);
    refused(&journals, "its mode is 1777");
    set(&journals, 0o755);
    let is_root = fs::metadata(&journals).unwrap().uid() == 0;
    if is_root {
        for path in [home, &journals] {
            std::os::unix::fs::chown(path, Some(STRANGER), None).unwrap();
            refused(path, "belongs to user 65534");
            std::os::unix::fs::chown(path, Some(0), None).unwrap();
        }
    }
    let not_followed = |what: &str| {
        let (code, said) = run(&["sh", "-c", ":"]);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains(journal.to_str().unwrap()) && said.contains(what), "{said}");
        assert_eq!(run(&["recover"]).0, Some(125));
        assert_eq!(tree(folder), before);
    };
    set(&journal, 0o666);
    not_followed("chmod go-w");
    set(&journal, 0o644);
    if is_root {
        std::os::unix::fs::chown(&journal, Some(STRANGER), None).unwrap();
        // A lock that another user holds does not block belljar.
        let locked = fs::File::open(&journal).unwrap();
        locked.lock().unwrap();
        not_followed("belongs to user 65534");
        drop(locked);
        std::os::unix::fs::chown(&journal, Some(0), None).unwrap();
    }
    set(home, 0o1777);
    let (code, said) = run(&["recover"]);
    assert!(code == Some(0) && said.contains("undone"), "{said}");
    assert!(tree(folder).values().all(|content| content == b"old"));
}

/// Sessions and journals in the home decide what commands do, so no other user may write them.
#[test]
fn home_writable_by_others_stores_no_sessions_or_journals() {
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    set(home.path(), 0o777);
    let run = |args: &[&str]| {
        let mut command = belljar(folder.path());
        let output = command.env("BELLJAR_HOME", home.path()).args(args).output().unwrap();
        (output.status.code(), stderr(&output))
    };
    // This command needs nothing from the home.
    assert_eq!(run(&["sh", "-c", ":"]), (Some(0), String::new()));
    for args in
        [&["sh", "--apply", "-c", ": > y"][..], &["sandbox", "create"], &["sandbox", "list"]]
    {
        let (code, said) = run(args);
        assert_eq!(code, Some(125), "{args:?}: {said}");
        assert!(said.contains(&format!("chmod go-w {}", home.path().display())), "{said}");
    }
    assert_eq!((tree(folder.path()).len(), tree(home.path()).len()), (0, 0));
    set(home.path(), 0o755);
    for args in [&["sh", "--apply", "-c", ": > y"][..], &["sandbox", "create"]] {
        let (code, said) = run(args);
        assert_eq!(code, Some(0), "{args:?}: {said}");
    }
    // A home in which others may create folders, as in `/tmp`: their folders are not used.
    if fs::metadata(home.path()).unwrap().uid() != 0 {
        return;
    }
    for name in ["sessions", "snapshots", "contents"] {
        let home = tempfile::tempdir().unwrap();
        set(home.path(), 0o1777);
        fs::create_dir(home.path().join(name)).unwrap();
        std::os::unix::fs::chown(home.path().join(name), Some(STRANGER), None).unwrap();
        let mut command = belljar(folder.path());
        let output =
            command.env("BELLJAR_HOME", home.path()).args(["sandbox", "create"]).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{name}: {said}");
        assert!(said.contains(&format!("{name} is not trusted")), "{said}");
    }
}
