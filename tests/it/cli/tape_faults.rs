//! Tapes of runs with secrets, of killed recorders, and of programs that wait for standard input.

use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::tape::{call, succeed};
use super::{guest_arg, scratch};
use crate::support::{belljar, package, stderr, symlink};

/// Polls standard input with a timeout of 5 ms; prints a point for each timeout, then the input.
const PATIENT: &str = r#"(module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0)
    "\01\00\00\00\00\00\00\00" "\00\00\00\00\00\00\00\00" "\01\00\00\00\00\00\00\00" "\40\4b\4c\00\00\00\00\00"
    "\00\00\00\00\00\00\00\00" "\00\00\00\00\00\00\00\00" "\02\00\00\00\00\00\00\00" "\01\00\00\00\00\00\00\00")
  (data (i32.const 200) ".")
  (func $iovec (param $at i32) (param $len i32)
    (i32.store (i32.const 208) (local.get $at))
    (i32.store (i32.const 212) (local.get $len)))
  (func (export "_start")
    (loop $again
      (drop (call $poll (i32.const 0) (i32.const 128) (i32.const 2) (i32.const 192)))
      (if (i64.eq (i64.load (i32.const 128)) (i64.const 1)) (then
        (call $iovec (i32.const 200) (i32.const 1))
        (drop (call $write (i32.const 1) (i32.const 208) (i32.const 1) (i32.const 216)))
        (br $again))))
    (call $iovec (i32.const 1024) (i32.const 64))
    (drop (call $read (i32.const 0) (i32.const 208) (i32.const 1) (i32.const 216)))
    (call $iovec (i32.const 1024) (i32.load (i32.const 216)))
    (drop (call $write (i32.const 1) (i32.const 208) (i32.const 1) (i32.const 216)))))"#;

