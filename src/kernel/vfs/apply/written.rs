//! What an apply put on the disk, as opposed to what others wrote there since.
//!
//! The namespace continues from what it wrote. Looking at the disk again could find another program's write, which
//! the next apply would then take back.

use std::collections::HashMap;

use super::Target;
use super::checked::Checked;
use super::dir_times::DirTimes;
use super::transaction::Transaction;
use crate::kernel::vfs::journal::plan::{Attributes, Identity};
use crate::kernel::vfs::journal::tree::Tree;
use crate::kernel::vfs::layer::Times;
use crate::kernel::vfs::layer::{FileType, Stat};
use crate::kernel::vfs::path::VPath;

/// Resolutions of the times of file systems.
const TIME_UNITS_NS: [u64; 6] = [1, 100, 1_000, 1_000_000, 1_000_000_000, 2_000_000_000];

/// Attributes of what an apply made, or found already as wanted, by path.
pub(super) struct Written {
    stats: HashMap<VPath, Stat>,
    /// Modification times that were set on directories that were there before, because a program set or changed them.
    dir_times: Vec<(VPath, u64)>,
}

impl Written {
    /// What is on the disk because of `target`. A path that has changed again keeps the attributes from when it was
    /// made, with a stamp that nothing on the disk has. Removes these paths from `checked`.
    pub fn of(target: &Target, transaction: &Transaction<'_>, checked: &mut Checked) -> Self {
        let attributes: HashMap<&VPath, &Attributes> =
            transaction.attributes().iter().map(|it| (&it.path, it)).collect();
        // The times of a file with several names are set through one of them.
        let of_inode: HashMap<u64, &Attributes> = transaction
            .attributes()
            .iter()
            .filter_map(|it| Some((it.of.filter(|of| of.inode != 0)?.inode, it)))
            .collect();
        let now = |path: &VPath, before: &Identity| {
            let set = attributes.get(path).or_else(|| of_inode.get(&before.inode));
            let now = transaction.tree().stat(path).ok();
            now.filter(|now| is_it(before, set.and_then(|it| it.times), now))
        };
        let mut written: HashMap<VPath, Stat> = HashMap::new();
        for (path, made) in transaction.made() {
            written.insert(path.clone(), now(path, &Identity::of(made)).unwrap_or(*made));
        }
        for (path, found) in &target.on_disk {
            if let Some(found) = &found.now {
                written.insert(path.clone(), now(path, &Identity::of(found)).unwrap_or(*found));
            }
        }
        let Self { mut dir_times, .. } = Self::of_dirs(transaction.tree(), transaction.dir_times());
        for (path, set) in &attributes {
            let path = *path;
            if set.of.is_some_and(|of| of.file_type == FileType::Directory)
                && let Some(times) = set.times
            {
                dir_times.extend(time_set(transaction.tree(), path, times));
            }
            let before = checked.get(&(target.layer, path.clone())).map(Identity::of);
            // Unread files, such as empty ones, were not compared.
            let before = before.or(set.of).filter(|it| it.file_type != FileType::Directory);
            if let Some(now) = before.and_then(|before| now(path, &before)) {
                written.entry(path.clone()).or_insert(now);
            }
        }
        for path in target.changes.iter().map(|change| &change.path).chain(written.keys()) {
            checked.remove(&(target.layer, path.clone()));
        }
        Self { stats: written, dir_times }
    }

    /// What is on the disk because of the times of directories.
    pub fn of_dirs(tree: &dyn Tree, changed_dirs: &[DirTimes]) -> Self {
        let set = |changed: &DirTimes| time_set(tree, &changed.path, changed.of_program()?);
        Self { stats: HashMap::new(), dir_times: changed_dirs.iter().filter_map(set).collect() }
    }

    /// The attributes written at `path`.
    pub fn get(&self, path: &VPath) -> Option<&Stat> {
        self.stats.get(path)
    }

    /// All paths with their attributes.
    pub fn iter(&self) -> impl Iterator<Item = (&VPath, &Stat)> {
        self.stats.iter()
    }

    /// The directories that were there before and got times, with these.
    pub fn dir_times(&self) -> &[(VPath, u64)] {
        &self.dir_times
    }
}

/// Whether `now` is `of`, apart from the `times` that were set since.
fn is_it(of: &Identity, times: Option<Times>, now: &Stat) -> bool {
    of.is(now)
        || times.is_some_and(|times| has_time(now, times))
            && Identity { mtime_ns: now.mtime_ns, ..*of }.is(now)
}

/// `path` with its modification time, if that is the one of `times`.
fn time_set(tree: &dyn Tree, path: &VPath, times: Times) -> Option<(VPath, u64)> {
    let now = tree.stat(path).ok().filter(|now| has_time(now, times))?;
    Some((path.clone(), now.mtime_ns))
}

/// Whether `now` has the modification time of `times`, as its file system keeps it.
fn has_time(now: &Stat, times: Times) -> bool {
    TIME_UNITS_NS.iter().any(|unit| now.mtime_ns == times.mtim - times.mtim % unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_rounded_by_the_file_system_is_recognised() {
        let stat = Stat {
            file_type: FileType::RegularFile,
            size: 3,
            mtime_ns: 5,
            executable: false,
            stamp: 1,
            inode: 9,
            nlink: 1,
        };
        let of = Identity::of(&stat);
        let times = Some(Times::all(1_700_000_001_234_567_891));
        let at = |mtime_ns: u64| Stat { mtime_ns, ..stat };
        assert!(is_it(&of, None, &stat) && !is_it(&of, None, &at(6)));
        for shown in
            [1_700_000_001_234_567_891, 1_700_000_001_234_567_000, 1_700_000_000_000_000_000]
        {
            assert!(is_it(&of, times, &at(shown)), "{shown}");
        }
        assert!(!is_it(&of, times, &at(1_700_000_001_234_567_892)));
        assert!(!is_it(&of, times, &Stat { size: 4, ..at(1_700_000_001_234_567_891) }));
    }
}
