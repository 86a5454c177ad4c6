//! File systems that plans run on, their answers, and the overlay with its layers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use belljar::Cas;
use belljar::Errno;
use belljar::kernel::vfs::{
    Base, Blob, DirEntry, FileType, Follow, Layer, Metadata, Mtimes, NodeId, OpenFlags, Overlay,
    RestoreError, Source, Stat, VPath, VfsLimits,
};

use super::plans::{NOW, Op, Place, SLOTS, Sown, What, pattern};

/// The limit on the length of a file, which plans reach.
pub const FILE_BYTES_MAX: u64 = 5 << 20;

/// The time of all files of layers that do not show times of their own.
pub const LAYER_TIME: u64 = 1_234_567_890_123_456_789;

/// A file system that plans run on.
pub trait Files {
    /// Carries out `op` at the time `now`.
    fn apply(&mut self, op: &Op, now: u64) -> Outcome;

    /// All entries by path; the root is the empty path, the file open in slot `n` is `#n`.
    fn dump(&mut self) -> Tree;
}

pub type Outcome = Result<Answer, Errno>;
pub type Tree = BTreeMap<String, (Metadata, Answer)>;

/// The answer to an operation.
#[derive(Clone, PartialEq, Eq)]
pub enum Answer {
    Done,
    Bytes(Vec<u8>),
    Text(String),
    Meta(Metadata),
    /// Names, inode numbers, types.
    Entries(Vec<(String, u64, FileType)>),
    Executable(bool),
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Bytes(bytes) => {
                let shown = &bytes[..bytes.len().min(64)];
                write!(f, "{} bytes {shown:?}", bytes.len())
            }
            Self::Text(text) => fmt::Debug::fmt(text, f),
            Self::Meta(meta) => fmt::Debug::fmt(meta, f),
            Self::Entries(entries) => f.debug_list().entries(entries).finish(),
            Self::Executable(executable) => write!(f, "executable: {executable}"),
        }
    }
}

/// The path of `name` in the directory `parent` of a [`Tree`].
pub fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}/{name}") }
}

/// When the last component of a path is followed if it is a symbolic link.
#[derive(Clone, Copy, PartialEq)]
pub enum Last {
    Followed,
    /// As in POSIX, for every lookup of an existing file.
    FollowedBeforeSlash,
    /// As in Linux, when a name is created or removed.
    Kept,
}

impl From<Follow> for Last {
    fn from(follow: Follow) -> Self {
        match follow {
            Follow::Yes => Self::Followed,
            Follow::No => Self::FollowedBeforeSlash,
        }
    }
}

/// The end of the key in a [`Tree`] of a file that can be executed, which follows that of the file.
pub const EXECUTABLE: &str = " executable";

/// The tree that `layers`, the uppermost first, show together, by the names on the way.
pub fn merged(layers: &[BTreeMap<String, Sown>]) -> BTreeMap<Vec<String>, &Sown> {
    let mut merged: BTreeMap<Vec<String>, &Sown> = BTreeMap::new();
    for layer in layers.iter().rev() {
        for (path, sown) in layer {
            let path: Vec<String> = path.split('/').map(str::to_owned).collect();
            let path = if path == [""] { Vec::new() } else { path };
            let both_dirs = sown.what == What::Dir
                && merged.get(&path).is_some_and(|below| below.what == What::Dir);
            if !both_dirs {
                merged.retain(|below, _| !below.starts_with(&path));
            }
            merged.insert(path, sown);
        }
    }
    merged
}

/// A layer in memory.
pub struct MemoryLayer {
    pub tree: BTreeMap<String, Sown>,
    /// Finds names regardless of case, as some hosts do.
    pub folds: bool,
}

impl MemoryLayer {
    fn find(&self, path: &VPath) -> Result<&Sown, Errno> {
        let path = path.as_str();
        let other_case = || {
            let folded = path.to_lowercase();
            self.tree.iter().find(|(key, _)| self.folds && key.to_lowercase() == folded)
        };
        let found = self.tree.get(path).or_else(|| Some(other_case()?.1));
        found.ok_or(Errno::Noent)
    }
}

