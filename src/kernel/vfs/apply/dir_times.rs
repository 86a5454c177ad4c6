//! Times of a directory after an apply, and after one that is taken back.

use std::ffi::OsString;

use crate::kernel::vfs::journal::tree::Tree;
use crate::kernel::vfs::layer::{FileType, Stat, Times};
use crate::kernel::vfs::path::VPath;

/// The times that a directory gets.
pub(super) struct DirTimes {
    pub path: VPath,
    /// Those after the apply; `None` if it leaves that to the disk.
    pub after: Option<Times>,
    /// They are those of the last change that a program made there.
    pub is_of_program: bool,
    /// What the disk has there before the apply; `None` if the apply makes it.
    pub before: Option<Before>,
}

/// A directory of the disk.
pub(super) struct Before {
    inode: u64,
    pub times: Times,
    /// Sorted; `None` if the apply does not disturb it, or if they cannot be read.
    names: Option<Vec<OsString>>,
}

impl Before {
    /// The directory `path`, which has the attributes `now`; its names only if the apply disturbs it.
    pub fn of(tree: &dyn Tree, path: &VPath, now: &Stat, is_disturbed: bool) -> Self {
        let names = if is_disturbed { sorted_names(tree, path) } else { None };
        Self { inode: now.inode, times: Times::all(now.mtime_ns), names }
    }

    fn is(&self, now: &Stat) -> bool {
        now.inode == self.inode && now.file_type == FileType::Directory
    }
}

impl DirTimes {
    /// The time at which a program changed a directory that was on the disk before, if it gets that.
    pub fn of_program(&self) -> Option<Times> {
        self.after.filter(|_| self.is_of_program && self.before.is_some())
    }

    /// Sets the times after the apply.
    pub fn set_all(dirs: &[Self], tree: &dyn Tree) {
        for dir in dirs {
            dir.set(tree);
        }
    }

    /// Sets the times before an apply that was taken back.
    pub fn put_all_back(dirs: &[Self], tree: &dyn Tree) {
        for dir in dirs {
            dir.put_back(tree);
        }
    }

    fn set(&self, tree: &dyn Tree) {
        let (Some(times), Ok(now)) = (self.after, tree.stat(&self.path)) else { return };
        match &self.before {
            Some(before) if times.mtim == before.times.mtim => self.put_back(tree),
            Some(before) if !before.is(&now) => {}
            // Only its owner may.
            _ if now.file_type == FileType::Directory => drop(tree.set_times(&self.path, times)),
            _ => {}
        }
    }

    /// Sets the times before the apply, unless another program added or removed names meanwhile: others may rely on the time
    /// of that.
    fn put_back(&self, tree: &dyn Tree) {
        let Some(before) = &self.before else { return };
        if before.names.is_some()
            && tree.stat(&self.path).is_ok_and(|now| before.is(&now))
            && sorted_names(tree, &self.path) == before.names
        {
            let _ = tree.set_times(&self.path, before.times);
        }
    }
}

fn sorted_names(tree: &dyn Tree, dir: &VPath) -> Option<Vec<OsString>> {
    let mut names = tree.names(dir).ok()?;
    names.sort_unstable();
    Some(names)
}
