//! Sessions of a testbench: they share nothing, and leave only the files that they were asked for.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use belljar::Digest;
use belljar::llm::{FakeLlmProvider, FakeStep, LlmProvider, LlmRequest, Message};
use belljar::tape::{
    ClockLeak, ClockLeakKind, FidelityMode, Kind, MemoryTape, Recorder, Redaction, Tape, TapeError,
    compare,
};
use belljar::testbench::{ClockHandle, Testbench, TestbenchError, TestbenchSession, replay};
use belljar::{HostDir, Input, Limits, Machine, Module, Program};

use crate::support::benches::{hermetic, toolchain, worktree};
use crate::support::{engine, guest, stderr, stdout};

/// Set if a test runs alone in a process.
const ALONE: &str = "BELLJAR_TEST_ALONE";

/// Runs the test `name` again, alone in a process with these variables and one thread for tests.
fn run_alone(name: &str, variables: &[(&str, &str)]) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--test-threads=1"])
        .env(ALONE, "1")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let printed = stdout(&output);
    assert!(output.status.success(), "{variables:?}: {printed}{}", stderr(&output));
    assert!(printed.contains("1 passed"), "{name} is no test: {printed}");
}

fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn ask(text: &str) -> LlmRequest {
    LlmRequest::new("small", vec![Message::new("user", text)])
}

fn fake(clock: ClockHandle, answer: &str) -> Box<dyn LlmProvider> {
    let steps = [FakeStep::Delay(Duration::from_millis(40)), FakeStep::Token(answer.to_owned())];
    Box::new(FakeLlmProvider::new(Arc::new(Mutex::new(clock))).script(steps))
}

/// One of many sessions, each of which differs from all others in every setting.
struct Numbered {
    number: i64,
    session: TestbenchSession,
}

impl Numbered {
    fn begin(number: i64, worktree: &Path, outputs: &Path) -> Self {
        let bench = hermetic(worktree)
            .paused_clock_at_ms(number * 1_000_000)
            .seed(number.unsigned_abs())
            .allow_network([format!("host{number}.example.com").parse().unwrap()])
            .record_llm(outputs.join(format!("{number}.llm.jsonl")))
            .emit_tape_for(
                outputs.join(format!("{number}.tape")),
                format!("script{number}"),
                vec![number.to_string()],
            )
            .build();
        Self { number, session: bench.activate().unwrap() }
    }

    fn write(&mut self) {
        let step = format!("write:note.txt:{}", self.number);
        assert!(self.session.command("overwrite").arg(step).status().unwrap().success());
        for _ in 0..self.number % 3 {
            self.session.clock().wall_now(&format!("leak{}", self.number));
        }
        self.session.clock().advance(Duration::from_millis(7)).unwrap();
    }

    /// Checks the session; returns its random bytes.
    fn check(&mut self) -> Vec<u8> {
        let Self { number, session } = self;
        let output = session.command("cat").arg("note.txt").output().unwrap();
        assert_eq!(output.stdout, number.to_string().into_bytes());
        for other in 0..33 {
            let url = format!("https://host{other}.example.com/");
            assert_eq!(session.check_egress("test", &url).is_ok(), other == *number, "{url}");
        }
        let clock = session.clock();
        assert_eq!(clock.now_ms(), *number * 1_000_000 + 7);
        let answer = format!("answer {number}");
        let mut llm = session.llm(|| fake(clock.clone(), &answer));
        assert_eq!(llm.complete(&ask(&format!("question {number}"))).unwrap().content, answer);
        assert_eq!(clock.monotonic_ms(), 47);
        session.command("random").output().unwrap().stdout
    }

