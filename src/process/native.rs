//! Programs of the host, for those who ask for them by name.
#![allow(clippy::disallowed_methods, reason = "this file is the door to the host's programs")]

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

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
            Ok(status) => Ok(code_of(status)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(NativeError::NotFound { program })
            }
            Err(source) => Err(NativeError::Start { program, source }),
        }
    }
}

#[cfg(unix)]
fn code_of(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

#[cfg(not(unix))]
fn code_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or(1)
}
