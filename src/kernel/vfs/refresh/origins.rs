//! Moved and linked nodes whose origin changed on the disk or is gone.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::is_only_touched;
use super::keeping::Keeping;
use crate::base::errno::Errno;
use crate::kernel::vfs::apply::conflicts::{Conflict, ConflictKind};
use crate::kernel::vfs::diff::Change;
use crate::kernel::vfs::layer::host_dir::HostDir;
use crate::kernel::vfs::layer::{FileType, Layer, Stat};
use crate::kernel::vfs::overlay::baseline::Baseline;
use crate::kernel::vfs::overlay::node::{Body, EntryKind, MountId, NodeId, Origin};
use crate::kernel::vfs::overlay::{Overlay, node_bytes};
use crate::kernel::vfs::path::VPath;

/// A place in the namespace.
type Place = (MountId, VPath);

impl Overlay {
    /// Sets the stamps of all origins for which `stamp_of` returns one.
    pub(in crate::kernel::vfs) fn restamp(&mut self, stamp_of: impl Fn(&Origin) -> Option<u64>) {
        for id in self.nodes.ids() {
            // Checked first: a mutable access copies what clones share.
            let Some(stamp) = self.node(id).origin.as_deref().and_then(&stamp_of) else { continue };
            if let Some(origin) = &mut self.node_mut(id).origin {
                origin.stamp = stamp;
            }
        }
        for origin in &mut self.seen {
            origin.stamp = stamp_of(origin).unwrap_or(origin.stamp);
        }
    }

    /// The origins of directories of `layer` that were moved within `mount`.
    pub(super) fn moved_dirs(&self, mount: MountId, layer: u16) -> BTreeSet<VPath> {
        let mut moved = BTreeSet::new();
        for placed in self.placed_in(mount) {
            let node = self.node(placed.id);
            let origin = node.origin.as_ref().filter(|_| matches!(node.body, Body::Dir(_)));
            let origin = origin.filter(|it| it.layer == layer && it.path != placed.path);
            moved.extend(origin.map(|origin| origin.path.clone()));
        }
        moved
    }

