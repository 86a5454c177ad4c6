//! A folder of the host as it was when somebody began to look at it.
//!
//! The folder lives on, and is not copied. What was answered once is answered again: that is pinned. What
//! was not looked at is read from the disk as long as it can only be what it was, which its change time
//! tells: the disk sets that whenever a file, or the names in a folder, change. All else is a [`DriftKind`],
//! which is told, and never shown as if it were the state of the beginning.
//!
//! Change times cannot be set by programs, but they are not everything: see "Folders that change" in
//! `docs/sandbox.md`.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::drift_kind::DriftKind;
use crate::base::ambient;
use crate::base::digest::Digest;
use crate::base::errno::Errno;
use crate::kernel::vfs::layer::contents::Contents;
use crate::kernel::vfs::layer::host_dir::{Examined, HostDir};
use crate::kernel::vfs::layer::{Blob, DirEntry, FileType, Layer, Stat};
use crate::kernel::vfs::path::VPath;

/// How often something is looked at again that changes while it is looked at.
const LOOKS_MAX: usize = 8;

/// The coarsest clock that a disk has, FAT's.
const COARSEST: Duration = Duration::from_secs(2);

/// How far behind a clock may be that is not known to be coarser: a turn of the system's.
const TURN: Duration = Duration::from_millis(16);

/// Longest file that is kept when it is first opened. Longer ones are read from the disk, as long as they
/// are as they were: to copy them would take longer than most programs do that read them.
pub(in crate::kernel::vfs) const KEPT_BYTES_MAX: u64 = 256 << 20;

/// A directory of the host as it was at one time: a [`Layer`]. See the module's own text.
///
/// A fork of an overlay shares what is pinned: both began with the same state.
pub struct Baseline {
    shared: Arc<Shared>,
    /// What could not be shown as it was since somebody last asked, by this overlay.
    met: Mutex<BTreeMap<VPath, DriftKind>>,
}

pub(super) struct Shared {
    disk: Arc<HostDir>,
    /// What has a later change time has changed since.
    start_ns: u64,
    /// Where the content of a file goes when it is first opened. `None`: nowhere; it is read from the
    /// disk as long as it is as it was.
    contents: Option<Arc<Contents>>,
    pins: Mutex<Pins>,
}

#[derive(Clone, Default)]
pub(in crate::kernel::vfs) struct Pins {
    pub(in crate::kernel::vfs) by_path: BTreeMap<VPath, Pin>,
    /// What was written there since the beginning: by it this state differs from others that began with it.
    pub(in crate::kernel::vfs) written: BTreeSet<VPath>,
    /// What could not be shown as it was.
    pub(in crate::kernel::vfs) drifts: BTreeMap<VPath, DriftKind>,
}

/// What is answered for a path from now on.
#[derive(Clone)]
pub(in crate::kernel::vfs) enum Pin {
    /// This stood there.
    There(There),
    /// Nothing stood there; or nothing stands there, and nobody knows.
    Absent { is_certain: bool },
    /// Nobody knows what stood there.
    Unknown,
}

#[derive(Clone)]
pub(in crate::kernel::vfs) struct There {
    pub stat: Stat,
    pub link: Option<Box<[u8]>>,
    pub content: Option<(Digest, u64)>,
    pub list: Option<Arc<List>>,
    /// For a directory: besides those up to the start, the change time as of which it is known to hold
    /// what it held, and what was written there since with everybody's knowledge.
    pub accepted_ns: Option<u64>,
}

/// The names in a directory.
#[derive(Clone, Default)]
pub(in crate::kernel::vfs) struct List {
    pub entries: Vec<DirEntry>,
    /// Inode numbers of the directories among them, as far as they are known.
    pub inodes: HashMap<Box<str>, u64>,
    /// Whether the directory had changed before.
    pub is_late: bool,
}

/// A directory that holds what is looked at.
#[derive(PartialEq)]
enum Folder {
    /// It is the one that it was; `true` if no name came or went.
    Same(bool, u64),
    /// Another one stands there, or none.
    Other,
}

impl From<Stat> for There {
    fn from(stat: Stat) -> Self {
        Self { stat, link: None, content: None, list: None, accepted_ns: None }
    }
}

impl Baseline {
    /// The state of `disk` from now on. What is read is kept in `contents`; without them a file that
    /// changes before it was read, or while it is, answers `EIO`.
    ///
    /// If `wait`, it returns once the disk's clock has moved on, so that whatever changes after that
    /// has a later change time: at most two seconds, on most disks some milliseconds. Otherwise what
    /// changes in that time may be taken for a part of the state.
    pub fn begin(disk: Arc<HostDir>, contents: Option<Arc<Contents>>, wait: bool) -> Self {
        let start_ns = start(&disk, wait);
        Self::with(disk, start_ns, contents, Pins::default())
    }

