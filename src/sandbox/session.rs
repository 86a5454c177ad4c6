//! A sandbox: a machine and its specification.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::backend::{
    ExecRequest, ExecResult, FilesystemAccess, MEMORY_DIR, MEMORY_DIR_VARIABLE, MountSource,
    OUTPUTS_DIR, OUTPUTS_DIR_VARIABLE, SandboxError, SandboxMount, SandboxSpec, check_env,
};
use crate::base::errno::Errno;
use crate::host::{HostError, HostHandle, SessionHost, SessionHostBuilder};
use crate::kernel::io::stdio::{Input, OutputStream, Stdio};
use crate::kernel::machine::limits::Limits;
use crate::kernel::machine::{Interrupter, Machine, MachineBuilder, MachineError, WORKTREE};
use crate::kernel::process::TrappedProcess;
use crate::kernel::process::outcome::{Outcome, RunError};
use crate::kernel::process::programs::Programs;
use crate::kernel::vfs::{
    Applied, ApplyError, Baseline, Contents, DiffEntry, DiffError, Drift, HostDir, Layer, Overlay,
    Refreshed, Source, VPath, beneath,
};
use crate::net::EgressPolicy;
use crate::process::{self, Command};
use crate::results::Results;
use crate::tape::Recorder;

/// Makes the host of a session: its command policy, bridge, answers to questions and credentials.
/// The network policy is that of the specification. The specification may not have an id yet.
pub type MakeHost = Arc<dyn Fn(&SandboxSpec) -> SessionHostBuilder + Send + Sync>;

/// How a caller of [`Sandbox::provision_opening`] opens the directories of mounts.
pub struct Directories<'d> {
    /// Opens the directory of the host that a mount names.
    pub open: &'d dyn Fn(&SandboxMount, &Path) -> io::Result<Directory>,
    /// Records what the session sees of directories of the host, as if they were mounted below this absolute path.
    pub tape: Option<(Recorder, String)>,
}

/// An open directory.
pub enum Directory {
    /// Of the host.
    Host(HostDir),
    /// In its place, a tree that does not change.
    Layer(Arc<dyn Layer>),
}

impl Directories<'static> {
    /// Opens the paths of mounts as they are, and records nothing.
    pub(super) fn by_path() -> Self {
        Self { open: &|_, path| HostDir::open(path).map(Directory::Host), tape: None }
    }
}

/// A sandbox: a session with its own files, clock, random numbers and rules, in which programs run
/// one after the other.
///
/// ```
/// use std::sync::Arc;
/// use belljar::sandbox::{ExecRequest, Sandbox, SandboxSpec};
/// use belljar::{EngineConfig, ToolchainPrograms, Toolchains};
///
/// let programs = ToolchainPrograms::with_engine_config(EngineConfig::default(), Toolchains::default())
///     .with("sh", belljar::process::ShellImage::maker());
/// let mut sandbox = Sandbox::provision(Arc::new(programs), SandboxSpec::default())?;
/// sandbox.exec(&ExecRequest::shell("echo one > /tmp/note"))?;
///
/// let mut fork = sandbox.fork()?;
/// fork.exec(&ExecRequest::shell("echo two >> /tmp/note"))?;
/// assert_eq!(fork.exec(&ExecRequest::new("cat", ["/tmp/note"]))?.stdout, b"one\ntwo\n");
/// assert_eq!(sandbox.exec(&ExecRequest::new("cat", ["/tmp/note"]))?.stdout, b"one\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Sandbox {
    machine: Machine,
    host: HostHandle,
    make_host: MakeHost,
    /// What was read of host directories.
    contents: Arc<Contents>,
    pub(super) spec: SandboxSpec,
}

/// Since when a session shows the state of host directories.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Beginning {
    /// Since now; waits until the disk's clock has moved on.
    Now,
    /// As the restored state says.
    Earlier,
}

impl Sandbox {
    /// Makes a session with these programs. The id of `spec` is not used.
    ///
    /// # Errors
    /// [`SandboxError`]: `InvalidRequest` for an invalid mount or variable; `Io` for a host
    /// directory that cannot be opened.
    pub fn provision(programs: Arc<dyn Programs>, spec: SandboxSpec) -> Result<Self, SandboxError> {
        Self::provision_with(programs, spec, Arc::new(|_| SessionHost::builder()))
    }

