//! Programs of the host, for those who ask for them by name.
#![allow(clippy::disallowed_methods, reason = "this file is the door to the host's programs")]

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::host_process::{HostProcess, status_of};
use super::profile::Confinement;
use super::streams::{ChildInput, Collected, Streams, Written};
use super::{
    ProfileError, SandboxProfile, SubprocessInput, SubprocessRequest, SubprocessStatus,
    SubprocessStdio,
};

/// How long the streams of a program that was ended may stay open: somebody who left its group may
/// hold them.
const GRACE: Duration = Duration::from_secs(1);

/// Bytes that are read from a program at once.
const CHUNK_BYTES: usize = 64 << 10;

/// A program of the host could not be run.
#[derive(thiserror::Error)]
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
    /// It cannot be confined.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

crate::base::readable::readable!(NativeError);

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
    /// What it may do. Its root is the folder where it runs.
    pub profile: SandboxProfile,
}

impl NativeCommand {
    /// Runs it to its end on this process's streams; answers its code, or 128 and the number of
    /// the signal that ended it.
    ///
    /// # Errors
    /// [`NativeError`].
    pub fn status(&self) -> Result<i32, NativeError> {
        let root = std::slice::from_ref(&self.current_dir);
        let confinement = Confinement::new(self.profile, root, &[])?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let status =
            command(self.program.as_ref(), confinement.as_ref()).and_then(|mut command| {
                command.args(&self.args).env_clear().env("PATH", path);
                if let Some(confinement) = &confinement {
                    command.envs(confinement.variables());
                }
                command.envs(self.env.iter().cloned()).current_dir(&self.current_dir);
                end_with_this_thread(&mut command);
                command.status()
            });
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

fn command(program: &OsStr, confinement: Option<&Confinement>) -> io::Result<Command> {
    let Some(confinement) = confinement else { return Ok(Command::new(program)) };
    let (launched, args) = confinement.launch(program)?;
    let mut command = Command::new(launched);
    command.args(args);
    confinement.confine(&mut command)?;
    Ok(command)
}

/// A program of the host that runs. Dropped, it is ended, with its group.
pub(super) struct NativeChild(Arc<Running>);

/// What its threads share: one for each stream, and one that looks at the time.
struct Running {
    streams: Arc<Streams>,
    process: HostProcess,
}

impl NativeChild {
    /// Starts `request` in `current_dir`, or where this process is.
    ///
    /// Input is fed and output is read beside each other, so that neither side waits for the other
    /// however much there is of both. A program need not read its input.
    ///
    /// # Errors
    /// As the host answers: the program, or a thread beside it, cannot be started.
    pub(super) fn spawn(
        request: &SubprocessRequest,
        current_dir: Option<&Path>,
        confinement: Option<&Confinement>,
    ) -> io::Result<(Self, Option<ChildInput>)> {
        let mut child = prepared(request, current_dir, confinement)?.spawn()?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let is_open = [stdout.is_some(), stderr.is_some()];
        let running = Arc::new(Running {
            streams: Streams::new(is_open, request.output_bytes_max),
            process: HostProcess::new(child),
        });
        // From here on, whatever fails ends the program.
        let native = Self(Arc::clone(&running));
        let beside = |work: Box<dyn FnOnce(&Running) + Send>| {
            let running = Arc::clone(&running);
            thread::Builder::new().spawn(move || work(&running)).map(drop)
        };
        if let Some(pipe) = stdout {
            beside(Box::new(|running| running.drain(pipe, Written::Stdout)))?;
        }
        if let Some(pipe) = stderr {
            beside(Box::new(|running| running.drain(pipe, Written::Stderr)))?;
        }
        if let Some(timeout) = request.timeout {
            beside(Box::new(move |running| running.watch(timeout)))?;
        }
        let input = match (&request.stdin, stdin) {
            (SubprocessInput::Bytes(bytes), Some(pipe)) => {
                let bytes = bytes.clone();
                beside(Box::new(move |running| running.feed(pipe, &bytes)))?;
                None
            }
            (_, pipe) => pipe.map(|pipe| ChildInput::new(Some(pipe))),
        };
        Ok((native, input))
    }

    /// What it has written.
    pub(super) fn streams(&self) -> &Arc<Streams> {
        &self.0.streams
    }

    /// The number that the host knows it by.
    pub(super) fn id(&self) -> u32 {
        self.0.process.id()
    }

    /// Ends it and its group, if it has not ended. Whoever has left the group and kept its streams
    /// holds nobody up for longer than a moment.
    ///
    /// # Errors
    /// As the host answers.
    pub(super) fn kill(&self) -> io::Result<()> {
        self.0.process.kill()?;
        let streams = Arc::clone(&self.0.streams);
        thread::Builder::new().spawn(move || streams.cut_off_after(GRACE)).map(drop)
    }

    /// Whether it has ended, and everything that it wrote is here.
    ///
    /// # Errors
    /// As the host answers.
    pub(super) fn has_ended(&self) -> io::Result<bool> {
        if self.0.streams.is_open() {
            return Ok(false);
        }
        self.0.process.has_ended()
    }

    /// Waits until it has ended, and until nobody whom it has left behind can write.
    ///
    /// # Errors
    /// As the host answers.
    pub(super) fn wait(&self) -> io::Result<(SubprocessStatus, Collected)> {
        self.0.streams.wait_closed();
        let status = self.0.process.reap()?;
        self.0.streams.end();
        let collected = self.0.streams.collect();
        Ok((status, collected))
    }
}

impl Drop for NativeChild {
    fn drop(&mut self) {
        self.0.process.end();
        self.0.streams.end();
    }
}

impl Running {
    fn drain(&self, mut pipe: impl Read, which: Written) {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            match pipe.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) if self.streams.push(which, &buffer[..count]) => {}
                Ok(_) => {
                    if let Err(error) = self.process.kill() {
                        self.streams.fail(error);
                    }
                    self.streams.cut_off_after(Duration::ZERO);
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.streams.fail(error);
                    break;
                }
            }
        }
        self.streams.close(which);
    }

    fn feed(&self, mut pipe: ChildStdin, bytes: &[u8]) {
        match pipe.write_all(bytes) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => self.streams.fail(error),
            _ => {}
        }
    }

    fn watch(&self, timeout: Duration) {
        if self.streams.ends_within(timeout) {
            return;
        }
        // Whoever sees the program end then knows why.
        match self.process.kill_after(|| self.streams.time_out()) {
            Ok(false) => return,
            Ok(true) => {}
            Err(error) => self.streams.fail(error),
        }
        self.streams.cut_off_after(GRACE);
    }
}

