//! Details of sessions and snapshots, without resuming them.

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

/// Details of a session or a snapshot: see [`SandboxHome::details`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct HomeDetails {
    /// The id.
    pub id: String,
    /// What the id names.
    pub kind: HomeKind,
    /// The current snapshot.
    pub state: Digest,
    /// The mounts, in order.
    pub mounts: Vec<SandboxMount>,
    /// For a session, what it was forked from, or `None` if it was created; for a snapshot, its
    /// session.
    pub origin: Option<String>,
    /// Creation time in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// Time of the last change in milliseconds since the Unix epoch.
    pub changed_ms: u64,
    /// Bytes of its contents, some of which may be shared with others.
    pub size_bytes: u64,
    /// The clock and its start. This and all following fields are not serialized.
    #[serde(skip)]
    pub clock: ClockConfig,
    /// The time of a paused clock for the next program, in nanoseconds since the Unix epoch.
    #[serde(skip)]
    pub now_ns: Option<u64>,
    /// Times of unchanged files of mounted directories.
    #[serde(skip)]
    pub mtimes: Mtimes,
    /// The seed of random numbers.
    #[serde(skip)]
    pub seed: u64,
    /// Environment variables of all programs.
    #[serde(skip)]
    pub env: BTreeMap<String, String>,
    /// The data of the caller.
    #[serde(skip)]
    pub metadata: BTreeMap<String, String>,
}

impl HomeDetails {
    /// The first mounted directory of the host: the worktree, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.mounts.iter().find_map(|mount| match &mount.source {
            MountSource::Host(path) => Some(path.as_path()),
            MountSource::Memory => None,
        })
    }
}

impl SandboxHome {
    /// The details of the session or snapshot `id`.
    ///
    /// # Errors
    /// [`HomeError`]: `NotFound`; `Ambiguous`; `Record`; `Version`; `Snapshot`; `Disk`.
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
        // A lock file may have been recreated.
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

/// The modification time of a file in milliseconds since the Unix epoch; 0 if unknown.
fn time_of(path: &Path) -> Result<u64, HomeError> {
    let modified = disk::symlink_metadata(path)?.modified().ok();
    let since = modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    Ok(u64::try_from(since.unwrap_or(Duration::ZERO).as_millis()).unwrap_or(u64::MAX))
}
