//! What every kind of sandbox offers, and what is said to it.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::kernel::io::stdio::OutputStream;
use crate::kernel::machine::ClockConfig;
use crate::kernel::machine::limits::Limits;
use crate::kernel::vfs::Mtimes;
use crate::net::EgressPolicy;

/// The directory that outlives a session's tasks. There always is one.
pub const MEMORY_DIR: &str = "/mnt/memory";

/// The directory for what a session is to hand over. There always is one.
pub const OUTPUTS_DIR: &str = "/mnt/session/outputs";

/// The variable that names [`MEMORY_DIR`], or where that is on the host.
pub const MEMORY_DIR_VARIABLE: &str = "BELLJAR_MEMORY_DIR";

/// The variable that names [`OUTPUTS_DIR`], or where that is on the host.
pub const OUTPUTS_DIR_VARIABLE: &str = "BELLJAR_OUTPUTS_DIR";

/// The answer of a [`SandboxBackend`], once it is there.
pub type SandboxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, SandboxError>> + Send + 'a>>;

/// Makes sandboxes: sessions that live until they are terminated, each with its own files and
/// rules.
///
/// Calls on one session are served one after the other, in the order in which their futures were
/// first polled. Sessions do not wait for each other.
pub trait SandboxBackend: Send + Sync {
    /// What it is called.
    fn name(&self) -> &str;

    /// What it can do. What it cannot, it refuses with [`SandboxError::Unsupported`].
    fn capabilities(&self) -> SandboxCapabilities;

    /// Makes a session.
    ///
    /// # Errors
    /// [`SandboxError::InvalidRequest`] for a mount or an id that makes no sense; `Lifecycle` if
    /// there is a session of that id; `Unsupported` for a policy that it cannot enforce; `Io`.
    fn provision(&self, spec: SandboxSpec) -> SandboxFuture<'_, SandboxSession>;

    /// Mounts one more tree in a session that is there.
    ///
    /// # Errors
    /// [`SandboxError::SessionNotFound`]; `Lifecycle` if the session was terminated, or something
    /// is mounted at the target; `InvalidRequest`; `Unsupported`; `Io`.
    fn attach_filesystem<'a>(
        &'a self,
        session_id: &'a str,
        mount: SandboxMount,
    ) -> SandboxFuture<'a, ()>;

    /// Sets whom a session may reach from now on.
    ///
    /// # Errors
    /// [`SandboxError::SessionNotFound`]; `Lifecycle` if the session was terminated; `Unsupported`
    /// for a policy that it cannot enforce.
    fn apply_network_policy<'a>(
        &'a self,
        session_id: &'a str,
        policy: EgressPolicy,
    ) -> SandboxFuture<'a, ()>;

    /// Runs a program to its end. One that fails is no error.
    ///
    /// # Errors
    /// [`SandboxError::SessionNotFound`]; `Lifecycle` if the session was terminated;
    /// `InvalidRequest`; `Exec` if the program cannot be started; `Io`.
    fn exec<'a>(
        &'a self,
        session_id: &'a str,
        request: ExecRequest,
    ) -> SandboxFuture<'a, ExecResult> {
        let capture = || OutputStream::Capture(Vec::new());
        self.exec_streaming(session_id, request, capture(), capture())
    }

    /// As [`SandboxBackend::exec`], with what the program writes going to these as it comes. What
    /// they capture is in the result.
    ///
    /// # Errors
    /// As [`SandboxBackend::exec`].
    fn exec_streaming<'a>(
        &'a self,
        session_id: &'a str,
        request: ExecRequest,
        stdout: OutputStream,
        stderr: OutputStream,
    ) -> SandboxFuture<'a, ExecResult>;

    /// Keeps what a session is now; answers the snapshot's id.
    ///
    /// # Errors
    /// [`SandboxError::SessionNotFound`]; `Lifecycle` if the session was terminated; `Unsupported`.
    fn snapshot<'a>(&'a self, session_id: &'a str) -> SandboxFuture<'a, String>;

    /// Makes a session that goes on from a snapshot, under a new id. Any number of times.
    ///
    /// # Errors
    /// [`SandboxError::SessionNotFound`] if there is no such snapshot; `Unsupported`; `Io`.
    fn resume<'a>(&'a self, snapshot_id: &'a str) -> SandboxFuture<'a, SandboxSession>;

    /// Ends a session. Its id is not given out again.
    ///
    /// # Errors
    /// [`SandboxError::SessionNotFound`]; `Lifecycle` if it was terminated before.
    fn terminate<'a>(&'a self, session_id: &'a str) -> SandboxFuture<'a, ()>;
}