    /// Like [`Sandbox::provision`], with a host that `make_host` makes for this session and each
    /// fork.
    ///
    /// # Errors
    /// As [`Sandbox::provision`].
    pub fn provision_with(
        programs: Arc<dyn Programs>,
        spec: SandboxSpec,
        make_host: MakeHost,
    ) -> Result<Self, SandboxError> {
        Self::provision_opening(programs, spec, make_host, &Directories::by_path())
    }

    /// Like [`Sandbox::provision_with`], with host directories that `directories` opens: for a caller that resolves their
    /// paths beneath directories of its own.
    ///
    /// # Errors
    /// As [`Sandbox::provision`].
    pub fn provision_opening(
        programs: Arc<dyn Programs>,
        spec: SandboxSpec,
        make_host: MakeHost,
        directories: &Directories<'_>,
    ) -> Result<Self, SandboxError> {
        let contents = Arc::new(Contents::default());
        Self::provision_from(programs, spec, make_host, &contents, Beginning::Now, directories)
    }

    /// Like [`Sandbox::provision_with`]; contents of host directories are kept in `contents`.
    pub(super) fn provision_from(
        programs: Arc<dyn Programs>,
        mut spec: SandboxSpec,
        make_host: MakeHost,
        contents: &Arc<Contents>,
        beginning: Beginning,
        directories: &Directories<'_>,
    ) -> Result<Self, SandboxError> {
        check_env(&spec.env)?;
        spec.mounts = effective_mounts(&["/tmp", MEMORY_DIR, OUTPUTS_DIR], spec.mounts)?;
        let mut builder = Machine::builder()
            .clock(spec.clock)
            .mtimes(spec.mtimes)
            .seed(spec.seed)
            .limits(spec.limits)
            .programs(programs);
        if beginning == Beginning::Earlier {
            builder = builder.awaiting_restore();
        }
        if let Some((recorder, at)) = &directories.tape {
            builder = builder.directories_tape(recorder.clone(), at.clone());
        }
        let host = host_of(&make_host, &spec);
        let handle = host.handle();
        builder = builder.host(host);
        for mount in &spec.mounts {
            builder = with_mount(builder, mount, contents, beginning, directories)?;
        }
        let machine = builder.build().map_err(|error| match error {
            MachineError::Mount { path, errno } => {
                SandboxError::invalid("mounts", format_args!("cannot mount at {path}: {errno}"))
            }
            error @ (MachineError::Layers { .. } | MachineError::Ambiguous { .. }) => {
                SandboxError::invalid("mounts", error)
            }
        })?;
        Ok(Self { machine, host: handle, make_host, contents: contents.clone(), spec })
    }

    /// Makes an independent session with this state, which both share until one changes it. Takes
    /// microseconds, whatever the size.
    ///
    /// # Errors
    /// None, as sandboxes are not recorded.
    pub fn fork(&self) -> Result<Self, SandboxError> {
        let machine = self.machine.fork();
        let mut machine = machine.map_err(|error| SandboxError::Unsupported {
            backend: super::WASI.to_owned(),
            operation: format!("a fork: {error}"),
        })?;
        let (spec, make_host) = (self.spec.clone(), self.make_host.clone());
        let host = host_of(&make_host, &spec);
        let handle = host.handle();
        machine.set_host(host);
        Ok(Self { machine, host: handle, make_host, contents: self.contents.clone(), spec })
    }

    /// Replaces the host by one that `make_host` makes, for this session and its forks.
    pub fn set_host(&mut self, make_host: MakeHost) {
        let host = host_of(&make_host, &self.spec);
        self.host = host.handle();
        self.machine.set_host(host);
        self.make_host = make_host;
    }

    /// The host, to add mocks or set a bridge. A fork has a host of its own.
    pub fn host(&self) -> &HostHandle {
        &self.host
    }

