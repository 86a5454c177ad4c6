//! Digests of files in the folders of mounts that were read before, so that they need not be read again.

use std::path::Path;

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;

use crate::base::digest::{Digest, hex};
use crate::kernel::vfs::{Blob, Layer as _, Mount, Overlay, VPath, beneath};
use crate::store::{FileState, FolderDigests};

/// What is known of the folders of mounts.
pub struct KnownInputs(Vec<(String, FolderDigests)>);

impl KnownInputs {
    /// What the directory `dir` keeps of the folders of `mounts`.
    pub fn of(dir: &Path, mounts: &[Mount]) -> Self {
        let known =
            |mount: &Mount| Some((mount.path(), FolderDigests::open(dir, mount.host()?.path())));
        Self(mounts.iter().filter_map(known).collect())
    }

    /// The table of the mount of the absolute path `real`, and the path there.
    fn of_path<'p>(&mut self, real: &'p str) -> Option<(&mut FolderDigests, &'p str)> {
        innermost(self.0.iter_mut().map(|(at, table)| (at, table)), real)
    }

    /// The digest of the file at the absolute path `real`, whose state is `state`, if it was read in that.
    pub fn get(&mut self, real: &str, state: FileState) -> Option<api::Digest> {
        let (table, rest) = self.of_path(real)?;
        let size_bytes = i64::try_from(state.len_bytes()).ok()?;
        Some(api::Digest { hash: hex(&table.get(rest, state)?), size_bytes })
    }

    /// The file at the absolute path `real` has the digest `digest`; `state` is what it was before it was read.
    pub fn put(&mut self, vfs: &Overlay, real: &str, state: FileState, digest: &api::Digest) {
        if state_of(vfs, real) == Some(state)
            && let Some((table, rest)) = self.of_path(real)
            && let Some(sha256) = Digest::from_hex(&digest.hash)
        {
            table.put(rest, state, *sha256.as_bytes());
        }
    }

    /// Keeps what is known now.
    pub fn save(self) {
        self.0.into_iter().for_each(|(_, table)| table.save());
    }
}

/// That of the `mounts`, each with its absolute path, which has what is at the absolute path `real`, and the path there.
pub fn innermost<T>(
    mounts: impl Iterator<Item = (impl AsRef<str>, T)>,
    real: &str,
) -> Option<(T, &str)> {
    let below = mounts.filter_map(|(at, mount)| Some((mount, beneath(at.as_ref(), real)?)));
    // The one with the shortest rest hides the others.
    below.min_by_key(|(_, rest)| rest.len())
}

/// The state of the file at the absolute path `real` in the folder of its mount.
pub fn state_of(vfs: &Overlay, real: &str) -> Option<FileState> {
    let (mount, rest) = innermost(vfs.mounts().iter().map(|mount| (mount.path(), mount)), real)?;
    match mount.host()?.open(&VPath::parse(rest).ok()?).ok()? {
        Blob::Host(file) => file.state(),
        Blob::Bytes(_) | Blob::Part { .. } => None,
    }
}
