//! The only map from errors and outcomes to exit codes, with [`Outcome::code`].

use std::sync::atomic::{AtomicBool, Ordering};

use super::text::printable;
use crate::native::{NativeError, SubprocessError, SubprocessStatus};
use crate::net::EgressRuleError;
use crate::sandbox::{CopyError, HomeError, SandboxError};
use crate::testbench::TestbenchError;
use crate::{Outcome, ProgramError, ResolveError, RunError};

/// The command line is invalid, or names a file or directory that cannot be used.
pub const USAGE: u8 = 2;
/// The program exited with 0 and would change something, and `--check` asks for that.
pub const WOULD_CHANGE: u8 = 122;
/// Changes are on the disk, but a report could not be written, or their session not be updated.
pub const UNREPORTED: u8 = 123;
/// The guest ran out of time: real, virtual, or fuel.
pub const TIMED_OUT: u8 = 124;
/// Two runs, or two tapes, differ.
pub const DIFFERENT: u8 = 1;
/// The guest trapped, or a limit ended it.
#[cfg(feature = "remote")]
pub const ENDED: u8 = 134;
/// Belljar itself failed.
pub const FAILED: u8 = 125;
/// The program was found and cannot be run.
pub const NOT_RUNNABLE: u8 = 126;
/// There is no such program.
pub const NOT_FOUND: u8 = 127;

/// The command line is valid, but cannot be carried out.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

impl Usage {
    /// `option` names a file that cannot be used.
    pub fn of(option: &str, error: impl Into<anyhow::Error>) -> Self {
        Self(format!("{option}: {:#}", error.into()))
    }

    /// An argument names a file that cannot be used.
    pub fn because(error: impl Into<anyhow::Error>) -> Self {
        Self(format!("{:#}", error.into()))
    }
}

/// Whether changes were written to the disk.
static APPLIED: AtomicBool = AtomicBool::new(false);

/// Notes that changes are on the disk: from now on a report that fails has the code [`UNREPORTED`].
pub fn note_applied() {
    APPLIED.store(true, Ordering::Relaxed);
}

/// The code for a report that could not be written.
pub fn of_unwritten_report() -> u8 {
    if APPLIED.load(Ordering::Relaxed) { UNREPORTED } else { FAILED }
}

/// A report could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}{hint}", hint = where_changes_are())]
pub struct ReportNotWritten(pub anyhow::Error);

fn where_changes_are() -> &'static str {
    if of_unwritten_report() == UNREPORTED { "; the changes are on the disk" } else { "" }
}

/// Changes are on the disk, but their session could not be updated.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
pub struct Unsettled(pub anyhow::Error);

/// An error with a hint.
#[derive(Debug, thiserror::Error)]
#[error("{error:#} ({hint})")]
pub struct Hinted {
    /// The error.
    pub error: anyhow::Error,
    /// The hint.
    pub hint: String,
}

/// The error of another belljar process, which did not get to run its program to the end.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct CommandFailed {
    /// Its exit code.
    pub code: u8,
    /// Its message.
    pub message: String,
}

/// The exit code for an outcome. The guest's own code passes through; one above 255 becomes 255, so that
/// a failure stays one.
pub fn of_outcome(outcome: &Outcome) -> u8 {
    u8::try_from(outcome.code()).unwrap_or(u8::MAX)
}

/// The code and the message for an error.
pub fn describe(error: &anyhow::Error) -> (u8, String) {
    let message = format!("{error:#}");
    let lines: Vec<String> = message.lines().map(printable).collect();
    (code_of(error), lines.join("\n"))
}

fn code_of(error: &anyhow::Error) -> u8 {
    if error.is::<Usage>() {
        return USAGE;
    }
    if error.is::<ReportNotWritten>() {
        return of_unwritten_report();
    }
    if error.is::<Unsettled>() {
        return UNREPORTED;
    }
    if let Some(Hinted { error, .. }) = error.downcast_ref() {
        return code_of(error);
    }
    if let Some(CommandFailed { code, .. }) = error.downcast_ref() {
        return *code;
    }
    if let Some(error) = error.downcast_ref::<ResolveError>() {
        return match error {
            ResolveError::NotFound { .. } => NOT_FOUND,
            ResolveError::BadName { .. } | ResolveError::Folder(_) | ResolveError::Manifest(_) => {
                USAGE
            }
            ResolveError::Precompiled { .. } | ResolveError::IsFolder { .. } => NOT_RUNNABLE,
            ResolveError::Installed(_) => FAILED,
        };
    }
    if let Some(error) = error.downcast_ref::<NativeError>() {
        return match error {
            NativeError::NotFound { .. } => NOT_FOUND,
            NativeError::Start { .. } | NativeError::Profile(_) => NOT_RUNNABLE,
        };
    }
    if let Some(error) = error.downcast_ref::<SubprocessError>() {
        return of_subprocess_error(error);
    }
    if let Some(TestbenchError::Subprocess(error)) = error.downcast_ref() {
        return of_subprocess_error(error);
    }
    if let Some(error) = error.downcast_ref::<ProgramError>() {
        return match error {
            ProgramError::Read(disk) if disk.source.kind() == std::io::ErrorKind::NotFound => {
                NOT_FOUND
            }
            ProgramError::Engine(_) | ProgramError::Cache { .. } => FAILED,
            _ => NOT_RUNNABLE,
        };
    }
    if let Some(error) = error.downcast_ref::<SandboxError>() {
        return match error {
            SandboxError::Exec { is_found: true, .. } => NOT_RUNNABLE,
            SandboxError::Exec { is_found: false, .. } => NOT_FOUND,
            SandboxError::InvalidRequest { .. } | SandboxError::Io { .. } => USAGE,
            _ => FAILED,
        };
    }
    if let Some(error) = error.downcast_ref::<HomeError>() {
        return match error {
            HomeError::NotFound { .. }
            | HomeError::IsSnapshot { .. }
            | HomeError::Ambiguous { .. }
            | HomeError::Id { .. }
            | HomeError::Exists { .. } => USAGE,
            _ => FAILED,
        };
    }
    if let Some(error) = error.downcast_ref::<CopyError>() {
        return match error {
            CopyError::Path { .. } | CopyError::Host { .. } => USAGE,
            CopyError::Apply(_) => FAILED,
        };
    }
    if error.is::<EgressRuleError>() {
        return USAGE;
    }
    error.downcast_ref::<RunError>().map_or(FAILED, of_run_error)
}

/// The code for a recorded native program that ended.
pub fn of_subprocess(status: &SubprocessStatus) -> u8 {
    match status {
        SubprocessStatus::Exited(code) => u8::try_from(*code).unwrap_or(u8::MAX),
        SubprocessStatus::Signalled(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        SubprocessStatus::Stopped(outcome) => of_outcome(outcome),
    }
}

fn of_subprocess_error(error: &SubprocessError) -> u8 {
    match error {
        SubprocessError::NotFound { .. } => NOT_FOUND,
        SubprocessError::PermissionDenied { .. }
        | SubprocessError::Denied { .. }
        | SubprocessError::Profile(_) => NOT_RUNNABLE,
        SubprocessError::Mismatch(_)
        | SubprocessError::Exhausted { .. }
        | SubprocessError::Unconsumed { .. } => DIFFERENT,
        _ => FAILED,
    }
}

/// The code for a program that could not be started.
pub fn of_run_error(error: &RunError) -> u8 {
    match error {
        RunError::Preopen { .. } => USAGE,
        _ => NOT_RUNNABLE,
    }
}
