//! Snapshots in a directory: sessions as data, to be resumed by any process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::backend::{SandboxError, SandboxMount, SandboxSpec};
use super::session::{Beginning, Directories, MakeHost, Sandbox};
use crate::base::digest::Digest;
use crate::host::SessionHost;
use crate::kernel::machine::ClockConfig;
use crate::kernel::machine::clock::DEFAULT_START_NS;
use crate::kernel::machine::fork::SavedMachine;
use crate::kernel::machine::limits::Limits;
use crate::kernel::process::programs::Programs;
use crate::kernel::vfs::{Contents, Mtimes, RestoreError};
use crate::net::EgressPolicy;
use crate::store::{Cas, StoreError, read_slice};

/// A reader accepts every minor version of its own major version.
const VERSION: [u32; 2] = [1, 6];

/// Size limit of a snapshot without its contents.
const SNAPSHOT_BYTES_MAX: u64 = 1 << 30;

/// A content-addressed directory of snapshots and their contents.
///
/// The id of a snapshot is the digest of its text, which has the digests of all its contents. So a
/// trusted id makes any directory of snapshots safe.
#[derive(Clone, Debug)]
pub struct SnapshotStore {
    cas: Cas,
}

/// A snapshot cannot be written or read.
#[derive(thiserror::Error)]
pub enum SnapshotError {
    /// Its text or contents are missing or damaged.
    #[error("snapshot {id}")]
    Store {
        /// The snapshot.
        id: String,
        /// What is wrong.
        source: StoreError,
    },
    /// It cannot be written.
    #[error("cannot write the snapshot")]
    Write(#[source] StoreError),
    /// It cannot be serialized: a path of the host may not be UTF-8.
    #[error("cannot serialize the snapshot: {0}")]
    Text(String),
    /// Its text is invalid.
    #[error("snapshot {id} is invalid: {message}")]
    Format {
        /// The snapshot.
        id: String,
        /// What is wrong, and where.
        message: String,
    },
    /// It was written by a newer belljar.
    #[error(
        "snapshot {id} has version {major}.{minor}, and this belljar reads version 1; use a newer belljar"
    )]
    Version {
        /// The snapshot.
        id: String,
        /// Its major version.
        major: u32,
        /// Its minor version.
        minor: u32,
    },
    /// What it was made from is missing or different.
    #[error("cannot resume snapshot {id}")]
    Provision {
        /// The snapshot.
        id: String,
        /// What is missing.
        source: Box<SandboxError>,
    },
    /// Its state is invalid.
    #[error("cannot resume snapshot {id}")]
    Restore {
        /// The snapshot.
        id: String,
        /// What is wrong.
        source: RestoreError,
    },
}

crate::base::readable::readable!(SnapshotError);

#[derive(Serialize, Deserialize)]
struct Head {
    format: String,
    version: [u32; 2],
}

#[derive(Serialize, Deserialize)]
struct Saved {
    #[serde(flatten)]
    head: Head,
    session_id: String,
    mounts: Vec<SandboxMount>,
    network_policy: EgressPolicy,
    limits: Limits,
    clock: ClockConfig,
    /// Missing in version 1.0, in which all host files showed the start of the clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mtimes: Option<Mtimes>,
    env: BTreeMap<String, String>,
    metadata: BTreeMap<String, String>,
    machine: SavedMachine,
}

impl Saved {
    /// The specification of the session, and its machine.
    fn into_parts(self) -> (SandboxSpec, SavedMachine) {
        let spec = SandboxSpec {
            session_id: self.session_id,
            mounts: self.mounts,
            network_policy: self.network_policy,
            limits: self.limits,
            clock: self.clock,
            mtimes: self.mtimes.unwrap_or(Mtimes::Fixed(match self.clock {
                ClockConfig::Paused { start_ns } => start_ns,
                ClockConfig::Host => DEFAULT_START_NS,
            })),
            seed: self.machine.seed(),
            env: self.env,
            metadata: self.metadata,
        };
        (spec, self.machine)
    }
}

/// What a snapshot says of its session without resuming it.
pub(super) struct Summary {
    /// The specification of the session.
    pub spec: SandboxSpec,
    /// The time of the next run in nanoseconds since the Unix epoch; `None` for the host's clock.
    pub now_ns: Option<u64>,
    /// The digests of all its contents, and of itself.
    pub parts: Vec<Digest>,
}

const FORMAT: &str = "belljar-snapshot";

