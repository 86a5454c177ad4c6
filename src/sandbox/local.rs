//! The backend of native programs, confined by the system.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::LOCAL;
use super::backend::{
    ExecRequest, ExecResult, FilesystemAccess, MEMORY_DIR, MEMORY_DIR_VARIABLE, MountSource,
    OUTPUTS_DIR, OUTPUTS_DIR_VARIABLE, SandboxBackend, SandboxCapabilities, SandboxError,
    SandboxFuture, SandboxMount, SandboxSession, SandboxSpec, SessionState, check_env,
    check_session_id,
};
use super::registry::Registry;
use super::session::{effective_mounts, target_of};
use crate::base::{ambient, disk};
use crate::kernel::io::stdio::OutputStream;
use crate::kernel::machine::Machine;
use crate::kernel::machine::limits::Limits;
use crate::kernel::vfs::{VPath, beneath};
use crate::native::{
    ChildOutput, SandboxProfile, SubprocessConfig, SubprocessError, SubprocessRequest,
    SubprocessStatus, Subprocesses,
};
use crate::net::EgressPolicy;

/// Bytes of output passed on at once.
const PIECE_BYTES: usize = 64 << 10;

/// Sessions of native programs. These see the host's paths and clock, as far as their profile
/// allows. `docs/profiles.md` says what each profile stops.
///
/// A session without network is confined by [`SandboxProfile::OsHardened`]; one with the policy
/// [`LocalBackend::everybody`] by [`SandboxProfile::Worktree`], under which programs can also read
/// everything. Other policies are refused. Programs change directories mounted for writing on the
/// disk. [`MEMORY_DIR`], [`OUTPUTS_DIR`] and mounts of [`MountSource::Memory`] are directories of
/// the session, removed with it; the first two are named by `BELLJAR_MEMORY_DIR` and
/// `BELLJAR_OUTPUTS_DIR`.
///
/// Targets of mounts are names for [`ExecRequest::cwd`] only. Of the limits, only the timeout and the
/// output limit can be set. Clock and random numbers are the host's.
#[derive(Default)]
pub struct LocalBackend {
    sessions: Registry<Local>,
}

struct Local {
    id: String,
    mounts: Vec<Mounted>,
    policy: EgressPolicy,
    limits: Limits,
    env: Vec<(String, String)>,
    subprocesses: Subprocesses,
    /// Counts and times the calls; nothing runs in it.
    machine: Machine,
    folder: tempfile::TempDir,
}

/// A mount and its directory on the host.
#[derive(Clone)]
struct Mounted {
    mount: SandboxMount,
    host: PathBuf,
}

impl LocalBackend {
    /// A backend without sessions.
    pub fn new() -> Self {
        Self::default()
    }

    /// The policy of a session with the network access of this process.
    /// [`EgressPolicy::allow_by_default`] differs: it denies addresses of this machine and its
    /// networks, which no profile can do.
    ///
    /// # Panics
    /// Never: the rules are valid.
    pub fn everybody() -> EgressPolicy {
        let network = |text: &str| text.parse().expect("the network is valid");
        EgressPolicy::allow_by_default().allow(network("0.0.0.0/0")).allow(network("::/0"))
    }

    /// The ids of all live sessions, sorted.
    pub fn session_ids(&self) -> Vec<String> {
        self.sessions.ids()
    }
}

fn unsupported(operation: impl Into<String>) -> SandboxError {
    SandboxError::Unsupported { backend: LOCAL.to_owned(), operation: operation.into() }
}

fn profile_of(policy: &EgressPolicy) -> Result<SandboxProfile, SandboxError> {
    if *policy == EgressPolicy::default() {
        Ok(SandboxProfile::OsHardened)
    } else if *policy == LocalBackend::everybody() {
        Ok(SandboxProfile::Worktree)
    } else {
        Err(unsupported(
            "a network policy that selects hosts; use no network (EgressPolicy::default), all of it \
             (LocalBackend::everybody), or the backend wasi",
        ))
    }
}

fn check_limits(limits: &Limits) -> Result<(), SandboxError> {
    let default = Limits::default();
    let others =
        Limits { timeout: default.timeout, output_bytes_max: default.output_bytes_max, ..*limits };
    if others == default {
        return Ok(());
    }
    Err(unsupported("limits other than timeout and output_bytes_max; keep their defaults"))
}

