//! Queries for an apply, and updates of the nodes once their changes are on the disk.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Target;
use super::checked::{Checked, is_same};
use super::written::Written;
use crate::base::errno::Errno;
use crate::kernel::vfs::layer::{FileType, Layer, Stat};
use crate::kernel::vfs::overlay::content::Content;
use crate::kernel::vfs::overlay::node::{Body, Dir, EntryKind, MountId, NodeId, Origin, TimesOf};
use crate::kernel::vfs::overlay::times::{ChangedTimes, TimeScale};
use crate::kernel::vfs::overlay::{Overlay, node_bytes};
use crate::kernel::vfs::path::VPath;

/// A node with its place in a mount's tree.
pub(in crate::kernel::vfs) struct Placed {
    pub dir: NodeId,
    pub name: Arc<str>,
    pub id: NodeId,
    /// Its path, relative to the mount's root.
    pub path: VPath,
}

impl Overlay {
    /// All entries of `mount` that have nodes, without other mounts in it; directories come before their entries.
    pub(in crate::kernel::vfs) fn placed_in(&self, mount: MountId) -> Vec<Placed> {
        let mut placed = Vec::new();
        let mut dirs = vec![(self.mount_root(mount), VPath::root())];
        while let Some((dir, at)) = dirs.pop() {
            for (name, entry) in &self.dir(dir).entries {
                let EntryKind::Node(id) = entry.kind else { continue };
                if self.is_mount_point(id) {
                    continue;
                }
                let path = at.join(name);
                if matches!(self.node(id).body, Body::Dir(_)) {
                    dirs.push((id, path.clone()));
                }
                placed.push(Placed { dir, name: name.clone(), id, path });
            }
        }
        placed
    }

    /// The directories among `placed`, the entries of `mount`, with the mount's own.
    pub(super) fn dirs_among(&self, mount: MountId, placed: &[Placed]) -> Vec<(NodeId, VPath)> {
        let root = (self.mount_root(mount), VPath::root());
        let dirs = placed.iter().filter(|it| matches!(self.node(it.id).body, Body::Dir(_)));
        dirs.map(|Placed { id, path, .. }| (*id, path.clone())).chain([root]).collect()
    }

    /// Whether `id` is at the place where a layer has it.
    pub(in crate::kernel::vfs) fn is_at_home(&self, id: NodeId) -> bool {
        let Some(origin) = &self.node(id).origin else { return false };
        let mut at = self.mount_root(self.mount_of(origin.layer));
        for name in origin.path.as_str().split('/') {
            let Body::Dir(dir) = &self.node(at).body else { return false };
            let Some(EntryKind::Node(next)) = dir.entries.get(name).map(|entry| entry.kind) else {
                return false;
            };
            at = next;
        }
        at == id
    }

    /// Nodes in layered mounts whose times a program set, explicitly or by a write, sorted by mount, then bytewise
    /// by path. In mounts of host directories [`Overlay::apply`] sets times even if nothing else changed.
    pub fn changed_times(&self) -> Vec<ChangedTimes> {
        let mut found = Vec::new();
        for (id, mount) in (0..).map(MountId).zip(&self.mounts) {
            if !mount.is_layered || mount.read_only {
                continue;
            }
            let has_clock = self.time_scale != TimeScale::Unknown;
            let timed = |placed: Placed| {
                let node = self.node(placed.id);
                let was_set = node.times_of == TimesOf::Guest;
                let times = node.times;
                (node.carries_times() && (was_set || has_clock)).then_some(ChangedTimes {
                    mount: id,
                    path: placed.path,
                    times,
                    was_set,
                })
            };
            let mut here: Vec<_> = self.placed_in(id).into_iter().filter_map(timed).collect();
            here.sort_unstable_by(|a, b| a.path.cmp(&b.path));
            found.extend(here);
        }
        found
    }

    /// Directories in which programs added or removed names, with the times of that, sorted by mount, then
    /// bytewise by path.
    #[cfg(feature = "remote")]
    pub fn changed_dirs(&self) -> Vec<ChangedTimes> {
        let mut found = Vec::new();
        for (mount, of_mount) in (0..).map(MountId).zip(&self.mounts) {
            if !of_mount.is_layered || of_mount.read_only {
                continue;
            }
            let changed = |(id, path)| {
                let node = Some(self.node(id)).filter(|node| node.is_changed_dir())?;
                Some(ChangedTimes { mount, path, times: node.times, was_set: false })
            };
            let dirs = self.dirs_among(mount, &self.placed_in(mount));
            found.extend(dirs.into_iter().filter_map(changed));
        }
        found.sort_unstable_by(|a, b| (a.mount, &a.path).cmp(&(b.mount, &b.path)));
        found
    }

