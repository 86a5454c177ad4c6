//! What changed, as data: the namespace compared with the layers below it.
//!
//! Only directories that were looked at are walked, and of these only entries that are not in their original place.
//! So the cost is that of what was touched. A directory that was moved, created or removed is compared entry
//! by entry with what the layers have in its place.
//!
//! Contents are not copied: an entry shares the chunks of the present file, and refers to the file of the layer for
//! what was not read.

pub(super) mod between;
mod error;
pub(super) mod file_version;
pub(super) mod git_binary;
pub(super) mod git_patch;
mod joined;
pub(super) mod report;

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

pub use self::error::DiffError;
use self::file_version::FileVersion;
use super::layer::FileType;
use super::overlay::node::{Body, EntryKind, MountId, NodeId};
use super::overlay::{Found, Overlay};
use super::path::VPath;
use crate::base::errno::Errno;

/// One change.
#[derive(Clone, Debug)]
pub struct DiffEntry {
    /// Its mount.
    pub mount: MountId,
    /// Its path, relative to the mount's root.
    pub path: VPath,
    /// What changed.
    pub kind: DiffKind,
    /// For an addition: where a layer has it in the same mount, if it was moved from there.
    pub renamed_from: Option<VPath>,
    /// Where a layer has it, if that is another place, in any mount. Its permissions come from there, even if an
    /// equal file is there now.
    pub origin: Option<(MountId, VPath)>,
    /// For a further name of a file: the earlier name in the same mount, which is the name that a layer has, or
    /// else the first one with an entry.
    pub link_of: Option<VPath>,
    /// For a modification: another file or symbolic link was moved or linked here, whose content is equal.
    pub is_equal: bool,
}

/// What changed at a path. A change of type is a deletion followed by an addition.
#[derive(Clone, Debug)]
pub enum DiffKind {
    /// A new file.
    Added {
        /// The file.
        content: FileVersion,
    },
    /// A file with other bytes or another executable bit, or another file: see [`DiffEntry::is_equal`].
    Modified {
        /// The file of the layer.
        before: FileVersion,
        /// The file now.
        content: FileVersion,
    },
    /// A file that was removed.
    Deleted {
        /// The file of the layer.
        before: FileVersion,
    },
    /// A new directory. Its entries are listed separately.
    DirAdded,
    /// A directory that was removed. Its entries are listed separately.
    DirDeleted,
    /// A new symbolic link.
    SymlinkAdded {
        /// Its text.
        target: Box<[u8]>,
    },
    /// A symbolic link with another text.
    SymlinkModified {
        /// Its text in the layer.
        before: Box<[u8]>,
        /// Its text now.
        target: Box<[u8]>,
    },
    /// A symbolic link that was removed.
    SymlinkDeleted {
        /// Its text in the layer.
        before: Box<[u8]>,
    },
    /// A pipe, socket, device or other special file that was moved here.
    SpecialAdded {
        /// Its type.
        file_type: FileType,
    },
    /// A special file that was removed.
    SpecialDeleted {
        /// Its type.
        file_type: FileType,
    },
}

/// A path at which the namespace differs from the layers.
pub(super) struct Change {
    pub mount: MountId,
    pub path: VPath,
    pub before: Option<Found>,
    pub after: Option<NodeId>,
    /// The contents are equal, but the files are not the same one.
    pub is_equal: bool,
}

impl Change {
    pub fn before_type(&self) -> Option<FileType> {
        self.before.as_ref().map(|found| found.stat.file_type)
    }
}

/// A directory to compare: of the layers, of the namespace, or of both.
struct Pair {
    path: VPath,
    before: Vec<(u16, VPath)>,
    after: Option<NodeId>,
}

/// The comparison of one mount.
struct Comparison<'a> {
    overlay: &'a mut Overlay,
    mount: MountId,
    /// Places in the layers that other mounts hide; not changes.
    hidden: HashSet<VPath>,
    /// Directories still to be compared. A list, because recursion could overflow the stack.
    pairs: Vec<Pair>,
    changes: Vec<Change>,
    /// Names of new files at which the layers have equal ones.
    equal_names: Vec<Change>,
    /// Bytes left for the paths of further changes.
    path_bytes_left: &'a mut u64,
    /// Directories that so far only exist to hold mount points.
    scaffolds: Vec<(VPath, NodeId)>,
    /// Leaves out names in moved directories whose former state is unknown, because they changed on the disk
    /// before they were looked at. Otherwise they are an error.
    leaves_out_unknown: bool,
}

