//! The namespace: one tree of nodes in memory over read-only layers.
//!
//! A node is created when its entry is first looked up; a directory knows the directories of layers that show
//! through it. So mounting walks nothing, a repeated lookup costs one hash, and renaming a directory moves
//! one entry.
//!
//! Each group of operations is an `impl Overlay` in a file of its own. The overlay has no clock: operations take
//! the time as `now`, nanoseconds since the Unix epoch.

pub(super) mod attr;
pub(super) mod baseline;
pub(super) mod below_files;
pub(super) mod content;
pub(super) mod dirs;
pub(super) mod drift;
pub(super) mod drift_kind;
pub(super) mod file_io;
pub(super) mod folded;
pub(super) mod known_times;
mod limits;
pub(super) mod links;
pub(super) mod listing;
pub(super) mod mount;
pub(super) mod node;
pub(super) mod nodes;
pub(super) mod open;
pub(super) mod parts;
pub(super) mod path_length;
pub(super) mod pin_table;
pub(super) mod pins;
pub(super) mod rename;
pub(super) mod resolve;
mod seen;
pub(super) mod times;
pub(super) mod write_times;

#[cfg(test)]
mod limit_tests;

use std::sync::Arc;

use self::below_files::BelowFiles;
use self::content::Content;
use self::drift::Drift;
use self::folded::Folded;
pub use self::limits::VfsLimits;
use self::listing::{Listed, OldListing};
use self::mount::Mount;
use self::node::{
    Body, Dir, Entry, EntryKind, File, MountId, Node, NodeId, Origin, TimesOf, ino_below, name_len,
};
pub(super) use self::node::{NODE_BYTES, node_bytes};
use self::nodes::Nodes;
use self::times::TimeScale;
use self::write_times::WriteTimes;
use super::layer::{FileType, Layer, Stat, Times};
use super::path::{VPath, check_name};
use crate::base::errno::Errno;
use crate::tape::Recorder;

/// Failed lookups below in one directory before it is listed instead.
const MISSES_MAX: u8 = 8;

/// Spare entries that a directory may keep allocated.
const ENTRIES_SPARE: usize = 32;

/// Longest file of a layer that can be opened. Sparse files can claim any length.
const FILE_BELOW_BYTES_MAX: u64 = 1 << 40;

/// A copy-on-write file system in memory over read-only layers.
///
/// A clone is a fork: it shares contents until one of the two writes. Open files are open in both, and each
/// closes its own.
#[derive(Clone)]
pub struct Overlay {
    pub(super) nodes: Nodes,
    pub(super) folded: Folded,
    pub(super) layers: Vec<Arc<dyn Layer>>,
    pub(super) mounts: Vec<Mount>,
    /// The mount from which changes have short names.
    pub(super) worktree: Option<MountId>,
    /// The root shows through the worktree: see [`Overlay::show_root_in_worktree`].
    pub(super) root_shows: bool,
    /// How times of files below relate to the clock.
    pub(super) time_scale: TimeScale,
    /// Times of writes.
    pub(super) writes: WriteTimes,
    pub(super) next_ino: u64,
    pub(super) limits: VfsLimits,
    pub(super) upper_bytes: u64,
    pub(super) cache_bytes: u64,
    pub(super) limit_hit: Option<&'static str>,
    /// Upper bound on the length of paths created here, from their mount point.
    pub(super) longest_path_bytes: usize,
    pub(super) below_files: BelowFiles,
    pub(super) tape: Option<Recorder>,
    /// Records the directories of the host that are mounted, below this path, where the machine has no tape.
    pub(super) directories_tape: Option<(Recorder, VPath)>,
    pub(super) old_listings: Vec<OldListing>,
    /// Paths seen in layers that are not the origin of a node: the node was freed, or it is a further name
    /// of a file. A patch removes only what was seen.
    pub(super) seen: Vec<Origin>,
    /// The version of the kernel whose changes it has: `KERNEL_VERSION` describes them.
    pub(super) kernel_version: u32,
    /// Files that changed before or while they were read, since [`Overlay::take_drifts`].
    pub(super) torn: Vec<Drift>,
    /// See [`Overlay::await_restore`].
    pub(in crate::kernel::vfs) is_to_be_restored: bool,
}