    /// Makes moved and linked nodes independent if their origin is gone or changed on the disk, and returns conflicts:
    /// programs keep what they have, as new files. `changes` are those of all mounts, as a file of this one may have
    /// been moved to another.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn part_from_origins(
        &mut self,
        changes: &[Change],
        baseline: &Baseline,
        keeping: &mut Keeping,
    ) -> Result<Vec<Conflict>, (VPath, Errno)> {
        let mut gone: Vec<(NodeId, VPath, Place, Option<Stat>)> = Vec::new();
        for (id, to) in self.came_from_elsewhere(changes, keeping) {
            let node = self.node(id);
            let is_here = to.0 == keeping.mount;
            let origin = node.origin.as_deref().filter(|it| it.layer == keeping.layer);
            let origin = origin.filter(|it| !is_here || it.path != to.1);
            let Some(origin) = origin else { continue };
            let path = &origin.path;
            let failed = |errno| (path.clone(), errno);
            let now = baseline.disk().look(path).map_err(failed)?;
            let is_dir = matches!(node.body, Body::Dir(_));
            // A change at that path is compared on its own. But a directory that is gone cannot be listed again.
            if keeping.changed.contains(path) && !is_dir {
                continue;
            }
            let is_as_it_was = match &now {
                Some(now) if is_dir => now.file_type == FileType::Directory,
                Some(now) => now.stamp == origin.stamp || keeping.renewed.contains_key(path),
                None => false,
            };
            if is_as_it_was {
                continue;
            }
            if let (Some(now), Some(before)) = (&now, baseline.pinned_stat(path))
                && !is_dir
                && is_only_touched(path, &before, now, baseline).map_err(failed)?
            {
                keeping.renewed.insert(path.clone(), *now);
                continue;
            }
            gone.push((id, path.clone(), to, now));
        }
        let mut told: BTreeSet<VPath> = BTreeSet::new();
        let mut conflicts = Vec::new();
        for (id, path, to, now) in gone {
            let is_parted = self.part(id);
            if is_parted {
                keeping.given_back.insert(path.clone(), id);
            }
            // Reported once for a directory.
            let is_told = keeping.changed.contains(&path) || is_within(&path, &told);
            if is_parted && is_told || !told.insert(path.clone()) {
                continue;
            }
            let what = match now {
                _ if is_parted => ConflictKind::OriginGone(to.0, to.1),
                Some(_) => ConflictKind::Changed,
                None => ConflictKind::Vanished,
            };
            conflicts.push(Conflict { mount: keeping.mount, path, what });
        }
        Ok(conflicts)
    }

    /// The nodes in `changes` that may come from elsewhere, with their places; also directories that replaced others,
    /// which is not a change of them.
    fn came_from_elsewhere(&self, changes: &[Change], keeping: &Keeping) -> Vec<(NodeId, Place)> {
        let is_made = |change: &&Change| {
            change.mount != keeping.mount || keeping.changed.contains(&change.path)
        };
        let made = changes.iter().filter(is_made);
        let made = made.filter_map(|it| Some((it.after?, (it.mount, it.path.clone()))));
        let mut made: Vec<_> = made.collect();
        let known: HashSet<NodeId> = changes.iter().filter_map(|it| it.after).collect();
        for mount in (0..self.mounts().len()).filter_map(|index| u16::try_from(index).ok()) {
            let placed = self.placed_in(MountId(mount)).into_iter();
            let dirs = placed.filter(|it| matches!(self.node(it.id).body, Body::Dir(_)));
            let others = dirs.filter(|it| !known.contains(&it.id));
            made.extend(others.map(|it| (it.id, (MountId(mount), it.path))));
        }
        made
    }

    /// Makes `id` a node created here; returns whether its content is complete.
    fn part(&mut self, id: NodeId) -> bool {
        match self.node(id).body {
            Body::File(_) | Body::Symlink(_) => self.sever(id).is_ok(),
            Body::Dir(_) => {
                self.part_dir(id);
                true
            }
            Body::Special(_) => false,
        }
    }

    fn part_dir(&mut self, id: NodeId) {
        if self.node_mut(id).origin.take().is_none() {
            return;
        }
        self.unlist(id);
        let dir = self.dir_mut(id);
        dir.below.clear();
        dir.entries.retain(|_, entry| matches!(entry.kind, EntryKind::Node(_)));
        let mut made_bytes = 0;
        for (name, entry) in &mut dir.entries {
            made_bytes -= entry.name_bytes(name).cast_signed();
            entry.shadows = false;
            made_bytes += entry.name_bytes(name).cast_signed();
        }
        dir.complete = true;
        dir.count = u32::try_from(dir.entries.len()).unwrap_or(u32::MAX);
        let bytes = node_bytes(&self.node(id).body).saturating_add_signed(made_bytes);
        self.upper_bytes = self.upper_bytes.saturating_add(bytes);
    }

    /// The names of entries with nodes in the directory `dir`.
    pub(in crate::kernel::vfs) fn known_names(&self, dir: NodeId) -> Vec<Arc<str>> {
        let entries = self.dir(dir).entries.iter();
        let nodes = entries.filter(|(_, entry)| matches!(entry.kind, EntryKind::Node(_)));
        nodes.map(|(name, _)| name.clone()).collect()
    }

    /// Lets new entries on the disk show through directories that were moved; returns conflicts with entries that
    /// programs created under the same names.
    pub(super) fn list_moved_dirs_anew(
        &mut self,
        keeping: &Keeping,
        disk: &HostDir,
    ) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        if keeping.moved_dirs.is_empty() {
            return conflicts;
        }
        let origins = self.nodes.iter().filter_map(|(_, node)| node.origin.as_deref());
        let origins = origins.chain(&self.seen).filter(|origin| origin.layer == keeping.layer);
        let seen: HashSet<VPath> = origins.map(|origin| origin.path.clone()).collect();
        for placed in self.placed_in(keeping.mount) {
            let node = self.node(placed.id);
            let origin = node.origin.as_ref().filter(|it| it.layer == keeping.layer);
            let is_moved = origin.is_some_and(|it| keeping.moved_dirs.contains(&it.path));
            let (Some(origin), true) = (origin, is_moved) else { continue };
            if !matches!(node.body, Body::Dir(_)) {
                continue;
            }
            let from = origin.path.clone();
            let names = self.known_names(placed.id);
            let made = names.iter().map(|name| from.join(name)).filter(|path| !seen.contains(path));
            let appeared = made.filter(|path| disk.stat(path).is_ok());
            conflicts.extend(appeared.map(|path| {
                let (mount, what) = (keeping.mount, ConflictKind::Appeared);
                Conflict { mount, path, what }
            }));
            self.unlist(placed.id);
            let dir = self.dir_mut(placed.id);
            dir.entries.retain(|_, entry| match entry.kind {
                EntryKind::Node(_) => true,
                EntryKind::Absent => entry.shadows,
                EntryKind::Below(_) => false,
            });
            (dir.complete, dir.count, dir.misses) = (false, 0, 0);
        }
        conflicts
    }
}

/// Whether `path` is beneath one of the directories `dirs`.
fn is_within(path: &VPath, dirs: &BTreeSet<VPath>) -> bool {
    let above = |path: &VPath| path.split_last().map(|(dir, _)| dir);
    let mut dir = above(path);
    while let Some(at) = dir {
        if dirs.contains(&at) {
            return true;
        }
        dir = above(&at);
    }
    false
}

/// A conflict if a directory that programs removed has other entries on the disk than those they removed.
pub(super) fn holds_another(
    change: &Change,
    keeping: &Keeping,
    disk: &HostDir,
    removed: &HashSet<&VPath>,
) -> Option<Conflict> {
    let was_dir = change.before_type() == Some(FileType::Directory);
    if !was_dir || keeping.moved_dirs.contains(&change.path) {
        return None;
    }
    let names = disk.names(&change.path).ok()?;
    let is_removed = |name: &str| removed.contains(&change.path.join(name));
    let others = names.iter().filter(|name| !name.to_str().is_some_and(is_removed));
    let name = others.map(|name| name.to_string_lossy().into_owned()).min()?;
    let (mount, path) = (change.mount, change.path.clone());
    Some(Conflict { mount, path, what: ConflictKind::Holds(name) })
}
