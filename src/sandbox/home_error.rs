//! Errors of homes.

use std::path::PathBuf;

use super::snapshot::SnapshotError;
use crate::base::disk::DiskError;
use crate::base::own::OwnError;
use crate::store::StoreError;

/// An operation of a [`SandboxHome`](super::SandboxHome) failed.
#[derive(thiserror::Error)]
pub enum HomeError {
    /// There is no such session or snapshot.
    #[error(
        "no session or snapshot {id:?} in {}; {}list them with `belljar sandbox list`, make a session \
         with `belljar sandbox create`",
        dir.display(),
        meant(similar)
    )]
    NotFound {
        /// The id.
        id: String,
        /// The home.
        dir: PathBuf,
        /// Ids of existing sessions, the most similar first.
        similar: Vec<String>,
    },
    /// Programs run in sessions only.
    #[error(
        "{id} is a snapshot, which cannot change; make a session of it with `belljar sandbox fork {id}`"
    )]
    IsSnapshot {
        /// The snapshot.
        id: String,
    },
    /// Several snapshots have ids with this prefix.
    #[error("several snapshots begin with {id}; give more digits")]
    Ambiguous {
        /// The prefix.
        id: String,
    },
    /// The id is invalid for a session.
    #[error(
        "invalid session id {id:?}: use up to 64 letters, digits, `-`, `_` and `.`, not beginning \
         with `.`, and not the digest of a snapshot"
    )]
    Id {
        /// The id.
        id: String,
    },
    /// The id is in use.
    #[error(
        "session {id} already exists; choose another id, or remove it with `belljar sandbox rm {id}`"
    )]
    Exists {
        /// The id.
        id: String,
    },
    /// A session's file is damaged.
    #[error(
        "{} is damaged: {message}; restore it, or remove the session with `belljar sandbox rm`",
        path.display()
    )]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        message: String,
    },
    /// A session's file was written by a newer belljar.
    #[error(
        "session {id} has version {major}.{minor}, and this belljar reads version 1; use a newer belljar"
    )]
    Version {
        /// The session.
        id: String,
        /// Its major version.
        major: u32,
        /// Its minor version.
        minor: u32,
    },
    /// The state of a session cannot be written or read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// Garbage cannot be removed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Others could write to the home, or its permissions cannot be read.
    #[error(transparent)]
    Own(#[from] OwnError),
    /// A file cannot be accessed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

crate::base::readable::readable!(HomeError);

fn meant(similar: &[String]) -> String {
    if similar.is_empty() {
        String::new()
    } else {
        format!("did you mean {}? ", similar.join(", "))
    }
}
