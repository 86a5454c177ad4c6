//! `belljar sandbox` over folders that the user edits between two commands, and runs during which the user edits the
//! folder.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;

#[cfg(unix)]
use crate::support::bash;
use crate::support::{belljar, git_apply, has, has_links, stderr, stdout, symlink, user_script};

pub(super) struct Bench(tempfile::TempDir);

impl Bench {
    /// A folder with these files, and a session `box` over it.
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        Self::with(files, &[])
    }

    /// As [`Bench::new`], created with further arguments.
    pub(super) fn with(files: &[(&str, &str)], args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bench = Self(folder);
        for (name, text) in files {
            std::fs::create_dir_all(bench.at(name).parent().unwrap()).unwrap();
            std::fs::write(bench.at(name), text).unwrap();
        }
        std::fs::create_dir_all(bench.tree()).unwrap();
        assert_eq!(bench.done(&[&["create", "--id", "box"], args].concat()), "box\n");
        bench
    }

    pub(super) fn tree(&self) -> std::path::PathBuf {
        self.0.path().join("tree")
    }

    pub(super) fn at(&self, name: &str) -> std::path::PathBuf {
        self.tree().join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.at(name), text).unwrap();
    }

    pub(super) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(name)).unwrap()
    }

    pub(super) fn call(&self, args: &[&str]) -> Output {
        let home = self.0.path().join("home");
        belljar(&self.tree()).env("BELLJAR_HOME", home).arg("sandbox").args(args).output().unwrap()
    }

    pub(super) fn done(&self, args: &[&str]) -> String {
        let output = self.call(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    }

    pub(super) fn sh(&self, script: &str) -> Output {
        self.call(&["exec", "box", "--", "sh", "-c", script])
    }

    /// `diff | git apply`; returns whether git succeeded.
    pub(super) fn git_apply(&self) -> bool {
        let diff = self.done(&["diff", "box"]);
        git_apply(&self.tree(), diff.as_bytes()).status.success()
    }
}

fn lines(count: usize) -> String {
    let lines: Vec<String> = (1..=count).map(|number| format!("line {number}\n")).collect();
    lines.concat()
}

/// Regression: `git apply` succeeded, and deleted the line.
#[test]
fn diff_and_git_apply_keep_a_line_that_was_added_on_the_disk() {
    if !has("git", "diff_and_git_apply_keep_a_line_that_was_added_on_the_disk") {
        return;
    }
    let bench = Bench::new(&[("a.txt", &lines(20))]);
    assert!(bench.sh("echo by the session >> a.txt").status.success());
    bench.write("a.txt", &lines(20).replace("line 4\n", "line 4\nby the user\n"));
    assert!(bench.git_apply());
    let merged = bench.read("a.txt");
    assert!(
        merged.contains("line 4\nby the user\n") && merged.ends_with("line 20\nby the session\n")
    );
    // The disk has both lines: a refresh reports a conflict, and `--discard` drops the session's version.
    let output = bench.call(&["refresh", "box"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), "conflict a.txt\n"));
    bench.done(&["refresh", "--discard", "box"]);
    assert_eq!(stdout(&bench.sh("cat a.txt")), merged);
}

/// Regression: the file's new time was taken for a change by the user, on every later apply.
#[test]
fn recreated_empty_file_is_unchanged_after_apply() {
    for script in ["rm e; : > e", ": > c; mv c e", "mv e t; cp -p t e; rm t"] {
        let bench = Bench::new(&[("e", "")]);
        assert!(bench.sh(script).status.success());
        bench.done(&["apply", "box"]);
        assert!(bench.sh("rm e; echo work > other").status.success());
        bench.done(&["apply", "box"]);
        assert!(!bench.at("e").exists(), "{script}");
        assert_eq!(bench.read("other"), "work\n");
    }
}

/// Regression: the user had removed the file, and the apply created it again without a message.
#[test]
fn apply_reports_a_written_file_that_the_user_removed() {
    let bench = Bench::new(&[("f", "body\n")]);
    std::thread::sleep(std::time::Duration::from_millis(50));
    std::fs::remove_file(bench.at("f")).unwrap();
    assert!(bench.sh("echo more >> f").status.success());
    let output = bench.call(&["apply", "box"]);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("belljar: f is not on the disk, and may have been removed"), "{said}");
}