    /// Makes the host call `name`, such as `net.http`, as a program of the session would.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn host_call(&mut self, name: &str, params: &Value) -> Result<Value, HostError> {
        self.host.call(&mut self.machine, name, params)
    }

    /// The mounts, in order.
    pub fn mounts(&self) -> &[SandboxMount] {
        &self.spec.mounts
    }

    /// Where its programs start, and its relative paths begin, by default: the worktree, or else the root.
    pub fn start_dir(&self) -> &'static str {
        let has_worktree = self.spec.mounts.iter().any(|mount| mount.target == WORKTREE);
        if has_worktree { WORKTREE } else { "/" }
    }

    /// `path` from the root; a relative one begins in [`Sandbox::start_dir`].
    pub fn absolute(&self, path: &str) -> String {
        match self.start_dir() {
            _ if path.starts_with('/') => path.to_owned(),
            start => format!("{}/{path}", start.trim_end_matches('/')),
        }
    }

    /// The data of the caller.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.spec.metadata
    }

    /// The network policy.
    pub fn network_policy(&self) -> &EgressPolicy {
        &self.spec.network_policy
    }

    /// Sets the network policy.
    pub fn apply_network_policy(&mut self, policy: EgressPolicy) {
        #[cfg(feature = "http")]
        self.host.set_network_policy(policy.clone());
        self.spec.network_policy = policy;
    }

    /// Adds a mount.
    ///
    /// # Errors
    /// [`SandboxError`]: `Lifecycle` if the target is a mount point; `InvalidRequest`; `Io`.
    pub fn attach_filesystem(&mut self, mount: SandboxMount) -> Result<(), SandboxError> {
        let target = target_of(&mount)?;
        let mount = SandboxMount { target, ..mount };
        let is_taken = self.machine.vfs().mounts().iter().any(|known| known.path() == mount.target);
        if is_taken {
            let id = &self.spec.session_id;
            let message = format_args!("a mount already exists at {}", mount.target);
            return Err(SandboxError::lifecycle(id, message));
        }
        let source = source_of(&mount, &self.contents, Beginning::Now, &Directories::by_path())?;
        let now = self.machine.now_ns();
        let read_only = mount.access == FilesystemAccess::ReadOnly;
        let mtimes = self.spec.mtimes;
        let mounted = self.machine.vfs_mut().mount(&mount.target, source, read_only, mtimes, now);
        mounted.map_err(|errno| {
            SandboxError::invalid(
                "mounts",
                format_args!("cannot mount at {}: {errno}", mount.target),
            )
        })?;
        self.spec.mounts.push(mount);
        Ok(())
    }

    /// Runs a program to its end and captures its output. A program that fails is no error.
    ///
    /// # Errors
    /// [`SandboxError`]: `InvalidRequest`; `Exec` if it cannot be started.
    pub fn exec(&mut self, request: &ExecRequest) -> Result<ExecResult, SandboxError> {
        let capture = || OutputStream::Capture(Vec::new());
        let stdin = Input::Bytes(std::io::Cursor::new(request.stdin.clone()));
        self.exec_on(request, Stdio { stdin, stdout: capture(), stderr: capture() })
    }

    /// Like [`Sandbox::exec`], on these streams; [`ExecRequest::stdin`] is ignored. The result has
    /// what they capture.
    ///
    /// # Errors
    /// As [`Sandbox::exec`].
    pub fn exec_on(
        &mut self,
        request: &ExecRequest,
        stdio: Stdio,
    ) -> Result<ExecResult, SandboxError> {
        let output = self.output_on(request, stdio)?;
        let outcome = output.status.outcome();
        Ok(ExecResult {
            stdout: output.stdout,
            stderr: output.stderr,
            exit_code: outcome.code().cast_signed(),
            timed_out: outcome.is_of_time(),
            message: message_of(outcome, output.status.trapped()),
        })
    }

    /// Like [`Sandbox::exec_on`], with all details of how the program ended.
    ///
    /// # Errors
    /// As [`Sandbox::exec`].
    pub fn output_on(
        &mut self,
        request: &ExecRequest,
        stdio: Stdio,
    ) -> Result<process::Output, SandboxError> {
        let command = self.command(request)?;
        self.machine.vfs_mut().note_run();
        let own = self.limit_time(request);
        let output = command.output_on(&mut self.machine, stdio);
        self.machine.limits = own;
        output.map_err(|error| {
            let (message, is_found) = match &error {
                RunError::Spawn(error) => (error.reason.clone(), error.errno != Errno::Noent),
                error => (error.to_string(), true),
            };
            SandboxError::Exec { command: request.command.clone(), message, is_found }
        })
    }

    fn command(&mut self, request: &ExecRequest) -> Result<Command, SandboxError> {
        request.check()?;
        let mut command = Command::named(&request.command);
        command.args(&request.args);
        let own = [(MEMORY_DIR_VARIABLE, MEMORY_DIR), (OUTPUTS_DIR_VARIABLE, OUTPUTS_DIR)];
        for (key, value) in own {
            command.env(key, value);
        }
        for (key, value) in self.spec.env.iter().chain(&request.env) {
            command.env(key, value);
        }
        let cwd = request.cwd.as_deref().unwrap_or("/");
        let vfs = self.machine.vfs_mut();
        let cwd = vfs.without_parents(vfs.root(), cwd).and_then(|path| VPath::parse(&path)).ok();
        let cwd = cwd.map(|path| path.absolute("/"));
        let cwd = cwd.filter(|path| vfs.open_dir(path).map(|node| vfs.close(node)).is_ok());
        let Some(cwd) = cwd else {
            let cwd = request.cwd.as_deref().unwrap_or("/");
            return Err(SandboxError::invalid("cwd", format_args!("{cwd} is not a directory")));
        };
        command.current_dir(cwd);
        Ok(command)
    }

    /// Sets the timeouts of the next run: the tighter of those of `request` and of the session.
    /// Returns the session's limits.
    fn limit_time(&mut self, request: &ExecRequest) -> Limits {
        let own = self.machine.limits;
        let elapsed = self.machine.elapsed();
        let shorter = |own: Option<Duration>, asked| own.into_iter().chain(asked).min();
        let limits = &mut self.machine.limits;
        limits.timeout = shorter(own.timeout, request.timeout);
        // A machine counts from the start of the session.
        let virtual_timeout = request.virtual_timeout.or(request.timeout);
        limits.virtual_timeout = shorter(own.virtual_timeout, virtual_timeout)
            .map(|timeout| elapsed.saturating_add(timeout));
        own
    }

    /// The files, to read or change between execs.
    pub fn files(&mut self) -> &mut Overlay {
        self.machine.vfs_mut()
    }

    /// The changes by programs in all mounts, compared with the host directories when the session
    /// began, was refreshed, or applied.
    ///
    /// # Errors
    /// As [`Overlay::diff`]: `EIO` for a file that changed on the disk before it was read;
    /// [`Sandbox::drifts`] lists it.
    pub fn diff(&mut self) -> Result<Vec<DiffEntry>, DiffError> {
        self.machine.vfs_mut().diff()
    }

    /// What could not be shown as it was when the session began, because it changed on the disk
    /// before it was read. Programs get `EIO` for it, or `ENOENT` if it was removed.
    /// [`Sandbox::refresh`] takes in the new state.
    pub fn drifts(&self) -> Vec<Drift> {
        self.machine.vfs().drifts()
    }

    /// Takes in the current state of host directories. Changes of programs are kept, with the state
    /// that they are compared with; a path that changed on both sides is a conflict.
    ///
    /// # Errors
    /// As [`Overlay::refresh`]; then nothing is taken in.
    pub fn refresh(&mut self) -> Result<Refreshed, DiffError> {
        self.machine.vfs_mut().refresh()
    }

    /// Discards changes of programs in host directories, and takes in their current state.
    ///
    /// # Errors
    /// As [`Overlay::discard_and_refresh`].
    pub fn discard_and_refresh(&mut self) -> Result<(), Errno> {
        let now = self.machine.now_ns();
        self.machine.vfs_mut().discard_and_refresh(now)
    }

    /// Applies changes of programs to the host directories, all or nothing, unless these changed as
    /// well. Later changes are compared with the new state. For a journal, call
    /// [`Overlay::apply_journaled`] on [`Sandbox::files`].
    ///
    /// # Errors
    /// As [`Overlay::apply`].
    pub fn apply(&mut self) -> Result<Applied, ApplyError> {
        self.machine.vfs_mut().apply()
    }

    /// The time of its clock, in nanoseconds since the Unix epoch, for what is written to [`Sandbox::files`].
    pub fn now_ns(&mut self) -> u64 {
        self.machine.now_ns()
    }

    /// The time since the start of the session on its own clock.
    pub fn elapsed(&mut self) -> Duration {
        self.machine.elapsed()
    }

    /// As [`Machine::set_results`].
    pub fn set_results(&mut self, results: Option<Arc<Results>>) {
        self.machine.set_results(results);
    }

    /// Sets what ends its programs from another thread. A fork has none.
    pub fn set_interrupter(&mut self, interrupter: Option<Interrupter>) {
        self.machine.set_interrupter(interrupter);
    }

    /// The machine, for reading.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    pub(super) fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }
}

