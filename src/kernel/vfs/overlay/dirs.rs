//! Directories: POSIX `mkdirat`, `unlinkat(AT_REMOVEDIR)`.

use std::sync::Arc;

use super::Overlay;
use super::node::{Body, Dir, NodeId};
use super::resolve::{Base, Follow, without_slashes};
use crate::base::errno::Errno;

impl Overlay {
    /// Creates a directory. No directory of the same name below shows through it.
    ///
    /// # Errors
    /// `EEXIST` if anything is there, including a dangling symbolic link; `EROFS`; `ENOENT` if the parent does not
    /// exist or was removed; `ENOSPC`; and those of [`Base`].
    pub fn create_dir(&mut self, base: Base, path: &str, now: u64) -> Result<NodeId, Errno> {
        // `mkdir("link/")` does not follow the link: it is `EEXIST`.
        let target = self.resolve(base, without_slashes(path), Follow::No)?;
        if target.node.is_some() {
            return Err(Errno::Exist);
        }
        self.expect_writable(target.dir)?;
        self.expect_linked(target.dir)?;
        self.expect_path(target.dir, &target.name)?;
        let body = Dir { complete: true, ..Dir::default() };
        self.create(target.dir, Body::Dir(Arc::new(body)), &target.name, now)
    }

    /// Removes an empty directory. Open descriptors still refer to it, and see it empty.
    ///
    /// # Errors
    /// `ENOTDIR`, `ENOTEMPTY`, `EINVAL` for `.`, `ENOTEMPTY` for `..`, `EBUSY` for the root and mount points,
    /// `EROFS`, and those of [`Base`].
    pub fn remove_dir(&mut self, base: Base, path: &str, now: u64) -> Result<(), Errno> {
        let trimmed = without_slashes(path);
        let target = self.resolve(base, trimmed, Follow::No)?;
        let id = target.node.ok_or(Errno::Noent)?;
        self.expect_dir(id)?;
        if target.name.is_empty() {
            let dots = trimmed.ends_with("..");
            return Err(if dots { Errno::Notempty } else { Errno::Inval });
        }
        if self.is_fixed(id) {
            return Err(Errno::Busy);
        }
        self.expect_writable(target.dir)?;
        if !self.is_empty(id)? {
            return Err(Errno::Notempty);
        }
        self.detach(target.dir, &target.name, now);
        self.unlink_dir(id);
        Ok(())
    }

    /// Removes all entries of a directory without releasing their nodes.
    pub(in crate::kernel::vfs) fn forget_entries(&mut self, id: NodeId) {
        self.unlist(id);
        let entries = std::mem::take(&mut self.dir_mut(id).entries);
        self.uncharge(entries.iter().map(|(name, entry)| entry.name_bytes(name)).sum());
    }

    /// Releases an empty directory that has just been detached.
    pub(in crate::kernel::vfs) fn unlink_dir(&mut self, id: NodeId) {
        self.forget_entries(id);
        *self.dir_mut(id) = Dir { complete: true, ..Dir::default() };
        self.node_mut(id).nlink = 0;
        self.release(id);
    }
}
