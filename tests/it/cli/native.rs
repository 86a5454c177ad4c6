//! `belljar native`.

use std::path::Path;
use std::process::Output;

use crate::support::{belljar, stderr, stdout};

const COMPILE: [&str; 5] = ["cc", "-c", "main.c", "-o", "main.o"];

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("src")).unwrap();
    std::fs::write(folder.path().join("src/main.c"), "int main(void) { return 7; }\n").unwrap();
    folder
}

fn native(folder: &Path, options: &[&str], command: &[&str], path: Option<&str>) -> Output {
    let mut belljar = belljar(folder);
    belljar.args(["native", "--tape", "cc.jsonl", "--root", "src"]).args(options).args(command);
    if let Some(path) = path {
        belljar.env("PATH", path);
    }
    belljar.output().unwrap()
}

#[test]
fn compiler_is_recorded_once_and_replayed_without_it() {
    let folder = project();
    let dir = folder.path();
    let object = dir.join("src/main.o");
    let absent = native(dir, &["--replay"], &COMPILE, None);
    assert_eq!(absent.status.code(), Some(2));
    assert!(stderr(&absent).contains("there is no tape cc.jsonl"), "{}", stderr(&absent));
    let recorded = native(dir, &[], &COMPILE, None);
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    let said = "belljar: recorded on cc.jsonl: 1 change, 1 input\n";
    assert_eq!(stderr(&recorded), said);
    let bytes = std::fs::read(&object).unwrap();

    std::fs::remove_file(&object).unwrap();
    let shown = native(dir, &[], &COMPILE, Some(""));
    assert!(shown.status.success(), "{}", stderr(&shown));
    let said = "belljar: 1 change (main.o added), not written to the disk (--apply writes it, --diff shows it)\n";
    assert_eq!(stderr(&shown), said);
    assert!(!object.exists());
    let diff = native(dir, &["--diff"], &COMPILE, Some(""));
    assert!(stdout(&diff).contains("diff --git a/main.o b/main.o"), "{}", stdout(&diff));

    let applied = native(dir, &["--apply"], &COMPILE, Some(""));
    assert_eq!(stderr(&applied), "belljar: 1 change written to the disk\n");
    assert_eq!(std::fs::read(&object).unwrap(), bytes);

    let again = native(dir, &["--apply"], &COMPILE, Some(""));
    assert!(again.status.success(), "it is there already: {}", stderr(&again));
    std::fs::write(&object, "mine").unwrap();
    let other = native(dir, &["--apply"], &COMPILE, Some(""));
    assert_eq!(other.status.code(), Some(1));
    assert!(stderr(&other).contains("file main.o: tape nothing, now a file"), "{}", stderr(&other));
    assert_eq!(std::fs::read(&object).unwrap(), b"mine");
    std::fs::remove_file(&object).unwrap();
    std::fs::write(dir.join("src/main.c"), "int main(void) { return 8; }\n").unwrap();
    let edited = native(dir, &["--replay"], &COMPILE, Some(""));
    assert_eq!(edited.status.code(), Some(1));
    assert!(
        stderr(&edited).contains("file main.c: tape a file of 29 bytes"),
        "{}",
        stderr(&edited)
    );
    assert!(native(dir, &["--record", "--quiet"], &COMPILE, None).status.success());
    std::fs::remove_file(&object).unwrap();
    assert!(native(dir, &["--replay", "--quiet"], &COMPILE, Some("")).status.success());
}

#[test]
fn status_output_and_input_are_those_of_the_program() {
    let folder = project();
    let command = ["sh", "-c", "echo out; echo err >&2; exit 3"];
    for _ in 0..2 {
        let output = native(folder.path(), &["--quiet"], &command, None);
        assert_eq!((output.status.code(), stdout(&output)), (Some(3), "out\n".to_owned()));
        assert_eq!(stderr(&output), "err\n");
    }
    let killed = native(folder.path(), &["--record", "--quiet"], &["sh", "-c", "kill -9 $$"], None);
    assert_eq!(killed.status.code(), Some(137));
    for _ in 0..2 {
        let missing = native(folder.path(), &["--record"], &["no-such-program"], None);
        assert_eq!(missing.status.code(), Some(127), "{}", stderr(&missing));
    }
    let slept = ["--record", "--quiet", "--timeout", "50ms"];
    let ended = native(folder.path(), &slept, &["sleep", "1000"], None);
    assert_eq!(ended.status.code(), Some(124), "{}", stderr(&ended));
}

