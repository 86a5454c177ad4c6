//! Why an action has no result.

use bazel_remote_apis::build::bazel::remote::execution::v2::Digest;
use bazel_remote_apis::google::protobuf::Any;
use bazel_remote_apis::google::rpc::Status;
use prost::Message as _;
use prost::encoding::{bytes, string};

use crate::base::errno::Errno;
use crate::engine::RunError;
use crate::remote::code::{
    DATA_LOSS, DEADLINE_EXCEEDED, FAILED_PRECONDITION, INTERNAL, INVALID_ARGUMENT,
    RESOURCE_EXHAUSTED, UNAVAILABLE,
};
use crate::remote::{Connection, RemoteError, again};

/// An action has no result: it would depend on the server or on this machine, or on nothing, as the action is none.
#[derive(thiserror::Error)]
pub enum ActionError {
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
    /// A limit of this worker ended a run that did not ask for it.
    #[error("the program was ended: {0}, a limit of the worker")]
    LimitOfThisWorker(&'static str),
    /// The program met a limit of this worker, or one of its programs could not be compiled here: elsewhere it may have
    /// done something else.
    #[error("the program went on, but would have done something else on another worker: {0}")]
    OfThisWorker(String),
    /// A stack overflowed, or the engine could not give the program what it asked for: when that happens depends on the code
    /// that was compiled.
    #[error("the program trapped, and might not have done so on another worker: {0}")]
    TrapOfThisWorker(String),
    /// The program cannot be started.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The machine cannot be made, or the inputs cannot be kept while it runs.
    #[error("{0}")]
    Machine(String),
    /// What the run may read cannot be uploaded.
    #[error(
        "{path} cannot be uploaded: {errno}; a worker gets all that the program could read: remove it, or name a directory \
         without it with --worktree"
    )]
    Input {
        /// Its path, as the program sees it.
        path: String,
        /// Why.
        errno: Errno,
    },
    /// A file changed while it was uploaded.
    #[error("{path} changed while it was uploaded; run it again when it does not change")]
    Changed {
        /// Its path, as the program sees it.
        path: String,
    },
    /// An output cannot be read, or not be made here.
    #[error("the output {path:?} cannot be read or made: {errno}")]
    Output {
        /// Its path.
        path: String,
        /// Why.
        errno: Errno,
    },
}

crate::base::readable::readable!(ActionError);

impl ActionError {
    pub(super) fn invalid(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid { what: what.into(), reason: reason.into() }
    }

    pub(super) fn missing(what: impl Into<String>, digest: &Digest) -> Self {
        Self::Missing { what: what.into(), hash: digest.hash.clone(), len: digest.size_bytes }
    }

    fn code(&self) -> i32 {
        match self {
            // What the server said of a request holds for the action.
            Self::Remote(RemoteError::Failed { code, .. }) if *code != 0 => *code,
            Self::Remote(RemoteError::Wrong { .. }) => DATA_LOSS,
            Self::Invalid { .. } => INVALID_ARGUMENT,
            Self::Missing { .. } | Self::NotInstalled(_) | Self::Run(_) => FAILED_PRECONDITION,
            Self::Remote(_) => UNAVAILABLE,
            Self::Limit { of_time: true, .. } => DEADLINE_EXCEEDED,
            Self::Limit { .. }
            | Self::OfThisWorker(_)
            | Self::LimitOfThisWorker(_)
            | Self::TrapOfThisWorker(_) => RESOURCE_EXHAUSTED,
            Self::Machine(_) | Self::Input { .. } | Self::Changed { .. } | Self::Output { .. } => {
                INTERNAL
            }
        }
    }

    /// The encoded `google.rpc.Status` that says so to who asked for the action.
    pub fn to_status(&self) -> Vec<u8> {
        let details = match self {
            Self::Missing { hash, len, .. } => vec![missing_contents(hash, *len)],
            _ => Vec::new(),
        };
        Status { code: self.code(), message: self.to_string(), details }.encode_to_vec()
    }
}

/// The encoded `google.rpc.Status` of a failure that is none of [`ActionError`].
pub fn status_of_failure(message: String) -> Vec<u8> {
    Status { code: INTERNAL, message, ..Status::default() }.encode_to_vec()
}

/// A `google.rpc.PreconditionFailure` by which clients know what to upload again.
fn missing_contents(hash: &str, len: i64) -> Any {
    // Its one field is a list of violations, whose first two fields are these.
    let mut violation = Vec::new();
    string::encode(1, &"MISSING".to_owned(), &mut violation);
    string::encode(2, &format!("blobs/{hash}/{len}"), &mut violation);
    let mut failure = Vec::new();
    bytes::encode(1, &violation, &mut failure);
    Any {
        type_url: "type.googleapis.com/google.rpc.PreconditionFailure".to_owned(),
        value: failure,
    }
}

/// The contents with `digest`, which are `what`.
///
/// # Errors
/// [`ActionError`]: the server does not have them, or fails.
pub(super) fn fetch(
    server: &Connection,
    digest: &Digest,
    what: impl FnOnce() -> String,
) -> Result<Vec<u8>, ActionError> {
    again(|| server.read(digest))?.ok_or_else(|| ActionError::missing(what(), digest))
}