/// Regression: a replay reported standard input as ready at every poll.
#[test]
fn replay_repeats_the_results_of_polling_stdin() {
    let folder = scratch();
    let dir = folder.path();
    std::fs::write(dir.join("patient.wat"), PATIENT).unwrap();
    let mut child = belljar(dir)
        .args(["record", "-q", "--tape", "t", "--clock", "real", "--stdin", "inherit"])
        .arg("./patient.wat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut printed = vec![0];
    stdout.read_exact(&mut printed).unwrap();
    child.stdin.take().unwrap().write_all(b"at last").unwrap();
    stdout.read_to_end(&mut printed).unwrap();
    assert!(child.wait().unwrap().success());
    let printed = String::from_utf8(printed).unwrap();
    assert!(printed.starts_with('.') && printed.ends_with(".at last"), "{printed}");
    assert_eq!(succeed(dir, &["replay", "-q", "t"]), printed);
    let shown = succeed(dir, &["tape", "show", "--kind", "stream_poll", "t"]);
    assert_eq!(shown.lines().count(), printed.len() - "at last".len() + 1, "{shown}");
}

fn stat(dir: &Path, tape: &str) -> (u64, bool) {
    let stat: Value =
        serde_json::from_str(&succeed(dir, &["tape", "stat", "--json", tape])).unwrap();
    (stat["records"].as_u64().unwrap(), stat["cut_off"].as_bool().unwrap())
}

#[test]
fn killed_recorder_leaves_a_partial_tape() {
    let folder = scratch();
    let dir = folder.path();
    let partial = dir.join("t.partial");
    let spew = guest_arg("spew");
    for at_least_bytes in [1, 100_000, 250_000] {
        let mut child = belljar(dir)
            .args(["record", "-q", "--tape", "t", "--", &spew, "1000000"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while std::fs::metadata(&partial).map_or(0, |found| found.len()) < at_least_bytes {
            assert!(child.try_wait().unwrap().is_none());
            thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!dir.join("t").exists());

        let bytes = std::fs::read(&partial).unwrap();
        let end = bytes.iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
        let lines = bytes[..end].split_inclusive(|byte| *byte == b'\n').count() as u64;
        // A last line that lacks only its newline is a record, too.
        let is_whole = serde_json::from_slice::<Value>(&bytes[end..]).is_ok();
        let is_cut_off = end < bytes.len() && !is_whole;
        let records = lines - 1 + u64::from(is_whole);
        assert_eq!(stat(dir, "t.partial"), (records, is_cut_off));

        let file = std::fs::OpenOptions::new().write(true).open(&partial).unwrap();
        file.set_len(end as u64 - 9).unwrap();
        assert_eq!(stat(dir, "t.partial"), (lines - 2, true));
        let output = call(dir, &["tape", "show", "t.partial"]);
        assert!(output.status.success());
        let message = format!("line {lines} is cut off and left out");
        assert!(stderr(&output).contains(&message), "{}", stderr(&output));
    }
    succeed(dir, &["record", "-q", "--tape", "t", "--", "wc", "note.txt"]);
    assert!(!partial.exists());
    succeed(dir, &["replay", "-q", "t"]);
}

const TOKEN: &str = "ghp_0123456789012345678901234567890123456789";

/// Regression: names from any source reached the tape unredacted.
#[test]
fn secret_in_a_file_name_is_redacted_and_the_run_is_replayed() {
    let folder = scratch();
    let dir = folder.path();
    let tree = dir.join("tree");
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join(format!("{TOKEN}.txt")), "text").unwrap();
    let has_link = symlink(format!("{TOKEN}.txt"), tree.join("link"));
    std::fs::copy(guest_arg("overwrite"), dir.join(format!("{TOKEN}.wasm"))).unwrap();
    let mount = format!("tree::/{TOKEN}");
    let (env, program) = (format!("NOTE={TOKEN}"), format!("./{TOKEN}.wasm"));
    let options = ["--worktree", "tree", "--dir", &mount, "--env", &env, "--argv0", TOKEN];
    let script = [
        format!("write:{TOKEN}.out:text"),
        format!("rename:{TOKEN}.out:new"),
        format!("symlink:{TOKEN}.txt:other"),
        format!("append:/{TOKEN}/{TOKEN}.txt:more"),
        if has_link { "unlink:link".to_owned() } else { format!("mkdir:{TOKEN}.d") },
    ];
    let script: Vec<&str> = script.iter().map(String::as_str).collect();
    let walk = guest_arg("walk");
    for run in [&[walk.as_str(), "."][..], &[&[program.as_str()][..], &script].concat()] {
        let record = ["record", "-q", "--tape", "t"];
        succeed(dir, &[&record[..], &options, &["--"], run].concat());
        let tape = std::fs::read_to_string(dir.join("t")).unwrap();
        assert!(tape.contains("[redacted]") && !tape.contains(TOKEN), "{tape}");
        for content in std::fs::read_dir(dir.join("t.cas")).into_iter().flatten() {
            let content = std::fs::read(content.unwrap().path()).unwrap();
            assert!(!String::from_utf8_lossy(&content).contains(TOKEN));
        }
    }
    succeed(dir, &["replay", "-q", "--module", &program, "t"]);
}

/// Regression: the replay failed without giving a reason.
#[test]
fn replay_without_a_needed_secret_says_so() {
    let folder = scratch();
    let dir = folder.path();
    std::fs::write(dir.join("key"), TOKEN).unwrap();
    succeed(dir, &["record", "-q", "--tape", "t", "--", "wc", "key", "note.txt"]);
    let output = call(dir, &["replay", "t"]);
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    let message = stderr(&output);
    assert!(message.starts_with("belljar: record "), "{message}");
    assert!(message.contains("(file_read) was recorded without its secrets"), "{message}");
    let output = call(dir, &["replay", "--json", "t"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["withheld"].is_u64(), "{report}");

    // A file whose content was redacted cannot be applied.
    let overwrite = guest_arg("overwrite");
    succeed(dir, &["record", "-q", "--tape", "t", "--", &overwrite, "append:key:more"]);
    let output = call(dir, &["apply", "t"]);
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert!(stderr(&output).contains("according to rule github-token"), "{}", stderr(&output));
    assert_eq!(std::fs::read(dir.join("key")).unwrap(), TOKEN.as_bytes());

    // A run that does not depend on the secret can be replayed.
    let env = format!("NOTE={TOKEN}");
    succeed(dir, &["record", "-q", "--tape", "t", "--env", &env, "--", "wc", "note.txt"]);
    succeed(dir, &["replay", "-q", "t"]);
}

/// Regression: the program was omitted without a message, and the tape could not be replayed elsewhere.
#[test]
fn embedding_a_program_that_holds_a_secret_is_refused() {
    let folder = scratch();
    let dir = folder.path();
    let module = r#"(module (memory (export "memory") 1) (func (export "_start"))
        (data (i32.const 0) "sk-abcdefghijklmnopqrstuvwxyz1"))"#;
    std::fs::write(dir.join("tool.wat"), module).unwrap();
    let output = call(dir, &["record", "--tape", "t", "--embed-program", "./tool.wat"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let message = stderr(&output);
    assert!(message.contains("--embed-program: ") && message.contains("rule api-key"), "{message}");
    assert!(!dir.join("t").exists() && !dir.join("t.partial").exists());
    succeed(dir, &["record", "-q", "--tape", "t", "./tool.wat"]);
}

/// Up to version 9 of the kernel, flags, advice and polls of a directory were refused.
#[test]
fn tape_of_an_older_kernel_has_its_errnos_of_descriptors_of_directories() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    std::fs::create_dir_all(tree.join("d")).unwrap();
    let calls = "opendir\t-\td\t0\nfd_advise\t0\nfd_poll\t0\nfd_nonblock\t0\n";
    std::fs::write(folder.path().join("calls"), calls).unwrap();
    let module = package().join("tests/guests/paths.wasm").display().to_string();
    let record = ["record", "-q", "--tape", "t", "--worktree", "tree", "--stdin", "calls", "--"];
    let printed = succeed(folder.path(), &[&record[..], &[&module]].concat());
    assert_eq!(printed, "ok\nok\nok 1 1 1 0\nok\n");
    succeed(folder.path(), &["replay", "t"]);

    let text = std::fs::read_to_string(folder.path().join("t")).unwrap();
    let text = text.replace("\"kernel_version\":11", "\"kernel_version\":9");
    let old = text.replace("\"text\":\"ok\\n\"", "\"text\":\"error 8\\n\"");
    let old = old.replace("\"text\":\"ok 1 1 1 0\\n\"", "\"text\":\"ok 1 0 0 1\\n\"");
    assert_eq!(old.matches("error 8").count(), 2, "{old}");
    std::fs::write(folder.path().join("t"), old).unwrap();
    succeed(folder.path(), &["replay", "t"]);
}

/// Regression: the old content of a file that a native program rewrote, with more bytes than the run had read, could not be
/// read: the tape was lost.
#[cfg(unix)]
#[test]
fn file_that_a_native_program_rewrote_after_it_was_read_is_recorded() {
    for after in ["rm note.txt", "mv note.txt x", "echo more >> note.txt", ":"] {
        for new in ["longer than before is it", "short"] {
            let folder = scratch();
            let script =
                format!("cat note.txt; nice sh -c \"echo {new} > note.txt\"; {after}; ls -l");
            let record = ["record", "-q", "--on-missing", "native", "--tape", "../t", "--"];
            let tree = folder.path().join("tree");
            std::fs::create_dir(&tree).unwrap();
            std::fs::rename(folder.path().join("note.txt"), tree.join("note.txt")).unwrap();
            let printed = succeed(&tree, &[&record[..], &["sh", "-c", &script]].concat());
            assert_eq!(succeed(folder.path(), &["replay", "t"]), printed, "{script}");
        }
    }
}

/// Regression: a recorded run that had looked a file up read the first bytes of its new content, and its tape wrote them to
/// the disk.
#[cfg(unix)]
#[test]
fn file_that_was_looked_up_and_rewritten_is_never_recorded_torn() {
    for (write, read) in [
        ("echo longer text here > note.txt", "cp note.txt c"),
        ("seq 1 10 > note.txt", "sort note.txt"),
        ("seq 1 10 > n; mv n note.txt", "sed -i s/1/9/ note.txt"),
    ] {
        let folder = scratch();
        let tree = folder.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        std::fs::rename(folder.path().join("note.txt"), tree.join("note.txt")).unwrap();
        // Change times have a granularity.
        std::thread::sleep(Duration::from_millis(50));
        let script = format!("[ -e note.txt ] && nice sh -c '{write}'; {read}; echo $?");
        let record = ["record", "-q", "--on-missing", "native", "--tape", "../t", "--"];
        let output = call(&tree, &[&record[..], &["sh", "-c", &script]].concat());
        let (said, printed) = (stderr(&output), crate::support::stdout(&output));
        assert!(said.contains("I/O error") && said.contains("note.txt"), "{script}: {said}");
        assert!(!printed.ends_with("0\n"), "{script}: {printed}");
        assert!(!tree.join("c").exists());
    }
}

/// Regression: `apply` wrote those of the changes that were left, and names with `[redacted]`, and said nothing.
#[test]
fn tape_without_all_changes_is_not_applied() {
    let folder = scratch();
    let (dir, tape) = (folder.path(), folder.path().join("t"));
    let record = ["record", "-q", "--tape", "t", "--env", "API_KEY=hunter2hunter2", "--"];
    let refused = |tape: &str, reason: &str| {
        for command in ["apply", "diff"] {
            let output = belljar(dir).args([command, tape]).output().unwrap();
            assert_eq!(output.status.code(), Some(125), "{command} {tape}");
            let said = stderr(&output);
            assert!(said.contains("does not have the changes of its run"), "{said}");
            assert!(said.contains(reason) && said.contains("record it again"), "{said}");
        }
        assert!(!dir.join("out").exists());
    };
    succeed(dir, &[&record[..], &["sh", "-c", "mkdir out; echo > out/a; echo > out/b"]].concat());
    let whole = std::fs::read(&tape).unwrap();
    std::fs::write(&tape, &whole[..whole.len() - 20]).unwrap();
    refused("t", "is cut off");
    std::fs::write(dir.join("t.partial"), &whole).unwrap();
    refused("t.partial", "it was not completed");
    std::fs::remove_file(dir.join("t.partial")).unwrap();
    for script in ["mkdir out; echo > out/$API_KEY", "mkdir out; ln -s $API_KEY out/link"] {
        succeed(dir, &[&record[..], &["sh", "-c", script]].concat());
        refused("t", "was recorded without a secret");
    }
}

/// Regression: the second piece was on the tape if another process wrote it, or a native program.
#[test]
fn secret_in_pieces_of_several_processes_is_redacted_once_recognised() {
    let folder = scratch();
    let dir = folder.path();
    let (first, second) = ("ghp_0123456789", "abcdefghijklmnopqrstuvwxyz9876543210");
    let twice = format!("sh -c 'printf {first}'; sh -c 'printf {second}'");
    let native = format!("bash -c 'printf {first}; sleep 0.2; printf {second}'");
    let scripts: &[String] = if cfg!(unix) { &[twice, native] } else { &[twice] };
    for script in scripts {
        let args = ["record", "-q", "--tape", "t", "--on-missing", "native", "--", "sh", "-c"];
        let printed = succeed(dir, &[&args[..], &[script]].concat());
        assert_eq!(printed, format!("{first}{second}"));
        let tape = std::fs::read_to_string(dir.join("t")).unwrap();
        let records = tape.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let is_written =
            |record: &Value| record["kind"] == "stream_write" || record["kind"] == "native";
        let written: Vec<String> = records.filter(is_written).map(|it| it.to_string()).collect();
        assert!(written.iter().any(|it| it.contains(first)), "{script}: {written:?}");
        assert!(written.iter().any(|it| it.contains("[redacted]")), "{script}: {written:?}");
        assert!(!written.iter().any(|it| it.contains(second)), "{script}: {written:?}");
    }
}

/// Regression: the run was said to differ.
#[test]
fn replay_with_less_memory_than_the_run_needs_says_so() {
    let folder = scratch();
    let dir = folder.path();
    let script = "x=1; while [ ${#x} -lt 2000000 ]; do x=$x$x; done; echo ${#x}";
    succeed(dir, &["record", "-q", "--tape", "t", "sh", "-c", script]);
    succeed(dir, &["replay", "-q", "t"]);
    let output = call(dir, &["replay", "--max-memory", "3MB", "t"]);
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    let why = "the replay was ended: memory (raise it with --max-memory)";
    assert!(stderr(&output).contains(why), "{}", stderr(&output));
    let output = call(dir, &["replay", "--json", "--max-memory", "3MB", "t"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["equal"], &report["limit"]), (&false.into(), &"memory".into()));
}