impl Overlay {
    /// Returns all changes in mounts of layers, sorted by mount, then bytewise by path.
    ///
    /// Times are not compared. Mount points, and directories made for them, are not changes. The cost is that of
    /// what was touched or moved.
    ///
    /// # Errors
    /// [`DiffError`]: a layer cannot be read, a path exceeds [`super::VfsLimits::path_bytes_max`], or the paths of
    /// all changes exceed [`super::VfsLimits::change_path_bytes_max`].
    pub fn diff(&mut self) -> Result<Vec<DiffEntry>, DiffError> {
        let changes = self.changes()?;
        let replaced: HashSet<(MountId, &VPath)> = changes
            .iter()
            .filter(|change| change.before.is_some())
            .map(|change| (change.mount, &change.path))
            .collect();
        let mut first_names = self.unchanged_names(&changes);
        let mut entries = Vec::with_capacity(changes.len());
        for change in &changes {
            let before = match &change.before {
                Some(found) => Some(self.side_before(found, &change.path)?),
                None => None,
            };
            let after = change.after.map(|id| self.side_after(id, change.before.as_ref()));
            let renamed_from = change
                .after
                .and_then(|id| self.origin_in(id, change.mount))
                .filter(|from| *from != change.path && replaced.contains(&(change.mount, from)));
            let entry = |kind| {
                let (mount, path) = (change.mount, change.path.clone());
                let (renamed_from, origin, link_of) = (None, None, None);
                DiffEntry { mount, path, kind, renamed_from, origin, link_of, is_equal: false }
            };
            let kind = match (before, after) {
                (Some(Side::File(before)), Some(Side::File(content))) => {
                    Some(DiffKind::Modified { before, content })
                }
                (Some(Side::Symlink(before)), Some(Side::Symlink(target))) => {
                    Some(DiffKind::SymlinkModified { before, target })
                }
                (before, after) => {
                    entries.extend(before.map(|side| entry(side.deleted())));
                    after.map(Side::added)
                }
            };
            if let (Some(kind), Some(id)) = (kind, change.after) {
                let origin = self.origin_elsewhere(id, change);
                let link_of = self.name_before(id, change, &mut first_names);
                let is_equal = change.is_equal;
                entries.push(DiffEntry { renamed_from, origin, link_of, is_equal, ..entry(kind) });
            }
        }
        Ok(entries)
    }

    /// Where a layer has `id`, unless `change` is there.
    fn origin_elsewhere(&self, id: NodeId, change: &Change) -> Option<(MountId, VPath)> {
        let origin = self.node(id).origin.as_ref()?;
        let place = (self.mount_of(origin.layer), origin.path.clone());
        (place != (change.mount, change.path.clone())).then_some(place)
    }

    /// The earlier name of the file `id`, if it has several and `change` is not the first.
    fn name_before(
        &self,
        id: NodeId,
        change: &Change,
        first_names: &mut HashMap<NodeId, VPath>,
    ) -> Option<VPath> {
        let node = self.node(id);
        if node.nlink < 2 || matches!(node.body, Body::Dir(_)) {
            return None;
        }
        let first = first_names.entry(id).or_insert_with(|| match &node.origin {
            Some(origin) if self.is_at_home(id) => origin.path.clone(),
            _ => change.path.clone(),
        });
        (*first != change.path).then(|| first.clone())
    }

    /// All changes, sorted by mount and path.
    pub(super) fn changes(&mut self) -> Result<Vec<Change>, DiffError> {
        self.compare_mounts(false)
    }

    /// As [`Overlay::changes`], without entries of moved directories that changed on the disk before they were
    /// looked at.
    pub(super) fn known_changes(&mut self) -> Result<Vec<Change>, DiffError> {
        self.compare_mounts(true)
    }

    fn compare_mounts(&mut self, leaves_out_unknown: bool) -> Result<Vec<Change>, DiffError> {
        let mut changes = Vec::new();
        let mut path_bytes_left = self.limits.change_path_bytes_max;
        for index in 0..self.mounts.len() {
            let mount = &self.mounts[index];
            if !mount.is_layered {
                continue;
            }
            let root = mount.root;
            let hidden = self.mounts[index + 1..].iter().filter_map(|m| relative(&m.at, &mount.at));
            let hidden = hidden.collect();
            let before = self.dir(root).below.clone();
            let mut comparison = Comparison {
                mount: MountId(u16::try_from(index).expect("mount ids are 16 bits")),
                hidden,
                pairs: vec![Pair { path: VPath::root(), before, after: Some(root) }],
                changes: Vec::new(),
                equal_names: Vec::new(),
                path_bytes_left: &mut path_bytes_left,
                scaffolds: Vec::new(),
                leaves_out_unknown: leaves_out_unknown && mount.baseline.is_some(),
                overlay: self,
            };
            changes.extend(comparison.run()?);
        }
        Ok(changes)
    }

