//! Errors of host calls.

use serde_json::{Value, json};

use crate::engine::RunError;
use crate::net::HttpFailure;

/// A host call failed.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// There is no such operation.
    #[error("unsupported operation {name}")]
    Unsupported {
        /// The name.
        name: String,
    },
    /// The parameters are invalid.
    #[error("{name}: {problem}")]
    Params {
        /// The operation.
        name: String,
        /// What is wrong, and what is expected.
        problem: String,
    },
    /// A mock answered with an error.
    #[error("{message}")]
    Mock {
        /// The mock's message.
        message: String,
    },
    /// The bridge answered with an error.
    #[error("{name}: {message}")]
    Bridge {
        /// The operation.
        name: String,
        /// The bridge's message.
        message: String,
    },
    /// The egress policy blocked a request: see [`crate::net::EgressBlocked`].
    #[error("{message}")]
    EgressBlocked {
        /// What was blocked, and why.
        message: String,
    },
    /// The operation failed.
    #[error("{name}: {message}")]
    Failed {
        /// The operation.
        name: String,
        /// Why.
        message: String,
    },
    /// A request over HTTP failed.
    #[error("{name}: {message}")]
    Http {
        /// The operation.
        name: String,
        /// Why, for people.
        message: String,
        /// Why, for programs.
        failure: HttpFailure,
    },
    /// The parameters or the answer are too long.
    #[error("{name}: {what} exceeds {limit_bytes} bytes (Limits::host_call_bytes_max)")]
    TooLong {
        /// The operation.
        name: String,
        /// What is too long.
        what: String,
        /// The limit, in bytes.
        limit_bytes: u64,
    },
    /// The call ended without an answer, by a limit of the machine or a signal.
    #[error("{message}")]
    Ended {
        /// How it ended.
        message: String,
    },
    /// The call could not be started.
    #[error(transparent)]
    Run(#[from] RunError),
}

crate::base::readable::readable!(HostError);

impl HostError {
    /// The error's name in answers, such as `unsupported`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unsupported { .. } => "unsupported",
            Self::Params { .. } => "params",
            Self::Mock { .. } => "mock",
            Self::Bridge { .. } => "bridge",
            Self::EgressBlocked { .. } => "egress_blocked",
            Self::Failed { .. } | Self::Http { .. } => "failed",
            Self::TooLong { .. } => "too_long",
            Self::Ended { .. } | Self::Run(_) => "ended",
        }
    }

    pub(super) fn params(name: &str, problem: impl Into<String>) -> Self {
        Self::Params { name: name.to_owned(), problem: problem.into() }
    }

    pub(super) fn failed(name: &str, message: impl Into<String>) -> Self {
        Self::Failed { name: name.to_owned(), message: message.into() }
    }

    pub(super) fn bridge(name: &str, message: impl Into<String>) -> Self {
        Self::Bridge { name: name.to_owned(), message: message.into() }
    }
}

/// The result that `json`, an answer of the operation `name`, encodes.
pub(super) fn parse_answer(name: &str, json: &str) -> Result<Value, HostError> {
    let answer: Value = serde_json::from_str(json).unwrap_or_default();
    if let Some(value) = answer.get("ok") {
        return Ok(value.clone());
    }
    let message = answer["error"]["message"].as_str().unwrap_or("the tape has no answer");
    let own = message.strip_prefix(name).and_then(|rest| rest.strip_prefix(": "));
    let (name, own) = (name.to_owned(), own.unwrap_or(message).to_owned());
    Err(match answer["error"]["kind"].as_str() {
        Some("unsupported") => HostError::Unsupported { name },
        Some("mock") => HostError::Mock { message: own },
        Some("egress_blocked") => HostError::EgressBlocked { message: own },
        Some("params") => HostError::Params { name, problem: own },
        Some("bridge") => HostError::Bridge { name, message: own },
        Some("ended") => HostError::Ended { message: own },
        _ => match answer["error"]["code"].as_str().and_then(HttpFailure::named) {
            Some(failure) => HostError::Http { name, message: own, failure },
            None => HostError::Failed { name, message: own },
        },
    })
}

/// The answer for `result`, as guests get it and tapes hold it.
pub(super) fn answer(result: &Result<Value, HostError>) -> String {
    match result {
        Ok(value) => json!({ "ok": value }),
        Err(error) => {
            let mut told = json!({ "kind": error.kind(), "message": error.to_string() });
            if let HostError::Http { failure, .. } = error {
                told["code"] = failure.as_str().into();
            }
            json!({ "error": told })
        }
    }
    .to_string()
}