#[test]
fn file_that_is_not_a_tape_is_not_replaced() {
    let folder = project();
    let source = folder.path().join("cc.jsonl");
    std::fs::write(&source, "mine").unwrap();
    for options in [&["--record"][..], &["--replay"], &[]] {
        let refused = native(folder.path(), options, &["true"], None);
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
        assert!(stderr(&refused).contains("cc.jsonl, line 1"), "{}", stderr(&refused));
        assert_eq!(std::fs::read(&source).unwrap(), b"mine");
    }
    assert!(!folder.path().join("cc.jsonl.cas").exists());
}

#[test]
fn replay_of_a_tape_without_files_says_so() {
    let folder = project();
    let lines = ["{\"version\":\"1.1\"}", "{\"program\":\"true\",\"exit_code\":0}", ""];
    std::fs::write(folder.path().join("cc.jsonl"), lines.join("\n")).unwrap();
    let replayed = native(folder.path(), &[], &["true"], Some(""));
    assert!(replayed.status.success(), "{}", stderr(&replayed));
    assert!(stderr(&replayed).contains("version 1.1, which has no files"), "{}", stderr(&replayed));
    let quiet = native(folder.path(), &["--quiet"], &["true"], Some(""));
    assert_eq!(stderr(&quiet), "");
}

#[test]
fn files_that_other_tools_obey_are_left_out_and_named() {
    let folder = project();
    let command = ["sh", "-c", "mkdir .vscode; echo {} > .vscode/tasks.json; echo made > made"];
    assert!(native(folder.path(), &[], &command, None).status.success());
    let src = folder.path().join("src");
    std::fs::remove_dir_all(src.join(".vscode")).unwrap();
    std::fs::remove_file(src.join("made")).unwrap();
    let applied = native(folder.path(), &["--apply"], &command, Some(""));
    assert!(applied.status.success(), "{}", stderr(&applied));
    let said = stderr(&applied);
    assert!(said.contains("left out .vscode, .vscode/tasks.json: other tools may run"), "{said}");
    assert!(said.contains("belljar: 1 change written to the disk"), "{said}");
    assert!(src.join("made").exists() && !src.join(".vscode").exists());
}

/// Regression: belljar ignores SIGXFSZ, and a native `PROGRAM` of `run` inherited that.
#[test]
#[cfg(target_os = "linux")]
fn native_program_of_a_run_is_ended_by_a_file_that_is_too_long() {
    const SIGXFSZ: u32 = 25;
    let folder = tempfile::tempdir().unwrap();
    let script = "grep SigIgn /proc/self/status";
    for options in
        [&["--on-missing", "native"][..], &["--on-missing", "native", "--profile", "worktree"]]
    {
        let mut run = belljar(folder.path());
        run.args(["run", "-q"]).args(options).args(["--", "bash", "-c", script]);
        let output = run.output().unwrap();
        assert!(output.status.success(), "{options:?}: {}", stderr(&output));
        let said = stdout(&output);
        let mask = said.split_whitespace().last().unwrap();
        let mask = u64::from_str_radix(mask, 16).unwrap();
        assert_eq!(mask >> (SIGXFSZ - 1) & 1, 0, "{options:?}: {said}");
    }
}

/// Regression: it continued to run and to write.
#[test]
#[cfg(target_os = "linux")]
fn recorded_native_program_ends_when_belljar_is_killed() {
    use std::time::Duration;

    let folder = project();
    let pid = folder.path().join("src/pid");
    let script = "echo $$ > new; mv new pid; exec sleep 1000";
    let args = ["native", "--tape", "cc.jsonl", "--root", "src", "sh", "-c", script];
    let mut belljar = belljar(folder.path()).args(args).spawn().unwrap();
    while !pid.exists() {
        assert!(belljar.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = std::fs::read_to_string(pid).unwrap();
    belljar.kill().unwrap();
    belljar.wait().unwrap();
    let command = format!("/proc/{}/cmdline", pid.trim());
    while std::fs::read(&command).is_ok_and(|line| line.starts_with(b"sleep\0")) {
        std::thread::sleep(Duration::from_millis(5));
    }
}