    /// The state of `disk` at a time that is yet to be told, by [`crate::kernel::vfs::Overlay::restore`].
    pub fn to_restore(disk: Arc<HostDir>, contents: Option<Arc<Contents>>) -> Self {
        Self::with(disk, u64::MAX, contents, Pins::default())
    }

    pub(in crate::kernel::vfs) fn with(
        disk: Arc<HostDir>,
        start_ns: u64,
        contents: Option<Arc<Contents>>,
        pins: Pins,
    ) -> Self {
        let shared = Shared { disk, start_ns, contents, pins: Mutex::new(pins) };
        Self { shared: Arc::new(shared), met: Mutex::default() }
    }

    /// For an overlay that goes on by itself from here.
    pub(in crate::kernel::vfs) fn fork(&self) -> Self {
        Self { shared: self.shared.clone(), met: Mutex::default() }
    }

    /// The directory.
    pub fn disk(&self) -> &Arc<HostDir> {
        &self.shared.disk
    }

    pub(in crate::kernel::vfs) fn contents(&self) -> Option<&Arc<Contents>> {
        self.shared.contents.as_ref()
    }

    pub(in crate::kernel::vfs) fn start_ns(&self) -> u64 {
        self.shared.start_ns
    }

    pub(in crate::kernel::vfs) fn pins(&self) -> MutexGuard<'_, Pins> {
        // A pin is whole, whatever panicked.
        self.shared.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether both are one state.
    pub(in crate::kernel::vfs) fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Whether nothing stood at `path`, or nothing tells that something may have that was written there.
    pub(in crate::kernel::vfs) fn is_known_absent(&self, path: &VPath) -> bool {
        !matches!(self.pin(path), Ok(Pin::Absent { is_certain: false } | Pin::Unknown))
    }

    pub(super) fn drifts(&self) -> Vec<(VPath, DriftKind)> {
        self.pins().drifts.iter().map(|(path, kind)| (path.clone(), *kind)).collect()
    }

