//! Processes, as in `std::process`.

use std::io;
use std::path::Path;

#[cfg(not(target_os = "wasi"))]
pub use std::process::{
    Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio,
};

#[cfg(target_os = "wasi")]
pub use wasi::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio};

/// Ends this program with `code`, of which the lowest eight bits count, as on Linux. For WASI 0.2 the standard library
/// knows only 0 and 1.
pub fn exit(code: i32) -> ! {
    #[cfg(all(target_os = "wasi", target_env = "p2"))]
    wasip2::cli::exit::exit_with_code((code & 0xff) as u8);
    std::process::exit(code)
}

/// The file at `path` as the input of a child.
///
/// # Errors
/// Errors of opening it.
pub fn read_from(path: impl AsRef<Path>) -> io::Result<Stdio> {
    #[cfg(target_os = "wasi")]
    return Ok(Stdio(Kind::Stream(crate::sys::open(path.as_ref(), crate::sys::Open::Read)?)));
    #[cfg(not(target_os = "wasi"))]
    return std::fs::File::open(path).map(Stdio::from);
}

/// The file at `path` as the output of a child, from its beginning; what it had is lost.
///
/// # Errors
/// Errors of making it.
pub fn write_to(path: impl AsRef<Path>) -> io::Result<Stdio> {
    #[cfg(target_os = "wasi")]
    return Ok(Stdio(Kind::Stream(crate::sys::open(path.as_ref(), crate::sys::Open::Create)?)));
    #[cfg(not(target_os = "wasi"))]
    return std::fs::File::create(path).map(Stdio::from);
}

#[cfg(target_os = "wasi")]
mod wasi {
    use std::collections::BTreeMap;
    use std::ffi::{OsStr, OsString};
    use std::fmt;
    use std::io::{self, Read, Write};
    use std::path::{Path, PathBuf};

    use crate::sys;

    /// A program to start.
    #[derive(Debug)]
    pub struct Command {
        program: OsString,
        args: Vec<OsString>,
        clears_env: bool,
        /// What is set or removed of the environment.
        env: BTreeMap<OsString, Option<OsString>>,
        current_dir: Option<PathBuf>,
        stdin: Option<Stdio>,
        stdout: Option<Stdio>,
        stderr: Option<Stdio>,
    }

    impl Command {
        /// The program with this name or, if it has a slash, at this path.
        pub fn new(program: impl AsRef<OsStr>) -> Self {
            Self {
                program: program.as_ref().to_owned(),
                args: Vec::new(),
                clears_env: false,
                env: BTreeMap::new(),
                current_dir: None,
                stdin: None,
                stdout: None,
                stderr: None,
            }
        }

        /// Adds an argument.
        pub fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Self {
            self.args.push(arg.as_ref().to_owned());
            self
        }

        /// Adds arguments.
        pub fn args(&mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Self {
            self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
            self
        }

        /// Sets a variable of its environment.
        pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
            self.env.insert(name.as_ref().to_owned(), Some(value.as_ref().to_owned()));
            self
        }

        /// Sets variables of its environment.
        pub fn envs(
            &mut self,
            vars: impl IntoIterator<Item = (impl AsRef<OsStr>, impl AsRef<OsStr>)>,
        ) -> &mut Self {
            for (name, value) in vars {
                self.env(name, value);
            }
            self
        }

        /// Removes a variable of its environment.
        pub fn env_remove(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
            self.env.insert(name.as_ref().to_owned(), None);
            self
        }

        /// Removes all variables, those that were set for it too.
        pub fn env_clear(&mut self) -> &mut Self {
            self.clears_env = true;
            self.env.clear();
            self
        }

        /// Sets where it starts.
        pub fn current_dir(&mut self, dir: impl AsRef<Path>) -> &mut Self {
            self.current_dir = Some(dir.as_ref().to_owned());
            self
        }

        /// Sets its standard input. Default: inherited, for [`Command::output`] nothing. It holds for one start.
        pub fn stdin(&mut self, stdio: impl Into<Stdio>) -> &mut Self {
            self.stdin = Some(stdio.into());
            self
        }

