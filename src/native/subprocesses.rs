//! Subprocesses of a session: real, recorded, replayed, or modules in a machine.

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
    SubprocessError, SubprocessFiles, SubprocessInput, SubprocessOutput, SubprocessRequest,
    SubprocessStatus, TapeEntry, TapedFailure, UnmadeFile,
};
use crate::base::disk::{self, DiskError};
use crate::engine::Program;
use crate::kernel::machine::Machine;
use crate::tape::Redaction;

/// How a session runs subprocesses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum SubprocessConfig {
    /// As native programs.
    #[default]
    Real,
    /// As native programs, recorded on a process tape.
    Record {
        /// The tape, written when the session ends.
        tape: PathBuf,
    },
    /// Not at all: results come from a process tape.
    Replay {
        /// The tape.
        tape: PathBuf,
    },
    /// As modules in the machine.
    WasiToolchain {
        /// The directory that has program `p` as `p.wasm`.
        dir: PathBuf,
    },
}

/// What happens if a toolchain lacks a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnMissing {
    /// The host's program of that name runs.
    #[default]
    Native,
    /// The call is an error.
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
    /// Found so far.
    programs: HashMap<String, Program>,
}

/// Runs the subprocesses of a session.
///
/// The session's machine gives the time, runs modules on its files, and records on its tape. Native
/// programs see the host: no virtual time passes while one runs, and their changes of files are
/// real.
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
    /// Directories where confined programs may write, if not the root.
    roots: Option<Vec<PathBuf>>,
    /// Directories that hardened programs may read in addition.
    read_only_roots: Vec<PathBuf>,
    /// Made when the first program starts.
    confinement: Option<Confinement>,
    redaction: Redaction,
    files: SubprocessFiles,
    /// Calls so far.
    calls: u64,
    /// The first call that should be on the process tape and is not.
    off_tape: Option<u64>,
}