/// What a backend can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is an answer of its own")]
pub struct SandboxCapabilities {
    /// It runs programs of the host, confined.
    pub local_process_sandbox: bool,
    /// It can tell hosts apart that may be reached from those that may not.
    pub network_policy: bool,
    /// It has [`SandboxBackend::snapshot`].
    pub snapshot: bool,
    /// It has [`SandboxBackend::resume`].
    pub resume: bool,
    /// A session in which nothing runs costs no thread and no process.
    pub suspend_on_idle: bool,
}

/// What a session is to be.
#[derive(Clone, Debug, Default)]
pub struct SandboxSpec {
    /// Its id: letters, digits, `-`, `_` and `.`, 64 at most, and no `.` first. Empty: a new one is
    /// made.
    pub session_id: String,
    /// What is mounted, besides [`MEMORY_DIR`] and [`OUTPUTS_DIR`]. Of several with one target the
    /// last counts; one hides what earlier ones have beneath its target.
    pub mounts: Vec<SandboxMount>,
    /// Whom it may reach. Default: nobody.
    pub network_policy: EgressPolicy,
    /// Bounds of each exec, and, as far as files are concerned, of all together.
    pub limits: Limits,
    /// What the clock is. A session of a backend without virtual time has the host's.
    pub clock: ClockConfig,
    /// Times that files of mounted folders show until they are changed.
    pub mtimes: Mtimes,
    /// Where chance comes from.
    pub seed: u64,
    /// The environment of every exec.
    pub env: BTreeMap<String, String>,
    /// What whoever made it wants to remember.
    pub metadata: BTreeMap<String, String>,
}

/// A tree that a session sees.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxMount {
    /// The absolute path where it stands.
    pub target: String,
    /// What stands there.
    pub source: MountSource,
    /// What programs may do with it.
    pub access: FilesystemAccess,
}

/// What a mount shows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MountSource {
    /// A folder of the host.
    Host(PathBuf),
    /// A new, empty directory.
    Memory,
}

/// What programs may do with a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilesystemAccess {
    /// Read it. Writes answer `EROFS`.
    ReadOnly,
    /// Read it and change it.
    ReadWrite,
}

/// A session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SandboxSession {
    /// By which it is named.
    pub id: String,
    /// The name of the backend that has it.
    pub backend: String,
    /// Whether it is there.
    pub state: SessionState,
    /// What is mounted, in the order of mounting.
    pub mounts: Vec<SandboxMount>,
    /// What whoever made it wants to remember.
    pub metadata: BTreeMap<String, String>,
}

/// Whether a session is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// It is there.
    Ready,
    /// It was terminated.
    Terminated,
}

/// A program to run in a session.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExecRequest {
    /// Its name, or, with a slash, its path in the session.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The directory in which it starts. Relative paths begin at the session's root, which is also
    /// the default.
    pub cwd: Option<String>,
    /// Variables besides those of the session, which they replace.
    pub env: BTreeMap<String, String>,
    /// What it reads from standard input.
    pub stdin: Vec<u8>,
    /// How long it may take on the host's clock; on the session's, too, unless
    /// [`ExecRequest::virtual_timeout`] says otherwise.
    pub timeout: Option<Duration>,
    /// How long it may take on the session's clock. Default: as [`ExecRequest::timeout`].
    pub virtual_timeout: Option<Duration>,
}

impl ExecRequest {
    /// # Errors
    /// [`SandboxError::InvalidRequest`] for what no program can be given.
    pub(super) fn check(&self) -> Result<(), SandboxError> {
        check_env(&self.env)?;
        let is_text = |text: &String| !text.contains('\0');
        if self.command.is_empty() || !is_text(&self.command) {
            return Err(SandboxError::invalid("command", "it is empty or holds NUL"));
        }
        if !self.args.iter().all(is_text) {
            return Err(SandboxError::invalid("args", "one of them holds NUL"));
        }
        Ok(())
    }

    /// A run of `command` with `args`.
    pub fn new<S: Into<String>>(
        command: impl Into<String>,
        args: impl IntoIterator<Item = S>,
    ) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self { command: command.into(), args, ..Self::default() }
    }

    /// A run of `script` in the shell.
    pub fn shell(script: impl Into<String>) -> Self {
        Self::new("sh", ["-c".to_owned(), script.into()])
    }
}

/// What came of a program. `{:?}` shows what it wrote as text.
#[derive(Clone, PartialEq, Eq)]
pub struct ExecResult {
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
    /// Its exit code; 124 if its time was over, 128 and the signal's number if a signal ended it,
    /// 134 if it trapped or reached another limit, 125 if all its processes waited for each other.
    pub exit_code: i32,
    /// Whether its time was over.
    pub timed_out: bool,
    /// How it ended, in words, unless it exited.
    pub message: Option<String>,
}