/// Regression: entries whose names are not UTF-8 were omitted without a message.
#[cfg(target_os = "linux")]
#[test]
fn copy_names_entries_that_are_not_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::new(&[("t/plain", "1"), ("t/sub/plain", "2")]);
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    std::fs::write(bench.at("t").join(name), "3").unwrap();
    std::fs::create_dir(bench.at("t/sub").join(name)).unwrap();
    bench.done(&["refresh", "box"]);
    let copies: [[&str; 2]; 2] = [["t", "box:/tmp/in"], ["box:t", "out"]];
    for [from, to] in copies {
        let output = bench.call(&["cp", "--json", from, to]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let expected = serde_json::json!(["caf\u{fffd}", "sub/caf\u{fffd}"]);
        assert_eq!((&report["files"], &report["left_out"]), (&2.into(), &expected));
        let message = stderr(&output);
        assert!(message.contains("left out sub/caf\u{fffd}: its name is not UTF-8"), "{message}");
    }
}

/// Regression: `cp` and `ls` omitted the removed file without a message.
#[test]
fn copy_and_listing_warn_about_removed_names() {
    for command in [["cp", "box:.", "../out"].as_slice(), &["ls", "box"]] {
        let bench = Bench::new(&[("a", "1\n"), ("b", "2\n")]);
        std::thread::sleep(std::time::Duration::from_millis(50));
        std::fs::remove_file(bench.at("b")).unwrap();
        let output = bench.call(command);
        let said = stderr(&output);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("belljar: . may lack names that were removed"), "{said}");
    }
}

/// Regression: a changed file was read with the old length and the new bytes.
#[test]
fn a_file_that_grew_or_shrank_is_never_read_torn() {
    let bench = Bench::new(&[("grows", "0123456789"), ("shrinks", "0123456789"), ("same", "0123")]);
    assert!(bench.sh("ls -l").status.success());
    bench.write("grows", "new bytes, and more of them");
    bench.write("shrinks", "new");
    bench.write("same", "3210");
    for name in ["grows", "shrinks", "same"] {
        let output = bench.sh(&format!("cat {name}"));
        assert_eq!(stdout(&output), "", "{name}");
        let said = stderr(&output);
        assert!(said.contains(&format!("cat: {name}: I/O error")), "{said}");
        assert!(said.contains(&format!("belljar: {name} was changed on the disk")), "{said}");
        assert!(said.contains("`belljar sandbox refresh box`"), "{said}");
    }
    let report: Value =
        serde_json::from_str(&stdout(&bench.call(&["exec", "--json", "box", "cat", "same"])))
            .unwrap();
    assert_eq!(report["drifts"], serde_json::json!([{ "path": "same", "kind": "changed" }]));
    assert_eq!(bench.done(&["refresh", "box"]), "changed grows\nchanged same\nchanged shrinks\n");
    assert_eq!(stdout(&bench.sh("cat grows shrinks same")), "new bytes, and more of themnew3210");
}

/// For each edit of something that was read, was only listed, or was not accessed: the session shows the old
/// state, or reports an error with a message.
#[test]
fn edits_between_two_commands_are_old_content_or_an_error() {
    type Edit = fn(&Path);
    let edits: &[(&str, Edit)] = &[
        ("append", |at| {
            let file = std::fs::File::options().append(true).open(at);
            file.unwrap().write_all(b"more\n").unwrap();
        }),
        ("grow", |at| std::fs::write(at, "new bytes that are longer\n").unwrap()),
        ("shrink", |at| std::fs::write(at, "n").unwrap()),
        ("replace by rename", |at| {
            std::fs::write(at.with_extension("new"), "new\n").unwrap();
            std::fs::rename(at.with_extension("new"), at).unwrap();
        }),
        ("delete", |at| std::fs::remove_file(at).unwrap()),
        ("file to folder", |at| {
            std::fs::remove_file(at).unwrap();
            std::fs::create_dir(at).unwrap();
        }),
        #[cfg(unix)]
        ("file to link", |at| {
            std::fs::remove_file(at).unwrap();
            std::os::unix::fs::symlink("elsewhere", at).unwrap();
        }),
        ("touch", |at| {
            let file = std::fs::File::options().append(true).open(at).unwrap();
            file.set_modified(std::time::SystemTime::now()).unwrap();
        }),
    ];
    for (what, edit) in edits {
        let files = [("read/f", "old\n"), ("listed/f", "old\n"), ("other/f", "old\n")];
        let bench = Bench::new(&files);
        assert_eq!(stdout(&bench.sh("cat read/f; ls listed")), "old\nf\n");
        for dir in ["read", "listed", "other"] {
            edit(&bench.at(&format!("{dir}/f")));
        }
        assert_eq!(
            stdout(&bench.sh("cat read/f; ls read listed")),
            "old\nlisted:\nf\n\nread:\nf\n",
            "{what}"
        );
        for path in ["listed/f", "other/f"] {
            let output = bench.sh(&format!("cat {path}"));
            let said = stderr(&output);
            assert_eq!(stdout(&output), "", "{what}: {path}");
            // A file missing on the disk is an ordinary ENOENT for `cat`; `diff` reports the edit.
            let is_missing = (*what, path) == ("delete", "other/f");
            let said = if is_missing { stderr(&bench.call(&["diff", "box"])) } else { said };
            assert!(said.contains(&format!("belljar: {path} ")), "{what}: {said}");
            assert!(said.contains("`belljar sandbox refresh box`"), "{what}: {said}");
        }
        assert!(bench.done(&["diff", "box"]).is_empty(), "{what}");
        bench.done(&["refresh", "box"]);
        let on_disk = std::fs::read_to_string(bench.at("read/f")).unwrap_or_default();
        assert_eq!(stdout(&bench.sh("cat other/f")), on_disk, "{what}");
    }
}

