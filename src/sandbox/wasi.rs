//! The backend of modules, with virtual files, clock and random numbers.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::WASI;
use super::backend::{
    ExecRequest, ExecResult, SandboxBackend, SandboxCapabilities, SandboxError, SandboxFuture,
    SandboxMount, SandboxSession, SandboxSpec, SessionState, check_session_id,
};
use super::registry::Registry;
use super::session::{MakeHost, Sandbox};
use super::snapshot::{SnapshotError, SnapshotStore};
use crate::base::digest::Digest;
use crate::host::{HostError, SessionHost, SessionHostBuilder};
use crate::kernel::io::stdio::{Input, OutputStream, Stdio};
use crate::kernel::process::programs::Programs;
use crate::net::EgressPolicy;

/// Sessions in memory. Programs run on blocking threads of tokio; an idle session takes memory
/// only.
///
/// ```
/// use std::sync::Arc;
/// use belljar::sandbox::{ExecRequest, SandboxBackend, SandboxSpec, WasiBackend};
/// use belljar::{EngineConfig, ToolchainPrograms, Toolchains};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let engine = EngineConfig::default();
/// let programs = ToolchainPrograms::with_engine_config(engine, Toolchains::default());
/// let backend = WasiBackend::new(Arc::new(programs));
/// let session = backend.provision(SandboxSpec::default()).await?;
/// let result = backend.exec(&session.id, ExecRequest::new("seq", ["3"])).await?;
/// assert_eq!(result.stdout, b"1\n2\n3\n");
/// backend.terminate(&session.id).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WasiBackend {
    programs: Arc<dyn Programs>,
    make_host: MakeHost,
    sessions: Registry<Sandbox>,
    snapshots: Mutex<Snapshots>,
}

/// Locked during lookups only.
#[derive(Default)]
struct Snapshots {
    by_id: HashMap<String, Arc<Mutex<Sandbox>>>,
    made: u64,
}

impl WasiBackend {
    /// A backend whose sessions run `programs`.
    pub fn new(programs: Arc<dyn Programs>) -> Self {
        Self {
            programs,
            make_host: Arc::new(|_| SessionHost::builder()),
            sessions: Registry::default(),
            snapshots: Mutex::default(),
        }
    }

    /// Sets what makes the host of each session, also of resumed ones. The network policy is that
    /// of the specification.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use belljar::host::{CommandPolicy, SessionHost};
    /// use belljar::sandbox::WasiBackend;
    /// use belljar::{EngineConfig, ToolchainPrograms, Toolchains};
    ///
    /// let policy = CommandPolicy::new().deny("rm *")?;
    /// let engine = EngineConfig::default();
    /// let programs = ToolchainPrograms::with_engine_config(engine, Toolchains::default());
    /// let backend = WasiBackend::new(Arc::new(programs))
    ///     .host(move |_spec| SessionHost::builder().policy(policy.clone()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn host(
        mut self,
        make: impl Fn(&SandboxSpec) -> SessionHostBuilder + Send + Sync + 'static,
    ) -> Self {
        self.make_host = Arc::new(make);
        self
    }

    fn snapshots(&self) -> MutexGuard<'_, Snapshots> {
        // State is consistent between statements, also after a panic.
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ids of all live sessions, sorted.
    pub fn session_ids(&self) -> Vec<String> {
        self.sessions.ids()
    }

    /// Adds `sandbox` as a session, with a generated id if it has none.
    fn admit(&self, mut sandbox: Sandbox) -> Result<SandboxSession, SandboxError> {
        let chosen = std::mem::take(&mut sandbox.spec.session_id);
        let mut session = described(&sandbox);
        session.id = self.sessions.admit(&chosen, |id| {
            id.clone_into(&mut sandbox.spec.session_id);
            sandbox
        })?;
        Ok(session)
    }

    /// Makes the host call `name`, such as `process.exec`, as a program of the session would, when
    /// nothing runs in it.
    ///
    /// # Errors
    /// [`SandboxError::SessionNotFound`]; `Lifecycle` if the session was terminated. The inner
    /// error is that of the call.
    pub async fn host_call(
        &self,
        session_id: &str,
        name: impl Into<String>,
        params: Value,
    ) -> Result<Result<Value, HostError>, SandboxError> {
        let name = name.into();
        let call = move |sandbox: &mut Sandbox| Ok(sandbox.host_call(&name, &params));
        self.sessions.with_blocking(session_id, call).await
    }

    /// Calls `act` with a session when nothing runs in it, on the thread that polls this.
    ///
    /// # Errors
    /// [`SandboxError::SessionNotFound`]; `Lifecycle` if the session was terminated.
    pub async fn with_session<T>(
        &self,
        session_id: &str,
        act: impl FnOnce(&mut Sandbox) -> T,
    ) -> Result<T, SandboxError> {
        self.sessions.with(session_id, act).await
    }

    fn snapshot_of(&self, id: &str) -> Result<Arc<Mutex<Sandbox>>, SandboxError> {
        self.snapshots().by_id.get(id).cloned().ok_or_else(|| SandboxError::not_found(id))
    }

    fn keep(&self, sandbox: Sandbox) -> String {
        let mut snapshots = self.snapshots();
        snapshots.made += 1;
        let id = format!("snapshot-{}", snapshots.made);
        snapshots.by_id.insert(id.clone(), Arc::new(Mutex::new(sandbox)));
        id
    }

    /// Removes a snapshot. Sessions resumed from it go on.
    ///
    /// # Errors
    /// [`SandboxError::SessionNotFound`].
    pub fn drop_snapshot(&self, snapshot_id: &str) -> Result<(), SandboxError> {
        let dropped = self.snapshots().by_id.remove(snapshot_id);
        dropped.map(drop).ok_or_else(|| SandboxError::not_found(snapshot_id))
    }

    /// Writes a snapshot to the directory `dir`; returns its digest there.
    ///
    /// # Errors
    /// [`SandboxError`]: `SessionNotFound`, `Io`.
    pub fn export_snapshot(&self, snapshot_id: &str, dir: &Path) -> Result<Digest, SandboxError> {
        let snapshot = self.snapshot_of(snapshot_id)?;
        let mut snapshot = snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        SnapshotStore::new(dir).save(&mut snapshot).map_err(of_store)
    }

    /// Reads the snapshot with `digest` from the directory `dir`; returns its id in this backend.
    ///
    /// # Errors
    /// [`SandboxError::Io`] if it is missing, damaged, or cannot be resumed here.
    pub fn import_snapshot(&self, dir: &Path, digest: Digest) -> Result<String, SandboxError> {
        let sandbox = SnapshotStore::new(dir).resume(digest, self.programs.clone());
        let mut sandbox = sandbox.map_err(of_store)?;
        sandbox.set_host(self.make_host.clone());
        Ok(self.keep(sandbox))
    }
}

