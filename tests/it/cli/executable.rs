//! The execute permission that programs set, from the command line to the disk, the tape and sessions.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use super::living::Bench;
use super::tape::succeed;
use super::{run, scratch};
use crate::support::{bash, belljar, git_apply, package, stderr, stdout};

/// The folder with the program `chmod` of these tests.
fn tools() -> String {
    package().join("tests/guests").display().to_string()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Makes a script that can be executed, changes the mode of `note.txt`, and that and the content of `more.txt`.
const SCRIPT: &str = r"
printf '#!/bin/sh\necho hi\n' > s.sh
test -x s.sh && exit 9
chmod +x s.sh note.txt more.txt
test -x s.sh || exit 8
[ -x note.txt ] && [ -x . ] || exit 7
echo more >> more.txt
chmod = s.sh more.txt >&2
./s.sh >&2
";

/// A folder with files of mode 644.
fn folder() -> tempfile::TempDir {
    let folder = scratch();
    std::fs::write(folder.path().join("more.txt"), "some\n").unwrap();
    for name in ["note.txt", "more.txt"] {
        set_mode(&folder.path().join(name), 0o644);
    }
    folder
}

fn expect_made(folder: &Path) {
    for name in ["s.sh", "note.txt", "more.txt"] {
        assert_eq!(mode(&folder.join(name)) & 0o744, 0o744, "{name}");
    }
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!((read("note.txt"), read("more.txt")), ("one\ntwo\n".into(), "some\nmore\n".into()));
    let hi = std::process::Command::new(folder.join("s.sh")).output().unwrap();
    assert_eq!(stdout(&hi), "hi\n");
}

#[test]
fn git_takes_the_modes_from_a_diff() {
    let folder = folder();
    let output = run(folder.path(), &["-q", "--diff", "--toolchain", &tools(), "sh", "-c", SCRIPT]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), "1\n1\nhi\n"));
    let patch = stdout(&output);
    for part in [
        "diff --git a/note.txt b/note.txt\nold mode 100644\nnew mode 100755\ndiff --git",
        "diff --git a/more.txt b/more.txt\nold mode 100644\nnew mode 100755\nindex ",
        "diff --git a/s.sh b/s.sh\nnew file mode 100755\n",
    ] {
        assert!(patch.contains(part), "{part}: {patch}");
    }
    assert_eq!(mode(&folder.path().join("note.txt")), 0o644);
    let applied = git_apply(folder.path(), &output.stdout);
    assert!(applied.status.success(), "{}", stderr(&applied));
    expect_made(folder.path());
}

