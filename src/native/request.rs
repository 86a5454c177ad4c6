//! What is asked of a [`Subprocesses`](super::Subprocesses), and what it answers.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::engine::Outcome;
use crate::kernel::machine::limits::Limit;

/// Bytes that a program of the host may write to standard output and standard error together,
/// unless told otherwise.
pub const SUBPROCESS_OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// Where a subprocess reads from.
///
/// There is no inheriting the host's standard input: what came from there could not be repeated.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum SubprocessInput {
    /// It is at its end at once.
    #[default]
    Empty,
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// What is written to [`SubprocessChild::stdin`](super::SubprocessChild::stdin), until that is
    /// dropped.
    Piped,
}

/// Whatever bytes can be made from; none are an empty input.
impl<T: Into<Vec<u8>>> From<T> for SubprocessInput {
    fn from(bytes: T) -> Self {
        let bytes = bytes.into();
        if bytes.is_empty() { Self::Empty } else { Self::Bytes(bytes) }
    }
}

impl SubprocessInput {
    /// What is known of it when the program starts: `None` for what is yet to be written.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Empty => Some(&[]),
            Self::Bytes(bytes) => Some(bytes),
            Self::Piped => None,
        }
    }
}

/// Where a subprocess writes to. Nothing goes to the host's own streams: whoever asked prints.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SubprocessStdio {
    /// It is kept, for whoever reads it and for the tapes.
    #[default]
    Piped,
    /// It is thrown away, and on no process tape.
    Null,
}

/// A program to run, wherever that happens, in the manner of [`std::process::Command`].
///
/// A program of the host inherits the host's environment, unless it is cleared; one in a machine
/// has what is set here and nothing else. Standard input is what is given; by default it is empty.
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
    /// What is set; removed where it is `None`.
    pub(super) env: BTreeMap<OsString, Option<OsString>>,
    pub(super) current_dir: Option<PathBuf>,
    pub(super) stdin: SubprocessInput,
    pub(super) stdout: SubprocessStdio,
    pub(super) stderr: SubprocessStdio,
    pub(super) timeout: Option<Duration>,
    pub(super) output_bytes_max: u64,
}

impl SubprocessRequest {
    /// The program called `program`, without arguments.
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

    /// Sets a variable of the environment.
    pub fn env(&mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.env.insert(key.as_ref().to_owned(), Some(value.as_ref().to_owned()));
        self
    }

    /// Sets variables of the environment.
    pub fn envs<K: AsRef<OsStr>, V: AsRef<OsStr>>(
        &mut self,
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> &mut Self {
        for (key, value) in variables {
            self.env(key, value);
        }
        self
    }

    /// Unsets a variable, whether it was set here or would be inherited.
    pub fn env_remove(&mut self, key: impl AsRef<OsStr>) -> &mut Self {
        self.env.insert(key.as_ref().to_owned(), None);
        self
    }

    /// Unsets all variables, and inherits none.
    pub fn env_clear(&mut self) -> &mut Self {
        self.env_clear = true;
        self.env.clear();
        self
    }

    /// Where the program runs. A relative path begins at the root of the
    /// [`Subprocesses`](super::Subprocesses).
    pub fn current_dir(&mut self, dir: impl AsRef<Path>) -> &mut Self {
        self.current_dir = Some(dir.as_ref().to_owned());
        self
    }

    /// What the program reads from standard input: bytes, or a [`SubprocessInput`].
    pub fn stdin(&mut self, input: impl Into<SubprocessInput>) -> &mut Self {
        self.stdin = input.into();
        self
    }

    /// What becomes of standard output.
    pub fn stdout(&mut self, stdio: SubprocessStdio) -> &mut Self {
        self.stdout = stdio;
        self
    }

    /// What becomes of standard error.
    pub fn stderr(&mut self, stdio: SubprocessStdio) -> &mut Self {
        self.stderr = stdio;
        self
    }

    /// Ends the program after this much real time, with all that it started: on Unix every process
    /// of its group, elsewhere itself alone. What it has written until then is kept. A module is
    /// ended by the tighter of this and its machine's [`Limits::timeout`](crate::Limits::timeout).
    /// A replay ends as the recorded run did.
    pub fn timeout(&mut self, timeout: Duration) -> &mut Self {
        self.timeout = Some(timeout);
        self
    }

    /// Bytes that a program of the host may write to standard output and standard error together.
    /// Beyond, it is ended: [`SubprocessError::OutputLimit`](super::SubprocessError::OutputLimit).
    /// Default: [`SUBPROCESS_OUTPUT_BYTES_MAX`]. For modules the machine's
    /// [`Limits::output_bytes_max`](crate::Limits::output_bytes_max) holds.
    pub fn output_bytes_max(&mut self, bytes: u64) -> &mut Self {
        self.output_bytes_max = bytes;
        self
    }

    /// The variables that are set, sorted by name.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.env.iter().filter_map(|(key, value)| Some((key.as_os_str(), value.as_deref()?)))
    }

    /// Where it runs on the host, if that is not where this process is.
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
    /// It exited with this code.
    Exited(i32),
    /// It was a program of the host, and this signal ended it.
    Signalled(i32),
    /// It was ended: by a trap or a limit of its machine, or by its timeout.
    Stopped(Outcome),
}

impl SubprocessStatus {
    /// That of a program which has run out of time.
    pub(super) const TIMED_OUT: Self = Self::Stopped(Outcome::Limit(Limit::Timeout));

    /// That of a program which nobody let end.
    pub(super) const KILLED: Self = Self::Signalled(9);

    /// Whether it ran out of real time.
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

/// What a subprocess leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubprocessOutput {
    /// How it ended.
    pub status: SubprocessStatus,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
}