impl Local {
    fn provision(spec: SandboxSpec) -> Result<Self, SandboxError> {
        check_env(&spec.env)?;
        check_limits(&spec.limits)?;
        let folder = tempfile::Builder::new().prefix("belljar-").tempdir();
        let folder = folder.map_err(|source| SandboxError::Io {
            what: "cannot create a directory for the session".to_owned(),
            source,
        })?;
        let mut mounts = Vec::new();
        for mount in effective_mounts(&[MEMORY_DIR, OUTPUTS_DIR], spec.mounts)? {
            // A hidden mount has no name.
            mounts.retain(|known: &Mounted| beneath(&mount.target, &known.mount.target).is_none());
            let mounted = mounted(mount, mounts.len(), folder.path())?;
            check_apart(&mounted, &mounts, folder.path())?;
            mounts.push(mounted);
        }
        let machine = Machine::builder().tmp(false).build().map_err(|error| SandboxError::Io {
            what: "cannot create a session".to_owned(),
            source: std::io::Error::other(error),
        })?;
        let subprocesses = confined(&spec.network_policy, &mounts)?;
        Ok(Self {
            id: spec.session_id,
            mounts,
            policy: spec.network_policy,
            limits: spec.limits,
            env: spec.env.into_iter().collect(),
            subprocesses,
            machine,
            folder,
        })
    }

    fn attach(&mut self, mount: SandboxMount) -> Result<(), SandboxError> {
        let target = target_of(&mount)?;
        if self.mounts.iter().any(|known| beneath(&target, &known.mount.target).is_some()) {
            let message = format_args!("a mount already exists at {target} or beneath it");
            return Err(SandboxError::lifecycle(&self.id, message));
        }
        let mount = SandboxMount { target, ..mount };
        let mounted = mounted(mount, self.mounts.len(), self.folder.path())?;
        check_apart(&mounted, &self.mounts, self.folder.path())?;
        let mut mounts = self.mounts.clone();
        mounts.push(mounted);
        self.subprocesses = confined(&self.policy, &mounts)?;
        self.mounts = mounts;
        Ok(())
    }

    fn apply_network_policy(&mut self, policy: EgressPolicy) -> Result<(), SandboxError> {
        self.subprocesses = confined(&policy, &self.mounts)?;
        self.policy = policy;
        Ok(())
    }

    fn exec(
        &mut self,
        request: &ExecRequest,
        stdout: OutputStream,
        stderr: OutputStream,
    ) -> Result<ExecResult, SandboxError> {
        let asked = self.asked(request)?;
        let exec_error = |error: &SubprocessError, is_found| SandboxError::Exec {
            command: request.command.clone(),
            message: chain(error),
            is_found,
        };
        let mut child = match self.subprocesses.spawn(&asked, &mut self.machine) {
            Ok(child) => child,
            Err(SubprocessError::CurrentDir { dir, why, .. }) => {
                let message = format_args!("{}: {why}", dir.display());
                return Err(SandboxError::invalid("cwd", message));
            }
            Err(error) => {
                let is_found = !matches!(error, SubprocessError::NotFound { .. });
                return Err(exec_error(&error, is_found));
            }
        };
        let (from_stdout, from_stderr) = (child.stdout.take(), child.stderr.take());
        // Output of a program that exceeds its limit is passed on, too.
        let (status, stdout, stderr) = std::thread::scope(|scope| {
            let stdout = scope.spawn(|| passed_on(from_stdout, stdout));
            let stderr = scope.spawn(|| passed_on(from_stderr, stderr));
            let status = self.subprocesses.wait(&mut child, &mut self.machine);
            (status, stdout.join(), stderr.join())
        });
        // If the caller's writer panics, nothing is captured.
        let (stdout, stderr) = (stdout.unwrap_or_default(), stderr.unwrap_or_default());
        let timed_out = status.as_ref().is_ok_and(SubprocessStatus::timed_out);
        let of_limit = |name: &str| Some(format!("limit reached: {name}"));
        let (exit_code, message) = match status {
            Ok(SubprocessStatus::Exited(code)) => (code, None),
            Ok(SubprocessStatus::Signalled(signal)) => {
                (128 + signal, Some(format!("killed by signal {signal}")))
            }
            Ok(SubprocessStatus::Stopped(_)) => (124, of_limit("timeout")),
            Err(SubprocessError::OutputLimit { .. }) => (134, of_limit("output")),
            Err(error) => return Err(exec_error(&error, true)),
        };
        Ok(ExecResult { stdout, stderr, exit_code, timed_out, message })
    }

