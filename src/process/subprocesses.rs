//! What a spawn does: runs a program of the host, records that, repeats it from a tape, or runs a
//! module in a machine.

use std::collections::HashMap;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use super::machine_tape::on_tape;
use super::playback::Playback;
use super::{
    Command, FindError, PROCESS_TAPE_BYTES_MAX, ProcessTape, SubprocessError, SubprocessOutput,
    SubprocessRequest, SubprocessStatus, TapeEntry, native,
};
use crate::base::disk::{self, DiskError};
use crate::engine::{Outcome, Program};
use crate::kernel::clock::Clock;
use crate::kernel::machine::{Machine, WORKTREE};
use crate::tape::{Redaction, TapeError};

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

/// What a program of the host may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Profile {
    /// Whatever this process may.
    #[default]
    Unrestricted,
    /// Write in its worktree alone. Not available yet.
    Worktree,
    /// What the system's own sandbox leaves. Not available yet.
    OsHardened,
    /// Nothing: programs are modules in a machine, or do not run.
    Wasi,
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Ok(match name {
            "unrestricted" => Self::Unrestricted,
            "worktree" => Self::Worktree,
            "os_hardened" => Self::OsHardened,
            "wasi" => Self::Wasi,
            _ => {
                return Err(format!(
                    "there is no sandbox profile {name:?}: expected unrestricted, worktree, \
                     os_hardened or wasi"
                ));
            }
        })
    }
}

type Find = Box<dyn FnMut(&Path, &str) -> Result<Option<Program>, FindError> + Send>;

enum Mode {
    Real,
    Record(Recording),
    Replay(Playback),
    WasiToolchain(Toolchain),
}

struct Recording {
    path: PathBuf,
    tape: ProcessTape,
    room_bytes: u64,
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
/// use belljar::process::{OnMissing, SubprocessConfig, SubprocessRequest, Subprocesses};
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
    profile: Profile,
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
            profile: Profile::default(),
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

    /// What programs of the host may do.
    ///
    /// # Errors
    /// [`SubprocessError::Profile`] if nothing enforces that yet.
    pub fn profile(mut self, profile: Profile) -> Result<Self, SubprocessError> {
        match profile {
            Profile::Unrestricted | Profile::Wasi => self.profile = profile,
            Profile::Worktree | Profile::OsHardened => {
                return Err(SubprocessError::Profile { profile });
            }
        }
        Ok(self)
    }

    /// What must not reach a process tape. A tape must be replayed under the rules under which it
    /// was recorded.
    #[must_use]
    pub fn redaction(mut self, redaction: Redaction) -> Self {
        self.redaction = redaction;
        self
    }

    /// What was recorded so far, or all that is replayed.
    pub fn process_tape(&self) -> Option<&ProcessTape> {
        match &self.mode {
            Mode::Record(recording) => Some(&recording.tape),
            Mode::Replay(playback) => Some(playback.tape()),
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
        self.calls += 1;
        let call = self.calls;
        self.run(call, request, machine).inspect_err(|error| {
            if error.is_of_tape() {
                self.off_tape.get_or_insert(call);
            }
        })
    }

    fn run(
        &mut self,
        call: u64,
        request: &SubprocessRequest,
        machine: &mut Machine,
    ) -> Result<SubprocessOutput, SubprocessError> {
        if let Mode::WasiToolchain(toolchain) = &mut self.mode {
            if let Some(program) = toolchain.program(call, request)? {
                return run_in_machine(call, &program, request, &self.root, machine);
            }
            if self.on_missing == OnMissing::Deny {
                let (program, dir) = (request.name(), toolchain.dir.clone());
                return Err(SubprocessError::Missing { call, program, dir });
            }
        }
        let asked = || TapeEntry::asked(request, &self.root, &self.redaction);
        let run = |_: &mut dyn Clock| run_on_host(call, request, &self.root, self.profile);
        let taped = match &mut self.mode {
            Mode::Real | Mode::WasiToolchain(_) => on_tape(call, request, machine, run)?,
            Mode::Record(recording) => {
                let taped = on_tape(call, request, machine, run)?;
                recording.push(asked().answered(&taped.output, taped.duration_ms))?;
                taped
            }
            Mode::Replay(playback) => {
                on_tape(call, request, machine, |clock| playback.play(call, &asked(), clock))?
            }
        };
        Ok(taped.output)
    }

    /// Ends the session: writes the tape of one that was recorded, whole or not at all, and answers
    /// its entries. Dropped before, a session writes nothing.
    ///
    /// # Errors
    /// [`SubprocessError`]: `OffTape` if a call was not on the tape, `Unconsumed` if the tape holds
    /// more than was asked for, `Tape` if it cannot be written.
    pub fn finish(self) -> Result<Vec<TapeEntry>, SubprocessError> {
        let off_tape = |tape: &Path| match self.off_tape {
            Some(call) => Err(SubprocessError::OffTape { call, tape: tape.to_owned() }),
            None => Ok(()),
        };
        match self.mode {
            Mode::Real | Mode::WasiToolchain(_) => Ok(Vec::new()),
            Mode::Record(Recording { path, tape, .. }) => {
                off_tape(&path)?;
                tape.save(&path)?;
                Ok(tape.entries)
            }
            Mode::Replay(playback) => {
                off_tape(playback.path())?;
                playback.finish()?;
                Ok(Vec::new())
            }
        }
    }
}

fn check_folder(path: &Path) -> Result<(), DiskError> {
    if disk::metadata(path)?.is_dir() {
        return Ok(());
    }
    Err(DiskError::new("use as a folder", path)(io::ErrorKind::NotADirectory.into()))
}

impl Recording {
    fn new(path: PathBuf) -> Self {
        let tape = ProcessTape::default();
        let room_bytes = PROCESS_TAPE_BYTES_MAX - tape.len_bytes();
        Self { path, tape, room_bytes }
    }