impl fmt::Debug for ExecResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stdout, stderr, exit_code, timed_out, message } = self;
        f.debug_struct("ExecResult")
            .field("stdout", &String::from_utf8_lossy(stdout))
            .field("stderr", &String::from_utf8_lossy(stderr))
            .field("exit_code", exit_code)
            .field("timed_out", timed_out)
            .field("message", message)
            .finish()
    }
}

/// What went wrong with a sandbox.
#[derive(thiserror::Error)]
pub enum SandboxError {
    /// There is no such session, or snapshot.
    #[error("there is no session or snapshot {id:?}")]
    SessionNotFound {
        /// The id.
        id: String,
    },
    /// What was asked for makes no sense.
    #[error("{field}: {message}")]
    InvalidRequest {
        /// The field that is wrong.
        field: String,
        /// What is wrong with it, and what would be right.
        message: String,
    },
    /// The backend cannot do that.
    #[error("the backend {backend} does not support {operation}")]
    Unsupported {
        /// Its name.
        backend: String,
        /// What it cannot do.
        operation: String,
    },
    /// The session is not in a state for that.
    #[error("session {id}: {message}")]
    Lifecycle {
        /// The session.
        id: String,
        /// Why not.
        message: String,
    },
    /// The program could not be started.
    #[error("cannot run {command}: {message}")]
    Exec {
        /// The program.
        command: String,
        /// Why not.
        message: String,
        /// Whether there is one of that name.
        is_found: bool,
    },
    /// The host refuses.
    #[error("{what}")]
    Io {
        /// What was done.
        what: String,
        /// What the host answered.
        source: io::Error,
    },
}

crate::base::readable::readable!(SandboxError);

impl SandboxError {
    pub(super) fn invalid(field: impl Into<String>, message: impl fmt::Display) -> Self {
        Self::InvalidRequest { field: field.into(), message: message.to_string() }
    }

    pub(super) fn lifecycle(id: &str, message: impl fmt::Display) -> Self {
        Self::Lifecycle { id: id.to_owned(), message: message.to_string() }
    }

    pub(super) fn not_found(id: &str) -> Self {
        Self::SessionNotFound { id: id.to_owned() }
    }
}

/// Longest id of a session.
const ID_BYTES_MAX: usize = 64;

/// Checks the id that somebody chose for a session.
///
/// # Errors
/// [`SandboxError::InvalidRequest`].
pub fn check_session_id(id: &str) -> Result<(), SandboxError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if id.is_empty()
        || id.len() > ID_BYTES_MAX
        || id.starts_with('.')
        || !id.bytes().all(is_allowed)
    {
        return Err(SandboxError::invalid(
            "session_id",
            format_args!(
                "{id:?} cannot be an id: use letters, digits, `-`, `_` and `.`, {ID_BYTES_MAX} at \
                 most, and no `.` first"
            ),
        ));
    }
    Ok(())
}

/// Checks the names of variables, and that no value holds NUL.
///
/// # Errors
/// [`SandboxError::InvalidRequest`].
pub(super) fn check_env(env: &BTreeMap<String, String>) -> Result<(), SandboxError> {
    for (key, value) in env {
        let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        let is_key = key.bytes().next().is_some_and(is_first)
            && key.bytes().all(|byte| is_first(byte) || byte.is_ascii_digit());
        if !is_key {
            return Err(SandboxError::invalid(
                "env",
                format_args!(
                    "{key:?} cannot name a variable: use letters, digits and `_`, and no digit first"
                ),
            ));
        }
        if value.contains('\0') {
            return Err(SandboxError::invalid("env", format_args!("the value of {key} holds NUL")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_names_of_files_everywhere() {
        for id in ["a", "agent-1.2_x", &"x".repeat(64)] {
            check_session_id(id).unwrap();
        }
        for id in ["", ".a", "a/b", "a b", "ä", "..", "a\0", &"x".repeat(65)] {
            assert!(check_session_id(id).is_err(), "{id:?}");
        }
    }

    #[test]
    fn keys_of_variables_are_names() {
        let check =
            |key: &str, value: &str| check_env(&BTreeMap::from([(key.into(), value.into())]));
        for key in ["PATH", "_x", "a1"] {
            check(key, "a=b").unwrap();
        }
        for key in ["", "1a", "a=b", "a b", "ä", "a\0"] {
            assert!(check(key, "").is_err(), "{key:?}");
        }
        assert!(check("a", "b\0").is_err());
    }
}
