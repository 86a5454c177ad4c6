//! Sandboxes that outlive the process: a directory of sessions and snapshots.
//!
//! A session is a small file with the id of its current snapshot. Each change writes a new snapshot
//! and then replaces the file, so a kill leaves the session before or after the change, and
//! garbage.
//!
//! Locks: running something in a session takes the session's lock. Writing contents and naming them
//! takes the shared lock of the home; garbage collection takes the exclusive lock. Locks are the
//! system's, and end with the process.

use std::collections::HashSet;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::backend::{SandboxError, SandboxSpec, check_session_id};
use super::home_error::HomeError;
use super::session::Sandbox;
use super::snapshot::SnapshotStore;
use crate::base::atomic_file::{self, TEMPORARY_PREFIX};
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};
use crate::base::own::{self, OtherUsers};
use crate::kernel::process::programs::Programs;
use crate::store::Removed;
use crate::toolchain::similar;

const FORMAT: &str = "belljar-session";

/// A reader accepts every minor version of its own major version.
const VERSION: [u32; 2] = [1, 2];

/// Size limit of a session's file.
const RECORD_BYTES_MAX: u64 = 64 << 10;

/// Minimum length of a prefix that names a snapshot.
const SNAPSHOT_DIGITS_MIN: usize = 8;

/// Random characters of a generated id.
const RANDOM_ID_CHARS: usize = 8;

/// Makes the programs of a session from its specification.
pub type MakePrograms =
    Box<dyn Fn(&SandboxSpec) -> Result<Arc<dyn Programs>, SandboxError> + Send + Sync>;

/// A directory of sessions and snapshots, which any number of processes can use at once.
///
/// ```
/// use std::sync::Arc;
/// use belljar::sandbox::{ExecRequest, Sandbox, SandboxHome, SandboxSpec};
/// use belljar::{EngineConfig, ToolchainPrograms, Toolchains};
///
/// let programs = ToolchainPrograms::with_engine_config(EngineConfig::default(), Toolchains::default())
///     .with("sh", belljar::process::ShellImage::maker());
/// let programs = Arc::new(programs);
/// let folder = tempfile::tempdir()?;
/// let of_all = programs.clone();
/// let home = SandboxHome::open(folder.path(), Box::new(move |_| Ok(of_all.clone())))?;
///
/// let mut sandbox = Sandbox::provision(programs, SandboxSpec::default())?;
/// let id = home.create(None, &mut sandbox)?;
///
/// let mut held = home.hold(&id, || ())?;
/// let mut sandbox = held.resume()?;
/// sandbox.exec(&ExecRequest::shell("echo kept > /tmp/note"))?;
/// held.save(&mut sandbox)?;
/// drop(held);
///
/// let snapshot = home.snapshot(&id)?.to_string();
/// let fork = home.fork(&snapshot, None)?;
/// assert_eq!(home.resume(&fork)?.files().read("/tmp/note").unwrap(), b"kept\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SandboxHome {
    dir: PathBuf,
    store: SnapshotStore,
    programs: MakePrograms,
}

/// The file of a session.
#[derive(Serialize, Deserialize)]
struct Record {
    format: String,
    version: [u32; 2],
    /// Its current snapshot.
    state: Digest,
    /// What it was forked from. Since version 1.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    /// Whether its changes are being written to the disk: see [`HeldSession::begin_apply`]. Since version 1.2.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    applies: bool,
}

/// What an id names.
enum Named {
    Session(String),
    Snapshot(Digest),
}

/// An entry of [`SandboxHome::list`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct HomeEntry {
    /// The id.
    pub id: String,
    /// What the id names.
    pub kind: HomeKind,
    /// The current snapshot; `None` if the session's file is damaged.
    pub state: Option<Digest>,
}

/// What an id of a [`SandboxHome`] names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HomeKind {
    /// A session, in which programs run.
    Session,
    /// A saved state of a session.
    Snapshot,
}

