//! Begins the tree of a mount anew, and puts back what programs changed.

use std::collections::HashSet;
use std::sync::Arc;

use super::plan::RefreshPlan;
use crate::base::errno::Errno;
use crate::kernel::vfs::apply::settle::Placed;
use crate::kernel::vfs::diff::{DiffError, failed};
use crate::kernel::vfs::layer::Times;
use crate::kernel::vfs::overlay::Overlay;
use crate::kernel::vfs::overlay::node::{
    Body, Dir, Entry, EntryKind, MADE_INO_END, MountId, NodeId, Origin, TimesOf, ino_below,
    name_len,
};
use crate::kernel::vfs::overlay::pins::Pin;
use crate::kernel::vfs::path::VPath;

/// What is found again only in the tree so far.
pub(super) struct FormerTree {
    /// Times of directories that programs set or changed.
    dir_times: Vec<(VPath, Times, TimesOf)>,
    /// Directories that only hold mount points.
    scaffolds: Vec<(VPath, NodeId)>,
}

impl Overlay {
    /// Empties the mount of `plan`, but for the nodes that are kept.
    pub(super) fn clear_for(&mut self, plan: &RefreshPlan) -> FormerTree {
        let mut former = FormerTree { dir_times: Vec::new(), scaffolds: Vec::new() };
        let mut change_times = Vec::new();
        for Placed { id, path, .. } in self.placed_in(plan.mount) {
            let node = self.node(id);
            change_times.push((id, node.times.ctim));
            let Body::Dir(dir) = &node.body else { continue };
            if plan.kept.contains_key(&path) {
                continue;
            }
            if dir.scaffold {
                former.scaffolds.push((path, id));
            } else if plan.timed_dirs.contains(&path)
                && matches!(plan.pins.get(&path), Some(Pin::There(_)))
            {
                former.dir_times.push((path, node.times, node.times_of));
            }
        }
        former.scaffolds.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let scaffolds: HashSet<NodeId> = former.scaffolds.iter().map(|(_, id)| *id).collect();
        self.clear(plan.mount, 0, |path, id| {
            plan.kept.get(path) == Some(&Some(id)) || scaffolds.contains(&id)
        });
        for (id, ctim) in change_times {
            if self.node(id).nlink > 0 {
                self.node_mut(id).times.ctim = ctim;
            }
        }
        self.seen.retain(|origin| origin.layer != plan.layer);
        former
    }

