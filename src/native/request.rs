//! Requests to [`Subprocesses`](super::Subprocesses), and their results.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::engine::Outcome;
use crate::kernel::machine::limits::Limit;

/// Default limit of the bytes that a native program writes to standard output and standard error.
pub const SUBPROCESS_OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// Standard input of a subprocess.
///
/// The host's standard input cannot be inherited, as it could not be replayed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum SubprocessInput {
    /// At its end at once.
    #[default]
    Empty,
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// Written to [`SubprocessChild::stdin`](super::SubprocessChild::stdin) until that is dropped.
    Piped,
}

/// Empty bytes make an empty input.
impl<T: Into<Vec<u8>>> From<T> for SubprocessInput {
    fn from(bytes: T) -> Self {
        let bytes = bytes.into();
        if bytes.is_empty() { Self::Empty } else { Self::Bytes(bytes) }
    }
}

impl SubprocessInput {
    /// The bytes known before the start; `None` for a pipe.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Empty => Some(&[]),
            Self::Bytes(bytes) => Some(bytes),
            Self::Piped => None,
        }
    }
}

/// Where output of a subprocess goes. Never to the host's own streams: the caller prints.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SubprocessStdio {
    /// Kept for the caller and the tapes.
    #[default]
    Piped,
    /// Discarded, also on process tapes.
    Null,
}

/// A program to run, like [`std::process::Command`].
///
/// A native program inherits the host's environment unless it is cleared; a module has only the
/// variables set here. Standard input is empty by default.
///
/// ```
/// use belljar::native::SubprocessRequest;
///
/// let mut request = SubprocessRequest::new("cc");
/// request.args(["-c", "main.c"]).env("LC_ALL", "C").current_dir("src");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubprocessRequest {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) env_clear: bool,
    /// `None` removes the variable.
    pub(super) env: BTreeMap<OsString, Option<OsString>>,
    pub(super) current_dir: Option<PathBuf>,
    pub(super) stdin: SubprocessInput,
    pub(super) stdout: SubprocessStdio,
    pub(super) stderr: SubprocessStdio,
    pub(super) timeout: Option<Duration>,
    pub(super) output_bytes_max: u64,
}

impl SubprocessRequest {
    /// A request for `program` without arguments.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            env_clear: false,
            env: BTreeMap::new(),
            current_dir: None,
            stdin: SubprocessInput::Empty,
            stdout: SubprocessStdio::Piped,
            stderr: SubprocessStdio::Piped,
            timeout: None,
            output_bytes_max: SUBPROCESS_OUTPUT_BYTES_MAX,
        }
    }

    /// Adds an argument.
    pub fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(&mut self, args: impl IntoIterator<Item = A>) -> &mut Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    pub fn env(&mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.env.insert(key.as_ref().to_owned(), Some(value.as_ref().to_owned()));
        self
    }

    /// Sets environment variables.
    pub fn envs<K: AsRef<OsStr>, V: AsRef<OsStr>>(
        &mut self,
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> &mut Self {
        for (key, value) in variables {
            self.env(key, value);
        }
        self
    }

    /// Removes a variable, set here or inherited.
    pub fn env_remove(&mut self, key: impl AsRef<OsStr>) -> &mut Self {
        self.env.insert(key.as_ref().to_owned(), None);
        self
    }

    /// Removes all variables, and inherits none.
    pub fn env_clear(&mut self) -> &mut Self {
        self.env_clear = true;
        self.env.clear();
        self
    }

    /// Sets the current directory. A relative path begins at the root of the
    /// [`Subprocesses`](super::Subprocesses).
    pub fn current_dir(&mut self, dir: impl AsRef<Path>) -> &mut Self {
        self.current_dir = Some(dir.as_ref().to_owned());
        self
    }

    /// Sets standard input: bytes, or a [`SubprocessInput`].
    pub fn stdin(&mut self, input: impl Into<SubprocessInput>) -> &mut Self {
        self.stdin = input.into();
        self
    }

    /// Sets where standard output goes.
    pub fn stdout(&mut self, stdio: SubprocessStdio) -> &mut Self {
        self.stdout = stdio;
        self
    }

    /// Sets where standard error goes.
    pub fn stderr(&mut self, stdio: SubprocessStdio) -> &mut Self {
        self.stderr = stdio;
        self
    }

    /// Sets a limit of real time, after which the program is killed: on Unix with its process
    /// group. Its output until then is kept. For a module the tighter of this and its machine's
    /// [`Limits::timeout`](crate::Limits::timeout) holds. A replay ends as the recorded run did.
    pub fn timeout(&mut self, timeout: Duration) -> &mut Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how many bytes a native program may write to standard output and standard error
    /// together; beyond that it is killed:
    /// [`SubprocessError::OutputLimit`](super::SubprocessError::OutputLimit). Default:
    /// [`SUBPROCESS_OUTPUT_BYTES_MAX`]. For modules the machine's
    /// [`Limits::output_bytes_max`](crate::Limits::output_bytes_max) holds.
    pub fn output_bytes_max(&mut self, bytes: u64) -> &mut Self {
        self.output_bytes_max = bytes;
        self
    }

    /// The variables that are set, sorted by name.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.env.iter().filter_map(|(key, value)| Some((key.as_os_str(), value.as_deref()?)))
    }

    /// The current directory on the host; `None` for this process's own.
    pub(super) fn dir(&self, root: &Path) -> Option<PathBuf> {
        let dir = self.current_dir.as_ref().map_or_else(|| root.to_owned(), |dir| root.join(dir));
        Some(dir).filter(|dir| !dir.as_os_str().is_empty())
    }

    /// The program's name, for messages.
    pub(super) fn name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }
}

/// How a subprocess ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SubprocessStatus {
    /// Exited with this code.
    Exited(i32),
    /// A native program was killed by this signal.
    Signalled(i32),
    /// Ended by a trap or a limit of its machine, or by its timeout.
    Stopped(Outcome),
}

impl SubprocessStatus {
    /// The status after a timeout.
    pub(super) const TIMED_OUT: Self = Self::Stopped(Outcome::Limit(Limit::Timeout));

    /// The status of a module that was killed before it ran.
    pub(super) const KILLED: Self = Self::Signalled(9);

    /// Whether the timeout ended it.
    pub fn timed_out(&self) -> bool {
        *self == Self::TIMED_OUT
    }

    /// Whether it exited with code 0.
    pub fn success(&self) -> bool {
        *self == Self::Exited(0)
    }

    /// Its exit code; `None` unless it exited.
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Exited(code) => Some(*code),
            Self::Signalled(_) | Self::Stopped(_) => None,
        }
    }
}

/// Result of a subprocess.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubprocessOutput {
    /// How it ended.
    pub status: SubprocessStatus,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}