        /// Sets its standard output. Default: inherited, for [`Command::output`] a pipe. It holds for one start.
        pub fn stdout(&mut self, stdio: impl Into<Stdio>) -> &mut Self {
            self.stdout = Some(stdio.into());
            self
        }

        /// Sets its standard error. Default: inherited, for [`Command::output`] a pipe. It holds for one start.
        pub fn stderr(&mut self, stdio: impl Into<Stdio>) -> &mut Self {
            self.stderr = Some(stdio.into());
            self
        }

        /// Starts it. It runs when this program waits for something.
        ///
        /// # Errors
        /// `NotFound`: there is no such program. `InvalidInput`: a text holds NUL, or is not UTF-8 where that is needed.
        /// Errors of streams, limits and the command policy.
        pub fn spawn(&mut self) -> io::Result<Child> {
            self.start(Default::Inherit, Default::Inherit)
        }

        /// Starts it, and waits until it has ended.
        ///
        /// # Errors
        /// As [`Command::spawn`].
        pub fn status(&mut self) -> io::Result<ExitStatus> {
            self.spawn()?.wait()
        }

        /// Starts it, waits until it has ended, and returns what it wrote.
        ///
        /// # Errors
        /// As [`Command::spawn`].
        pub fn output(&mut self) -> io::Result<Output> {
            self.start(Default::Null, Default::Piped)?.wait_with_output()
        }

        fn start(&mut self, input: Default, output: Default) -> io::Result<Child> {
            let (stdin, mine_in) = sys::child_input(self.stdin.take(), input)?;
            let (stdout, mine_out) = sys::child_output(self.stdout.take(), output)?;
            let (stderr, mine_err) = sys::child_output(self.stderr.take(), output)?;
            // As the standard library has it: writing to a pipe without a reader is an error here, and ends a child.
            sys::ignore_sigpipe(false);
            let request = sys::Request {
                program: &self.program,
                args: &self.args,
                environ: self.environ(),
                current_dir: self.current_dir.as_deref(),
                stdio: [stdin, stdout, stderr],
            };
            let process = sys::spawn(request);
            sys::ignore_sigpipe(true);
            Ok(Child {
                process: process?,
                stdin: mine_in.map(ChildStdin),
                stdout: mine_out.map(ChildStdout),
                stderr: mine_err.map(ChildStderr),
            })
        }

        fn environ(&self) -> Vec<(OsString, OsString)> {
            let inherited = std::env::vars_os().filter(|_| !self.clears_env);
            let mut environ: Vec<_> =
                inherited.filter(|(name, _)| !self.env.contains_key(name)).collect();
            let set = self.env.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
            environ.extend(set.map(|(name, value)| (name.clone(), value.clone())));
            environ
        }
    }

