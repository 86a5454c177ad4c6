//! WASI 0.3: `tests/guests/rust/preview3-calls` makes the calls, some of them at once.

mod cli;
mod files;
mod random;
mod runs;
mod streams;
mod tasks;

use belljar::{Command, Limits, MachineBuilder, Outcome, Output, Program};

use super::{builder, output_in, text};
use crate::support::{engine, package};

/// Where the program is that makes the calls.
fn path() -> String {
    let path = package().join("tests/guests/preview3_calls.wasm");
    path.to_str().expect("the folder of the package is UTF-8").to_owned()
}

fn command(calls: &[&str]) -> Command {
    let mut command = Command::new(&Program::load(engine(), path()).unwrap());
    command.args(calls);
    command
}

fn lines_of(output: &Output) -> Vec<String> {
    text(&output.stdout).lines().map(str::to_owned).collect()
}

/// What the calls answer, a line each. `d0` is the root, `d1` the current directory.
fn answers(calls: &[&str]) -> Vec<String> {
    answers_in(builder(), calls)
}

fn answers_in(builder: MachineBuilder, calls: &[&str]) -> Vec<String> {
    let output = output_in(builder, &command(calls));
    let said = text(&output.stderr);
    assert_eq!(*output.status.outcome(), Outcome::Exited(0), "{calls:?}: {said}");
    lines_of(&output)
}

/// Compares what each call answers.
fn expect(calls: &[(&str, &str)]) {
    let made: Vec<&str> = calls.iter().map(|(call, _)| *call).collect();
    let wanted: Vec<&str> = calls.iter().map(|(_, answer)| *answer).collect();
    assert_eq!(answers(&made), wanted, "{made:#?}");
}

/// How a run with `limits` ends, and what it has written by then.
fn ended(limits: Limits, calls: &[&str]) -> (Outcome, Vec<String>) {
    let output = output_in(builder().limits(limits), &command(calls));
    (output.status.outcome().clone(), lines_of(&output))
}
