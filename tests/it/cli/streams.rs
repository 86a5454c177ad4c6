//! Pipes and devices in place of files: no command blocks on them or reads them endlessly.
#![cfg(unix)]

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use crate::cli::scratch;
use crate::support::{belljar, stderr};

/// The output of `args`, which must end within one minute.
fn call(folder: &Path, args: &[&str]) -> Output {
    let mut command = belljar(folder);
    command.args(args).env("BELLJAR_HOME", folder.join(".home"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_mins(1) {
            child.kill().unwrap();
            panic!("{args:?} waits");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

fn make_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

#[test]
fn pipes_and_devices_are_refused_without_blocking() {
    let folder = scratch();
    let dir = folder.path();
    make_pipe(&dir.join("pipe"));
    make_pipe(&dir.join("pipe.wasm"));
    let no_reader = "the pipe has no reader";
    let no_file = "not a regular file but a pipe or a device";
    let cases: &[(&[&str], i32, &str)] = &[
        (&["run", "--json=pipe", "wc", "note.txt"], 2, no_reader),
        (&["run", "--diff=pipe", "wc", "note.txt"], 2, no_reader),
        (&["run", "--trace=pipe", "wc", "note.txt"], 2, no_reader),
        (&["sh", "--json=pipe", "-c", ":"], 2, no_reader),
        (&["run", "./pipe.wasm"], 126, no_file),
        (&["run", "./pipe"], 126, no_file),
        (&["run", "/dev/zero"], 126, no_file),
        (&["record", "--tape", "pipe", "wc", "note.txt"], 2, "not a regular file"),
        (&["replay", "pipe"], 2, no_file),
        (&["replay", "/dev/zero"], 2, no_file),
        (&["tape", "show", "pipe"], 2, no_file),
        (&["tape", "stat", "/dev/zero"], 2, no_file),
        (&["diff", "pipe"], 2, no_file),
        (&["apply", "/dev/zero"], 2, no_file),
        (&["fidelity", "pipe", "/dev/zero"], 2, no_file),
        (&["host", "call", "workspace.cwd", "--params", "@/dev/zero"], 2, no_file),
        (&["host", "call", "workspace.cwd", "--params", "@pipe"], 2, no_file),
        (&["run", "--host-policy", "/dev/zero", "wc"], 2, no_file),
        (&["run", "--host-answers", "pipe", "wc"], 2, no_file),
        (&["sandbox", "create", "--host-policy", "pipe"], 2, no_file),
        (&["sandbox", "exec", "--json=pipe", "box", "wc", "note.txt"], 2, no_reader),
        (&["sandbox", "exec", "--host-answers", "/dev/zero", "box", "wc"], 2, no_file),
        (&["native", "--tape", "pipe", "true"], 2, "not a regular file"),
    ];
    let created = call(dir, &["sandbox", "create", "--id", "box"]);
    assert!(created.status.success(), "{}", stderr(&created));
    for (args, code, words) in cases {
        let output = call(dir, args);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {message}");
        assert!(message.contains(words), "{args:?}: {message}");
    }
    // Annotations are in a file beside the tape.
    let recorded = call(dir, &["record", "-q", "--tape", "run", "wc", "note.txt"]);
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    let annotations = dir.join("run.annotations.jsonl");
    for file in ["pipe", "/dev/zero"] {
        std::os::unix::fs::symlink(file, &annotations).unwrap();
        for args in [&["annotations", "validate", "run"][..], &["tape", "show", "run"]] {
            let message = stderr(&call(dir, args));
            assert!(message.contains(no_file), "{args:?}: {message}");
        }
        std::fs::remove_file(&annotations).unwrap();
    }
}

/// The files are sparse, and nothing of them is read.
#[test]
fn files_beyond_their_size_limits_are_refused_by_the_limit() {
    let folder = scratch();
    let dir = folder.path();
    for name in ["huge", "huge.wasm"] {
        std::fs::File::create(dir.join(name)).unwrap().set_len(1 << 40).unwrap();
    }
    for (args, code, words) in [
        (&["run", "./huge.wasm"][..], 126, "is too large for a module"),
        (&["host", "call", "workspace.cwd", "--params", "@huge"], 2, "is larger than"),
        (&["run", "--host-policy", "huge", "wc"], 2, "exceeds the limit of"),
        (&["run", "--host-answers", "huge", "wc"], 2, "exceeds the limit of"),
    ] {
        let output = call(dir, args);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
        assert!(message.contains("huge") && message.contains(words), "{args:?}: {message}");
    }
}

#[test]
fn report_can_be_written_to_a_pipe_with_a_reader() {
    let folder = scratch();
    let pipe = folder.path().join("pipe");
    make_pipe(&pipe);
    let reader = std::thread::spawn(move || std::fs::read_to_string(pipe).unwrap());
    // Writing fails until the reader has opened the pipe.
    let begun = Instant::now();
    loop {
        let output = call(folder.path(), &["run", "--json=pipe", "wc", "note.txt"]);
        if output.status.success() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{}", stderr(&output));
    }
    assert!(reader.join().unwrap().starts_with("{\"status\":\"exited\""));
}

/// Regression: the comparison of a file of 700 MB went on after the timeout.
#[test]
fn a_diff_ends_with_the_timeout() {
    let folder = scratch();
    let dir = folder.path();
    let big = std::fs::File::create(dir.join("big")).unwrap();
    big.set_len(700 << 20).unwrap();
    let begun = Instant::now();
    let args =
        ["sh", "--timeout", "500ms", "--diff=../d.patch", "--json=../r.json", "-c", "rm big"];
    let work = dir.join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::rename(dir.join("big"), work.join("big")).unwrap();
    let output = call(&work, &args);
    // A fast host may finish the comparison within the timeout.
    if output.status.code() != Some(0) {
        assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
        assert!(stderr(&output).contains("its changes were not found in time: timeout"));
        assert!(std::fs::read_to_string(dir.join("r.json")).unwrap().contains("\"timed_out\""));
    }
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert!(work.join("big").exists());
}

/// A relative path would name another directory in each current directory, perhaps one that programs can write to.
#[test]
fn relative_home_is_refused() {
    let folder = scratch();
    for args in [&["run", "wc", "note.txt"][..], &["sandbox", "list"], &["cache", "info"]] {
        let mut command = belljar(folder.path());
        command.args(args).env("HOME", "here");
        for name in ["BELLJAR_CACHE_DIR", "BELLJAR_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"] {
            command.env_remove(name);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(
            stderr(&output).contains("is not an absolute path: set HOME"),
            "{}",
            stderr(&output)
        );
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