#[test]
fn new_entries_are_reported_until_a_refresh() {
    if !has_links("new_entries_are_reported_until_a_refresh") {
        return;
    }
    let bench = Bench::new(&[("d/old", "old\n"), ("link-target", "x\n")]);
    assert!(symlink("link-target", bench.at("link")));
    bench.done(&["refresh", "box"]);
    assert_eq!(stdout(&bench.sh("cat link")), "x\n");
    bench.write("new", "new\n");
    std::fs::create_dir(bench.at("folder")).unwrap();
    std::fs::remove_file(bench.at("link")).unwrap();
    assert!(symlink("d/old", bench.at("link")));
    for path in ["new", "folder"] {
        let output = bench.sh(&format!("ls {path}"));
        assert!(!output.status.success());
        assert!(
            stderr(&output)
                .contains(&format!("belljar: {path} was created or changed on the disk")),
            "{}",
            stderr(&output)
        );
    }
    assert_eq!(stdout(&bench.sh("cat link")), "x\n", "it was looked at");
    let output = bench.sh("cat gone");
    assert_eq!(stderr(&output), "cat: gone: No such file or directory\n");
    // `diff` and `apply` report the edits that earlier commands encountered.
    for command in ["diff", "apply"] {
        let output = bench.call(&[command, "box"]);
        for path in ["new", "folder", "gone"] {
            assert!(stderr(&output).contains(&format!("belljar: {path} ")), "{}", stderr(&output));
        }
    }
    bench.done(&["fork", "box", "--id", "other"]);
    let report: Value = serde_json::from_str(&bench.done(&["refresh", "--json", "other"])).unwrap();
    let drifts = report["drifts"].as_array().unwrap().iter();
    let drifts: Vec<_> = drifts.map(|it| (&it["path"], &it["kind"])).collect();
    for (path, kind) in [("new", "newer"), ("folder", "newer"), ("gone", "missing")] {
        assert!(drifts.contains(&(&path.into(), &kind.into())), "{report}");
    }
    let output = bench.call(&["refresh", "box"]);
    assert_eq!(stdout(&output), "changed folder\nchanged link\nchanged new\n");
    assert!(stderr(&output).contains("belljar: gone is not on the disk"), "{}", stderr(&output));
    assert_eq!(
        stdout(&bench.sh("cat new link; ls")),
        "new\nold\nd\nfolder\nlink\nlink-target\nnew\n"
    );
    assert_eq!(stderr(&bench.call(&["diff", "box"])), "");
}