    pub(super) fn take_met(&self) -> Vec<(VPath, DriftKind)> {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *met).into_iter().collect()
    }

    /// Notes that `path` could not be shown as it was.
    fn drifted(&self, path: &VPath, kind: DriftKind) {
        self.pins().drifts.entry(path.clone()).or_insert(kind);
        self.meet(path, kind);
    }

    fn meet(&self, path: &VPath, kind: DriftKind) {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        met.entry(path.clone()).or_insert(kind);
    }

    fn is_changed(&self, found: &Examined) -> bool {
        found.changed_ns > self.shared.start_ns
    }

    /// What is answered for `path`.
    pub(in crate::kernel::vfs) fn pin(&self, path: &VPath) -> Result<Pin, Errno> {
        // From the first directory that is pinned down.
        let mut missing = vec![path.clone()];
        {
            let pins = self.pins();
            if let Some(pin) = pins.by_path.get(path) {
                return Ok(pin.clone());
            }
            while let Some((parent, _)) = missing[missing.len() - 1].split_last() {
                if pins.by_path.contains_key(&parent) {
                    break;
                }
                missing.push(parent);
            }
        }
        let mut last = Pin::Unknown;
        while let Some(path) = missing.pop() {
            let pin = self.establish(&path)?;
            last = self.pins().by_path.entry(path).or_insert(pin).clone();
        }
        Ok(last)
    }

    /// Finds out what stood at `path`, whose directory is pinned.
    fn establish(&self, path: &VPath) -> Result<Pin, Errno> {
        let Some((parent, name)) = path.split_last() else {
            return Ok(Pin::There(self.disk().examine(path)?.stat.into()));
        };
        let dir = match self.pins().by_path.get(&parent) {
            Some(Pin::There(dir)) if dir.stat.file_type == FileType::Directory => dir.clone(),
            Some(Pin::There(_)) => return Err(Errno::Notdir),
            Some(Pin::Absent { is_certain }) => return Ok(Pin::Absent { is_certain: *is_certain }),
            Some(Pin::Unknown) | None => {
                self.meet(&parent, DriftKind::Changed);
                return Err(Errno::Io);
            }
        };
        let listed = dir.list.as_deref().map(|list| (list, list.find(name)));
        if let Some((list, None)) = listed {
            return Ok(Pin::Absent { is_certain: !list.is_late });
        }
        let (folder, found) = self.look(&parent, &dir, || match self.disk().examine(path) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::Noent | Errno::Notdir) => Ok(None),
            Err(errno) => Err(errno),
        })?;
        let is_same = match folder {
            Folder::Other => {
                self.drifted(path, DriftKind::Changed);
                return Ok(Pin::Unknown);
            }
            Folder::Same(is_same, _) => is_same,
        };
        let was_there = is_same || listed.is_some_and(|(list, _)| !list.is_late);
        let unknown = |kind| {
            self.drifted(path, kind);
            Ok(Pin::Unknown)
        };
        let Some(found) = found else {
            if listed.is_some() {
                return unknown(DriftKind::Gone);
            }
            if !is_same {
                self.drifted(path, DriftKind::Missing);
            }
            return Ok(Pin::Absent { is_certain: is_same });
        };
        let is_known_dir = || {
            let inode = listed.and_then(|(list, _)| list.inodes.get(name));
            is_same || inode.is_some_and(|inode| *inode == found.stat.inode)
        };
        if !self.is_changed(&found) || found.stat.file_type == FileType::Directory && is_known_dir()
        {
            return Ok(Pin::There(found.stat.into()));
        }
        unknown(if was_there { DriftKind::Changed } else { DriftKind::Newer })
    }

    /// What `look` finds in the directory `path`, which is pinned as `dir`, and what that directory was
    /// meanwhile.
    fn look<T>(
        &self,
        path: &VPath,
        dir: &There,
        look: impl Fn() -> Result<T, Errno>,
    ) -> Result<(Folder, T), Errno> {
        let mut before = self.folder(path, dir)?;
        for _ in 0..LOOKS_MAX {
            let found = look();
            let after = self.folder(path, dir)?;
            if before == after {
                return Ok((after, found?));
            }
            before = after;
        }
        Ok((Folder::Other, look()?))
    }

    fn folder(&self, path: &VPath, dir: &There) -> Result<Folder, Errno> {
        let now = match self.disk().examine(path) {
            Ok(now) => now,
            Err(Errno::Noent | Errno::Notdir) => return Ok(Folder::Other),
            Err(errno) => return Err(errno),
        };
        if now.stat.file_type != FileType::Directory || now.stat.inode != dir.stat.inode {
            return Ok(Folder::Other);
        }
        let is_same = !self.is_changed(&now) || dir.accepted_ns == Some(now.changed_ns);
        Ok(Folder::Same(is_same, now.changed_ns))
    }

    /// What is pinned at `path`, if it is there.
    fn there(&self, path: &VPath) -> Result<There, Errno> {
        match self.pin(path)? {
            Pin::There(there) => Ok(there),
            Pin::Absent { is_certain } => {
                if !is_certain {
                    self.meet(path, DriftKind::Missing);
                }
                Err(Errno::Noent)
            }
            Pin::Unknown => {
                let kind = self.pins().drifts.get(path).copied();
                self.meet(path, kind.unwrap_or(DriftKind::Changed));
                Err(Errno::Io)
            }
        }
    }

    /// Adds to what is pinned at `path`.
    fn amend(&self, path: &VPath, amend: impl FnOnce(&mut There)) {
        if let Some(Pin::There(there)) = self.pins().by_path.get_mut(path) {
            amend(there);
        }
    }

    /// `EIO`, as what is pinned at `path` is another thing now.
    fn lost(&self, path: &VPath) -> Errno {
        let is_there = self.disk().examine(path).is_ok();
        self.drifted(path, if is_there { DriftKind::Changed } else { DriftKind::Gone });
        Errno::Io
    }

    fn list_pinned(&self, path: &VPath) -> Result<Arc<List>, Errno> {
        let there = self.there(path)?;
        if there.stat.file_type != FileType::Directory {
            return Err(Errno::Notdir);
        }
        if let Some(list) = &there.list {
            if list.is_late {
                self.meet(path, DriftKind::ListedLate);
            }
            return Ok(list.clone());
        }
        let list = || self.disk().list_with_inodes(path);
        let found = self.look(path, &there, list);
        let (is_same, found) = match found {
            Ok((Folder::Same(is_same, _), found)) => (is_same, found),
            Ok((Folder::Other, _)) | Err(Errno::Noent | Errno::Notdir) => {
                return Err(self.lost(path));
            }
            Err(errno) => return Err(errno),
        };
        let list = Arc::new(self.list_of(path, found, !is_same));
        let mut kept = None;
        self.amend(path, |there| kept = Some(there.list.get_or_insert(list).clone()));
        if !is_same {
            self.drifted(path, DriftKind::ListedLate);
        }
        kept.ok_or(Errno::Io)
    }

    /// What was found in the directory `path`, and what is known of single names.
    fn list_of(&self, path: &VPath, found: Vec<(DirEntry, u64)>, is_late: bool) -> List {
        let pins = self.pins();
        let mut entries = BTreeMap::new();
        let mut list = List { is_late, ..List::default() };
        for (entry, inode) in found {
            // One that is late says nothing of what was there before.
            if entry.file_type == FileType::Directory && inode != 0 && !is_late {
                list.inodes.insert(entry.name.clone(), inode);
            }
            entries.insert(entry.name, entry.file_type);
        }
        for (child, pin) in children(&pins.by_path, path) {
            let Some((_, name)) = child.split_last() else { continue };
            match pin {
                Pin::There(there) => {
                    entries.insert(name.into(), there.stat.file_type);
                }
                Pin::Absent { .. } => {
                    entries.remove(name);
                }
                Pin::Unknown => {
                    entries.entry(name.into()).or_insert(FileType::Unknown);
                }
            }
        }
        let entry = |(name, file_type)| DirEntry { name, file_type };
        list.entries = entries.into_iter().map(entry).collect();
        list
    }

    fn open_on_disk(&self, path: &VPath, there: &There) -> Result<Blob, Errno> {
        match self.disk().open(path) {
            Ok(blob) if blob.stamp() == Some(there.stat.stamp) => Ok(blob),
            Ok(_) | Err(Errno::Noent | Errno::Notdir | Errno::Isdir | Errno::Loop) => {
                Err(self.lost(path))
            }
            Err(errno) => Err(errno),
        }
    }

    /// What is known to have stood at `path`.
    pub(in crate::kernel::vfs) fn pinned_stat(&self, path: &VPath) -> Option<Stat> {
        match self.pins().by_path.get(path) {
            Some(Pin::There(there)) => Some(there.stat),
            _ => None,
        }
    }

    /// The content of the file `path`, if it is kept.
    pub(in crate::kernel::vfs) fn pinned_content(&self, path: &VPath) -> Option<(Digest, u64)> {
        match self.pins().by_path.get(path) {
            Some(Pin::There(there)) => there.content,
            _ => None,
        }
    }

    /// Makes sure that the content of the file `path` can be read later, whatever becomes of it.
    pub(in crate::kernel::vfs) fn keep(&self, path: &VPath) -> Result<(), Errno> {
        self.open(path).map(drop)
    }

    /// Which of the directories `paths` hold what they held.
    pub(in crate::kernel::vfs) fn unchanged_dirs(&self, paths: HashSet<VPath>) -> HashSet<VPath> {
        // A directory that has not been read since a refresh has no pin: `pin` looks it up.
        let is_same = |path: &VPath| match self.pin(path) {
            Ok(Pin::There(dir)) => matches!(self.folder(path, &dir), Ok(Folder::Same(true, _))),
            _ => false,
        };
        paths.into_iter().filter(is_same).collect()
    }

    /// The same state, but for what `change` makes of the pins: for this overlay, and not for its forks.
    pub(in crate::kernel::vfs) fn changed(&self, change: impl FnOnce(&mut Pins, &HostDir)) -> Self {
        let mut pins = self.pins().clone();
        change(&mut pins, self.disk());
        let Shared { disk, start_ns, contents, .. } = &*self.shared;
        Self::with(disk.clone(), *start_ns, contents.clone(), pins)
    }
}