/// The entry that layers have under one name.
pub(super) struct Found {
    pub layer: u16,
    pub path: VPath,
    pub stat: Stat,
    /// For a directory: the directories of lower layers that merge with it.
    pub rest: Vec<(u16, VPath)>,
}

impl Found {
    /// The directories that show through, the uppermost first.
    pub fn dirs(&self) -> Vec<(u16, VPath)> {
        let mut dirs = vec![(self.layer, self.path.clone())];
        dirs.extend(self.rest.iter().cloned());
        dirs
    }
}

impl Overlay {
    /// A namespace with an empty root directory whose times are `now`.
    pub fn new(limits: VfsLimits, now: u64) -> Self {
        let mut overlay = Self {
            nodes: Nodes::default(),
            folded: Folded::default(),
            layers: Vec::new(),
            mounts: Vec::new(),
            worktree: None,
            root_shows: false,
            time_scale: TimeScale::Unknown,
            writes: WriteTimes::default(),
            next_ino: 1,
            limits,
            upper_bytes: 0,
            cache_bytes: 0,
            limit_hit: None,
            longest_path_bytes: 0,
            below_files: BelowFiles::default(),
            tape: None,
            directories_tape: None,
            old_listings: Vec::new(),
            seen: Vec::new(),
            kernel_version: u32::MAX,
            torn: Vec::new(),
            is_to_be_restored: false,
        };
        let root = overlay.insert(Node {
            ino: 1,
            nlink: 1,
            opens: 0,
            is_being_written: false,
            executable: None,
            mount: MountId(0),
            times: Times::all(now),
            times_of: TimesOf::Clock,
            origin: None,
            body: Body::Dir(Arc::new(Dir { complete: true, ..Dir::default() })),
        });
        overlay.next_ino = 2;
        overlay.dir_mut(root).parent = Some(root);
        overlay.mounts.push(Mount::memory(root, now));
        overlay
    }

    /// Records the answers of layers that are mounted from now on.
    pub(crate) fn set_tape(&mut self, recorder: Recorder) {
        self.tape = Some(recorder);
    }

    /// Records the answers of directories of the host that are mounted from now on, as if they were mounted below `at`.
    pub(crate) fn set_directories_tape(&mut self, recorder: Recorder, at: VPath) {
        self.directories_tape = Some((recorder, at));
    }

    /// The root directory.
    pub fn root(&self) -> NodeId {
        NodeId(0)
    }

    /// The limits.
    pub fn limits(&self) -> &VfsLimits {
        &self.limits
    }

    /// Bytes charged to [`VfsLimits::upper_bytes_max`].
    pub fn upper_bytes(&self) -> u64 {
        self.upper_bytes
    }