/// `mounts`, with the `always` mounts in memory where no mount hides them; the last one of each
/// target.
pub(super) fn effective_mounts(
    always: &[&str],
    mounts: Vec<SandboxMount>,
) -> Result<Vec<SandboxMount>, SandboxError> {
    let mut effective: Vec<SandboxMount> = Vec::new();
    for mount in mounts {
        let target = target_of(&mount)?;
        effective.retain(|known| known.target != target);
        effective.push(SandboxMount { target, ..mount });
    }
    for target in always.iter().rev() {
        let hides = |known: &SandboxMount| beneath(&known.target, target).is_some();
        let last = effective.iter().rposition(hides);
        if last.is_some_and(|last| effective[last].target == *target) {
            continue;
        }
        let mount = SandboxMount {
            target: (*target).to_owned(),
            source: MountSource::Memory,
            access: FilesystemAccess::ReadWrite,
        };
        effective.insert(last.map_or(0, |last| last + 1), mount);
    }
    Ok(effective)
}

pub(super) fn target_of(mount: &SandboxMount) -> Result<String, SandboxError> {
    let path = VPath::parse(&mount.target).ok().filter(|_| mount.target.starts_with('/'));
    path.map(|path| path.absolute("/")).ok_or_else(|| {
        let target = &mount.target;
        SandboxError::invalid("mounts", format_args!("{target:?} is not an absolute path"))
    })
}

