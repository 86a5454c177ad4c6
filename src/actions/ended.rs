//! A process that ended, and whether others may use its result.

use super::ActionError;
use super::run_end::RunEnd;
use crate::base::errno::Errno;
use crate::engine::{Outcome, RunError, is_of_code_and_imports};
use crate::kernel::guest::SpawnError;
use crate::kernel::machine::limits::{Limit, Limits};
use crate::kernel::machine::{Machine, WORKTREE};
use crate::kernel::process::TRAPPED_MAX;
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

/// Fails if a process trapped in a way that depends on this worker, or may have.
fn expect_own_traps(status: &ExitStatus) -> Result<(), ActionError> {
    let own = match status.outcome() {
        Outcome::Trapped(trap) => Some(trap),
        _ => None,
    };
    let mut all = own.into_iter().chain(status.trapped().iter().map(|it| &it.trap));
    let message = match all.find(|trap| !is_of_code_and_imports(trap)) {
        Some(trap) => trap.message.clone(),
        // Of more, nothing is known.
        None if status.trapped().len() >= TRAPPED_MAX => {
            format!("{TRAPPED_MAX} of its processes, or more, trapped")
        }
        None => return Ok(()),
    };
    Err(ActionError::TrapOfThisWorker(message))
}

/// The first of the limits that `machine` met that is not one of the run, which asked for the limits `asked`.
pub fn limit_of_worker(machine: &Machine, asked: Option<&Limits>) -> Option<Limit> {
    let of_run = |limit: &Limit| asked.is_some_and(|asked| is_own(*limit, asked, machine.limits()));
    machine.limits_hit().into_iter().find(|limit| !of_run(limit))
}

/// Whether the `limit` of a run that asked for `asked`, and got `given`, is its own. Limits that machines have for themselves
/// are not.
fn is_own(limit: Limit, asked: &Limits, given: &Limits) -> bool {
    match limit {
        Limit::Memory => asked.memory_bytes_max == given.memory_bytes_max,
        Limit::Fuel => asked.fuel == given.fuel,
        Limit::Timeout => asked.timeout == given.timeout,
        Limit::VirtualTimeout => asked.virtual_timeout == given.virtual_timeout,
        Limit::OpenFiles => asked.open_files_max == given.open_files_max,
        Limit::Processes => asked.processes_max == given.processes_max,
        Limit::Pipes => asked.pipes_max == given.pipes_max,
        Limit::Output => asked.output_bytes_max == given.output_bytes_max,
        Limit::Trace => asked.trace_bytes_max == given.trace_bytes_max,
        Limit::HostCall => asked.host_call_bytes_max == given.host_call_bytes_max,
        Limit::Upper => asked.vfs.upper_bytes_max == given.vfs.upper_bytes_max,
        Limit::FileSize => asked.vfs.file_bytes_max == given.vfs.file_bytes_max,
        Limit::Modules => true,
        Limit::Host => false,
    }
}

/// A run of belljar that asked for the limits `asked` and ended, or why it has no result that others may use. What its own
/// limits do is part of it, but for that of real time.
pub fn run_ended(
    output: Result<Output, RunError>,
    machine: &Machine,
    asked: &Limits,
) -> Result<Ended, ActionError> {
    let Output { status, stdout, stderr } = match output {
        Ok(output) => output,
        Err(RunError::Spawn(error)) => return Err(not_installed(&error)),
        Err(
            error @ (RunError::NoStart { .. }
            | RunError::BadStart { .. }
            | RunError::Memory { .. }
            | RunError::Preopen { .. }),
        ) if limit_of_worker(machine, Some(asked)).is_none() => {
            let mut end = RunEnd::not_started(error.to_string());
            end.limits_hit = machine.limits_hit();
            return Ok(Ended::new(126, Vec::new(), Vec::new(), Some(end)));
        }
        Err(error) => return Err(error.into()),
    };
    let outcome = status.outcome();
    if let Outcome::Limit(limit) = *outcome {
        let is_own = is_own(limit, asked, machine.limits());
        if limit == Limit::Timeout && is_own {
            return Err(ActionError::Limit { limit: limit.name(), of_time: true });
        }
        if !is_own {
            return Err(ActionError::LimitOfThisWorker(limit.name()));
        }
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
