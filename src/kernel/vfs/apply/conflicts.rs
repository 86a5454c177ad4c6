//! Compares the disk with the state that was looked at.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::io;

use super::checked::Checked;
use super::names::NewNames;
use super::{ApplyError, OnDisk, Placed, Target};
use crate::base::errno::Errno;
use crate::kernel::vfs::layer::portable::NameProblem;
use crate::kernel::vfs::layer::{FileType, Stat};
use crate::kernel::vfs::overlay::Overlay;
use crate::kernel::vfs::overlay::node::{Body, MountId, Origin};
use crate::kernel::vfs::overlay::pins::Pin;
use crate::kernel::vfs::path::VPath;

/// A path that changed on the disk since it was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// Its mount.
    pub mount: MountId,
    /// The mount's path in the namespace; empty for the worktree and for the only mount.
    pub mount_path: String,
    /// Its path, relative to the mount's root.
    pub path: VPath,
    /// How it changed.
    pub what: ConflictKind,
}

/// How a path changed on the disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConflictKind {
    /// A file or symbolic link that was read, or is to be replaced or removed, changed.
    Changed,
    /// A path that was read, or is to be replaced or removed, is gone.
    Vanished,
    /// Something exists at a path that is to be created, or that is to be removed and was never seen.
    Appeared,
    /// The origin of what was moved or linked to this path of this mount changed or is gone.
    OriginGone(MountId, VPath),
    /// A directory above a path to write is no longer a directory.
    NotADirectory,
    /// A directory that is to be removed has this entry, which a mount hides, whose name is not UTF-8, or
    /// which is new.
    Holds(String),
    /// This system can have no file of the name that is to be created.
    NotAName(NameProblem),
    /// A path that is to be created is, for the disk, the same name as this one, which the disk has or which is created
    /// too: it folds case or normalises Unicode.
    SameName(String),
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = match &*self.mount_path {
            "" => self.path.to_string(),
            mount => self.path.absolute(mount),
        };
        match &self.what {
            ConflictKind::Changed => write!(f, "{path} changed on the disk since it was read"),
            ConflictKind::Vanished => write!(f, "{path} no longer exists on the disk"),
            ConflictKind::Appeared => write!(f, "{path} appeared on the disk in the meantime"),
            ConflictKind::OriginGone(mount, to) => {
                let mount = if *mount == self.mount { "" } else { " of another mount" };
                write!(
                    f,
                    "{path}, which was moved or linked to {to}{mount}, changed on the disk or is gone"
                )
            }
            ConflictKind::NotADirectory => write!(f, "{path} is no longer a directory on the disk"),
            ConflictKind::Holds(name) => {
                write!(f, "cannot remove {path}: on the disk it also holds {name:?}")
            }
            ConflictKind::NotAName(problem) => write!(f, "cannot create {path}: {problem}"),
            ConflictKind::SameName(other) => {
                write!(f, "cannot create {path}: this disk takes it for the same name as {other}")
            }
        }
    }
}

impl Overlay {
    /// Completes the mounts' paths in `conflicts`.
    pub(in crate::kernel::vfs) fn name_mounts(&self, conflicts: &mut [Conflict]) {
        let hosts = self.mounts.iter().filter(|mount| mount.host.is_some()).count();
        for conflict in conflicts.iter_mut().filter(|_| hosts > 1) {
            if self.worktree != Some(conflict.mount) {
                conflict.mount_path = self.mounts[conflict.mount.index()].path();
            }
        }
    }