    /// The present file `id`, which replaces `before`.
    pub(super) fn file_version(&self, id: NodeId, before: Option<&Found>) -> Option<FileVersion> {
        let node = self.node(id);
        let Body::File(file) = &node.body else { return None };
        let below = node
            .origin
            .as_ref()
            .map(|origin| (self.layers[usize::from(origin.layer)].clone(), origin.path.clone()));
        let executable = node.is_executable(before.map(|found| &found.stat));
        Some(FileVersion::new(executable, file.content.clone(), below))
    }

    /// Where the layers of `mount` have the node `id`.
    fn origin_in(&self, id: NodeId, mount: MountId) -> Option<VPath> {
        let origin = self.node(id).origin.as_ref()?;
        let layers = &self.dir(self.mount_root(mount)).below;
        layers.iter().any(|(layer, _)| *layer == origin.layer).then(|| origin.path.clone())
    }

    fn side_before(&self, found: &Found, path: &VPath) -> Result<Side, DiffError> {
        let layer = &self.layers[usize::from(found.layer)];
        Ok(match found.stat.file_type {
            FileType::Directory => Side::Dir,
            FileType::RegularFile => {
                Side::File(FileVersion::of_layer(layer.clone(), &found.path, &found.stat))
            }
            FileType::SymbolicLink => {
                Side::Symlink(layer.read_link(&found.path).map_err(failed("read the link", path))?)
            }
            other => Side::Special(other),
        })
    }

    fn side_after(&self, id: NodeId, before: Option<&Found>) -> Side {
        match (&self.node(id).body, self.file_version(id, before)) {
            (_, Some(version)) => Side::File(version),
            (Body::Symlink(target), _) => Side::Symlink(target.as_bytes().into()),
            (Body::Dir(_), _) => Side::Dir,
            (body, _) => Side::Special(body.file_type()),
        }
    }
}

/// One side of a change.
enum Side {
    File(FileVersion),
    Dir,
    Symlink(Box<[u8]>),
    Special(FileType),
}

impl Side {
    fn added(self) -> DiffKind {
        match self {
            Self::File(content) => DiffKind::Added { content },
            Self::Dir => DiffKind::DirAdded,
            Self::Symlink(target) => DiffKind::SymlinkAdded { target },
            Self::Special(file_type) => DiffKind::SpecialAdded { file_type },
        }
    }

    fn deleted(self) -> DiffKind {
        match self {
            Self::File(before) => DiffKind::Deleted { before },
            Self::Dir => DiffKind::DirDeleted,
            Self::Symlink(before) => DiffKind::SymlinkDeleted { before },
            Self::Special(file_type) => DiffKind::SpecialDeleted { file_type },
        }
    }
}

