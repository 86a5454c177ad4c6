//! A subprocess that was started.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::runner::NativeChild;
use super::streams::{ChildInput, ChildOutput, Collected, CutShort, Sent, Streams, Written, lock};
use super::{
    SandboxProfile, SubprocessError, SubprocessOutput, SubprocessRequest, SubprocessStatus,
    SubprocessStdio, TapeEntry, TapedFailure,
};
use crate::base::digest::Digest;
use crate::engine::Program;

/// A subprocess that was started, in the manner of [`std::process::Child`]. It is waited for with
/// [`Subprocesses::wait`](super::Subprocesses::wait), which notes what came of it.
///
/// A program of the host runs meanwhile, and any number of them beside each other. A replayed one has
/// written everything from the start. A module has run to its end, unless its input is piped: then
/// it runs when it is waited for.
///
/// Dropped before it was waited for, a program of the host is ended, with all processes of its group.
pub struct SubprocessChild {
    /// What it reads, if that is [`SubprocessInput::Piped`](super::SubprocessInput::Piped). Whoever
    /// waits closes it, if it is still here.
    pub stdin: Option<ChildInput>,
    /// What it writes to standard output, unless that is thrown away.
    pub stdout: Option<ChildOutput>,
    /// What it writes to standard error, unless that is thrown away.
    pub stderr: Option<ChildOutput>,
    pub(super) call: Call,
    pub(super) work: Work,
    pub(super) streams: Arc<Streams>,
    sent: Option<Arc<Mutex<Sent>>>,
}

/// What was asked for.
pub(super) struct Call {
    /// Counted from 1.
    pub(super) number: u64,
    /// The program's name, for messages.
    pub(super) program: String,
    /// As a process tape says it.
    pub(super) asked: TapeEntry,
    /// When it started, on its machine's monotonic clock.
    pub(super) started_ns: u64,
    /// How much it may write.
    pub(super) output_bytes_max: u64,
}

impl Call {
    /// Waits for the program, and says what came of it.
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

    /// What whoever made the call is told of `failure`, which a tape has.
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
                why: "there is no such folder on the host",
            },
            TapedFailure::PermissionDenied => {
                SubprocessError::PermissionDenied { call: number, program, profile }
            }
            TapedFailure::Denied => SubprocessError::Denied { call: number, program },
            TapedFailure::OutputLimit => self.output_limit(),
            TapedFailure::Host(message) => self.host_error(io::Error::other(message.clone())),
        }
    }

    /// It wrote more than it may.
    pub(super) fn output_limit(&self) -> SubprocessError {
        let (call, program, limit_bytes) =
            (self.number, self.program.clone(), self.output_bytes_max);
        SubprocessError::OutputLimit { call, program, limit_bytes }
    }

    /// The host cannot run it.
    pub(super) fn host_error(&self, source: io::Error) -> SubprocessError {
        SubprocessError::Host { call: self.number, program: self.program.clone(), source }
    }
}

/// Where it runs.
pub(super) enum Work {
    /// On the host.
    Native(NativeChild),
    /// Nowhere: this is what came of it, and its place on the tape.
    Taped(usize, Box<TapeEntry>),
    /// In a machine, once its input is known.
    Deferred(Box<(Program, SubprocessRequest)>),
    /// It was waited for.
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

    /// The number of its call, from 1: the same in every run. Tapes know it by that.
    pub fn id(&self) -> u64 {
        self.call.number
    }

    /// The number of the host's process, while there is one.
    pub fn host_id(&self) -> Option<u32> {
        match &self.work {
            Work::Native(native) => Some(native.id()),
            _ => None,
        }
    }

    /// Ends a program of the host: on Unix with all processes of its group. One that has left that
    /// and keeps its streams is left behind a second later. One that is replayed ends as it did when
    /// it was recorded; a module that has not run never does.
    ///
    /// # Errors
    /// As the host answers. That it has ended already is no error.
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

    /// Closes its input, and says what went in; `None` if that was no pipe.
    pub(super) fn close_stdin(&mut self) -> Option<Vec<u8>> {
        drop(self.stdin.take());
        let mut sent = lock(self.sent.as_ref()?);
        let bytes = std::mem::take(&mut sent.bytes);
        self.call.asked.stdin_digest = (!sent.is_cut).then(|| Digest::of(&bytes));
        Some(bytes)
    }
}