impl SandboxHome {
    /// Opens the home in the directory `dir`, which is created if missing, accessible to this user
    /// only. It must belong to this user or the administrator and not be writable by others. `programs`
    /// makes the programs of each resumed session.
    ///
    /// # Errors
    /// [`HomeError`]: `Own`; `Disk`.
    pub fn open(dir: impl Into<PathBuf>, programs: MakePrograms) -> Result<Self, HomeError> {
        let dir = dir.into();
        own::expect_own_folder(&dir, OtherUsers::MayAddFiles)?;
        for folder in ["sessions", "snapshots", "contents"].map(|name| dir.join(name)) {
            disk::create_private_dir_all(&folder)?;
            own::expect_own_folder(&folder, OtherUsers::Excluded)?;
        }
        let store = SnapshotStore::new(dir.join("contents"));
        Ok(Self { dir, store, programs })
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes the programs of a session with this specification.
    ///
    /// # Errors
    /// Those of the function given to [`SandboxHome::open`].
    pub fn programs(&self, spec: &SandboxSpec) -> Result<Arc<dyn Programs>, SandboxError> {
        (self.programs)(spec)
    }

    /// Saves `sandbox` as a session with this id, or a generated one; returns the id.
    ///
    /// # Errors
    /// [`HomeError`]: `Id`; `Exists` if the id is in use; `Snapshot`; `Disk`.
    pub fn create(&self, id: Option<&str>, sandbox: &mut Sandbox) -> Result<String, HomeError> {
        let _home = self.share()?;
        let (id, _lock) = self.claim(id)?;
        sandbox.spec.session_id.clone_from(&id);
        let state = self.store.save(sandbox)?;
        self.write_record(&id, state, None, false)?;
        Ok(id)
    }

    /// Makes a session from a snapshot or from the current state of another session; returns its
    /// id. Writes one file of about a hundred bytes.
    ///
    /// # Errors
    /// [`HomeError`]: `NotFound`; `Ambiguous`; `Record`; `Version`; `Id`; `Exists` if the id is in
    /// use; `Disk`.
    pub fn fork(&self, from: &str, id: Option<&str>) -> Result<String, HomeError> {
        let _home = self.share()?;
        let (origin, _, state, _) = self.identity_of(from)?;
        // A fork of a state that is damaged would be a second session that cannot be used.
        self.store.session_id(state)?;
        let applies = self.is_session(from) && self.read_record(from)?.applies;
        let (id, _lock) = self.claim(id)?;
        self.write_record(&id, state, Some(origin), applies)?;
        Ok(id)
    }

    /// Keeps the current state of a session as a snapshot, without waiting for what runs in it;
    /// returns the snapshot's id.
    ///
    /// # Errors
    /// [`HomeError`]: `NotFound`; `Ambiguous`; `Record`; `Version`; `Disk`.
    pub fn snapshot(&self, session: &str) -> Result<Digest, HomeError> {
        let _home = self.share()?;
        let state = self.state_of(session)?;
        atomic_file::write(&self.snapshot_path(state), &[])?;
        Ok(state)
    }

    /// The id of the session that a snapshot was made of.
    ///
    /// # Errors
    /// [`HomeError`]: `NotFound`; `Ambiguous`; `Record`; `Version`; `Snapshot`; `Disk`.
    pub fn origin_of(&self, snapshot: &str) -> Result<String, HomeError> {
        let _home = self.share()?;
        Ok(self.store.session_id(self.state_of(snapshot)?)?)
    }

    /// Resumes a session or a snapshot for reading: changes are not kept.
    ///
    /// # Errors
    /// [`HomeError`]: `NotFound`; `Ambiguous`; `Record`; `Version`; `Snapshot`; `Disk`.
    pub fn resume(&self, id: &str) -> Result<Sandbox, HomeError> {
        let _home = self.share()?;
        self.resume_state(self.state_of(id)?)
    }

    fn resume_state(&self, state: Digest) -> Result<Sandbox, HomeError> {
        Ok(self.store.resume_with(state, |spec| (self.programs)(spec))?)
    }

    /// Locks a session, to run something in it. Others wait until the result is dropped. If it has
    /// to wait itself, it calls `wait` and keeps the result meanwhile.
    ///
    /// # Errors
    /// [`HomeError`]: `NotFound`; `IsSnapshot`; `Record`; `Version`; `Disk`.
    pub fn hold<W>(&self, id: &str, wait: impl Fn() -> W) -> Result<HeldSession<'_>, HomeError> {
        self.check_is_session(id)?;
        let path = self.lock_path(id);
        let lock = loop {
            let file = disk::open_lock(&path)?;
            if try_lock(&file, &path)? {
                let _waiting = wait();
                file.lock().map_err(DiskError::new("lock", &path))?;
            }
            // The session may have been removed together with its lock.
            if disk::is_at(&file, &path) {
                break file;
            }
            self.check_is_session(id)?;
        };
        if let Err(error) = self.check_is_session(id) {
            disk::remove_file(&path)?;
            return Err(error);
        }
        let Record { state, origin, applies, .. } = self.read_record(id)?;
        Ok(HeldSession { home: self, id: id.to_owned(), state, origin, applies, _lock: lock })
    }