#[test]
fn apply_refuses_conflicts_and_says_how_to_go_on() {
    let bench = Bench::new(&[("a", "one\n"), ("input", "one\n"), ("c", "one\n")]);
    assert_eq!(
        stderr(&bench.call(&["apply", "box"])),
        "belljar: session box has changed nothing in directories of the host\n"
    );
    assert!(
        bench
            .sh("cat input > out; echo two >> a; rm c; mkdir made; echo x > made/x")
            .status
            .success()
    );
    bench.write("input", "two\n");
    bench.write("out", "the user's\n");
    let output = bench.call(&["apply", "box"]);
    assert_eq!(output.status.code(), Some(125));
    let said = stderr(&output);
    for words in
        ["input changed on the disk", "out appeared on the disk", "`belljar sandbox refresh box`"]
    {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!((bench.read("a").as_str(), bench.read("out").as_str()), ("one\n", "the user's\n"));
    let output = bench.call(&["refresh", "box"]);
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(1), "changed input\nconflict out\n")
    );
    std::fs::remove_file(bench.at("out")).unwrap();
    let output = bench.call(&["apply", "box", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(serde_json::from_str::<Value>(&stdout(&output)).unwrap()["changes"][0]["path"], "a");
    assert_eq!((bench.read("a").as_str(), bench.read("out").as_str()), ("one\ntwo\n", "one\n"));
    assert!(!bench.at("c").exists() && bench.at("made/x").exists());
    assert_eq!(bench.done(&["diff", "box"]), "");
    assert_eq!(stdout(&bench.sh("cat a out made/x")), "one\ntwo\none\nx\n");
}

#[test]
fn a_fork_and_a_snapshot_keep_their_beginning_when_another_is_refreshed() {
    let bench = Bench::new(&[("f", "one\n"), ("unread", "one\n")]);
    assert!(bench.sh("cat f").status.success());
    let snapshot = bench.done(&["snapshot", "box"]).trim().to_owned();
    bench.done(&["fork", "box", "--id", "fork"]);
    bench.write("f", "two\n");
    bench.done(&["refresh", "box"]);
    assert_eq!(stdout(&bench.sh("cat f")), "two\n");
    bench.done(&["gc"]);
    assert_eq!(bench.done(&["exec", "fork", "cat", "f", "unread"]), "one\none\n");
    bench.done(&["rm", "box", "fork"]);
    bench.done(&["gc"]);
    bench.done(&["resume", &snapshot]);
    assert_eq!(stdout(&bench.sh("cat f")), "one\n");
    bench.done(&["refresh", "--discard", "box"]);
    assert_eq!(stdout(&bench.sh("cat f unread")), "two\none\n");
}

/// A session that an earlier version of belljar wrote has the sizes and times of files, and no contents.
#[test]
fn session_of_an_earlier_version_opens() {
    let bench = Bench::new(&[("read", "one\n"), ("changed", "one\n"), ("other", "one\n")]);
    assert!(bench.sh("cat read changed; echo more > made").status.success());
    let home = bench.0.path().join("home");
    let record = home.join("sessions/box.json");
    let text = std::fs::read_to_string(&record).unwrap();
    let state: Value = serde_json::from_str(&text).unwrap();
    let state = state["state"].as_str().unwrap();
    let mut saved: Value =
        serde_json::from_slice(&std::fs::read(home.join("contents").join(state)).unwrap()).unwrap();
    saved["version"] = serde_json::json!([1, 0]);
    assert!(saved["machine"]["files"].as_object_mut().unwrap().remove("baselines").is_some());
    let old = serde_json::to_vec(&saved).unwrap();
    let digest = belljar::Digest::of(&old).to_string();
    std::fs::write(home.join("contents").join(&digest), old).unwrap();
    std::fs::write(&record, text.replace(state, &digest)).unwrap();
    bench.write("changed", "another, which is longer\n");
    assert_eq!(stdout(&bench.sh("cat read made other")), "one\nmore\none\n");
    let output = bench.sh("cat changed");
    assert!(stderr(&output).contains("cat: changed: I/O error"), "{}", stderr(&output));
    assert!(stderr(&output).contains("`belljar sandbox refresh box`"), "{}", stderr(&output));
    bench.done(&["refresh", "box"]);
    assert_eq!(stdout(&bench.sh("cat changed made")), "another, which is longer\nmore\n");
}

/// Runs a script that prints a line and then reads one; `edit` is called in between.
fn edited_meanwhile(folder: &Path, args: &[&str], edit: impl FnOnce(&Path)) -> Output {
    let mut child = belljar(folder)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut printed = Vec::new();
    let mut byte = [0];
    while byte != *b"\n" {
        child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        printed.extend(byte);
    }
    edit(folder);
    child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    let mut output = child.wait_with_output().unwrap();
    output.stdout.splice(..0, printed);
    output
}

/// Regression: the program read the new bytes with the old length, without a message.
#[test]
fn file_that_changes_during_a_run_is_never_read_torn() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("f"), "0123456789").unwrap();
    std::fs::write(folder.path().join("kept"), "kept\n").unwrap();
    let script = "ls -l f > /dev/null; cat kept; read line; cat f; cat kept";
    let output = edited_meanwhile(folder.path(), &["sh", "-c", script], |folder| {
        std::fs::write(folder.join("f"), "new bytes, and more of them").unwrap();
    });
    assert_eq!(stdout(&output), "kept\nkept\n");
    let said = stderr(&output);
    assert!(said.contains("cat: f: I/O error"), "{said}");
    assert!(said.contains("belljar: f was changed on the disk after the run began"), "{said}");
}