/// Has what `command` starts end when the calling thread does, and with it this process, however that
/// ends. Of what it has started itself nobody knows. Only Linux has that.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables))]
#[allow(unsafe_code, reason = "what runs between fork and exec cannot be checked")]
pub(super) fn end_with_this_thread(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
        use std::os::unix::process::CommandExt;

        let parent = getpid();
        let enter = move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // It may have ended before that.
            if getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
        };
        // SAFETY: `enter` makes system calls, and takes no lock and no memory.
        unsafe { command.pre_exec(enter) };
    }
}

pub(super) fn prepared(
    request: &SubprocessRequest,
    current_dir: Option<&Path>,
    confinement: Option<&Confinement>,
) -> io::Result<Command> {
    let mut command = command(&request.program, confinement)?;
    command.args(&request.args);
    if request.env_clear {
        command.env_clear();
    }
    if let Some(confinement) = confinement {
        command.envs(confinement.variables());
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
    command.stdin(match &request.stdin {
        SubprocessInput::Empty => Stdio::null(),
        SubprocessInput::Bytes(_) | SubprocessInput::Piped => Stdio::piped(),
    });
    let stdio = |stdio| match stdio {
        SubprocessStdio::Piped => Stdio::piped(),
        SubprocessStdio::Null => Stdio::null(),
    };
    command.stdout(stdio(request.stdout)).stderr(stdio(request.stderr));
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    Ok(command)
}
