//! Components: what WASI 0.2 and 0.3 promise, call by call (`tests/guests/rust/preview2-calls` and `preview3-calls` make the
//! calls that they are told), and that all that holds for modules holds for them.

mod cli;
mod files;
mod http;
mod invoke;
mod linking;
mod preview3;
mod process;
mod random;
mod runs;
mod streams;

use belljar::{Command, Machine, MachineBuilder, Outcome, Output, Program, Source};

use crate::support::{engine, package, replays};

/// The program that makes the calls.
fn program() -> Program {
    Program::load(engine(), package().join("tests/guests/preview2_calls.wasm")).unwrap()
}

fn builder() -> MachineBuilder {
    Machine::builder().mount("/worktree", Source::Memory)
}

fn command(calls: &[&str]) -> Command {
    let mut command = Command::new(&program());
    command.args(calls);
    command
}

fn output_in(builder: MachineBuilder, command: &Command) -> Output {
    replays::output(builder, command).1
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What the calls answer, a line each. `d0` is the root, `d1` the current directory.
fn answers(calls: &[&str]) -> Vec<String> {
    answers_in(builder(), calls)
}

fn answers_in(builder: MachineBuilder, calls: &[&str]) -> Vec<String> {
    let calls: Vec<&str> = ["dirs"].iter().chain(calls).copied().collect();
    let output = output_in(builder, &command(&calls));
    let said = text(&output.stderr);
    assert_eq!(*output.status.outcome(), Outcome::Exited(0), "{calls:?}: {said}");
    let lines = text(&output.stdout);
    lines.lines().skip(2).map(str::to_owned).collect()
}

/// Compares what each call answers. A call that answers nothing has no line.
fn expect(calls: &[(&str, &str)]) {
    let made: Vec<&str> = calls.iter().map(|(call, _)| *call).collect();
    let wanted: Vec<&str> =
        calls.iter().map(|(_, answer)| *answer).filter(|it| !it.is_empty()).collect();
    let found = answers(&made);
    assert_eq!(found, wanted, "{made:#?}");
}

/// The message of the trap that the last of `calls` is.
fn trap(calls: &[&str]) -> String {
    let calls: Vec<&str> = ["dirs"].iter().chain(calls).copied().collect();
    let output = output_in(builder(), &command(&calls));
    match output.status.outcome() {
        Outcome::Trapped(trap) => trap.message.clone(),
        outcome => panic!("{outcome:?}, not a trap: {}", text(&output.stdout)),
    }
}
