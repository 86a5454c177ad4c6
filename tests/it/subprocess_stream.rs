//! Spawned subprocesses: streams, timeouts, limits, and several at once.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[cfg(unix)]
use belljar::native::SubprocessError;
use belljar::native::{SubprocessInput, SubprocessStatus, SubprocessStdio};
#[cfg(unix)]
use belljar::testbench::TestbenchError;
use belljar::testbench::{Testbench, TestbenchBuilder, TestbenchSession};

use crate::support::{engine, guest};

fn begin(builder: TestbenchBuilder) -> TestbenchSession {
    builder.build().activate().unwrap()
}

#[cfg(unix)]
fn subprocess_error<T: std::fmt::Debug>(result: Result<T, TestbenchError>) -> SubprocessError {
    match result {
        Err(TestbenchError::Subprocess(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn toolchain() -> PathBuf {
    guest("hello").parent().unwrap().to_owned()
}

fn modules(folder: &Path) -> TestbenchSession {
    begin(Testbench::builder().fs_overlay(folder).wasi_toolchain(toolchain()).engine(engine()))
}

#[test]
fn module_streams_its_output_and_reads_piped_input() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = modules(folder.path());
    let mut hello = session.command("hello").spawn().unwrap();
    let mut text = String::new();
    hello.stdout.as_mut().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), hello.host_id()), ("hello, world\n", None));
    assert_eq!(hello.try_wait(&mut session).unwrap(), Some(SubprocessStatus::Exited(0)));

    let mut cat = session.command("cat").stdin(SubprocessInput::Piped).spawn().unwrap();
    assert_eq!(cat.id(), 2);
    let early = cat.stdout.as_mut().unwrap().read(&mut [0; 8]).unwrap_err();
    assert_eq!(early.kind(), std::io::ErrorKind::WouldBlock);
    cat.stdin.as_mut().unwrap().write_all(b"\xffpiped").unwrap();
    assert_eq!(cat.wait_with_output(&mut session).unwrap().stdout, b"\xffpiped");

    let mut killed = session.command("cat").stdin(SubprocessInput::Piped).spawn().unwrap();
    killed.kill().unwrap();
    assert_eq!(killed.wait(&mut session).unwrap(), SubprocessStatus::Signalled(9));
    let quiet = session.command("hello").stdout(SubprocessStdio::Null).output().unwrap();
    assert!(quiet.status.success() && quiet.stdout.is_empty());
}

#[test]
fn a_module_is_ended_by_its_timeout_and_the_next_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = modules(folder.path());
    let endless = session.command("loop").timeout(Duration::from_millis(50)).output().unwrap();
    assert!(endless.status.timed_out(), "{endless:?}");
    assert!(session.command("hello").output().unwrap().status.success());
}

#[cfg(unix)]
mod host {
    use super::*;