    fn end(self, outputs: &Path) {
        let Self { number, session } = self;
        let finalized = session.finalize().unwrap();
        let path = outputs.join(format!("{number}.tape"));
        let expected = match number % 3 {
            0 => Vec::new(),
            count => vec![ClockLeak {
                capability_id: format!("leak{number}"),
                kind: ClockLeakKind::Wall,
                count: count.unsigned_abs(),
            }],
        };
        assert_eq!(finalized.clock_leaks, expected);
        let changed: Vec<_> = finalized.fs_diff.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(changed, ["note.txt"]);
        let tape = Tape::load(&path).unwrap();
        assert_eq!(finalized.tape.unwrap().records, tape.records.len() as u64);
        assert_eq!(tape.header.started_at_unix_ms, number * 1_000_000);
        assert_eq!(tape.header.script_path, Some(format!("script{number}")));
        assert_eq!(tape.header.argv, [number.to_string()]);
        let fixture = outputs.join(format!("{number}.llm.jsonl"));
        let fixture = std::fs::read_to_string(fixture).unwrap();
        assert!(fixture.lines().count() == 2 && fixture.contains(&format!("question {number}")));
    }
}

/// All sessions reach the same step at the same time, four on each of eight threads.
#[test]
fn thirty_two_concurrent_sessions_behave_as_each_alone() {
    const THREADS: i64 = 8;
    const EACH: i64 = 4;
    let folder = worktree();
    let (together, alone) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let barrier = Barrier::new(THREADS.unsigned_abs() as usize);
    let chance: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let thread = |thread: i64| {
            let (folder, outputs, barrier) = (folder.path(), together.path(), &barrier);
            scope.spawn(move || {
                let begin = |each| Numbered::begin(thread + THREADS * each, folder, outputs);
                let mut sessions: Vec<_> = (0..EACH).map(begin).collect();
                barrier.wait();
                sessions.iter_mut().for_each(Numbered::write);
                barrier.wait();
                let chance: Vec<_> = sessions.iter_mut().rev().map(Numbered::check).collect();
                barrier.wait();
                for session in sessions {
                    session.end(outputs);
                }
                chance
            })
        };
        let threads: Vec<_> = (0..THREADS).map(thread).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(chance.iter().collect::<BTreeSet<_>>().len(), 32, "the same chance in two");
    assert_eq!(std::fs::read(folder.path().join("note.txt")).unwrap(), b"below\n");
    for number in 0..THREADS * EACH {
        let mut session = Numbered::begin(number, folder.path(), alone.path());
        session.write();
        session.check();
        session.end(alone.path());
        let tape = |folder: &Path| folder.join(format!("{number}.tape"));
        let (together, alone) = (tape(together.path()), tape(alone.path()));
        let mode = FidelityMode::ByteIdentical;
        let report = compare(together.as_path(), alone.as_path(), mode).unwrap();
        assert!(report.is_faithful(), "{report}");
        assert_eq!(std::fs::read(together).unwrap(), std::fs::read(alone).unwrap());
    }
}

/// A clock or a recorder that outlives its session does not block anything.
#[test]
fn a_dropped_session_removes_its_tape_though_others_hold_a_recorder() {
    let folder = worktree();
    let outputs = tempfile::tempdir().unwrap();
    let path = outputs.path().join("t.tape");
    let bench = hermetic(folder.path())
        .emit_tape(&path)
        .record_llm(outputs.path().join("llm.jsonl"))
        .build();
    let mut session = bench.activate().unwrap();
    let (clock, recorder) = (session.clock(), session.tape_recorder().unwrap());
    session.command("cat").arg("note.txt").output().unwrap();
    session.llm(|| fake(clock.clone(), "yes")).complete(&ask("?")).unwrap();
    assert_eq!(names(outputs.path()), ["t.tape.cas", "t.tape.partial"]);
    drop(session);
    assert_eq!(names(outputs.path()), [""; 0]);
    clock.sleep(Duration::from_secs(1));
    recorder.push(Kind::ClockSleep { duration_ns: 1 });
    assert!(matches!(recorder.finish(), Err(TapeError::Abandoned)));
    assert_eq!(names(outputs.path()), [""; 0]);

    let session = bench.activate().unwrap();
    let clock = session.clock();
    let records = session.finalize().unwrap().tape.unwrap().records;
    clock.sleep(Duration::from_secs(1));
    assert_eq!(Tape::load(&path).unwrap().records.len() as u64, records);
}