    /// Compares with the disk all that must not have changed.
    pub(super) fn check(&self, targets: &[Target]) -> Result<Checked, ApplyError> {
        let on_disk: HashMap<(u16, &VPath), &OnDisk> = targets
            .iter()
            .flat_map(|target| target.on_disk.iter().map(|(path, it)| ((target.layer, path), it)))
            .collect();
        let is_open = |origin: &&Origin| !on_disk.contains_key(&(origin.layer, &origin.path));
        // What is gone on both sides cannot be moved.
        let is_source = |origin: &&Origin| {
            let found = on_disk.get(&(origin.layer, &origin.path));
            found.is_none_or(|found| found.now.is_none())
        };
        let mut check = Check {
            overlay: self,
            fresh: HashMap::new(),
            checked: Checked::new(),
            conflicts: BTreeMap::new(),
        };
        let is_target = |origin: &&Origin| targets.iter().any(|t| t.layer == origin.layer);
        let seen = self.stamps_seen(targets);
        let changed = self.nodes.iter().map(|(_, node)| node).filter(|node| {
            let is_written = matches!(&node.body, Body::File(file) if file.content.is_dirty());
            let was_read = node.origin.as_ref().is_some_and(|origin| origin.was_read);
            was_read || is_written || node.carries_times() || node.executable.is_some()
        });
        let changed = changed.filter_map(|node| node.origin.as_deref());
        let read = self.seen.iter().filter(|origin| origin.was_read);
        for origin in changed.chain(read).filter(is_target).filter(is_open) {
            check.is_as_seen(origin)?;
        }
        for target in targets {
            for (path, stamp) in self.made_again(target, &seen) {
                check.has_stamp(target.layer, path, stamp)?;
            }
        }
        let mut linked = HashMap::new();
        for target in targets {
            let mut on_the_way = HashSet::new();
            let mut new_names = NewNames::of(target);
            for change in &target.changes {
                if let Some(problem) = NewNames::problem(self, change) {
                    check.conflict(target.layer, &change.path, ConflictKind::NotAName(problem));
                    continue;
                }
                let sources = change.after.and_then(|id| self.node(id).origin.as_deref());
                if let Some(origin) = sources.filter(is_source) {
                    check.is_as_seen(origin)?;
                }
                let (layer, path) = (target.layer, &change.path);
                // A pinned state is not that of the disk.
                let before = match &change.before {
                    Some(_) if target.is_pinned => check.fresh(layer, path)?,
                    before => before.as_ref().map(|found| found.stat),
                };
                match (&before, seen.get(&(layer, path))) {
                    (Some(before), Some(stamp)) if before.stamp == *stamp => {
                        check.checked.insert((layer, path.clone()), *before);
                        if before.nlink > 1 {
                            linked.insert((layer, *stamp), *before);
                        }
                    }
                    (Some(_), Some(_)) => check.conflict(layer, path, ConflictKind::Changed),
                    (Some(_), None) => check.conflict(layer, path, ConflictKind::Appeared),
                    (None, Some(_)) => check.conflict(layer, path, ConflictKind::Vanished),
                    (None, None) => check.is_free(target, path, &mut new_names)?,
                }
                if target.removed.contains(path) {
                    check.holds_nothing_else(target, path)?;
                }
                check.way_is_clear(target, path, &mut on_the_way)?;
            }
        }
        if check.conflicts.is_empty() {
            self.check_other_names(targets, &seen, &linked, &mut check.checked);
            return Ok(check.checked);
        }
        Err(ApplyError::Conflicts(check.found()))
    }

    /// The stamps of all that was looked at in the layers of `targets`.
    fn stamps_seen(&self, targets: &[Target]) -> HashMap<(u16, &VPath), u64> {
        let layers: HashSet<u16> = targets.iter().map(|target| target.layer).collect();
        let origins = self.nodes.iter().filter_map(|(_, node)| node.origin.as_deref());
        let seen = origins.chain(&self.seen).filter(|origin| layers.contains(&origin.layer));
        seen.map(|origin| ((origin.layer, &origin.path), origin.stamp)).collect()
    }

    /// Entries of `target` that are not those of the disk but equal to them, so that only their times are written; with
    /// the stamps of those of the disk.
    fn made_again<'t>(
        &self,
        target: &'t Target,
        seen: &HashMap<(u16, &VPath), u64>,
    ) -> Vec<(&'t VPath, u64)> {
        let is_changed =
            |path: &VPath| target.change_at(path).is_some() || target.on_disk.contains_key(path);
        let is_made = |placed: &&Placed| {
            let node = self.node(placed.id);
            let is_home = node
                .origin
                .as_ref()
                .is_some_and(|origin| origin.layer == target.layer && origin.path == placed.path);
            !is_home && !matches!(node.body, Body::Dir(_)) && node.carries_times()
        };
        let made = target.placed.iter().filter(is_made).filter(|placed| !is_changed(&placed.path));
        made.filter_map(|Placed { path, .. }| Some((path, *seen.get(&(target.layer, path))?)))
            .collect()
    }

    /// Adds other known names of the files `linked`, by their stamps: these change when a name of the file is
    /// removed.
    fn check_other_names(
        &self,
        targets: &[Target],
        seen: &HashMap<(u16, &VPath), u64>,
        linked: &HashMap<(u16, u64), Stat>,
        checked: &mut Checked,
    ) {
        if linked.is_empty() {
            return;
        }
        let mut add = |layer: u16, path: &VPath, stamp: u64| {
            if let Some(stat) = linked.get(&(layer, stamp)) {
                checked.entry((layer, path.clone())).or_insert(*stat);
            }
        };
        for ((layer, path), stamp) in seen {
            add(*layer, path, *stamp);
        }
        for target in targets {
            let Some(baseline) = &self.mounts[target.mount.index()].baseline else { continue };
            for (path, pin) in baseline.pins().by_path.iter() {
                if let Pin::There(there) = pin {
                    add(target.layer, path, there.stat.stamp);
                }
            }
        }
    }

    /// The mount that shows `layer`.
    pub(in crate::kernel::vfs) fn mount_of(&self, layer: u16) -> MountId {
        let shows = |index: &usize| {
            let mount = &self.mounts[*index];
            mount.is_layered && self.dir(mount.root).below.iter().any(|(other, _)| *other == layer)
        };
        let index = (0..self.mounts.len()).find(shows).unwrap_or_default();
        MountId(u16::try_from(index).expect("mount ids are 16 bits"))
    }
}