    /// Puts back what is kept over the new state of the disk.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn put_back(
        &mut self,
        plan: &RefreshPlan,
        former: FormerTree,
    ) -> Result<(), DiffError> {
        let (mount, layer) = (plan.mount, plan.layer);
        let stamp_of = |origin: &Origin| match plan.pins.get(&origin.path) {
            Some(Pin::There(there)) if origin.layer == layer => Some(there.stat.stamp),
            _ => None,
        };
        self.restamp(stamp_of);
        for (path, id) in &plan.kept {
            let there = match plan.pins.get(path) {
                Some(Pin::There(there)) => Some(there),
                _ => None,
            };
            self.seen.extend(there.map(|there| Origin::new(layer, path, &there.stat)));
            let Some((parent, name)) = path.split_last() else { continue };
            let at = |errno| failed("examine", path)(errno);
            match (id, self.shown_dir(mount, &parent).map_err(at)?) {
                (Some(id), Some(dir)) => self.put(dir, name, *id, there.is_some()),
                (Some(_), None) => return Err(at(Errno::Notdir)),
                (None, Some(dir)) if there.is_some() => self.hide(dir, name),
                // Gone with its directory.
                (None, _) => {}
            }
        }
        for (path, id) in former.scaffolds {
            let at = |errno| failed("examine", &path)(errno);
            let Some((parent, name)) = path.split_last() else { continue };
            if self.shown_dir(mount, &path).map_err(at)?.is_some() {
                self.unlink_dir(id);
            } else if let Some(dir) = self.shown_dir(mount, &parent).map_err(at)? {
                self.put(dir, name, id, true);
            }
        }
        for (path, times, times_of) in former.dir_times {
            let found = self.shown_dir(mount, &path).map_err(failed("examine", &path))?;
            if let Some(dir) = found {
                let node = self.node_mut(dir);
                (node.times, node.times_of) = (times, times_of);
            }
        }
        if !plan.timed_dirs.contains(&VPath::root())
            && let Some(now) = plan.now(&VPath::root())?
        {
            let (times, times_of) = self.times_below(mount, &now);
            let root = self.mount_root(mount);
            let node = self.node_mut(root);
            (node.times, node.times_of) = (times, times_of);
        }
        for (path, executable) in &plan.executable {
            let at = |errno| failed("examine", path)(errno);
            let Some((parent, name)) = path.split_last() else { continue };
            let Some(dir) = self.shown_dir(mount, &parent).map_err(at)? else { continue };
            if let Some(id) = self.child(dir, name).map_err(at)? {
                self.choose_executable(id, *executable);
            }
        }
        self.renumber(mount);
        Ok(())
    }

    /// The directory at `path` of `mount`, if there is one.
    ///
    /// # Errors
    /// Those of the layer.
    fn shown_dir(&mut self, mount: MountId, path: &VPath) -> Result<Option<NodeId>, Errno> {
        let mut at = self.mount_root(mount);
        for name in path.as_str().split('/').filter(|name| !name.is_empty()) {
            let dir = self.dir(at);
            let found = match dir.entries.get(name).map(|entry| entry.kind) {
                Some(EntryKind::Node(id)) => Some(id),
                Some(EntryKind::Absent) => None,
                None if dir.complete => None,
                Some(EntryKind::Below(_) | EntryKind::Folded(_)) | None => self.child(at, name)?,
            };
            match found {
                Some(id) if matches!(self.node(id).body, Body::Dir(_)) => at = id,
                _ => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// Makes `name` in `dir` the node `id`, which has no place; `shadows` if a layer has that name.
    fn put(&mut self, dir: NodeId, name: &str, id: NodeId, shadows: bool) {
        let entry = Entry { kind: EntryKind::Node(id), shadows };
        self.upper_bytes += entry.name_bytes(name);
        self.enter(dir, name, entry);
        if let Body::Dir(child) = &mut self.node_mut(id).body {
            let child = Arc::make_mut(child);
            (child.parent, child.name_bytes) = (Some(dir), name_len(name));
        }
    }

    /// Hides the entry `name` of a layer in `dir`.
    fn hide(&mut self, dir: NodeId, name: &str) {
        if !self.dir(dir).below.is_empty() {
            self.enter(dir, name, Entry { kind: EntryKind::Absent, shadows: true });
        }
    }

    fn enter(&mut self, dir: NodeId, name: &str, entry: Entry) {
        self.unlist(dir);
        let is_present = |entry: Entry| !matches!(entry.kind, EntryKind::Absent);
        let dir = self.dir_mut(dir);
        let before = dir.entries.insert(name.into(), entry);
        if dir.complete {
            dir.count += u32::from(is_present(entry));
            dir.count -= u32::from(before.is_some_and(is_present));
        }
    }

    /// Gives nodes that are not in their original place new inode numbers: the disk may have another file there, which
    /// would get the same number.
    fn renumber(&mut self, mount: MountId) {
        let placed = self.placed_in(mount);
        let is_home = |overlay: &Self, placed: &Placed| {
            let ino = ino_below(overlay.node(placed.dir).ino, &placed.name);
            overlay.node(placed.id).ino == ino
        };
        // The number of an entry depends on that of its directory: directories, which come before their entries, first.
        let (dirs, files): (Vec<_>, Vec<_>) =
            placed.iter().partition(|it| matches!(self.node(it.id).body, Body::Dir(_)));
        for placed in dirs {
            if !is_home(self, placed) {
                self.renumber_if_of_layer(placed.id);
            }
        }
        let at_home: HashSet<NodeId> =
            files.iter().filter(|it| is_home(self, it)).map(|it| it.id).collect();
        for placed in files.iter().filter(|it| !at_home.contains(&it.id)) {
            self.renumber_if_of_layer(placed.id);
        }
    }

    fn renumber_if_of_layer(&mut self, id: NodeId) {
        if self.node(id).ino >= MADE_INO_END {
            let ino = self.fresh_ino();
            self.node_mut(id).ino = ino;
        }
    }

    /// Puts mounts at their mount points again, over whatever the disk has there by now.
    ///
    /// # Errors
    /// Those of the layers, with the mount point.
    pub(in crate::kernel::vfs) fn put_mounts_back(&mut self) -> Result<(), (VPath, Errno)> {
        for index in 1..self.mounts.len() {
            let (at, root) = (self.mounts[index].at.clone(), self.mounts[index].root);
            let Some((parent, name)) = at.split_last() else { continue };
            let failed = |errno| (at.clone(), errno);
            let mut dir = self.root();
            for step in parent.as_str().split('/').filter(|step| !step.is_empty()) {
                let child = self.child(dir, step).map_err(failed)?;
                dir = match child.filter(|child| self.expect_dir(*child).is_ok()) {
                    Some(next) => next,
                    None => self.put_scaffold(dir, step, child.is_some()),
                };
            }
            let stands = |entry: &Entry| matches!(entry.kind, EntryKind::Node(id) if id == root);
            if !self.dir(dir).entries.get(name).is_some_and(stands) {
                self.put(dir, name, root, true);
            }
        }
        Ok(())
    }

    /// Makes `name` in `dir` a directory that holds a mount point, where the disk has none any more; `shadows` if it has
    /// something else.
    fn put_scaffold(&mut self, dir: NodeId, name: &str, shadows: bool) -> NodeId {
        let scaffold = Dir { complete: true, scaffold: true, ..Dir::default() };
        let times = self.node(dir).times;
        let id = self.insert_made(dir, Body::Dir(Arc::new(scaffold)), times);
        self.put(dir, name, id, shadows);
        id
    }
}
