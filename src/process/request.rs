//! What is asked of a [`Subprocesses`](super::Subprocesses), and what it answers.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::engine::Outcome;

/// A program to run, wherever that happens, in the manner of [`std::process::Command`].
///
/// A program of the host inherits the host's environment, unless it is cleared; one in a machine
/// has what is set here and nothing else. Standard input is what is given; by default it is empty.
///
/// ```
/// use belljar::process::SubprocessRequest;
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
    pub(super) stdin: Vec<u8>,
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
            stdin: Vec::new(),
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

    /// What the program reads from standard input.
    pub fn stdin(&mut self, bytes: impl Into<Vec<u8>>) -> &mut Self {
        self.stdin = bytes.into();
        self
    }

    /// The variables that are set, sorted by name.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.env.iter().filter_map(|(key, value)| Some((key.as_os_str(), value.as_deref()?)))
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
    /// It ran in a machine and did not exit: a trap, or a limit.
    Stopped(Outcome),
}

impl SubprocessStatus {
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
