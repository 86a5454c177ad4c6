//! Determines what a refresh keeps of a mount.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::base::errno::Errno;
use crate::kernel::vfs::apply::settle::Placed;
use crate::kernel::vfs::layer::host_dir::HostDir;
use crate::kernel::vfs::layer::{DirEntry, FileType, Layer, Stat};
use crate::kernel::vfs::overlay::baseline::{Baseline, List, Pin, Pins, There, beneath};
use crate::kernel::vfs::overlay::node::{
    Body, Entry, EntryKind, MADE_INO_END, MountId, NodeId, Origin, TimesOf, ino_below,
};
use crate::kernel::vfs::overlay::{Overlay, node_bytes};
use crate::kernel::vfs::path::VPath;

/// The paths of one mount whose former state is kept.
pub(super) struct Keeping {
    pub mount: MountId,
    pub layer: u16,
    /// Changed paths whose change the disk does not have.
    pub changed: BTreeSet<VPath>,
    /// Those of `changed` that existed before.
    pub stood: BTreeSet<VPath>,
    /// Changed paths whose change the disk has.
    pub settled: BTreeSet<VPath>,
    /// Origins of kept nodes; includes everything beneath directories.
    pub origins: BTreeSet<VPath>,
    /// Paths that are the origin of a node.
    pub sources: HashSet<VPath>,
    /// Kept files with several names.
    pub linked: HashSet<NodeId>,
    /// New attributes of files that were touched but not changed.
    pub renewed: BTreeMap<VPath, Stat>,
    /// Origins of directories that were moved within the mount.
    pub moved_dirs: BTreeSet<VPath>,
    /// Names that exist on the disk again, whose nodes are elsewhere and independent by now.
    pub given_back: BTreeMap<VPath, NodeId>,
}

impl Keeping {
    /// Whether `path` is an unchanged entry of a directory that was moved.
    pub(super) fn moves_along(&self, path: &VPath) -> bool {
        let dir = path.split_last().map(|(dir, _)| dir);
        dir.is_some_and(|dir| self.moved_dirs.contains(&dir)) && !self.changed.contains(path)
    }

    pub(super) fn keeps(&self, path: &VPath) -> bool {
        let mut at = path.clone();
        if self.changed.contains(path) {
            return true;
        }
        loop {
            if self.origins.contains(&at) {
                return true;
            }
            match at.split_last() {
                Some((parent, _)) => at = parent,
                None => return false,
            }
        }
    }
}

impl Overlay {
    /// Adds the origins of kept nodes that are not in their original place.
    pub(super) fn note_origins(&self, keeping: &mut Keeping) {
        for placed in self.placed_in(keeping.mount) {
            let node = self.node(placed.id);
            let Some(origin) = &node.origin else { continue };
            let is_dir = matches!(node.body, Body::Dir(_));
            // A changed time alone is no conflict if the disk has another file now, or has what the session wrote.
            // Applied files keep the session's time of the write, which the disk does not have.
            let is_timed = || {
                let now = self.layers[usize::from(origin.layer)].stat_now(&origin.path);
                let Some(now) = now.ok().filter(|now| now.stamp == origin.stamp) else {
                    return false;
                };
                let (times, times_of) = self.times_below(keeping.mount, &now);
                let was_applied = times_of == TimesOf::Layer
                    && node.times_of == TimesOf::Layer
                    && node.times.mtim != times.mtim;
                !is_dir && (node.carries_times() || was_applied)
            };
            let is_moved_dir = is_dir && origin.path != placed.path;
            let is_kept = keeping.changed.contains(&placed.path) || is_moved_dir || is_timed();
            if origin.layer == keeping.layer && is_kept {
                keeping.origins.insert(origin.path.clone());
            }
        }
        self.note_linked(keeping);
        let origins = self.nodes.iter().filter_map(|(_, node)| node.origin.as_deref());
        let origins = origins.filter(|origin| origin.layer == keeping.layer);
        keeping.sources = origins.map(|origin| origin.path.clone()).collect();
        // Nodes that were moved to another mount also come from here.
        for (_, node) in self.nodes.iter().filter(|(_, node)| node.mount != keeping.mount) {
            let origin = node.origin.as_ref().filter(|origin| origin.layer == keeping.layer);
            keeping.origins.extend(origin.map(|origin| origin.path.clone()));
        }
    }

