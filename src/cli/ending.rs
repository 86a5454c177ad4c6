//! Messages about how a program ended.

use super::text::{count, printable};
use crate::kernel::process::{Signal, TrappedProcess};
use crate::{ExitStatus, Limit, Outcome, Trap};

/// Backtraces are shown as far as this many lines.
const BACKTRACE_LINES_MAX: usize = 16;

/// Prints why `program` did not end by itself, and which limits it met. `raised` returns the text about
/// a limit that says how to raise it.
pub fn tell(
    program: &str,
    status: &ExitStatus,
    limits_hit: &[Limit],
    quiet: bool,
    raised: &dyn Fn(Limit) -> String,
) {
    let (outcome, trapped) = (status.outcome(), status.trapped());
    let name = printable(program);
    match outcome {
        Outcome::Exited(_) | Outcome::Tape => {}
        Outcome::Limit(limit) => {
            complain!("belljar: {name} was ended: {limit}{}", raised(*limit));
        }
        // The reader closed its end: shells are silent about that, too.
        Outcome::Signalled(signal) if *signal == Signal::PIPE => {}
        Outcome::Signalled(signal) => complain!("belljar: {name} was ended by {signal}"),
        Outcome::Deadlock(waits) => {
            complain!("belljar: {name} was ended: its processes wait for each other");
            for line in waits.lines() {
                note!("    {}", printable(line));
            }
        }
        Outcome::Trapped(trap) => tell_of_trap(&name, trap),
    }
    for TrappedProcess { pid, name, trap } in trapped {
        tell_of_trap(&format!("process {pid} ({})", printable(name)), trap);
    }
    for limit in limits_hit.iter().filter(|_| !quiet) {
        if *outcome != Outcome::Limit(*limit) {
            note!("belljar: note: {name} ran into the {limit}{}", raised(*limit));
        }
    }
}

fn tell_of_trap(name: &str, trap: &Trap) {
    complain!("belljar: {name} trapped: {}", printable(&trap.message));
    for line in collapsed(&trap.backtrace).iter().take(BACKTRACE_LINES_MAX) {
        note!("    {}", printable(line));
    }
}

/// The lines of a backtrace. A function that called itself has two, however often it did.
fn collapsed(backtrace: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    for calls in backtrace.chunk_by(|a, b| a == b) {
        lines.push(format!("in {}", calls[0]));
        if calls.len() > 1 {
            // The engine cuts long backtraces off.
            lines.push(format!("… at least {} of it", count(calls.len() - 1, "more call")));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recursion_takes_two_lines_of_a_backtrace() {
        let trace: Vec<String> = ["a", "b", "b", "b", "c", "c"].map(String::from).to_vec();
        let lines = [
            "in a",
            "in b",
            "… at least 2 more calls of it",
            "in c",
            "… at least 1 more call of it",
        ];
        assert_eq!(collapsed(&trace), lines);
        assert!(collapsed(&[]).is_empty());
    }
}
