//! Errors of streams.

use wasmtime::component::{ComponentType, Lower, Resource};

use super::call::Halt;
use super::exchange;
use crate::abi::Process;
use crate::base::errno::Errno;
use crate::kernel::guest::Fault;

/// `wasi:io/error.error`
pub(in crate::abi) struct IoError {
    pub errno: Errno,
    pub origin: Origin,
}

/// What a stream belongs to whose operation failed.
pub(in crate::abi) enum Origin {
    /// Nothing that has codes of its own.
    Stream,
    /// A file: `filesystem-error-code` has the code.
    File,
    /// The body of an answer: `http-error-code` has this code.
    Http(Box<exchange::ErrorCode>),
}

/// `wasi:io/streams.stream-error`
#[derive(ComponentType, Lower)]
#[component(variant)]
pub(super) enum StreamError {
    #[component(name = "last-operation-failed")]
    LastOperationFailed(Resource<IoError>),
    #[component(name = "closed")]
    Closed,
}

/// The answer of a call on a stream, for the component.
pub(super) type Answer<T> = Result<Result<T, StreamError>, Halt>;

/// Why an operation on a stream fails.
pub(in crate::abi) enum Failure {
    Closed,
    Error(IoError),
    Halt(Halt),
}

impl From<Halt> for Failure {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Halt(Halt::from(fault))
    }
}

impl Process {
    /// `answer`, as the interface says it.
    pub(super) fn stream_answer<T>(&mut self, answer: Result<T, Failure>) -> Answer<T> {
        match answer {
            Ok(value) => Ok(Ok(value)),
            Err(Failure::Closed) => Ok(Err(StreamError::Closed)),
            Err(Failure::Error(error)) => {
                self.resources.failed = Some(error.errno);
                Ok(Err(StreamError::LastOperationFailed(self.add(error)?)))
            }
            Err(Failure::Halt(halt)) => Err(halt),
        }
    }
}
