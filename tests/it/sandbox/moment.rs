//! Edits by the user at the moment in which a session writes to the same folder.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use crate::apply_kills::{can_trace, traced};
use crate::support::{belljar, cache_dir, stderr, stdout};

struct Bench(tempfile::TempDir);

impl Bench {
    /// A folder with the file `f`, and a session `box` over it.
    fn new(text: &str) -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(bench.tree()).unwrap();
        std::fs::write(bench.at("f"), text).unwrap();
        bench.done(&["create", "--id", "box"]);
        bench
    }

    fn tree(&self) -> PathBuf {
        self.0.path().join("tree")
    }

    fn at(&self, name: &str) -> PathBuf {
        self.tree().join(name)
    }

    fn home(&self) -> PathBuf {
        self.0.path().join("home")
    }

    fn call(&self, args: &[&str]) -> Output {
        let mut command = belljar(&self.tree());
        command.env("BELLJAR_HOME", self.home()).arg("sandbox").args(args).output().unwrap()
    }

    fn done(&self, args: &[&str]) -> String {
        let output = self.call(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    }

    fn sh(&self, script: &str) -> String {
        self.done(&["exec", "box", "sh", "-c", script])
    }

    /// Applies the changes of the session. As soon as `is_written` returns true, `edit` changes the disk, while belljar
    /// syncs what it wrote.
    fn apply_beside(&self, is_written: impl Fn() -> bool, edit: impl FnOnce()) {
        let mut command = traced();
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync"]);
        command.args(["-e", "inject=fsync:delay_enter=700000"]);
        command.arg(env!("CARGO_BIN_EXE_belljar")).args(["sandbox", "apply", "box"]);
        command.env("BELLJAR_CACHE_DIR", cache_dir()).env("BELLJAR_HOME", self.home());
        let command = command.current_dir(self.tree()).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        while !is_written() {
            assert!(begun.elapsed() < Duration::from_mins(2), "nothing is written");
            std::thread::sleep(Duration::from_millis(2));
        }
        edit();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }

    fn conflicts(&self) -> String {
        let output = self.call(&["apply", "box"]);
        assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
        stderr(&output)
    }
}

/// Regression: the session took the user's line for its own, showed the file truncated, and deleted the line with its
/// next apply.
#[test]
fn a_line_that_is_added_while_apply_syncs_is_not_lost() {
    if !can_trace("a_line_that_is_added_while_apply_syncs_is_not_lost") {
        return;
    }
    let bench = Bench::new("one\n");
    bench.sh("echo S1 >> f");
    let file = bench.at("f");
    let read = || std::fs::read_to_string(&file).unwrap_or_default();
    bench.apply_beside(
        || read().contains("S1"),
        || {
            let mut file = std::fs::File::options().append(true).open(&file).unwrap();
            file.write_all(b"by the user\n").unwrap();
        },
    );
    assert_eq!(read(), "one\nS1\nby the user\n");
    assert_eq!(bench.sh("cat f; echo S2 >> f"), "one\nS1\n");
    let said = bench.conflicts();
    assert!(said.contains("f changed on the disk"), "{said}");
    assert_eq!(read(), "one\nS1\nby the user\n");
    // Later changes of the session are shown on top of the user's.
    let diff = bench.done(&["diff", "box"]);
    assert!(diff.contains("+S2") && !diff.contains("-by the user"), "{diff}");
}

/// Regression: the session took the user's file for the removed one: its diff deleted the line, and `refresh`
/// found no conflict.
#[test]
fn file_recreated_while_apply_removes_it_is_not_lost() {
    if !can_trace("file_recreated_while_apply_removes_it_is_not_lost") {
        return;
    }
    let bench = Bench::new("one\n");
    bench.sh("rm f");
    let file = bench.at("f");
    bench.apply_beside(|| !file.exists(), || std::fs::write(&file, "by the user\n").unwrap());
    let _ = bench.call(&["exec", "box", "sh", "-c", "ls; echo S2 > f"]);
    let diff = bench.done(&["diff", "box"]);
    assert!(!diff.contains("by the user"), "{diff}");
    assert!(bench.conflicts().contains("f appeared on the disk"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "by the user\n");
    assert_eq!(bench.call(&["refresh", "box"]).status.code(), Some(1), "both have made it");
}

/// Regression: the apply only sets the file's time, and the session took the user's line for what it had
/// read.
#[test]
fn a_line_that_is_added_while_apply_sets_times_is_not_lost() {
    if !can_trace("a_line_that_is_added_while_apply_sets_times_is_not_lost") {
        return;
    }
    let bench = Bench::new("one\n");
    bench.sh("cat f; touch -d 2001-02-03 f; echo new > new");
    let file = bench.at("f");
    bench.apply_beside(
        || bench.at("new").exists(),
        || {
            let mut file = std::fs::File::options().append(true).open(&file).unwrap();
            file.write_all(b"by the user\n").unwrap();
        },
    );
    let _ = bench.call(&["exec", "box", "sh", "-c", "echo S2 >> f"]);
    let said = bench.conflicts();
    assert!(said.contains("f changed on the disk"), "{said}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\nby the user\n");
}

/// A time that the session's own apply set is not a change of the disk.
#[test]
fn a_file_of_which_apply_set_the_time_can_be_read_and_changed() {
    let bench = Bench::new("one\n");
    bench.sh("touch -d 2001-02-03 f");
    bench.done(&["apply", "box"]);
    assert_eq!(bench.sh("cat f; echo S2 >> f"), "one\n");
    bench.done(&["apply", "box"]);
    assert_eq!(std::fs::read_to_string(bench.at("f")).unwrap(), "one\nS2\n");
}
