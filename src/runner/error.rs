//! Why an action has no result.

use bazel_remote_apis::google::rpc::Status;
use prost::Message as _;

use crate::base::errno::Errno;
use crate::engine::RunError;
use crate::remote::RemoteError;

/// An action has no result: it would depend on the server or on this machine, or on nothing, as the action is none.
#[derive(thiserror::Error)]
pub enum RunnerError {
    /// The action, its command or a directory of its input root is malformed.
    #[error("{what}: {reason}")]
    Invalid {
        /// What is.
        what: String,
        /// Why.
        reason: String,
    },
    /// The server does not have contents that the action needs.
    #[error("the server does not have {what}: blobs/{hash}/{len}")]
    Missing {
        /// What they are.
        what: String,
        /// Their digest.
        hash: String,
        /// Their length in bytes.
        len: i64,
    },
    /// The server failed.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// A program or toolchain is not on this worker.
    #[error("{0}")]
    NotInstalled(String),
    /// A limit of the action or of this worker ended the program.
    #[error("the program was ended: {limit}")]
    Limit {
        /// The name of the limit.
        limit: &'static str,
        /// Whether it is one of time.
        of_time: bool,
    },
    /// The program cannot be started.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The machine cannot be made, or the inputs cannot be kept while it runs.
    #[error("{0}")]
    Machine(String),
    /// An output cannot be read.
    #[error("the output {path:?} cannot be read: {errno}")]
    Output {
        /// Its path.
        path: String,
        /// Why.
        errno: Errno,
    },
}

crate::base::readable::readable!(RunnerError);

// The codes of google.rpc.
const INVALID_ARGUMENT: i32 = 3;
const DEADLINE_EXCEEDED: i32 = 4;
const RESOURCE_EXHAUSTED: i32 = 8;
const FAILED_PRECONDITION: i32 = 9;
const INTERNAL: i32 = 13;
const UNAVAILABLE: i32 = 14;

impl RunnerError {
    pub(super) fn invalid(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid { what: what.into(), reason: reason.into() }
    }

    fn code(&self) -> i32 {
        match self {
            Self::Invalid { .. } => INVALID_ARGUMENT,
            Self::Missing { .. } | Self::NotInstalled(_) | Self::Run(_) => FAILED_PRECONDITION,
            Self::Remote(_) => UNAVAILABLE,
            Self::Limit { of_time: true, .. } => DEADLINE_EXCEEDED,
            Self::Limit { .. } => RESOURCE_EXHAUSTED,
            Self::Machine(_) | Self::Output { .. } => INTERNAL,
        }
    }

    /// The encoded `google.rpc.Status` that says so to who asked for the action.
    pub fn to_status(&self) -> Vec<u8> {
        let message = self.to_string();
        Status { code: self.code(), message, ..Status::default() }.encode_to_vec()
    }
}
