//! Updates a baseline after changes were written to the disk.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::settle::Placed;
use super::written::Written;
use super::{OnDisk, Target};
use crate::base::digest::Digest;
use crate::base::disk;
use crate::kernel::vfs::diff::file_version::FileVersion;
use crate::kernel::vfs::diff::{Change, DiffError, failed};
use crate::kernel::vfs::layer::host_dir::HostDir;
use crate::kernel::vfs::layer::{FileType, Layer, Stat};
use crate::kernel::vfs::overlay::Overlay;
use crate::kernel::vfs::overlay::baseline::{Baseline, KEPT_BYTES_MAX, start};
use crate::kernel::vfs::overlay::node::{Body, NodeId, Origin};
use crate::kernel::vfs::overlay::pins::{Pin, There};
use crate::kernel::vfs::path::VPath;

/// By mount, directories in which no name was added or removed before the write.
pub(super) type KnownDirs = Vec<(usize, HashSet<VPath>)>;

impl Baseline {
    /// Updates stamps in pins of files of which only names changed.
    pub(super) fn renew_stamps<'a>(&self, renewed: impl Iterator<Item = (&'a VPath, u64)>) {
        let mut pins = self.pins();
        for (path, stamp) in renewed {
            if let Some(Pin::There(there)) = pins.by_path.get_mut(path) {
                there.stat.stamp = stamp;
            }
        }
    }

    /// Updates the attributes in pins of unchanged entries.
    pub(in crate::kernel::vfs) fn renew(&self, renewed: &BTreeMap<VPath, Stat>) {
        let mut pins = self.pins();
        for (path, stat) in renewed {
            if let Some(Pin::There(there)) = pins.by_path.get_mut(path) {
                there.stat = *stat;
            }
        }
    }

    /// Accepts the present change times of directories.
    fn accept_dirs(&self, dirs: &HashSet<VPath>) {
        for path in dirs {
            let Ok(now) = self.disk().examine(path) else { continue };
            if let Some(Pin::There(dir)) = self.pins().by_path.get_mut(path)
                && dir.stat.inode == now.stat.inode
            {
                dir.accepted_ns = Some(now.changed_ns);
            }
        }
    }
}

/// Whether `path` exists on the disk only through a symbolic link in place of one of its directories.
fn shows_through_link(host: &HostDir, path: &VPath) -> bool {
    let mut at = path.clone();
    while let Some((parent, _)) = at.split_last() {
        if let Ok(found) = Layer::stat(host, &parent) {
            let is_link = found.file_type == FileType::SymbolicLink;
            return is_link && disk::symlink_metadata(&host.path().join(path.as_str())).is_ok();
        }
        at = parent;
    }
    false
}

impl Overlay {
    /// Whether the disk, which has `now` at the path, has the result of `change` already, and not the old state.
    fn is_on_disk(&self, change: &Change, host: &Arc<HostDir>, now: Option<&Stat>) -> bool {
        let path = &change.path;
        let before = change.before.as_ref().map(|found| &found.stat);
        let is_old = now.is_some_and(|now| before.is_some_and(|before| before.stamp == now.stamp));
        // Two names of one file look alike before and after one is moved over the other.
        if is_old && !(change.is_equal && self.is_moved_on_disk(change, host)) {
            return false;
        }
        match (change.after, now) {
            (None, None) => !shows_through_link(host, path),
            (Some(id), Some(now)) if self.file_type(id) == now.file_type => {
                match &self.node(id).body {
                    Body::Dir(_) => before.is_none_or(|it| it.file_type != FileType::Directory),
                    Body::Symlink(text) => {
                        host.read_link(path).is_ok_and(|now| *now == *text.as_bytes())
                    }
                    Body::File(_) => self.is_same_file(change, host, now),
                    Body::Special(_) => false,
                }
            }
            _ => false,
        }
    }

    /// Adds files and links that are equal to those that a program replaced by them, where the disk has others by now: perhaps
    /// those of another apply of the same change. `changes` are those of one mount, sorted by path.
    pub(super) fn add_made_again_elsewhere(
        &self,
        host: &HostDir,
        layer: u16,
        placed: &[Placed],
        changes: &mut Vec<Change>,
    ) {
        let baseline = self.mounts[self.mount_of(layer).index()].baseline.as_ref();
        let may_be_added = |it: &&Placed| {
            let node = self.node(it.id);
            node.carries_times() && !matches!(node.body, Body::Dir(_))
        };
        let before = |it: &Placed| {
            let before = baseline?.pinned_stat(&it.path)?;
            let now = Layer::stat(host, &it.path).ok()?;
            (now.stamp != before.stamp).then_some(before)
        };
        self.add_equal(layer, placed.iter().filter(may_be_added), before, changes);
    }

