//! Nodes of the overlay, and the entries that name them.

use std::sync::Arc;

use hashbrown::DefaultHashBuilder;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::content::Content;
use super::listing::Listing;
use crate::kernel::vfs::layer::{FileType, Stat, Times};
use crate::kernel::vfs::path::VPath;

/// Identifies a node of one overlay while an entry, an open description or a mount refers to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NodeId(pub(in crate::kernel::vfs) u32);

/// Identifies a directory in the store of one overlay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::kernel::vfs) struct FoldedId(pub u32);

/// Identifies a mount of one overlay, in the order of mounting; 0 is the root.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MountId(pub(in crate::kernel::vfs) u16);

impl MountId {
    /// Its index in [`crate::kernel::vfs::Overlay::mounts`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The source of a node's times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::kernel::vfs) enum TimesOf {
    /// The layer below.
    Layer,
    /// Its content below, not read yet for that: the present value means nothing.
    Content,
    /// The clock, at a write or creation.
    Clock,
    /// Values set explicitly.
    Guest,
}

/// A file, directory or symbolic link.
#[derive(Clone)]
pub(in crate::kernel::vfs) struct Node {
    pub ino: u64,
    /// Number of names.
    pub nlink: u32,
    /// Open descriptions of it.
    pub opens: u32,
    /// Created or written to through a description that is still open.
    pub is_being_written: bool,
    /// Whether its owner may execute this file, as a program set it. `None` if none did, or set what the origin
    /// has: see [`Node::is_executable`].
    pub executable: Option<bool>,
    /// The mount it was found or created in.
    pub mount: MountId,
    pub times: Times,
    pub times_of: TimesOf,
    /// Its origin in a layer; `None` if created here.
    pub origin: Option<Box<Origin>>,
    pub body: Body,
}

impl Node {
    /// Whether its times are a change, which an apply writes: they were set explicitly, or a file was written to.
    pub fn carries_times(&self) -> bool {
        match self.times_of {
            TimesOf::Guest => true,
            // The host writes at time 0, which means no time.
            TimesOf::Clock => !matches!(self.body, Body::Dir(_)) && self.times.mtim > 0,
            TimesOf::Layer | TimesOf::Content => false,
        }
    }

    /// Whether an apply sets its times on the disk, as a change or as those of a changed directory.
    pub fn has_own_times(&self) -> bool {
        self.carries_times() || self.is_changed_dir()
    }

    /// Whether it is a directory in which a program added or removed names: an apply gives it the time of that.
    pub fn is_changed_dir(&self) -> bool {
        let is_changed = self.times_of == TimesOf::Clock && self.times.mtim > 0;
        is_changed && matches!(self.body, Body::Dir(_))
    }

    /// Whether the owner may execute this file, which replaces `before`. A new file takes that from the file that it
    /// replaces, unless it has several names, which might disagree.
    pub fn is_executable(&self, before: Option<&Stat>) -> bool {
        match (self.executable, &self.origin, before) {
            (Some(executable), ..) => executable,
            (None, Some(origin), _) => origin.executable,
            (None, None, Some(stat)) if self.nlink == 1 => {
                stat.file_type == FileType::RegularFile && stat.executable
            }
            _ => false,
        }
    }
}

/// The entry of a layer that a node comes from.
#[derive(Clone)]
pub(in crate::kernel::vfs) struct Origin {
    pub layer: u16,
    pub path: VPath,
    pub stamp: u64,
    pub executable: bool,
    /// The content was read, so a change on the disk is a conflict for an apply.
    pub was_read: bool,
    /// Further names of the file in the layer.
    pub names: Vec<VPath>,
    /// The modification time that it showed, before a program changed it.
    pub shown_ns: u64,
}

impl Origin {
    /// The entry just found at `path` of `layer`.
    pub fn new(layer: u16, path: &VPath, stat: &Stat) -> Self {
        let Stat { stamp, executable, .. } = *stat;
        let path = path.clone();
        let (was_read, names, shown_ns) = (false, Vec::new(), 0);
        Self { layer, path, stamp, executable, was_read, names, shown_ns }
    }