    /// Removes a session, when nothing runs in it, or a snapshot. Its forks are kept.
    ///
    /// # Errors
    /// [`HomeError`]: `NotFound`; `Ambiguous`; `Disk`.
    pub fn remove<W>(&self, id: &str, wait: impl Fn() -> W) -> Result<(), HomeError> {
        match self.named(id)? {
            Named::Snapshot(digest) => disk::remove_file(&self.snapshot_path(digest))?,
            Named::Session(id) => {
                let held = match self.hold(&id, wait) {
                    // A damaged session can be removed.
                    Err(HomeError::Record { .. } | HomeError::Version { .. }) => None,
                    held => Some(held?),
                };
                let record = self.record_path(&id);
                if disk::symlink_metadata(&record).is_ok_and(|found| found.is_dir()) {
                    disk::remove_dir_all(&record)?;
                }
                disk::remove_file(&record)?;
                disk::remove_file(&self.lock_path(&id))?;
                drop(held);
            }
        }
        Ok(())
    }

    /// All sessions, then all snapshots, sorted by id.
    ///
    /// # Errors
    /// [`HomeError::Disk`].
    pub fn list(&self) -> Result<Vec<HomeEntry>, HomeError> {
        let session = |id: String| HomeEntry {
            state: self.read_record(&id).map(|record| record.state).ok(),
            kind: HomeKind::Session,
            id,
        };
        let snapshot = |digest: Digest| HomeEntry {
            id: digest.to_string(),
            kind: HomeKind::Snapshot,
            state: Some(digest),
        };
        let sessions = self.session_ids()?.into_iter().map(session);
        let snapshots = self.snapshots()?.into_iter().map(snapshot);
        Ok(sessions.chain(snapshots).collect())
    }

