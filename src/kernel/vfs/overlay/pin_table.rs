//! All that a [`Baseline`] answered.
//!
//! [`Baseline`]: super::baseline::Baseline

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::drift_kind::DriftKind;
use super::parts::Parts;
use super::pins::{Pin, beneath, prefix_of};
use crate::base::digest::Digest;
use crate::base::errno::Errno;
use crate::kernel::vfs::path::VPath;
use crate::store::{Cas, StoreError};

#[derive(Clone, Default)]
pub(in crate::kernel::vfs) struct Pins {
    pub(in crate::kernel::vfs) by_path: PinTable,
    /// Paths that this session wrote on the disk, in which it differs from others with the same start.
    pub(in crate::kernel::vfs) written: BTreeSet<VPath>,
    /// All that could not be shown as it was.
    pub(in crate::kernel::vfs) drifts: BTreeMap<VPath, DriftKind>,
}

/// Pins by path. Those of a session that was resumed are read from the store leaf by leaf, when one of a leaf is
/// asked for.
#[derive(Clone, Default)]
pub(in crate::kernel::vfs) struct PinTable {
    /// Sorted by their first paths; the first begins with the root. Empty if there are no pins.
    leaves: Vec<Leaf>,
    parts: Option<Arc<dyn Parts>>,
}

/// Pins whose paths are neighbours.
#[derive(Clone)]
pub(in crate::kernel::vfs) struct Leaf {
    /// No path in it is smaller, and none in the leaf before it is as large.
    pub first: VPath,
    /// The pins in the store; `None` if they changed since they were read.
    pub stored: Option<Digest>,
    /// The pins, once they are read.
    pub pins: Option<BTreeMap<VPath, Pin>>,
}

impl From<BTreeMap<VPath, Pin>> for PinTable {
    fn from(pins: BTreeMap<VPath, Pin>) -> Self {
        let leaf = Leaf { first: VPath::root(), stored: None, pins: Some(pins) };
        Self { leaves: vec![leaf], parts: None }
    }
}

impl PinTable {
    /// The pins `leaves` in `parts`, with the first path of each; `None` if these are not sorted.
    pub fn stored(leaves: Vec<(VPath, Digest)>, parts: Arc<dyn Parts>) -> Option<Self> {
        let is_sorted = leaves.is_sorted_by(|(a, _), (b, _)| a < b);
        let begins_with_root = leaves.first().is_none_or(|(first, _)| first.is_root());
        let leaf = |(first, digest)| Leaf { first, stored: Some(digest), pins: None };
        let leaves = leaves.into_iter().map(leaf).collect();
        (is_sorted && begins_with_root).then_some(Self { leaves, parts: Some(parts) })
    }

    /// Whether pins that were not read are in `cas`, or all were read.
    pub fn is_of(&self, cas: &Cas) -> bool {
        self.parts.as_ref().is_none_or(|parts| parts.is_of(cas))
    }

    /// The leaves, to be saved.
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// Replaces leaves by those that were put into the store; `None` for one that was there.
    pub fn note_stored(&mut self, saved: Vec<Option<Vec<Leaf>>>) {
        let before = std::mem::take(&mut self.leaves);
        for (leaf, saved) in before.into_iter().zip(saved) {
            self.leaves.extend(saved.unwrap_or_else(|| vec![leaf]));
        }
        // The one before it may have been left without pins.
        if let Some(leaf) = self.leaves.first_mut() {
            leaf.first = VPath::root();
        }
    }

    /// The pin of `path`.
    ///
    /// # Errors
    /// `EIO` if it cannot be read.
    pub fn find(&mut self, path: &VPath) -> Result<Option<&Pin>, Errno> {
        if self.leaves.is_empty() {
            return Ok(None);
        }
        let at = self.leaf_of(path);
        Ok(self.pins_of(at).map_err(|_| Errno::Io)?.get(path))
    }

    /// As [`PinTable::find`], after [`PinTable::read_all`].
    pub fn get(&mut self, path: &VPath) -> Option<&Pin> {
        self.find(path).ok().flatten()
    }

