//! Sessions of a testbench.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar::Mtimes;
use belljar::llm::{FakeLlmProvider, FakeStep, LlmProvider, LlmRequest, Message};
#[cfg(unix)]
use belljar::native::OnMissing;
use belljar::native::SubprocessError;
use belljar::tape::{ClockLeakKind, Kind, Tape};
#[cfg(unix)]
use belljar::testbench::SubprocessConfig;
use belljar::testbench::{Testbench, TestbenchBuilder, TestbenchError, TestbenchSession};

use crate::support::benches::{hermetic, worktree};

#[test]
fn hermetic_session_changes_nothing_and_has_a_diff() {
    let folder = worktree();
    let mut session = hermetic(folder.path()).build().activate().unwrap();
    let output = session.command("overwrite").arg("write:note.txt:above\n").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let output = session.command("cat").arg("note.txt").output().unwrap();
    assert_eq!(output.stdout, b"above\n");
    assert_eq!(session.overlay().unwrap().read("/worktree/note.txt").unwrap(), b"above\n");
    let finalized = session.finalize().unwrap();
    assert_eq!(finalized.fs_diff.len(), 1);
    assert_eq!(finalized.fs_diff[0].path.as_str(), "note.txt");
    assert_eq!(finalized.clock_leaks, []);
    assert_eq!(std::fs::read(folder.path().join("note.txt")).unwrap(), b"below\n");
}

#[test]
fn host_and_guests_share_a_clock() {
    let folder = worktree();
    let mut session = hermetic(folder.path()).build().activate().unwrap();
    session.clock().sleep(Duration::from_secs(5));
    let output = session.command("clock").output().unwrap();
    assert!(output.stdout.starts_with(b"realtime 1005.000000000\n"), "{output:?}");
    session.command("sleeper").arg("2000").output().unwrap();
    assert_eq!(session.clock().now_ms(), 1_007_000);
    assert_eq!(session.clock().monotonic_ms(), 7000);
}

/// Regression: the tapes differed in the times of files.
#[test]
fn tapes_of_two_checkouts_are_equal_with_content_times() {
    let tape_of = |mtimes, age| {
        let folder = worktree();
        let note =
            std::fs::File::options().write(true).open(folder.path().join("note.txt")).unwrap();
        note.set_modified(std::time::SystemTime::now() - Duration::from_secs(age)).unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("t.tape");
        let testbench = hermetic(folder.path()).mtimes(mtimes).emit_tape(&path).build();
        let mut session = testbench.activate().unwrap();
        let output = session.command("cat").arg("note.txt").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        session.finalize().unwrap();
        Tape::load(&path).unwrap().records
    };
    assert_eq!(tape_of(Mtimes::Content, 10), tape_of(Mtimes::Content, 9000));
    assert_ne!(tape_of(Mtimes::Host, 10), tape_of(Mtimes::Host, 9000));
}

#[test]
fn leaks_are_listed_and_recorded() {
    let folder = worktree();
    let tape = folder.path().join("t.tape");
    let session = hermetic(folder.path()).emit_tape(&tape).build().activate().unwrap();
    session.clock().wall_now("logger");
    session.clock().wall_now("logger");
    let finalized = session.finalize().unwrap();
    let leak = &finalized.clock_leaks[0];
    assert_eq!((&*leak.capability_id, leak.kind, leak.count), ("logger", ClockLeakKind::Wall, 2));
    let records = Tape::load(&tape).unwrap().records;
    let leaks = records.iter().filter(|record| matches!(record.kind, Kind::ClockLeak { .. }));
    assert_eq!(leaks.count(), 2);
}