    /// Keeps files with several names, as the disk cannot tell that these are one file: those with a changed name, and
    /// those that are unchanged under all names.
    fn note_linked(&self, keeping: &mut Keeping) {
        let mut names: HashMap<NodeId, Vec<VPath>> = HashMap::new();
        for placed in self.placed_in(keeping.mount) {
            let node = self.node(placed.id);
            if node.nlink > 1 && !matches!(node.body, Body::Dir(_)) {
                names.entry(placed.id).or_default().push(placed.path);
            }
        }
        for (id, names) in names {
            let origin = self.node(id).origin.as_ref().filter(|it| it.layer == keeping.layer);
            let layer = &self.layers[usize::from(keeping.layer)];
            let is_as_it_was = |path: &VPath| {
                let stamp = layer.stat_now(path).ok().map(|now| now.stamp);
                origin.is_some_and(|origin| stamp == Some(origin.stamp))
            };
            let is_changed = names.iter().any(|path| keeping.changed.contains(path));
            if is_changed || names.iter().all(is_as_it_was) {
                keeping.linked.insert(id);
                keeping.origins.extend(origin.map(|origin| origin.path.clone()));
                keeping.origins.extend(names);
            }
        }
    }

    /// Drops what was only looked at in the mount.
    pub(super) fn prune(&mut self, keeping: &Keeping) {
        let root = self.mount_root(keeping.mount);
        // Directories whose entries may come from the layer, each after its parent.
        let mut dirs = vec![(root, VPath::root(), None)];
        let mut at = 0;
        while at < dirs.len() {
            let (dir, path, _) = dirs[at].clone();
            for (name, id) in self.prune_entries(dir, &path, keeping) {
                dirs.push((id, path.join(&name), Some((dir, name))));
            }
            at += 1;
        }
        // Directories at a path where the disk has one too show both.
        let is_elsewhere = |id: NodeId, path: &VPath| {
            self.node(id).origin.as_ref().is_some_and(|origin| origin.path != *path)
        };
        let merged: HashSet<VPath> = dirs
            .iter()
            .filter(|(id, path, _)| is_elsewhere(*id, path))
            .map(|(_, path, _)| path.clone())
            .collect();
        // Drop empty directories, innermost first.
        for (id, path, place) in dirs.into_iter().rev() {
            let Some((dir, name)) = place else { continue };
            let node = self.node(id);
            let is_needed = node.times_of == TimesOf::Guest
                || node.opens > 0
                || self.is_fixed(id)
                || !self.dir(id).entries.is_empty()
                || keeping.keeps(&path);
            if !is_needed {
                self.dir_mut(dir).entries.swap_remove(&*name);
                self.unlink_dir(id);
            }
        }
        let layer = Arc::clone(&self.layers[usize::from(keeping.layer)]);
        // What is gone and has no node any more has been told, or is gone on both sides.
        let is_gone = |path: &VPath| {
            matches!(layer.stat_now(path), Err(Errno::Noent | Errno::Notdir))
                && !keeping.changed.contains(path)
        };
        let is_kept = |origin: &Origin| {
            let is_shown = || keeping.keeps(&origin.path) || merged.contains(&origin.path);
            origin.layer != keeping.layer || is_shown() && !is_gone(&origin.path)
        };
        self.seen.retain(is_kept);
    }

    /// Gives nodes that are not in their original place new inode numbers: the disk may have another file there, which
    /// would get the same number.
    pub(super) fn renumber(&mut self, mount: MountId) {
        let placed = self.placed_in(mount);
        let is_home = |overlay: &Self, placed: &Placed| {
            let ino = ino_below(overlay.node(placed.dir).ino, &placed.name);
            overlay.node(placed.id).ino == ino
        };
        let linked = placed.iter().filter(|it| self.node(it.id).nlink > 1 && is_home(self, it));
        let at_home: HashSet<NodeId> = linked.map(|placed| placed.id).collect();
        for placed in &placed {
            let is_of_layer = self.node(placed.id).ino >= MADE_INO_END;
            if is_of_layer && !at_home.contains(&placed.id) && !is_home(self, placed) {
                let ino = self.fresh_ino();
                self.node_mut(placed.id).ino = ino;
            }
        }
    }

