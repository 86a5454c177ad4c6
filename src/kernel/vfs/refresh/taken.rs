//! What a refresh takes in.

use std::collections::{BTreeMap, HashSet};

use super::plan::RefreshPlan;
use super::{Taken, TakenKind};
use crate::kernel::vfs::diff::DiffError;
use crate::kernel::vfs::layer::{FileType, Layer};
use crate::kernel::vfs::overlay::baseline::Baseline;
use crate::kernel::vfs::overlay::pins::{Pin, There, beneath};
use crate::kernel::vfs::path::VPath;

/// The paths that had been looked at and changed on the disk, without those that programs changed too.
///
/// # Errors
/// Those of the disk.
pub(super) fn taken(plan: &RefreshPlan) -> Result<Vec<Taken>, DiffError> {
    let pins: BTreeMap<VPath, Pin> = {
        let pins = plan.baseline.pins();
        pins.by_path.iter().map(|(path, pin)| (path.clone(), pin.clone())).collect()
    };
    let mut taken = BTreeMap::new();
    let mut told_elsewhere: HashSet<VPath> = plan.changed.clone();
    told_elsewhere.extend(plan.conflicts.iter().map(|conflict| conflict.path.clone()));
    // Nothing is told of what is in these.
    let mut closed = told_elsewhere.clone();
    for (path, pin) in &pins {
        let is_in_closed = path.split_last().is_some_and(|(dir, _)| closed.contains(&dir));
        if is_in_closed || closed.contains(path) {
            closed.insert(path.clone());
            continue;
        }
        let now = plan.now(path)?;
        let was_dir = matches!(pin, Pin::There(it) if it.stat.file_type == FileType::Directory);
        let is_dir = now.is_some_and(|now| now.file_type == FileType::Directory);
        if was_dir && !is_dir && plan.pins.contains_key(path) {
            // It stays for what the session changed in it: the conflicts are told.
            continue;
        }
        let kind = match (pin, now) {
            (Pin::There(there), Some(_)) if was_dir => {
                let names = || pinned_names(&pins, path, there);
                taken.extend(new_names(&plan.baseline, path, there, names));
                (!is_dir).then_some(TakenKind::Changed)
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
            closed.insert(path.clone());
        }
        taken.extend(kind.map(|kind| (path.clone(), kind)));
    }
    let line = |(path, kind)| Taken { mount: plan.mount, path, kind };
    taken.retain(|path, _| !told_elsewhere.contains(path));
    Ok(taken.into_iter().map(line).collect())
}

fn pinned_names<'p>(
    pins: &'p BTreeMap<VPath, Pin>,
    dir: &VPath,
    there: &'p There,
) -> Option<HashSet<&'p str>> {
    let list = there.list.as_deref()?;
    let listed = list.entries.iter().map(|entry| &*entry.name);
    let known = beneath(pins, dir).filter_map(|(path, _)| {
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