impl Subprocesses {
    /// Opens subprocesses as `config` says.
    ///
    /// `find` returns the program of a toolchain by directory and name, and is called once for each
    /// that exists; `None` if the directory lacks it, and an error for a name that leads elsewhere
    /// or a module that cannot run.
    ///
    /// # Errors
    /// [`SubprocessError`]: `Tape` if the tape to replay cannot be read, with its line; `Folder` if
    /// the directory of the toolchain, or of the tape to write, does not exist.
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
            files: SubprocessFiles::default(),
            calls: 0,
            off_tape: None,
        })
    }

    /// Sets the host directory in which programs run and to which paths are relative, and which the
    /// machine's worktree shows. Default: the current directory. Tapes do not name it.
    #[must_use]
    pub fn root(mut self, root: impl Into<PathBuf>) -> Self {
        self.root = root.into();
        self
    }

    /// Sets what happens if the toolchain lacks a program.
    #[must_use]
    pub fn on_missing(mut self, on_missing: OnMissing) -> Self {
        self.on_missing = on_missing;
        self
    }

    /// Sets what native programs may do. A replay runs none, and accepts any profile.
    ///
    /// # Errors
    /// [`SubprocessError::Profile`] if the system cannot enforce it.
    pub fn sandbox_profile(mut self, profile: SandboxProfile) -> Result<Self, SubprocessError> {
        if !matches!(self.mode, Mode::Replay(_)) {
            profile.check()?;
        }
        self.profile = profile;
        Ok(self)
    }

    /// Sets the directories in which confined programs may write. Default: the root.
    #[must_use]
    pub fn sandbox_roots<P: Into<PathBuf>>(mut self, roots: impl IntoIterator<Item = P>) -> Self {
        self.roots = Some(roots.into_iter().map(Into::into).collect());
        self
    }

    /// Sets directories that hardened programs may read in addition. One inside a root is writable
    /// nonetheless.
    #[must_use]
    pub fn sandbox_read_only_roots<P: Into<PathBuf>>(
        mut self,
        roots: impl IntoIterator<Item = P>,
    ) -> Self {
        self.read_only_roots = roots.into_iter().map(Into::into).collect();
        self
    }

    /// Sets what is kept off the process tape. A replay needs the rules of the recording.
    #[must_use]
    pub fn redaction(mut self, redaction: Redaction) -> Self {
        self.redaction = redaction;
        self
    }

    /// Sets where files that recorded programs changed are recorded, and made again. Default: nowhere.
    #[must_use]
    pub fn files(mut self, files: SubprocessFiles) -> Self {
        self.files = files;
        self
    }

    /// The files that recorded programs changed, and that this replay has not made.
    pub fn unmade_files(&self) -> Vec<UnmadeFile> {
        match &self.mode {
            Mode::Replay(playback) => playback.unmade_files(),
            Mode::Real | Mode::Record(_) | Mode::WasiToolchain(_) => Vec::new(),
        }
    }

    /// The entries recorded so far, or all that are replayed.
    pub fn process_tape(&self) -> Option<Cow<'_, ProcessTape>> {
        match &self.mode {
            Mode::Record(recording) => Some(Cow::Owned(recording.so_far())),
            Mode::Replay(playback) => Some(Cow::Borrowed(playback.tape())),
            Mode::Real | Mode::WasiToolchain(_) => None,
        }
    }

    /// The number of calls so far.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Runs a program to its end and returns its output, or replays it. Waits until all writers
    /// have closed the output, also processes that a native program left behind.
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

    /// Starts a program, or takes its entry off the tape. Tapes are in the order of starts.
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

    /// Waits until a program has ended and its output is closed, records the result, and lets the
    /// recorded duration of a replayed one pass. Later calls return the same.
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

    /// Like [`Subprocesses::wait`], but returns `None` at once if the program has not ended or its
    /// output is open. Modules and replayed programs have ended.
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

    /// Like [`Subprocesses::wait`], and returns the output that was not read, of streams that were
    /// not taken.
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
            // A tape with such a variable could not be read.
            let problem = "an environment variable has no name";
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
        match &mut self.mode {
            Mode::Record(recording) => {
                let (root, files) = (&self.root, &self.files);
                let begun = recording.begin_files(number, request, root, files, &self.redaction);
                begun.map_err(|source| call.files_error(source))?;
            }
            Mode::Replay(playback) => playback.begin_files(&self.root, &self.files),
            Mode::Real | Mode::WasiToolchain(_) => {}
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

    /// Starts a native program, or replays it.
    fn start_outside(
        &mut self,
        call: &Call,
        request: &SubprocessRequest,
        machine: &mut Machine,
    ) -> Result<(Work, Arc<Streams>, Option<ChildInput>), SubprocessError> {
        if let Mode::Replay(playback) = &mut self.mode {
            let (index, entry) = playback.take(call.number, &call.asked, machine)?;
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
            // The host's error is the same for a missing program and a missing directory.
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
                if let Mode::Replay(playback) = &mut self.mode {
                    playback.check(call.number, index, &entry, &call.asked)?;
                    pass_time(call, &entry, machine);
                    playback.end_files((call.number, &call.program), index, machine)?;
                }
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

    /// Records the end of a call on the tapes.
    fn note_end(
        &mut self,
        call: &Call,
        stdin: Option<&[u8]>,
        done: Result<&SubprocessOutput, &SubprocessError>,
        machine: &mut Machine,
    ) -> Result<(), SubprocessError> {
        let duration_ms = machine_tape::end(call, stdin, done.ok(), machine)?;
        if let Mode::Record(recording) = &mut self.mode {
            let files = recording.end_files(call.number, machine);
            let files = files.map_err(|source| call.files_error(source))?;
            let asked = call.asked.clone().with_files(files);
            let entry = match done {
                Ok(output) => asked.answered(output, duration_ms),
                Err(error) => asked.failed(TapedFailure::of(error), duration_ms),
            };
            recording.end(call.number, entry)?;
        }
        Ok(())
    }

    /// Ends the session; if it was recorded, writes the tape, all or nothing, and returns its
    /// entries. A session that is dropped instead writes nothing.
    ///
    /// # Errors
    /// [`SubprocessError`]: `OffTape` if a call is not on the tape, `Unconsumed` if the tape
    /// has entries left, `Unwaited` if a recorded program was not waited for, `Tape` if the tape
    /// cannot be written.
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

/// Lets the recorded duration of a call pass.
fn pass_time(call: &Call, entry: &TapeEntry, machine: &mut Machine) {
    let duration_ns = entry.duration_ms.saturating_mul(1_000_000);
    machine.clock.sleep_until(call.started_ns.saturating_add(duration_ns));
}

fn check_folder(path: &Path) -> Result<(), DiskError> {
    if disk::metadata(path)?.is_dir() {
        return Ok(());
    }
    Err(DiskError::new("open directory", path)(io::ErrorKind::NotADirectory.into()))
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