    /// The first limit that was reached, by the name of its field.
    pub fn limit_hit(&self) -> Option<&'static str> {
        self.limit_hit
    }

    pub(crate) fn forget_limit_hit(&mut self) {
        self.limit_hit = None;
    }

    /// The type of a node.
    pub fn file_type(&self, id: NodeId) -> FileType {
        self.node(id).body.file_type()
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id]
    }

    /// The directory `id`, which must be one.
    pub(super) fn dir(&self, id: NodeId) -> &Dir {
        match &self.node(id).body {
            Body::Dir(dir) => dir,
            _ => unreachable!("callers check that the node is a directory"),
        }
    }

    pub(super) fn dir_mut(&mut self, id: NodeId) -> &mut Dir {
        match &mut self.node_mut(id).body {
            Body::Dir(dir) => Arc::make_mut(dir),
            _ => unreachable!("callers check that the node is a directory"),
        }
    }

    /// # Errors
    /// `ENOTDIR` unless `id` is a directory.
    pub(super) fn expect_dir(&self, id: NodeId) -> Result<(), Errno> {
        match self.node(id).body {
            Body::Dir(_) => Ok(()),
            _ => Err(Errno::Notdir),
        }
    }

    /// # Errors
    /// `EROFS` if the mount of `id` refuses writes.
    pub(super) fn expect_writable(&self, id: NodeId) -> Result<(), Errno> {
        if self.mounts[usize::from(self.node(id).mount.0)].read_only {
            return Err(Errno::Rofs);
        }
        Ok(())
    }

    pub(super) fn fresh_ino(&mut self) -> u64 {
        let ino = self.next_ino;
        self.next_ino += 1;
        ino
    }

    pub(super) fn insert(&mut self, node: Node) -> NodeId {
        self.nodes.insert(node)
    }

    /// # Errors
    /// `ENOSPC` if `bytes` more exceed the limit.
    pub(super) fn expect_room(&mut self, bytes: u64) -> Result<(), Errno> {
        if self.upper_bytes.saturating_add(bytes) > self.limits.upper_bytes_max {
            self.limit_hit.get_or_insert("upper_bytes_max");
            return Err(Errno::Nospc);
        }
        Ok(())
    }

    /// Charges `bytes`.
    ///
    /// # Errors
    /// `ENOSPC` if that exceeds the limit; nothing is charged then.
    pub(super) fn charge(&mut self, bytes: u64) -> Result<(), Errno> {
        self.expect_room(bytes)?;
        self.upper_bytes += bytes;
        Ok(())
    }

    pub(super) fn uncharge(&mut self, bytes: u64) {
        self.upper_bytes = self.upper_bytes.saturating_sub(bytes);
    }

    /// Creates a node with the entry `name` in `dir`.
    ///
    /// # Errors
    /// `ENOSPC` at the limit.
    pub(super) fn create(
        &mut self,
        dir: NodeId,
        body: Body,
        name: &str,
        now: u64,
    ) -> Result<NodeId, Errno> {
        self.expect_room(node_bytes(&body) + name.len() as u64)?;
        let times = Times::all(self.time_of_making_in(dir, now));
        let id = self.insert_made(dir, body, times);
        self.attach(dir, name, id, now);
        Ok(id)
    }

    /// Inserts a node that a program or a mount makes in `dir`, and charges it. It has no name yet.
    pub(super) fn insert_made(&mut self, dir: NodeId, body: Body, times: Times) -> NodeId {
        self.upper_bytes += node_bytes(&body);
        let ino = self.fresh_ino();
        self.insert(Node {
            ino,
            nlink: 1,
            opens: 0,
            is_being_written: false,
            executable: None,
            mount: self.node(dir).mount,
            times,
            times_of: TimesOf::Clock,
            origin: None,
            body,
        })
    }

    /// Frees `id` if it has no name and is not open.
    pub(super) fn release(&mut self, id: NodeId) {
        let node = self.node(id);
        if node.nlink > 0 || node.opens > 0 {
            return;
        }
        let node = self.node_mut(id);
        let origin = node.origin.take();
        let made_here = origin.is_none();
        let body = std::mem::replace(&mut node.body, Body::Special(FileType::Unknown));
        self.seen.extend(origin.map(|origin| *origin));
        if made_here {
            self.upper_bytes = self.upper_bytes.saturating_sub(node_bytes(&body));
        }
        if let Body::File(file) = body {
            self.upper_bytes = self.upper_bytes.saturating_sub(file.content.charged());
            self.forget_cached(&file.content);
        }
        self.nodes.free(id);
    }

    pub(super) fn forget_cached(&mut self, content: &Content) {
        if !content.is_dirty() {
            self.cache_bytes = self.cache_bytes.saturating_sub(content.held_bytes());
        }
    }

    /// Returns the node of `name` in the directory `dir`; `None` for `ENOENT`.
    ///
    /// # Errors
    /// Those of the layers below.
    #[inline]
    pub(super) fn child(&mut self, dir: NodeId, name: &str) -> Result<Option<NodeId>, Errno> {
        let this = self.dir(dir);
        let known = this.entries.get(name).map(|entry| entry.kind);
        match known {
            Some(EntryKind::Node(id)) => Ok(Some(id)),
            Some(EntryKind::Absent) => Ok(None),
            None if this.complete => Ok(None),
            known => self.child_without_node(dir, name, known),
        }
    }

    /// As [`Overlay::child`], if `name` has no node yet. Apart, so that other lookups do not pay for it.
    #[cold]
    fn child_without_node(
        &mut self,
        dir: NodeId,
        name: &str,
        known: Option<EntryKind>,
    ) -> Result<Option<NodeId>, Errno> {
        if let Some(EntryKind::Folded(id)) = known {
            return self.unfold(dir, name, id).map(Some);
        }
        let this = self.dir(dir);
        let exact = this.below.iter().all(|(l, _)| self.layers[usize::from(*l)].names_are_exact());
        if known.is_none() && (this.misses >= MISSES_MAX || !exact) {
            self.complete(dir)?;
            return self.child(dir, name);
        }
        self.materialise(dir, name)
    }

    /// Whether the directory `dir` has an entry `name`, or shows one of the root.
    ///
    /// # Errors
    /// Those of the layers below.
    pub(crate) fn has_entry(&mut self, dir: NodeId, name: &str) -> Result<bool, Errno> {
        let own = self.child(dir, check_name(name)?)?;
        Ok(own.or_else(|| self.shown(dir, name)).is_some())
    }

    /// Creates the node of an entry below, or records that there is none.
    pub(super) fn materialise(&mut self, dir: NodeId, name: &str) -> Result<Option<NodeId>, Errno> {
        let Some(found) = self.find_below(&self.dir(dir).below, name)? else {
            let this = self.dir_mut(dir);
            this.misses = this.misses.saturating_add(1);
            let entry = Entry { kind: EntryKind::Absent, shadows: false };
            if this.entries.insert(name.into(), entry).is_some() && this.complete {
                // Was in the listing and is gone: the tree below changed.
                this.count -= 1;
                self.unlist(dir);
            }
            return Ok(None);
        };
        let body = match found.stat.file_type {
            FileType::Directory => {
                let below = found.dirs();
                let name_bytes = name_len(name);
                Body::Dir(Arc::new(Dir { parent: Some(dir), name_bytes, below, ..Dir::default() }))
            }
            // Its list of chunks alone could exceed memory.
            FileType::RegularFile if found.stat.size > FILE_BELOW_BYTES_MAX => {
                Body::Special(FileType::RegularFile)
            }
            FileType::RegularFile => Body::File(File { content: Content::below(found.stat.size) }),
            FileType::SymbolicLink => {
                let target = self.layers[usize::from(found.layer)].read_link(&found.path)?;
                match String::from_utf8(target.into_vec()) {
                    Ok(target) => Body::Symlink(target.into()),
                    // Guests have no way to express its target; it can be seen and removed.
                    Err(_) => Body::Special(FileType::SymbolicLink),
                }
            }
            other => Body::Special(other),
        };
        let Found { layer, path, stat, .. } = found;
        let mount = self.node(dir).mount;
        let (times, times_of) = self.times_below(mount, &stat);
        let ino = ino_below(self.node(dir).ino, name);
        let id = self.insert(Node {
            ino,
            nlink: 1,
            opens: 0,
            is_being_written: false,
            executable: None,
            mount,
            times,
            times_of,
            origin: Some(Box::new(Origin {
                shown_ns: times.mtim,
                ..Origin::new(layer, &path, &stat)
            })),
            body,
        });
        let entry = Entry { kind: EntryKind::Node(id), shadows: true };
        self.dir_mut(dir).entries.insert(name.into(), entry);
        Ok(Some(id))
    }

    /// The uppermost entry `name` of the directories `dirs` of layers, with the directories that merge with it;
    /// `None` for `ENOENT`.
    ///
    /// # Errors
    /// Those of the layers.
    pub(super) fn find_below(
        &self,
        dirs: &[(u16, VPath)],
        name: &str,
    ) -> Result<Option<Found>, Errno> {
        let mut found: Option<Found> = None;
        for (layer, path) in dirs {
            let tree = &self.layers[usize::from(*layer)];
            // A layer that folds case would match a name of another layer.
            if dirs.len() > 1 && !tree.names_are_exact() {
                match tree.list(path) {
                    Ok(list) if list.iter().any(|entry| *entry.name == *name) => {}
                    Ok(_) | Err(Errno::Noent | Errno::Notdir) => continue,
                    Err(errno) => return Err(errno),
                }
            }
            let path = path.join(name);
            let stat = match tree.stat(&path) {
                Ok(stat) => stat,
                Err(Errno::Noent | Errno::Notdir | Errno::Nametoolong) => continue,
                Err(errno) => return Err(errno),
            };
            let is_dir = stat.file_type == FileType::Directory;
            match &mut found {
                None => {
                    found = Some(Found { layer: *layer, path, stat, rest: Vec::new() });
                    if !is_dir {
                        break;
                    }
                }
                Some(found) if is_dir => found.rest.push((*layer, path)),
                Some(_) => break,
            }
        }
        Ok(found)
    }

    /// Creates an entry here for every entry below `dir`.
    ///
    /// # Errors
    /// Those of the layers below.
    pub(super) fn complete(&mut self, dir: NodeId) -> Result<(), Errno> {
        if self.dir(dir).complete {
            return Ok(());
        }
        for (layer, path) in self.dir(dir).below.clone() {
            let list = match self.layers[usize::from(layer)].list(&path) {
                Ok(list) => list,
                Err(Errno::Noent) => continue,
                Err(errno) => return Err(errno),
            };
            for below in list {
                let entry = Entry { kind: EntryKind::Below(below.file_type), shadows: true };
                let entries = &mut self.dir_mut(dir).entries;
                match entries.get_mut(&*below.name) {
                    Some(seen) => {
                        let freed = seen.name_bytes(&below.name);
                        seen.shadows = true;
                        self.uncharge(freed);
                    }
                    None => {
                        entries.insert(below.name.into(), entry);
                    }
                }
            }
        }
        let this = self.dir_mut(dir);
        // Absent here and below: a complete directory need not remember it.
        this.entries.retain(|_, entry| entry.shadows || !matches!(entry.kind, EntryKind::Absent));
        let present = |entry: &&Entry| !matches!(entry.kind, EntryKind::Absent);
        this.count = u32::try_from(this.entries.values().filter(present).count())
            .map_err(|_| Errno::Overflow)?;
        this.complete = true;
        Ok(())
    }

    /// Bytes charged for the name of an entry; 0 if there is none.
    pub(super) fn name_bytes(&self, dir: NodeId, name: &str) -> u64 {
        self.dir(dir).entries.get(name).map_or(0, |entry| entry.name_bytes(name))
    }

    /// Makes `name`, which is absent, the entry of `id` in `dir` and charges its bytes: callers have checked that
    /// there is room.
    pub(super) fn attach(&mut self, dir: NodeId, name: &str, id: NodeId, now: u64) {
        self.note_come(dir, name, id, now);
        let (ino, file_type) = (self.node(id).ino, self.file_type(id));
        let this = self.dir_mut(dir);
        let kind = EntryKind::Node(id);
        let (listed, made) = if let Some((_, name, seen)) = this.entries.get_full_mut(name) {
            seen.kind = kind;
            (name.clone(), seen.name_bytes(name))
        } else {
            let (name, entry) = (Arc::<str>::from(name), Entry { kind, shadows: false });
            this.entries.insert(name.clone(), entry);
            let made = entry.name_bytes(&name);
            (name, made)
        };
        let old = this.list_one_more(Listed { name: listed, ino, file_type });
        this.count += u32::from(this.complete);
        self.upper_bytes += made;
        self.note_old(old);
        if file_type == FileType::Directory {
            let child = self.dir_mut(id);
            child.parent = Some(dir);
            child.name_bytes = name_len(name);
        }
        self.touch(dir, now);
    }

    /// Removes the entry `name` from `dir`; leaves a whiteout if a layer has the name.
    pub(super) fn detach(&mut self, dir: NodeId, name: &str, now: u64) {
        if let Some(EntryKind::Node(id)) = self.dir(dir).entries.get(name).map(|entry| entry.kind) {
            self.note_gone(dir, name, id);
        }
        let this = self.dir_mut(dir);
        let listing = this.listing.take();
        this.count -= u32::from(this.complete);
        let mut freed = 0;
        if let Some(entry) = this.entries.get_mut(name) {
            freed = entry.name_bytes(name);
            if entry.shadows {
                entry.kind = EntryKind::Absent;
            } else {
                this.entries.swap_remove(name);
            }
        }
        // Uncharged memory must not stay allocated.
        let entries = &mut this.entries;
        if entries.capacity() / 4 > entries.len() + ENTRIES_SPARE {
            entries.shrink_to(entries.len() * 2);
        }
        self.note_old(listing);
        self.uncharge(freed);
        self.touch(dir, now);
    }

    /// Whether the directory `dir` is empty.
    pub(super) fn is_empty(&mut self, dir: NodeId) -> Result<bool, Errno> {
        self.complete(dir)?;
        Ok(self.dir(dir).count == 0)
    }
}
