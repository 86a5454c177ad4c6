//! Native programs as processes of a machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use super::environment::passed_on;
use super::image::NativeImage;
use super::lookup::is_in_path;
use super::not_started::NotStarted;
use super::profile::Confinement;
use super::runner::prepared;
use super::streams::lock;
use super::{ProfileError, SandboxProfile, SubprocessInput, SubprocessRequest, SubprocessStdio};
use crate::base::disk;
use crate::kernel::guest::Guest;
use crate::kernel::machine::WORKTREE;
use crate::kernel::process::programs::{Found, NeededTree, NotRunnable, Programs};
use crate::kernel::vfs::{Mount, beneath};

/// Not passed to native programs: paths of the machine's namespace mean nothing on the host.
const NOT_PASSED_ON: [&[u8]; 3] = [b"PATH", b"PWD", b"OLDPWD"];

/// Runs native programs as processes of a machine, and keeps the names of those started.
///
/// They see the disk, not the overlay: a directory that exists only in the overlay cannot be their
/// current directory, and the machine sees what they write unless it has already looked there.
/// Their standard streams are those of the process. They take no virtual time unless
/// [`NativeChildren::charge_time`] is set. While one runs, a paused clock moves to a time that a
/// process waits for once as much real time has passed; it moves at once if the program only waits
/// for input that no process has written yet.
#[derive(Default)]
pub struct NativeChildren {
    worktree: PathBuf,
    profile: SandboxProfile,
    roots: Option<Vec<PathBuf>>,
    charge_time: bool,
    /// Made when the first program starts.
    confinement: Mutex<Option<Arc<Confinement>>>,
    started: Mutex<Vec<String>>,
}

impl NativeChildren {
    /// `worktree` is the host directory that the machine shows at [`WORKTREE`](crate::WORKTREE);
    /// it is only used if the machine does not have that mounted for writing. A program runs in the
    /// directory of the disk that its process's current directory shows; none runs elsewhere.
    pub fn new(worktree: impl Into<PathBuf>) -> Self {
        Self { worktree: worktree.into(), ..Self::default() }
    }

    /// Sets what programs may do.
    ///
    /// # Errors
    /// [`ProfileError`] if the system cannot enforce the profile.
    pub fn sandbox_profile(mut self, profile: SandboxProfile) -> Result<Self, ProfileError> {
        profile.check()?;
        self.profile = profile;
        Ok(self)
    }

    /// Sets the directories in which confined programs may write. Default: the worktree.
    #[must_use]
    pub fn sandbox_roots<P: Into<PathBuf>>(mut self, roots: impl IntoIterator<Item = P>) -> Self {
        self.roots = Some(roots.into_iter().map(Into::into).collect());
        self
    }

    /// Sets whether a virtual clock moves by the real duration of a program when it ends. Default:
    /// no.
    #[must_use]
    pub fn charge_time(mut self, charge: bool) -> Self {
        self.charge_time = charge;
        self
    }

    pub(super) fn charges_time(&self) -> bool {
        self.charge_time
    }

    /// The names of the programs that were started, in order.
    pub fn started(&self) -> Vec<String> {
        lock(&self.started).clone()
    }

    /// Whether the host's `PATH` has a program `name`.
    pub fn has(&self, name: &str) -> bool {
        let is_name = !name.is_empty() && !name.contains(['/', '\\', ':', '\0']);
        is_name && is_in_path(name)
    }

    /// The native program `name`, to run as a process.
    pub fn image(self: &Arc<Self>, name: &str) -> NativeImage {
        let profile = (self.profile != SandboxProfile::Unrestricted).then(|| self.profile.name());
        NativeImage::live(name, profile.map(str::to_owned), Arc::clone(self))
    }

    /// The command that starts `program` for the process `guest`.
    ///
    /// # Errors
    /// Why it cannot be started, and what to do.
    pub(super) fn command(&self, program: &str, guest: &Guest) -> Result<Command, NotStarted> {
        let root = self.root(guest)?;
        let confinement = self.confinement(&root).map_err(|error| chain(&error))?;
        let dir = host_dir(guest, &root)?;
        let mut request = SubprocessRequest::new(program);
        request.args(guest.args().iter().skip(1).map(|arg| host_text(arg)));
        request.env_clear().envs(passed_on());
        for variable in guest.environ() {
            let Some(at) = variable.iter().position(|byte| *byte == b'=') else { continue };
            let (name, value) = (&variable[..at], &variable[at + 1..]);
            if !name.is_empty() && !NOT_PASSED_ON.contains(&name) {
                request.env(host_text(name), host_text(value));
            }
        }
        request.stdin(SubprocessInput::Empty);
        let stdio = |fd| {
            if guest.is_output(fd) { SubprocessStdio::Piped } else { SubprocessStdio::Null }
        };
        request.stdout(stdio(1)).stderr(stdio(2));
        let command = prepared(&request, Some(&dir), confinement.as_deref())?;
        lock(&self.started).push(program.to_owned());
        Ok(command)
    }

    /// The confinement, made at the first call; `worktree` is the root unless roots were set.
    fn confinement(&self, worktree: &Path) -> Result<Option<Arc<Confinement>>, ProfileError> {
        let mut confinement = lock(&self.confinement);
        if confinement.is_none() {
            let worktree = [worktree.to_owned()];
            let roots = self.roots.as_deref().unwrap_or(&worktree);
            *confinement = Confinement::new(self.profile, roots, &[])?.map(Arc::new);
        }
        Ok(confinement.clone())
    }