    fn sh<'a>(
        session: &'a mut TestbenchSession,
        script: &str,
    ) -> belljar::testbench::SessionCommand<'a> {
        let mut command = session.command("sh");
        command.args(["-c", script]);
        command
    }

    /// Runs `act` in a session that records, and in one that replays the tape without the programs.
    fn recorded_and_replayed<T: PartialEq + std::fmt::Debug>(
        act: impl Fn(&mut TestbenchSession) -> T,
    ) -> T {
        let folder = tempfile::tempdir().unwrap();
        let tape = folder.path().join("processes.jsonl");
        let run = |builder: TestbenchBuilder| {
            let mut session = begin(builder.paused_clock_at_ms(0));
            let done = act(&mut session);
            session.finalize().unwrap();
            done
        };
        let recorded = run(Testbench::builder().record_subprocesses(&tape));
        let replayed = run(Testbench::builder().replay_subprocesses(&tape));
        assert_eq!(recorded, replayed, "{}", std::fs::read_to_string(tape).unwrap());
        recorded
    }

    #[test]
    fn a_conversation_is_recorded_and_replayed() {
        let said = recorded_and_replayed(|session| {
            let script = "while read line; do echo \"<$line>\"; done; echo bye >&2; exit 4";
            let mut child = sh(session, script).stdin(SubprocessInput::Piped).spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            let mut stdout = child.stdout.take().unwrap();
            let mut answers = Vec::new();
            for line in ["one\n", "two\n"] {
                stdin.write_all(line.as_bytes()).unwrap();
                let mut answer = [0; 6];
                stdout.read_exact(&mut answer).unwrap();
                answers.push(answer);
            }
            drop(stdin);
            let mut stderr = String::new();
            child.stderr.as_mut().unwrap().read_to_string(&mut stderr).unwrap();
            let status = child.wait(session).unwrap();
            assert_eq!(child.wait(session).unwrap(), status, "a second time the same");
            (answers, stderr, status)
        });
        let answers = vec![*b"<one>\n", *b"<two>\n"];
        assert_eq!(said, (answers, "bye\n".to_owned(), SubprocessStatus::Exited(4)));
    }

    /// On Linux it ends with the thread of belljar that started it, which must not be the caller's.
    #[test]
    fn program_outlives_the_thread_that_called_spawn() {
        let mut session = begin(Testbench::builder());
        let child = std::thread::scope(|scope| {
            let start = || sh(&mut session, "sleep 0.3; echo done").spawn().unwrap();
            scope.spawn(start).join().unwrap()
        });
        let output = child.wait_with_output(&mut session).unwrap();
        assert_eq!((output.stdout, output.status), (b"done\n".into(), SubprocessStatus::Exited(0)));
    }

    #[test]
    fn other_piped_input_than_was_recorded_is_a_mismatch() {
        let folder = tempfile::tempdir().unwrap();
        let tape = folder.path().join("processes.jsonl");
        let say = |session: &mut TestbenchSession, text: &[u8]| {
            let mut cat = session.command("cat").stdin(SubprocessInput::Piped).spawn().unwrap();
            cat.stdin.as_mut().unwrap().write_all(text).unwrap();
            cat.wait_with_output(session)
        };
        let mut session = begin(Testbench::builder().record_subprocesses(&tape));
        assert_eq!(say(&mut session, b"in").unwrap().stdout, b"in");
        session.finalize().unwrap();
        let mut session = begin(Testbench::builder().replay_subprocesses(&tape));
        let error = subprocess_error(say(&mut session, b"on"));
        assert!(error.to_string().contains("stdin_digest"), "{error}");
        let end = subprocess_error(session.finalize());
        assert!(matches!(end, SubprocessError::OffTape { call: 1, .. }), "{end}");
    }

    #[test]
    fn concurrent_programs_are_on_the_tape_in_start_order() {
        let done = recorded_and_replayed(|session| {
            let script = "cat; echo first";
            let mut first = sh(session, script).stdin(SubprocessInput::Piped).spawn().unwrap();
            let second = sh(session, "echo second").spawn().unwrap();
            let second = second.wait_with_output(session).unwrap().stdout;
            drop(first.stdin.take());
            (first.id(), first.wait_with_output(session).unwrap().stdout, second)
        });
        assert_eq!(done, (1, b"first\n".to_vec(), b"second\n".to_vec()));
    }

    /// Regression: a tape with such a call was written, but could not be read.
    #[test]
    fn a_variable_without_a_name_is_refused_and_the_tape_stays_readable() {
        let (message, output) = recorded_and_replayed(|session| {
            let nameless = session.command("env").env("", "x").output();
            let output = session.command("echo").output().unwrap();
            (subprocess_error(nameless).to_string(), output)
        });
        assert!(message.contains("subprocess call 1") && output.stdout == b"\n", "{message}");
    }

    /// Neither stream is read, and both pipes hold far less than the output.
    #[test]
    fn two_full_pipes_do_not_deadlock() {
        let mut session = begin(Testbench::builder());
        let script = "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2";
        let mut child = sh(&mut session, script).spawn().unwrap();
        assert!(child.wait(&mut session).unwrap().success());
        let output = child.wait_with_output(&mut session).unwrap();
        assert_eq!((output.stdout.len(), output.stderr.len()), (3_000_000, 3_000_000));
    }

    #[test]
    fn program_that_exceeds_its_output_limit_is_killed_and_replayed() {
        let message = recorded_and_replayed(|session| {
            let mut endless = sh(session, "cat /dev/zero");
            let error = subprocess_error(endless.output_bytes_max(100_000).output());
            assert!(matches!(error, SubprocessError::OutputLimit { limit_bytes: 100_000, .. }));
            let mut lost = sh(session, "head -c 200000 /dev/zero");
            let lost = lost.output_bytes_max(10).stdout(SubprocessStdio::Null).status();
            assert!(lost.unwrap().success(), "what is thrown away is not counted");
            error.to_string()
        });
        assert!(message.contains("more than 100000 bytes"), "{message}");
    }

    /// The program's child would outlive the program.
    #[test]
    fn timeout_kills_the_process_group_and_keeps_the_output() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let script = format!("(sleep 0.6; echo > {}) & echo begun; sleep 60", mark.display());
        let output = recorded_and_replayed(|session| {
            sh(session, &script).timeout(Duration::from_millis(200)).output().unwrap()
        });
        assert!(output.status.timed_out(), "{output:?}");
        assert_eq!((output.status.code(), output.stdout), (None, b"begun\n".to_vec()));
        std::thread::sleep(Duration::from_secs(1));
        assert!(!mark.exists());
    }

    #[test]
    fn timeout_applies_while_only_children_keep_the_streams_open() {
        let mut session = begin(Testbench::builder());
        let mut command = sh(&mut session, "sleep 60 & echo left");
        let output = command.timeout(Duration::from_millis(200)).output().unwrap();
        assert!(output.status.timed_out() && output.stdout == b"left\n", "{output:?}");
    }

    #[test]
    fn kill_is_reported_and_replayed() {
        let (before, after) = recorded_and_replayed(|session| {
            let mut child = sh(session, "echo up; sleep 60 & wait").spawn().unwrap();
            let mut up = [0; 3];
            child.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
            child.kill().unwrap();
            let status = child.wait(session).unwrap();
            child.kill().unwrap();
            (up, status)
        });
        assert_eq!((before, after), (*b"up\n", SubprocessStatus::Signalled(9)));
    }

    /// Whether this machine has `program`; prints a message if not.
    fn has(program: &str) -> bool {
        let found = std::process::Command::new(program).arg("--version").output().is_ok();
        if !found {
            eprintln!("skipped: no {program}");
        }
        found
    }

    /// If it could, its own process group would be empty, and a signal to that group would reach no process.
    #[test]
    fn program_cannot_leave_its_process_group_and_is_killed() {
        if !has("perl") {
            return;
        }
        let script = "$| = 1; setpgrp(0, getpgrp(getppid())) and die; print 'over'; sleep 60";
        let mut session = begin(Testbench::builder());
        let start = |session: &mut TestbenchSession| {
            let mut child = session.command("perl").args(["-e", script]).spawn().unwrap();
            child.stdout.as_mut().unwrap().read_exact(&mut [0; 4]).unwrap();
            child
        };
        let mut killed = start(&mut session);
        killed.kill().unwrap();
        assert_eq!(killed.wait(&mut session).unwrap(), SubprocessStatus::Signalled(9));

        let dropped = start(&mut session);
        let id = rustix::process::Pid::from_raw(dropped.host_id().unwrap().cast_signed()).unwrap();
        drop(dropped);
        assert!(rustix::process::test_kill_process(id).is_err(), "it is gone");

        let mut late = session.command("perl");
        let late = late.args(["-e", script]).timeout(Duration::from_secs(1)).output().unwrap();
        assert!(late.status.timed_out() && late.stdout == b"over", "{late:?}");
    }

    #[test]
    fn kill_does_not_wait_for_detached_grandchild() {
        if !has("setsid") {
            return;
        }
        let mut session = begin(Testbench::builder());
        let script = "setsid sh -c 'echo left; exec sleep 20' & wait";
        let mut child = sh(&mut session, script).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
        child.kill().unwrap();
        assert_eq!(child.wait(&mut session).unwrap(), SubprocessStatus::Signalled(9));
    }

    #[test]
    fn try_wait_returns_at_once() {
        let mut session = begin(Testbench::builder());
        let mut child = session.command("cat").stdin(SubprocessInput::Piped).spawn().unwrap();
        assert!(child.host_id().is_some());
        assert_eq!(child.try_wait(&mut session).unwrap(), None);
        drop(child.stdin.take());
        let mut end = Vec::new();
        child.stdout.as_mut().unwrap().read_to_end(&mut end).unwrap();
        assert_eq!(child.wait(&mut session).unwrap(), SubprocessStatus::Exited(0));
        assert_eq!(child.try_wait(&mut session).unwrap(), Some(SubprocessStatus::Exited(0)));
        assert_eq!(child.host_id(), None);
    }

    #[test]
    fn program_without_wait_is_killed_and_reported_at_finalize() {
        let folder = tempfile::tempdir().unwrap();
        let tape = folder.path().join("processes.jsonl");
        let mut session = begin(Testbench::builder().record_subprocesses(&tape));
        let child = sh(&mut session, "sleep 60").spawn().unwrap();
        let id = rustix::process::Pid::from_raw(child.host_id().unwrap().cast_signed()).unwrap();
        drop(child);
        assert!(rustix::process::test_kill_process(id).is_err(), "it is gone");
        let error = subprocess_error(session.finalize());
        assert!(matches!(error, SubprocessError::Unwaited { call: 1, .. }), "{error}");
        assert!(!tape.exists());
    }
}