#[test]
fn a_panic_inside_a_session_tears_it_down() {
    let folder = worktree();
    let outputs = tempfile::tempdir().unwrap();
    let bench = hermetic(folder.path()).emit_tape(outputs.path().join("t.tape")).build();
    let kept = Mutex::new(None);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut session = bench.activate().unwrap();
        session.command("overwrite").arg("write:note.txt:above").output().unwrap();
        *kept.lock().unwrap() = Some((session.clock(), session.tape_recorder()));
        let _ = session.llm(|| panic!("in the middle of a session"));
    }));
    let message = *result.unwrap_err().downcast::<&str>().unwrap();
    assert_eq!(message, "in the middle of a session");
    assert_eq!(names(outputs.path()), [""; 0]);
    assert_eq!(std::fs::read(folder.path().join("note.txt")).unwrap(), b"below\n");
    bench.activate().unwrap().finalize().unwrap();
}

/// Otherwise a replay of a session without model requests would look for a fixture that does not exist.
#[test]
fn recording_without_requests_is_empty_and_replaces_the_old_one() {
    let folder = worktree();
    let fixture = folder.path().join("llm.jsonl");
    let record = Testbench::builder().paused_clock_at_ms(0).record_llm(&fixture).build();
    let mut session = record.activate().unwrap();
    let clock = session.clock();
    session.llm(|| fake(clock, "yes")).complete(&ask("?")).unwrap();
    session.finalize().unwrap();
    assert_eq!(std::fs::read_to_string(&fixture).unwrap().lines().count(), 2);
    record.activate().unwrap().finalize().unwrap();
    assert_eq!(std::fs::read_to_string(&fixture).unwrap().lines().count(), 1);
    let replay = Testbench::builder().replay_llm(&fixture).build();
    let mut session = replay.activate().unwrap();
    let nobody = || -> Box<dyn LlmProvider> { panic!("nobody is asked") };
    let error = session.llm(nobody).complete(&ask("?")).unwrap_err().to_string();
    assert!(error.contains("llm.jsonl") && error.contains("it has no calls"), "{error}");
}

/// A new tape is a file and a lock: a later failure must remove both.
#[test]
fn an_activation_that_fails_leaves_no_file_no_lock_and_no_thread() {
    const NAME: &str = "sessions::an_activation_that_fails_leaves_no_file_no_lock_and_no_thread";
    if !is_alone() {
        return run_alone(NAME, &[]);
    }
    let threads = || match std::fs::read_dir("/proc/self/task") {
        Ok(tasks) => tasks.count(),
        Err(_) => 0,
    };
    let folder = worktree();
    let outputs = tempfile::tempdir().unwrap();
    let gone = folder.path().join("gone");
    let bad = folder.path().join("bad.jsonl");
    std::fs::write(&bad, "{\"format\":\"belljar-llm-fixture\",\"version\":\"1.0\"}\n\n{}\n")
        .unwrap();
    let begin = || {
        let overlay = Testbench::builder().fs_overlay(folder.path());
        overlay.wasi_toolchain(toolchain()).emit_tape(outputs.path().join("t.tape"))
    };
    let before = threads();
    let failed = [
        begin().fs_overlay(&gone),
        begin().wasi_toolchain(&gone),
        begin().replay_subprocesses(&gone),
        begin().replay_llm(&bad),
        begin().replay_llm(&gone),
        begin().record_llm(gone.join("llm.jsonl")),
        begin().record_subprocesses(gone.join("tools.jsonl")),
        begin().emit_tape(gone.join("t.tape")),
    ];
    for builder in failed {
        let error = anyhow::Error::from(builder.build().activate().map(|_| ()).unwrap_err());
        let message = format!("{error:#}");
        assert!(message.contains("gone") || message.contains("bad.jsonl, line 3"), "{message}");
        assert_eq!(names(outputs.path()), [""; 0], "{message}");
        assert_eq!(names(folder.path()), ["bad.jsonl", "note.txt"], "{message}");
    }
    assert_eq!(threads(), before);

    // Nor does a dropped session that ran a module on its own engine.
    let mut session = begin().build().activate().unwrap();
    assert!(session.command("hello").status().unwrap().success());
    drop(session);
    assert_eq!(names(outputs.path()), [""; 0]);
}

