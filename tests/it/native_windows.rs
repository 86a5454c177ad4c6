//! Native programs on Windows: `cmd`, its scripts, and belljar itself as a program of the host.
#![cfg(windows)]

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use belljar::Machine;
use belljar::native::{SubprocessConfig, SubprocessRequest, SubprocessStatus, Subprocesses};

use crate::support::console::path_with_belljar;
use crate::support::{cache_dir, guest, home_dir, stderr, stdout, tree};

/// `belljar` with these arguments in `folder`, where `belljar` and the scripts of `folder` are native programs, too.
fn command(folder: &Path, args: &[&str]) -> Command {
    let folders = std::env::split_paths(&path_with_belljar()).collect::<Vec<_>>();
    let path = std::env::join_paths([folder.to_owned()].into_iter().chain(folders)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
    command.args(args).current_dir(folder).env("PATH", path).stdin(Stdio::null());
    command.env("BELLJAR_CACHE_DIR", cache_dir()).env("BELLJAR_HOME", home_dir());
    command
}

fn call(folder: &Path, args: &[&str]) -> Output {
    command(folder, args).output().unwrap()
}

/// Runs a script in which programs that are no modules are native.
fn sh(folder: &Path, script: &str) -> Output {
    call(folder, &["sh", "--quiet", "--on-missing", "native", "-c", script])
}

#[test]
fn native_program_has_the_streams_and_the_exit_code_of_a_program() {
    let folder = tempfile::tempdir().unwrap();
    let output = sh(folder.path(), "printf 'b\\na\\n' | belljar sh -c 'sort; exit 3'; echo $?");
    assert_eq!(stdout(&output), "a\nb\n3\n", "{}", stderr(&output));
    let output = sh(folder.path(), "belljar sh -c 'echo out; echo err >&2' | tr a-z A-Z");
    assert_eq!((&*stdout(&output), &*stderr(&output)), ("OUT\n", "err\n"));
    let output = sh(folder.path(), "cmd /d /c 'exit 7'");
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let output = sh(folder.path(), "no-such-program-anywhere");
    assert_eq!(output.status.code(), Some(127), "{}", stderr(&output));
}

/// `cmd` finds programs by the extensions in `PATHEXT`, and so does belljar.
#[test]
fn script_of_cmd_is_found_by_its_name_without_the_extension() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("greet.cmd"), "@echo off\r\necho hello, %1\r\n").unwrap();
    for name in ["greet", "greet.cmd", "GREET"] {
        let output = sh(folder.path(), &format!("{name} jar"));
        assert_eq!(stdout(&output).trim_end(), "hello, jar", "{name}: {}", stderr(&output));
    }
}

/// Without `SystemRoot`, most programs of Windows do not start.
#[test]
fn native_program_has_what_windows_needs_and_not_the_rest_of_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let words = "echo %SystemRoot%,%ComSpec%,%TEMP%,%PATHEXT%,%BELLJAR_HOME%,%OWN%";
    let script = format!("cmd /d /c '{words}'");
    let options = ["-q", "--on-missing", "native", "--env", "OWN=1"];
    let of_script = [&["sh"], &options[..], &["-c", &script]].concat();
    let alone = [&["run"], &options[..], &["cmd", "/d", "/c", words]].concat();
    for command in [&of_script[..], &alone] {
        let output = call(folder.path(), command);
        let printed = stdout(&output);
        let values: Vec<&str> = printed.trim_end().split(',').collect();
        for (name, value) in ["SystemRoot", "ComSpec", "TEMP", "PATHEXT"].iter().zip(&values) {
            assert_eq!(*value, std::env::var(name).unwrap(), "{name}: {}", stderr(&output));
        }
        assert_eq!(values[4..], ["%BELLJAR_HOME%", "1"], "{}", stderr(&output));
    }
}

#[test]
fn native_program_is_recorded_once_and_replayed_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let (work, tape) = (folder.path().join("work"), folder.path().join("tape"));
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join("in.txt"), "one\r\n").unwrap();
    let tape = tape.to_str().unwrap();
    let script = ["cmd", "/d", "/c", "copy in.txt out.txt >nul & del in.txt & echo done"];
    let recorded = call(&work, &[&["native", "--quiet", "--tape", tape], &script[..]].concat());
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    let after = tree(&work);
    assert_eq!(after.keys().collect::<Vec<_>>(), ["out.txt"]);
    std::fs::remove_file(work.join("out.txt")).unwrap();
    std::fs::write(work.join("in.txt"), "one\r\n").unwrap();
    let replay = ["native", "--quiet", "--replay", "--apply", "--tape", tape];
    let mut replayed = command(&work, &[&replay[..], &script].concat());
    // Not even `cmd` is there.
    let replayed = replayed.env("PATH", "").output().unwrap();
    assert!(replayed.status.success(), "{}", stderr(&replayed));
    assert_eq!(stdout(&replayed), stdout(&recorded));
    assert_eq!(tree(&work), after, "{}", stderr(&replayed));
}

/// The program and what it started end together, at the timeout, as a job.
#[test]
fn timeout_ends_a_native_program_with_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let module = guest("loop");
    let script = format!(
        "cmd /d /c 'belljar record --quiet --tape endless {}'",
        module.to_str().unwrap().replace('\\', "/")
    );
    let started = Instant::now();
    let run = ["sh", "--quiet", "--timeout", "5s", "--on-missing", "native", "-c", &script];
    let output = call(folder.path(), &run);
    assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
    assert!(started.elapsed() < Duration::from_mins(1));
    // As long as it records, nobody else opens its tape for writing.
    let partial = folder.path().join("endless.partial");
    assert!(partial.exists(), "it was started: {:?}", tree(folder.path()));
    let is_free = || std::fs::File::options().append(true).open(&partial).is_ok();
    let ended = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        is_free()
    });
    assert!(ended, "belljar, which cmd started, still runs");
}

#[test]
fn subprocesses_of_the_library_are_recorded_and_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let tape = folder.path().join("processes.jsonl");
    let find = |_: &Path, _: &str| Ok(None);
    let mut asked = SubprocessRequest::new("cmd");
    asked.args(["/d", "/c", "echo %GREETING%& exit 4"]).env("GREETING", "na\u{ef}ve");
    let run = |config: SubprocessConfig| {
        let mut subprocesses = Subprocesses::open(config, find).unwrap().root(folder.path());
        let mut machine = Machine::builder().build().unwrap();
        let output = subprocesses.output(&asked, &mut machine).unwrap();
        subprocesses.finish().unwrap();
        output
    };
    let recorded = run(SubprocessConfig::Record { tape: tape.clone() });
    assert_eq!(recorded.status, SubprocessStatus::Exited(4));
    assert!(recorded.stdout.ends_with(b"ve\r\n"), "{:?}", recorded.stdout);
    assert_eq!(run(SubprocessConfig::Replay { tape }), recorded);
}