    fn push(&mut self, entry: TapeEntry) -> Result<(), TapeError> {
        let left = self.room_bytes.checked_sub(entry.len_bytes());
        self.room_bytes = left.ok_or(TapeError::Full { limit_bytes: PROCESS_TAPE_BYTES_MAX })?;
        self.tape.entries.push(entry);
        Ok(())
    }
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

fn run_on_host(
    call: u64,
    request: &SubprocessRequest,
    root: &Path,
    profile: Profile,
) -> Result<SubprocessOutput, SubprocessError> {
    let program = request.name();
    if profile == Profile::Wasi {
        return Err(SubprocessError::Denied { call, program });
    }
    let dir = match &request.current_dir {
        Some(dir) => root.join(dir),
        None => root.to_owned(),
    };
    let dir = Some(dir).filter(|dir| !dir.as_os_str().is_empty());
    native::output(request, dir.as_deref()).map_err(|source| match dir {
        // The host answers the same for a program and for a folder that is not there.
        Some(dir) if check_folder(&dir).is_err() => {
            let why = "there is no such folder on the host";
            SubprocessError::CurrentDir { call, program, dir, why }
        }
        _ if source.kind() == io::ErrorKind::NotFound => {
            SubprocessError::NotFound { call, program }
        }
        _ => SubprocessError::Host { call, program, source },
    })
}

fn run_in_machine(
    call: u64,
    program: &Program,
    request: &SubprocessRequest,
    root: &Path,
    machine: &mut Machine,
) -> Result<SubprocessOutput, SubprocessError> {
    let mut command = Command::new(program);
    command.argv0(request.program.as_encoded_bytes()).stdin(request.stdin.as_slice());
    command.args(request.args.iter().map(|arg| arg.as_encoded_bytes()));
    for (key, value) in request.variables() {
        command.env(key.as_encoded_bytes(), value.as_encoded_bytes());
    }
    if let Some(dir) = &request.current_dir {
        command.current_dir(guest_dir(root, dir).ok_or_else(|| SubprocessError::CurrentDir {
            call,
            program: request.name(),
            dir: dir.clone(),
            why: "a path in a machine is UTF-8 and has no drive",
        })?);
    }
    let output = command.output(machine).map_err(|source| SubprocessError::Run { call, source })?;
    let status = match output.status.outcome() {
        Outcome::Tape => {
            return Err(SubprocessError::MachineTape { call, program: request.name() });
        }
        Outcome::Exited(code) => SubprocessStatus::Exited(code.cast_signed()),
        stopped => SubprocessStatus::Stopped(stopped.clone()),
    };
    Ok(SubprocessOutput { status, stdout: output.stdout, stderr: output.stderr })
}

/// The path in the namespace of a machine whose worktree shows `root`, of the folder `dir`.
fn guest_dir(root: &Path, dir: &Path) -> Option<String> {
    let below = dir.strip_prefix(root).unwrap_or(dir);
    let mut path = if below.has_root() { String::new() } else { WORKTREE.to_owned() };
    for component in below.components() {
        let name = match component {
            Component::Prefix(_) => return None,
            Component::RootDir | Component::CurDir => continue,
            Component::ParentDir => "..",
            Component::Normal(name) => name.to_str()?,
        };
        path.push('/');
        path.push_str(name);
    }
    Some(if path.is_empty() { "/".to_owned() } else { path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_host_are_found_in_the_machine() {
        let root = Path::new("/home/me/project");
        let guest = |dir: &str| guest_dir(root, Path::new(dir)).unwrap();
        assert_eq!(guest("/home/me/project"), "/src");
        assert_eq!(guest("/home/me/project/a/b"), "/src/a/b");
        assert_eq!(guest("a/./b"), "/src/a/b");
        assert_eq!(guest("../x"), "/src/../x");
        assert_eq!(guest("/tmp"), "/tmp");
        assert_eq!(guest("/"), "/");
        assert_eq!(guest_dir(Path::new(""), Path::new("a")).unwrap(), "/src/a");
    }

    /// What is lost must not be missed by whoever ignores the error.
    #[test]
    fn a_recording_that_is_full_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("full.tape");
        let mut recording = Recording::new(path.clone());
        recording.room_bytes = 40;
        let request = SubprocessRequest::new("p");
        let entry = TapeEntry::asked(&request, Path::new(""), &Redaction::default());
        assert!(matches!(recording.push(entry), Err(TapeError::Full { .. })));
        assert!(recording.tape.entries.is_empty());
        let mut subprocesses = Subprocesses::open(SubprocessConfig::Real, |_, _| Ok(None)).unwrap();
        subprocesses.mode = Mode::Record(recording);
        subprocesses.off_tape = Some(1);
        assert!(matches!(subprocesses.finish(), Err(SubprocessError::OffTape { call: 1, .. })));
        assert!(!path.exists());
    }
}