    fn asked(&self, request: &ExecRequest) -> Result<SubprocessRequest, SandboxError> {
        request.check()?;
        let mut asked = SubprocessRequest::new(&request.command);
        asked.args(&request.args).env_clear().stdin(request.stdin.clone());
        if let Some(path) = ambient::env_var("PATH") {
            asked.env("PATH", path);
        }
        for (key, target) in
            [(MEMORY_DIR_VARIABLE, MEMORY_DIR), (OUTPUTS_DIR_VARIABLE, OUTPUTS_DIR)]
        {
            if let Some(dir) = self.host_path(target) {
                asked.env(key, dir);
            }
        }
        asked.envs(self.env.iter().map(|(key, value)| (key, value))).envs(&request.env);
        asked.current_dir(self.current_dir(request.cwd.as_deref())?);
        asked.output_bytes_max(self.limits.output_bytes_max);
        // Virtual time is the host's.
        let timeouts = [self.limits.timeout, request.timeout, request.virtual_timeout];
        let timeout: Option<Duration> = timeouts.into_iter().flatten().min();
        if let Some(timeout) = timeout {
            asked.timeout(timeout);
        }
        Ok(asked)
    }

    /// The current directory of a program. Default: the first requested mount, else
    /// [`OUTPUTS_DIR`].
    fn current_dir(&self, cwd: Option<&str>) -> Result<PathBuf, SandboxError> {
        let Some(cwd) = cwd else {
            let is_own = |mounted: &&Mounted| {
                [MEMORY_DIR, OUTPUTS_DIR].contains(&mounted.mount.target.as_str())
            };
            let first = self.mounts.iter().find(|mounted| !is_own(mounted));
            return Ok(first.map_or_else(
                || self.host_path(OUTPUTS_DIR).unwrap_or_else(|| self.folder.path().to_owned()),
                |mounted| mounted.host.clone(),
            ));
        };
        let path = VPath::parse(cwd).ok().map(|path| path.absolute("/"));
        path.and_then(|path| self.host_path(&path)).ok_or_else(|| {
            let targets: Vec<&str> =
                self.mounts.iter().map(|mounted| &*mounted.mount.target).collect();
            let message = format_args!("{cwd} is not in a mount; mounts: {}", targets.join(", "));
            SandboxError::invalid("cwd", message)
        })
    }

    /// The path on the host of `path`, in the last mount that contains it.
    fn host_path(&self, path: &str) -> Option<PathBuf> {
        let is_in = |mounted: &&Mounted| beneath(&mounted.mount.target, path).is_some();
        let Mounted { mount, host } = self.mounts.iter().rev().find(is_in)?;
        let below = path[mount.target.len()..].trim_start_matches('/');
        Some(if below.is_empty() { host.clone() } else { host.join(below) })
    }
}

/// Passes `stream` on to `output`; returns what is captured. After an error of the writer, output
/// is discarded and the program goes on.
fn passed_on(stream: Option<ChildOutput>, mut output: OutputStream) -> Vec<u8> {
    let (mut piece, mut is_wanted) = (vec![0; PIECE_BYTES], true);
    let Some(mut stream) = stream else { return output.into_captured() };
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        is_wanted = is_wanted && output.write(&piece[..count]).is_ok();
    }
    output.into_captured()
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

/// Opens the directory of `mount`, or creates directory `number` in `folder`.
fn mounted(mount: SandboxMount, number: usize, folder: &Path) -> Result<Mounted, SandboxError> {
    let fail = |error: disk::DiskError| SandboxError::Io {
        what: format!("cannot mount {}: {error}", mount.target),
        source: error.source,
    };
    let host = match &mount.source {
        MountSource::Host(path) => {
            let path = disk::canonical(path).map_err(fail)?;
            if !disk::metadata(&path).map_err(fail)?.is_dir() {
                let message = format_args!("{} is not a directory", path.display());
                return Err(SandboxError::invalid("mounts", message));
            }
            path
        }
        MountSource::Memory => {
            let path = disk::canonical(folder).map_err(fail)?.join(number.to_string());
            disk::create_private_dir_all(&path).map_err(fail)?;
            path
        }
    };
    Ok(Mounted { mount, host })
}

