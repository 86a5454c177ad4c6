//! The differences between two namespaces over the same layers.

use std::collections::{BTreeMap, BTreeSet};

use super::file_version::FileVersion;
use super::{DiffEntry, DiffError, DiffKind, failed};
use crate::base::errno::Errno;
use crate::kernel::vfs::layer::{FileType, Layer};
use crate::kernel::vfs::overlay::Overlay;
use crate::kernel::vfs::overlay::baseline::Baseline;
use crate::kernel::vfs::overlay::node::MountId;
use crate::kernel::vfs::overlay::pins::{Pin, There as PinnedThere};
use crate::kernel::vfs::path::VPath;

/// What is at a path.
#[derive(Clone)]
enum There {
    Nothing,
    File(FileVersion),
    Dir,
    Symlink(Box<[u8]>),
    Special(FileType),
}

/// What is at a path in the layers and in the namespace.
struct Known {
    below: There,
    now: There,
}

/// Why two namespaces cannot be compared.
#[derive(thiserror::Error)]
pub enum CompareError {
    /// The changes of one of them cannot be determined, or a file cannot be read.
    #[error(transparent)]
    Diff(#[from] DiffError),
    /// One of them does not know the former state of a path that the other one has written to the disk or
    /// refreshed from it.
    #[error(
        "cannot compare {path}: it changed on the disk before one of the two sides had read it"
    )]
    Unshown {
        /// The path relative to its mount's root.
        path: VPath,
        /// The namespace without that state is the second one.
        is_after: bool,
    },
}

crate::base::readable::readable!(CompareError);

/// Returns the changes that turn the namespace `before` into `after`, which must have the same mounts over the same
/// directories. Each side is its changes over the state of the directories that it shows; these states part when
/// one side is applied or refreshed. Changes on the disk between two such states that neither has looked at are
/// not found. A moved file is removed in one place and added in the other.
///
/// # Errors
/// [`CompareError`].
pub fn diff_overlays(
    before: &mut Overlay,
    after: &mut Overlay,
) -> Result<Vec<DiffEntry>, CompareError> {
    let (old, new) = (before.diff()?, after.diff()?);
    let (old, new) = (by_path(&old), by_path(&new));
    let mut paths: BTreeSet<(MountId, VPath)> = old.keys().chain(new.keys()).cloned().collect();
    let mut parted = BTreeMap::new();
    for (mount, index) in (0..).map(MountId).zip(0..before.mounts.len().min(after.mounts.len())) {
        let states = (&before.mounts[index].baseline, &after.mounts[index].baseline);
        if let (Some(one), Some(other)) = states {
            let found = one.differences_from(other)?;
            paths.extend(found.paths.iter().map(|path| (mount, path.clone())));
            parted.insert(mount, found);
        }
    }
    let mut entries = Vec::new();
    for key in paths {
        let (mount, path) = &key;
        let parted = parted.get(mount);
        let is_parted = parted.is_some_and(|it| it.paths.contains(path));
        let is_one = !is_parted && parted.is_none_or(|it| it.has_same_start);
        let shown = |overlay: &Overlay, own: Option<&Known>, other: Option<&Known>, is_after| match (
            own, other,
        ) {
            (Some(own), _) => Ok(own.now.clone()),
            (None, Some(other)) if is_one => Ok(other.below.clone()),
            _ => overlay.shown_below(*mount, path, is_parted).map_err(|errno| match errno {
                Errno::Io => CompareError::Unshown { path: path.clone(), is_after },
                errno => failed("compare", path)(errno).into(),
            }),
        };
        let known = (old.get(&key), new.get(&key));
        let old = shown(before, known.0, known.1, false)?;
        let new = shown(after, known.1, known.0, true)?;
        for kind in kinds(&old, &new).map_err(failed("compare", path))? {
            let (mount, path) = key.clone();
            entries.push(entry(mount, path, kind));
        }
    }
    Ok(entries)
}

