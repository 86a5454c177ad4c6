//! How two namespaces over the same layers differ, from what each says that it has changed.

use std::collections::BTreeMap;

use super::diff::{DiffEntry, DiffError, DiffKind};
use super::file_version::FileVersion;
use super::node::MountId;
use super::path::VPath;
use crate::base::errno::Errno;

/// What stands at a path.
#[derive(Clone)]
enum There {
    Nothing,
    File(FileVersion),
    Dir,
    Symlink(Box<[u8]>),
    Special(super::layer::FileType),
}

/// What a path is below and in the namespace.
struct Known {
    below: There,
    now: There,
}

/// What must be done to a namespace with the changes `before` to make it one with the changes `after`.
/// Both are answers of [`super::Overlay::diff`], of namespaces with the same mounts over the same
/// layers. Files that were moved are removed in one place and added in the other.
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
        let failed = |errno| DiffError::Layer { operation: "compare", path: path.clone(), errno };
        for kind in kinds(old, new).map_err(failed)? {
            let (mount, path) = key.clone();
            let (renamed_from, origin, link_of) = (None, None, None);
            entries.push(DiffEntry { mount, path, kind, renamed_from, origin, link_of });
        }
    }
    Ok(entries)
}

fn by_path(entries: &[DiffEntry]) -> BTreeMap<(MountId, VPath), Known> {
    let mut known = BTreeMap::new();
    for DiffEntry { mount, path, kind, .. } in entries {
        let (below, now) = sides(kind);
        let entry = known
            .entry((*mount, path.clone()))
            .or_insert(Known { below: There::Nothing, now: There::Nothing });
        // What takes the place of something else has two entries.
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
