//! Takes in the disk's new state beneath the changes of a namespace.
//!
//! What programs only looked at is dropped, and looked at again later. Their changes stay, with the state before them:
//! if the disk changed that too, it is a conflict, and the change stays relative to the old state, so that no apply
//! takes the disk's change back.

pub(super) mod keeping;
pub(super) mod origins;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use self::keeping::{Keeping, kept_pins};
use self::origins::holds_another;
use super::apply::conflicts::{Conflict, ConflictKind};
use super::diff::{Change, DiffError, failed};
use super::layer::host_dir::HostDir;
use super::layer::{FileType, Layer, Stat};
use super::overlay::Overlay;
use super::overlay::baseline::{Baseline, Pin, Pins, There, beneath, start};
use super::overlay::node::{MountId, Origin};
use super::path::VPath;
use crate::base::digest::DigestHasher;
use crate::base::errno::Errno;

/// The result of [`Overlay::refresh`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Refreshed {
    /// Paths that had been looked at and have changed, sorted by mount and path.
    pub taken: Vec<Taken>,
    /// Paths that both the disk and programs changed; the programs' version stays.
    pub conflicts: Vec<Conflict>,
}

/// A path that changed on the disk.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Taken {
    /// Its mount.
    pub mount: MountId,
    /// Its path, relative to the mount's root.
    pub path: VPath,
    /// How it changed.
    pub kind: TakenKind,
}

/// How a path changed on the disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TakenKind {
    /// It existed, and has other bytes, another text or another type, or may have.
    Changed,
    /// It did not exist.
    Added,
    /// It no longer exists.
    Removed,
}

impl TakenKind {
    /// The name in reports: `changed`, `added`, `removed`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Added => "added",
            Self::Removed => "removed",
        }
    }
}

impl Overlay {
    /// Takes in the present state of host directories in mounts of a [`Baseline`], beneath the changes of programs.
    /// What both sides changed is a conflict, unless they changed it alike: then it is no longer a change.
    /// Nothing may be open.
    ///
    /// # Errors
    /// Those of [`Overlay::diff`]; nothing is taken in then.
    pub fn refresh(&mut self) -> Result<Refreshed, DiffError> {
        // Excludes entries of unknown former state, which are taken in.
        let changes = self.known_changes()?;
        let (mut refreshed, mut windows) = (Refreshed::default(), Vec::new());
        for (mount, index) in (0..).map(MountId).zip(0..self.mounts.len()) {
            let Some(baseline) = self.mounts[index].baseline.clone() else { continue };
            let here: Vec<&Change> = changes.iter().filter(|it| it.mount == mount).collect();
            let layer = self.mounts[index].layer;
            let mut keeping = Keeping {
                mount,
                layer,
                changed: BTreeSet::new(),
                stood: BTreeSet::new(),
                settled: BTreeSet::new(),
                origins: BTreeSet::new(),
                sources: HashSet::new(),
                linked: HashSet::new(),
                renewed: BTreeMap::new(),
                moved_dirs: self.moved_dirs(mount, layer),
                given_back: BTreeMap::new(),
            };
            let disk = baseline.disk().clone();
            let removed: HashSet<&VPath> =
                here.iter().filter(|it| it.before.is_some()).map(|it| &it.path).collect();
            for change in &here {
                let now = disk.look(&change.path).map_err(failed("examine", &change.path))?;
                if self.is_on_disk(change, &disk, now.as_ref()) {
                    keeping.settled.insert(change.path.clone());
                    continue;
                }
                keeping.changed.insert(change.path.clone());
                if change.before.is_some() {
                    keeping.stood.insert(change.path.clone());
                }
                let conflict = compare(change, &baseline, &mut keeping.renewed)
                    .map_err(failed("examine", &change.path))?;
                let conflict =
                    conflict.or_else(|| holds_another(change, &keeping, &disk, &removed));
                refreshed.conflicts.extend(conflict);
            }
            let parted = self.part_from_origins(&changes, &baseline, &mut keeping);
            refreshed.conflicts.extend(parted.map_err(|(path, errno)| DiffError::Layer {
                operation: "examine",
                path,
                errno,
            })?);
            let appeared = self.list_moved_dirs_anew(&keeping, &disk);
            refreshed.conflicts.extend(appeared);
            // Names that both sides created are read from the disk, with everything beneath them.
            self.note_origins(&mut keeping);
            let is_told = |it: &Taken| {
                let mut conflicts = refreshed.conflicts.iter();
                conflicts.any(|conflict| (conflict.mount, &conflict.path) == (mount, &it.path))
            };
            let taken = taken(&baseline, &keeping)?.into_iter().filter(|it| !is_told(it));
            refreshed.taken.extend(taken);
            let pins = kept_pins(&baseline, &keeping);
            self.prune(&keeping);
            self.renumber(mount);
            self.renew_origins(layer, &keeping.renewed);
            let start_ns = start(&disk, true);
            windows.push((mount, baseline.start_ns(), start_ns));
            let contents = baseline.contents().cloned();
            self.set_baseline(index, Baseline::with(disk, start_ns, contents, pins));
        }
        self.note_refresh(&windows);
        refreshed.taken.sort_unstable();
        refreshed.conflicts.sort_by(|a, b| (a.mount, &a.path).cmp(&(b.mount, &b.path)));
        refreshed.conflicts.dedup();
        self.torn.clear();
        Ok(refreshed)
    }

