//! Errors of streams.

use wasmtime::component::{ComponentType, Lower, Resource};

use super::call::Halt;
use crate::abi::Process;
use crate::base::errno::Errno;
use crate::kernel::guest::Fault;

/// `wasi:io/error.error`
#[derive(Clone, Copy)]
pub(super) struct IoError {
    pub errno: Errno,
    /// Whether the stream is of a file, so that `filesystem-error-code` has its code.
    pub is_of_file: bool,
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
pub(super) enum Failure {
    Closed,
    Errno(IoError),
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
            Err(Failure::Errno(error)) => {
                self.resources.failed = Some(error.errno);
                Ok(Err(StreamError::LastOperationFailed(self.add(error)?)))
            }
            Err(Failure::Halt(halt)) => Err(halt),
        }
    }
}
