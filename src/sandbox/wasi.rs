//! The backend whose programs are modules, and whose files, clock and chance are its own.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

use super::WASI;
use super::backend::{
    ExecRequest, ExecResult, SandboxBackend, SandboxCapabilities, SandboxError, SandboxFuture,
    SandboxMount, SandboxSession, SandboxSpec, SessionState, check_session_id,
};
use super::session::Sandbox;
use super::snapshot::{SnapshotError, SnapshotStore};
use crate::base::digest::Digest;
use crate::kernel::egress::EgressPolicy;
use crate::kernel::programs::Programs;
use crate::kernel::stdio::{Input, Output, Stdio};

/// Sessions in memory. Their programs run on tokio's threads for what blocks; a session in which
/// nothing runs is some memory and nothing else.
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
    state: Mutex<State>,
}

/// Locked for no longer than a lookup takes.
#[derive(Default)]
struct State {
    /// Sessions by their ids; `None` for those that were terminated and whose id was chosen. Ids
    /// that were made are known to have been by their number.
    sessions: HashMap<String, Option<Slot>>,
    snapshots: HashMap<String, Arc<Mutex<Sandbox>>>,
    sessions_made: u64,
    snapshots_made: u64,
}

/// A session. The lock is fair: whoever asks first has it first. `None` once it is terminated.
type Slot = Arc<tokio::sync::Mutex<Option<Sandbox>>>;

impl State {
    /// The name that the `number`th session gets if nobody chose one.
    fn made_id(number: u64) -> String {
        format!("session-{number}")
    }

    fn was_made(&self, id: &str) -> bool {
        let number = id.strip_prefix("session-").and_then(|number| number.parse::<u64>().ok());
        number.is_some_and(|number| {
            (1..=self.sessions_made).contains(&number) && Self::made_id(number) == id
        })
    }

    fn fresh_id(&mut self) -> String {
        loop {
            self.sessions_made += 1;
            let id = Self::made_id(self.sessions_made);
            // Somebody may have chosen it.
            if !self.sessions.contains_key(&id) {
                return id;
            }
        }
    }
}

