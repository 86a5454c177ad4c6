//! Programs of the host, for those who ask for them by name.
#![allow(clippy::disallowed_methods, reason = "this file is the door to the host's programs")]

use std::ffi::OsString;
use std::io::{self, Write};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};

use super::{SubprocessOutput, SubprocessRequest, SubprocessStatus};

/// A program of the host could not be run.
#[derive(Debug, thiserror::Error)]
pub enum NativeError {
    /// There is none of that name.
    #[error("the host has no program {program:?}")]
    NotFound {
        /// Its name.
        program: String,
    },
    /// It cannot be started.
    #[error("cannot start the host's program {program:?}")]
    Start {
        /// Its name.
        program: String,
        /// What the host answered.
        source: io::Error,
    },
}

/// A program of the host, found on its path and run in one of its folders, outside of any machine:
/// nothing that it does is virtual.
#[derive(Clone, Debug)]
pub struct NativeCommand {
    /// Its name.
    pub program: String,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its environment, besides the host's `PATH`.
    pub env: Vec<(OsString, OsString)>,
    /// Where it runs.
    pub current_dir: PathBuf,
}

impl NativeCommand {
    /// Runs it to its end on this process's streams; answers its code, or 128 and the number of
    /// the signal that ended it.
    ///
    /// # Errors
    /// [`NativeError`].
    pub fn status(&self) -> Result<i32, NativeError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let status = Command::new(&self.program)
            .args(&self.args)
            .env_clear()
            .env("PATH", path)
            .envs(self.env.iter().cloned())
            .current_dir(&self.current_dir)
            .status();
        let program = self.program.clone();
        match status {
            Ok(status) => Ok(match status_of(status) {
                SubprocessStatus::Signalled(signal) => 128 + signal,
                status => status.code().unwrap_or(1),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(NativeError::NotFound { program })
            }
            Err(source) => Err(NativeError::Start { program, source }),
        }
    }
}

/// Runs `request` in `current_dir`, or where this process is, to its end.
///
/// Input is fed while output is read, so that neither side waits for the other however much there
/// is of both. A program need not read its input.
///
/// # Errors
/// As the host answers: the program cannot be started, or its streams fail.
pub(super) fn output(
    request: &SubprocessRequest,
    current_dir: Option<&Path>,
) -> io::Result<SubprocessOutput> {
    let mut command = Command::new(&request.program);
    command.args(&request.args).stdout(Stdio::piped()).stderr(Stdio::piped());
    if request.env_clear {
        command.env_clear();
    }
    for (key, value) in &request.env {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    if let Some(dir) = current_dir {
        command.current_dir(dir);
    }
    command.stdin(if request.stdin.is_empty() { Stdio::null() } else { Stdio::piped() });
    let mut child = command.spawn()?;
    let output = std::thread::scope(|scope| {
        let mut feeder = None;
        if let Some(stdin) = child.stdin.take() {
            let feed = || feed(stdin, &request.stdin);
            match std::thread::Builder::new().spawn_scoped(scope, feed) {
                Ok(thread) => feeder = Some(thread),
                Err(error) => {
                    // Nobody would wait for it.
                    let _ = child.kill().and_then(|()| child.wait());
                    return Err(error);
                }
            }
        }
        let output = child.wait_with_output()?;
        let fed = feeder.map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        fed.unwrap_or(Ok(())).map(|()| output)
    })?;
    let status = status_of(output.status);
    Ok(SubprocessOutput { status, stdout: output.stdout, stderr: output.stderr })
}

fn feed(mut stdin: ChildStdin, bytes: &[u8]) -> io::Result<()> {
    match stdin.write_all(bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

#[cfg(unix)]
fn status_of(status: ExitStatus) -> SubprocessStatus {
    use std::os::unix::process::ExitStatusExt;
    match status.code() {
        Some(code) => SubprocessStatus::Exited(code),
        None => SubprocessStatus::Signalled(status.signal().unwrap_or(0)),
    }
}

#[cfg(not(unix))]
fn status_of(status: ExitStatus) -> SubprocessStatus {
    SubprocessStatus::Exited(status.code().unwrap_or(1))
}