    /// Removes contents that no session or snapshot uses, when no process writes.
    ///
    /// # Errors
    /// [`HomeError`]; nothing is removed if any file is damaged.
    pub fn collect_garbage(&self) -> Result<Removed, HomeError> {
        let lock = self.open_lock()?;
        lock.lock().map_err(DiskError::new("lock", &self.dir))?;
        let mut states = self.snapshots()?;
        for id in self.session_ids()? {
            match self.read_record(&id) {
                Ok(record) => states.push(record.state),
                // It was removed meanwhile.
                Err(HomeError::Disk(error)) if error.source.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let mut keep = HashSet::new();
        for state in states {
            if !keep.contains(&state) {
                keep.extend(self.store.parts_of(state)?);
            }
        }
        let removed = self.store.cas().retain(&keep)?;
        self.sweep()?;
        Ok(removed)
    }

    /// Removes what killed processes have left: incomplete files, and locks without sessions.
    fn sweep(&self) -> Result<(), HomeError> {
        for folder in ["sessions", "snapshots"] {
            for path in disk::list(&self.dir.join(folder))? {
                let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
                let is_of_nobody =
                    name.strip_suffix(".lock").is_some_and(|id| !self.is_session(id));
                if name.starts_with(TEMPORARY_PREFIX) || is_of_nobody {
                    disk::remove_file(&path)?;
                }
            }
        }
        Ok(())
    }

    /// Takes the shared lock: contents without a name are not removed while it is held.
    pub(super) fn share(&self) -> Result<File, HomeError> {
        let lock = self.open_lock()?;
        lock.lock_shared().map_err(DiskError::new("lock", &self.dir))?;
        Ok(lock)
    }

    fn open_lock(&self) -> Result<File, HomeError> {
        Ok(disk::open_lock(&self.dir.join("lock"))?)
    }

    /// Takes an id for a new session. The caller holds the shared lock.
    fn claim(&self, id: Option<&str>) -> Result<(String, File), HomeError> {
        let Some(id) = id else { return self.claim_any() };
        if check_session_id(id).is_err() || Digest::from_hex(id).is_some() {
            return Err(HomeError::Id { id: id.to_owned() });
        }
        let exists = || HomeError::Exists { id: id.to_owned() };
        let path = self.lock_path(id);
        let lock = disk::open_lock(&path)?;
        // The holder has, makes or removes the session.
        let is_taken = try_lock(&lock, &path)? || !disk::is_at(&lock, &path);
        if is_taken || self.is_session(id) {
            return Err(exists());
        }
        Ok((id.to_owned(), lock))
    }

    fn claim_any(&self) -> Result<(String, File), HomeError> {
        let folder = self.dir.join("sessions");
        let create = |source| DiskError::new("create a session in", &folder)(source);
        // The system makes a unique file name, which becomes the id.
        let made = tempfile::Builder::new()
            .prefix("session-")
            .suffix(".lock")
            .rand_bytes(RANDOM_ID_CHARS)
            .tempfile_in(&folder)
            .map_err(create)?;
        let (lock, path) = made.keep().map_err(|error| create(error.error))?;
        try_lock(&lock, &path)?;
        let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok((id, lock))
    }

    fn named(&self, name: &str) -> Result<Named, HomeError> {
        if check_session_id(name).is_ok() && self.is_session(name) {
            return Ok(Named::Session(name.to_owned()));
        }
        if name.len() < SNAPSHOT_DIGITS_MIN {
            return Err(self.not_found(name));
        }
        let mut found = self.snapshots()?;
        found.retain(|digest| digest.to_string().starts_with(name));
        match found[..] {
            [digest] => Ok(Named::Snapshot(digest)),
            [] => Err(self.not_found(name)),
            _ => Err(HomeError::Ambiguous { id: name.to_owned() }),
        }
    }

    fn state_of(&self, name: &str) -> Result<Digest, HomeError> {
        match self.named(name)? {
            Named::Session(id) => Ok(self.read_record(&id)?.state),
            Named::Snapshot(digest) => Ok(digest),
        }
    }

    /// The full id of `name`, its kind, its snapshot, and, for a session, what it was forked from.
    pub(super) fn identity_of(
        &self,
        name: &str,
    ) -> Result<(String, HomeKind, Digest, Option<String>), HomeError> {
        Ok(match self.named(name)? {
            Named::Session(id) => {
                let record = self.read_record(&id)?;
                (id, HomeKind::Session, record.state, record.origin)
            }
            Named::Snapshot(digest) => (digest.to_string(), HomeKind::Snapshot, digest, None),
        })
    }

    pub(super) fn store(&self) -> &SnapshotStore {
        &self.store
    }

    fn is_session(&self, id: &str) -> bool {
        disk::symlink_metadata(&self.record_path(id)).is_ok()
    }

    fn check_is_session(&self, id: &str) -> Result<(), HomeError> {
        if check_session_id(id).is_ok() && self.is_session(id) {
            return Ok(());
        }
        match self.named(id) {
            Ok(Named::Snapshot(_)) => Err(HomeError::IsSnapshot { id: id.to_owned() }),
            _ => Err(self.not_found(id)),
        }
    }

    fn not_found(&self, name: &str) -> HomeError {
        let similar = similar(name, &self.session_ids().unwrap_or_default());
        HomeError::NotFound { id: name.to_owned(), dir: self.dir.clone(), similar }
    }

    fn session_ids(&self) -> Result<Vec<String>, HomeError> {
        let id = |path: PathBuf| {
            Some(path.file_name()?.to_str()?.strip_suffix(".json")?.to_owned())
                .filter(|id| check_session_id(id).is_ok())
        };
        Ok(disk::list(&self.dir.join("sessions"))?.into_iter().filter_map(id).collect())
    }

    fn snapshots(&self) -> Result<Vec<Digest>, HomeError> {
        let digest = |path: PathBuf| Digest::from_hex(path.file_name()?.to_str()?);
        Ok(disk::list(&self.dir.join("snapshots"))?.into_iter().filter_map(digest).collect())
    }

    pub(super) fn record_path(&self, id: &str) -> PathBuf {
        self.dir.join("sessions").join(format!("{id}.json"))
    }

    pub(super) fn lock_path(&self, id: &str) -> PathBuf {
        self.dir.join("sessions").join(format!("{id}.lock"))
    }

    pub(super) fn snapshot_path(&self, snapshot: Digest) -> PathBuf {
        self.dir.join("snapshots").join(snapshot.to_string())
    }

    fn read_record(&self, id: &str) -> Result<Record, HomeError> {
        let path = self.record_path(id);
        let damaged =
            |message: &str| HomeError::Record { path: path.clone(), message: message.into() };
        // Special files may be endless.
        if !disk::symlink_metadata(&path)?.is_file() {
            return Err(damaged("not a regular file"));
        }
        let text = disk::read_at_most(&path, RECORD_BYTES_MAX)?;
        let text = text.ok_or_else(|| damaged("it is too long"))?;
        let record: Result<Record, _> = serde_json::from_slice(&text);
        match record {
            Ok(Record { version: [major, minor], .. }) if major != VERSION[0] => {
                Err(HomeError::Version { id: id.to_owned(), major, minor })
            }
            Ok(record) if record.format == FORMAT => Ok(record),
            Ok(_) => Err(HomeError::Record { path, message: "not a session's file".to_owned() }),
            Err(error) => Err(HomeError::Record { path, message: error.to_string() }),
        }
    }

    fn write_record(
        &self,
        id: &str,
        state: Digest,
        origin: Option<String>,
        applies: bool,
    ) -> Result<(), HomeError> {
        let path = self.record_path(id);
        let record = Record { format: FORMAT.to_owned(), version: VERSION, state, origin, applies };
        let text = serde_json::to_string(&record).map_err(|error| HomeError::Record {
            path: path.clone(),
            message: error.to_string(),
        })?;
        Ok(atomic_file::write(&path, &[text.as_bytes(), b"\n"])?)
    }
}

/// A locked session.
pub struct HeldSession<'h> {
    home: &'h SandboxHome,
    id: String,
    state: Digest,
    origin: Option<String>,
    applies: bool,
    _lock: File,
}

impl HeldSession<'_> {
    /// Resumes the current state. After an [interrupted apply](Self::was_interrupted) it first takes in what the disk has
    /// by now, so that what was written counts as applied.
    ///
    /// # Errors
    /// [`HomeError::Snapshot`].
    pub fn resume(&self) -> Result<Sandbox, HomeError> {
        let mut sandbox = self.home.resume_state(self.state)?;
        if self.applies {
            // Where the disk cannot be read, the next command that has to says so.
            let _ = sandbox.refresh();
        }
        Ok(sandbox)
    }