impl Layer for MemoryLayer {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno> {
        let sown = self.find(path)?;
        let size = if let What::File { len, .. } = sown.what { len as u64 } else { 0 };
        let (mtime_ns, executable) = (sown.mtime, false);
        Ok(Stat {
            file_type: type_of(&sown.what),
            size,
            mtime_ns,
            executable,
            stamp: 0,
            inode: 0,
            nlink: 1,
        })
    }

    fn list(&self, path: &VPath) -> Result<Vec<DirEntry>, Errno> {
        let dir = self.find(path)?;
        if dir.what != What::Dir {
            return Err(Errno::Notdir);
        }
        let entry = |(path, sown): (&String, &Sown)| {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            let entry = DirEntry { name: name.into(), file_type: type_of(&sown.what) };
            (parent == dir.path && !name.is_empty()).then_some(entry)
        };
        let mut entries = self.tree.iter().filter_map(entry).collect::<Vec<_>>();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn read_link(&self, path: &VPath) -> Result<Box<[u8]>, Errno> {
        match &self.find(path)?.what {
            What::Link(text) => Ok(text.as_bytes().into()),
            _ => Err(Errno::Inval),
        }
    }

    fn open(&self, path: &VPath) -> Result<Blob, Errno> {
        match &self.find(path)?.what {
            What::File { len, first } => Ok(Blob::Bytes(pattern(*first, *len).into())),
            What::Dir => Err(Errno::Isdir),
            _ => Err(Errno::Acces),
        }
    }

    fn names_are_exact(&self) -> bool {
        !self.folds
    }
}

pub fn type_of(what: &What) -> FileType {
    match what {
        What::Dir => FileType::Directory,
        What::File { .. } => FileType::RegularFile,
        What::Link(_) => FileType::SymbolicLink,
        What::Special => FileType::Unknown,
    }
}

/// The overlay, and the files that the plan has open.
#[derive(Clone)]
pub struct OverlayFiles {
    overlay: Overlay,
    slots: [Option<Slot>; SLOTS],
}

#[derive(Clone, Copy)]
struct Slot {
    node: NodeId,
    /// Descriptors check their rights, not the overlay.
    write: bool,
}

impl OverlayFiles {
    pub fn new(source: Source, own_times: bool, limits: VfsLimits) -> Self {
        let mut overlay = Overlay::new(limits, LAYER_TIME);
        let mtimes = if own_times { Mtimes::Host } else { Mtimes::Fixed(LAYER_TIME) };
        overlay.mount("/", source, false, mtimes, LAYER_TIME).expect("the root is a directory");
        Self { overlay, slots: [None; SLOTS] }
    }

    pub fn over(layers: Vec<MemoryLayer>, own_times: bool, caches: bool) -> Self {
        let mut limits = VfsLimits { file_bytes_max: FILE_BYTES_MAX, ..VfsLimits::default() };
        limits.cache_bytes_max *= u64::from(caches);
        let layer = |layer| Arc::new(layer) as Arc<dyn Layer>;
        Self::new(Source::Layers(layers.into_iter().map(layer).collect()), own_times, limits)
    }

    fn slot(&self, slot: usize) -> Result<Slot, Errno> {
        self.slots[slot].ok_or(Errno::Badf)
    }

    fn writable(&self, slot: usize) -> Result<NodeId, Errno> {
        let Slot { node, write } = self.slot(slot)?;
        if write { Ok(node) } else { Err(Errno::Badf) }
    }

    fn at<'a>(&self, place: &'a Place) -> Result<(Base, &'a str), Errno> {
        let node = |slot| match slot {
            Some(slot) => self.slot(slot).map(|slot| slot.node),
            None => Ok(self.overlay.root()),
        };
        Ok((Base { dir: node(place.slot)?, root: node(place.root)? }, &place.path))
    }

    fn entries(&mut self, node: NodeId) -> Result<Vec<(String, u64, FileType)>, Errno> {
        let listing = self.overlay.list(node)?;
        Ok(listing.iter().map(|line| (line.name.to_string(), line.ino, line.file_type)).collect())
    }