    /// Whether `path` of `layer` is a name of it.
    pub fn is_at(&self, layer: u16, path: &VPath) -> bool {
        self.layer == layer && (self.path == *path || self.names.contains(path))
    }
}

#[derive(Clone)]
pub(in crate::kernel::vfs) enum Body {
    File(File),
    Dir(Arc<Dir>),
    Symlink(Box<str>),
    /// Anything else; visible, but cannot be opened.
    Special(FileType),
}

impl Body {
    pub fn file_type(&self) -> FileType {
        match self {
            Self::File(_) => FileType::RegularFile,
            Self::Dir(_) => FileType::Directory,
            Self::Symlink(_) => FileType::SymbolicLink,
            Self::Special(file_type) => *file_type,
        }
    }
}

#[derive(Clone, Default)]
pub(in crate::kernel::vfs) struct File {
    pub content: Content,
}

#[derive(Clone, Default)]
pub(in crate::kernel::vfs) struct Dir {
    /// The parent directory; itself for the root, `None` once removed.
    pub parent: Option<NodeId>,
    /// Length of its name in bytes; 0 for mount points.
    pub name_bytes: u8,
    /// The directories of layers whose entries show through, the uppermost first.
    pub below: Vec<(u16, VPath)>,
    /// In the order of creation, which is mostly sorted already.
    pub entries: IndexMap<Arc<str>, Entry, DefaultHashBuilder>,
    /// Every entry below has its entry here.
    pub complete: bool,
    /// Failed lookups below: after a few, a listing is cheaper.
    pub misses: u8,
    /// Number of entries that are present; valid once `complete`.
    pub count: u32,
    /// The listing, until an entry is added or removed.
    pub listing: Option<Listing>,
    /// Made to hold a mount point: not a change.
    pub scaffold: bool,
}

/// The entry of a name in a directory.
#[derive(Clone, Copy)]
pub(in crate::kernel::vfs) struct Entry {
    pub kind: EntryKind,
    /// A layer below has an entry of this name.
    pub shadows: bool,
}

impl Entry {
    /// Bytes charged for the name of this entry: only for names that guests made, not those that a layer has.
    pub fn name_bytes(&self, name: &str) -> u64 {
        let is_made_here = matches!(self.kind, EntryKind::Node(_)) && !self.shadows;
        if is_made_here { name.len() as u64 } else { 0 }
    }
}

#[derive(Clone, Copy)]
pub(in crate::kernel::vfs) enum EntryKind {
    Node(NodeId),
    /// Found in a listing below, not looked up yet.
    Below(FileType),
    /// A directory that is in the store.
    Folded(FoldedId),
    /// Absent: removed here (a whiteout), or looked up in vain.
    Absent,
}

/// Charge for a node, without its content and the bytes of its name; also for each further name.
pub(in crate::kernel::vfs) const NODE_BYTES: u64 = 512;

/// Charge for a node created here, without its names and the content of a file.
pub(in crate::kernel::vfs) fn node_bytes(body: &Body) -> u64 {
    match body {
        Body::Symlink(target) => NODE_BYTES + target.len() as u64,
        _ => NODE_BYTES,
    }
}

/// Length of a checked name.
pub(in crate::kernel::vfs) fn name_len(name: &str) -> u8 {
    u8::try_from(name.len()).unwrap_or(u8::MAX)
}

/// Inode numbers of nodes created here are smaller.
pub(in crate::kernel::vfs) const MADE_INO_END: u64 = 1 << 63;

/// The inode number of the entry `name` of a layer, in the directory numbered `dir_ino`: independent of the order
/// of lookups. The top bit keeps it apart from numbers of nodes created here, which count up from 1.
pub(in crate::kernel) fn ino_below(dir_ino: u64, name: &str) -> u64 {
    // FNV-1a over both, then the finisher of SplitMix64 to spread close values.
    let bytes = dir_ino.to_le_bytes().into_iter().chain(name.bytes());
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (hash ^ (hash >> 31)) | MADE_INO_END
}