#[test]
fn session_without_a_network_policy_uses_the_environment_variables() {
    const NAME: &str = "sessions::session_without_a_network_policy_uses_the_environment_variables";
    const DEFAULT: &str = "BELLJAR_EGRESS_DEFAULT";
    const ALLOW: &str = "BELLJAR_EGRESS_ALLOW";
    const DENY: &str = "BELLJAR_EGRESS_DENY";
    if !is_alone() {
        run_alone(NAME, &[(DEFAULT, ""), (ALLOW, ""), (DENY, "")]);
        run_alone(NAME, &[(DEFAULT, ""), (ALLOW, "env.test"), (DENY, "")]);
        run_alone(NAME, &[(DEFAULT, "allow"), (ALLOW, ""), (DENY, "env.test")]);
        run_alone(NAME, &[(DEFAULT, "deny"), (ALLOW, ""), (DENY, "")]);
        return run_alone(NAME, &[(DEFAULT, ""), (ALLOW, "no rule"), (DENY, "")]);
    }
    let variable = |name| std::env::var(name).unwrap();
    let (default, allow, deny) = (variable(DEFAULT), variable(ALLOW), variable(DENY));
    let silent = Testbench::builder().build();
    let own = Testbench::builder().allow_network(["own.test".parse().unwrap()]).build();
    let may = |session: &TestbenchSession| {
        let hosts = ["env.test", "own.test", "other.test"];
        hosts.map(|host| session.egress().check("test", &format!("https://{host}/")).is_ok())
    };
    // The environment does not change a policy that a session sets itself.
    assert_eq!(may(&own.activate().unwrap()), [false, true, false]);
    if allow == "no rule" {
        let error = silent.activate().map(|_| ()).unwrap_err();
        assert!(matches!(&error, TestbenchError::Egress(_)), "{error}");
        return assert!(error.to_string().contains(ALLOW), "{error}");
    }
    let expected = match (&*default, &*allow, &*deny) {
        ("", "", "") => [true, true, true],
        ("", "env.test", "") => [true, false, false],
        ("allow", "", "env.test") => [false, true, true],
        ("deny", "", "") => [false, false, false],
        other => panic!("{other:?}"),
    };
    assert_eq!(may(&silent.activate().unwrap()), expected);
}

#[test]
fn egress_decisions_of_a_session_are_on_its_tape() {
    let folder = worktree();
    let tape = folder.path().join("t.tape");
    let bench = hermetic(folder.path()).allow_network(["a.test".parse().unwrap()]);
    let session = bench.emit_tape(&tape).build().activate().unwrap();
    session.clock().sleep(Duration::from_millis(5));
    session.check_egress("http", "https://a.test/x").unwrap();
    let blocked = session.check_egress("http", "https://b.test:8443/x").unwrap_err();
    assert_eq!((&*blocked.surface, &*blocked.host, blocked.port), ("http", "b.test", Some(8443)));
    session.finalize().unwrap();
    let records = Tape::load(&tape).unwrap().records;
    let egress: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.kind {
            Kind::Egress { host, allowed, .. } => Some((&**host, *allowed, record.monotonic_ms)),
            _ => None,
        })
        .collect();
    assert_eq!(egress, [("a.test", true, 5), ("b.test", false, 5)]);
}

#[cfg(unix)]
#[test]
fn process_tape_can_be_read_during_the_session() {
    let folder = worktree();
    let tape = folder.path().join("tools.jsonl");
    let builder = || Testbench::builder().paused_clock_at_ms(0);
    let mut session = builder().record_subprocesses(&tape).build().activate().unwrap();
    assert_eq!(session.process_tape().unwrap().entries, []);
    let status = session.command("sh").args(["-c", "exit 3"]).status().unwrap();
    assert_eq!(status.code(), Some(3));
    let recorded = session.process_tape().unwrap().into_owned();
    assert_eq!((recorded.entries.len(), recorded.entries[0].exit_code), (1, Some(3)));
    let finalized = session.finalize().unwrap();
    assert_eq!(finalized.recorded_subprocesses, recorded.entries);

    let session = builder().replay_subprocesses(&tape).build().activate().unwrap();
    assert_eq!(session.process_tape().as_deref(), Some(&recorded));
    assert!(session.finalize().is_err(), "nobody asked for what is on the tape");
    assert_eq!(builder().build().activate().unwrap().process_tape(), None);
}

