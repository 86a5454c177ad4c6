//! Subprocesses: run, recorded, replayed, and as modules in a machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar::native::{
    FindError, Mismatch, OnMissing, SandboxProfile, SubprocessConfig, SubprocessError,
    SubprocessOutput, SubprocessRequest, SubprocessStatus, Subprocesses,
};
#[cfg(unix)]
use belljar::native::{ProcessTape, TapedBytes};
#[cfg(unix)]
use belljar::tape::TapeError;
use belljar::tape::{MemoryTape, Recorder, Redaction};
use belljar::{HostDir, Machine, Program, ResolveError, Resolved, Toolchains};

use crate::support::{engine, guest};

/// The programs that a session gives to [`Subprocesses`]: the folder's modules, and no built-in
/// ones.
fn find(dir: &Path, name: &str) -> Result<Option<Program>, FindError> {
    match Toolchains::new(vec![dir.to_owned()])?.resolve(name) {
        Ok(Resolved::File(path)) => Ok(Some(Program::load(engine(), path)?)),
        Ok(Resolved::BuiltIn { .. } | Resolved::Described(_))
        | Err(ResolveError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn open(config: SubprocessConfig) -> Subprocesses {
    Subprocesses::open(config, find).unwrap()
}

fn machine() -> Machine {
    Machine::builder().build().unwrap()
}

fn request(words: &[&str]) -> SubprocessRequest {
    let mut request = SubprocessRequest::new(words[0]);
    request.args(&words[1..]);
    request
}

fn replay(tape: &Path) -> Subprocesses {
    open(SubprocessConfig::Replay { tape: tape.to_owned() })
}

const HEADER: &str = r#"{"version":"1.0"}"#;

/// A tape of these lines after the header.
fn tape(folder: &Path, lines: &[&str]) -> PathBuf {
    let path = folder.join("processes.jsonl");
    let text = [&[HEADER], lines].concat().join("\n") + "\n";
    std::fs::write(&path, text).unwrap();
    path
}

fn mismatch(result: Result<SubprocessOutput, SubprocessError>) -> Mismatch {
    match result {
        Err(SubprocessError::Mismatch(mismatch)) => *mismatch,
        other => panic!("{other:?}"),
    }
}

#[cfg(unix)]
mod host {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use belljar::ClockConfig;
    use belljar::tape::Kind;

    use super::*;

    fn sh(script: &str) -> SubprocessRequest {
        request(&["sh", "-c", script])
    }

    fn real(request: &SubprocessRequest) -> SubprocessOutput {
        open(SubprocessConfig::Real).output(request, &mut machine()).unwrap()
    }

    #[test]
    fn recorded_subprocesses_are_replayed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        let path = folder.path().join("processes.jsonl");
        let requests = [
            request(&["cat"]).stdin(&b"in\xff\0put"[..]).clone(),
            sh("printf '%s' \"$GREETING\"; printf '\\377\\000' >&2; exit 7")
                .env("GREETING", "na\u{ef}ve")
                .clone(),
            sh("basename \"$PWD\"").current_dir("sub").clone(),
            sh("kill -9 $$"),
            request(&["cat"]).arg(OsStr::from_bytes(b"/no\xffwhere")).env("LC_ALL", "C").clone(),
        ];
        let mut subprocesses =
            open(SubprocessConfig::Record { tape: path.clone() }).root(folder.path());
        let run = |subprocesses: &mut Subprocesses| -> Vec<SubprocessOutput> {
            let mut machine = machine();
            let run = |request| subprocesses.output(request, &mut machine).unwrap();
            requests.iter().map(run).collect()
        };
        let recorded = run(&mut subprocesses);
        assert!(!path.exists(), "a session writes at its end");
        let entries = subprocesses.finish().unwrap();
        assert_eq!(entries, ProcessTape::load(&path).unwrap().entries);

        assert_eq!(recorded[0].stdout, b"in\xff\0put");
        assert_eq!(recorded[1].stdout, "na\u{ef}ve".as_bytes());
        assert_eq!(recorded[1].stderr, b"\xff\0");
        assert_eq!(recorded[1].status.code(), Some(7));
        assert_eq!(recorded[2].stdout, b"sub\n");
        assert_eq!(recorded[3].status, SubprocessStatus::Signalled(9));
        assert!(!recorded[4].status.success());
        assert_eq!(entries[2].cwd, Some(TapedBytes::from("sub")));
        assert_eq!((entries[3].exit_code, entries[3].signal), (None, Some(9)));

        // The replay needs neither the folder nor the programs.
        let mut again = replay(&path).root("/elsewhere");
        assert_eq!(run(&mut again), recorded);
        assert_eq!(again.calls(), 5);
        assert!(again.finish().unwrap().is_empty());
    }

    #[test]
    fn mebibyte_of_input_and_output_does_not_deadlock() {
        let bytes: Vec<u8> = (0..1u32 << 20).map(|i| (i % 251) as u8).collect();
        let output = real(request(&["cat"]).stdin(bytes.clone()));
        assert!(output.stdout == bytes && output.stderr.is_empty());
        let output = real(sh("tee /dev/stderr").stdin(bytes.clone()));
        assert!(output.stdout == bytes && output.stderr == bytes);
    }

    #[test]
    fn a_program_need_not_read_its_input() {
        let output = real(sh("exec 0<&-; echo done").stdin(vec![b'x'; 1 << 20]));
        assert_eq!(output.stdout, b"done\n");
    }

    #[test]
    fn input_is_empty_unless_given() {
        assert_eq!(real(&request(&["cat"])).stdout, b"");
    }

    #[test]
    fn the_environment_is_inherited_added_to_removed_from_or_cleared() {
        let env = |request: &SubprocessRequest| String::from_utf8(real(request).stdout).unwrap();
        let all = env(request(&["/usr/bin/env"]).env("BELLJAR_A", "1"));
        assert!(all.contains("PATH=") && all.contains("BELLJAR_A=1\n"), "{all}");
        let some = env(request(&["/usr/bin/env"]).env_remove("PATH"));
        assert!(!some.lines().any(|line| line.starts_with("PATH=")), "{some}");
        let own = env(request(&["/usr/bin/env"]).env("A", "0").env_clear().envs([("B", "2")]));
        assert_eq!(own, "B=2\n");
    }

    #[test]
    fn a_program_that_does_not_start_says_why_and_its_replay_says_the_same() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("text"), "no program").unwrap();
        let path = folder.path().join("processes.jsonl");
        let run = |mut subprocesses: Subprocesses| {
            let mut error = |request: &SubprocessRequest| {
                subprocesses.output(request, &mut machine()).unwrap_err()
            };
            let errors = [
                error(&request(&["no-such-program"])),
                error(request(&["cat"]).current_dir("nowhere")),
                error(&request(&["./text"])),
                error(&request(&["cat", "a\0b"])),
            ];
            let calls = subprocesses.finish().unwrap().len();
            assert!(matches!(&errors[0], SubprocessError::NotFound { call: 1, .. }), "{errors:?}");
            assert!(
                matches!(&errors[1], SubprocessError::CurrentDir { call: 2, .. }),
                "{errors:?}"
            );
            let not_allowed = &errors[2];
            assert!(matches!(not_allowed, SubprocessError::PermissionDenied { .. }), "{errors:?}");
            assert!(matches!(&errors[3], SubprocessError::Host { call: 4, .. }), "{errors:?}");
            (calls, errors.map(|error| format!("{:#}", anyhow::Error::from(error))))
        };
        let record = SubprocessConfig::Record { tape: path.clone() };
        let (calls, recorded) = run(open(record).root(folder.path()));
        assert_eq!(calls, 4);
        let failures = ProcessTape::load(&path).unwrap().entries.into_iter().map(|e| e.failure);
        assert!(failures.clone().all(|failure| failure.is_some()), "{failures:?}");
        let (_, replayed) = run(replay(&path).root(folder.path()));
        assert_eq!(replayed, recorded);
    }

    #[test]
    fn a_session_that_is_dropped_leaves_the_old_tape() {
        let folder = tempfile::tempdir().unwrap();
        let path = tape(folder.path(), &[r#"{"program":"old","exit_code":0}"#]);
        let before = std::fs::read(&path).unwrap();
        let mut subprocesses = open(SubprocessConfig::Record { tape: path.clone() });
        subprocesses.output(&request(&["true"]), &mut machine()).unwrap();
        drop(subprocesses);
        assert_eq!(std::fs::read(&path).unwrap(), before);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn secrets_match_on_replay_and_are_nowhere_on_the_tape() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("processes.jsonl");
        let mut subprocesses = open(SubprocessConfig::Record { tape: path.clone() });
        let request = request(&["true"]).env("API_KEY", "hunter2").clone();
        subprocesses.output(&request, &mut machine()).unwrap();
        subprocesses.finish().unwrap();
        assert!(!std::fs::read_to_string(&path).unwrap().contains("hunter2"));
        let mut again = replay(&path);
        again.output(&request, &mut machine()).unwrap();
        let lacks = mismatch_of_unset(&path);
        assert_eq!(lacks.differences[0].field, "env API_KEY");
        assert!(!lacks.to_string().contains("hunter2"));
        again.finish().unwrap();
    }

    fn mismatch_of_unset(path: &Path) -> Mismatch {
        mismatch(replay(path).output(&request(&["true"]), &mut machine()))
    }

    #[test]
    fn native_program_takes_no_time_on_a_paused_clock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("processes.jsonl");
        let mut subprocesses = open(SubprocessConfig::Record { tape: path });
        let mut paused = machine();
        subprocesses.output(&sh("sleep 0.05"), &mut paused).unwrap();
        assert_eq!(paused.elapsed(), Duration::ZERO);
        let mut real = Machine::builder().clock(ClockConfig::Host).build().unwrap();
        subprocesses.output(&sh("sleep 0.05"), &mut real).unwrap();
        let entries = subprocesses.finish().unwrap();
        assert_eq!(entries[0].duration_ms, 0);
        assert!(entries[1].duration_ms >= 50);
    }

    fn taped(config: SubprocessConfig, requests: &[SubprocessRequest]) -> Vec<Kind> {
        let memory = MemoryTape::default();
        let recorder = Recorder::new(memory.clone(), Redaction::default());
        let mut machine = Machine::builder().tape(recorder).build().unwrap();
        let mut subprocesses = open(config);
        for request in requests {
            let _ = subprocesses.output(request, &mut machine);
        }
        subprocesses.finish().unwrap();
        memory.records().into_iter().skip(1).map(|record| record.kind).collect()
    }

    #[test]
    fn native_programs_have_the_same_records_when_replayed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("processes.jsonl");
        let requests = [
            sh("cat; echo bad >&2; exit 3").stdin("in").env("API_KEY", "hunter2").clone(),
            sh("kill -9 $$"),
        ];
        let recorded = taped(SubprocessConfig::Record { tape: path.clone() }, &requests);
        let names: Vec<&str> = recorded.iter().map(Kind::name).collect();
        let expected =
            ["process_spawn", "stream_write", "stream_write", "process_exit", "process_spawn"];
        assert_eq!(names[..5], expected);
        let json = serde_json::to_value(&recorded).unwrap();
        assert_eq!(json[0]["mode"], "native");
        assert_eq!(json[0]["env"][0], "API_KEY=[redacted]");
        assert_eq!(json[0]["stdin_bytes"]["text"], "in");
        assert_eq!((&json[1]["fd"], &json[2]["fd"]), (&1.into(), &2.into()));
        assert_eq!((&json[3]["exit_code"], &json[3]["pid"]), (&3.into(), &1.into()));
        assert_eq!((&json[5]["status"], &json[5]["pid"]), (&"signal_9".into(), &2.into()));
        assert_eq!(taped(SubprocessConfig::Replay { tape: path }, &requests), recorded);

        let missing = taped(SubprocessConfig::Real, &[request(&["no-such-program"])]);
        assert_eq!(serde_json::to_value(&missing[1]).unwrap()["status"], "failed");
    }

    #[test]
    fn program_that_the_machine_tape_cannot_record_is_not_started() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let recorder = Recorder::new(MemoryTape::default(), Redaction::default());
        let mut machine = Machine::builder().tape(recorder.clone()).build().unwrap();
        let mut request = request(&["touch"]);
        request.arg(&mark).arg(folder.path().join(OsStr::from_bytes(b"\xff")));
        let path = folder.path().join("processes.jsonl");
        let mut subprocesses = open(SubprocessConfig::Record { tape: path.clone() });
        let error = subprocesses.output(&request, &mut machine).unwrap_err();
        assert!(matches!(error, SubprocessError::MachineTape { call: 1, .. }), "{error:?}");
        assert!(!mark.exists());
        assert!(matches!(subprocesses.finish(), Err(SubprocessError::OffTape { call: 1, .. })));
        assert!(!path.exists());
        assert!(matches!(recorder.finish(), Err(TapeError::NotText { .. })));
    }

    #[test]
    fn program_missing_in_the_toolchain_is_native_or_refused() {
        let toolchain = toolchain(&["hello"]);
        let config = SubprocessConfig::WasiToolchain { dir: toolchain.path().to_owned() };
        let mut native = open(config.clone());
        assert_eq!(native.output(&sh("echo host"), &mut machine()).unwrap().stdout, b"host\n");
        let refused = |subprocesses: Subprocesses| {
            let mut subprocesses = subprocesses;
            subprocesses.output(&sh("echo host"), &mut machine()).unwrap_err()
        };
        let error = refused(open(config.clone()).on_missing(OnMissing::Deny));
        assert!(matches!(&error, SubprocessError::Missing { call: 1, .. }), "{error:?}");
        let error = refused(open(config).sandbox_profile(SandboxProfile::Wasi).unwrap());
        assert!(matches!(&error, SubprocessError::Denied { call: 1, .. }), "{error:?}");
    }
}