/// Refuses directories of which one contains the other, unless both are read-only: programs could
/// change the read-only one, or replace a directory by a link before it is opened again.
fn check_apart(new: &Mounted, mounts: &[Mounted], own: &Path) -> Result<(), SandboxError> {
    let is_read_only = |mounted: &Mounted| mounted.mount.access == FilesystemAccess::ReadOnly;
    let overlap = |a: &Path, b: &Path| a.starts_with(b) || b.starts_with(a);
    let of_host = new.mount.source != MountSource::Memory;
    let other = mounts
        .iter()
        .find(|known| {
            overlap(&known.host, &new.host) && !(is_read_only(known) && is_read_only(new))
        })
        .map(|known| known.host.as_path())
        .or_else(|| {
            Some(own).filter(|own| of_host && !is_read_only(new) && overlap(own, &new.host))
        });
    match other {
        None => Ok(()),
        Some(other) => Err(unsupported(format!(
            "{} and {}, of which one contains the other; mount both read-only, or only the outer one",
            new.host.display(),
            other.display()
        ))),
    }
}

/// Makes the subprocesses confined to `mounts` with the network access of `policy`.
fn confined(policy: &EgressPolicy, mounts: &[Mounted]) -> Result<Subprocesses, SandboxError> {
    let profile = profile_of(policy)?;
    let with = |access| {
        let is_one = move |mounted: &&Mounted| mounted.mount.access == access;
        mounts.iter().filter(is_one).map(|mounted| &mounted.host)
    };
    let subprocesses = Subprocesses::open(SubprocessConfig::Real, |_, _| Ok(None));
    let confined = subprocesses.and_then(|subprocesses| subprocesses.sandbox_profile(profile));
    let confined = confined.map_err(|error| unsupported(chain(&error)))?;
    Ok(confined
        .sandbox_roots(with(FilesystemAccess::ReadWrite))
        .sandbox_read_only_roots(with(FilesystemAccess::ReadOnly)))
}

impl SandboxBackend for LocalBackend {
    fn name(&self) -> &'static str {
        LOCAL
    }

    fn capabilities(&self) -> SandboxCapabilities {
        SandboxCapabilities {
            local_process_sandbox: true,
            network_policy: false,
            snapshot: false,
            resume: false,
            // Processes that a program leaves behind go on.
            suspend_on_idle: false,
        }
    }

    fn provision(&self, spec: SandboxSpec) -> SandboxFuture<'_, SandboxSession> {
        Box::pin(async move {
            if !spec.session_id.is_empty() {
                check_session_id(&spec.session_id)?;
            }
            let (chosen, metadata) = (spec.session_id.clone(), spec.metadata.clone());
            let mut local = Local::provision(spec)?;
            let mounts = local.mounts.iter().map(|mounted| mounted.mount.clone()).collect();
            let id = self.sessions.admit(&chosen, |id| {
                id.clone_into(&mut local.id);
                local
            })?;
            let (backend, state) = (LOCAL.to_owned(), SessionState::Ready);
            Ok(SandboxSession { id, backend, state, mounts, metadata })
        })
    }

    fn attach_filesystem<'a>(
        &'a self,
        session_id: &'a str,
        mount: SandboxMount,
    ) -> SandboxFuture<'a, ()> {
        Box::pin(async move { self.sessions.with(session_id, |local| local.attach(mount)).await? })
    }

    fn apply_network_policy<'a>(
        &'a self,
        session_id: &'a str,
        policy: EgressPolicy,
    ) -> SandboxFuture<'a, ()> {
        Box::pin(async move {
            self.sessions.with(session_id, |local| local.apply_network_policy(policy)).await?
        })
    }

    fn exec_streaming<'a>(
        &'a self,
        session_id: &'a str,
        request: ExecRequest,
        stdout: OutputStream,
        stderr: OutputStream,
    ) -> SandboxFuture<'a, ExecResult> {
        let run = move |local: &mut Local| local.exec(&request, stdout, stderr);
        Box::pin(self.sessions.with_blocking(session_id, run))
    }

    fn snapshot<'a>(&'a self, session_id: &'a str) -> SandboxFuture<'a, String> {
        Box::pin(async move {
            self.sessions.with(session_id, |_| ()).await?;
            Err(unsupported("snapshots; use the backend wasi"))
        })
    }

    fn resume<'a>(&'a self, _: &'a str) -> SandboxFuture<'a, SandboxSession> {
        Box::pin(async { Err(unsupported("snapshots; use the backend wasi")) })
    }

    fn terminate<'a>(&'a self, session_id: &'a str) -> SandboxFuture<'a, ()> {
        Box::pin(async move {
            let Local { subprocesses, folder, .. } = self.sessions.terminate(session_id).await?;
            drop(subprocesses);
            let path = folder.path().to_owned();
            folder.close().map_err(|source| SandboxError::Io {
                what: format!("cannot remove {} of session {session_id}", path.display()),
                source,
            })
        })
    }
}