    /// Drops all changes in host directories, and shows their present state.
    ///
    /// # Errors
    /// Those of [`Overlay::discard`].
    pub fn discard_and_refresh(&mut self, now: u64) -> Result<(), Errno> {
        let mut windows = Vec::new();
        for (mount, index) in (0..).map(MountId).zip(0..self.mounts.len()) {
            let Some(baseline) = self.mounts[index].baseline.clone() else { continue };
            let (disk, contents) = (baseline.disk().clone(), baseline.contents().cloned());
            let begun = Baseline::begin(disk, contents, true);
            windows.push((mount, baseline.start_ns(), begun.start_ns()));
            self.set_baseline(index, begun);
        }
        self.torn.clear();
        self.note_refresh(&windows);
        self.discard(now)
    }

    /// Takes over the stamps of files that were touched but not changed, so that they are no conflict: taking back a
    /// partial write touches files.
    pub(super) fn renew_touched(&mut self) {
        for index in 0..self.mounts.len() {
            let Some(baseline) = self.mounts[index].baseline.clone() else { continue };
            let known: Vec<(VPath, Stat)> = {
                let pins = baseline.pins();
                let is_kept = |there: &There| {
                    let has_kept = there.content.is_some() || there.link.is_some();
                    has_kept || is_special(there.stat.file_type)
                };
                let known = pins.by_path.iter().filter_map(|(path, pin)| match pin {
                    Pin::There(there) if is_kept(there) => Some((path.clone(), there.stat)),
                    _ => None,
                });
                known.collect()
            };
            let mut renewed = BTreeMap::new();
            for (path, before) in known {
                if let Ok(now) = baseline.disk().stat(&path)
                    && now.stamp != before.stamp
                    && is_only_touched(&path, &before, &now, &baseline).unwrap_or(false)
                {
                    renewed.insert(path, now);
                }
            }
            baseline.renew(&renewed);
            self.renew_origins(self.mounts[index].layer, &renewed);
        }
    }

    fn renew_origins(&mut self, layer: u16, renewed: &BTreeMap<VPath, Stat>) {
        if renewed.is_empty() {
            return;
        }
        let stamp_of = |origin: &Origin| {
            let is_here = origin.layer == layer;
            renewed.get(&origin.path).filter(|_| is_here).map(|stat| stat.stamp)
        };
        self.restamp(stamp_of);
    }
}

/// Compares a change with the disk. Files that were only touched are added to `renewed`.
fn compare(
    change: &Change,
    baseline: &Baseline,
    renewed: &mut BTreeMap<VPath, Stat>,
) -> Result<Option<Conflict>, Errno> {
    let look = |path: &VPath| baseline.disk().look(path);
    let now = look(&change.path)?;
    let before = change.before.as_ref().map(|found| found.stat);
    let mut path = change.path.clone();
    let what = match (before, now) {
        (Some(before), Some(now)) if before.stamp == now.stamp => None,
        (Some(before), Some(now)) => {
            if is_only_touched(&path, &before, &now, baseline)? {
                renewed.insert(path.clone(), now);
                None
            } else {
                Some(ConflictKind::Changed)
            }
        }
        (Some(_), None) => Some(ConflictKind::Vanished),
        (None, Some(_)) => Some(ConflictKind::Appeared),
        (None, None) => {
            // The nearest directory above that existed must still exist.
            let mut what = None;
            while let Some((parent, _)) = path.split_last() {
                path = parent;
                let was_dir = matches!(
                    baseline.pins().by_path.get(&path),
                    Some(Pin::There(there)) if there.stat.file_type == FileType::Directory
                );
                match look(&path)?.map(|stat| stat.file_type) {
                    Some(FileType::Directory) => break,
                    Some(_) if was_dir => what = Some(ConflictKind::NotADirectory),
                    None if was_dir => what = Some(ConflictKind::Vanished),
                    _ => continue,
                }
                break;
            }
            what
        }
    };
    Ok(what.map(|what| Conflict { mount: change.mount, path, what }))
}

/// Whether this is the type of a pipe, socket or device, which have no content to compare.
fn is_special(file_type: FileType) -> bool {
    !matches!(file_type, FileType::RegularFile | FileType::Directory | FileType::SymbolicLink)
}

/// Whether the file or symbolic link `path`, formerly `before`, is unchanged, as far as its content is kept.
pub(super) fn is_only_touched(
    path: &VPath,
    before: &Stat,
    now: &Stat,
    baseline: &Baseline,
) -> Result<bool, Errno> {
    let is_alike = |a: &Stat, b: &Stat| {
        (a.file_type, a.size, a.executable) == (b.file_type, b.size, b.executable)
    };
    if is_special(now.file_type) {
        return Ok(before.file_type == now.file_type && before.inode == now.inode);
    }
    let content = match baseline.pin(path)? {
        Pin::There(There { link: Some(text), .. }) if is_alike(before, now) => {
            return Ok(baseline.disk().read_link(path).is_ok_and(|now| now == text));
        }
        Pin::There(There { content: Some((digest, _)), .. }) => digest,
        _ => return Ok(false),
    };
    if !is_alike(before, now) || before.file_type != FileType::RegularFile {
        return Ok(false);
    }
    Ok(digest_on_disk(baseline.disk(), path, now)? == Some(content))
}

