//! Subprocesses of a session.

use std::ffi::OsStr;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::time::Duration;

use super::error::TestbenchError;
use super::session::TestbenchSession;
use crate::native::{
    SubprocessChild, SubprocessInput, SubprocessOutput, SubprocessRequest, SubprocessStatus,
    SubprocessStdio,
};

/// A program to run in a session, like [`std::process::Command`].
///
/// ```
/// # #[cfg(unix)] {
/// use belljar::native::SubprocessInput;
/// use belljar::testbench::Testbench;
/// use std::io::{Read, Write};
///
/// let mut session = Testbench::builder().build().activate()?;
/// let mut child = session.command("cat").stdin(SubprocessInput::Piped).spawn()?;
/// let mut stdin = child.stdin.take().expect("it is piped");
/// stdin.write_all(b"through a pipe").unwrap();
/// drop(stdin);
/// let output = child.wait_with_output(&mut session)?;
/// assert_eq!(output.stdout, b"through a pipe");
/// session.finalize()?;
/// # }
/// # Ok::<(), belljar::testbench::TestbenchError>(())
/// ```
pub struct SessionCommand<'a> {
    session: &'a mut TestbenchSession,
    request: SubprocessRequest,
}

impl TestbenchSession {
    /// A command that runs `program` in the session.
    pub fn command(&mut self, program: impl AsRef<OsStr>) -> SessionCommand<'_> {
        SessionCommand::new(self, program.as_ref())
    }
}

impl<'a> SessionCommand<'a> {
    pub(super) fn new(session: &'a mut TestbenchSession, program: &OsStr) -> Self {
        Self { session, request: SubprocessRequest::new(program) }
    }

    /// Adds an argument.
    pub fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Self {
        self.request.arg(arg);
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(&mut self, args: impl IntoIterator<Item = A>) -> &mut Self {
        self.request.args(args);
        self
    }

    /// Sets an environment variable.
    pub fn env(&mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.request.env(key, value);
        self
    }

    /// Sets environment variables.
    pub fn envs<K: AsRef<OsStr>, V: AsRef<OsStr>>(
        &mut self,
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> &mut Self {
        self.request.envs(variables);
        self
    }

    /// Removes an environment variable.
    pub fn env_remove(&mut self, key: impl AsRef<OsStr>) -> &mut Self {
        self.request.env_remove(key);
        self
    }

    /// Removes all environment variables, and inherits none.
    pub fn env_clear(&mut self) -> &mut Self {
        self.request.env_clear();
        self
    }

    /// Sets the current directory; relative paths begin at the worktree.
    pub fn current_dir(&mut self, dir: impl AsRef<Path>) -> &mut Self {
        self.request.current_dir(dir);
        self
    }

    /// Sets standard input: bytes, or a [`SubprocessInput`].
    pub fn stdin(&mut self, input: impl Into<SubprocessInput>) -> &mut Self {
        self.request.stdin(input);
        self
    }

    /// Sets where standard output goes.
    pub fn stdout(&mut self, stdio: SubprocessStdio) -> &mut Self {
        self.request.stdout(stdio);
        self
    }

    /// Sets where standard error goes.
    pub fn stderr(&mut self, stdio: SubprocessStdio) -> &mut Self {
        self.request.stderr(stdio);
        self
    }

    /// Sets a limit of real time: see [`SubprocessRequest::timeout`].
    pub fn timeout(&mut self, timeout: Duration) -> &mut Self {
        self.request.timeout(timeout);
        self
    }

    /// Sets the output limit of a native program: see [`SubprocessRequest::output_bytes_max`].
    pub fn output_bytes_max(&mut self, bytes: u64) -> &mut Self {
        self.request.output_bytes_max(bytes);
        self
    }

    /// Runs it to its end and returns its output.
    ///
    /// # Errors
    /// As [`TestbenchSession::output`].
    pub fn output(&mut self) -> Result<SubprocessOutput, TestbenchError> {
        self.session.output(&self.request)
    }

    /// Runs it to its end and returns its status.
    ///
    /// # Errors
    /// As [`TestbenchSession::output`].
    pub fn status(&mut self) -> Result<SubprocessStatus, TestbenchError> {
        Ok(self.output()?.status)
    }

    /// Starts it.
    ///
    /// # Errors
    /// As [`TestbenchSession::output`].
    pub fn spawn(&mut self) -> Result<SessionChild, TestbenchError> {
        let request = &self.request;
        let spawn = self.session.with_subprocesses(|all, machine| all.spawn(request, machine));
        Ok(SessionChild(spawn?))
    }
}

/// A program that was started in a session: a [`SubprocessChild`], with its streams and
/// [`SubprocessChild::kill`]. Any number of them run at the same time.
///
/// Waiting needs the session: it lets the session's time pass and records the result.
pub struct SessionChild(SubprocessChild);

impl SessionChild {
    /// Waits until it has ended and its output is closed.
    ///
    /// # Errors
    /// [`TestbenchError::Subprocess`] if it does not match the recording, or wrote too much.
    pub fn wait(
        &mut self,
        session: &mut TestbenchSession,
    ) -> Result<SubprocessStatus, TestbenchError> {
        session.with_subprocesses(|all, machine| all.wait(&mut self.0, machine))
    }

    /// Like [`SessionChild::wait`], but returns `None` at once if it has not ended or its output is
    /// open.
    ///
    /// # Errors
    /// As [`SessionChild::wait`].
    pub fn try_wait(
        &mut self,
        session: &mut TestbenchSession,
    ) -> Result<Option<SubprocessStatus>, TestbenchError> {
        session.with_subprocesses(|all, machine| all.try_wait(&mut self.0, machine))
    }

    /// Like [`SessionChild::wait`], and returns the output that was not read.
    ///
    /// # Errors
    /// As [`SessionChild::wait`].
    pub fn wait_with_output(
        self,
        session: &mut TestbenchSession,
    ) -> Result<SubprocessOutput, TestbenchError> {
        session.with_subprocesses(|all, machine| all.wait_with_output(self.0, machine))
    }
}

impl Deref for SessionChild {
    type Target = SubprocessChild;

    fn deref(&self) -> &SubprocessChild {
        &self.0
    }
}

impl DerefMut for SessionChild {
    fn deref_mut(&mut self) -> &mut SubprocessChild {
        &mut self.0
    }
}