    /// Separates the changes that the disk has already, with what it has there. `changes` are those of one mount,
    /// sorted by path.
    ///
    /// # Errors
    /// Those of the disk.
    pub(in crate::kernel::vfs) fn split_settled(
        &self,
        host: &Arc<HostDir>,
        changes: Vec<Change>,
    ) -> Result<(Vec<Change>, HashMap<VPath, OnDisk>), DiffError> {
        let (mut left, mut on_disk) = (Vec::new(), HashMap::new());
        // Nothing exists in a directory that is yet to be created, whatever is in its place: it may be a symbolic link
        // to a directory with the same names.
        let mut to_be_made = HashSet::new();
        // Nothing is left of directories that became something else.
        let mut gone = HashSet::new();
        for change in changes {
            let path = change.path.clone();
            let now = host.look(&path).map_err(failed("examine", &path))?;
            let is_in = |dirs: &HashSet<VPath>| {
                path.split_last().is_some_and(|(parent, _)| dirs.contains(&parent))
            };
            let is_there = match change.after {
                None => is_in(&gone) || self.is_on_disk(&change, host, now.as_ref()),
                Some(_) => !is_in(&to_be_made) && self.is_on_disk(&change, host, now.as_ref()),
            };
            if !is_there {
                if change.after.is_some() {
                    to_be_made.insert(path);
                }
                left.push(change);
                continue;
            }
            let is_dir = |id: NodeId| self.file_type(id) == FileType::Directory;
            if !change.after.is_some_and(is_dir) {
                gone.insert(path.clone());
            }
            let now = now.filter(|_| change.after.is_some());
            on_disk.insert(path, OnDisk { after: change.after, now });
        }
        Ok((left, on_disk))
    }

    fn is_same_file(&self, change: &Change, host: &Arc<HostDir>, now: &Stat) -> bool {
        let version = change.after.and_then(|id| self.file_version(id, change.before.as_ref()));
        let on_disk = FileVersion::of_layer(host.clone() as Arc<dyn Layer>, &change.path, now);
        version.is_some_and(|version| {
            version.executable == on_disk.executable
                && version
                    .has_same_bytes(&on_disk)
                    .unwrap_or_else(|_| self.was_moved_to(change, now))
        })
    }

    /// Whether the disk no longer has the file of `change` where it was before it was moved.
    fn is_moved_on_disk(&self, change: &Change, host: &HostDir) -> bool {
        let origin = change.after.and_then(|id| self.node(id).origin.as_deref());
        let is_here = |origin: &&Origin| self.mount_of(origin.layer) == change.mount;
        origin.filter(is_here).is_some_and(|it| matches!(host.look(&it.path), Ok(None)))
    }

    /// Whether the disk has renamed the file to the path of `change`, as the program has: large files are not kept, so that it
    /// cannot be read where it was.
    fn was_moved_to(&self, change: &Change, now: &Stat) -> bool {
        let Some(node) = change.after.map(|id| self.node(id)) else { return false };
        let (Body::File(file), Some(origin)) = (&node.body, &node.origin) else { return false };
        let baseline = self.mounts[change.mount.index()].baseline.as_ref();
        let is_here = !file.content.is_dirty() && self.mount_of(origin.layer) == change.mount;
        let was = baseline.filter(|_| is_here).and_then(|it| it.pinned_stat(&origin.path));
        was.is_some_and(|was| {
            let alike = |stat: &Stat| (stat.inode, stat.size, stat.mtime_ns);
            was.inode != 0 && alike(&was) == alike(now)
        })
    }

    /// The directories above the changes, and those of which the times will be set, in which no name was added or removed
    /// so far.
    pub(super) fn known_dirs(&self, targets: &[Target]) -> KnownDirs {
        let mut known = Vec::new();
        for target in targets {
            let index = target.mount.index();
            // A baseline without contents ends with its run.
            let baseline = self.mounts[index].baseline.as_ref();
            let Some(baseline) = baseline.filter(|it| it.contents().is_some()) else { continue };
            let mut above = HashSet::new();
            for change in &target.changes {
                let mut path = change.path.clone();
                while let Some((parent, _)) = path.split_last() {
                    if !above.insert(parent.clone()) {
                        break;
                    }
                    path = parent;
                }
            }
            let is_timed = |placed: &&Placed| {
                let node = self.node(placed.id);
                matches!(node.body, Body::Dir(_)) && node.has_own_times()
            };
            above.extend(target.placed.iter().filter(is_timed).map(|placed| placed.path.clone()));
            known.push((index, baseline.unchanged_dirs(above)));
        }
        known
    }

    /// Accepts the change times of the directories `known`, which are due to the write.
    pub(super) fn accept_dirs(&self, known: KnownDirs) {
        for (index, dirs) in known {
            let Some(baseline) = &self.mounts[index].baseline else { continue };
            if !dirs.is_empty() {
                // So that later writes by others have a later change time.
                start(baseline.disk(), true);
                baseline.accept_dirs(&dirs);
            }
        }
    }