impl SnapshotStore {
    /// The store in the directory `dir`, which is created with the first snapshot.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { cas: Cas::new(dir) }
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        self.cas.dir()
    }

    /// Saves `sandbox`; returns the snapshot's id. Existing contents are not written again. Of a
    /// host directory it keeps what programs have read or changed.
    ///
    /// # Errors
    /// [`SnapshotError::Write`] or `Text`.
    pub fn save(&self, sandbox: &mut Sandbox) -> Result<Digest, SnapshotError> {
        let machine = sandbox.machine_mut().save(&self.cas).map_err(SnapshotError::Write)?;
        let spec = &sandbox.spec;
        let saved = Saved {
            head: Head { format: FORMAT.to_owned(), version: VERSION },
            session_id: spec.session_id.clone(),
            mounts: spec.mounts.clone(),
            network_policy: spec.network_policy.clone(),
            limits: spec.limits,
            clock: spec.clock,
            mtimes: Some(spec.mtimes),
            env: spec.env.clone(),
            metadata: spec.metadata.clone(),
            machine,
        };
        let text =
            serde_json::to_vec(&saved).map_err(|error| SnapshotError::Text(error.to_string()))?;
        let id = Digest::of(&text);
        if !self.cas.has(id, text.len() as u64) {
            self.cas.put(id, &mut read_slice(&text)).map_err(SnapshotError::Write)?;
        }
        Ok(id)
    }

    /// Resumes the snapshot `id` with these programs. Host directories are opened again.
    ///
    /// # Errors
    /// [`SnapshotError`]; nothing is trusted before its digest is checked.
    pub fn resume(
        &self,
        id: Digest,
        programs: Arc<dyn Programs>,
    ) -> Result<Sandbox, SnapshotError> {
        self.resume_with(id, |_| Ok(programs))
    }

    /// Like [`SnapshotStore::resume`], with programs made from the specification of the session.
    ///
    /// # Errors
    /// As [`SnapshotStore::resume`]; `Provision` if `programs` fails.
    pub fn resume_with(
        &self,
        id: Digest,
        programs: impl FnOnce(&SandboxSpec) -> Result<Arc<dyn Programs>, SandboxError>,
    ) -> Result<Sandbox, SnapshotError> {
        let (mut sandbox, machine) = self.provision(id, Beginning::Earlier, programs)?;
        let restored = sandbox.machine_mut().restore(&machine, &self.cas);
        restored.map_err(|source| SnapshotError::Restore { id: id.to_string(), source })?;
        Ok(sandbox)
    }

    /// A session as the snapshot `id` specifies it, with the state that it had.
    fn provision(
        &self,
        id: Digest,
        beginning: Beginning,
        programs: impl FnOnce(&SandboxSpec) -> Result<Arc<dyn Programs>, SandboxError>,
    ) -> Result<(Sandbox, SavedMachine), SnapshotError> {
        let (spec, machine) = self.read(id)?.into_parts();
        let contents = Arc::new(Contents::of_store(self.cas.clone()));
        let sandbox = programs(&spec).and_then(|programs| {
            let make_host: MakeHost = Arc::new(|_| SessionHost::builder());
            let directories = Directories::by_path();
            Sandbox::provision_from(programs, spec, make_host, &contents, beginning, &directories)
        });
        let sandbox = sandbox.map_err(|error| SnapshotError::Provision {
            id: id.to_string(),
            source: Box::new(error),
        })?;
        Ok((sandbox, machine))
    }

    /// As [`SnapshotStore::resume_with`], without its files: host directories show their present state, and mounts in memory
    /// are empty.
    ///
    /// # Errors
    /// As [`SnapshotStore::resume_with`].
    pub(super) fn resume_without_files(
        &self,
        id: Digest,
        programs: impl FnOnce(&SandboxSpec) -> Result<Arc<dyn Programs>, SandboxError>,
    ) -> Result<Sandbox, SnapshotError> {
        let (mut sandbox, machine) = self.provision(id, Beginning::Now, programs)?;
        sandbox.machine_mut().restore_without_files(&machine);
        Ok(sandbox)
    }

    fn read(&self, id: Digest) -> Result<Saved, SnapshotError> {
        let text = self.cas.get(id, SNAPSHOT_BYTES_MAX);
        let text = text.map_err(|source| SnapshotError::Store { id: id.to_string(), source })?;
        let format_error = |message: String| SnapshotError::Format { id: id.to_string(), message };
        // A snapshot of another version may have other fields: then its head alone says which it is.
        let saved = serde_json::from_slice::<Saved>(&text);
        let head = match &saved {
            Ok(saved) => &saved.head,
            Err(_) => &serde_json::from_slice::<Head>(&text)
                .map_err(|error| format_error(error.to_string()))?,
        };
        if head.format != FORMAT {
            return Err(format_error("not a snapshot".to_owned()));
        }
        let [major, minor] = head.version;
        if major != VERSION[0] {
            return Err(SnapshotError::Version { id: id.to_string(), major, minor });
        }
        saved.map_err(|error| format_error(error.to_string()))
    }

    /// The id of the session that the snapshot `id` was made of.
    ///
    /// # Errors
    /// As [`SnapshotStore::resume`].
    pub fn session_id(&self, id: Digest) -> Result<String, SnapshotError> {
        Ok(self.read(id)?.session_id)
    }

    pub(super) fn summary(&self, id: Digest) -> Result<Summary, SnapshotError> {
        let (spec, machine) = self.read(id)?.into_parts();
        let parts = self.parts(id, &machine)?;
        let now_ns = match spec.clock {
            ClockConfig::Paused { start_ns } => Some(machine.now_ns(start_ns)),
            ClockConfig::Host => None,
        };
        Ok(Summary { spec, now_ns, parts })
    }

    /// The digests of all contents of the snapshot `id`, and of itself.
    ///
    /// # Errors
    /// As [`SnapshotStore::resume`].
    pub fn parts_of(&self, id: Digest) -> Result<Vec<Digest>, SnapshotError> {
        let machine = self.read(id)?.machine;
        self.parts(id, &machine)
    }

    fn parts(&self, id: Digest, machine: &SavedMachine) -> Result<Vec<Digest>, SnapshotError> {
        let parts = machine.contents(&self.cas);
        let mut parts =
            parts.map_err(|source| SnapshotError::Store { id: id.to_string(), source })?;
        parts.push(id);
        Ok(parts)
    }

    /// The content-addressed store.
    pub fn cas(&self) -> &Cas {
        &self.cas
    }
}
