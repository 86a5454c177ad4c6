//! A process that ended, and whether others may use its result.

use super::ActionError;
use super::run_end::RunEnd;
use crate::base::errno::Errno;
use crate::engine::{Outcome, RunError, is_of_code_and_imports};
use crate::kernel::guest::SpawnError;
use crate::kernel::machine::limits::Limit;
use crate::kernel::machine::{Machine, WORKTREE};
use crate::kernel::vfs::beneath;
use crate::process::{ExitStatus, Output};

/// Whether `program` names something among the inputs, and not a program of the worker.
fn is_of_inputs(program: &str) -> bool {
    program.contains('/') && (!program.starts_with('/') || beneath(WORKTREE, program).is_some())
}

/// A process that ended, as its result tells it.
pub struct Ended {
    /// The exit code.
    pub exit_code: i32,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error, and why it did not end by itself, unless `end` says so.
    pub stderr: Vec<u8>,
    /// For a run of belljar: how it ended.
    pub end: Option<RunEnd>,
}

impl Ended {
    fn new(code: u32, stdout: Vec<u8>, stderr: Vec<u8>, end: Option<RunEnd>) -> Self {
        // Codes above 255 are those of no system.
        let exit_code = i32::try_from(code.min(255)).unwrap_or(255);
        Self { exit_code, stdout, stderr, end }
    }
}

/// How a program of the worker could not be found.
fn not_installed(error: &SpawnError) -> ActionError {
    ActionError::NotInstalled(format!(
        "{error}; `belljar install` on the worker adds toolchains, and a path with a slash names a module of the inputs"
    ))
}

/// Fails if a process trapped in a way that depends on this worker.
fn expect_own_traps(status: &ExitStatus) -> Result<(), ActionError> {
    let own = match status.outcome() {
        Outcome::Trapped(trap) => Some(trap),
        _ => None,
    };
    let mut all = own.into_iter().chain(status.trapped().iter().map(|it| &it.trap));
    match all.find(|trap| !is_of_code_and_imports(trap)) {
        Some(trap) => Err(ActionError::TrapOfThisWorker(trap.message.clone())),
        None => Ok(()),
    }
}

/// A run of belljar that ended, or why it has no result that others may use. Limits of which it has its own (`own_limits`)
/// are part of it, but those of real time and of this host.
pub fn run_ended(
    output: Result<Output, RunError>,
    machine: &Machine,
    own_limits: bool,
) -> Result<Ended, ActionError> {
    let Output { status, stdout, stderr } = match output {
        Ok(output) => output,
        Err(RunError::Spawn(error)) => return Err(not_installed(&error)),
        Err(
            error @ (RunError::NoStart { .. }
            | RunError::BadStart { .. }
            | RunError::Memory { .. }
            | RunError::Preopen { .. }),
        ) if own_limits => {
            let mut end = RunEnd::not_started(error.to_string());
            end.limits_hit = machine.limits_hit();
            return Ok(Ended::new(126, Vec::new(), Vec::new(), Some(end)));
        }
        Err(error) => return Err(error.into()),
    };
    let outcome = status.outcome();
    if let Outcome::Limit(limit) = outcome
        && (!own_limits || matches!(limit, Limit::Timeout | Limit::Host))
    {
        return Err(ActionError::Limit { limit: limit.name(), of_time: outcome.is_of_time() });
    }
    expect_own_traps(&status)?;
    let end = RunEnd::of(&status, machine.limits_hit(), machine.missing_programs().to_vec());
    Ok(Ended::new(outcome.code(), stdout, stderr, Some(end)))
}

/// A process that ended, or why it has no result that others may use.
pub fn ended(output: Result<Output, RunError>, program: &str) -> Result<Ended, ActionError> {
    let Output { status, stdout, mut stderr } = match output {
        Ok(output) => output,
        // What the inputs have is the same on each worker; what is installed is not.
        Err(RunError::Spawn(error)) if is_of_inputs(program) => {
            let code = if error.errno == Errno::Noent { 127 } else { 126 };
            let said = format!("belljar: {error}\n").into_bytes();
            return Ok(Ended::new(code, Vec::new(), said, None));
        }
        Err(RunError::Spawn(error)) => return Err(not_installed(&error)),
        Err(error) => return Err(error.into()),
    };
    expect_own_traps(&status)?;
    let outcome = status.outcome();
    let mut say = |message: String| stderr.extend(format!("belljar: {message}\n").into_bytes());
    match outcome {
        Outcome::Limit(limit) => {
            let (limit, of_time) = (limit.name(), outcome.is_of_time());
            return Err(ActionError::Limit { limit, of_time });
        }
        Outcome::Trapped(trap) => say(format!("{program} trapped: {}", trap.message)),
        Outcome::Signalled(signal) => say(format!("{program} was ended by {signal}")),
        Outcome::Deadlock(waits) => {
            say(format!("{program} was ended: its processes wait for each other\n{waits}"));
        }
        Outcome::Exited(_) | Outcome::Tape => {}
    }
    for trapped in status.trapped() {
        say(format!("{} trapped: {}", trapped.name, trapped.trap.message));
    }
    Ok(Ended::new(outcome.code(), stdout, stderr, None))
}
