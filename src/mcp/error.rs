//! Why a call of a tool fails.

use serde::Serialize;

use super::call::Consent;
use crate::sandbox::{CopyError, SandboxError};

/// The kind of a [`ToolError`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The arguments are not those of the tool.
    Arguments,
    /// There is no such sandbox, file, output or program.
    NotFound,
    /// The policy does not allow it.
    Denied,
    /// The user has to agree first, or did not.
    Consent,
    /// A limit is reached.
    Limit,
    /// The call was cancelled.
    Cancelled,
    /// It was tried and failed.
    Failed,
}

/// A call of a tool failed. The message says what failed, why, and what to do.
#[derive(Clone, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// What kind of error it is.
    pub kind: ErrorKind,
    /// What failed, and the next step.
    pub message: String,
    /// What the user has to agree to, if that is missing.
    pub consent: Option<Box<Consent>>,
}

crate::base::readable::readable!(ToolError);

impl ToolError {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), consent: None }
    }

    pub(super) fn arguments(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Arguments, message)
    }

    pub(super) fn denied(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Denied, message)
    }

    pub(super) fn limit(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Limit, message)
    }

    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// The error as JSON, for clients and tapes.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({ "error": { "kind": self.kind, "message": self.message } })
    }
}

impl From<SandboxError> for ToolError {
    fn from(error: SandboxError) -> Self {
        let kind = match &error {
            SandboxError::InvalidRequest { .. } => ErrorKind::Arguments,
            SandboxError::SessionNotFound { .. } | SandboxError::Exec { is_found: false, .. } => {
                ErrorKind::NotFound
            }
            _ => ErrorKind::Failed,
        };
        Self::new(kind, with_causes(&error))
    }
}

impl From<CopyError> for ToolError {
    fn from(error: CopyError) -> Self {
        Self::failed(with_causes(&error))
    }
}

/// The message of `error`, with those of its causes that it does not have itself.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        cause = error.source();
    }
    text
}