impl Overlay {
    /// What the layer of `mount` has at `path`. If `is_parted`, an absent path must be certain.
    fn shown_below(&self, mount: MountId, path: &VPath, is_parted: bool) -> Result<There, Errno> {
        let Some((layer, _)) = self.dir(self.mount_root(mount)).below.first() else {
            return Ok(There::Nothing);
        };
        let layer = &self.layers[usize::from(*layer)];
        let stat = match layer.stat(path) {
            Ok(stat) => stat,
            Err(Errno::Noent | Errno::Notdir) => {
                let baseline = self.mounts[mount.index()].baseline.as_ref();
                let is_known = baseline.is_none_or(|baseline| baseline.is_known_absent(path));
                return if is_known || !is_parted { Ok(There::Nothing) } else { Err(Errno::Io) };
            }
            Err(errno) => return Err(errno),
        };
        Ok(match stat.file_type {
            FileType::RegularFile => There::File(FileVersion::of_layer(layer.clone(), path, &stat)),
            FileType::Directory => There::Dir,
            FileType::SymbolicLink => There::Symlink(layer.read_link(path)?),
            other => There::Special(other),
        })
    }
}

/// Where two states of a directory are known to differ.
struct KnownDifferences {
    paths: BTreeSet<VPath>,
    /// Both have the same start.
    has_same_start: bool,
}

impl Baseline {
    /// Where this state and `other` differ, as far as one of them knows.
    ///
    /// # Errors
    /// [`DiffError::State`].
    fn differences_from(&self, other: &Self) -> Result<KnownDifferences, DiffError> {
        let has_same_start = self.start_ns() == other.start_ns();
        let mut parted = KnownDifferences { paths: BTreeSet::new(), has_same_start };
        if self.is_shared_with(other) {
            return Ok(parted);
        }
        let paths = &mut parted.paths;
        let (mut ours, mut theirs) = (self.pins().clone(), other.pins().clone());
        paths.extend(ours.written.iter().chain(&theirs.written).cloned());
        if has_same_start {
            return Ok(parted);
        }
        for pins in [&mut ours.by_path, &mut theirs.by_path] {
            pins.read_all().map_err(DiffError::State)?;
        }
        let known = ours.by_path.iter().chain(theirs.by_path.iter());
        let known: BTreeSet<VPath> = known.map(|(path, _)| path.clone()).collect();
        for path in &known {
            match (ours.by_path.get(path), theirs.by_path.get(path)) {
                (Some(Pin::There(one)), Some(Pin::There(other))) => {
                    let names = |there: &PinnedThere| {
                        let list = there.list.iter().flat_map(|list| list.entries.iter());
                        list.map(|entry| entry.name.clone()).collect::<BTreeSet<_>>()
                    };
                    let (ours, theirs) = (names(one), names(other));
                    if one.list.is_some() && other.list.is_some() {
                        paths
                            .extend(ours.symmetric_difference(&theirs).map(|name| path.join(name)));
                    }
                    if one.stat.stamp != other.stat.stamp {
                        paths.insert(path.clone());
                    }
                }
                (Some(Pin::There(_)), _) | (_, Some(Pin::There(_))) => {
                    paths.insert(path.clone());
                }
                // `other` shows it if it is on the disk now.
                (Some(Pin::Absent { is_certain: true }), None)
                | (None, Some(Pin::Absent { is_certain: true }))
                    if self.disk().stat(path).is_ok() =>
                {
                    paths.insert(path.clone());
                }
                _ => {}
            }
        }
        Ok(parted)
    }
}

/// Returns the changes that turn a namespace with the changes `before` into one with the changes `after`. Both come
/// from [`crate::kernel::vfs::Overlay::diff`], of namespaces with the same mounts over the same layers. A moved file
/// is removed in one place and added in the other.
///
/// # Errors
/// [`DiffError::Layer`] if a file cannot be read to compare it.
pub fn diff_between(
    before: &[DiffEntry],
    after: &[DiffEntry],
) -> Result<Vec<DiffEntry>, DiffError> {
    let (before, after) = (by_path(before), by_path(after));
    let mut paths: Vec<&(MountId, VPath)> = before.keys().chain(after.keys()).collect();
    paths.sort_unstable();
    paths.dedup();
    let mut entries = Vec::new();
    for (mount, path) in paths {
        let key = (*mount, path.clone());
        let (old, new) = match (before.get(&key), after.get(&key)) {
            (Some(old), Some(new)) => (&old.now, &new.now),
            (Some(old), None) => (&old.now, &old.below),
            (None, Some(new)) => (&new.below, &new.now),
            (None, None) => continue,
        };
        for kind in kinds(old, new).map_err(failed("compare", path))? {
            let (mount, path) = key.clone();
            entries.push(entry(mount, path, kind));
        }
    }
    Ok(entries)
}