impl WasiBackend {
    /// A backend whose sessions can run `programs`.
    pub fn new(programs: Arc<dyn Programs>) -> Self {
        Self { programs, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // It is whole between two statements, whatever panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ids of all sessions that are there, sorted.
    pub fn session_ids(&self) -> Vec<String> {
        let state = self.state();
        let live = state.sessions.iter().filter(|(_, slot)| slot.is_some());
        let mut ids: Vec<String> = live.map(|(id, _)| id.clone()).collect();
        ids.sort_unstable();
        ids
    }

    fn slot(&self, id: &str) -> Result<Slot, SandboxError> {
        let state = self.state();
        match state.sessions.get(id) {
            Some(Some(slot)) => Ok(slot.clone()),
            Some(None) => Err(terminated(id)),
            None if state.was_made(id) => Err(terminated(id)),
            None => Err(SandboxError::not_found(id)),
        }
    }

    /// The session `id`, once nothing runs in it and nobody else who asked before waits for it.
    async fn session(&self, id: &str) -> Result<OwnedMutexGuard<Option<Sandbox>>, SandboxError> {
        Ok(self.slot(id)?.lock_owned().await)
    }

    /// Makes `sandbox` a session; chooses its id if it has none.
    fn admit(&self, mut sandbox: Sandbox) -> Result<SandboxSession, SandboxError> {
        let mut state = self.state();
        if sandbox.spec.session_id.is_empty() {
            sandbox.spec.session_id = state.fresh_id();
        } else {
            let id = &sandbox.spec.session_id;
            check_session_id(id)?;
            let message = match state.sessions.get(id) {
                Some(Some(_)) => Some("there is a session of this id"),
                Some(None) => Some("there was a session of this id, and ids are given once"),
                None if state.was_made(id) => {
                    Some("there was a session of this id, and ids are given once")
                }
                None => None,
            };
            if let Some(message) = message {
                return Err(SandboxError::lifecycle(id, message));
            }
        }
        let session = described(&sandbox);
        let slot = Arc::new(tokio::sync::Mutex::new(Some(sandbox)));
        state.sessions.insert(session.id.clone(), Some(slot));
        Ok(session)
    }

    /// As [`SandboxBackend::exec`], with what the program writes going to these as it comes. What
    /// they capture is in the result.
    ///
    /// # Errors
    /// As [`SandboxBackend::exec`].
    pub async fn exec_streaming(
        &self,
        session_id: &str,
        request: ExecRequest,
        stdout: Output,
        stderr: Output,
    ) -> Result<ExecResult, SandboxError> {
        let mut guard = self.session(session_id).await?;
        let id = session_id.to_owned();
        let stdin = Input::Bytes(std::io::Cursor::new(request.stdin.clone()));
        let run = move || match guard.as_mut() {
            Some(sandbox) => sandbox.exec_on(&request, Stdio { stdin, stdout, stderr }),
            None => Err(terminated(&id)),
        };
        match tokio::task::spawn_blocking(run).await {
            Ok(result) => result,
            Err(error) => Err(SandboxError::Io {
                what: format!("the run in session {session_id} did not end"),
                source: error.into(),
            }),
        }
    }

    /// Lets `act` look into a session, or change it, once nothing runs in it.
    ///
    /// # Errors
    /// [`SandboxError::SessionNotFound`]; `Lifecycle` if the session was terminated.
    pub async fn with_session<T>(
        &self,
        session_id: &str,
        act: impl FnOnce(&mut Sandbox) -> T,
    ) -> Result<T, SandboxError> {
        let mut guard = self.session(session_id).await?;
        guard.as_mut().map(act).ok_or_else(|| terminated(session_id))
    }

    fn snapshot_of(&self, id: &str) -> Result<Arc<Mutex<Sandbox>>, SandboxError> {
        self.state().snapshots.get(id).cloned().ok_or_else(|| SandboxError::not_found(id))
    }

    fn keep(&self, sandbox: Sandbox) -> String {
        let mut state = self.state();
        state.snapshots_made += 1;
        let id = format!("snapshot-{}", state.snapshots_made);
        state.snapshots.insert(id.clone(), Arc::new(Mutex::new(sandbox)));
        id
    }

    /// Forgets a snapshot. Sessions that were resumed from it go on.
    ///
    /// # Errors
    /// [`SandboxError::SessionNotFound`].
    pub fn drop_snapshot(&self, snapshot_id: &str) -> Result<(), SandboxError> {
        let dropped = self.state().snapshots.remove(snapshot_id);
        dropped.map(drop).ok_or_else(|| SandboxError::not_found(snapshot_id))
    }

    /// Writes a snapshot to the folder `dir`; answers the digest by which it is found there, by this
    /// process or another one.
    ///
    /// # Errors
    /// [`SandboxError`]: `SessionNotFound`, `Io`.
    pub fn export_snapshot(&self, snapshot_id: &str, dir: &Path) -> Result<Digest, SandboxError> {
        let snapshot = self.snapshot_of(snapshot_id)?;
        let mut snapshot = snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        SnapshotStore::new(dir).save(&mut snapshot).map_err(of_store)
    }

    /// Makes the snapshot with `digest` in the folder `dir` one of this backend; answers its id.
    ///
    /// # Errors
    /// [`SandboxError::Io`] if it is not there, is damaged, or cannot be resumed here.
    pub fn import_snapshot(&self, dir: &Path, digest: Digest) -> Result<String, SandboxError> {
        let sandbox = SnapshotStore::new(dir).resume(digest, self.programs.clone());
        Ok(self.keep(sandbox.map_err(of_store)?))
    }
}

fn terminated(id: &str) -> SandboxError {
    SandboxError::lifecycle(id, "it was terminated")
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
            self.admit(Sandbox::provision(self.programs.clone(), spec)?)
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

    fn exec<'a>(
        &'a self,
        session_id: &'a str,
        request: ExecRequest,
    ) -> SandboxFuture<'a, ExecResult> {
        let capture = || Output::Capture(Vec::new());
        Box::pin(self.exec_streaming(session_id, request, capture(), capture()))
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
            let mut guard = self.session(session_id).await?;
            let ended = guard.take().ok_or_else(|| terminated(session_id))?;
            let mut state = self.state();
            if state.was_made(session_id) {
                state.sessions.remove(session_id);
            } else {
                state.sessions.insert(session_id.to_owned(), None);
            }
            drop(state);
            drop(ended);
            Ok(())
        })
    }
}