#[test]
fn apply_writes_the_modes_to_the_disk() {
    let folder = folder();
    let args = ["--apply", "--json=r.json", "--toolchain", &tools(), "sh", "-c", SCRIPT];
    let output = run(folder.path(), &args);
    let said = "belljar: 3 changes (more.txt modified, note.txt modified, s.sh added), written to the disk\n";
    assert_eq!(stderr(&output), format!("1\n1\nhi\n{said}"));
    expect_made(folder.path());
    let report = std::fs::read_to_string(folder.path().join("r.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let changes = report["changes"].as_array().unwrap();
    let shown: Vec<_> = changes.iter().map(|it| (&it["path"], &it["kind"])).collect();
    assert_eq!(shown.len(), 3, "{shown:?}");
    std::fs::remove_file(folder.path().join("r.json")).unwrap();
    let script = "test -x note.txt && chmod -x note.txt && ! test -x note.txt";
    let args = ["--apply", "-q", "--toolchain", &tools(), "sh", "-c", script];
    assert!(run(folder.path(), &args).status.success());
    assert_eq!(mode(&folder.path().join("note.txt")), 0o644);
}

#[test]
fn trace_shows_the_calls() {
    let folder = folder();
    let args = [
        "--trace",
        "-q",
        "--toolchain",
        &tools(),
        "sh",
        "-c",
        "chmod +x note.txt; test -x note.txt",
    ];
    let said = stderr(&run(folder.path(), &args));
    for line in [
        "==> path_executable_set(fd=4, flags=0x1, \"note.txt\", executable=1)\n",
        "==> path_executable_get(\"note.txt\")\n",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
}

#[test]
fn permission_can_be_set_through_a_descriptor_and_not_on_a_link() {
    let folder = folder();
    let script =
        "ln -s note.txt l; chmod f+x note.txt && chmod = note.txt l && chmod -x l && chmod = l
        chmod -h +x l; echo $?; chmod +x gone; echo $?; chmod +x . && chmod = . /tmp";
    let output = run(folder.path(), &["-q", "--toolchain", &tools(), "sh", "-c", script]);
    assert_eq!(stdout(&output), "1\n1\n0\n58\n44\n1\n1\n", "{}", stderr(&output));
}

/// A tape has what was asked of the disk, and the changes; a replay without the files gives the same.
#[test]
fn tape_repeats_and_applies_the_modes() {
    let folder = folder();
    let (at, tools) = (folder.path(), tools());
    let [tree, copy] = ["tree", "copy"].map(|name| at.join(name));
    for dir in [&tree, &copy] {
        std::fs::create_dir(dir).unwrap();
        for name in ["note.txt", "more.txt"] {
            std::fs::copy(at.join(name), dir.join(name)).unwrap();
        }
    }
    let args = ["record", "-q", "--tape", "t", "--worktree", "tree", "--toolchain", &tools];
    succeed(at, &[&args[..], &["--", "sh", "-c", SCRIPT]].concat());
    let text = std::fs::read_to_string(at.join("t")).unwrap();
    let change = |path: &str| -> Value {
        let is_it = |line: &&str| {
            line.contains("\"kind\":\"change\"") && line.contains(&format!("/{path}\""))
        };
        serde_json::from_str(text.lines().find(is_it).unwrap()).unwrap()
    };
    let note = change("note.txt");
    assert_eq!(
        (&note["change"], &note["content_hash"]),
        (&"modified".into(), &note["before_content_hash"])
    );
    assert_eq!((&note["before_executable"], &note["executable"]), (&false.into(), &true.into()));
    assert_eq!(change("s.sh")["executable"], true);
    std::fs::remove_dir_all(&tree).unwrap();
    succeed(at, &["replay", "t", "--toolchain", &tools]);
    let diff = succeed(at, &["diff", "t"]);
    assert!(diff.contains("a/note.txt b/note.txt\nold mode 100644\nnew mode 100755\n"), "{diff}");
    succeed(at, &["apply", "t", "--worktree", "copy"]);
    expect_made(&copy);
    let again = belljar(at).args(["apply", "t", "--worktree", "copy"]).output().unwrap();
    assert!(stderr(&again).contains("already"), "{}", stderr(&again));
}

/// Up to version 7 of the kernel, `test -x` was true for every file.
#[test]
fn tape_of_an_older_kernel_tests_no_permission() {
    let folder = folder();
    let at = folder.path();
    let script = "test -x note.txt || echo none";
    let record = ["record", "-q", "--tape", "t", "--", "sh", "-c", script];
    assert_eq!(succeed(at, &record), "none\n");
    let text = std::fs::read_to_string(at.join("t")).unwrap();
    let old = text.replace("\"kernel_version\":11", "\"kernel_version\":7");
    assert_ne!(text, old);
    std::fs::write(at.join("t"), &old).unwrap();
    let output = belljar(at).args(["replay", "t"]).output().unwrap();
    assert_eq!(stdout(&output), "", "{}", stderr(&output));
    assert!(!output.status.success());
}

#[test]
fn session_keeps_the_modes_and_gives_them_to_forks() {
    let tools = tools();
    let bench = Bench::with(
        &[("note.txt", "one\ntwo\n"), ("more.txt", "some\n")],
        &["--toolchain", &tools],
    );
    let output = bench.sh(SCRIPT);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), "1\n1\nhi\n"));
    let is_executable = |id: &str, name: &str| {
        bench.call(&["exec", id, "sh", "-c", &format!("test -x {name}")]).status.success()
    };
    assert!(is_executable("box", "note.txt") && is_executable("box", "s.sh"));
    bench.done(&["fork", "box", "--id", "fork"]);
    assert!(is_executable("fork", "note.txt") && is_executable("fork", "s.sh"));
    bench.done(&["exec", "fork", "chmod", "-x", "note.txt", "s.sh"]);
    assert!(!is_executable("fork", "note.txt") && !is_executable("fork", "s.sh"));
    assert!(is_executable("box", "note.txt") && is_executable("box", "s.sh"));
    let between = bench.done(&["diff", "box", "fork"]);
    assert!(between.contains("old mode 100755\nnew mode 100644\n"), "{between}");
    assert!(bench.git_apply());
    expect_made(&bench.tree());
    for name in ["note.txt", "more.txt"] {
        bench.write(name, if name == "note.txt" { "one\ntwo\n" } else { "some\n" });
        set_mode(&bench.at(name), 0o644);
    }
    std::fs::remove_file(bench.at("s.sh")).unwrap();
    bench.done(&["refresh", "box"]);
    bench.done(&["apply", "box"]);
    expect_made(&bench.tree());
    assert_eq!(bench.done(&["diff", "box"]), "");
}