    fn held(&mut self, node: NodeId, path: &str) -> Answer {
        let len = self.overlay.metadata_of(node).size as usize;
        match self.overlay.file_type(node) {
            FileType::RegularFile => {
                let mut bytes = vec![0xee; len + 1];
                let count = self.overlay.read_at(node, 0, &mut bytes).expect(path);
                bytes.truncate(count);
                Answer::Bytes(bytes)
            }
            FileType::Directory => Answer::Entries(self.entries(node).expect(path)),
            _ => Answer::Done,
        }
    }

    fn dump_dir(&mut self, dir: NodeId, path: &str, tree: &mut Tree) {
        let base = Base { dir, root: self.overlay.root() };
        for (name, ino, file_type) in self.entries(dir).expect(path) {
            let path = join(path, &name);
            let meta = self.overlay.stat(base, &name, Follow::No).expect(&path);
            assert_eq!((ino, file_type), (meta.ino, meta.file_type), "listed and examined: {path}");
            let held = match file_type {
                FileType::SymbolicLink => {
                    Answer::Text(self.overlay.read_link(base, &name).expect(&path).into())
                }
                FileType::RegularFile | FileType::Directory => {
                    let node =
                        self.overlay.open(base, &name, OpenFlags::default(), 0).expect(&path);
                    let held = self.held(node, &path);
                    if file_type == FileType::Directory {
                        self.dump_dir(node, &path, tree);
                    } else {
                        let again = self.overlay.read(&format!("/{path}")).expect(&path);
                        assert!(held == Answer::Bytes(again), "read in two ways: {path}");
                    }
                    self.overlay.close(node);
                    held
                }
                _ => Answer::Done,
            };
            if file_type == FileType::RegularFile
                && self.overlay.is_executable_at(base, &name, Follow::No).expect(&path)
            {
                tree.insert(format!("{path}{EXECUTABLE}"), (meta, Answer::Executable(true)));
            }
            tree.insert(path, (meta, held));
        }
    }

    /// Closes everything, and restores `fresh`, which has the same layers, from the saved state of
    /// this overlay as text.
    pub fn hand_over_to(&mut self, fresh: &mut Self, cas: &Cas) -> Result<(), RestoreError> {
        self.close_all();
        let saved = serde_json::to_string(&self.overlay.save(cas)?).expect("it is JSON");
        fresh.overlay.restore(&serde_json::from_str(&saved).expect("it is JSON"), cas)?;
        // A mapping that holds little becomes a small buffer.
        let (before, after) = (self.overlay.upper_bytes(), fresh.overlay.upper_bytes());
        assert!(after <= before, "{after} bytes of the upper layer where {before} were");
        Ok(())
    }

    fn close_all(&mut self) {
        for slot in std::mem::take(&mut self.slots).into_iter().flatten() {
            self.overlay.close(slot.node);
        }
    }

    /// Closes and removes everything.
    ///
    /// # Panics
    /// If bytes of the upper layer are still accounted for then.
    pub fn empty(&mut self) {
        self.close_all();
        for (path, (meta, _)) in self.dump().iter().rev() {
            let base = self.overlay.host_base();
            match meta.file_type {
                _ if path.is_empty() || path.ends_with(EXECUTABLE) => Ok(()),
                FileType::Directory => self.overlay.remove_dir(base, path, NOW),
                _ => self.overlay.unlink(base, path, NOW),
            }
            .expect(path);
        }
        assert_eq!(self.overlay.upper_bytes(), 0, "bytes accounted for when nothing is left");
    }
}