    /// The pin of `path`, to be changed.
    pub fn get_mut(&mut self, path: &VPath) -> Option<&mut Pin> {
        self.find(path).ok().flatten()?;
        let at = self.leaf_of(path);
        self.changed(at)?.get_mut(path)
    }

    /// Sets the pin of `path`.
    ///
    /// # Errors
    /// `EIO` if its neighbours cannot be read.
    pub fn insert(&mut self, path: VPath, pin: Pin) -> Result<(), Errno> {
        if self.leaves.is_empty() {
            let (first, pins) = (VPath::root(), Some(BTreeMap::new()));
            self.leaves.push(Leaf { first, stored: None, pins });
        }
        let at = self.leaf_of(&path);
        self.pins_of(at).map_err(|_| Errno::Io)?;
        self.changed(at).ok_or(Errno::Io)?.insert(path, pin);
        Ok(())
    }

    /// Removes the pin of `path`.
    pub fn remove(&mut self, path: &VPath) {
        if self.get(path).is_some() {
            let at = self.leaf_of(path);
            self.changed(at).map(|pins| pins.remove(path));
        }
    }

    /// Reads all pins.
    ///
    /// # Errors
    /// Those of [`Parts::pins`].
    pub fn read_all(&mut self) -> Result<(), StoreError> {
        (0..self.leaves.len()).try_for_each(|at| self.pins_of(at).map(drop))
    }

    /// All pins, sorted by path, after [`PinTable::read_all`].
    pub fn iter(&self) -> impl Iterator<Item = (&VPath, &Pin)> {
        self.leaves.iter().filter_map(|leaf| leaf.pins.as_ref()).flatten()
    }

    /// The pins beneath the directory `dir`, at any depth.
    ///
    /// # Errors
    /// `EIO` if some cannot be read.
    pub fn beneath<'p>(
        &'p mut self,
        dir: &VPath,
    ) -> Result<impl Iterator<Item = (&'p VPath, &'p Pin)> + use<'p>, Errno> {
        let begin = if self.leaves.is_empty() { 0 } else { self.leaf_of(&dir.join("")) };
        let prefix = prefix_of(dir);
        let is_past =
            |first: &VPath| *first.as_str() > *prefix && !first.as_str().starts_with(&prefix);
        let mut end = begin;
        while self.leaves.get(end).is_some_and(|leaf| end == begin || !is_past(&leaf.first)) {
            self.pins_of(end).map_err(|_| Errno::Io)?;
            end += 1;
        }
        let dir = dir.clone();
        let pins = self.leaves[begin..end].iter().filter_map(|leaf| leaf.pins.as_ref());
        Ok(pins.flat_map(move |pins| beneath(pins, &dir)))
    }

    /// The index of the leaf that has `path`, if any leaf does.
    fn leaf_of(&self, path: &VPath) -> usize {
        self.leaves.partition_point(|leaf| leaf.first <= *path).saturating_sub(1)
    }

    fn pins_of(&mut self, at: usize) -> Result<&BTreeMap<VPath, Pin>, StoreError> {
        let next = self.leaves.get(at + 1).map(|leaf| leaf.first.clone());
        let Leaf { first, stored, pins } = &mut self.leaves[at];
        let read = match (pins.take(), *stored, &self.parts) {
            (Some(pins), ..) => pins,
            (None, Some(digest), Some(parts)) => {
                let read = parts.pins(digest)?;
                let is_here =
                    |path: &VPath| path >= first && next.as_ref().is_none_or(|it| path < it);
                let ends = [read.first_key_value(), read.last_key_value()].into_iter();
                if !ends.flatten().all(|(path, _)| is_here(path)) {
                    return Err(parts.damaged(digest));
                }
                read
            }
            // Only what is in the store is not here.
            (None, ..) => BTreeMap::new(),
        };
        Ok(pins.insert(read))
    }

    /// The pins of a leaf that was read, to be changed.
    fn changed(&mut self, at: usize) -> Option<&mut BTreeMap<VPath, Pin>> {
        let leaf = &mut self.leaves[at];
        let pins = leaf.pins.as_mut()?;
        leaf.stored = None;
        Some(pins)
    }
}
