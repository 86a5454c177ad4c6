//! What the overlay is made of: nodes, and the entries that name them.

use std::sync::Arc;

use hashbrown::DefaultHashBuilder;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::content::Content;
use super::listing::Listing;
use crate::kernel::vfs::layer::{FileType, Stat, Times};
use crate::kernel::vfs::path::VPath;

/// Names a node of one overlay for as long as something refers to it: an entry, an open
/// description or a mount.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NodeId(pub(in crate::kernel::vfs) u32);

/// Names a mount of one overlay, in the order of mounting; 0 is the root.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MountId(pub(in crate::kernel::vfs) u16);

impl MountId {
    /// Its line in [`crate::kernel::vfs::Overlay::mounts`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Where the times of a node are from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::kernel::vfs) enum TimesOf {
    /// What it was found as below.
    Layer,
    /// Its content below, which nobody has looked at for that: the times it has say nothing.
    Content,
    /// The clock, when somebody changed or made it.
    Clock,
    /// Whoever set them to definite values.
    Guest,
}

/// A file, directory or link, whatever names it has.
#[derive(Clone)]
pub(in crate::kernel::vfs) struct Node {
    pub ino: u64,
    /// Entries that name it.
    pub nlink: u32,
    /// Open descriptions of it.
    pub opens: u32,
    /// Whether it was made or written to by whoever has it open.
    pub is_being_written: bool,
    /// The mount it was found or made in.
    pub mount: MountId,
    pub times: Times,
    /// Where the times are from.
    pub times_of: TimesOf,
    /// Where in a layer it comes from; `None` if it was made here.
    pub origin: Option<Box<Origin>>,
    pub body: Body,
}

impl Node {
    /// Whether a patch carries its times to the disk: somebody set them, or wrote to it. Directories
    /// have what the disk makes of them, unless somebody set it.
    pub fn carries_times(&self) -> bool {
        match self.times_of {
            TimesOf::Guest => true,
            // What the host wrote has no time.
            TimesOf::Clock => !matches!(self.body, Body::Dir(_)) && self.times.mtim > 0,
            TimesOf::Layer | TimesOf::Content => false,
        }
    }
}

/// Where in a layer a node comes from.
#[derive(Clone)]
pub(in crate::kernel::vfs) struct Origin {
    pub layer: u16,
    pub path: VPath,
    pub stamp: u64,
    pub executable: bool,
    /// Whether the content was looked at, so that it must not have changed when a patch is applied.
    pub was_read: bool,
}

impl Origin {
    /// What was found at `path` of `layer` just now.
    pub fn new(layer: u16, path: &VPath, stat: &Stat) -> Self {
        let Stat { stamp, executable, .. } = *stat;
        Self { layer, path: path.clone(), stamp, executable, was_read: false }
    }
}

#[derive(Clone)]
pub(in crate::kernel::vfs) enum Body {
    File(File),
    Dir(Arc<Dir>),
    Symlink(Box<str>),
    /// Neither of these: shown, never opened.
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
    /// The directory that holds this one; itself for the root, `None` once it is removed.
    pub parent: Option<NodeId>,
    /// Length of its name; 0 for mount points.
    pub name_bytes: u8,
    /// The directories of layers whose entries show through, the uppermost first.
    pub below: Vec<(u16, VPath)>,
    /// In the order in which they came, so that a listing, which is sorted, mostly is already.
    pub entries: IndexMap<Arc<str>, Entry, DefaultHashBuilder>,
    /// Whether every entry below has its entry here.
    pub complete: bool,
    /// Names looked up below in vain since the start: after a few, a listing is cheaper.
    pub misses: u8,
    /// Present entries, once `complete`.
    pub count: u32,
    /// The listing, until an entry comes or goes.
    pub listing: Option<Listing>,
    /// Made for a mount point to stand in: no change that anyone made.
    pub scaffold: bool,
}

/// What a name in a directory stands for.
#[derive(Clone, Copy)]
pub(in crate::kernel::vfs) struct Entry {
    pub kind: EntryKind,
    /// Whether a layer below has something of this name.
    pub shadows: bool,
}

impl Entry {
    /// What the name of this entry costs against the limit of the upper layer: a name that a layer
    /// has does not grow with what guests do.
    pub fn name_bytes(&self, name: &str) -> u64 {
        let is_made_here = matches!(self.kind, EntryKind::Node(_)) && !self.shadows;
        if is_made_here { name.len() as u64 } else { 0 }
    }
}

#[derive(Clone, Copy)]
pub(in crate::kernel::vfs) enum EntryKind {
    Node(NodeId),
    /// Seen in a listing below and not looked at since.
    Below(FileType),
    /// Nothing: removed here (a whiteout), or looked up below in vain.
    Absent,
}

/// Numbers of nodes that were made here are smaller.
pub(in crate::kernel::vfs) const MADE_INO_END: u64 = 1 << 63;

/// The inode number of the entry `name` that a layer has in the directory with number `dir_ino`:
/// the same in whatever order entries are looked at. Numbers of nodes made here count up from 1,
/// so the top bit keeps the two apart.
pub(in crate::kernel::vfs) fn ino_below(dir_ino: u64, name: &str) -> u64 {
    // FNV-1a over both, then the finisher of SplitMix64, which spreads what FNV leaves close.
    let bytes = dir_ino.to_le_bytes().into_iter().chain(name.bytes());
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (hash ^ (hash >> 31)) | MADE_INO_END
}
