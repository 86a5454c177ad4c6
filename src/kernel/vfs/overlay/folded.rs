//! Directories of a resumed session in which no program changed anything: they stay in the store until one of their
//! entries is asked for.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Overlay;
use super::node::{Body, Entry, EntryKind, FoldedId, MountId, Node, NodeId, TimesOf, ino_below};
use super::parts::Parts;
use crate::base::digest::Digest;
use crate::base::errno::Errno;
use crate::kernel::vfs::path::VPath;
use crate::store::StoreError;

/// The directories in the store, by number. Forks share them.
#[derive(Clone, Default)]
pub(in crate::kernel::vfs) struct Folded {
    pub parts: Option<Arc<dyn Parts>>,
    digests: Arc<Vec<Digest>>,
    /// Those that were read from the store: they need not be written again.
    read: Arc<HashSet<Digest>>,
}

impl Folded {
    /// Gives a directory in the store a number.
    pub fn number(&mut self, digest: Digest) -> FoldedId {
        Arc::make_mut(&mut self.digests).push(digest);
        FoldedId(u32::try_from(self.digests.len() - 1).expect("a directory takes more than a byte"))
    }

    /// Whether a directory was read from the store.
    pub fn was_read(&self, digest: Digest) -> bool {
        self.read.contains(&digest)
    }

    /// The digest under which a directory is in the store.
    pub fn digest(&self, id: FoldedId) -> Digest {
        self.digests[id.0 as usize]
    }
}

impl Overlay {
    /// Reads the directory `name` of `dir` from the store.
    ///
    /// # Errors
    /// `EIO` if it is missing or damaged.
    pub(super) fn unfold(
        &mut self,
        dir: NodeId,
        name: &str,
        id: FoldedId,
    ) -> Result<NodeId, Errno> {
        self.unfolded(dir, name, id).map_err(|_| Errno::Io)
    }

    fn unfolded(&mut self, parent: NodeId, name: &str, id: FoldedId) -> Result<NodeId, StoreError> {
        let digest = self.folded.digest(id);
        let Some(parts) = self.folded.parts.clone() else {
            unreachable!("only a restored namespace has folded directories")
        };
        let mut read = parts.dir(digest)?;
        let place = Place { parent, name, at: self.path_below(parent, name) };
        if !self.is_as_below(&read.node, &place) {
            return Err(parts.damaged(digest));
        }
        let ino = read.node.ino;
        let Body::Dir(dir) = &mut read.node.body else { return Err(parts.damaged(digest)) };
        let dir = Arc::make_mut(dir);
        (dir.parent, dir.name_bytes) = (Some(parent), super::node::name_len(name));
        let mount = self.node(parent).mount;
        let is_entry = |(name, node): (&Arc<str>, &Node)| {
            let at = place.at.as_ref().map(|(layer, path)| (*layer, path.join(name)));
            let is_dir = matches!(node.body, Body::Dir(_));
            !is_dir && is_as_in_layer(node, mount, ino_below(ino, name), at.as_ref())
        };
        let mut named = HashSet::new();
        let is_right = |(name, entry): (&Arc<str>, &Entry)| match entry.kind {
            EntryKind::Node(at) => {
                let node = read.entries.get(at.0 as usize);
                entry.shadows && named.insert(at) && node.is_some_and(|it| is_entry((name, it)))
            }
            EntryKind::Folded(at) => (at.0 as usize) < read.dirs.len(),
            EntryKind::Below(_) => true,
            EntryKind::Absent => !entry.shadows,
        };
        if !dir.entries.iter().all(is_right) || named.len() != read.entries.len() {
            return Err(parts.damaged(digest));
        }
        let entries: Vec<NodeId> = read.entries.into_iter().map(|it| self.insert(it)).collect();
        for entry in dir.entries.values_mut() {
            match &mut entry.kind {
                EntryKind::Node(at) => *at = entries[at.0 as usize],
                EntryKind::Folded(at) => *at = self.folded.number(read.dirs[at.0 as usize]),
                EntryKind::Below(_) | EntryKind::Absent => {}
            }
        }
        Arc::make_mut(&mut self.folded.read).insert(digest);
        let id = self.insert(read.node);
        let entry = Entry { kind: EntryKind::Node(id), shadows: true };
        self.dir_mut(parent).entries.insert(name.into(), entry);
        Ok(id)
    }

    /// Why the content of a file of the host, which a program read before, could not be read, if one could not: programs
    /// get `EIO` then. A refresh takes in what the disk has.
    pub fn damaged_content(&self) -> Option<&str> {
        self.mounts.iter().find_map(|mount| mount.baseline.as_ref()?.contents()?.damage())
    }

    /// Why a part of the state that was saved could not be read, if one could not: programs get `EIO` then.
    pub fn damage(&self) -> Option<&str> {
        self.folded.parts.as_ref()?.damage()
    }

    /// Reads all directories from the store, for operations on all nodes.
    ///
    /// # Errors
    /// Those of [`Parts::dir`].
    pub(in crate::kernel::vfs) fn unfold_all(&mut self) -> Result<(), StoreError> {
        for baseline in self.mounts.iter().filter_map(|mount| mount.baseline.as_ref()) {
            baseline.pins().by_path.read_all()?;
        }
        if self.folded.digests.is_empty() {
            return Ok(());
        }
        let roots: Vec<NodeId> = self.mounts.iter().map(|mount| mount.root).collect();
        roots.into_iter().try_for_each(|root| self.unfold_beneath(root))
    }