/// A comparison with the disk.
struct Check<'a> {
    overlay: &'a Overlay,
    fresh: HashMap<(u16, VPath), Option<Stat>>,
    checked: Checked,
    conflicts: BTreeMap<(u16, VPath), ConflictKind>,
}

impl Check<'_> {
    /// All conflicts, sorted.
    fn found(self) -> Vec<Conflict> {
        let conflict = |((mount, path), what)| Conflict {
            mount: MountId(mount),
            mount_path: String::new(),
            path,
            what,
        };
        self.conflicts.into_iter().map(conflict).collect()
    }

    fn conflict(&mut self, layer: u16, path: &VPath, what: ConflictKind) {
        let mount = self.overlay.mount_of(layer).0;
        self.conflicts.entry((mount, path.clone())).or_insert(what);
    }

    fn fresh(&mut self, layer: u16, path: &VPath) -> Result<Option<Stat>, ApplyError> {
        if let Some(stat) = self.fresh.get(&(layer, path.clone())) {
            return Ok(*stat);
        }
        let stat = match self.overlay.layers[usize::from(layer)].stat_now(path) {
            Ok(stat) => Some(stat),
            Err(Errno::Noent | Errno::Notdir) => None,
            Err(errno) => return Err(self.refused(layer, path, io::Error::other(errno))),
        };
        self.fresh.insert((layer, path.clone()), stat);
        Ok(stat)
    }

    fn refused(&self, layer: u16, path: &VPath, error: io::Error) -> ApplyError {
        let mount = self.overlay.mount_of(layer);
        ApplyError::Host { operation: "examine", mount, path: path.clone(), error }
    }

    fn is_as_seen(&mut self, origin: &Origin) -> Result<(), ApplyError> {
        self.has_stamp(origin.layer, &origin.path, origin.stamp)
    }

    fn has_stamp(&mut self, layer: u16, path: &VPath, stamp: u64) -> Result<(), ApplyError> {
        match self.fresh(layer, path)? {
            Some(stat) if stat.stamp == stamp => {
                self.checked.insert((layer, path.clone()), stat);
            }
            Some(_) => self.conflict(layer, path, ConflictKind::Changed),
            None => self.conflict(layer, path, ConflictKind::Vanished),
        }
        Ok(())
    }

    /// Checks that nothing is at a path that is to be created. Beneath a directory that is to be created nothing is
    /// checked: in its place may be a symbolic link that leads elsewhere.
    fn is_free(
        &mut self,
        target: &Target,
        path: &VPath,
        new_names: &mut NewNames<'_>,
    ) -> Result<(), ApplyError> {
        let is_beneath = path.split_last().is_some_and(|(dir, _)| target.created.contains(&dir));
        if !is_beneath && self.fresh(target.layer, path)?.is_some() {
            self.conflict(target.layer, path, ConflictKind::Appeared);
            return Ok(());
        }
        let other = new_names.same_name(path);
        if let Some(other) = other.map_err(|error| self.refused(target.layer, path, error))? {
            self.conflict(target.layer, path, ConflictKind::SameName(other));
        }
        Ok(())
    }

    fn holds_nothing_else(&mut self, target: &Target, path: &VPath) -> Result<(), ApplyError> {
        let failed = |error| self.refused(target.layer, path, error);
        let removed = |name: &str| {
            target.change_at(&path.join(name)).is_some_and(|change| change.before.is_some())
        };
        let names = match target.host.names(path) {
            Ok(names) => names,
            // Found by the comparison of the directory itself.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(());
            }
            Err(error) => return Err(failed(error)),
        };
        let mut others: Vec<String> = names
            .into_iter()
            .filter(|name| !name.to_str().is_some_and(removed))
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        others.sort_unstable();
        if let Some(name) = others.into_iter().next() {
            self.conflict(target.layer, path, ConflictKind::Holds(name));
        }
        Ok(())
    }

    /// Checks that all directories above `path` are directories, not symbolic links.
    fn way_is_clear(
        &mut self,
        target: &Target,
        path: &VPath,
        known: &mut HashSet<VPath>,
    ) -> Result<(), ApplyError> {
        let mut path = path.clone();
        while let Some((dir, _)) = path.split_last() {
            if !known.insert(dir.clone()) {
                break;
            }
            if !target.created.contains(&dir) {
                match self.fresh(target.layer, &dir)?.map(|stat| stat.file_type) {
                    Some(FileType::Directory) => {}
                    Some(_) => self.conflict(target.layer, &dir, ConflictKind::NotADirectory),
                    None => self.conflict(target.layer, &dir, ConflictKind::Vanished),
                }
            }
            path = dir;
        }
        Ok(())
    }
}
