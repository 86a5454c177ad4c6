//! Runs that another thread ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use belljar::process::ShellImage;
use belljar::sandbox::{ExecRequest, Sandbox, SandboxSpec};
use belljar::tape::{MemoryTape, Recorder, Redaction};
use belljar::{
    ClockConfig, Command, Engine, EngineConfig, Interrupter, Limit, Limits, Machine, Outcome,
    OutputStream, Program, Stdio, ToolchainPrograms, Toolchains,
};

use crate::support::{engine, guest};

const ENDED: Outcome = Outcome::Limit(Limit::Timeout);

/// Interrupts a run as soon as it has written something.
struct Trigger(Interrupter, Arc<AtomicBool>);

impl io::Write for Trigger {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.1.swap(true, Ordering::SeqCst) {
            let interrupter = self.0.clone();
            thread::spawn(move || interrupter.interrupt());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn streams(interrupter: &Interrupter) -> Stdio {
    let trigger = Trigger(interrupter.clone(), Arc::default());
    Stdio { stdout: OutputStream::Writer(Box::new(trigger)), ..Stdio::default() }
}

/// The outcome of `command`, which is interrupted once it has written something.
fn interrupted(command: &Command, mut machine: Machine) -> Outcome {
    let interrupter = Interrupter::default();
    machine.set_interrupter(Some(interrupter.clone()));
    let status = command.status(&mut machine, streams(&interrupter)).unwrap();
    status.outcome().clone()
}

fn programs(engine: &Engine) -> Arc<ToolchainPrograms> {
    let folder = guest("loop").parent().unwrap().to_owned();
    let toolchains = Toolchains::new(vec![folder]).unwrap();
    Arc::new(ToolchainPrograms::new(engine, toolchains).with("sh", ShellImage::maker()))
}

#[test]
fn code_that_makes_no_calls_is_interrupted() {
    let machine = || Machine::builder().programs(programs(engine())).build().unwrap();
    for script in ["echo; exec loop", "echo; loop", "echo; loop | cat"] {
        assert_eq!(interrupted(&Command::shell(script), machine()), ENDED, "{script}");
    }
}

#[test]
fn code_that_counts_fuel_is_interrupted() {
    let config = EngineConfig { fuel: true, pool_slots: 0, ..EngineConfig::default() };
    let engine = Engine::new(config).unwrap();
    let machine = Machine::builder().programs(programs(&engine)).build().unwrap();
    assert_eq!(interrupted(&Command::shell("echo; exec loop"), machine), ENDED);
}

#[test]
fn shell_and_sleep_on_the_clock_of_the_host_are_interrupted() {
    let shell = |script: &str, clock| {
        let machine = Machine::builder().clock(clock).programs(programs(engine())).build();
        interrupted(&Command::shell(script), machine.unwrap())
    };
    assert_eq!(shell("echo; while :; do :; done", ClockConfig::default()), ENDED);
    assert_eq!(shell("echo; sleep 86400", ClockConfig::Host), ENDED);
    assert_eq!(shell("echo; sleep 86400 | cat", ClockConfig::Host), ENDED);
}

#[cfg(unix)]
#[test]
fn wait_for_a_native_program_is_interrupted() {
    use belljar::native::{NativeChildren, NativePrograms, SandboxProfile};

    let folder = tempfile::tempdir().unwrap();
    let children = NativeChildren::new(folder.path());
    let children = Arc::new(children.sandbox_profile(SandboxProfile::Unrestricted).unwrap());
    let native = NativePrograms::new(programs(engine()), children);
    let worktree = belljar::HostDir::open(folder.path()).unwrap();
    let machine = Machine::builder().worktree(worktree).programs(Arc::new(native)).build();
    // Belljar has no program of this name.
    let endless = Command::shell("echo; dd if=/dev/zero of=/dev/null");
    assert_eq!(interrupted(&endless, machine.unwrap()), ENDED);
}

#[test]
fn used_interrupter_ends_a_run_that_begins_later_and_none_without_it() {
    let program = Program::load(engine(), guest("loop")).unwrap();
    let mut machine = Machine::builder().programs(programs(engine())).build().unwrap();
    let interrupter = Interrupter::default();
    machine.set_interrupter(Some(interrupter.clone()));
    interrupter.interrupt();
    let output = Command::new(&program).output(&mut machine).unwrap();
    assert_eq!(*output.status.outcome(), ENDED);
    machine.set_interrupter(None);
    let output = Command::shell("echo free").output(&mut machine).unwrap();
    assert_eq!((output.status.success(), &*output.stdout), (true, &b"free\n"[..]));
}

#[test]
fn interrupted_run_is_on_the_tape_as_a_timeout() {
    let tape = MemoryTape::default();
    let recorder = Recorder::new(tape.clone(), Redaction::default());
    let machine = Machine::builder().programs(programs(engine())).tape(recorder.clone());
    assert_eq!(interrupted(&Command::shell("echo; exec loop"), machine.build().unwrap()), ENDED);
    recorder.finish().unwrap();
    let timeouts = tape.records().iter().filter(|record| record.kind.name() == "timeout").count();
    assert_eq!(timeouts, 1);
}

#[test]
fn sandbox_goes_on_after_an_interruption_and_its_fork_has_no_interrupter() {
    let mut sandbox = Sandbox::provision(programs(engine()), SandboxSpec::default()).unwrap();
    let interrupter = Interrupter::default();
    sandbox.set_interrupter(Some(interrupter.clone()));
    let request = ExecRequest::shell("echo kept > /tmp/note; echo; while :; do :; done");
    let output = sandbox.output_on(&request, streams(&interrupter)).unwrap();
    assert_eq!(*output.status.outcome(), ENDED);
    let mut fork = sandbox.fork().unwrap();
    assert_eq!(fork.exec(&ExecRequest::new("cat", ["/tmp/note"])).unwrap().stdout, b"kept\n");
}

#[test]
fn timeout_of_an_interruptible_run_still_ends_it() {
    let limits =
        Limits { timeout: Some(std::time::Duration::from_millis(20)), ..Limits::default() };
    let machine = Machine::builder().programs(programs(engine())).limits(limits).build();
    let mut machine = machine.unwrap();
    machine.set_interrupter(Some(Interrupter::default()));
    let output = Command::shell("loop").output(&mut machine).unwrap();
    assert_eq!(*output.status.outcome(), ENDED);
}