/// A host with the network policy of `spec`.
fn host_of(make_host: &MakeHost, spec: &SandboxSpec) -> SessionHost {
    let host = make_host(spec);
    #[cfg(feature = "http")]
    let host = host.network_policy(spec.network_policy.clone());
    host.build()
}

fn source_of(
    mount: &SandboxMount,
    contents: &Arc<Contents>,
    beginning: Beginning,
    directories: &Directories<'_>,
) -> Result<Source, SandboxError> {
    Ok(match &mount.source {
        MountSource::Memory => Source::Memory,
        MountSource::Host(path) => {
            let dir = (directories.open)(mount, path).map_err(|source| SandboxError::Io {
                what: format!("cannot open the directory {} to mount it", path.display()),
                source,
            })?;
            let dir = match dir {
                Directory::Host(dir) => dir,
                Directory::Layer(layer) => return Ok(Source::Layers(vec![layer])),
            };
            let (dir, contents) = (Arc::new(dir), Some(contents.clone()));
            Source::Baseline(Arc::new(match beginning {
                Beginning::Now => Baseline::begin(dir, contents, true),
                Beginning::Earlier => Baseline::to_restore(dir, contents),
            }))
        }
    })
}

fn with_mount(
    builder: MachineBuilder,
    mount: &SandboxMount,
    contents: &Arc<Contents>,
    beginning: Beginning,
    directories: &Directories<'_>,
) -> Result<MachineBuilder, SandboxError> {
    let source = source_of(mount, contents, beginning, directories)?;
    Ok(match mount.access {
        FilesystemAccess::ReadOnly => builder.mount_read_only(&mount.target, source),
        FilesystemAccess::ReadWrite => builder.mount(&mount.target, source),
    })
}

fn message_of(outcome: &Outcome, trapped: &[TrappedProcess]) -> Option<String> {
    let trapped = || {
        let TrappedProcess { pid, name, trap } = trapped.first()?;
        Some(format!("process {} ({name}) trapped: {}", pid.0, trap.message))
    };
    match outcome {
        Outcome::Exited(_) => trapped(),
        Outcome::Trapped(trap) => Some(trap.message.clone()),
        Outcome::Deadlock(waits) => Some(waits.clone()),
        Outcome::Limit(limit) => Some(format!("limit reached: {}", limit.name())),
        Outcome::Signalled(signal) => Some(format!("killed by signal {}", signal.number())),
        Outcome::Tape => None,
    }
}