    /// Reads all directories beneath `top` from the store.
    ///
    /// # Errors
    /// Those of [`Parts::dir`].
    pub(super) fn unfold_beneath(&mut self, top: NodeId) -> Result<(), StoreError> {
        let mut todo = vec![top];
        while let Some(dir) = todo.pop() {
            let mut folded = Vec::new();
            for (name, entry) in &self.dir(dir).entries {
                match entry.kind {
                    EntryKind::Node(id) if self.is_mount_point(id) => {}
                    EntryKind::Node(id) if matches!(self.node(id).body, Body::Dir(_)) => {
                        todo.push(id);
                    }
                    EntryKind::Folded(id) => folded.push((name.clone(), id)),
                    _ => {}
                }
            }
            for (name, id) in folded {
                todo.push(self.unfolded(dir, &name, id)?);
            }
        }
        Ok(())
    }

    /// The directories of host mounts beneath which no program changed anything, each after those in it.
    pub(in crate::kernel::vfs) fn foldable_dirs(&self) -> Vec<NodeId> {
        let mut foldable = Vec::new();
        for mount in self.mounts.iter().filter(|mount| mount.baseline.is_some()) {
            let mut looks = vec![self.look_at_dir(mount.root)];
            let mut next = 0;
            while let Some(look) = looks.get(next) {
                next += 1;
                let dirs = look.dirs.iter().map(|dir| self.look_at_dir(*dir));
                let dirs: Vec<DirLook> = dirs.collect();
                looks.extend(dirs);
            }
            let mut here: HashSet<NodeId> = HashSet::new();
            for DirLook { id, dirs, holds_only_below } in looks.into_iter().skip(1).rev() {
                if holds_only_below && dirs.iter().all(|dir| here.contains(dir)) {
                    here.insert(id);
                    foldable.push(id);
                }
            }
        }
        foldable
    }

    /// Compares the entries of directory `id` with what a layer has.
    fn look_at_dir(&self, id: NodeId) -> DirLook {
        let mut look = DirLook { id, dirs: Vec::new(), holds_only_below: true };
        for (name, entry) in &self.dir(id).entries {
            let is_below = match entry.kind {
                EntryKind::Node(_) => self.is_entry_as_below(id, name, *entry),
                EntryKind::Below(_) | EntryKind::Folded(_) => true,
                EntryKind::Absent => !entry.shadows,
            };
            look.holds_only_below &= is_below;
            match entry.kind {
                EntryKind::Node(dir) if is_below && matches!(self.node(dir).body, Body::Dir(_)) => {
                    look.dirs.push(dir);
                }
                _ => {}
            }
        }
        look
    }

    fn is_entry_as_below(&self, dir: NodeId, name: &str, entry: Entry) -> bool {
        let EntryKind::Node(id) = entry.kind else { return false };
        let place = Place { parent: dir, name, at: self.path_below(dir, name) };
        entry.shadows && self.is_as_below(self.node(id), &place)
    }

    /// Whether `node` is what the layer has in its place, unchanged.
    fn is_as_below(&self, node: &Node, place: &Place<'_>) -> bool {
        let parent = self.node(place.parent);
        is_as_in_layer(node, parent.mount, ino_below(parent.ino, place.name), place.at.as_ref())
    }

    /// Where the layer of the only directory below `dir` has `name`.
    fn path_below(&self, dir: NodeId, name: &str) -> Option<(u16, VPath)> {
        match &self.dir(dir).below[..] {
            [(layer, path)] => Some((*layer, path.join(name))),
            _ => None,
        }
    }
}

/// What [`Overlay::foldable_dirs`] found in a directory.
struct DirLook {
    id: NodeId,
    /// The directories in it that are themselves as a layer has them; what is in these may have changed.
    dirs: Vec<NodeId>,
    /// Whether each of its entries is as a layer has it.
    holds_only_below: bool,
}

/// The place of an entry.
struct Place<'n> {
    parent: NodeId,
    name: &'n str,
    /// Where a layer has it.
    at: Option<(u16, VPath)>,
}

/// Whether `node` is what a layer has at `at`, unchanged: all of it is found again from there.
fn is_as_in_layer(node: &Node, mount: MountId, ino: u64, at: Option<&(u16, VPath)>) -> bool {
    let (Some((layer, path)), Some(origin)) = (at, node.origin.as_deref()) else { return false };
    let is_in_place = origin.layer == *layer && origin.path == *path && origin.names.is_empty();
    let is_used = node.opens > 0 || node.is_being_written || node.nlink != 1;
    let is_set =
        node.executable.is_some() || !matches!(node.times_of, TimesOf::Layer | TimesOf::Content);
    let has_its_body = match &node.body {
        Body::File(file) => !file.content.is_dirty(),
        Body::Dir(dir) => !dir.scaffold && matches!(&dir.below[..], [below] if Some(below) == at),
        Body::Symlink(_) | Body::Special(_) => true,
    };
    is_in_place && !is_used && !is_set && has_its_body && node.mount == mount && node.ino == ino
}

/// Directories that were put into the store, by node.
pub(in crate::kernel::vfs) type FoldedDirs = HashMap<NodeId, Digest>;
