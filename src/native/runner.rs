//! Runs native programs.
#![allow(clippy::disallowed_methods, reason = "the only file that starts programs of the host")]

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use super::environment::passed_on;
use super::live;
use super::lookup::to_start;
use super::os_process::{OsProcess, status_of};
use super::profile::Confinement;
use super::streams::{ChildInput, Collected, Streams, Written};
use super::{
    ProfileError, SandboxProfile, SubprocessInput, SubprocessRequest, SubprocessStatus,
    SubprocessStdio,
};

/// How long streams of a killed program may stay open: a process outside its group may hold them.
const GRACE: Duration = Duration::from_secs(1);

/// Bytes read from a program at once.
const CHUNK_BYTES: usize = 64 << 10;

/// A native program could not be run.
#[derive(thiserror::Error)]
pub enum NativeError {
    /// The host has no such program.
    #[error("the host has no program {program:?}")]
    NotFound {
        /// The program.
        program: String,
    },
    /// The program cannot be started.
    #[error("cannot start native program {program:?}")]
    Start {
        /// The program.
        program: String,
        /// The host's error.
        source: io::Error,
    },
    /// The program cannot be confined.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

crate::base::readable::readable!(NativeError);

/// A native program to run outside of any machine: nothing that it does is virtual.
#[derive(Clone, Debug)]
pub struct NativeCommand {
    /// The program, found on the host's `PATH`.
    pub program: String,
    /// The arguments.
    pub args: Vec<OsString>,
    /// The environment, besides the host's `PATH`.
    pub env: Vec<(OsString, OsString)>,
    /// The current directory.
    pub current_dir: PathBuf,
    /// What it may do. Its root is the current directory.
    pub profile: SandboxProfile,
}

impl NativeCommand {
    /// Runs it to its end on this process's streams; returns its exit code, or 128 plus the number
    /// of the signal that killed it.
    ///
    /// # Errors
    /// [`NativeError`].
    pub fn status(&self) -> Result<i32, NativeError> {
        let root = std::slice::from_ref(&self.current_dir);
        let confinement = Confinement::new(self.profile, root, &[])?;
        let status =
            command(self.program.as_ref(), confinement.as_ref()).and_then(|mut command| {
                command.args(&self.args).env_clear().envs(passed_on());
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
    let (launched, args) = match confinement {
        None => (to_start(program), Vec::new()),
        Some(confinement) => confinement.launch(program)?,
    };
    let mut command = Command::new(launched);
    command.args(args);
    #[cfg(unix)]
    end_by_long_files(&mut command);
    if let Some(confinement) = confinement {
        confinement.confine(&mut command)?;
    }
    Ok(command)
}

/// Lets a file beyond the size limit (`ulimit -f`) end the program of `command`, as by default. Belljar's command line ignores
/// the signal, which programs would inherit.
#[cfg(unix)]
#[allow(unsafe_code, reason = "the compiler cannot check code between fork and exec")]
fn end_by_long_files(command: &mut Command) {
    use std::os::unix::process::CommandExt;

    let reset = || {
        // SAFETY: the default needs no handler.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
        Ok(())
    };
    // SAFETY: `reset` only makes a system call; it takes no locks and allocates nothing.
    unsafe { command.pre_exec(reset) };
}

/// A running native program. Dropping it kills the program and its process group.
pub(super) struct NativeChild(Arc<Running>);

/// Shared by its threads: one per stream, and one for the timeout.
struct Running {
    streams: Arc<Streams>,
    process: OsProcess,
    _starter: Starter,
}

impl NativeChild {
    /// Starts `request` in `current_dir`, or in this process's current directory.
    ///
    /// Threads write its input and read its output, so that neither side blocks the other. A
    /// program need not read its input.
    ///
    /// # Errors
    /// The host's error, if the program or a thread cannot be started.
    pub(super) fn spawn(
        request: &SubprocessRequest,
        current_dir: Option<&Path>,
        confinement: Option<&Confinement>,
    ) -> io::Result<(Self, Option<ChildInput>)> {
        let (mut child, starter) = Starter::spawn(prepared(request, current_dir, confinement)?)?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let is_open = [stdout.is_some(), stderr.is_some()];
        let running = Arc::new(Running {
            streams: Streams::new(is_open, request.output_bytes_max),
            process: OsProcess::new(child),
            _starter: starter,
        });
        // Dropped on failure, which kills the program.
        let native = Self(Arc::clone(&running));
        let spawn_thread = |work: Box<dyn FnOnce(&Running) + Send>| {
            let running = Arc::clone(&running);
            thread::Builder::new().spawn(move || work(&running)).map(drop)
        };
        if let Some(pipe) = stdout {
            spawn_thread(Box::new(|running| running.drain(pipe, Written::Stdout)))?;
        }
        if let Some(pipe) = stderr {
            spawn_thread(Box::new(|running| running.drain(pipe, Written::Stderr)))?;
        }
        if let Some(timeout) = request.timeout {
            spawn_thread(Box::new(move |running| running.watch(timeout)))?;
        }
        let input = match (&request.stdin, stdin) {
            (SubprocessInput::Bytes(bytes), Some(pipe)) => {
                let bytes = bytes.clone();
                spawn_thread(Box::new(move |running| running.feed(pipe, &bytes)))?;
                None
            }
            (_, pipe) => pipe.map(|pipe| ChildInput::new(Some(pipe))),
        };
        Ok((native, input))
    }

    pub(super) fn streams(&self) -> &Arc<Streams> {
        &self.0.streams
    }

    /// The process ID.
    pub(super) fn id(&self) -> u32 {
        self.0.process.id()
    }

    /// Kills it and its group, if it has not ended. Streams that a process outside the group holds
    /// open are closed after [`GRACE`].
    ///
    /// # Errors
    /// The host's error.
    pub(super) fn kill(&self) -> io::Result<()> {
        self.0.process.kill()?;
        let streams = Arc::clone(&self.0.streams);
        thread::Builder::new().spawn(move || streams.cut_off_after(GRACE)).map(drop)
    }

    /// Whether it has ended and its streams are closed.
    ///
    /// # Errors
    /// The host's error.
    pub(super) fn has_ended(&self) -> io::Result<bool> {
        if self.0.streams.is_open() {
            return Ok(false);
        }
        self.0.process.has_ended()
    }

    /// Waits until it has ended and its streams are closed, also by processes that it left behind.
    ///
    /// # Errors
    /// The host's error.
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
        // Set before the end can be seen.
        match self.process.kill_after(|| self.streams.time_out()) {
            Ok(false) => return,
            Ok(true) => {}
            Err(error) => self.streams.fail(error),
        }
        self.streams.cut_off_after(GRACE);
    }
}

/// A thread that started a program and stays until this is dropped. The program ends with it, and so with this process,
/// but not with the caller's thread, which may end before.
struct Starter {
    _until_dropped: mpsc::Sender<()>,
}

impl Starter {
    /// # Errors
    /// The host's error, if the program or the thread cannot be started.
    fn spawn(mut command: Command) -> io::Result<(Child, Self)> {
        let (until_dropped, dropped) = mpsc::channel::<()>();
        let (started, child) = mpsc::channel();
        thread::Builder::new().spawn(move || {
            end_with_this_thread(&mut command);
            let is_taken = started.send(live::spawn(&mut command)).is_ok();
            // It may hold copies of the program's descriptors.
            drop(command);
            if is_taken {
                // Fails when the sender is gone.
                let _ = dropped.recv();
            }
        })?;
        let child = child.recv().map_err(io::Error::other)??;
        Ok((child, Self { _until_dropped: until_dropped }))
    }
}

/// Has the program of `command` killed when the calling thread ends, also if this process is
/// killed. Programs that it started itself are not. Linux only.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables))]
#[allow(unsafe_code, reason = "the compiler cannot check code between fork and exec")]
pub(super) fn end_with_this_thread(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
        use std::os::unix::process::CommandExt;

        let parent = getpid();
        let enter = move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have ended before that.
            if getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
        };
        // SAFETY: `enter` only makes system calls; it takes no locks and allocates nothing.
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
    begin_session(&mut command);
    Ok(command)
}

/// Makes the program of `command` the leader of a session and of a process group. Without a controlling terminal, it fails
/// to open `/dev/tty`; one in another group than the terminal's would be stopped when it reads there.
#[cfg(unix)]
#[allow(unsafe_code, reason = "the compiler cannot check code between fork and exec")]
fn begin_session(command: &mut Command) {
    use std::os::unix::process::CommandExt;

    let enter = || {
        rustix::process::setsid()?;
        Ok(())
    };
    // SAFETY: `enter` only makes system calls; it takes no locks and allocates nothing.
    unsafe { command.pre_exec(enter) };
}