fn digest_on_disk(
    disk: &HostDir,
    path: &VPath,
    now: &Stat,
) -> Result<Option<crate::base::digest::Digest>, Errno> {
    use std::hash::Hasher;
    let blob = disk.open(path)?;
    if blob.stamp() != Some(now.stamp) {
        return Ok(None);
    }
    let mut hasher = DigestHasher::default();
    let mut piece = vec![0; 256 << 10];
    let mut offset = 0;
    loop {
        let count = blob.read_at(&mut piece, offset)?;
        if count == 0 {
            return Ok(Some(hasher.digest()));
        }
        hasher.write(&piece[..count]);
        offset += count as u64;
    }
}

/// The paths that had been looked at and changed on the disk.
///
/// # Errors
/// Those of the disk.
fn taken(baseline: &Baseline, keeping: &Keeping) -> Result<Vec<Taken>, DiffError> {
    let pins = baseline.pins().clone();
    let mut taken = BTreeMap::new();
    let mut gone_dirs: HashSet<VPath> = HashSet::new();
    for (path, pin) in &pins.by_path {
        let is_new_in_moved = !matches!(pin, Pin::There(_)) && keeping.moves_along(path);
        if let (Pin::There(there), true) = (pin, keeping.moved_dirs.contains(path)) {
            let names = || pinned_names(&pins, path, there);
            let new = new_names(baseline, path, there, names);
            taken.extend(new.into_iter().filter(|(_, kind)| *kind == TakenKind::Added));
        }
        if keeping.keeps(path) && !is_new_in_moved {
            continue;
        }
        if path.split_last().is_some_and(|(parent, _)| gone_dirs.contains(&parent)) {
            gone_dirs.insert(path.clone());
            continue;
        }
        let now = baseline.disk().look(path).map_err(failed("examine", path))?;
        let kind = match (pin, now) {
            (Pin::There(there), Some(now)) if there.stat.file_type == FileType::Directory => {
                let names = || pinned_names(&pins, path, there);
                taken.extend(new_names(baseline, path, there, names));
                (now.file_type != FileType::Directory).then_some(TakenKind::Changed)
            }
            (Pin::There(there), Some(now)) => {
                (there.stat.stamp != now.stamp).then_some(TakenKind::Changed)
            }
            (Pin::There(_) | Pin::Unknown, None) => Some(TakenKind::Removed),
            (Pin::Absent { .. }, None) => None,
            (Pin::Absent { .. }, Some(_)) => Some(TakenKind::Added),
            (Pin::Unknown, Some(_)) => Some(TakenKind::Changed),
        };
        if kind == Some(TakenKind::Removed) {
            gone_dirs.insert(path.clone());
        }
        taken.extend(kind.map(|kind| (path.clone(), kind)));
    }
    let line = |(path, kind)| Taken { mount: keeping.mount, path, kind };
    taken.retain(|path, _| !keeping.keeps(path) || keeping.moves_along(path));
    Ok(taken.into_iter().map(line).collect())
}

fn pinned_names<'p>(pins: &'p Pins, dir: &VPath, there: &'p There) -> Option<HashSet<&'p str>> {
    let list = there.list.as_deref()?;
    let listed = list.entries.iter().map(|entry| &*entry.name);
    let known = beneath(&pins.by_path, dir).filter_map(|(path, _)| {
        let (parent, _) = path.split_last()?;
        (parent == *dir).then(|| path.as_str().rsplit('/').next().unwrap_or_default())
    });
    Some(listed.chain(known).collect())
}

/// The names added to and removed from the directory `path`, if it was listed.
fn new_names<'p>(
    baseline: &Baseline,
    path: &VPath,
    there: &There,
    names: impl FnOnce() -> Option<HashSet<&'p str>>,
) -> Vec<(VPath, TakenKind)> {
    let is_same = baseline.disk().examine(path).is_ok_and(|now| {
        now.changed_ns <= baseline.start_ns() || there.accepted_ns == Some(now.changed_ns)
    });
    let Some(names) = (!is_same).then(names).flatten() else { return Vec::new() };
    let Ok(list) = baseline.disk().list(path) else { return Vec::new() };
    let now: HashSet<&str> = list.iter().map(|entry| &*entry.name).collect();
    let added = now.difference(&names).map(|name| (path.join(name), TakenKind::Added));
    let listed = there.list.iter().flat_map(|list| &list.entries).map(|entry| &*entry.name);
    let removed = listed.filter(|name| !now.contains(name));
    added.chain(removed.map(|name| (path.join(name), TakenKind::Removed))).collect()
}
