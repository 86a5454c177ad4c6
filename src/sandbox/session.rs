//! A session of our own kind: a machine, and what it is started with.

use std::collections::BTreeMap;
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
use crate::kernel::machine::{Machine, MachineBuilder, MachineError};
use crate::kernel::process::Casualty;
use crate::kernel::process::outcome::{Outcome, RunError};
use crate::kernel::process::programs::Programs;
use crate::kernel::vfs::{
    Applied, ApplyError, Baseline, Contents, DiffEntry, DiffError, Drift, HostDir, Overlay,
    Refreshed, Source, VPath, beneath,
};
use crate::net::EgressPolicy;
use crate::process::{self, Command};

/// Makes the host of a session that is made as the spec says: its command policy, its bridge, who
/// answers questions, what credentials are added to requests. Whom programs may reach is what the
/// spec's network policy says. The id may yet have to be given.
pub type MakeHost = Arc<dyn Fn(&SandboxSpec) -> SessionHostBuilder + Send + Sync>;

/// A sandbox: files, a clock, chance and rules of its own, in which programs run one after the
/// other, until it is dropped.
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
    /// What was read of folders of the host.
    contents: Arc<Contents>,
    pub(super) spec: SandboxSpec,
}

/// When the state began that a session shows of folders of the host.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Beginning {
    /// Now: it waits until the disk's clock has moved on.
    Now,
    /// What is restored says so.
    Earlier,
}

impl Sandbox {
    /// A session as `spec` says, whose programs are `programs`. The id is not used.
    ///
    /// # Errors
    /// [`SandboxError`]: `InvalidRequest` for a mount or a variable; `Io` for a folder of the host.
    pub fn provision(programs: Arc<dyn Programs>, spec: SandboxSpec) -> Result<Self, SandboxError> {
        Self::provision_with(programs, spec, Arc::new(|_| SessionHost::builder()))
    }

    /// As [`Sandbox::provision`], with a host that `make_host` makes, for this session and for each of
    /// its forks.
    ///
    /// # Errors
    /// As [`Sandbox::provision`].
    pub fn provision_with(
        programs: Arc<dyn Programs>,
        spec: SandboxSpec,
        make_host: MakeHost,
    ) -> Result<Self, SandboxError> {
        let contents = Arc::new(Contents::default());
        Self::provision_from(programs, spec, make_host, &contents, Beginning::Now)
    }

    /// As [`Sandbox::provision_with`], with what is read of folders of the host in `contents`.
    pub(super) fn provision_from(
        programs: Arc<dyn Programs>,
        mut spec: SandboxSpec,
        make_host: MakeHost,
        contents: &Arc<Contents>,
        beginning: Beginning,
    ) -> Result<Self, SandboxError> {
        check_env(&spec.env)?;
        spec.mounts = effective_mounts(&["/tmp", MEMORY_DIR, OUTPUTS_DIR], spec.mounts)?;
        let mut builder = Machine::builder()
            .clock(spec.clock)
            .mtimes(spec.mtimes)
            .seed(spec.seed)
            .limits(spec.limits)
            .programs(programs);
        let host = host_of(&make_host, &spec);
        let handle = host.handle();
        builder = builder.host(host);
        for mount in &spec.mounts {
            builder = with_mount(builder, mount, contents, beginning)?;
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

    /// A session that goes on from here by itself. It shares what it has with this one until one of
    /// the two changes it: however much there is, that takes microseconds.
    ///
    /// # Errors
    /// None as long as sandboxes are not recorded.
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

    /// Gives it a host that `make_host` makes, in place of the one that it has; so have its forks.
    pub fn set_host(&mut self, make_host: MakeHost) {
        let host = host_of(&make_host, &self.spec);
        self.host = host.handle();
        self.machine.set_host(host);
        self.make_host = make_host;
    }

    /// Whom its programs can ask by name: for mocks, and for another bridge. A fork has one of its
    /// own, made anew.
    pub fn host(&self) -> &HostHandle {
        &self.host
    }

    /// Asks the host for `name`, such as `net.http`, as a program of the session would.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn host_call(&mut self, name: &str, params: &Value) -> Result<Value, HostError> {
        self.host.call(&mut self.machine, name, params)
    }

    /// What is mounted, in the order of mounting.
    pub fn mounts(&self) -> &[SandboxMount] {
        &self.spec.mounts
    }

    /// What whoever made it wants to remember.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.spec.metadata
    }

    /// Whom it may reach.
    pub fn network_policy(&self) -> &EgressPolicy {
        &self.spec.network_policy
    }

    /// Sets whom it may reach from now on.
    pub fn apply_network_policy(&mut self, policy: EgressPolicy) {
        #[cfg(feature = "http")]
        self.host.set_network_policy(policy.clone());
        self.spec.network_policy = policy;
    }