/// Regression: it was an ordinary error of permission, and no hint told what to do.
#[cfg(unix)]
#[test]
fn file_that_became_a_pipe_is_named() {
    let bench = Bench::new(&[("f", "1\n")]);
    bench.sh("ls -l f");
    std::fs::remove_file(bench.at("f")).unwrap();
    assert!(bash(&bench.tree(), "mkfifo f").status.success());
    let output = bench.sh("cat f");
    assert!(stderr(&output).contains("cat: f: I/O error"), "{}", stderr(&output));
    assert!(stderr(&output).contains("`belljar sandbox refresh box`"), "{}", stderr(&output));
}

/// Regression: there was no tape at all.
#[test]
fn record_of_a_run_whose_moved_file_changed_has_a_tape_without_changes() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let tape = elsewhere.path().join("tape");
    std::fs::create_dir(folder.path().join("d")).unwrap();
    std::fs::write(folder.path().join("d/f"), "1\n").unwrap();
    let script = "mv d e; echo made > a; echo ready; read line; cat a";
    let args = ["record", "--tape", tape.to_str().unwrap(), "sh", "-c", script];
    let output = edited_meanwhile(folder.path(), &args, |folder| {
        std::fs::write(folder.join("d/f"), "by the user\n").unwrap();
    });
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("cannot determine what changed"), "{said}");
    assert!(said.contains("has the run without its changes"), "{said}");
    let call = |args: &[&str]| {
        belljar(folder.path()).args(args).arg(&tape).stdin(Stdio::null()).output().unwrap()
    };
    let replayed = call(&["replay"]);
    assert_eq!(stdout(&replayed), "ready\nmade\n", "{}", stderr(&replayed));
    assert_eq!(replayed.status.code(), Some(0));
    for command in ["diff", "apply"] {
        let refused = call(&[command]);
        assert_eq!(refused.status.code(), Some(125), "{command}: {}", stderr(&refused));
        let why = "the tape does not have the changes of its run: cannot";
        assert!(stderr(&refused).contains(why), "{command}: {}", stderr(&refused));
    }
    assert!(!folder.path().join("a").exists());
}

/// Regression: the program could not read one of the files, but its other changes were written, with exit code 0.
#[test]
fn run_that_could_not_read_a_changed_file_is_not_applied() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        std::fs::write(folder.path().join(name), "1\n").unwrap();
    }
    let script = "ls -l b > /dev/null; echo P >> a; echo ready; read line; echo P >> b; true";
    let args = ["sh", "--apply=always", "-c", script];
    let output = edited_meanwhile(folder.path(), &args, |folder| {
        std::fs::write(folder.join("b"), "by the user\n").unwrap();
    });
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("belljar: b was changed on the disk after the run began"), "{said}");
    assert!(
        said.contains("nothing was written to the disk, because the program could not read b"),
        "{said}"
    );
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!((read("a").as_str(), read("b").as_str()), ("1\n", "by the user\n"));
}

/// Regression: `diff` said of it that it was removed before it was read, although an empty file needs no reading.
#[test]
fn empty_file_that_the_user_removed_or_filled_is_known_to_the_session() {
    for (edit, later) in
        [("rm d/a", "chmod +x d/a"), ("echo user >> d/a", "rm -r d"), ("rm d/a", "echo n > d/a")]
    {
        let bench = Bench::new(&[("d/a", ""), ("d/b", "two\n")]);
        assert!(bench.sh("cat d/a d/b; ls -l d").status.success());
        assert!(user_script(&bench.tree(), edit).status.success());
        let output = bench.sh(later);
        assert!(output.status.success(), "{later}: {}", stderr(&output));
        let diff = bench.call(&["diff", "box"]);
        assert_eq!(
            (diff.status.code(), stderr(&diff)),
            (Some(0), String::new()),
            "{edit}, {later}"
        );
    }
}

