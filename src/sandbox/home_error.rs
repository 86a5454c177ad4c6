//! What can go wrong with sandboxes that are kept in a folder.

use std::path::PathBuf;

use super::snapshot::SnapshotError;
use crate::base::disk::DiskError;
use crate::base::own::OwnError;
use crate::store::StoreError;

/// A [`SandboxHome`](super::SandboxHome) cannot do what it was asked for.
#[derive(thiserror::Error)]
pub enum HomeError {
    /// Nothing has this name.
    #[error(
        "there is no session or snapshot {id:?} in {}; {}`belljar sandbox list` lists what there is, \
         `belljar sandbox create` makes a session",
        dir.display(),
        meant(similar)
    )]
    NotFound {
        /// What was asked for.
        id: String,
        /// The home.
        dir: PathBuf,
        /// Ids of sessions that there are, the most similar first.
        similar: Vec<String>,
    },
    /// Programs run in sessions alone.
    #[error(
        "{id} is a snapshot, which does not change; `belljar sandbox fork {id}` makes a session of it"
    )]
    IsSnapshot {
        /// The snapshot.
        id: String,
    },
    /// Several snapshots have ids that begin so.
    #[error("more than one snapshot begins with {id}; give more of its digits")]
    Ambiguous {
        /// What was asked for.
        id: String,
    },
    /// A session cannot be called so.
    #[error(
        "{id:?} cannot be the id of a session: use up to 64 letters, digits, `-`, `_` and `.`, no \
         `.` first, and not what looks like the id of a snapshot"
    )]
    Id {
        /// What was chosen.
        id: String,
    },
    /// A session is called so.
    #[error(
        "there is a session {id} already; choose another id, or remove it with \
         `belljar sandbox rm {id}`"
    )]
    Exists {
        /// What was chosen.
        id: String,
    },
    /// A session's file is damaged.
    #[error(
        "{} cannot be understood: {message}; bring it back, or remove it with `belljar sandbox rm`",
        path.display()
    )]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        message: String,
    },
    /// A session's file was written by a later belljar.
    #[error(
        "session {id} has version {major}.{minor}, and this belljar reads version 1: update it"
    )]
    Version {
        /// The session.
        id: String,
        /// Its major version.
        major: u32,
        /// Its minor version.
        minor: u32,
    },
    /// What a session is cannot be written or read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// What nobody names cannot be removed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Somebody else could write to the home, or it cannot be examined.
    #[error(transparent)]
    Own(#[from] OwnError),
    /// The disk refuses.
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