impl Comparison<'_> {
    fn run(&mut self) -> Result<Vec<Change>, DiffError> {
        while let Some(pair) = self.pairs.pop() {
            let max = self.overlay.limits.path_bytes_max;
            if pair.path.as_str().len() > max {
                return Err(DiffError::TooDeep { path: pair.path, max });
            }
            match pair.after {
                Some(dir) if self.overlay.dir(dir).below == pair.before => {
                    self.in_place(&pair, dir)?;
                }
                _ => self.entry_by_entry(&pair)?,
            }
        }
        self.join_equal_names()?;
        let mut changes = std::mem::take(&mut self.changes);
        changes.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let mut scaffolds = std::mem::take(&mut self.scaffolds);
        scaffolds.retain(|(path, _)| {
            let beneath = format!("{}/", path.as_str());
            let first = changes.partition_point(|change| change.path.as_str() < &*beneath);
            changes.get(first).is_some_and(|change| change.path.as_str().starts_with(&beneath))
        });
        for (path, id) in scaffolds {
            match changes.binary_search_by(|change| change.path.cmp(&path)) {
                Ok(at) => changes[at].after = Some(id),
                Err(at) => {
                    let (mount, after) = (self.mount, Some(id));
                    changes
                        .insert(at, Change { mount, path, before: None, after, is_equal: false });
                }
            }
        }
        Ok(changes)
    }

    /// Compares a directory that shows the layers' directories of its place: only entries that were looked at can
    /// differ.
    fn in_place(&mut self, pair: &Pair, dir: NodeId) -> Result<(), DiffError> {
        let entries = &self.overlay.dir(dir).entries;
        let looked_at = entries.iter().filter_map(|(name, entry)| match entry.kind {
            EntryKind::Node(id) => Some((name.clone(), Some(id), entry.shadows)),
            EntryKind::Absent if entry.shadows => Some((name.clone(), None, true)),
            EntryKind::Absent | EntryKind::Below(_) | EntryKind::Folded(_) => None,
        });
        let looked_at: Vec<(Arc<str>, Option<NodeId>, bool)> = looked_at.collect();
        for (name, after, shadows) in looked_at {
            let path = pair.path.join(&name);
            let after = after.filter(|id| !self.overlay.is_mount_point(*id));
            if after.is_some_and(|id| self.is_untouched(id, &pair.before, &name, &path)) {
                continue;
            }
            let before = if shadows { self.find(&pair.before, &name, &path)? } else { None };
            self.compare(path, before, after)?;
        }
        Ok(())
    }

    /// Whether `id` is the unchanged entry `name` of `dirs`. A directory is added to the pairs.
    fn is_untouched(
        &mut self,
        id: NodeId,
        dirs: &[(u16, VPath)],
        name: &str,
        path: &VPath,
    ) -> bool {
        let node = self.overlay.node(id);
        let Some(origin) = &node.origin else { return false };
        let is_there =
            |(layer, dir): &(u16, VPath)| *layer == origin.layer && dir.join(name) == origin.path;
        if !dirs.iter().any(is_there) {
            return false;
        }
        match &node.body {
            Body::File(file) => !file.content.is_dirty() && node.executable.is_none(),
            Body::Dir(dir) => {
                let before = dir.below.clone();
                self.pairs.push(Pair { path: path.clone(), before, after: Some(id) });
                true
            }
            Body::Symlink(_) | Body::Special(_) => true,
        }
    }

    /// Compares unrelated directories, or one with nothing.
    fn entry_by_entry(&mut self, pair: &Pair) -> Result<(), DiffError> {
        let mut names: BTreeSet<Arc<str>> = BTreeSet::new();
        for (layer, dir) in &pair.before {
            match self.overlay.layers[usize::from(*layer)].list(dir) {
                Ok(list) => names.extend(list.into_iter().map(|entry| Arc::from(entry.name))),
                Err(Errno::Noent) => {}
                Err(Errno::Io) if self.leaves_out_unknown => {}
                Err(errno) => return Err(failed("list", &pair.path)(errno)),
            }
        }
        if let Some(dir) = pair.after {
            match self.overlay.list(dir) {
                Ok(list) => names.extend(list.iter().map(|listed| listed.name.clone())),
                Err(Errno::Io) if self.leaves_out_unknown => {
                    names.extend(self.overlay.known_names(dir));
                }
                Err(errno) => return Err(failed("list", &pair.path)(errno)),
            }
        }
        for name in names {
            let path = pair.path.join(&name);
            let after = match pair.after.map(|dir| self.overlay.child(dir, &name)).transpose() {
                Err(Errno::Io) if self.leaves_out_unknown => continue,
                after => after.map_err(failed("examine", &path))?.flatten(),
            };
            let after = after.filter(|id| !self.overlay.is_mount_point(*id));
            let before = match self.find(&pair.before, &name, &path) {
                Err(DiffError::Layer { errno: Errno::Io, .. }) if self.leaves_out_unknown => {
                    // An entry of a program is a change, whatever was there before.
                    if after.is_none() {
                        continue;
                    }
                    None
                }
                before => before?,
            };
            self.compare(path, before, after)?;
        }
        Ok(())
    }

    fn find(
        &self,
        dirs: &[(u16, VPath)],
        name: &str,
        path: &VPath,
    ) -> Result<Option<Found>, DiffError> {
        if self.hidden.contains(path) {
            return Ok(None);
        }
        self.overlay.find_below(dirs, name).map_err(failed("examine", path))
    }

    fn compare(
        &mut self,
        path: VPath,
        before: Option<Found>,
        after: Option<NodeId>,
    ) -> Result<(), DiffError> {
        let before_dir = before.as_ref().filter(|f| f.stat.file_type == FileType::Directory);
        let after_dir = after.filter(|id| matches!(self.overlay.node(*id).body, Body::Dir(_)));
        if before_dir.is_some() || after_dir.is_some() {
            let dirs = before_dir.map(Found::dirs).unwrap_or_default();
            self.pairs.push(Pair { path: path.clone(), before: dirs, after: after_dir });
        }
        if before_dir.is_some() && after_dir.is_some() {
            return Ok(());
        }
        let mut is_equal = false;
        if let (Some(found), Some(id)) = (&before, after)
            && self.is_same(found, id, &path)?
        {
            is_equal = self.is_another(found, id);
            if !is_equal {
                if self.overlay.is_new_with_names(id) {
                    let (mount, after) = (self.mount, Some(id));
                    self.equal_names.push(Change { mount, path, before, after, is_equal: true });
                }
                return Ok(());
            }
        }
        let mount = self.mount;
        let scaffold = after_dir.filter(|id| self.overlay.dir(*id).scaffold);
        if let Some(dir) = scaffold {
            // It hides what the disk has there, which no program changed.
            self.scaffolds.push((path, dir));
            return Ok(());
        }
        if before.is_some() || after.is_some() {
            self.add(Change { mount, path, before, after, is_equal })?;
        }
        Ok(())
    }

    fn add(&mut self, change: Change) -> Result<(), DiffError> {
        let left = self.path_bytes_left.checked_sub(change.path.as_str().len() as u64);
        let max = self.overlay.limits.change_path_bytes_max;
        *self.path_bytes_left = left.ok_or(DiffError::TooMany { max })?;
        self.changes.push(change);
        Ok(())
    }

    /// Whether `id`, which equals `before`, comes from another place, with the permissions and the time that it has
    /// there. One that was created anew keeps the permissions of what it replaces.
    fn is_another(&self, before: &Found, id: NodeId) -> bool {
        let origin = self.overlay.node(id).origin.as_ref();
        self.overlay.kernel_version > 6
            && origin.is_some_and(|origin| !origin.is_at(before.layer, &before.path))
    }

    /// Whether `id` equals what a layer has in its place. At most one of them is a directory.
    fn is_same(&self, before: &Found, id: NodeId, path: &VPath) -> Result<bool, DiffError> {
        let node = self.overlay.node(id);
        if node.body.file_type() != before.stat.file_type {
            return Ok(false);
        }
        let is_origin =
            node.origin.as_ref().is_some_and(|origin| origin.is_at(before.layer, &before.path));
        match &node.body {
            Body::File(file) if is_origin && !file.content.is_dirty() => {
                Ok(node.executable.is_none_or(|executable| executable == before.stat.executable))
            }
            Body::File(_) => {
                let layer = self.overlay.layers[usize::from(before.layer)].clone();
                let old = FileVersion::of_layer(layer, &before.path, &before.stat);
                let new = self.overlay.file_version(id, Some(before));
                let new = new.expect("the node is a file");
                if old.executable != new.executable {
                    return Ok(false);
                }
                match new.has_same_bytes(&old) {
                    // The file changed before it was read: counted as changed; reading it will fail.
                    Err(Errno::Io)
                        if self.overlay.mounts[self.mount.index()].baseline.is_some() =>
                    {
                        Ok(false)
                    }
                    is_same => is_same.map_err(failed("compare", path)),
                }
            }
            Body::Symlink(_) | Body::Special(_) if is_origin => Ok(true),
            Body::Symlink(target) => {
                let layer = &self.overlay.layers[usize::from(before.layer)];
                let old = layer.read_link(&before.path).map_err(failed("read the link", path))?;
                Ok(*old == *target.as_bytes())
            }
            Body::Special(_) | Body::Dir(_) => Ok(false),
        }
    }
}

/// `path` relative to the directory `top`, if it is beneath it.
fn relative(path: &VPath, top: &VPath) -> Option<VPath> {
    let rest = match top.as_str() {
        "" => path.as_str(),
        top => path.as_str().strip_prefix(top)?.strip_prefix('/')?,
    };
    VPath::parse(rest).ok().filter(|rest| !rest.is_root())
}

pub(super) fn failed(operation: &'static str, path: &VPath) -> impl FnOnce(Errno) -> DiffError {
    let path = path.clone();
    move |errno| DiffError::Layer { operation, path, errno }
}
