//! Names: POSIX `linkat`, `symlinkat`, `readlinkat`, `unlinkat`.

use super::node::{Body, NodeId};
use super::resolve::{Base, Follow, without_slashes};
use super::{NODE_BYTES, Overlay};
use crate::base::errno::Errno;
use crate::kernel::vfs::layer::FileType;

impl Overlay {
    /// Creates `to` as a further name of the file `from`.
    ///
    /// # Errors
    /// `EEXIST` if anything is at `to`; `EPERM` if `from` is a directory; `EXDEV` between mounts; `EROFS`;
    /// `ENOENT`; `EMLINK`; `ENOSPC`; and those of [`Base`].
    pub fn link(
        &mut self,
        from: (Base, &str),
        follow: Follow,
        to: (Base, &str),
        now: u64,
    ) -> Result<(), Errno> {
        let id = self.lookup(from.0, from.1, follow)?;
        let to_path = without_slashes(to.1);
        let target = self.resolve(to.0, to_path, Follow::No)?;
        if target.node.is_some() {
            return Err(Errno::Exist);
        }
        if to_path.len() != to.1.len() {
            return Err(Errno::Noent);
        }
        if self.node(id).mount != self.node(target.dir).mount {
            return Err(Errno::Xdev);
        }
        self.expect_writable(target.dir)?;
        self.expect_linked(target.dir)?;
        self.expect_path(target.dir, &target.name)?;
        if matches!(self.node(id).body, Body::Dir(_)) {
            return Err(Errno::Perm);
        }
        let nlink = self.node(id).nlink.checked_add(1).ok_or(Errno::Mlink)?;
        self.expect_room(NODE_BYTES + target.name.len() as u64)?;
        self.upper_bytes += NODE_BYTES;
        self.attach(target.dir, &target.name, id, now);
        let node = self.node_mut(id);
        node.nlink = nlink;
        node.times.ctim = now;
        Ok(())
    }

    /// Creates a symbolic link with the text `text`, which may name nothing.
    ///
    /// # Errors
    /// `EEXIST` if anything is there; `ENOENT` if `text` is empty or the path ends in a slash; `ENAMETOOLONG` or
    /// `EINVAL` (NUL) for `text`; `EROFS`; `ENOSPC`; and those of [`Base`].
    pub fn symlink(&mut self, text: &str, base: Base, path: &str, now: u64) -> Result<(), Errno> {
        if text.is_empty() {
            return Err(Errno::Noent);
        }
        if text.len() > self.limits.path_bytes_max {
            return Err(Errno::Nametoolong);
        }
        if text.contains('\0') {
            return Err(Errno::Inval);
        }
        let trimmed = without_slashes(path);
        let target = self.resolve(base, trimmed, Follow::No)?;
        if target.node.is_some() {
            return Err(Errno::Exist);
        }
        if trimmed.len() != path.len() {
            return Err(Errno::Noent);
        }
        self.expect_writable(target.dir)?;
        self.expect_linked(target.dir)?;
        self.expect_path(target.dir, &target.name)?;
        self.create(target.dir, Body::Symlink(text.into()), &target.name, now).map(drop)
    }

    /// Records that the text of the symbolic link `id` was used: a change of it on the disk is a conflict for an apply.
    pub(super) fn note_link_read(&mut self, id: NodeId) {
        let node = self.node(id);
        let is_new = node.origin.as_ref().is_some_and(|origin| !origin.was_read);
        // Checked first: a mutable access copies what clones share.
        if is_new
            && matches!(node.body, Body::Symlink(_))
            && let Some(origin) = &mut self.node_mut(id).origin
        {
            origin.was_read = true;
        }
    }

    /// Returns the text of a symbolic link.
    ///
    /// # Errors
    /// `EINVAL` if it is not a symbolic link; `EILSEQ` if its text is not UTF-8; and those of [`Base`].
    pub fn read_link(&mut self, base: Base, path: &str) -> Result<&str, Errno> {
        let id = self.lookup(base, path, Follow::No)?;
        self.note_link_read(id);
        match &self.node(id).body {
            Body::Symlink(target) => Ok(target),
            Body::Special(FileType::SymbolicLink) => Err(Errno::Ilseq),
            _ => Err(Errno::Inval),
        }
    }

    /// Removes a name of anything but a directory. Open descriptors keep the content.
    ///
    /// # Errors
    /// `EISDIR` for a directory; `ENOTDIR` if the path ends in a slash; `EROFS`; `EBUSY` for mount points;
    /// `ENOENT`; and those of [`Base`].
    pub fn unlink(&mut self, base: Base, path: &str, now: u64) -> Result<(), Errno> {
        let trimmed = without_slashes(path);
        let target = self.resolve(base, trimmed, Follow::No)?;
        let id = target.node.ok_or(Errno::Noent)?;
        if !target.name.is_empty() && self.is_fixed(id) {
            return Err(Errno::Busy);
        }
        if matches!(self.node(id).body, Body::Dir(_)) {
            return Err(Errno::Isdir);
        }
        if trimmed.len() != path.len() {
            return Err(Errno::Notdir);
        }
        self.expect_writable(target.dir)?;
        self.detach(target.dir, &target.name, now);
        self.drop_link(id, now);
        Ok(())
    }

    /// Counts one name of `id`, not a directory, less after it was detached.
    pub(in crate::kernel::vfs) fn drop_link(&mut self, id: NodeId, now: u64) {
        let node = self.node_mut(id);
        node.nlink -= 1;
        node.times.ctim = now;
        if node.nlink > 0 {
            self.uncharge(NODE_BYTES);
        }
        self.release(id);
    }
}