impl List {
    fn find(&self, name: &str) -> Option<&DirEntry> {
        let at = self.entries.binary_search_by(|entry| (*entry.name).cmp(name)).ok()?;
        Some(&self.entries[at])
    }

    /// Makes `name` stand for what `pin` says.
    pub(in crate::kernel::vfs) fn set(&mut self, name: &str, pin: &Pin) {
        let at = self.entries.binary_search_by(|entry| (*entry.name).cmp(name));
        self.inodes.remove(name);
        match (pin, at) {
            (Pin::There(there), at) => {
                let stat = &there.stat;
                let entry = DirEntry { name: name.into(), file_type: stat.file_type };
                if stat.file_type == FileType::Directory && stat.inode != 0 {
                    self.inodes.insert(name.into(), stat.inode);
                }
                match at {
                    Ok(at) => self.entries[at] = entry,
                    Err(at) => self.entries.insert(at, entry),
                }
            }
            (_, Ok(at)) => drop(self.entries.remove(at)),
            (_, Err(_)) => {}
        }
    }
}

/// The pins of what stands in the directory `dir`.
fn children<'p>(
    pins: &'p BTreeMap<VPath, Pin>,
    dir: &VPath,
) -> impl Iterator<Item = (&'p VPath, &'p Pin)> + use<'p> {
    let of = dir.clone();
    beneath(pins, dir)
        .filter(move |(path, _)| path.split_last().is_some_and(|(parent, _)| parent == of))
}