impl Files for OverlayFiles {
    fn apply(&mut self, op: &Op, now: u64) -> Outcome {
        match op {
            Op::Open { slot, at, flags } => {
                let (base, path) = self.at(at)?;
                let node = self.overlay.open(base, path, *flags, now)?;
                if let Some(old) = self.slots[*slot].replace(Slot { node, write: flags.write }) {
                    self.overlay.close(old.node);
                }
            }
            Op::Close { slot } => {
                let Slot { node, .. } = self.slot(*slot)?;
                self.overlay.close(node);
                self.slots[*slot] = None;
            }
            Op::Write { slot, offset, len, first } => {
                let node = self.writable(*slot)?;
                self.overlay.write_at(node, *offset, &pattern(*first, *len), now)?;
            }
            Op::Append { slot, len, first } => {
                let node = self.writable(*slot)?;
                let end = self.overlay.len(node)?;
                self.overlay.write_at(node, end, &pattern(*first, *len), now)?;
            }
            Op::Read { slot, offset, len } => {
                let mut bytes = vec![0xee; *len];
                let node = self.slot(*slot)?.node;
                let count = self.overlay.read_at(node, *offset, &mut bytes)?;
                bytes.truncate(count);
                return Ok(Answer::Bytes(bytes));
            }
            Op::SetLen { slot, len } => {
                let node = self.writable(*slot)?;
                self.overlay.set_len(node, *len, now)?;
            }
            Op::Allocate { slot, offset, len } => {
                let node = self.writable(*slot)?;
                self.overlay.allocate(node, *offset, *len, now)?;
            }
            Op::List { slot } => {
                let node = self.slot(*slot)?.node;
                return Ok(Answer::Entries(self.entries(node)?));
            }
            Op::StatOpen { slot } => {
                return Ok(Answer::Meta(self.overlay.metadata_of(self.slot(*slot)?.node)));
            }
            Op::SetTimesOpen { slot, atim, mtim } => {
                let node = self.slot(*slot)?.node;
                self.overlay.set_times(node, *atim, *mtim, now)?;
            }
            Op::Stat { at, follow } => {
                let (base, path) = self.at(at)?;
                return Ok(Answer::Meta(self.overlay.stat(base, path, *follow)?));
            }
            Op::SetTimes { at, follow, atim, mtim } => {
                let (base, path) = self.at(at)?;
                self.overlay.set_times_at(base, path, *follow, *atim, *mtim, now)?;
            }
            Op::SetExecutable { at, follow, executable } => {
                let (base, path) = self.at(at)?;
                self.overlay.set_executable_at(base, path, *follow, *executable, now)?;
            }
            Op::IsExecutable { at, follow } => {
                let (base, path) = self.at(at)?;
                let executable = self.overlay.is_executable_at(base, path, *follow)?;
                return Ok(Answer::Executable(executable));
            }
            Op::Mkdir { at } => {
                let (base, path) = self.at(at)?;
                self.overlay.create_dir(base, path, now)?;
            }
            Op::Rmdir { at } => {
                let (base, path) = self.at(at)?;
                self.overlay.remove_dir(base, path, now)?;
            }
            Op::Unlink { at } => {
                let (base, path) = self.at(at)?;
                self.overlay.unlink(base, path, now)?;
            }
            Op::Rename { from, to } => {
                let (from, to) = (self.at(from)?, self.at(to)?);
                self.overlay.rename(from, to, now)?;
            }
            Op::Link { from, follow, to } => {
                let (from, to) = (self.at(from)?, self.at(to)?);
                self.overlay.link(from, *follow, to, now)?;
            }
            Op::Symlink { text, at } => {
                let (base, path) = self.at(at)?;
                self.overlay.symlink(text, base, path, now)?;
            }
            Op::ReadLink { at } => {
                let (base, path) = self.at(at)?;
                return Ok(Answer::Text(self.overlay.read_link(base, path)?.into()));
            }
            Op::Fork => {}
        }
        Ok(Answer::Done)
    }

    fn dump(&mut self) -> Tree {
        let mut tree = Tree::new();
        let root = self.overlay.root();
        tree.insert(String::new(), (self.overlay.metadata_of(root), self.held(root, "/")));
        self.dump_dir(root, "", &mut tree);
        for (at, slot) in self.slots.into_iter().enumerate() {
            if let Some(Slot { node, .. }) = slot {
                let held = self.held(node, "open");
                tree.insert(format!("#{at}"), (self.overlay.metadata_of(node), held));
            }
        }
        tree
    }
}
