//! `belljar sandbox apply` is killed, and the session goes on.

use std::path::Path;

use super::{can_trace, traced};
use crate::support::{belljar, cache_dir, stderr, stdout};

/// The names and contents of a folder.
fn shown(folder: &Path) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut shown: Vec<_> = entries
        .map(|it| {
            (it.file_name().into_string().unwrap(), std::fs::read_to_string(it.path()).unwrap())
        })
        .collect();
    shown.sort();
    shown
}

/// Regression: where belljar was killed between the last write to the disk and the saving of the session, later changes of
/// the session were in conflict with its own earlier ones, for good.
#[test]
fn session_goes_on_wherever_its_apply_was_killed() {
    if !can_trace("session_goes_on_wherever_its_apply_was_killed") {
        return;
    }
    let (mut undone, mut done) = (0, 0);
    for call in ["renameat2", "rename", "fsync", "unlinkat"] {
        for number in 1.. {
            let scratch = tempfile::tempdir().unwrap();
            let (folder, home) = (scratch.path().join("folder"), scratch.path().join("home"));
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("log"), "0\n").unwrap();
            std::fs::write(folder.join("moved"), "1\n").unwrap();
            let sandbox = |args: &[&str]| {
                let mut command = belljar(&folder);
                command.env("BELLJAR_HOME", &home).arg("sandbox").args(args).output().unwrap()
            };
            let done_by = |args: &[&str]| {
                let output = sandbox(args);
                assert!(output.status.success(), "{call} {number}: {args:?}: {}", stderr(&output));
                (stdout(&output), stderr(&output))
            };
            let exec = |script| done_by(&["exec", "box", "--", "sh", "-c", script]);
            done_by(&["create", "--id", "box"]);
            exec("echo 1 >> log; mv moved away; echo new > made");
            let killed = traced()
                .args(["-o", "/dev/null", "-e", &format!("trace={call}"), "-e"])
                .arg(format!("inject={call}:signal=SIGKILL:when={number}"))
                .args([env!("CARGO_BIN_EXE_belljar"), "sandbox", "apply", "box"])
                .current_dir(&folder)
                .env("BELLJAR_CACHE_DIR", cache_dir())
                .env("BELLJAR_HOME", &home)
                .output()
                .unwrap();
            if killed.status.success() {
                // There are no more such calls.
                break;
            }
            let (printed, said) = exec("echo 2 >> log; mv away back; cat log back made");
            assert_eq!(printed, "0\n1\n2\n1\nnew\n", "{call} {number}");
            let wrote = std::fs::read_to_string(folder.join("log")).unwrap() == "0\n1\n";
            if wrote {
                done += 1;
            } else {
                undone += 1;
            }
            let is_told = said.contains("an apply of session box was interrupted");
            assert!(is_told || !wrote, "{call} {number}: {said}");
            done_by(&["apply", "box"]);
            let wanted = [("back", "1\n"), ("log", "0\n1\n2\n"), ("made", "new\n")];
            let wanted = wanted.map(|(name, text)| (name.to_owned(), text.to_owned()));
            assert_eq!(shown(&folder), wanted, "{call} {number}");
            // The same in a session that has nothing more to say.
            assert!(exec("true").1.is_empty(), "{call} {number}");
            assert_eq!(done_by(&["diff", "box"]).0, "", "{call} {number}");
        }
    }
    assert!(undone > 0 && done > 0, "{undone} {done}");
}