    /// Drops what was only looked at in the directory `dir`; returns the subdirectories still to be pruned.
    fn prune_entries(
        &mut self,
        dir: NodeId,
        path: &VPath,
        keeping: &Keeping,
    ) -> Vec<(Arc<str>, NodeId)> {
        let (mut inner, mut dropped) = (Vec::new(), Vec::new());
        self.unlist(dir);
        // Whiteouts that hide names of the place it was moved from.
        let hides = self.dir(dir).below.iter().any(|below| *below != (keeping.layer, path.clone()));
        let entries = std::mem::take(&mut self.dir_mut(dir).entries);
        let mut kept = entries.clone();
        kept.clear();
        for (name, mut entry) in entries {
            let at = path.join(&name);
            let mut shows_layer = false;
            let keeps = match entry.kind {
                EntryKind::Below(_) => false,
                EntryKind::Node(id) if keeping.given_back.get(&at) == Some(&id) => false,
                EntryKind::Absent => entry.shadows && (hides || keeping.keeps(&at)),
                EntryKind::Node(id) if self.is_fixed(id) => true,
                EntryKind::Node(id) => {
                    let node = self.node(id);
                    let is_home = node
                        .origin
                        .as_ref()
                        .is_some_and(|it| it.layer == keeping.layer && it.path == at);
                    let is_kept =
                        keeping.keeps(&at) || node.opens > 0 || keeping.linked.contains(&id);
                    match &node.body {
                        Body::Dir(_) if is_home => {
                            inner.push((name.clone(), id));
                            true
                        }
                        _ if is_kept => true,
                        // Created on both sides: compare the entries one by one.
                        Body::Dir(_) => {
                            shows_layer = self.take_from_layer(id, &at, keeping);
                            inner.push((name.clone(), id));
                            true
                        }
                        _ => false,
                    }
                }
            };
            if shows_layer {
                // Removing it here must not uncover that of the layer.
                self.uncharge(entry.name_bytes(&name));
                entry.shadows = true;
            }
            if keeps {
                kept.insert(name, entry);
            } else {
                dropped.push((name, entry));
            }
        }
        let this = self.dir_mut(dir);
        this.entries = kept;
        if !this.below.is_empty() {
            (this.complete, this.count, this.misses) = (false, 0, 0);
        }
        for (name, entry) in dropped {
            self.uncharge(entry.name_bytes(&name));
            if let EntryKind::Node(id) = entry.kind {
                self.drop_link(id, 0);
            }
        }
        inner
    }

    /// Lets the layer show through the directory `id` at `path`, which was created or moved here; returns whether the
    /// layer has one.
    fn take_from_layer(&mut self, id: NodeId, path: &VPath, keeping: &Keeping) -> bool {
        let layer = keeping.layer;
        // What the disk has there belongs to the directory that was moved away.
        if keeping.moved_dirs.contains(path) {
            return false;
        }
        let Ok(stat) = self.layers[usize::from(layer)].stat_now(path) else { return false };
        let here = (layer, path.clone());
        let below = &mut self.dir_mut(id).below;
        if !below.contains(&here) {
            below.push(here);
        }
        self.shadow_what_stood(id, path, keeping);
        if self.node(id).origin.is_none() {
            self.uncharge(node_bytes(&self.node(id).body));
            self.node_mut(id).origin = Some(Box::new(Origin::new(layer, path, &stat)));
        } else {
            // It still shows the place it was moved from.
            self.seen.push(Origin::new(layer, path, &stat));
        }
        true
    }

    /// Hides what was in `path` before the directory `id` replaced it, and was not created again.
    fn shadow_what_stood(&mut self, id: NodeId, path: &VPath, keeping: &Keeping) {
        let beneath = format!("{}/", path.as_str());
        let stood = keeping.stood.range(path.join("")..);
        let stood = stood.map_while(|path| path.as_str().strip_prefix(&beneath));
        let removed: Vec<Arc<str>> =
            stood.filter(|name| !name.contains('/')).map(Arc::from).collect();
        let mut freed = 0;
        let this = self.dir_mut(id);
        for (name, entry) in &mut this.entries {
            let at = path.join(name);
            let is_new = keeping.changed.contains(&at) && !keeping.stood.contains(&at);
            if matches!(entry.kind, EntryKind::Node(_)) && !is_new {
                freed += entry.name_bytes(name);
                entry.shadows = true;
            }
        }
        for name in removed {
            let absent = Entry { kind: EntryKind::Absent, shadows: true };
            this.entries.entry(name).or_insert(absent).shadows = true;
        }
        self.uncharge(freed);
    }
}

