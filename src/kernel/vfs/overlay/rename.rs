//! POSIX `renameat`.

use super::Overlay;
use super::node::{Body, NodeId};
use super::resolve::{Base, Follow, Resolved, without_slashes};
use crate::base::errno::Errno;
use crate::kernel::vfs::layer::Times;
use crate::kernel::vfs::path::NAME_MAX;

impl Overlay {
    /// Checks that there is a directory in which `path` could be.
    ///
    /// # Errors
    /// Those of [`Base`].
    pub fn expect_dir_of(&mut self, base: Base, path: &str) -> Result<(), Errno> {
        self.resolve(base, without_slashes(path), Follow::No).map(drop)
    }

    /// Resolves a path of a rename; `None` if only its last name is too long, which Linux notices after it has looked for
    /// the directories of both paths.
    fn resolve_renamed<'a>(
        &mut self,
        base: Base,
        path: &'a str,
    ) -> Result<Option<Resolved<'a>>, Errno> {
        match self.resolve(base, path, Follow::No) {
            Err(Errno::Nametoolong) => {
                let (dir, name) = path.rsplit_once('/').unwrap_or((".", path));
                if name.len() <= NAME_MAX {
                    return Err(Errno::Nametoolong);
                }
                self.lookup(base, dir, Follow::Yes)?;
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    /// Renames `from` to `to` and replaces what is there. A file with one name can move between mounts, directories
    /// and files with several names only within one. No content is copied.
    ///
    /// # Errors
    /// - `ENOENT` if `from` does not exist, or the directory of `to` was removed;
    /// - `ENOTDIR` to replace a file by a directory, or if the path of a file ends in a slash;
    /// - `EISDIR` to replace a directory by a file;
    /// - `ENOTEMPTY` to replace a directory that is not empty;
    /// - `EINVAL` to move a directory beneath itself;
    /// - `EBUSY` for `.` and `..`, as on Linux, for the root, mount points and directories above them;
    /// - `EXDEV` for a directory, or a file with several names, to another mount;
    /// - `EROFS`; `ENOSPC` for the longer name; `ENAMETOOLONG` if a path beneath becomes too long;
    /// - those of [`Base`].
    pub fn rename(&mut self, from: (Base, &str), to: (Base, &str), now: u64) -> Result<(), Errno> {
        let from_path = without_slashes(from.1);
        let to_path = without_slashes(to.1);
        let source = self.resolve_renamed(from.0, from_path)?;
        let target = self.resolve_renamed(to.0, to_path)?;
        if source.iter().chain(&target).any(|found| found.name.is_empty()) {
            return Err(Errno::Busy);
        }
        let source = source.ok_or(Errno::Nametoolong)?;
        let id = source.node.ok_or(Errno::Noent)?;
        let target = target.ok_or(Errno::Nametoolong)?;
        self.expect_linked(target.dir)?;
        let is_dir = matches!(self.node(id).body, Body::Dir(_));
        let slash = from_path.len() != from.1.len() || to_path.len() != to.1.len();
        if slash && !is_dir {
            return Err(Errno::Notdir);
        }
        if self.is_fixed(id) || target.node.is_some_and(|node| self.is_fixed(node)) {
            return Err(Errno::Busy);
        }
        self.expect_writable(source.dir)?;
        self.expect_writable(target.dir)?;
        if target.node == Some(id) {
            return Ok(());
        }
        let mount = self.node(target.dir).mount;
        if is_dir && self.is_beneath(target.dir, id) {
            return Err(Errno::Inval);
        }
        let is_special = matches!(self.node(id).body, Body::Special(_));
        let stays_together = !is_dir && !is_special && self.node(id).nlink == 1;
        if self.node(id).mount != mount && !stays_together {
            return Err(Errno::Xdev);
        }
        if is_dir && self.mounts.iter().any(|mount| self.is_beneath(mount.root, id)) {
            return Err(Errno::Busy);
        }
        self.expect_path(target.dir, &target.name)?;
        if is_dir {
            self.expect_paths_beneath(id, (target.dir, &target.name))?;
        }
        let freed = self.name_bytes(source.dir, &source.name);
        self.expect_room((target.name.len() as u64).saturating_sub(freed))?;
        if let Some(over) = target.node {
            match (is_dir, &self.node(over).body) {
                (true, Body::Dir(_)) => {
                    if !self.is_empty(over)? {
                        return Err(Errno::Notempty);
                    }
                    self.detach(target.dir, &target.name, now);
                    self.unlink_dir(over);
                }
                (true, _) => return Err(Errno::Notdir),
                (false, Body::Dir(_)) if self.is_beneath(source.dir, over) => {
                    return Err(Errno::Notempty);
                }
                (false, Body::Dir(_)) => return Err(Errno::Isdir),
                (false, _) => {
                    self.detach(target.dir, &target.name, now);
                    self.drop_link(over, now);
                }
            }
        }
        self.detach(source.dir, &source.name, now);
        self.attach(target.dir, &target.name, id, now);
        if self.writes.tells_changes_of_dirs_apart() {
            // One change of two directories. The file can be in a later second than the first of them.
            let Times { mtim, ctim, .. } = self.node(target.dir).times;
            let left = self.node_mut(source.dir);
            (left.times.mtim, left.times.ctim) = (mtim, ctim);
        }
        let node = self.node_mut(id);
        node.mount = mount;
        node.times.ctim = now;
        Ok(())
    }

    /// Whether `dir` is `top` or beneath it.
    pub(super) fn is_beneath(&self, mut dir: NodeId, top: NodeId) -> bool {
        loop {
            if dir == top {
                return true;
            }
            match self.dir(dir).parent {
                Some(parent) if parent != dir => dir = parent,
                _ => return false,
            }
        }
    }
}
