//! POSIX `renameat`.

use super::Overlay;
use super::node::{Body, NodeId};
use super::resolve::{Base, Follow, without_slashes};
use crate::base::errno::Errno;

impl Overlay {
    /// Gives what stands at `from` the name `to` instead, in place of what stands there. Files
    /// with one name move between mounts, directories and files with several within one. Nothing is copied, whatever lies beneath.
    ///
    /// # Errors
    /// - `ENOENT` if `from` is not there, or the directory of `to` was removed;
    /// - `ENOTDIR` to put a directory over a file, or if a slash ends a path of a file;
    /// - `EISDIR` to put a file over a directory;
    /// - `ENOTEMPTY` to put a directory over one that is not empty;
    /// - `EINVAL` to put a directory beneath itself;
    /// - `EBUSY` for `.` and `..` as Linux has it, for the root, mount points, and directories above them: a mount stays where it is
    ///   said to be; `EXDEV` for a directory, or a file with several names, to another mount;
    ///   `EROFS`; `ENOSPC` if the new name is longer than there is room for; `ENAMETOOLONG` if a path
    ///   of what lies beneath would become too long;
    /// - and as [`Base`].
    pub fn rename(&mut self, from: (Base, &str), to: (Base, &str), now: u64) -> Result<(), Errno> {
        let from_path = without_slashes(from.1);
        let to_path = without_slashes(to.1);
        let source = self.resolve(from.0, from_path, Follow::No)?;
        let target = self.resolve(to.0, to_path, Follow::No)?;
        if source.name.is_empty() || target.name.is_empty() {
            return Err(Errno::Busy);
        }
        let id = source.node.ok_or(Errno::Noent)?;
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
        let node = self.node_mut(id);
        node.mount = mount;
        node.times.ctim = now;
        Ok(())
    }

    /// Whether `dir` is `top` or lies beneath it.
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
