//! The trait of sandbox backends, and its requests and results.

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

/// A directory for data that outlives the tasks of a session. Always there.
pub const MEMORY_DIR: &str = "/mnt/memory";

/// A directory for results of a session. Always there.
pub const OUTPUTS_DIR: &str = "/mnt/session/outputs";

/// The variable with the path of [`MEMORY_DIR`], or of its directory on the host.
pub const MEMORY_DIR_VARIABLE: &str = "BELLJAR_MEMORY_DIR";

/// The variable with the path of [`OUTPUTS_DIR`], or of its directory on the host.
pub const OUTPUTS_DIR_VARIABLE: &str = "BELLJAR_OUTPUTS_DIR";

/// The future that methods of a [`SandboxBackend`] return.
pub type SandboxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, SandboxError>> + Send + 'a>>;

/// Makes sandboxes: sessions that live until they are terminated, each with its own files and
/// rules.
///
/// Calls on one session are served in the order in which their futures were first polled. Sessions
/// do not wait for each other.
pub trait SandboxBackend: Send + Sync {
    /// The name of the backend.
    fn name(&self) -> &str;

    /// What it supports. Anything else is refused with [`SandboxError::Unsupported`].
    fn capabilities(&self) -> SandboxCapabilities;

    /// Makes a session.
    ///
    /// # Errors
    /// [`SandboxError::InvalidRequest`] for an invalid mount or id; `Lifecycle` if the id is in
    /// use; `Unsupported` for a policy that it cannot enforce; `Io`.
    fn provision(&self, spec: SandboxSpec) -> SandboxFuture<'_, SandboxSession>;

    /// Adds a mount to a session.
    ///
    /// # Errors
    /// [`SandboxError::SessionNotFound`]; `Lifecycle` if the session was terminated, or the target
    /// is a mount point; `InvalidRequest`; `Unsupported`; `Io`.
    fn attach_filesystem<'a>(
        &'a self,
        session_id: &'a str,
        mount: SandboxMount,
    ) -> SandboxFuture<'a, ()>;

    /// Sets the network policy of a session.
    ///
    /// # Errors
    /// [`SandboxError::SessionNotFound`]; `Lifecycle` if the session was terminated; `Unsupported`
    /// for a policy that it cannot enforce.
    fn apply_network_policy<'a>(
        &'a self,
        session_id: &'a str,
        policy: EgressPolicy,
    ) -> SandboxFuture<'a, ()>;

    /// Runs a program to its end. A program that fails is no error.
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

    /// Like [`SandboxBackend::exec`], with output written to `stdout` and `stderr` as it comes. The
    /// result has what they capture.
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

    /// Saves the state of a session; returns the snapshot's id.
    ///
    /// # Errors
    /// [`SandboxError::SessionNotFound`]; `Lifecycle` if the session was terminated; `Unsupported`.
    fn snapshot<'a>(&'a self, session_id: &'a str) -> SandboxFuture<'a, String>;

    /// Makes a session from a snapshot, under a new id. Works any number of times.
    ///
    /// # Errors
    /// [`SandboxError::SessionNotFound`] if there is no such snapshot; `Unsupported`; `Io`.
    fn resume<'a>(&'a self, snapshot_id: &'a str) -> SandboxFuture<'a, SandboxSession>;

    /// Ends a session. Its id is not used again.
    ///
    /// # Errors
    /// [`SandboxError::SessionNotFound`]; `Lifecycle` if it was already terminated.
    fn terminate<'a>(&'a self, session_id: &'a str) -> SandboxFuture<'a, ()>;
}

/// What a backend supports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "the capabilities are independent")]
pub struct SandboxCapabilities {
    /// Runs native programs, confined.
    pub local_process_sandbox: bool,
    /// Supports policies that allow some hosts and deny others.
    pub network_policy: bool,
    /// Supports [`SandboxBackend::snapshot`].
    pub snapshot: bool,
    /// Supports [`SandboxBackend::resume`].
    pub resume: bool,
    /// An idle session has no thread and no process.
    pub suspend_on_idle: bool,
}

/// The specification of a session.
#[derive(Clone, Debug, Default)]
pub struct SandboxSpec {
    /// The id: up to 64 letters, digits, `-`, `_` and `.`, not beginning with `.`. A new one is
    /// made if empty.
    pub session_id: String,
    /// Mounts besides [`MEMORY_DIR`] and [`OUTPUTS_DIR`]. The last one with a target counts; a
    /// mount hides earlier ones beneath its target.
    pub mounts: Vec<SandboxMount>,
    /// The network policy. Default: no network.
    pub network_policy: EgressPolicy,
    /// Limits of each exec; those of files apply to the whole session.
    pub limits: Limits,
    /// The clock. Backends without virtual time use the host's.
    pub clock: ClockConfig,
    /// Times of unchanged files of mounted directories.
    pub mtimes: Mtimes,
    /// The seed of random numbers.
    pub seed: u64,
    /// Environment variables of every exec.
    pub env: BTreeMap<String, String>,
    /// Any data of the caller.
    pub metadata: BTreeMap<String, String>,
}

/// A mount of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxMount {
    /// The mount point, an absolute path.
    pub target: String,
    /// What is mounted.
    pub source: MountSource,
    /// What programs may do with it.
    pub access: FilesystemAccess,
}