#[test]
fn tape_is_written_only_by_finalize() {
    let folder = worktree();
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("t.tape");
    let bench = hermetic(folder.path()).emit_tape_for(&path, "job.sh", vec!["job".into()]).build();
    let mut session = bench.activate().unwrap();
    session.command("cat").arg("note.txt").output().unwrap();
    drop(session);
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);

    let mut session = bench.activate().unwrap();
    session.command("cat").arg("note.txt").output().unwrap();
    let emitted = session.finalize().unwrap().tape.unwrap();
    let tape = Tape::load(&path).unwrap();
    assert_eq!((emitted.path, emitted.records), (path, tape.records.len() as u64));
    assert_eq!(tape.header.script_path.as_deref(), Some("job.sh"));
    assert_eq!(tape.header.argv, ["job"]);
    assert_eq!(tape.header.started_at_unix_ms, 1_000_000);
}

#[test]
fn a_session_that_panics_leaves_nothing_behind() {
    let folder = worktree();
    let scratch = tempfile::tempdir().unwrap();
    let bench = hermetic(folder.path()).emit_tape(scratch.path().join("t.tape")).build();
    let panicked = std::thread::spawn(move || {
        let mut session = bench.activate().unwrap();
        session.command("hello").output().unwrap();
        panic!("in the middle of a session");
    });
    assert!(panicked.join().is_err());
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn an_activation_that_fails_names_why_and_leaves_nothing_behind() {
    let folder = worktree();
    let gone = folder.path().join("gone");
    let scratch = tempfile::tempdir().unwrap();
    let with_tape = |builder: TestbenchBuilder| {
        let bench = builder.emit_tape(scratch.path().join("t.tape")).build();
        let error = bench.activate().map(|_| ()).unwrap_err();
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
        error
    };
    let error = with_tape(hermetic(&gone));
    assert!(matches!(error, TestbenchError::Worktree { .. }), "{error}");
    let error = with_tape(hermetic(folder.path()).wasi_toolchain(&gone));
    assert!(matches!(error, TestbenchError::Toolchain(_)), "{error}");
    assert!(error.to_string().contains("gone"), "{error}");
    let error = with_tape(hermetic(folder.path()).replay_subprocesses(&gone));
    assert!(matches!(error, TestbenchError::Subprocess(_)), "{error}");
    let bad = folder.path().join("bad");
    std::fs::write(&bad, "{\"version\":\"1.0\"}\nnonsense\n").unwrap();
    let error = with_tape(hermetic(folder.path()).replay_subprocesses(&bad));
    let message = format!("{:#}", anyhow::Error::from(error));
    assert!(message.contains("bad, line 2"), "{message}");
}

#[test]
fn program_missing_in_the_toolchain_is_refused_or_native() {
    let folder = worktree();
    let mut session = hermetic(folder.path()).build().activate().unwrap();
    let error = session.command("sh").output().unwrap_err();
    assert!(
        matches!(error, TestbenchError::Subprocess(SubprocessError::Missing { .. })),
        "{error}"
    );
    #[cfg(unix)]
    {
        let bench = hermetic(folder.path()).on_missing(OnMissing::Native).build();
        let mut session = bench.activate().unwrap();
        let output = session.command("sh").args(["-c", "echo native"]).output().unwrap();
        assert_eq!(output.stdout, b"native\n");
    }
}

#[test]
fn sessions_side_by_side_never_see_each_other() {
    let folder = worktree();
    let tapes = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8i64 {
            let (folder, tapes) = (folder.path(), tapes.path());
            scope.spawn(move || {
                for round in 0..4i64 {
                    let number = thread * 4 + round;
                    let tape = tapes.join(format!("{number}.tape"));
                    let bench =
                        hermetic(folder).paused_clock_at_ms(number * 1000).emit_tape(&tape).build();
                    let mut session = bench.activate().unwrap();
                    let write = format!("write:note.txt:{number}");
                    session.command("overwrite").arg(write).output().unwrap();
                    session.clock().advance(Duration::from_millis(7)).unwrap();
                    if number % 2 == 1 {
                        session.clock().wall_now("odd");
                    }
                    let output = session.command("cat").arg("note.txt").output().unwrap();
                    assert_eq!(output.stdout, number.to_string().into_bytes());
                    assert_eq!(session.clock().now_ms(), number * 1000 + 7);
                    let finalized = session.finalize().unwrap();
                    assert_eq!(!finalized.clock_leaks.is_empty(), number % 2 == 1);
                    assert_eq!(finalized.fs_diff.len(), 1);
                    let tape = Tape::load(&tape).unwrap();
                    assert_eq!(tape.header.started_at_unix_ms, number * 1000);
                    let exits = |record: &belljar::tape::Record| {
                        matches!(record.kind, Kind::ProcessExit { .. })
                    };
                    assert_eq!(tape.records.iter().filter(|record| exits(record)).count(), 2);
                }
            });
        }
    });
}