    /// Loads into memory files of `layer` of `mount` that are not among the nodes `placed` on the disk: those removed
    /// while open, or moved to another mount. The apply will remove them from the disk.
    ///
    /// # Errors
    /// `ENOMEM`; `ENOSPC` at the limit of the upper layer; those of the layer.
    pub(super) fn detach_strays(
        &mut self,
        mount: MountId,
        layer: u16,
        placed: &HashSet<NodeId>,
    ) -> Result<(), (VPath, Errno)> {
        for id in self.nodes.ids() {
            let node = self.node(id);
            let comes_from_here = node.origin.as_ref().is_some_and(|o| o.layer == layer);
            let is_used = node.opens > 0 || node.mount != mount;
            if comes_from_here && is_used && !placed.contains(&id) {
                self.detach_from_layer(id)?;
            }
        }
        Ok(())
    }

    /// Makes `id` independent of its layer.
    pub(in crate::kernel::vfs) fn detach_from_layer(
        &mut self,
        id: NodeId,
    ) -> Result<(), (VPath, Errno)> {
        let node = &mut self.nodes[id];
        let Some(origin) = &node.origin else { return Ok(()) };
        let failed = |errno| (origin.path.clone(), errno);
        if let Body::File(file) = &mut node.body {
            let (charged, held) = (file.content.charged(), file.content.held_bytes());
            if file.content.needs_below(0, u64::MAX) {
                let room = self.limits.upper_bytes_max.saturating_sub(self.upper_bytes);
                let len = usize::try_from(file.content.len()).map_err(|_| failed(Errno::Nospc))?;
                if file.content.growth(0, len) > room {
                    return Err(failed(Errno::Nospc));
                }
                let layer = &self.layers[usize::from(origin.layer)];
                let below = match self.below_files.get(id) {
                    Some(below) => below,
                    None => Arc::new(layer.open(&origin.path).map_err(failed)?),
                };
                file.content.load(&below, 0, u64::MAX).map_err(failed)?;
            }
            if !file.content.is_dirty() {
                self.cache_bytes = self.cache_bytes.saturating_sub(held);
                // Marks it as written.
                file.content.set_len(file.content.len()).map_err(failed)?;
            }
            self.below_files.close(id);
            self.upper_bytes += file.content.charged() - charged;
        }
        self.upper_bytes += node_bytes(&node.body);
        if let Body::File(_) = node.body {
            node.executable = node.executable.or(Some(origin.executable));
        }
        self.seen.extend(node.origin.take().map(|origin| *origin));
        Ok(())
    }

    /// Records that the layer of `target` now has its changes, as `written`.
    pub(super) fn settle(&mut self, target: &Target, written: &Written) {
        let mut settled = HashSet::new();
        let layer = target.layer;
        self.seen.retain(|origin| origin.layer != layer);
        self.forget_whiteouts(self.mount_root(target.mount));
        for Placed { dir, name, id, path } in &target.placed {
            let is_first = settled.insert(*id);
            let stat = self.stat_of_settled(target, written, path);
            if is_first && !self.relocate(*id, layer, path, stat.as_ref()) {
                continue;
            }
            if let Some(origin) = &mut self.node_mut(*id).origin {
                if is_first {
                    origin.names.clear();
                } else if origin.layer == layer {
                    origin.names.push(path.clone());
                }
            }
            if let Some(entry) = self.dir_mut(*dir).entries.get_mut(name) {
                let freed = entry.name_bytes(name);
                entry.shadows = true;
                self.uncharge(freed);
            }
            if let Some(stat) = stat.filter(|_| !is_first) {
                self.seen.push(Origin::new(layer, path, &stat));
            }
            if is_first && matches!(self.node(*id).body, Body::Dir(_)) {
                self.forget_whiteouts(*id);
            }
        }
    }

    /// The attributes at `path` of the layer, from what is known. Looking again could find the write of another program
    /// and take it for the namespace's own.
    fn stat_of_settled(&self, target: &Target, written: &Written, path: &VPath) -> Option<Stat> {
        if let Some(stat) = written.get(path) {
            return Some(*stat);
        }
        match &self.mounts[target.mount.index()].baseline {
            Some(baseline) => baseline.pinned_stat(path),
            None => Layer::stat(&*target.host, path).ok(),
        }
    }

