//! Failed runs on a process tape.

use serde::{Deserialize, Serialize};

use super::SubprocessError;

/// Why a program did not run, or not to its end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TapedFailure {
    /// The host has no such program.
    NotFound,
    /// Its current directory does not exist.
    CurrentDir,
    /// The host denies executing it.
    PermissionDenied,
    /// The sandbox profile allows no native programs.
    Denied,
    /// It exceeded its output limit.
    OutputLimit,
    /// Another error; the host's message.
    Host(String),
}

impl TapedFailure {
    /// The reason to record for `error`.
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