/// The pins that are kept.
pub(super) fn kept_pins(baseline: &Baseline, keeping: &Keeping) -> Pins {
    let old = baseline.pins();
    let mut pins = Pins::default();
    for (path, pin) in &old.by_path {
        // Unknown and absent names are looked at again where a moved directory shows them.
        let is_known = matches!(pin, Pin::There(_));
        let is_settled = keeping.settled.contains(path);
        if !keeping.keeps(path) || is_settled || !is_known && keeping.moves_along(path) {
            continue;
        }
        // No node shows what was here, and the disk does not have it.
        let is_over = || {
            !keeping.changed.contains(path)
                && !keeping.sources.contains(path)
                && baseline.disk().look(path).is_ok_and(|found| found.is_none())
        };
        if is_known && is_over() {
            continue;
        }
        let mut pin = pin.clone();
        if let (Pin::There(there), true) = (&mut pin, keeping.moved_dirs.contains(path))
            && let Ok(now) = baseline.disk().stat(path)
            && now.file_type == FileType::Directory
        {
            *there = now.into();
        }
        if let (Pin::There(there), Some(now)) = (&mut pin, keeping.renewed.get(path)) {
            there.stat = *now;
        }
        pins.by_path.insert(path.clone(), pin);
    }
    let stays = |path: &VPath| keeping.keeps(path) && pins.by_path.contains_key(path);
    let drifts: Vec<_> = old.drifts.iter().filter(|(path, _)| stays(path)).collect();
    for (path, kind) in drifts {
        pins.drifts.insert(path.clone(), *kind);
    }
    // Parent directories get their present state; if they are gone, the old one, as part of a conflict.
    let kept: Vec<VPath> = pins.by_path.keys().chain(&keeping.changed).cloned().collect();
    for path in kept {
        let is_made = !pins.by_path.contains_key(&path);
        let mut at = path;
        while let Some((parent, _)) = at.split_last() {
            if pins.by_path.contains_key(&parent) {
                break;
            }
            let now = baseline.disk().examine(&parent).ok();
            let is_dir = |stat: &Stat| stat.file_type == FileType::Directory;
            let pin = match (now.map(|now| now.stat).filter(is_dir), old.by_path.get(&parent)) {
                (Some(stat), _) => Some(Pin::There(stat.into())),
                (None, Some(pin)) => Some(pin.clone()),
                // An entry of a new directory has nothing to do with the disk.
                (None, None) => (!is_made).then_some(Pin::Unknown),
            };
            if let Some(pin) = pin {
                pins.by_path.insert(parent.clone(), pin);
            }
            at = parent;
        }
    }
    // An entry created where the disk had none: whatever appears there on the disk is a conflict.
    for path in keeping.changed.difference(&keeping.stood) {
        let is_dir =
            |(dir, _): (VPath, &str)| matches!(pins.by_path.get(&dir), Some(Pin::There(_)));
        if !pins.by_path.contains_key(path) && path.split_last().is_some_and(is_dir) {
            pins.by_path.insert(path.clone(), Pin::Absent { is_certain: true });
        }
    }
    forget_what_is_gone(&mut pins, baseline.disk());
    list_what_is_gone(&mut pins, baseline.disk());
    pins
}

/// Removes names without pins from the lists of directories if they no longer exist.
fn forget_what_is_gone(pins: &mut Pins, disk: &HostDir) {
    let mut gone: Vec<(VPath, Arc<List>)> = Vec::new();
    for (path, pin) in &pins.by_path {
        let Pin::There(There { list: Some(list), .. }) = pin else { continue };
        let is_there = |entry: &DirEntry| {
            let at = path.join(&entry.name);
            pins.by_path.contains_key(&at) || disk.stat(&at).is_ok()
        };
        if !list.entries.iter().all(is_there) {
            let mut list = List::clone(list);
            list.entries.retain(is_there);
            gone.push((path.clone(), Arc::new(list)));
        }
    }
    for (path, list) in gone {
        if let Some(Pin::There(there)) = pins.by_path.get_mut(&path) {
            there.list = Some(list);
        }
    }
}

/// Gives unlisted directories that are gone the entries that are pinned, as they cannot be listed any more.
fn list_what_is_gone(pins: &mut Pins, disk: &HostDir) {
    let is_dir = |stat: &Stat| stat.file_type == FileType::Directory;
    let mut lists = Vec::new();
    for (path, pin) in &pins.by_path {
        let Pin::There(there) = pin else { continue };
        let is_gone = || !disk.stat(path).is_ok_and(|now| is_dir(&now));
        if !is_dir(&there.stat) || there.list.is_some() || !is_gone() {
            continue;
        }
        let known =
            beneath(&pins.by_path, path).filter_map(|(at, pin)| match (pin, at.split_last()) {
                (Pin::There(there), Some((parent, name))) if parent == *path => {
                    Some(DirEntry { name: name.into(), file_type: there.stat.file_type })
                }
                _ => None,
            });
        let list = List { entries: known.collect(), ..List::default() };
        lists.push((path.clone(), list));
    }
    for (path, list) in lists {
        if let Some(Pin::There(there)) = pins.by_path.get_mut(&path) {
            there.list = Some(Arc::new(list));
        }
    }
}
