//! Trees of processes, driven by `guest-examples/procs.c`; each of its tests covers one property.

use std::sync::Arc;

use belljar::tape::{Kind, MemoryTape, Recorder, Redaction};
use belljar::{
    Command, Engine, EngineConfig, Limit, Limits, Machine, MachineBuilder, Outcome, Output,
    Program, Source, ToolchainPrograms, Toolchains,
};

use crate::support::{belljar, engine, guest, package, replays, stderr, stdout};

/// The tests of `procs`, except the one for a deadlock.
const TESTS: [&str; 31] = [
    "actions",
    "args",
    "cloexec",
    "close-all",
    "closefrom",
    "cwd",
    "dup",
    "env",
    "eof",
    "epipe",
    "exec",
    "first-ends-all",
    "fork-bomb",
    "kill",
    "large-pipe",
    "nohang",
    "offset",
    "orphan",
    "path",
    "pipes",
    "poll",
    "popen",
    "raise",
    "recursion",
    "script",
    "sigpipe",
    "sleep",
    "spawn-errors",
    "status",
    "writers",
    "zombies",
];

fn programs() -> Arc<ToolchainPrograms> {
    let toolchains = Toolchains::new(vec![package().join("guest-examples")]).unwrap();
    Arc::new(ToolchainPrograms::new(engine(), toolchains))
}

fn builder(limits: Limits) -> MachineBuilder {
    Machine::builder().mount("/worktree", Source::Memory).limits(limits).programs(programs())
}

fn machine(limits: Limits, tape: Option<Recorder>) -> Machine {
    let mut builder = builder(limits);
    if let Some(tape) = tape {
        builder = builder.tape(tape);
    }
    builder.build().unwrap()
}

fn procs_command(test: &str) -> Command {
    let mut command = Command::new(&Program::load(engine(), guest("procs")).unwrap());
    command.arg(test);
    command
}