    /// Whether an apply ended, with its process, before the session was saved.
    pub fn was_interrupted(&self) -> bool {
        self.applies
    }

    /// Records that the changes of the session are about to be written to the disk, until [`HeldSession::save`].
    ///
    /// # Errors
    /// [`HomeError::Disk`].
    pub fn begin_apply(&mut self) -> Result<(), HomeError> {
        let _home = self.home.share()?;
        self.home.write_record(&self.id, self.state, self.origin.clone(), true)?;
        self.applies = true;
        Ok(())
    }

    /// Resumes the current state without its files, where they are missing or damaged: host directories show their present
    /// state, and mounts in memory are empty.
    ///
    /// # Errors
    /// [`HomeError::Snapshot`].
    pub fn resume_without_files(&self) -> Result<Sandbox, HomeError> {
        let home = self.home;
        Ok(home.store.resume_without_files(self.state, |spec| (home.programs)(spec))?)
    }

    /// Saves `sandbox` as the session's state, atomically.
    ///
    /// # Errors
    /// [`HomeError`]: `Snapshot`; `Disk`. Then the session is unchanged.
    pub fn save(&mut self, sandbox: &mut Sandbox) -> Result<(), HomeError> {
        let _home = self.home.share()?;
        sandbox.spec.session_id.clone_from(&self.id);
        let state = self.home.store.save(sandbox)?;
        if state != self.state || self.applies {
            self.home.write_record(&self.id, state, self.origin.clone(), false)?;
            (self.state, self.applies) = (state, false);
        }
        Ok(())
    }
}

/// Locks `file`; returns whether another process holds the lock instead.
fn try_lock(file: &File, path: &Path) -> Result<bool, DiskError> {
    match file.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(DiskError::new("lock", path)(error)),
    }
}