    /// What a stream is unless something was set.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Default {
        Inherit,
        Null,
        Piped,
    }

    /// What a standard stream of a child is.
    #[derive(Debug)]
    pub struct Stdio(pub(crate) Kind);

    #[derive(Debug)]
    pub(crate) enum Kind {
        Inherit,
        Null,
        Piped,
        Stream(sys::Handed),
    }

    impl Stdio {
        /// That of this program.
        pub fn inherit() -> Self {
            Self(Kind::Inherit)
        }

        /// Nothing is read, and what is written is lost.
        pub fn null() -> Self {
            Self(Kind::Null)
        }

        /// A pipe, whose other end is a field of [`Child`].
        pub fn piped() -> Self {
            Self(Kind::Piped)
        }
    }

    #[cfg(target_env = "p1")]
    impl From<std::fs::File> for Stdio {
        fn from(file: std::fs::File) -> Self {
            Self(Kind::Stream(file))
        }
    }

    impl From<ChildStdin> for Stdio {
        fn from(stream: ChildStdin) -> Self {
            Self(Kind::Stream(stream.0.into()))
        }
    }

    impl From<ChildStdout> for Stdio {
        fn from(stream: ChildStdout) -> Self {
            Self(Kind::Stream(stream.0.into()))
        }
    }

    impl From<ChildStderr> for Stdio {
        fn from(stream: ChildStderr) -> Self {
            Self(Kind::Stream(stream.0.into()))
        }
    }

    /// A program that was started.
    #[derive(Debug)]
    pub struct Child {
        process: sys::Process,
        /// To be written, if it is a pipe.
        pub stdin: Option<ChildStdin>,
        /// To be read, if it is a pipe.
        pub stdout: Option<ChildStdout>,
        /// To be read, if it is a pipe.
        pub stderr: Option<ChildStderr>,
    }

    impl Child {
        /// Its process id.
        pub fn id(&self) -> u32 {
            self.process.id()
        }

        /// Ends it with `SIGKILL`. No effect if it has ended.
        ///
        /// # Errors
        /// None is known.
        pub fn kill(&mut self) -> io::Result<()> {
            self.process.kill(9)
        }

        /// Closes its standard input, and waits until it has ended. A second call answers the same.
        ///
        /// # Errors
        /// Errors of the wait.
        pub fn wait(&mut self) -> io::Result<ExitStatus> {
            drop(self.stdin.take());
            self.process.wait().map(ExitStatus)
        }

        /// How it ended; `None` if it has not.
        ///
        /// # Errors
        /// Errors of the wait.
        pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
            Ok(self.process.try_wait()?.map(ExitStatus))
        }

        /// Closes its standard input, reads its other streams to their ends, and waits until it has ended.
        ///
        /// # Errors
        /// Errors of reading and of the wait.
        pub fn wait_with_output(mut self) -> io::Result<Output> {
            drop(self.stdin.take());
            let streams = [self.stdout.take().map(|it| it.0), self.stderr.take().map(|it| it.0)];
            let [stdout, stderr] = sys::read_all(streams)?;
            Ok(Output { status: self.wait()?, stdout, stderr })
        }
    }

    /// The end of a pipe to which a child's input is written.
    #[derive(Debug)]
    pub struct ChildStdin(sys::Writer);

    impl Write for ChildStdin {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }

    /// The end of a pipe from which a child's output is read.
    #[derive(Debug)]
    pub struct ChildStdout(sys::Reader);

    impl Read for ChildStdout {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            self.0.read(bytes)
        }
    }

    /// The end of a pipe from which a child's messages are read.
    #[derive(Debug)]
    pub struct ChildStderr(sys::Reader);

    impl Read for ChildStderr {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            self.0.read(bytes)
        }
    }

    /// How a program ended.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct ExitStatus(pub(crate) sys::Status);

    impl ExitStatus {
        /// Whether it exited with 0.
        pub fn success(&self) -> bool {
            self.0 == sys::Status::Exited(0)
        }

        /// The code that it exited with; `None` if a signal ended it.
        pub fn code(&self) -> Option<i32> {
            match self.0 {
                sys::Status::Exited(code) => Some(code.cast_signed()),
                sys::Status::Signalled(_) => None,
            }
        }

        /// The signal that ended it, by its number on Linux: 6 after a trap, 9 at a limit.
        pub fn signal(&self) -> Option<i32> {
            match self.0 {
                sys::Status::Exited(_) => None,
                sys::Status::Signalled(signal) => Some(signal.cast_signed()),
            }
        }
    }

    impl fmt::Display for ExitStatus {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self.0 {
                sys::Status::Exited(code) => write!(f, "exit status: {}", code.cast_signed()),
                sys::Status::Signalled(signal) => write!(f, "signal: {signal}"),
            }
        }
    }

    /// How a program ended, and what it wrote.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Output {
        /// How it ended.
        pub status: ExitStatus,
        /// Its standard output.
        pub stdout: Vec<u8>,
        /// Its standard error.
        pub stderr: Vec<u8>,
    }
}

#[cfg(target_os = "wasi")]
pub(crate) use wasi::{Default, Kind};