    /// Keeps the contents of files that were written, or that the disk has already, so that they can be read later
    /// whatever happens on the disk; returns digests and lengths.
    pub(super) fn written_contents(&self, target: &Target) -> HashMap<VPath, (Digest, u64)> {
        let mut contents = HashMap::new();
        let Some(baseline) = &self.mounts[target.mount.index()].baseline else { return contents };
        let Some(keeper) = baseline.contents() else { return contents };
        let changed = target.changes.iter().map(|change| (&change.path, change.after));
        let on_disk = target.on_disk.iter().map(|(path, found)| (path, found.after));
        let mut known: HashMap<NodeId, (Digest, u64)> = HashMap::new();
        for (path, id) in changed.chain(on_disk) {
            let Some(id) = id else { continue };
            let content = known.get(&id).copied().or_else(|| {
                let node = self.node(id);
                let Body::File(file) = &node.body else { return None };
                let origin = node.origin.as_ref().filter(|it| it.layer == target.layer);
                if !file.content.is_dirty() {
                    return origin.and_then(|origin| baseline.pinned_content(&origin.path));
                }
                let len_bytes = file.content.len();
                let version =
                    self.file_version(id, None).filter(|_| len_bytes <= KEPT_BYTES_MAX)?;
                let mut read = version.reader().ok()?;
                Some((keeper.keep_read(&mut read, len_bytes).ok()?, len_bytes))
            });
            if let Some(content) = content {
                known.insert(id, content);
                contents.insert(path.clone(), content);
            }
        }
        contents
    }

    /// Makes `written` the state to compare with, whether the disk still has it or not.
    pub(super) fn move_baseline(
        &mut self,
        target: &Target,
        written: &Written,
        contents: &HashMap<VPath, (Digest, u64)>,
    ) {
        let index = target.mount.index();
        let Some(baseline) = &self.mounts[index].baseline else { return };
        let changed = target.changes.iter().map(|change| (&change.path, change.after));
        let on_disk = target.on_disk.iter().map(|(path, found)| (path, found.after));
        let changed: BTreeMap<&VPath, Option<NodeId>> = changed.chain(on_disk).collect();
        let pin_of = |path: &VPath, id: Option<NodeId>, disk: &HostDir| {
            let (Some(id), Some(stat)) = (id, written.get(path)) else {
                return Pin::Absent { is_certain: true };
            };
            let accepted = || disk.examine(path).ok().filter(|it| it.stat.inode == stat.inode);
            let is_dir = stat.file_type == FileType::Directory;
            let link = match &self.node(id).body {
                Body::Symlink(text) => Some(text.as_bytes().into()),
                _ => None,
            };
            Pin::There(There {
                link,
                content: contents.get(path).copied(),
                accepted_ns: is_dir.then(accepted).flatten().map(|now| now.changed_ns),
                ..There::from(*stat)
            })
        };
        let moved = baseline.changed(|pins, disk| {
            for path in changed.keys().copied() {
                let beneath = pins.by_path.beneath(path).into_iter().flatten();
                let gone: Vec<VPath> = beneath.map(|(path, _)| path.clone()).collect();
                for path in gone.iter().chain([path]) {
                    pins.by_path.remove(path);
                    pins.drifts.remove(path);
                }
            }
            pins.written.extend(changed.keys().copied().cloned());
            for (path, id) in &changed {
                let pin = pin_of(path, *id, disk);
                if let Some((parent, name)) = path.split_last()
                    && let Some(Pin::There(dir)) = pins.by_path.get_mut(&parent)
                    && let Some(list) = &mut dir.list
                {
                    Arc::make_mut(list).set(name, &pin);
                }
                let inserted = pins.by_path.insert((*path).clone(), pin);
                inserted.expect("an apply reads all pins first");
            }
            // Of others only the times were set.
            for (path, stat) in written.iter().filter(|(path, _)| !changed.contains_key(path)) {
                if let Some(Pin::There(there)) = pins.by_path.get_mut(path) {
                    there.stat = *stat;
                }
            }
            for (path, mtime_ns) in written.dir_times() {
                if let Some(Pin::There(there)) = pins.by_path.get_mut(path) {
                    there.stat.mtime_ns = *mtime_ns;
                }
            }
        });
        self.set_baseline(index, moved);
    }

    /// Keeps the contents of files just written, so that they can be read later.
    pub(super) fn keep_what_was_written(&self, target: &Target) {
        let Some(baseline) = &self.mounts[target.mount.index()].baseline else { return };
        if baseline.contents().is_none() {
            return;
        }
        for path in target.changes.iter().map(|change| &change.path).chain(target.on_disk.keys()) {
            let is_file = matches!(baseline.pin(path), Ok(Pin::There(there))
                if there.stat.file_type == FileType::RegularFile);
            if is_file {
                // A change at this moment is found and reported later.
                let _ = baseline.keep(path);
            }
        }
    }
}
