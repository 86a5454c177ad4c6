//! What a spawn does: runs a program of the host, records that, repeats it from a tape, or runs a
//! module in a machine.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::child::{Call, Work};
use super::in_machine::run_in_machine;
use super::machine_tape;
use super::playback::Playback;
use super::profile::Confinement;
use super::recording::Recording;
use super::runner::NativeChild;
use super::streams::Streams;
use super::{
    ChildInput, ChildOutput, FindError, ProcessTape, SandboxProfile, SubprocessChild,
    SubprocessError, SubprocessInput, SubprocessOutput, SubprocessRequest, SubprocessStatus,
    TapeEntry, TapedFailure,
};
use crate::base::disk::{self, DiskError};
use crate::engine::Program;
use crate::kernel::machine::Machine;
use crate::tape::Redaction;

/// What a spawn does.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum SubprocessConfig {
    /// It runs a program of the host.
    #[default]
    Real,
    /// It runs a program of the host, and notes what came of it.
    Record {
        /// The process tape that is written at the end.
        tape: PathBuf,
    },
    /// It runs nothing: what comes of it is on a tape.
    Replay {
        /// The process tape.
        tape: PathBuf,
    },
    /// It runs a module in the machine.
    WasiToolchain {
        /// The folder in which `<program>.wasm` is the program.
        dir: PathBuf,
    },
}

/// What becomes of a program that a toolchain does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnMissing {
    /// The host's program of that name runs.
    #[default]
    Native,
    /// It is refused.
    Deny,
}

type Find = Box<dyn FnMut(&Path, &str) -> Result<Option<Program>, FindError> + Send>;

enum Mode {
    Real,
    Record(Recording),
    Replay(Playback),
    WasiToolchain(Toolchain),
}

struct Toolchain {
    dir: PathBuf,
    find: Find,
    /// Those that were found.
    programs: HashMap<String, Program>,
}

/// Runs subprocesses, all of a session in the same way.
///
/// A session's machine says what time it is, has the files of programs that run in it, and has the
/// tape on which everything is noted. Programs of the host see the host: no virtual time passes
/// while one runs, and what it does to files is real.
///
/// ```
/// use belljar::Machine;
/// use belljar::native::{OnMissing, SubprocessConfig, SubprocessRequest, Subprocesses};
/// use belljar::{Program, Toolchains};
///
/// let folder = tempfile::tempdir()?;
/// let engine = belljar::Engine::new(belljar::EngineConfig::default())?;
/// let config = SubprocessConfig::WasiToolchain { dir: folder.path().to_owned() };
/// let mut subprocesses = Subprocesses::open(config, move |dir, name| {
///     let module = Toolchains::new(vec![dir.to_owned()])?.resolve(name)?.module()?;
///     Ok(Some(Program::new(&engine, &module)?))
/// })?;
///
/// let mut machine = Machine::builder().build()?;
/// let request = SubprocessRequest::new("wc").arg("-c").stdin("five!").clone();
/// assert_eq!(subprocesses.output(&request, &mut machine)?.stdout, b"5\n");
/// subprocesses.finish()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Subprocesses {
    mode: Mode,
    root: PathBuf,
    on_missing: OnMissing,
    profile: SandboxProfile,
    /// Where confined programs may write, if that is not the root.
    roots: Option<Vec<PathBuf>>,
    /// What hardened ones may read besides.
    read_only_roots: Vec<PathBuf>,
    /// What they are started in, once one was.
    confinement: Option<Confinement>,
    redaction: Redaction,
    /// Calls so far.
    calls: u64,
    /// The first call that should be on the process tape and is not.
    off_tape: Option<u64>,
}

