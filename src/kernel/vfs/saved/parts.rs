//! Parts of a saved namespace that are read when something in them is looked at: pins, and directories in which no
//! program changed anything. Each part is a content of the store.

use std::collections::{BTreeMap, HashSet};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::baseline::SavedPin;
use super::part::{PART_BYTES_MAX, get, put};
use super::{SavedBody, SavedNode, Scope};
use crate::base::digest::Digest;
use crate::kernel::vfs::overlay::Overlay;
use crate::kernel::vfs::overlay::folded::FoldedDirs;
use crate::kernel::vfs::overlay::node::{Body, EntryKind, FoldedId, NodeId};
use crate::kernel::vfs::overlay::parts::{Parts, StoredDir};
use crate::kernel::vfs::overlay::pins::Pin;
use crate::kernel::vfs::path::VPath;
use crate::store::{Cas, StoreError, read_slice};

/// A directory in which no program changed anything.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedFolded {
    dir: SavedNode,
    /// Its entries that are no directories, by the numbers in `dir`.
    entries: Vec<SavedNode>,
}

/// The store of a namespace that was restored.
pub(super) struct StoredParts {
    cas: Cas,
    scope: Scope,
    /// Why a part could not be read first.
    damage: OnceLock<String>,
}

impl StoredParts {
    pub fn new(cas: Cas, scope: Scope) -> Self {
        Self { cas, scope, damage: OnceLock::new() }
    }

    /// Notes why `read` failed, as a program only learns that it did.
    fn noted<T>(&self, read: Result<T, StoreError>) -> Result<T, StoreError> {
        read.inspect_err(|error| {
            let _ = self.damage.set(error.to_string());
        })
    }

    fn read_pins(&self, digest: Digest) -> Result<BTreeMap<VPath, Pin>, StoreError> {
        let saved: Vec<SavedPin> = get(&self.cas, digest)?;
        let pins = saved.iter().map(SavedPin::restored);
        pins.collect::<Result<_, _>>().map_err(|_| self.damaged(digest))
    }

    fn read_dir(&self, digest: Digest) -> Result<StoredDir, StoreError> {
        let SavedFolded { dir, entries } = get(&self.cas, digest)?;
        let mut dirs = Vec::new();
        let mut number = |digest| {
            dirs.push(digest);
            FoldedId(u32::try_from(dirs.len() - 1).unwrap_or(u32::MAX))
        };
        // Files that were written, and directories, are no entries here.
        let is_below = |node: &SavedNode| {
            matches!(
                node.body,
                SavedBody::FileBelow(_) | SavedBody::Symlink(_) | SavedBody::Special(_)
            )
        };
        if !matches!(dir.body, SavedBody::Dir(_)) || !entries.iter().all(is_below) {
            return Err(self.damaged(digest));
        }
        let mut restored =
            |node: &SavedNode| self.scope.node(node, None, 1, &self.cas, &mut number);
        let node = restored(&dir).map_err(|_| self.damaged(digest))?;
        let entries = entries.iter().map(restored).collect::<Result<_, _>>();
        Ok(StoredDir { node, entries: entries.map_err(|_| self.damaged(digest))?, dirs })
    }
}

impl Parts for StoredParts {
    fn pins(&self, digest: Digest) -> Result<BTreeMap<VPath, Pin>, StoreError> {
        self.noted(self.read_pins(digest))
    }

    fn dir(&self, digest: Digest) -> Result<StoredDir, StoreError> {
        self.noted(self.read_dir(digest))
    }

    fn damage(&self) -> Option<&str> {
        self.damage.get().map(String::as_str)
    }

    fn damaged(&self, digest: Digest) -> StoreError {
        StoreError::Damaged { path: self.cas.path_of(digest) }
    }

    fn is_of(&self, cas: &Cas) -> bool {
        self.cas.dir() == cas.dir()
    }

    fn copy_dir(&self, digest: Digest, cas: &Cas) -> Result<(), StoreError> {
        for digest in beneath([digest], &self.cas)? {
            if !cas.contains(digest) {
                let text = self.cas.get(digest, PART_BYTES_MAX)?;
                cas.put(digest, &mut read_slice(&text))?;
            }
        }
        Ok(())
    }
}

impl Overlay {
    /// Puts directories in which no program changed anything into `cas`.
    ///
    /// # Errors
    /// Those of [`Cas::put`].
    pub(super) fn fold(&self, cas: &Cas) -> Result<FoldedDirs, StoreError> {
        let mut folded = FoldedDirs::new();
        let is_own = self.folded.parts.as_ref().is_none_or(|parts| parts.is_of(cas));
        if let Some(parts) = self.folded.parts.as_ref().filter(|_| !is_own) {
            for id in self.folded_ids() {
                parts.copy_dir(self.folded.digest(id), cas)?;
            }
        }
        for id in self.foldable_dirs() {
            let mut entries: Vec<NodeId> = Vec::new();
            let number_of = |id| {
                entries.push(id);
                entries.len() as u32 - 1
            };
            let dir = self.saved_node(id, &folded, number_of, cas)?;
            // None of them is a directory, so none has entries with numbers.
            let entry = |id: &NodeId| self.saved_node(*id, &folded, |_| 0, cas);
            let entries = entries.iter().map(entry).collect::<Result<_, _>>()?;
            let is_there = |digest| is_own && self.folded.was_read(digest);
            let digest = put(&SavedFolded { dir, entries }, is_there, cas)?;
            folded.insert(id, digest);
        }
        Ok(folded)
    }

    /// All directories that are in the store.
    fn folded_ids(&self) -> Vec<FoldedId> {
        let entries = self.nodes.iter().filter_map(|(_, node)| match &node.body {
            Body::Dir(dir) => Some(dir.entries.values()),
            _ => None,
        });
        let id = |entry: &super::Entry| match entry.kind {
            EntryKind::Folded(id) => Some(id),
            _ => None,
        };
        entries.flatten().filter_map(id).collect()
    }
}

/// The directories beneath `nodes` that are in `cas`, at any depth.
///
/// # Errors
/// Those of [`Cas::get`].
pub(super) fn folded_beneath(
    nodes: &[SavedNode],
    cas: &Cas,
) -> Result<impl Iterator<Item = Digest>, StoreError> {
    beneath(nodes.iter().flat_map(SavedNode::folded), cas)
}

fn beneath(
    dirs: impl IntoIterator<Item = Digest>,
    cas: &Cas,
) -> Result<impl Iterator<Item = Digest>, StoreError> {
    let mut todo: Vec<Digest> = dirs.into_iter().collect();
    let mut found: HashSet<Digest> = todo.iter().copied().collect();
    while let Some(digest) = todo.pop() {
        let SavedFolded { dir, .. } = get(cas, digest)?;
        todo.extend(dir.folded().filter(|digest| found.insert(*digest)));
    }
    Ok(found.into_iter())
}
