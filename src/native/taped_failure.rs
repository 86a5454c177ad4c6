//! Runs that failed, on a process tape.

use serde::{Deserialize, Serialize};

use super::SubprocessError;

/// Why a program did not run, or not to its end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TapedFailure {
    /// The host has no such program.
    NotFound,
    /// The folder in which it should run is not there.
    CurrentDir,
    /// The host does not allow it to start.
    PermissionDenied,
    /// The sandbox profile runs no program of the host.
    Denied,
    /// It was ended for writing more than it may.
    OutputLimit,
    /// Something else, in the host's words.
    Host(String),
}

impl TapedFailure {
    /// What a tape says of `error`.
    pub(super) fn of(error: &SubprocessError) -> Self {
        match error {
            SubprocessError::NotFound { .. } => Self::NotFound,
            SubprocessError::CurrentDir { .. } => Self::CurrentDir,
            SubprocessError::PermissionDenied { .. } => Self::PermissionDenied,
            SubprocessError::Denied { .. } => Self::Denied,
            SubprocessError::OutputLimit { .. } => Self::OutputLimit,
            SubprocessError::Host { source, .. } => Self::Host(source.to_string()),
            other => Self::Host(other.to_string()),
        }
    }

    /// Whether the program never ran.
    pub(super) fn is_of_start(&self) -> bool {
        *self != Self::OutputLimit
    }
}
