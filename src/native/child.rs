//! A started subprocess.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::runner::NativeChild;
use super::streams::{ChildInput, ChildOutput, Collected, CutShort, Sent, Streams, Written, lock};
use super::{
    FilesError, SandboxProfile, SubprocessError, SubprocessOutput, SubprocessRequest,
    SubprocessStatus, SubprocessStdio, TapeEntry, TapedFailure,
};
use crate::base::digest::Digest;
use crate::engine::Program;

/// A started subprocess, like [`std::process::Child`].
/// [`Subprocesses::wait`](super::Subprocesses::wait) waits for it and records its result.
///
/// A native program runs in the background, beside any number of others. A replayed one has all its
/// output from the start. A module has already run to its end, unless its input is piped: then it
/// runs when it is waited for.
///
/// Dropping it before it was waited for kills a native program and its process group.
pub struct SubprocessChild {
    /// Standard input, if it is [`SubprocessInput::Piped`](super::SubprocessInput::Piped). Waiting
    /// closes it.
    pub stdin: Option<ChildInput>,
    /// Standard output, unless it is discarded.
    pub stdout: Option<ChildOutput>,
    /// Standard error, unless it is discarded.
    pub stderr: Option<ChildOutput>,
    pub(super) call: Call,
    pub(super) work: Work,
    pub(super) streams: Arc<Streams>,
    sent: Option<Arc<Mutex<Sent>>>,
}

/// The request of a subprocess.
pub(super) struct Call {
    /// From 1.
    pub(super) number: u64,
    /// The program's name, for messages.
    pub(super) program: String,
    /// The request as an entry of a process tape.
    pub(super) asked: TapeEntry,
    /// On the machine's monotonic clock.
    pub(super) started_ns: u64,
    /// Limit of what it may write.
    pub(super) output_bytes_max: u64,
}

impl Call {
    /// Waits for the program and returns its output.
    pub(super) fn output_of(
        &self,
        native: &NativeChild,
    ) -> Result<SubprocessOutput, SubprocessError> {
        let (status, collected) = native.wait().map_err(|source| self.host_error(source))?;
        let Collected { stdout, stderr, cut_short, error } = collected;
        match (cut_short, error) {
            (Some(CutShort::OutputLimit), _) => Err(self.output_limit()),
            (_, Some(source)) => Err(self.host_error(source)),
            (Some(CutShort::Timeout), None) => {
                Ok(SubprocessOutput { status: SubprocessStatus::TIMED_OUT, stdout, stderr })
            }
            (None, None) => Ok(SubprocessOutput { status, stdout, stderr }),
        }
    }

    /// The error that a recorded `failure` stands for.
    pub(super) fn failed(
        &self,
        failure: &TapedFailure,
        request: &SubprocessRequest,
        root: &Path,
        profile: SandboxProfile,
    ) -> SubprocessError {
        let (number, program) = (self.number, self.program.clone());
        match failure {
            TapedFailure::NotFound => SubprocessError::NotFound { call: number, program },
            TapedFailure::CurrentDir => SubprocessError::CurrentDir {
                call: number,
                program,
                dir: request.dir(root).unwrap_or_default(),
                why: "no such directory on the host",
            },
            TapedFailure::PermissionDenied => {
                SubprocessError::PermissionDenied { call: number, program, profile }
            }
            TapedFailure::Denied => SubprocessError::Denied { call: number, program },
            TapedFailure::OutputLimit => self.output_limit(),
            TapedFailure::Host(message) => self.host_error(io::Error::other(message.clone())),
        }
    }

    pub(super) fn output_limit(&self) -> SubprocessError {
        let (call, program, limit_bytes) =
            (self.number, self.program.clone(), self.output_bytes_max);
        SubprocessError::OutputLimit { call, program, limit_bytes }
    }

    pub(super) fn files_error(&self, source: FilesError) -> SubprocessError {
        let (call, program, source) = (self.number, self.program.clone(), Box::new(source));
        SubprocessError::Files { call, program, source }
    }

    pub(super) fn host_error(&self, source: io::Error) -> SubprocessError {
        SubprocessError::Host { call: self.number, program: self.program.clone(), source }
    }
}

/// Where it runs.
pub(super) enum Work {
    /// As a native program.
    Native(NativeChild),
    /// Not at all: its entry on the tape, and the entry's index.
    Taped(usize, Box<TapeEntry>),
    /// In a machine, when its input is complete.
    Deferred(Box<(Program, SubprocessRequest)>),
    /// It has been waited for.
    Ended(SubprocessStatus),
}

impl SubprocessChild {
    pub(super) fn new(
        call: Call,
        request: &SubprocessRequest,
        work: Work,
        streams: Arc<Streams>,
        stdin: Option<ChildInput>,
    ) -> Self {
        let output = |stdio, which| match stdio {
            SubprocessStdio::Piped => Some(ChildOutput::new(&streams, which)),
            SubprocessStdio::Null => None,
        };
        Self {
            stdout: output(request.stdout, Written::Stdout),
            stderr: output(request.stderr, Written::Stderr),
            sent: stdin.as_ref().map(ChildInput::sent),
            stdin,
            call,
            work,
            streams,
        }
    }

    /// The number of its call, from 1: the same in every run, and on tapes.
    pub fn id(&self) -> u64 {
        self.call.number
    }

    /// The process ID on the host, if a native program runs.
    pub fn host_id(&self) -> Option<u32> {
        match &self.work {
            Work::Native(native) => Some(native.id()),
            _ => None,
        }
    }

    /// Kills a native program, on Unix with its process group. Streams that a process outside the
    /// group holds open are closed after one second. A replayed program ends as it was recorded; a
    /// module that has not run yet never runs.
    ///
    /// # Errors
    /// The host's error. A program that has ended is no error.
    pub fn kill(&mut self) -> io::Result<()> {
        match &self.work {
            Work::Native(native) => native.kill(),
            Work::Taped(..) | Work::Ended(_) => Ok(()),
            Work::Deferred(_) => {
                self.streams.supply(Vec::new(), Vec::new());
                self.work = Work::Ended(SubprocessStatus::KILLED);
                Ok(())
            }
        }
    }

    /// Closes its input and returns what was written to it; `None` if it was not a pipe.
    pub(super) fn close_stdin(&mut self) -> Option<Vec<u8>> {
        drop(self.stdin.take());
        let mut sent = lock(self.sent.as_ref()?);
        let bytes = std::mem::take(&mut sent.bytes);
        self.call.asked.stdin_digest = (!sent.is_cut).then(|| Digest::of(&bytes));
        Some(bytes)
    }
}