impl Subprocesses {
    /// Subprocesses as `config` says.
    ///
    /// In a toolchain, `find` is asked for a program by the folder and the name, once for each that
    /// there is. It answers `None` for one that the folder does not have, and an error for a name
    /// that must not be looked for anywhere, or a module that cannot run.
    ///
    /// # Errors
    /// [`SubprocessError`]: `Tape` if the tape to replay cannot be read, with its line; `Folder` if
    /// that of the toolchain, or the one in which a tape is to be written, is not there.
    pub fn open(
        config: SubprocessConfig,
        find: impl FnMut(&Path, &str) -> Result<Option<Program>, FindError> + Send + 'static,
    ) -> Result<Self, SubprocessError> {
        let mode = match config {
            SubprocessConfig::Real => Mode::Real,
            SubprocessConfig::Record { tape: path } => {
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                check_folder(parent.unwrap_or(Path::new(".")))?;
                Mode::Record(Recording::new(path))
            }
            SubprocessConfig::Replay { tape } => Mode::Replay(Playback::open(&tape)?),
            SubprocessConfig::WasiToolchain { dir } => {
                check_folder(&dir)?;
                let (find, programs) = (Box::new(find), HashMap::new());
                Mode::WasiToolchain(Toolchain { dir, find, programs })
            }
        };
        Ok(Self {
            mode,
            root: PathBuf::new(),
            on_missing: OnMissing::default(),
            profile: SandboxProfile::default(),
            roots: None,
            read_only_roots: Vec::new(),
            confinement: None,
            redaction: Redaction::default(),
            calls: 0,
            off_tape: None,
        })
    }

    /// The host's folder in which programs run, at which relative paths begin, and which the
    /// machine's worktree shows. Default: the current one. Tapes do not name it.
    #[must_use]
    pub fn root(mut self, root: impl Into<PathBuf>) -> Self {
        self.root = root.into();
        self
    }

    /// What becomes of a program that the toolchain does not have.
    #[must_use]
    pub fn on_missing(mut self, on_missing: OnMissing) -> Self {
        self.on_missing = on_missing;
        self
    }

    /// What programs of the host may do. A replay runs none, and takes any profile.
    ///
    /// # Errors
    /// [`SubprocessError::Profile`] if this machine cannot give that.
    pub fn sandbox_profile(mut self, profile: SandboxProfile) -> Result<Self, SubprocessError> {
        if !matches!(self.mode, Mode::Replay(_)) {
            profile.check()?;
        }
        self.profile = profile;
        Ok(self)
    }

    /// The folders in which confined programs of the host may write. Default: the root.
    #[must_use]
    pub fn sandbox_roots<P: Into<PathBuf>>(mut self, roots: impl IntoIterator<Item = P>) -> Self {
        self.roots = Some(roots.into_iter().map(Into::into).collect());
        self
    }

    /// Folders that confined programs of the host may read besides, where the profile does not let them
    /// read everything. One that lies in a root can be written to all the same.
    #[must_use]
    pub fn sandbox_read_only_roots<P: Into<PathBuf>>(
        mut self,
        roots: impl IntoIterator<Item = P>,
    ) -> Self {
        self.read_only_roots = roots.into_iter().map(Into::into).collect();
        self
    }

    /// What must not reach a process tape. A tape must be replayed under the rules under which it
    /// was recorded.
    #[must_use]
    pub fn redaction(mut self, redaction: Redaction) -> Self {
        self.redaction = redaction;
        self
    }