#[test]
fn refresh_takes_in_a_mode_and_keeps_one_over_a_new_content() {
    let tools = tools();
    let files = [("a", "a\n"), ("b", "b\n"), ("c", "c\n"), ("d", "d\n")];
    let bench = Bench::with(&files, &["--toolchain", &tools]);
    bench.done(&["exec", "box", "chmod", "+x", "b", "c"]);
    assert!(!bench.sh("test -x a").status.success());
    set_mode(&bench.at("a"), 0o755);
    bench.write("b", "b by the user\n");
    set_mode(&bench.at("c"), 0o755);
    assert_eq!(bench.done(&["refresh", "box"]), "changed a\nchanged b\n");
    let seen = bench.sh("for f in a b c d; do test -x $f && cat $f; done");
    assert_eq!(stdout(&seen), "a\nb by the user\nc\n");
    let diff = bench.done(&["diff", "box"]);
    assert_eq!(diff, "diff --git a/b b/b\nold mode 100644\nnew mode 100755\n");
    bench.done(&["apply", "box"]);
    assert_eq!(mode(&bench.at("b")) & 0o700, 0o700);
    assert_eq!(bench.read("b"), "b by the user\n");
    // The session wrote to a file whose mode the user changed: a conflict.
    assert!(bench.sh("echo more >> d").status.success());
    set_mode(&bench.at("d"), 0o755);
    let refreshed = bench.call(&["refresh", "box"]);
    assert_eq!(stdout(&refreshed), "conflict d\n");
}

/// Regression: `apply TAPE` made the file anew, with the time of the apply, so that `make` built what depends on it.
#[test]
fn file_of_which_only_the_permission_was_taken_away_keeps_its_time_when_the_tape_is_applied() {
    use std::os::unix::fs::MetadataExt;
    for script in ["chmod -x note.txt", "chmod -x note.txt more.txt; chmod +x more.txt"] {
        let made = ["--apply", "tape"].map(|way| {
            let folder = folder();
            for name in ["note.txt", "more.txt"] {
                set_mode(&folder.path().join(name), 0o755);
            }
            assert!(bash(folder.path(), "touch -d 2001-01-01T00:00:00Z *").status.success());
            if way == "tape" {
                succeed(folder.path(), &["record", "--tape=t", "sh", "-c", script]);
                succeed(folder.path(), &["apply", "t"]);
            } else {
                succeed(folder.path(), &["sh", "--apply", "-c", script]);
            }
            ["note.txt", "more.txt"].map(|name| {
                let metadata = folder.path().join(name).metadata().unwrap();
                (metadata.mode() & 0o777, metadata.mtime())
            })
        });
        assert_eq!(made[0], made[1], "{script}");
        assert_eq!(made[0][0], (0o644, 978_307_200), "{script}");
    }
}