/// The source of a mount.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MountSource {
    /// A directory of the host.
    Host(PathBuf),
    /// A new, empty directory.
    Memory,
}

/// Access of programs to a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilesystemAccess {
    /// Reading. Writes fail with `EROFS`.
    ReadOnly,
    /// Reading and writing.
    ReadWrite,
}

/// A session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SandboxSession {
    /// The id.
    pub id: String,
    /// The name of its backend.
    pub backend: String,
    /// Whether it is ready.
    pub state: SessionState,
    /// Its mounts, in order.
    pub mounts: Vec<SandboxMount>,
    /// The data of the caller.
    pub metadata: BTreeMap<String, String>,
}

/// The state of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// It can be used.
    Ready,
    /// It was terminated.
    Terminated,
}

/// A program to run in a session.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExecRequest {
    /// A program's name, or, with a slash, its path in the session.
    pub command: String,
    /// The arguments.
    pub args: Vec<String>,
    /// The current directory. Relative paths begin at the root of the session, which is the
    /// default.
    pub cwd: Option<String>,
    /// Environment variables; they replace those of the session.
    pub env: BTreeMap<String, String>,
    /// Standard input.
    pub stdin: Vec<u8>,
    /// Timeout on the host's clock; on the session's, too, unless [`ExecRequest::virtual_timeout`]
    /// is set.
    pub timeout: Option<Duration>,
    /// Timeout on the session's clock. Default: [`ExecRequest::timeout`].
    pub virtual_timeout: Option<Duration>,
}

impl ExecRequest {
    /// # Errors
    /// [`SandboxError::InvalidRequest`] for an invalid command, argument or variable.
    pub(super) fn check(&self) -> Result<(), SandboxError> {
        check_env(&self.env)?;
        let is_text = |text: &String| !text.contains('\0');
        if self.command.is_empty() || !is_text(&self.command) {
            return Err(SandboxError::invalid("command", "must not be empty or contain NUL"));
        }
        if !self.args.iter().all(is_text) {
            return Err(SandboxError::invalid("args", "must not contain NUL"));
        }
        Ok(())
    }

    /// Runs `command` with `args`.
    pub fn new<S: Into<String>>(
        command: impl Into<String>,
        args: impl IntoIterator<Item = S>,
    ) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self { command: command.into(), args, ..Self::default() }
    }

    /// Runs `script` in the shell.
    pub fn shell(script: impl Into<String>) -> Self {
        Self::new("sh", ["-c".to_owned(), script.into()])
    }
}

/// The result of an exec. `{:?}` shows output as text.
#[derive(Clone, PartialEq, Eq)]
pub struct ExecResult {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// The exit code: 124 after a timeout, 128 plus the signal's number after a signal, 134 after a
    /// trap or another limit, 125 after a deadlock.
    pub exit_code: i32,
    /// Whether a timeout passed.
    pub timed_out: bool,
    /// How it ended, unless it exited.
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

/// An error of a sandbox.
#[derive(thiserror::Error)]
pub enum SandboxError {
    /// There is no such session or snapshot.
    #[error("no session or snapshot {id:?}")]
    SessionNotFound {
        /// The id.
        id: String,
    },
    /// A request is invalid.
    #[error("{field}: {message}")]
    InvalidRequest {
        /// The invalid field.
        field: String,
        /// What is wrong, and what is expected.
        message: String,
    },
    /// The backend does not support the operation.
    #[error("the backend {backend} does not support {operation}")]
    Unsupported {
        /// The name of the backend.
        backend: String,
        /// The operation.
        operation: String,
    },
    /// The session is not in a state for the operation.
    #[error("session {id}: {message}")]
    Lifecycle {
        /// The session.
        id: String,
        /// Why.
        message: String,
    },
    /// The program cannot be started.
    #[error("cannot run {command}: {message}")]
    Exec {
        /// The program.
        command: String,
        /// Why.
        message: String,
        /// Whether the program was found.
        is_found: bool,
    },
    /// The host refused an operation.
    #[error("{what}")]
    Io {
        /// The operation.
        what: String,
        /// The host's error.
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

/// Maximum length of a session's id.
const ID_BYTES_MAX: usize = 64;

/// Checks an id chosen for a session.
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
                "invalid id {id:?}: use up to {ID_BYTES_MAX} letters, digits, `-`, `_` and `.`, not \
                 beginning with `.`"
            ),
        ));
    }
    Ok(())
}

/// Checks names of variables, and values for NUL.
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
                    "invalid variable name {key:?}: use letters, digits and `_`, not beginning with a digit"
                ),
            ));
        }
        if value.contains('\0') {
            return Err(SandboxError::invalid("env", format_args!("NUL in the value of {key}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_are_valid_file_names() {
        for id in ["a", "agent-1.2_x", &"x".repeat(64)] {
            check_session_id(id).unwrap();
        }
        for id in ["", ".a", "a/b", "a b", "ä", "..", "a\0", &"x".repeat(65)] {
            assert!(check_session_id(id).is_err(), "{id:?}");
        }
    }

    #[test]
    fn variable_names_and_values_are_checked() {
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
