//! Files that a program moves from one mount to another, and what it creates in the old place.

use std::path::Path;
use std::process::Output;

use crate::support::{belljar, stderr, tree};

/// A folder with `w`, which is the worktree, and `m`, which is mounted.
fn two_folders() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for dir in ["w", "m", "w/d"] {
        std::fs::create_dir(folder.path().join(dir)).unwrap();
    }
    for (path, text) in [("w/log", "old\n"), ("w/d/c", "c\n"), ("m/there", "there\n")] {
        std::fs::write(folder.path().join(path), text).unwrap();
    }
    folder
}

fn call(folder: &Path, args: &[&str]) -> Output {
    belljar(folder).args(args).env("BELLJAR_HOME", folder.join("home")).output().unwrap()
}

fn succeed(folder: &Path, args: &[&str]) {
    let output = call(folder, args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
}

const SCRIPTS: [&str; 10] = [
    "mv log /m/log.1; echo new > log",
    "mv log zz; echo new > log; mv zz /m/log.1",
    "cp log /m/kept; mv log /m/log.1; echo new > log",
    "mv log /m/log.1; mkdir log",
    "mv log /m/log.1; ln -s /m/log.1 log",
    "mv log t; mv /m/there log; mv t /m/there",
    "mv log /m/log.1; ln /m/log.1 /m/log.2; echo new > log",
    "touch -d 2001-01-01T00:00:00Z d/c; mv d /m/k; mkdir d; echo c > d/c",
    "mv d /m/k; echo file > d",
    "mv /m/there there; mv log /m/there; mv there log; echo more >> log",
];

/// The folders after `script` ran natively.
fn natively(script: &str) -> [Vec<String>; 2] {
    let folder = two_folders();
    let script = script.replace("/m/", "../m/");
    let worktree = folder.path().join("w");
    let mut shell = std::process::Command::new("sh");
    let output = shell.args(["-c", &script]).current_dir(worktree).output().unwrap();
    assert!(output.status.success(), "{script}: {}", stderr(&output));
    both(folder.path())
}

/// The contents of both folders; the targets of links into the mount begin with `/m/`.
fn both(folder: &Path) -> [Vec<String>; 2] {
    ["w", "m"].map(|dir| {
        let line = |(name, bytes): (String, Vec<u8>)| {
            format!("{name}: {}", String::from_utf8_lossy(&bytes))
        };
        let lines = tree(&folder.join(dir)).into_iter().map(line);
        lines.map(|line| line.replace("../m/", "/m/")).collect()
    })
}

/// Regression: the hard link that the file gets in its new directory changes the file, so it no longer
/// matched what the run found.
#[test]
fn a_file_that_is_moved_to_another_mount_and_made_again_is_no_conflict() {
    for script in SCRIPTS {
        let folder = two_folders();
        let dir = ["--worktree", "w", "--dir", "m::/m"];
        let args = [&["sh", "--apply"][..], &dir, &["-c", script]].concat();
        succeed(folder.path(), &args);
        assert_eq!(both(folder.path()), natively(script), "{script}");
    }
}

#[test]
fn moved_and_recreated_file_is_no_conflict_in_tapes_and_sessions() {
    for script in SCRIPTS {
        let dir = ["--worktree", "w", "--dir", "m::/m"];
        let expected = natively(script);
        let folder = two_folders();
        let record =
            [&["record", "--quiet", "--tape", "run.tape"][..], &dir, &["--", "sh", "-c", script]];
        succeed(folder.path(), &record.concat());
        succeed(folder.path(), &[&["apply", "run.tape"][..], &dir].concat());
        assert_eq!(both(folder.path()), expected, "{script}");

        let folder = two_folders();
        succeed(folder.path(), &[&["sandbox", "create", "--id", "moving"][..], &dir].concat());
        succeed(folder.path(), &["sandbox", "exec", "moving", "--", "sh", "-c", script]);
        succeed(folder.path(), &["sandbox", "apply", "moving"]);
        assert_eq!(both(folder.path()), expected, "{script}");
        let again = call(folder.path(), &["sandbox", "apply", "moving"]);
        assert!(stderr(&again).contains("has changed nothing"), "{script}: {}", stderr(&again));
    }
}