    /// What was recorded so far, or all that is replayed.
    pub fn process_tape(&self) -> Option<Cow<'_, ProcessTape>> {
        match &self.mode {
            Mode::Record(recording) => Some(Cow::Owned(recording.so_far())),
            Mode::Replay(playback) => Some(Cow::Borrowed(playback.tape())),
            Mode::Real | Mode::WasiToolchain(_) => None,
        }
    }

    /// How many times a program was asked for.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Runs a program to its end and collects what it writes, or takes that off the tape. One of
    /// the host is waited for as long as its output is open, also in programs that it left running.
    ///
    /// # Errors
    /// [`SubprocessError`]. A program that fails is no error.
    pub fn output(
        &mut self,
        request: &SubprocessRequest,
        machine: &mut Machine,
    ) -> Result<SubprocessOutput, SubprocessError> {
        let child = self.spawn(request, machine)?;
        self.wait_with_output(child, machine)
    }

    /// Starts a program, or takes its entry off the tape. On tapes it stands where it started.
    ///
    /// # Errors
    /// [`SubprocessError`].
    pub fn spawn(
        &mut self,
        request: &SubprocessRequest,
        machine: &mut Machine,
    ) -> Result<SubprocessChild, SubprocessError> {
        self.calls += 1;
        let call = self.calls;
        let child = self.start(call, request, machine);
        self.note_off_tape(call, child)
    }

    /// Waits until a program has ended and its output is closed, notes what came of it, and lets the
    /// time pass that a replayed one took. A second time it answers the same.
    ///
    /// # Errors
    /// [`SubprocessError`]. A program that fails is no error.
    pub fn wait(
        &mut self,
        child: &mut SubprocessChild,
        machine: &mut Machine,
    ) -> Result<SubprocessStatus, SubprocessError> {
        let status = self.conclude(child, machine);
        self.note_off_tape(child.call.number, status)
    }

    /// As [`Subprocesses::wait`], if the program has ended and its output is closed; else `None`, at
    /// once. One that is replayed, or a module, has ended.
    ///
    /// # Errors
    /// [`SubprocessError`]. A program that fails is no error.
    pub fn try_wait(
        &mut self,
        child: &mut SubprocessChild,
        machine: &mut Machine,
    ) -> Result<Option<SubprocessStatus>, SubprocessError> {
        if let Work::Native(native) = &child.work {
            let ended = native.has_ended().map_err(|source| {
                let (call, program) = (child.call.number, child.call.program.clone());
                SubprocessError::Host { call, program, source }
            });
            if !ended? {
                return Ok(None);
            }
        }
        self.wait(child, machine).map(Some)
    }

    /// As [`Subprocesses::wait`], and what it wrote besides, as far as nobody has read it or taken
    /// its stream.
    ///
    /// # Errors
    /// [`SubprocessError`]. A program that fails is no error.
    pub fn wait_with_output(
        &mut self,
        mut child: SubprocessChild,
        machine: &mut Machine,
    ) -> Result<SubprocessOutput, SubprocessError> {
        let status = self.wait(&mut child, machine)?;
        let rest = |output: &Option<ChildOutput>| output.as_ref().map(ChildOutput::rest);
        let (stdout, stderr) = (rest(&child.stdout), rest(&child.stderr));
        let (stdout, stderr) = (stdout.unwrap_or_default(), stderr.unwrap_or_default());
        Ok(SubprocessOutput { status, stdout, stderr })
    }

    fn note_off_tape<T>(
        &mut self,
        call: u64,
        done: Result<T, SubprocessError>,
    ) -> Result<T, SubprocessError> {
        done.inspect_err(|error| {
            if error.is_of_tape() {
                self.off_tape.get_or_insert(call);
            }
        })
    }

    fn start(
        &mut self,
        number: u64,
        request: &SubprocessRequest,
        machine: &mut Machine,
    ) -> Result<SubprocessChild, SubprocessError> {
        let asked = TapeEntry::asked(request, &self.root, self.profile, &self.redaction);
        let (program, output_bytes_max) = (request.name(), request.output_bytes_max);
        let mut call = Call { number, program, asked, started_ns: 0, output_bytes_max };
        if request.variables().any(|(name, _)| name.is_empty()) {
            // A tape would hold what is no variable, and could not be read again.
            let problem = "a variable needs a name";
            return Err(call.host_error(io::Error::new(io::ErrorKind::InvalidInput, problem)));
        }
        if let Mode::WasiToolchain(toolchain) = &mut self.mode {
            if let Some(program) = toolchain.program(number, request)? {
                return self.start_module(call, program, request, machine);
            }
            if self.on_missing == OnMissing::Deny {
                let (program, dir) = (call.program, toolchain.dir.clone());
                return Err(SubprocessError::Missing { call: number, program, dir });
            }
        }
        let is_replay = matches!(self.mode, Mode::Replay(_));
        if !is_replay && self.confinement.is_none() && self.profile != SandboxProfile::Wasi {
            let root = std::slice::from_ref(&self.root);
            let roots = self.roots.as_deref().unwrap_or(root);
            self.confinement = Confinement::new(self.profile, roots, &self.read_only_roots)?;
        }
        call.started_ns = machine_tape::begin(number, request, self.profile, machine)?;
        if let Mode::Record(recording) = &mut self.mode {
            recording.begin(number, call.program.clone());
        }
        match self.start_outside(&call, request, machine) {
            Ok((work, streams, stdin)) => {
                Ok(SubprocessChild::new(call, request, work, streams, stdin))
            }
            Err(error) => {
                self.note_end(&call, None, Err(&error), machine)?;
                Err(error)
            }
        }
    }

    fn start_module(
        &self,
        call: Call,
        program: Program,
        request: &SubprocessRequest,
        machine: &mut Machine,
    ) -> Result<SubprocessChild, SubprocessError> {
        let Some(stdin) = request.stdin.bytes() else {
            let work = Work::Deferred(Box::new((program, request.clone())));
            let (streams, stdin) = (Streams::deferred(), Some(ChildInput::new(None)));
            return Ok(SubprocessChild::new(call, request, work, streams, stdin));
        };
        let root = &self.root;
        let output = run_in_machine(call.number, &program, request, stdin, root, machine)?;
        let streams = Streams::of(output.stdout, output.stderr);
        Ok(SubprocessChild::new(call, request, Work::Ended(output.status), streams, None))
    }

    /// Starts what runs outside of machines.
    fn start_outside(
        &mut self,
        call: &Call,
        request: &SubprocessRequest,
        machine: &mut Machine,
    ) -> Result<(Work, Arc<Streams>, Option<ChildInput>), SubprocessError> {
        if let Mode::Replay(playback) = &mut self.mode {
            let (index, entry) = playback.take(call.number, &call.asked)?;
            if let Some(failure) = entry.failure.as_ref().filter(|failure| failure.is_of_start()) {
                pass_time(call, &entry, machine);
                return Err(call.failed(failure, request, &self.root, self.profile));
            }
            let SubprocessOutput { stdout, stderr, .. } = entry.output();
            let is_piped = request.stdin == SubprocessInput::Piped;
            let stdin = is_piped.then(|| ChildInput::new(None));
            return Ok((Work::Taped(index, Box::new(entry)), Streams::of(stdout, stderr), stdin));
        }
        let fail = |failure: &TapedFailure| call.failed(failure, request, &self.root, self.profile);
        if self.profile == SandboxProfile::Wasi {
            return Err(fail(&TapedFailure::Denied));
        }
        let dir = request.dir(&self.root);
        let spawned = NativeChild::spawn(request, dir.as_deref(), self.confinement.as_ref());
        let (native, stdin) = spawned.map_err(|source| match (source.kind(), dir) {
            // The host answers the same for a program and for a folder that is not there.
            (_, Some(dir)) if check_folder(&dir).is_err() => fail(&TapedFailure::CurrentDir),
            (io::ErrorKind::NotFound, _) => fail(&TapedFailure::NotFound),
            (io::ErrorKind::PermissionDenied, _) => fail(&TapedFailure::PermissionDenied),
            _ => call.host_error(source),
        })?;
        let streams = Arc::clone(native.streams());
        Ok((Work::Native(native), streams, stdin))
    }

    fn conclude(
        &mut self,
        child: &mut SubprocessChild,
        machine: &mut Machine,
    ) -> Result<SubprocessStatus, SubprocessError> {
        if let Work::Ended(status) = &child.work {
            return Ok(status.clone());
        }
        let stdin = child.close_stdin();
        let call = &child.call;
        let done = match std::mem::replace(&mut child.work, Work::Ended(SubprocessStatus::KILLED)) {
            Work::Ended(status) => return Ok(status),
            Work::Deferred(module) => {
                let (program, request) = *module;
                let stdin = stdin.unwrap_or_default();
                let (number, root) = (call.number, &self.root);
                let output = run_in_machine(number, &program, &request, &stdin, root, machine)?;
                child.streams.supply(output.stdout, output.stderr);
                child.work = Work::Ended(output.status.clone());
                return Ok(output.status);
            }
            Work::Native(native) => call.output_of(&native),
            Work::Taped(index, entry) => {
                if let Mode::Replay(playback) = &self.mode {
                    playback.check(call.number, index, &entry, &call.asked)?;
                }
                pass_time(call, &entry, machine);
                match entry.failure {
                    Some(_) => Err(call.output_limit()),
                    None => Ok(entry.output()),
                }
            }
        };
        self.note_end(call, stdin.as_deref(), done.as_ref(), machine)?;
        let status = done?.status;
        child.work = Work::Ended(status.clone());
        Ok(status)
    }

    /// Notes on the tapes what came of a call.
    fn note_end(
        &mut self,
        call: &Call,
        stdin: Option<&[u8]>,
        done: Result<&SubprocessOutput, &SubprocessError>,
        machine: &mut Machine,
    ) -> Result<(), SubprocessError> {
        let duration_ms = machine_tape::end(call, stdin, done.ok(), machine)?;
        if let Mode::Record(recording) = &mut self.mode {
            let asked = call.asked.clone();
            let entry = match done {
                Ok(output) => asked.answered(output, duration_ms),
                Err(error) => asked.failed(TapedFailure::of(error), duration_ms),
            };
            recording.end(call.number, entry)?;
        }
        Ok(())
    }

    /// Ends the session: writes the tape of one that was recorded, whole or not at all, and answers
    /// its entries. Dropped before, a session writes nothing.
    ///
    /// # Errors
    /// [`SubprocessError`]: `OffTape` if a call was not on the tape, `Unconsumed` if the tape holds
    /// more than was asked for, `Unwaited` if nobody waited for a program that was to be recorded,
    /// `Tape` if it cannot be written.
    pub fn finish(self) -> Result<Vec<TapeEntry>, SubprocessError> {
        let off_tape = |tape: &Path| match self.off_tape {
            Some(call) => Err(SubprocessError::OffTape { call, tape: tape.to_owned() }),
            None => Ok(()),
        };
        match self.mode {
            Mode::Real | Mode::WasiToolchain(_) => Ok(Vec::new()),
            Mode::Record(recording) => {
                off_tape(recording.path())?;
                recording.finish()
            }
            Mode::Replay(playback) => {
                off_tape(playback.path())?;
                playback.finish()?;
                Ok(Vec::new())
            }
        }
    }
}

/// Lets the time pass that a recorded call took.
fn pass_time(call: &Call, entry: &TapeEntry, machine: &mut Machine) {
    let duration_ns = entry.duration_ms.saturating_mul(1_000_000);
    machine.clock.sleep_until(call.started_ns.saturating_add(duration_ns));
}

fn check_folder(path: &Path) -> Result<(), DiskError> {
    if disk::metadata(path)?.is_dir() {
        return Ok(());
    }
    Err(DiskError::new("use as a folder", path)(io::ErrorKind::NotADirectory.into()))
}

impl Toolchain {
    fn program(
        &mut self,
        call: u64,
        request: &SubprocessRequest,
    ) -> Result<Option<Program>, SubprocessError> {
        let refused = |source| {
            let (program, dir) = (request.name(), self.dir.clone());
            SubprocessError::Refused { call, program, dir, source }
        };
        let name = request.program.to_str().ok_or_else(|| refused("it is not UTF-8".into()))?;
        if let Some(program) = self.programs.get(name) {
            return Ok(Some(program.clone()));
        }
        let found = (self.find)(&self.dir, name).map_err(refused)?;
        if let Some(program) = &found {
            self.programs.insert(name.to_owned(), program.clone());
        }
        Ok(found)
    }
}
