//! A directory of the host as it was at one time, although programs outside go on changing it.
//!
//! The directory is not copied. Each answer is pinned: it is given again later. Whatever has not been looked at is
//! read from the disk, as long as its change time shows that it is unchanged: the disk sets the change time of a
//! file when it changes, and of a directory when its names change. Anything else is reported as a [`DriftKind`].
//!
//! Programs cannot set change times. What these do not show is in `docs/sandbox.md`, "Folders that change".

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::drift_kind::DriftKind;
use super::pin_table::Pins;
use super::pins::{List, Pin, There};
use crate::base::ambient;
use crate::base::digest::Digest;
use crate::base::errno::Errno;
use crate::kernel::vfs::layer::contents::Contents;
use crate::kernel::vfs::layer::host_dir::HostDir;
use crate::kernel::vfs::layer::host_examined::Examined;
use crate::kernel::vfs::layer::host_held::HeldDir;
use crate::kernel::vfs::layer::{Blob, DirEntry, FileType, Layer, Stat};
use crate::kernel::vfs::path::VPath;

/// Attempts to look at something that changes meanwhile.
const LOOKS_MAX: usize = 8;

/// The coarsest clock of a disk: FAT's.
const COARSEST: Duration = Duration::from_secs(2);

/// Lag of a clock that is not known to be coarser: one tick of the system's timer.
const TURN: Duration = Duration::from_millis(16);

/// Longest file whose content is kept when it is first opened. Longer ones are read from the disk while they
/// are unchanged, because copying takes longer than most programs that read them.
pub(in crate::kernel::vfs) const KEPT_BYTES_MAX: u64 = 256 << 20;

/// A directory of the host as it was at one time: a [`Layer`].
///
/// Forks of an overlay share the pins, as they began with the same state.
pub struct Baseline {
    shared: Arc<Shared>,
    /// Drifts that this overlay met since [`Baseline::take_new_drifts`].
    new_drifts: Mutex<BTreeMap<VPath, DriftKind>>,
}

/// The state of a directory of the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
struct DirState {
    /// Whether no name in it was added or removed since the start.
    is_same: bool,
    changed_ns: u64,
}

pub(super) struct Shared {
    disk: Arc<HostDir>,
    /// A later change time means changed since the start.
    start_ns: u64,
    /// Keeps the content of a file when it is first opened. `None`: files are read from the disk while they are
    /// unchanged.
    contents: Option<Arc<Contents>>,
    pins: Mutex<Pins>,
}

impl Baseline {
    /// Pins the state of `disk` from now on. What is read is kept in `contents`; without it, a file that changes
    /// before or while it is read fails with `EIO`.
    ///
    /// If `wait`, returns only when the disk's clock has advanced, so that later changes have later change times:
    /// after some milliseconds on most disks, at most about two seconds. Otherwise changes made within that
    /// time may be taken for part of the state.
    pub fn begin(disk: Arc<HostDir>, contents: Option<Arc<Contents>>, wait: bool) -> Self {
        let start_ns = start(&disk, wait);
        Self::with(disk, start_ns, contents, Pins::default())
    }

