//! What is known of a session or a snapshot without resuming it.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::backend::{MountSource, SandboxMount};
use super::home::{HomeKind, SandboxHome};
use super::home_error::HomeError;
use super::snapshot::Summary;
use crate::base::digest::Digest;
use crate::base::disk;
use crate::kernel::machine::ClockConfig;
use crate::kernel::vfs::Mtimes;

/// What is known of a session or a snapshot; see [`SandboxHome::details`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct HomeDetails {
    /// By which it is named.
    pub id: String,
    /// What it is.
    pub kind: HomeKind,
    /// The snapshot at which it stands.
    pub state: Digest,
    /// What is mounted, in the order of mounting.
    pub mounts: Vec<SandboxMount>,
    /// What a session was forked from: another session, or a snapshot. The session that a snapshot was
    /// made of. `None` for a session that was created.
    pub origin: Option<String>,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// When it last changed, in milliseconds since the Unix epoch.
    pub changed_ms: u64,
    /// Bytes of the contents that it is made of, some of which others may share.
    pub size_bytes: u64,
    /// What its clock is, and where that started. As all that follows it is not in the serialized form.
    #[serde(skip)]
    pub clock: ClockConfig,
    /// What a paused clock shows the next program, nanoseconds since the Unix epoch.
    #[serde(skip)]
    pub now_ns: Option<u64>,
    /// Times that files of mounted folders show until they are changed.
    #[serde(skip)]
    pub mtimes: Mtimes,
    /// Where its chance comes from.
    #[serde(skip)]
    pub seed: u64,
    /// The variables of all programs.
    #[serde(skip)]
    pub env: BTreeMap<String, String>,
    /// What whoever made it wants to remember.
    #[serde(skip)]
    pub metadata: BTreeMap<String, String>,
}

impl HomeDetails {
    /// The folder of the host that is mounted first: the worktree, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.mounts.iter().find_map(|mount| match &mount.source {
            MountSource::Host(path) => Some(path.as_path()),
            MountSource::Memory => None,
        })
    }
}

impl SandboxHome {
    /// What is known of the session or snapshot `id`.
    ///
    /// # Errors
    /// [`HomeError`]: `NotFound`; `Snapshot`; `Record`; `Disk`.
    pub fn details(&self, id: &str) -> Result<HomeDetails, HomeError> {
        let _home = self.share()?;
        let (id, kind, state, origin) = self.identity_of(id)?;
        let Summary { spec, now_ns, parts } = self.store().summary(state)?;
        let [made, changed] = match kind {
            HomeKind::Session => [self.lock_path(&id), self.record_path(&id)],
            HomeKind::Snapshot => [self.snapshot_path(state), self.snapshot_path(state)],
        };
        let parts: HashSet<Digest> = parts.into_iter().collect();
        let sizes = parts.into_iter().map(|part| self.store().cas().path_of(part));
        let size_bytes = sizes.filter_map(|path| Some(disk::metadata(&path).ok()?.len())).sum();
        let origin = match kind {
            HomeKind::Session => origin,
            HomeKind::Snapshot => Some(spec.session_id),
        };
        let changed_ms = time_of(&changed)?;
        // A lock can be made anew.
        let created_ms = time_of(&made).unwrap_or(changed_ms).min(changed_ms);
        Ok(HomeDetails {
            id,
            kind,
            state,
            mounts: spec.mounts,
            origin,
            created_ms,
            changed_ms,
            size_bytes,
            clock: spec.clock,
            now_ns,
            mtimes: spec.mtimes,
            seed: spec.seed,
            env: spec.env,
            metadata: spec.metadata,
        })
    }
}

/// When a file was written, in milliseconds since the Unix epoch; 0 where the disk does not tell.
fn time_of(path: &Path) -> Result<u64, HomeError> {
    let modified = disk::symlink_metadata(path)?.modified().ok();
    let since = modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    Ok(u64::try_from(since.unwrap_or(Duration::ZERO).as_millis()).unwrap_or(u64::MAX))
}