#[test]
fn models_are_recorded_once_and_replayed_after() {
    let folder = worktree();
    let (fixture, tape) = (folder.path().join("llm.jsonl"), folder.path().join("t.tape"));
    let request = LlmRequest::new("small", vec![Message::new("user", "hello?")]);
    let record = Testbench::builder().paused_clock_at_ms(0).record_llm(&fixture);
    let mut session = record.emit_tape(&tape).build().activate().unwrap();
    let clock = Arc::new(Mutex::new(session.clock()));
    let fake = || {
        let steps = [FakeStep::Token("hi".to_owned()), FakeStep::Token(" there".to_owned())];
        Box::new(FakeLlmProvider::new(clock).script(steps)) as Box<dyn LlmProvider>
    };
    let answer = session.llm(fake).complete(&request).unwrap();
    assert!(!fixture.exists());
    session.finalize().unwrap();
    let kinds = Tape::load(&tape).unwrap().records;
    assert_eq!(kinds.iter().filter(|r| matches!(r.kind, Kind::LlmCall { .. })).count(), 1);

    let bench = Testbench::builder().replay_llm(&fixture).build();
    let mut session = bench.activate().unwrap();
    let nobody = || -> Box<dyn LlmProvider> { panic!("nobody is asked") };
    assert_eq!(session.llm(nobody).complete(&request).unwrap(), answer);
    let other = LlmRequest::new("small", vec![Message::new("user", "bye")]);
    assert!(session.llm(nobody).complete(&other).is_err());

    let gone = Testbench::builder().replay_llm(folder.path().join("gone")).build();
    assert!(matches!(gone.activate().map(|_| ()), Err(TestbenchError::Fixture(_))));
}

#[test]
fn network_policy_belongs_to_one_session() {
    let allowed = "*.example.com".parse().unwrap();
    let open = Testbench::builder().build().activate().unwrap();
    let shut = Testbench::builder().deny_network().build().activate().unwrap();
    let some = Testbench::builder().allow_network([allowed]).build().activate().unwrap();
    let may = |session: &TestbenchSession, url: &str| session.egress().check("test", url).is_ok();
    let url = "https://api.example.com/v1";
    assert_eq!((may(&open, url), may(&shut, url), may(&some, url)), (true, false, true));
    assert!(!may(&some, "https://example.org/"));
}

/// In the manner of snapshot tests, the first run records what native programs do, and later runs replay it;
/// `BELLJAR_UPDATE=1` records again.
#[cfg(unix)]
#[test]
fn subprocesses_are_recorded_once_and_replayed_after() {
    let folder = worktree();
    let tape = folder.path().join("tools.jsonl");
    let run = |update: bool| {
        let builder = Testbench::builder().paused_clock_at_ms(0);
        let bench = if update || !tape.exists() {
            builder.record_subprocesses(&tape).build()
        } else {
            builder.replay_subprocesses(&tape).build()
        };
        let mut session = bench.activate().unwrap();
        let output = session.command("sh").args(["-c", "echo $$"]).output().unwrap();
        let is_replay = matches!(session.subprocess_mode(), SubprocessConfig::Replay { .. });
        assert_eq!(session.subprocess_tape_path(), Some(tape.as_path()));
        session.finalize().unwrap();
        (output.stdout, is_replay)
    };
    let (first, replayed) = run(false);
    assert!(!replayed);
    // A process has another number each time it runs.
    assert_eq!(run(false), (first.clone(), true));
    let (again, replayed) = run(true);
    assert!(!replayed && again != first);
}