/// The entries of a map of paths that lie in the directory `dir`, at whatever depth.
pub(in crate::kernel::vfs) fn beneath<'p, V>(
    map: &'p BTreeMap<VPath, V>,
    dir: &VPath,
) -> impl Iterator<Item = (&'p VPath, &'p V)> + use<'p, V> {
    let prefix = if dir.is_root() { String::new() } else { format!("{}/", dir.as_str()) };
    let first = dir.join("");
    let from = if dir.is_root() { VPath::root() } else { first };
    map.range(from..)
        .take_while(move |(path, _)| path.as_str().starts_with(&prefix))
        .filter(|(path, _)| !path.is_root())
}

impl Layer for Baseline {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno> {
        self.there(path).map(|there| there.stat)
    }

    fn list(&self, path: &VPath) -> Result<Vec<DirEntry>, Errno> {
        self.list_pinned(path).map(|list| list.entries.clone())
    }

    fn read_link(&self, path: &VPath) -> Result<Box<[u8]>, Errno> {
        let there = self.there(path)?;
        if let Some(text) = there.link {
            return Ok(text);
        }
        if there.stat.file_type != FileType::SymbolicLink {
            return Err(Errno::Inval);
        }
        let text = match self.disk().read_link(path) {
            Err(Errno::Noent | Errno::Notdir | Errno::Inval) => return Err(self.lost(path)),
            text => text?,
        };
        let is_same = |found: Examined| found.stat.stamp == there.stat.stamp;
        if !self.disk().examine(path).is_ok_and(is_same) {
            return Err(self.lost(path));
        }
        self.amend(path, |there| there.link = Some(text.clone()));
        Ok(text)
    }

    fn open(&self, path: &VPath) -> Result<Blob, Errno> {
        let there = self.there(path)?;
        match there.stat.file_type {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::Isdir),
            _ => return Err(Errno::Acces),
        }
        let contents = self.shared.contents.as_ref();
        let Some(contents) = contents.filter(|_| there.stat.size <= KEPT_BYTES_MAX) else {
            return self.open_on_disk(path, &there);
        };
        if let Some((digest, len_bytes)) = there.content {
            return contents.open(digest, len_bytes);
        }
        let blob = self.open_on_disk(path, &there)?;
        let len_bytes = there.stat.size;
        let digest = match contents.keep(&blob, len_bytes) {
            Err(Errno::Io) => {
                // A changed file, unless the host could not keep it.
                let is_same = |found: Examined| found.stat.stamp == there.stat.stamp;
                if self.disk().examine(path).is_ok_and(is_same) {
                    return Err(Errno::Io);
                }
                return Err(self.lost(path));
            }
            digest => digest?,
        };
        self.amend(path, |there| there.content = Some((digest, len_bytes)));
        contents.open(digest, len_bytes)
    }

    fn stat_now(&self, path: &VPath) -> Result<Stat, Errno> {
        self.disk().stat(path)
    }

    fn names_are_exact(&self) -> bool {
        self.disk().names_are_exact()
    }
}

/// The latest change time that something on `disk` can have by now; if `wait`, not later.
pub(in crate::kernel::vfs) fn start(disk: &HostDir, wait: bool) -> u64 {
    let begun = ambient::instant_now();
    if let Some(start_ns) = disk.disk_clock_ns() {
        let has_moved = || disk.disk_clock_ns().is_none_or(|now| now > start_ns);
        while wait && !has_moved() && ambient::elapsed_since(begun) < COARSEST + TURN {
            ambient::sleep(Duration::from_millis(1));
        }
        return start_ns;
    }
    // The system's clock, which is ahead of change times by what the disk's clock leaves out.
    let start_ns = ambient::wall_now_ns();
    let is_coarse = |found: Examined| found.changed_ns.is_multiple_of(1_000_000_000);
    let is_coarse = disk.examine(&VPath::root()).is_ok_and(is_coarse);
    if wait {
        ambient::sleep(if is_coarse { COARSEST } else { TURN });
    }
    start_ns
}