/// The duration of a process does not include that of the session before it.
#[test]
fn durations_on_a_tape_are_per_process() {
    let folder = worktree();
    let tape = folder.path().join("t.tape");
    let limits = Limits { virtual_timeout: Some(Duration::from_secs(4)), ..Limits::default() };
    let bench = hermetic(folder.path()).limits(limits).emit_tape(&tape).build();
    let mut session = bench.activate().unwrap();
    for ms in ["2000", "500", "60000"] {
        session.command("sleeper").arg(ms).output().unwrap();
    }
    session.finalize().unwrap();
    let records = Tape::load(&tape).unwrap().records;
    let exits: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.kind {
            Kind::ProcessExit { status, duration_ms, .. } => {
                Some((status.as_str(), *duration_ms, record.virtual_time_ms))
            }
            _ => None,
        })
        .collect();
    // The last process is ended by the limit, at a time that is on the tape.
    let expected = [
        ("exited", 2000, 1_002_000),
        ("exited", 500, 1_002_500),
        ("virtual_timeout", 1500, 1_004_000),
    ];
    assert_eq!(exits, expected);
    let load = |name: &str, _: Option<Digest>| {
        Module::read(&guest(name)).map_err(|error| error.to_string())
    };
    assert_eq!(
        replay(engine(), &tape, &Limits::default(), load).unwrap().records,
        records.len() as u64
    );
}

/// `native` is produced in `native_children.rs`, `timeout` in `recorded/timeouts.rs`. Records of failures and of
/// waiting for the host are produced in `replay_faults.rs` and `cli/tape_faults.rs`.
#[test]
fn every_kind_of_record_is_produced_by_a_real_run() {
    let folder = worktree();
    #[cfg(unix)]
    std::os::unix::fs::symlink("note.txt", folder.path().join("link")).unwrap();
    let tape = folder.path().join("t.tape");
    let mut session = hermetic(folder.path()).emit_tape(&tape).build().activate().unwrap();
    let steps = ["write:new:text", "rename:new:moved", "unlink:note.txt"];
    assert!(session.command("overwrite").args(steps).status().unwrap().success());
    for words in [
        &["walk"][..],
        &["clock"],
        &["sleeper", "5"],
        &["random"],
        &["cat", "link"],
        &["procs", "pipes"],
    ] {
        session.command(words[0]).args(&words[1..]).output().unwrap();
    }
    let clock = session.clock();
    clock.instant_now("logger");
    session.llm(|| fake(clock, "yes")).complete(&ask("?")).unwrap();
    session.check_egress("http", "https://example.com/").unwrap();
    session.host_call("workspace.cwd", &serde_json::json!({})).unwrap();
    session.finalize().unwrap();
    let mut records = Tape::load(&tape).unwrap().records;
    let stamps: Vec<_> =
        records.iter().map(|record| (record.virtual_time_ms, record.monotonic_ms)).collect();
    assert!(
        stamps.is_sorted()
            // Writes advance the wall clock.
            && stamps.iter().all(|(wall, own)| *wall >= 1_000_000 + own.cast_signed())
    );

    // Only a machine can get standard input while a program runs.
    let memory = MemoryTape::default();
    let recorder = Recorder::new(memory.clone(), Redaction::default());
    let worktree = HostDir::open(folder.path()).unwrap();
    let mut machine = Machine::builder().worktree(worktree).tape(recorder).build().unwrap();
    let cat = Program::load(engine(), guest("cat")).unwrap();
    let stdin = Input::Reader(Box::new(Cursor::new(b"in")));
    belljar::Command::new(&cat).arg("-").output_from(&mut machine, stdin).unwrap();
    records.extend(memory.records());

    let elsewhere = ["file_error", "native", "stream_error", "stream_poll", "timeout"];
    let found: BTreeSet<&str> = records.iter().map(|record| record.kind.name()).collect();
    let text = std::fs::read_to_string(crate::support::package().join("docs/tape-format.md"));
    let text = text.unwrap();
    let section = text.split("One of each:").next().unwrap().split("| kind |").nth(1).unwrap();
    let documented: BTreeSet<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .filter(|kind| !elsewhere.contains(kind) && (cfg!(unix) || *kind != "link_read"))
        .collect();
    assert_eq!(found, documented);
}