#[test]
fn a_session_moves_between_threads() {
    fn moves<T: Send>() {}
    moves::<Subprocesses>();
}

#[test]
fn each_field_that_differs_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let digest = belljar::Digest::of(b"in");
    let entry = format!(
        r#"{{"program":"cc","args":["-c","a.c"],"cwd":"sub","env":["LANG=C"],"stdin_digest":"{digest}","exit_code":0}}"#
    );
    let path = tape(folder.path(), &[&entry]);
    let asked = || {
        let mut asked = request(&["cc", "-c", "a.c"]);
        asked.current_dir("sub").env("LANG", "C").env("MORE", "1").stdin("in");
        asked
    };
    replay(&path).output(&asked(), &mut machine()).unwrap();
    let mut other_program = request(&["gcc", "-c", "a.c"]);
    other_program.current_dir("sub").env("LANG", "C").stdin("in");
    for (field, tape, found, asked) in [
        ("program", r#""cc""#, r#""gcc""#, &other_program),
        ("args", r#"["-c", "a.c"]"#, r#"["-c", "a.c", "-g"]"#, asked().arg("-g")),
        ("cwd", r#""sub""#, r#""other""#, asked().current_dir("other")),
        ("env LANG", r#""C""#, r#""de""#, asked().env("LANG", "de")),
        ("env LANG", r#""C""#, "not set", asked().env_remove("LANG")),
        ("env LANG", r#""C""#, "not set", asked().env_clear()),
    ] {
        let mismatch = mismatch(replay(&path).output(asked, &mut machine()));
        assert_eq!((mismatch.call, mismatch.line), (1, 2));
        let [difference] = mismatch.differences.as_slice() else { panic!("{mismatch}") };
        let said = (difference.field.as_str(), difference.tape.as_str(), difference.asked.as_str());
        assert_eq!(said, (field, tape, found));
        assert!(mismatch.to_string().contains("record the tape again"), "{mismatch}");
    }
    let stdin = mismatch(replay(&path).output(asked().stdin("on"), &mut machine()));
    assert_eq!(stdin.differences[0].field, "stdin_digest");
}

#[test]
fn a_tape_that_ends_too_early_or_too_late_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let lines = [r#"{"program":"a","exit_code":0}"#, r#"{"program":"b","exit_code":0}"#];
    let path = tape(folder.path(), &lines);
    let mut subprocesses = replay(&path);
    subprocesses.output(&request(&["a"]), &mut machine()).unwrap();
    match subprocesses.finish() {
        Err(SubprocessError::Unconsumed { left: 1, line: 3, first, .. }) => {
            assert_eq!(first, r#""b""#);
        }
        other => panic!("{other:?}"),
    }

    let mut subprocesses = replay(&path);
    for name in ["a", "b"] {
        subprocesses.output(&request(&[name]), &mut machine()).unwrap();
    }
    let error = subprocesses.output(&request(&["c"]), &mut machine()).unwrap_err();
    assert!(matches!(error, SubprocessError::Exhausted { call: 3, entries: 2, .. }), "{error:?}");
    // If the caller ignores that error, `finish` reports it.
    let end = subprocesses.finish();
    assert!(matches!(end, Err(SubprocessError::OffTape { call: 3, .. })), "{end:?}");
}

#[test]
fn ignored_mismatch_is_an_error_at_finish() {
    let folder = tempfile::tempdir().unwrap();
    let path = tape(folder.path(), &[r#"{"program":"a","exit_code":0}"#]);
    let mut subprocesses = replay(&path);
    subprocesses.output(&request(&["x"]), &mut machine()).unwrap_err();
    subprocesses.output(&request(&["a"]), &mut machine()).unwrap();
    let end = subprocesses.finish();
    assert!(matches!(end, Err(SubprocessError::OffTape { call: 1, .. })), "{end:?}");
}

#[test]
fn the_clock_moves_by_the_recorded_duration() {
    let folder = tempfile::tempdir().unwrap();
    let entry = r#"{"program":"make","exit_code":0,"duration_ms":90000}"#;
    let path = tape(folder.path(), &[entry, entry]);
    let mut machine = machine();
    machine.advance(Duration::from_secs(1));
    let mut subprocesses = replay(&path);
    subprocesses.output(&request(&["make"]), &mut machine).unwrap();
    assert_eq!(machine.elapsed(), Duration::from_secs(91));
    subprocesses.output(&request(&["build"]), &mut machine).unwrap_err();
    assert_eq!(machine.elapsed(), Duration::from_secs(91), "a mismatch takes no time");
    subprocesses.output(&request(&["make"]), &mut machine).unwrap();
    assert_eq!(machine.elapsed(), Duration::from_secs(181));
}

#[test]
fn maximum_duration_saturates_the_clock() {
    let folder = tempfile::tempdir().unwrap();
    let entry = format!(r#"{{"program":"p","exit_code":0,"duration_ms":{}}}"#, u64::MAX);
    let path = tape(folder.path(), &[&entry]);
    let mut machine = machine();
    machine.advance(Duration::from_nanos(7));
    replay(&path).output(&request(&["p"]), &mut machine).unwrap();
    assert_eq!(machine.elapsed(), Duration::from_nanos(u64::MAX));
}

fn toolchain(programs: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for program in programs {
        let to = folder.path().join(program).with_extension("wasm");
        std::fs::copy(guest(program), to).unwrap();
    }
    folder
}

#[test]
fn module_uses_the_machines_files_clock_and_random_stream() {
    let toolchain = toolchain(&["env", "cat", "overwrite", "sleeper", "random", "exit", "trap"]);
    let work = tempfile::tempdir().unwrap();
    std::fs::create_dir(work.path().join("sub")).unwrap();
    std::fs::write(work.path().join("sub/note"), "below").unwrap();
    let worktree = HostDir::open(work.path()).unwrap();
    let mut machine = Machine::builder().worktree(worktree).build().unwrap();
    let config = SubprocessConfig::WasiToolchain { dir: toolchain.path().to_owned() };
    let mut subprocesses = open(config).root(work.path()).on_missing(OnMissing::Deny);
    let mut output =
        |request: &SubprocessRequest| subprocesses.output(request, &mut machine).unwrap();

    let env = output(request(&["env", "a"]).env("B", "2").env("A", "1").env_remove("C"));
    let env = String::from_utf8(env.stdout).unwrap();
    assert_eq!(env, "argv[0]=env\nargv[1]=a\nenviron[0]=A=1\nenviron[1]=B=2\n");
    assert_eq!(output(request(&["cat"]).stdin(&b"\xff\0"[..])).stdout, b"\xff\0");
    for dir in [Path::new("sub"), &work.path().join("sub")] {
        assert_eq!(output(request(&["cat", "note"]).current_dir(dir)).stdout, b"below");
    }
    assert!(output(&request(&["overwrite", "write:sub/note:above"])).status.success());
    assert_eq!(output(&request(&["cat", "sub/note"])).stdout, b"above");
    assert_eq!(output(&request(&["sleeper", "60000"])).stdout, b"60000 ms\n");
    let first = output(&request(&["random"]));
    assert_ne!(first, output(&request(&["random"])));
    assert_eq!(output(&request(&["exit", "9"])).status, SubprocessStatus::Exited(9));
    let trap = output(&request(&["trap"])).status;
    assert!(matches!(trap, SubprocessStatus::Stopped(_)) && trap.code().is_none(), "{trap:?}");

    let lost = subprocesses.output(request(&["cat"]).current_dir("nowhere"), &mut machine);
    assert!(matches!(lost, Err(SubprocessError::Run { call: 12, .. })), "{lost:?}");
    assert_eq!(std::fs::read(work.path().join("sub/note")).unwrap(), b"below");
    assert_eq!(machine.elapsed(), Duration::from_mins(1));
    assert!(subprocesses.finish().unwrap().is_empty());
}

#[test]
fn program_name_with_a_path_is_refused_and_never_native() {
    let toolchain = toolchain(&["hello"]);
    std::fs::copy(guest("hello"), toolchain.path().join("native.cwasm")).unwrap();
    std::fs::create_dir(toolchain.path().join("sub")).unwrap();
    std::fs::copy(guest("hello"), toolchain.path().join("sub/hello.wasm")).unwrap();
    std::fs::write(toolchain.path().join("bad.wasm"), "no module").unwrap();
    let config = SubprocessConfig::WasiToolchain { dir: toolchain.path().to_owned() };
    let mut subprocesses = open(config).on_missing(OnMissing::Native);
    for name in [
        "",
        ".",
        "..",
        "../hello",
        "sub/hello",
        "sub\\hello",
        "/bin/sh",
        "C:hello",
        "hello\0",
        "native",
        "bad",
    ] {
        let error = subprocesses.output(&request(&[name]), &mut machine()).unwrap_err();
        assert!(matches!(error, SubprocessError::Refused { .. }), "{name:?}: {error:?}");
    }
    let hello = subprocesses.output(&request(&["hello"]), &mut machine()).unwrap();
    assert_eq!(hello.stdout, b"hello, world\n");
}

#[test]
fn modules_and_calls_of_one_session_are_on_one_tape() {
    let toolchain = toolchain(&["hello"]);
    let memory = MemoryTape::default();
    let recorder = Recorder::new(memory.clone(), Redaction::default());
    let mut machine = Machine::builder().tape(recorder).build().unwrap();
    let config = SubprocessConfig::WasiToolchain { dir: toolchain.path().to_owned() };
    open(config).output(&request(&["hello"]), &mut machine).unwrap();
    let records = serde_json::to_value(memory.records()).unwrap();
    let spawns: Vec<&str> = records
        .as_array()
        .unwrap()
        .iter()
        .filter(|record| record["kind"] == "process_spawn")
        .map(|record| record["mode"].as_str().unwrap())
        .collect();
    assert_eq!(spawns, ["wasi"], "once, by the machine");
}

#[test]
fn wasi_profile_runs_no_native_program() {
    let mut wasi = open(SubprocessConfig::Real).sandbox_profile(SandboxProfile::Wasi).unwrap();
    let denied = wasi.output(&request(&["cat"]), &mut machine());
    assert!(matches!(denied, Err(SubprocessError::Denied { call: 1, .. })), "{denied:?}");
}

fn refused(config: SubprocessConfig) -> SubprocessError {
    Subprocesses::open(config, find).map(|_| ()).unwrap_err()
}

#[test]
fn missing_tape_or_toolchain_fails_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let error = refused(SubprocessConfig::WasiToolchain { dir: missing.clone() });
    assert!(matches!(error, SubprocessError::Folder(_)), "{error:?}");
    let error = refused(SubprocessConfig::Record { tape: missing.join("processes.jsonl") });
    assert!(matches!(error, SubprocessError::Folder(_)), "{error:?}");
    let error = refused(SubprocessConfig::Replay { tape: missing });
    assert!(error.to_string().contains("missing"), "{error}");
    let file = tape(folder.path(), &[]);
    let error = refused(SubprocessConfig::WasiToolchain { dir: file });
    assert!(matches!(error, SubprocessError::Folder(_)), "{error:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