/// Regression: an empty file that was only touched was a conflict for ever, as its content was not kept.
#[test]
fn empty_file_that_the_user_only_touched_is_no_conflict() {
    let chmod = if cfg!(unix) { "chmod 600 e" } else { "touch e" };
    for edit in ["touch e", chmod, "ln e g; rm g", "rm e; : > e"] {
        let bench = Bench::new(&[("e", ""), ("a", "a\n")]);
        assert!(bench.sh("cat e; mv e f; echo b > a").status.success());
        assert!(user_script(&bench.tree(), edit).status.success());
        bench.call(&["refresh", "box"]);
        bench.done(&["apply", "box"]);
        assert_eq!((&*bench.read("a"), &*bench.read("f")), ("b\n", ""), "{edit}");
    }
}

/// Regression: reading an empty file did not count, so that an output made of it hid the user's later edit from `make`.
#[test]
fn empty_file_that_was_read_and_filled_is_a_conflict() {
    let bench = Bench::new(&[("config.h", "")]);
    assert!(bench.sh("cp config.h out").status.success());
    bench.write("config.h", "#define NEW\n");
    let refused = bench.call(&["apply", "box"]);
    assert_eq!(refused.status.code(), Some(125), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("config.h changed on the disk"), "{}", stderr(&refused));
    assert!(!bench.at("out").exists());
}

/// Regression: only files that were read counted, though the text of a link decides which file that is.
#[test]
fn symbolic_link_that_was_read_and_changed_on_the_disk_is_a_conflict() {
    if !has_links("symbolic_link_that_was_read_and_changed_on_the_disk_is_a_conflict") {
        return;
    }
    let sown =
        "echo 1 > a; echo 2 > b; mkdir d e; echo 3 > d/f; echo 4 > e/f; ln -s a l; ln -s d m";
    for (script, link, is_conflict) in [
        ("readlink l > out", "l", true),
        ("cat l > out", "l", true),
        ("cat m/f > out", "m", true),
        ("cat l > out", "m", false),
        ("[ -h l ] && echo yes > out", "l", false),
    ] {
        let bench = Bench::new(&[]);
        assert!(user_script(&bench.tree(), sown).status.success());
        bench.done(&["refresh", "box"]);
        assert!(bench.sh(script).status.success(), "{script}");
        assert!(user_script(&bench.tree(), &format!("ln -sfn b {link}")).status.success());
        let output = bench.call(&["apply", "box"]);
        assert_eq!(!output.status.success(), is_conflict, "{script}: {}", stderr(&output));
        assert_eq!(bench.at("out").exists(), !is_conflict, "{script}");
        if is_conflict {
            let told = format!("because {link} changed on the disk since it was read");
            assert!(stderr(&output).contains(&told), "{script}: {}", stderr(&output));
            bench.done(&["refresh", "box"]);
            bench.done(&["apply", "box"]);
            assert!(bench.at("out").exists(), "{script}");
        }
    }
}

/// Regression: it was a conflict for good, as a file of more than 256 MiB is not kept, and could not be read any more where
/// it had been. So was one that `recover` had completed.
#[cfg(unix)]
#[test]
fn large_file_that_the_disk_has_moved_as_well_is_no_conflict() {
    let bench = Bench::new(&[("a", "a\n")]);
    let length = (256 << 20) + 1;
    std::fs::File::create(bench.at("big")).unwrap().set_len(length).unwrap();
    bench.done(&["refresh", "box"]);
    bench.done(&["exec", "box", "--", "sh", "-c", "mv big big2; echo n > n"]);
    std::fs::rename(bench.at("big"), bench.at("big2")).unwrap();
    bench.done(&["apply", "box"]);
    assert_eq!(bench.read("n"), "n\n");
    let told = bench.done(&[
        "exec",
        "box",
        "--",
        "sh",
        "-c",
        "stat -c %s big2; head -c 1 big2 | wc -c; ls",
    ]);
    assert_eq!(told, format!("{length}\n1\na\nbig2\nn\n"));
    bench.done(&["refresh", "box"]);
    assert_eq!(bench.done(&["diff", "box"]), "");
    // Another file of that length is one.
    bench.done(&["exec", "box", "--", "mv", "big2", "big3"]);
    std::fs::rename(bench.at("big2"), bench.at("aside")).unwrap();
    std::fs::File::create(bench.at("big3")).unwrap().set_len(length).unwrap();
    assert_eq!(bench.call(&["apply", "box"]).status.code(), Some(125));
}