    /// The host directory that `guest` sees as its worktree, at its path now.
    fn root(&self, guest: &Guest) -> Result<PathBuf, NotStarted> {
        let at = guest.machine().worktree().unwrap_or(WORKTREE);
        let mounts = guest.machine().vfs().mounts();
        let host = mounts.iter().find(|mount| mount.path() == at).and_then(Mount::host);
        let Some(host) = host else {
            // The worktree is not a writable directory of the host.
            let root = disk::canonical(&Path::new(".").join(&self.worktree));
            return Ok(root.map_err(|error| chain(&error))?);
        };
        let gone = || {
            format!(
                "it runs on the disk, and the run's directory is no longer at {}; move it back, or \
                 start the run again",
                host.path().display()
            )
        };
        Ok(host.path_now()?.ok_or_else(gone)?)
    }
}

/// An error and its sources on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(Some(error), |error| error.source());
    sources.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// The host directory that the current directory of `guest` shows, below the worktree's, `root`.
fn host_dir(guest: &Guest, root: &Path) -> Result<PathBuf, String> {
    let current = guest.current_dir().map_err(|_| {
        "it runs on the disk, and its current directory was removed; start it in an existing \
         directory"
    })?;
    let current = &*current;
    let mounts: Vec<String> = guest.machine().vfs().mounts().iter().map(Mount::path).collect();
    let within = |at: &str| beneath(at, current).is_some();
    let mount = mounts.iter().filter(|at| within(at)).max_by_key(|at| at.len());
    let worktree = guest.machine().worktree().unwrap_or(WORKTREE);
    let Some(below) = beneath(worktree, current).filter(|_| mount.is_some_and(|at| at == worktree))
    else {
        return Err(format!(
            "it runs on the disk, and {current} is not in the worktree; start it in a directory \
             of {worktree}"
        ));
    };
    let is_dir = |dir: &PathBuf| disk::metadata(dir).is_ok_and(|found| found.is_dir());
    match disk::canonical(&root.join(below)) {
        Ok(dir) if dir.starts_with(root) && is_dir(&dir) => {
            if guest.is_current_dir_of_disk(below) {
                return Ok(dir);
            }
            Err(format!(
                "it sees the disk, not the run's changes, and the run has made or moved the directory {current}: that of \
                 the disk is another one; start the program in a directory of the disk"
            ))
        }
        _ => Err(format!(
            "it sees the disk, not the run's changes, and the disk has no directory {current}; \
             create it on the disk first, or start the program in an existing one"
        )),
    }
}

fn host_text(bytes: &[u8]) -> OsString {
    #[cfg(unix)]
    return std::os::unix::ffi::OsStringExt::from_vec(bytes.to_vec());
    #[cfg(not(unix))]
    return String::from_utf8_lossy(bytes).into_owned().into();
}

/// Programs of a machine, with the host's for names that they lack. For
/// [`crate::MachineBuilder::programs`].
///
/// ```
/// # #[cfg(unix)] {
/// use std::sync::Arc;
/// use belljar::native::{NativeChildren, NativePrograms};
/// use belljar::process::ShellImage;
/// use belljar::{Command, Engine, EngineConfig, HostDir, Machine, ToolchainPrograms, Toolchains};
///
/// let engine = Engine::new(EngineConfig { pool_slots: 0, ..EngineConfig::default() })?;
/// let programs = ToolchainPrograms::new(&engine, Toolchains::default());
/// let children = Arc::new(NativeChildren::new("."));
/// let programs = NativePrograms::new(Arc::new(programs), Arc::clone(&children));
/// let worktree = HostDir::open(".".as_ref())?;
/// let mut machine = Machine::builder().worktree(worktree).programs(Arc::new(programs)).build()?;
/// let output = Command::shell("echo HELLO | nice sed s/HELL/hell/ | wc -c").output(&mut machine)?;
/// assert_eq!(output.stdout, b"6\n");
/// assert_eq!(children.started(), ["nice"]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct NativePrograms {
    programs: Arc<dyn Programs>,
    children: Arc<NativeChildren>,
}

impl NativePrograms {
    /// Searches `programs` first; runs the host's program of a missing name as `children` says.
    pub fn new(programs: Arc<dyn Programs>, children: Arc<NativeChildren>) -> Self {
        Self { programs, children }
    }
}

impl Programs for NativePrograms {
    fn named(&self, name: &str) -> Result<Option<Found>, NotRunnable> {
        self.programs.named(name)
    }

    fn module(&self, path: &str, bytes: Vec<u8>) -> Result<Found, NotRunnable> {
        self.programs.module(path, bytes)
    }

    fn tree(&self, at: &str) -> Option<NeededTree> {
        self.programs.tree(at)
    }

    fn missing(&self, name: &str) -> Result<Option<Found>, NotRunnable> {
        if !self.children.has(name) {
            return self.programs.missing(name);
        }
        match self.children.profile {
            SandboxProfile::Wasi => Err(NotRunnable(ProfileError::Wasi.to_string())),
            _ => Ok(Some(self.children.image(name).found())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_not_searched_on_the_host() {
        let children = NativeChildren::new(".");
        for name in ["", "/bin/sh", "./sh", "..", "a\0b", "no-such-program-anywhere"] {
            assert!(!children.has(name), "{name:?}");
        }
    }
}