    /// Makes `path` of `layer`, with the attributes `stat`, the origin of `id`; returns whether it is.
    fn relocate(&mut self, id: NodeId, layer: u16, path: &VPath, stat: Option<&Stat>) -> bool {
        let node = &mut self.nodes[id];
        let had_attributes = node.carries_times() || node.executable.is_some();
        if node.times_of != TimesOf::Content {
            node.times_of = TimesOf::Layer;
        }
        let is_here = node.origin.as_ref().is_some_and(|o| o.layer == layer && o.path == *path);
        let is_written = matches!(&node.body, Body::File(file) if file.content.is_dirty());
        if is_here && !is_written && !had_attributes {
            return true;
        }
        let Some(stat) = stat else { return false };
        if stat.file_type != node.body.file_type() {
            return false;
        }
        let mut was_read = node.origin.as_ref().is_some_and(|origin| origin.was_read);
        match &mut node.body {
            Body::File(file) => {
                self.below_files.close(id);
                if file.content.is_dirty() {
                    // The bytes are on the disk and need no memory.
                    was_read = false;
                    let len = file.content.len();
                    let old = std::mem::replace(&mut file.content, Content::below(len));
                    self.upper_bytes = self.upper_bytes.saturating_sub(old.charged());
                }
            }
            Body::Dir(dir) => {
                let dir = Arc::make_mut(dir);
                dir.below = vec![(layer, path.clone())];
                dir.scaffold = false;
            }
            Body::Symlink(_) | Body::Special(_) => {}
        }
        if node.origin.is_none() {
            self.upper_bytes = self.upper_bytes.saturating_sub(node_bytes(&node.body));
        }
        let shown_ns = node.times.mtim;
        self.writes.note_applied(self.time_scale, shown_ns, stat.mtime_ns);
        node.executable = None;
        node.origin =
            Some(Box::new(Origin { was_read, shown_ns, ..Origin::new(layer, path, stat) }));
        true
    }

    fn forget_whiteouts(&mut self, dir: NodeId) {
        let dir = self.dir_mut(dir);
        let complete = dir.complete;
        dir.entries.retain(|_, entry| {
            let is_absent = matches!(entry.kind, EntryKind::Absent);
            entry.shadows &= !is_absent;
            !is_absent || !complete
        });
    }

    /// Updates the stamps of checked files that are unchanged: an apply adds and removes names of files, which
    /// changes their stamps.
    pub(super) fn renew_stamps(&mut self, checked: &Checked) {
        let layers = &self.layers;
        let mut renewed: HashMap<(u16, VPath), u64> = HashMap::new();
        for ((layer, path), before) in checked {
            if let Ok(stat) = layers[usize::from(*layer)].stat_now(path)
                && stat.inode == before.inode
                && is_same(before, &stat)
            {
                renewed.insert((*layer, path.clone()), stat.stamp);
            }
        }
        let stamp_of = |origin: &Origin| renewed.get(&(origin.layer, origin.path.clone())).copied();
        self.restamp(stamp_of);
        for mount in &self.mounts {
            let Some(baseline) = &mount.baseline else { continue };
            let here = renewed.iter().filter(|((layer, _), _)| *layer == mount.layer);
            baseline.renew_stamps(here.map(|((_, path), stamp)| (path, *stamp)));
        }
    }

    /// Drops all changes in layered mounts, and all that was read there, as if they were mounted now. Open files
    /// keep their contents, without a name.
    ///
    /// # Errors
    /// Those of [`Overlay::mount`], if mounts within these mounts cannot be placed again.
    pub fn discard(&mut self, now: u64) -> Result<(), Errno> {
        for index in 0..self.mounts.len() {
            if !self.mounts[index].is_layered {
                continue;
            }
            let mount = MountId(u16::try_from(index).map_err(|_| Errno::Overflow)?);
            let root = self.mount_root(mount);
            self.clear(mount, now, |_, _| false);
            let below = &self.dir(root).below;
            if let Some((layer, path)) = below.last() {
                let stat = self.layers[usize::from(*layer)].stat(path)?;
                self.node_mut(root).times = self.mounts[index].mtimes.of(&stat, self.time_scale).0;
            }
            let layers: Vec<u16> = self.dir(root).below.iter().map(|(layer, _)| *layer).collect();
            // Includes the origins of nodes freed above.
            self.seen.retain(|origin| !layers.contains(&origin.layer));
        }
        self.put_mounts_back().map_err(|(_, errno)| errno)
    }

    /// Removes all entries of `mount`, so that its layers show as they are. Nodes at paths for which `is_kept` is true
    /// stay, directories without entries; they have no place.
    pub(in crate::kernel::vfs) fn clear(
        &mut self,
        mount: MountId,
        now: u64,
        is_kept: impl Fn(&VPath, NodeId) -> bool,
    ) {
        let root = self.mount_root(mount);
        let placed = self.placed_in(mount);
        self.forget_entries(root);
        let Dir { parent, below, .. } = std::mem::take(self.dir_mut(root));
        *self.dir_mut(root) = Dir { parent, below, ..Dir::default() };
        for Placed { id, path, .. } in placed {
            let is_dir = self.file_type(id) == FileType::Directory;
            match (is_dir, is_kept(&path, id)) {
                (true, true) => {
                    self.forget_entries(id);
                    let scaffold = self.dir(id).scaffold;
                    *self.dir_mut(id) = Dir { scaffold, complete: true, ..Dir::default() };
                }
                (true, false) => self.unlink_dir(id),
                (false, true) => {}
                (false, false) => self.drop_link(id, now),
            }
        }
    }
}