fn entry(mount: MountId, path: VPath, kind: DiffKind) -> DiffEntry {
    let (renamed_from, origin, link_of) = (None, None, None);
    DiffEntry { mount, path, kind, renamed_from, origin, link_of, is_equal: false }
}

fn by_path(entries: &[DiffEntry]) -> BTreeMap<(MountId, VPath), Known> {
    let mut known = BTreeMap::new();
    for DiffEntry { mount, path, kind, .. } in entries {
        let (below, now) = sides(kind);
        let entry = known
            .entry((*mount, path.clone()))
            .or_insert(Known { below: There::Nothing, now: There::Nothing });
        // A change of type is two entries.
        if !matches!(below, There::Nothing) {
            entry.below = below;
        }
        if !matches!(now, There::Nothing) {
            entry.now = now;
        }
    }
    known
}

fn sides(kind: &DiffKind) -> (There, There) {
    use There::{Dir, File, Nothing, Special, Symlink};
    match kind.clone() {
        DiffKind::Added { content } => (Nothing, File(content)),
        DiffKind::Modified { before, content } => (File(before), File(content)),
        DiffKind::Deleted { before } => (File(before), Nothing),
        DiffKind::DirAdded => (Nothing, Dir),
        DiffKind::DirDeleted => (Dir, Nothing),
        DiffKind::SymlinkAdded { target } => (Nothing, Symlink(target)),
        DiffKind::SymlinkModified { before, target } => (Symlink(before), Symlink(target)),
        DiffKind::SymlinkDeleted { before } => (Symlink(before), Nothing),
        DiffKind::SpecialAdded { file_type } => (Nothing, Special(file_type)),
        DiffKind::SpecialDeleted { file_type } => (Special(file_type), Nothing),
    }
}

fn kinds(old: &There, new: &There) -> Result<Vec<DiffKind>, Errno> {
    Ok(match (old, new) {
        (There::Nothing, There::Nothing) | (There::Dir, There::Dir) => Vec::new(),
        (There::File(before), There::File(content)) if is_same(before, content)? => Vec::new(),
        (There::File(before), There::File(content)) => {
            vec![DiffKind::Modified { before: before.clone(), content: content.clone() }]
        }
        (There::Symlink(before), There::Symlink(target)) if before == target => Vec::new(),
        (There::Symlink(before), There::Symlink(target)) => {
            vec![DiffKind::SymlinkModified { before: before.clone(), target: target.clone() }]
        }
        (There::Special(before), There::Special(file_type)) if before == file_type => Vec::new(),
        (old, new) => deletion(old).into_iter().chain(addition(new)).collect(),
    })
}

fn deletion(old: &There) -> Option<DiffKind> {
    Some(match old {
        There::Nothing => return None,
        There::File(before) => DiffKind::Deleted { before: before.clone() },
        There::Dir => DiffKind::DirDeleted,
        There::Symlink(before) => DiffKind::SymlinkDeleted { before: before.clone() },
        There::Special(file_type) => DiffKind::SpecialDeleted { file_type: *file_type },
    })
}

fn addition(new: &There) -> Option<DiffKind> {
    Some(match new {
        There::Nothing => return None,
        There::File(content) => DiffKind::Added { content: content.clone() },
        There::Dir => DiffKind::DirAdded,
        There::Symlink(target) => DiffKind::SymlinkAdded { target: target.clone() },
        There::Special(file_type) => DiffKind::SpecialAdded { file_type: *file_type },
    })
}

fn is_same(a: &FileVersion, b: &FileVersion) -> Result<bool, Errno> {
    Ok(a.executable == b.executable && a.len() == b.len() && a.digest()? == b.digest()?)
}