fn of_store(error: SnapshotError) -> SandboxError {
    SandboxError::Io { what: error.to_string(), source: std::io::Error::other(error) }
}

fn described(sandbox: &Sandbox) -> SandboxSession {
    SandboxSession {
        id: sandbox.spec.session_id.clone(),
        backend: WASI.to_owned(),
        state: SessionState::Ready,
        mounts: sandbox.spec.mounts.clone(),
        metadata: sandbox.spec.metadata.clone(),
    }
}

impl SandboxBackend for WasiBackend {
    fn name(&self) -> &'static str {
        WASI
    }

    fn capabilities(&self) -> SandboxCapabilities {
        SandboxCapabilities {
            local_process_sandbox: false,
            network_policy: true,
            snapshot: true,
            resume: true,
            suspend_on_idle: true,
        }
    }

    fn provision(&self, spec: SandboxSpec) -> SandboxFuture<'_, SandboxSession> {
        Box::pin(async move {
            if !spec.session_id.is_empty() {
                check_session_id(&spec.session_id)?;
            }
            let (programs, make_host) = (self.programs.clone(), self.make_host.clone());
            self.admit(Sandbox::provision_with(programs, spec, make_host)?)
        })
    }

    fn attach_filesystem<'a>(
        &'a self,
        session_id: &'a str,
        mount: SandboxMount,
    ) -> SandboxFuture<'a, ()> {
        Box::pin(async move {
            self.with_session(session_id, |sandbox| sandbox.attach_filesystem(mount)).await?
        })
    }

    fn apply_network_policy<'a>(
        &'a self,
        session_id: &'a str,
        policy: EgressPolicy,
    ) -> SandboxFuture<'a, ()> {
        Box::pin(self.with_session(session_id, |sandbox| sandbox.apply_network_policy(policy)))
    }

    fn exec_streaming<'a>(
        &'a self,
        session_id: &'a str,
        request: ExecRequest,
        stdout: OutputStream,
        stderr: OutputStream,
    ) -> SandboxFuture<'a, ExecResult> {
        let stdin = Input::Bytes(std::io::Cursor::new(request.stdin.clone()));
        let run =
            move |sandbox: &mut Sandbox| sandbox.exec_on(&request, Stdio { stdin, stdout, stderr });
        Box::pin(self.sessions.with_blocking(session_id, run))
    }

    fn snapshot<'a>(&'a self, session_id: &'a str) -> SandboxFuture<'a, String> {
        Box::pin(async move {
            let fork = self.with_session(session_id, |sandbox| sandbox.fork()).await??;
            Ok(self.keep(fork))
        })
    }

    fn resume<'a>(&'a self, snapshot_id: &'a str) -> SandboxFuture<'a, SandboxSession> {
        Box::pin(async move {
            let snapshot = self.snapshot_of(snapshot_id)?;
            let mut fork = snapshot.lock().unwrap_or_else(PoisonError::into_inner).fork()?;
            fork.spec.session_id.clear();
            self.admit(fork)
        })
    }

    fn terminate<'a>(&'a self, session_id: &'a str) -> SandboxFuture<'a, ()> {
        Box::pin(async move {
            drop(self.sessions.terminate(session_id).await?);
            Ok(())
        })
    }
}
