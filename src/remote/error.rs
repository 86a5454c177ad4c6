//! What can go wrong with a server.

use std::time::Duration;

use super::code::{ABORTED, RESOURCE_EXHAUSTED, UNAVAILABLE};

/// The server cannot be used, or failed.
#[derive(thiserror::Error)]
pub enum RemoteError {
    /// The address is none, or no connection can be made.
    #[error("{address}: this server cannot be used: {reason}")]
    Address {
        /// The address.
        address: String,
        /// What is wrong.
        reason: String,
    },
    /// The certificates cannot be read.
    #[error(transparent)]
    Certificates(#[from] crate::base::disk::DiskError),
    /// A request failed.
    #[error("{address}: {operation}: {reason}")]
    Failed {
        /// The address.
        address: String,
        /// The method.
        operation: &'static str,
        /// What the server, or the way there, said.
        reason: String,
        /// The code of the failure, of google.rpc; 0 if it was on this side.
        code: i32,
    },
    /// A request took too long.
    #[error("{address}: {operation}: no answer in {} s", .timeout.as_secs_f64())]
    TimedOut {
        /// The address.
        address: String,
        /// The method.
        operation: &'static str,
        /// How long it was waited for.
        timeout: Duration,
    },
    /// Asking took longer than what was known would have taken to run.
    #[error(
        "{address}: asking took {:.1} s for results that save {:.1} s, so no more are asked for",
        .waited.as_secs_f64(), .saved.as_secs_f64()
    )]
    NoUse {
        /// The address.
        address: String,
        /// How long it was waited for answers.
        waited: Duration,
        /// How long what was found took to run.
        saved: Duration,
    },
    /// The execution of an action was cancelled.
    #[error("{address}: the execution was cancelled")]
    Cancelled {
        /// The address.
        address: String,
    },
    /// An action cannot be executed.
    #[error("{address}: {message} ({what})")]
    Refused {
        /// The address.
        address: String,
        /// The code of the failure, of google.rpc.
        code: i32,
        /// What that stands for.
        what: String,
        /// What the server, or the worker, said.
        message: String,
    },
    /// The server answered something that it must not.
    #[error("{address}: {operation}: a wrong answer: {reason}")]
    Wrong {
        /// The address.
        address: String,
        /// The method.
        operation: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

crate::base::readable::readable!(RemoteError);

impl RemoteError {
    /// Whether the same request may succeed a little later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Failed { code: RESOURCE_EXHAUSTED | ABORTED | UNAVAILABLE, .. })
    }
}