    /// Mounts one more tree.
    ///
    /// # Errors
    /// [`SandboxError`]: `Lifecycle` if something is mounted at the target; `InvalidRequest`; `Io`.
    pub fn attach_filesystem(&mut self, mount: SandboxMount) -> Result<(), SandboxError> {
        let target = target_of(&mount)?;
        let mount = SandboxMount { target, ..mount };
        let is_taken = self.machine.vfs().mounts().iter().any(|known| known.path() == mount.target);
        if is_taken {
            let id = &self.spec.session_id;
            let message = format_args!("something is mounted at {} already", mount.target);
            return Err(SandboxError::lifecycle(id, message));
        }
        let source = source_of(&mount, &self.contents, Beginning::Now)?;
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

    /// Runs a program to its end and collects what it writes. One that fails is no error.
    ///
    /// # Errors
    /// [`SandboxError`]: `InvalidRequest`; `Exec` if it cannot be started.
    pub fn exec(&mut self, request: &ExecRequest) -> Result<ExecResult, SandboxError> {
        let capture = || OutputStream::Capture(Vec::new());
        let stdin = Input::Bytes(std::io::Cursor::new(request.stdin.clone()));
        self.exec_on(request, Stdio { stdin, stdout: capture(), stderr: capture() })
    }

    /// As [`Sandbox::exec`], on these streams, [`ExecRequest::stdin`] aside. What they capture is in
    /// the result.
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
            message: message_of(outcome, output.status.casualties()),
        })
    }

    /// As [`Sandbox::exec_on`], with all that is known of how the program ended.
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
        let cwd = VPath::parse(cwd).ok().map(|path| path.absolute("/"));
        let cwd = cwd.filter(|path| {
            let vfs = self.machine.vfs_mut();
            vfs.open_dir(path).map(|node| vfs.close(node)).is_ok()
        });
        let Some(cwd) = cwd else {
            let cwd = request.cwd.as_deref().unwrap_or("/");
            return Err(SandboxError::invalid("cwd", format_args!("{cwd} is no directory here")));
        };
        command.current_dir(cwd);
        Ok(command)
    }

    /// Lets the next run take no longer than `request` says, and than the session's own limits say;
    /// answers these.
    fn limit_time(&mut self, request: &ExecRequest) -> Limits {
        let own = self.machine.limits;
        let elapsed = self.machine.elapsed();
        let shorter = |own: Option<Duration>, asked| own.into_iter().chain(asked).min();
        let limits = &mut self.machine.limits;
        limits.timeout = shorter(own.timeout, request.timeout);
        // A machine counts from its start, which is the session's.
        let virtual_timeout = request.virtual_timeout.or(request.timeout);
        limits.virtual_timeout = shorter(own.virtual_timeout, virtual_timeout)
            .map(|timeout| elapsed.saturating_add(timeout));
        own
    }

    /// The files, to look into or to change between execs.
    pub fn files(&mut self) -> &mut Overlay {
        self.machine.vfs_mut()
    }

    /// What its programs have changed in all mounts, compared with what folders of the host held when the
    /// session began, was refreshed, or wrote to them.
    ///
    /// # Errors
    /// As [`Overlay::diff`]: `EIO` for a file that was changed on the disk before it was read, in which case
    /// [`Sandbox::drifts`] has it.
    pub fn diff(&mut self) -> Result<Vec<DiffEntry>, DiffError> {
        self.machine.vfs_mut().diff()
    }

    /// What of the folders of the host could not be shown as it was when the session began, because it was
    /// changed before it was looked at. Programs have met `EIO` there, or, where nothing stands any more,
    /// `ENOENT`. [`Sandbox::refresh`] takes in what is there now.
    pub fn drifts(&self) -> Vec<Drift> {
        self.machine.vfs().drifts()
    }

    /// Takes in what the folders of the host hold now. What programs have changed stays, and so does what
    /// it is compared with; what the disk has changed as well is a conflict.
    ///
    /// # Errors
    /// As [`Overlay::refresh`]; nothing is taken in then.
    pub fn refresh(&mut self) -> Result<Refreshed, DiffError> {
        self.machine.vfs_mut().refresh()
    }

    /// Gives up what programs have changed in folders of the host, and takes in what these hold now.
    ///
    /// # Errors
    /// As [`Overlay::discard_and_refresh`].
    pub fn discard_and_refresh(&mut self) -> Result<(), Errno> {
        let now = self.machine.now_ns();
        self.machine.vfs_mut().discard_and_refresh(now)
    }

    /// Writes what programs have changed to the folders of the host, all or nothing, unless these were
    /// changed as well. From then on changes are compared with what was written. With journals, see
    /// [`Overlay::apply_journaled`], which [`Sandbox::files`] has.
    ///
    /// # Errors
    /// As [`Overlay::apply`].
    pub fn apply(&mut self) -> Result<Applied, ApplyError> {
        self.machine.vfs_mut().apply()
    }

    /// How long the session has lasted on its own clock.
    pub fn elapsed(&mut self) -> Duration {
        self.machine.elapsed()
    }

    /// The machine, to look at.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    pub(super) fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }
}

/// `mounts` and those in memory that there `always` are, where nothing hides them; of several with
/// one target the last.
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
        SandboxError::invalid("mounts", format_args!("{target:?} is no absolute path"))
    })
}

/// A host that reaches whom `spec` lets it.
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
) -> Result<Source, SandboxError> {
    Ok(match &mount.source {
        MountSource::Memory => Source::Memory,
        MountSource::Host(path) => {
            let dir = HostDir::open(path).map_err(|source| SandboxError::Io {
                what: format!("cannot open the folder {} to mount it", path.display()),
                source,
            })?;
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
) -> Result<MachineBuilder, SandboxError> {
    let source = source_of(mount, contents, beginning)?;
    Ok(match mount.access {
        FilesystemAccess::ReadOnly => builder.mount_read_only(&mount.target, source),
        FilesystemAccess::ReadWrite => builder.mount(&mount.target, source),
    })
}

fn message_of(outcome: &Outcome, casualties: &[Casualty]) -> Option<String> {
    let trapped = || {
        let Casualty { pid, name, trap } = casualties.first()?;
        Some(format!("process {} ({name}) trapped: {}", pid.0, trap.message))
    };
    match outcome {
        Outcome::Exited(_) => trapped(),
        Outcome::Trapped(trap) => Some(trap.message.clone()),
        Outcome::Deadlock(waits) => Some(waits.clone()),
        Outcome::Limit(limit) => Some(format!("it reached the limit {}", limit.name())),
        Outcome::Signalled(signal) => Some(format!("signal {} ended it", signal.number())),
        Outcome::Tape => None,
    }
}