fn procs(machine: &mut Machine, test: &str) -> Output {
    procs_command(test).output(machine).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn processes_pipes_and_descriptors_follow_posix() {
    let limits = Limits { processes_max: 100, ..Limits::default() };
    for test in TESTS {
        let output = match test {
            // Some arguments of these tests are not UTF-8, and a tape holds only UTF-8.
            "args" | "env" => procs(&mut machine(limits, None), test),
            _ => replays::output(builder(limits), &procs_command(test)).1,
        };
        assert_eq!(text(&output.stdout), format!("ok {test}\n"), "{}", text(&output.stderr));
        assert_eq!(*output.status.outcome(), Outcome::Exited(0), "{test}");
    }
    let output = procs(&mut machine(limits, None), "");
    let listed = text(&output.stderr);
    let listed = listed.lines().filter_map(|line| line.strip_prefix("  "));
    let mut listed: Vec<&str> = listed.filter(|test| *test != "deadlock").collect();
    listed.sort_unstable();
    assert_eq!(listed, TESTS);
}

#[test]
fn processes_beyond_the_pool_run_all_the_same() {
    let config = EngineConfig { pool_slots: 3, ..EngineConfig::default() };
    let engine = Engine::new(config).unwrap();
    let toolchains = Toolchains::new(vec![package().join("guest-examples")]).unwrap();
    let programs = Arc::new(ToolchainPrograms::new(&engine, toolchains));
    let program = Program::load(&engine, guest("procs")).unwrap();
    let limits = Limits { processes_max: 20, ..Limits::default() };
    for test in ["fork-bomb", "pipes", "zombies"] {
        let mut machine =
            Machine::builder().limits(limits).programs(programs.clone()).build().unwrap();
        let output = Command::new(&program).arg(test).output(&mut machine).unwrap();
        assert_eq!(text(&output.stdout), format!("ok {test}\n"), "{}", text(&output.stderr));
    }
}

#[test]
fn a_tree_leaves_the_same_tape_every_time() {
    let limits = Limits { processes_max: 50, ..Limits::default() };
    for test in TESTS {
        let record = || {
            let tape = MemoryTape::default();
            let recorder = Recorder::new(tape.clone(), Redaction::default());
            procs(&mut machine(limits, Some(recorder)), test);
            tape.records()
        };
        // Arguments that are not UTF-8 end a tape.
        if test != "args" {
            assert!(record() == record(), "{test}");
        }
    }
}

#[test]
fn spawns_waits_pipes_and_exits_are_on_the_tape() {
    let tape = MemoryTape::default();
    let recorder = Recorder::new(tape.clone(), Redaction::default());
    procs(&mut machine(Limits::default(), Some(recorder)), "pipes");
    let records = tape.records();
    let spawned: Vec<(u32, Option<u32>)> = records
        .iter()
        .filter_map(|record| match &record.kind {
            Kind::ProcessSpawn { pid, parent, .. } => Some((*pid, *parent)),
            _ => None,
        })
        .collect();
    assert_eq!(spawned[..2], [(1, None), (2, Some(1))]);
    let of = |name: &str| records.iter().filter(|record| record.kind.name() == name).count();
    assert_eq!(of("process_exit"), spawned.len());
    assert_eq!(of("process_wait"), spawned.len() - 1);
    assert!(of("pipe") >= 2);
}

#[test]
fn deadlock_error_says_which_process_waits_for_which() {
    let output = procs(&mut machine(Limits::default(), None), "deadlock");
    let Outcome::Deadlock(waits) = output.status.outcome() else { panic!("{:?}", output.status) };
    assert_eq!(
        waits,
        "process 1 (procs) waits to read pipe 1, which is empty\n\
         process 2 (procs) waits to read pipe 0, which is empty"
    );
    let folder = tempfile::tempdir().unwrap();
    let output = belljar(folder.path())
        .args(["run", "--json", "--toolchain"])
        .arg(package().join("guest-examples"))
        .args(["procs", "deadlock"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    let report: serde_json::Value =
        serde_json::from_str(stdout(&output).lines().last().unwrap()).unwrap();
    assert_eq!(report["status"], "deadlock");
    assert!(stderr(&output).contains("    process 2 (procs) waits to read pipe 0"));
}

#[test]
fn timeout_ends_the_whole_process_tree() {
    let virtual_timeout = Some(std::time::Duration::from_millis(1));
    let mut machine = machine(Limits { virtual_timeout, ..Limits::default() }, None);
    let output = procs(&mut machine, "sleep");
    assert_eq!(*output.status.outcome(), Outcome::Limit(Limit::VirtualTimeout));
    assert_eq!(machine.elapsed(), std::time::Duration::from_millis(1));
    // The machine can still be used.
    assert_eq!(text(&procs(&mut machine, "status").stdout), "ok status\n");
}

#[test]
fn a_run_of_several_processes_is_repeated_from_its_tape() {
    let folder = tempfile::tempdir().unwrap();
    let toolchain = package().join("guest-examples");
    let run = |args: &[&str]| {
        let mut command = belljar(folder.path());
        command.args(args).arg("--toolchain").arg(&toolchain);
        command
    };
    for test in ["pipes", "script", "path", "sleep", "kill"] {
        let recorded =
            run(&["record", "--quiet", "--tape", "t.tape"]).args(["procs", test]).output().unwrap();
        assert_eq!(stdout(&recorded), format!("ok {test}\n"), "{}", stderr(&recorded));
        let replayed = run(&["replay", "t.tape"]).output().unwrap();
        assert_eq!(replayed.status.code(), Some(0), "{test}: {}", stderr(&replayed));
        assert_eq!(stdout(&replayed), stdout(&recorded));
    }
}

/// Process numbers are those of the machine.
#[cfg(unix)]
#[test]
fn host_process_ids_cannot_be_signalled_from_a_machine() {
    let mut stranger = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let programs = ToolchainPrograms::new(engine(), Toolchains::default());
    let programs = programs.with("sh", belljar::process::ShellImage::maker());
    let mut machine = Machine::builder().programs(Arc::new(programs)).build().unwrap();
    let script = format!("kill -9 {0} || kill -s 0 {0}", stranger.id());
    let output = Command::shell(script).output(&mut machine).unwrap();
    let is_alive = stranger.try_wait().unwrap().is_none();
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert!(is_alive, "{output:?}");
    assert!(!output.status.success(), "{output:?}");
}
