//! Programs of a session.

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

/// A program to run in a session, shaped like [`std::process::Command`].
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
    /// A program to run in the session, by its name.
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

    /// Sets a variable.
    pub fn env(&mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.request.env(key, value);
        self
    }

    /// Sets variables.
    pub fn envs<K: AsRef<OsStr>, V: AsRef<OsStr>>(
        &mut self,
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> &mut Self {
        self.request.envs(variables);
        self
    }

    /// Unsets a variable.
    pub fn env_remove(&mut self, key: impl AsRef<OsStr>) -> &mut Self {
        self.request.env_remove(key);
        self
    }

    /// Passes none of the host's variables on.
    pub fn env_clear(&mut self) -> &mut Self {
        self.request.env_clear();
        self
    }

    /// Where the program starts; relative paths begin at the worktree.
    pub fn current_dir(&mut self, dir: impl AsRef<Path>) -> &mut Self {
        self.request.current_dir(dir);
        self
    }

    /// What it reads from standard input: bytes, or a [`SubprocessInput`].
    pub fn stdin(&mut self, input: impl Into<SubprocessInput>) -> &mut Self {
        self.request.stdin(input);
        self
    }

    /// What becomes of standard output.
    pub fn stdout(&mut self, stdio: SubprocessStdio) -> &mut Self {
        self.request.stdout(stdio);
        self
    }

    /// What becomes of standard error.
    pub fn stderr(&mut self, stdio: SubprocessStdio) -> &mut Self {
        self.request.stderr(stdio);
        self
    }

    /// Ends it after this much real time: see [`SubprocessRequest::timeout`].
    pub fn timeout(&mut self, timeout: Duration) -> &mut Self {
        self.request.timeout(timeout);
        self
    }

    /// Bytes that a program of the host may write: see [`SubprocessRequest::output_bytes_max`].
    pub fn output_bytes_max(&mut self, bytes: u64) -> &mut Self {
        self.request.output_bytes_max(bytes);
        self
    }

    /// Runs it to its end and collects what it prints.
    ///
    /// # Errors
    /// As [`TestbenchSession::output`].
    pub fn output(&mut self) -> Result<SubprocessOutput, TestbenchError> {
        self.session.output(&self.request)
    }

    /// Runs it to its end.
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
/// [`SubprocessChild::kill`]. Any number of them run beside each other.
///
/// Waiting lets the time of the session pass, and puts what came of the program on its tapes. So it
/// takes the session.
pub struct SessionChild(SubprocessChild);

impl SessionChild {
    /// Waits until it has ended and its output is closed.
    ///
    /// # Errors
    /// [`TestbenchError::Subprocess`] if it is not what was recorded, or wrote too much.
    pub fn wait(
        &mut self,
        session: &mut TestbenchSession,
    ) -> Result<SubprocessStatus, TestbenchError> {
        session.with_subprocesses(|all, machine| all.wait(&mut self.0, machine))
    }

    /// As [`SessionChild::wait`], if it has ended and its output is closed; else `None`, at once.
    ///
    /// # Errors
    /// As [`SessionChild::wait`].
    pub fn try_wait(
        &mut self,
        session: &mut TestbenchSession,
    ) -> Result<Option<SubprocessStatus>, TestbenchError> {
        session.with_subprocesses(|all, machine| all.try_wait(&mut self.0, machine))
    }

    /// As [`SessionChild::wait`], and what it wrote besides, as far as nobody has read it.
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