    /// A baseline whose start and pins are set by [`crate::kernel::vfs::Overlay::restore`].
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
        Self { shared: Arc::new(shared), new_drifts: Mutex::default() }
    }

    /// For a fork of an overlay.
    pub(in crate::kernel::vfs) fn fork(&self) -> Self {
        Self { shared: self.shared.clone(), new_drifts: Mutex::default() }
    }

    /// The directory on the disk.
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
        // A pin is complete once inserted, so a panic leaves no partial one.
        self.shared.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether both share their state.
    pub(in crate::kernel::vfs) fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Whether `path`, where nothing was found, is certain to have been absent.
    pub(in crate::kernel::vfs) fn is_known_absent(&self, path: &VPath) -> bool {
        !matches!(self.pin(path), Ok(Pin::Absent { is_certain: false } | Pin::Unknown))
    }

    pub(super) fn drifts(&self) -> Vec<(VPath, DriftKind)> {
        self.pins().drifts.iter().map(|(path, kind)| (path.clone(), *kind)).collect()
    }

    pub(super) fn take_new_drifts(&self) -> Vec<(VPath, DriftKind)> {
        let mut new_drifts = self.new_drifts.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *new_drifts).into_iter().collect()
    }

    /// Records that `path` could not be shown as it was.
    fn drifted(&self, path: &VPath, kind: DriftKind) {
        self.pins().drifts.entry(path.clone()).or_insert(kind);
        self.note_new_drift(path, kind);
    }

    fn note_new_drift(&self, path: &VPath, kind: DriftKind) {
        let mut new_drifts = self.new_drifts.lock().unwrap_or_else(PoisonError::into_inner);
        new_drifts.entry(path.clone()).or_insert(kind);
    }

    fn is_changed(&self, found: &Examined) -> bool {
        found.changed_ns > self.shared.start_ns
    }

    /// Returns the pin of `path`; makes those of its directories first.
    pub(in crate::kernel::vfs) fn pin(&self, path: &VPath) -> Result<Pin, Errno> {
        let mut missing = vec![path.clone()];
        {
            let mut pins = self.pins();
            if let Some(pin) = pins.by_path.find(path)? {
                return Ok(pin.clone());
            }
            while let Some((parent, _)) = missing[missing.len() - 1].split_last() {
                if pins.by_path.find(&parent)?.is_some() {
                    break;
                }
                missing.push(parent);
            }
        }
        let mut last = Pin::Unknown;
        while let Some(path) = missing.pop() {
            let pin = self.establish(&path)?;
            let mut pins = self.pins();
            // Another fork may have been faster.
            last = if let Some(pin) = pins.by_path.find(&path)? {
                pin.clone()
            } else {
                pins.by_path.insert(path, pin.clone())?;
                pin
            };
        }
        Ok(last)
    }

    /// Finds out what was at `path`, whose directory is pinned.
    fn establish(&self, path: &VPath) -> Result<Pin, Errno> {
        let Some((parent, name)) = path.split_last() else {
            return Ok(Pin::There(self.disk().examine(path)?.stat.into()));
        };
        let dir = match self.pins().by_path.find(&parent)? {
            Some(Pin::There(dir)) if dir.stat.file_type == FileType::Directory => dir.clone(),
            Some(Pin::There(_)) => return Err(Errno::Notdir),
            Some(Pin::Absent { is_certain }) => return Ok(Pin::Absent { is_certain: *is_certain }),
            Some(Pin::Unknown) | None => {
                self.note_new_drift(&parent, DriftKind::Changed);
                return Err(Errno::Io);
            }
        };
        let listed = dir.list.as_deref().map(|list| (list, list.find(name)));
        if let Some((list, None)) = listed {
            return Ok(Pin::Absent { is_certain: !list.is_late });
        }
        let looked = self.look(&parent, &dir, |folder| match folder.examine(name) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::Noent | Errno::Notdir) => Ok(None),
            Err(errno) => Err(errno),
        })?;
        let Some((is_same, found)) = looked else {
            self.drifted(path, DriftKind::Changed);
            return Ok(Pin::Unknown);
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

    /// Calls `look` until the directory `path`, pinned as `dir`, has the same change time before and after it. Returns
    /// whether no name in it was added or removed since the start, and the result; `None` if another directory or
    /// nothing is there now, or it keeps changing.
    fn look<T>(
        &self,
        path: &VPath,
        dir: &There,
        look: impl Fn(&HeldDir<'_>) -> Result<T, Errno>,
    ) -> Result<Option<(bool, T)>, Errno> {
        // One handle for all of it: what is found is of the directory whose state is compared.
        let (held, mut before) = match self.hold_unchanged(path, dir)? {
            Some((held, state)) => (held, Some(state)),
            None => match self.disk().hold(path) {
                Ok(held) => {
                    let state = self.state(&held, dir)?;
                    (held, state)
                }
                Err(Errno::Noent | Errno::Notdir) => return Ok(None),
                Err(errno) => return Err(errno),
            },
        };
        for _ in 0..LOOKS_MAX {
            let Some(state) = before else { return Ok(None) };
            let found = look(&held);
            let after = self.state(&held, dir)?;
            if before == after {
                return Ok(Some((state.is_same, found?)));
            }
            before = after;
        }
        Ok(None)
    }

    /// The directory `path`, pinned as `dir`, with its state, if it is open and unchanged: then it was not moved or
    /// removed either.
    fn hold_unchanged<'a>(
        &'a self,
        path: &'a VPath,
        dir: &There,
    ) -> Result<Option<(HeldDir<'a>, DirState)>, Errno> {
        let Some(held) = self.disk().hold_again(path) else { return Ok(None) };
        let state = self.state(&held, dir)?.filter(|state| state.is_same);
        Ok(state.map(|state| (held, state)))
    }

    /// The state of `held`; `None` if it is not the directory that is pinned as `dir`.
    fn state(&self, held: &HeldDir<'_>, dir: &There) -> Result<Option<DirState>, Errno> {
        let now = match held.examine_itself() {
            Ok(now) => now,
            Err(Errno::Noent | Errno::Notdir) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        if now.stat.file_type != FileType::Directory || now.stat.inode != dir.stat.inode {
            return Ok(None);
        }
        let is_same = !self.is_changed(&now) || dir.accepted_ns == Some(now.changed_ns);
        Ok(Some(DirState { is_same, changed_ns: now.changed_ns }))
    }

    /// The pin of `path`, which must be there.
    fn there(&self, path: &VPath) -> Result<There, Errno> {
        match self.pin(path)? {
            Pin::There(there) => Ok(there),
            Pin::Absent { is_certain } => {
                if !is_certain {
                    self.note_new_drift(path, DriftKind::Missing);
                }
                Err(Errno::Noent)
            }
            Pin::Unknown => {
                let kind = self.pins().drifts.get(path).copied();
                self.note_new_drift(path, kind.unwrap_or(DriftKind::Changed));
                Err(Errno::Io)
            }
        }
    }

    /// Changes the pin of `path`.
    fn amend(&self, path: &VPath, amend: impl FnOnce(&mut There)) {
        if let Some(Pin::There(there)) = self.pins().by_path.get_mut(path) {
            amend(there);
        }
    }

    /// Records that the pinned file at `path` is no longer there; returns `EIO`.
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
                self.note_new_drift(path, DriftKind::ListedLate);
            }
            return Ok(list.clone());
        }
        #[expect(
            clippy::redundant_closure_for_method_calls,
            reason = "the method is of one lifetime"
        )]
        let looked = self.look(path, &there, |held| held.list());
        let (is_same, found) = match looked {
            Ok(Some(found)) => found,
            Ok(None) | Err(Errno::Noent | Errno::Notdir) => return Err(self.lost(path)),
            Err(errno) => return Err(errno),
        };
        let list = Arc::new(self.list_of(path, found, !is_same)?);
        let mut kept = None;
        self.amend(path, |there| kept = Some(there.list.get_or_insert(list).clone()));
        if !is_same {
            self.drifted(path, DriftKind::ListedLate);
        }
        kept.ok_or(Errno::Io)
    }

    /// The entries found in the directory `path`, corrected by the pins of single names.
    fn list_of(
        &self,
        path: &VPath,
        found: Vec<(DirEntry, u64)>,
        is_late: bool,
    ) -> Result<List, Errno> {
        let mut pins = self.pins();
        let mut entries = BTreeMap::new();
        let mut list = List { is_late, ..List::default() };
        for (entry, inode) in found {
            // A late listing does not show what was there before.
            if entry.file_type == FileType::Directory && inode != 0 && !is_late {
                list.inodes.insert(entry.name.clone(), inode);
            }
            entries.insert(entry.name, entry.file_type);
        }
        for (child, pin) in pins.by_path.beneath(path)? {
            let Some((parent, name)) = child.split_last() else { continue };
            match pin {
                _ if parent != *path => {}
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
        Ok(list)
    }

    fn open_on_disk(&self, path: &VPath, there: &There) -> Result<Blob, Errno> {
        let is_same = |blob: &Blob| blob.stamp() == Some(there.stat.stamp);
        if let Some(blob) = self.disk().open_again(path).filter(is_same) {
            return Ok(blob);
        }
        match self.disk().open(path) {
            Ok(blob) if is_same(&blob) => Ok(blob),
            Ok(_) | Err(Errno::Noent | Errno::Notdir | Errno::Isdir | Errno::Loop) => {
                Err(self.lost(path))
            }
            Err(errno) => {
                // A pipe, device or socket is never opened.
                let is_other = |found: Examined| found.stat.file_type != FileType::RegularFile;
                let is_lost = self.disk().examine(path).is_ok_and(is_other);
                Err(if is_lost { self.lost(path) } else { errno })
            }
        }
    }

    /// The pinned attributes of `path`.
    pub(in crate::kernel::vfs) fn pinned_stat(&self, path: &VPath) -> Option<Stat> {
        match self.pins().by_path.get(path) {
            Some(Pin::There(there)) => Some(there.stat),
            _ => None,
        }
    }

    /// Digest and length of the file `path`, if its content is kept.
    pub(in crate::kernel::vfs) fn pinned_content(&self, path: &VPath) -> Option<(Digest, u64)> {
        match self.pins().by_path.get(path) {
            Some(Pin::There(there)) => there.content,
            _ => None,
        }
    }

    /// Keeps the content of the file `path`, so that it can be read after it has changed.
    pub(in crate::kernel::vfs) fn keep(&self, path: &VPath) -> Result<(), Errno> {
        self.open(path).map(drop)
    }

    /// Returns those of the directories `paths` in which no name was added or removed.
    pub(in crate::kernel::vfs) fn unchanged_dirs(&self, paths: HashSet<VPath>) -> HashSet<VPath> {
        // A directory that was not read since a refresh has no pin: `pin` makes one.
        let is_same = |path: &VPath| match self.pin(path) {
            Ok(Pin::There(dir)) => {
                let held = self.disk().hold(path);
                held.and_then(|held| self.state(&held, &dir))
                    .is_ok_and(|state| state.is_some_and(|state| state.is_same))
            }
            _ => false,
        };
        paths.into_iter().filter(is_same).collect()
    }

    /// A copy for this overlay alone, with pins changed by `change`; forks keep theirs.
    pub(in crate::kernel::vfs) fn changed(&self, change: impl FnOnce(&mut Pins, &HostDir)) -> Self {
        let mut pins = self.pins().clone();
        change(&mut pins, self.disk());
        let Shared { disk, start_ns, contents, .. } = &*self.shared;
        Self::with(disk.clone(), *start_ns, contents.clone(), pins)
    }
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
            return contents.open_or(digest, len_bytes, || self.disk().open(path));
        }
        let len_bytes = there.stat.size;
        // What an empty file held is known, whatever the disk has by now.
        let is_empty = len_bytes == 0;
        let blob =
            if is_empty { Blob::Bytes(Arc::default()) } else { self.open_on_disk(path, &there)? };
        let digest = match contents.keep(&blob, len_bytes) {
            Err(Errno::Io) => {
                // The file changed, unless `contents` failed to keep it.
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

/// The latest change time that something on `disk` can have now; if `wait`, returns once that time is over.
pub(in crate::kernel::vfs) fn start(disk: &HostDir, wait: bool) -> u64 {
    let begun = ambient::instant_now();
    if let Some(start_ns) = disk.disk_clock_ns() {
        let has_moved = || disk.disk_clock_ns().is_none_or(|now| now > start_ns);
        while wait && !has_moved() && ambient::elapsed_since(begun) < COARSEST + TURN {
            ambient::sleep(Duration::from_millis(1));
        }
        return start_ns;
    }
    // The system's clock is ahead of change times by the resolution of the disk's clock.
    let start_ns = ambient::wall_now_ns();
    let is_coarse = |found: Examined| found.changed_ns.is_multiple_of(1_000_000_000);
    let is_coarse = disk.examine(&VPath::root()).is_ok_and(is_coarse);
    if wait {
        ambient::sleep(if is_coarse { COARSEST } else { TURN });
    }
    start_ns
}
