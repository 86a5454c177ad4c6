//! Limits on the length of paths that are created.
//!
//! Through descriptors of directories a program can create trees that no path reaches. Nothing is created beyond
//! that length, as it could be neither reported nor written to the disk.

use super::Overlay;
use super::node::{Body, EntryKind, NodeId};
use crate::base::errno::Errno;

impl Overlay {
    /// Length of the path of the directory `id`, from its mount point.
    fn path_bytes(&self, id: NodeId) -> usize {
        let (mut at, mut bytes) = (id, 0);
        while !self.is_mount_point(at) {
            let dir = self.dir(at);
            bytes += usize::from(dir.name_bytes) + 1;
            match dir.parent {
                Some(parent) => at = parent,
                None => break,
            }
        }
        bytes
    }

    /// Checks that a path to `name` in `dir` is not too long.
    ///
    /// # Errors
    /// `ENAMETOOLONG`.
    pub(super) fn expect_path(&mut self, dir: NodeId, name: &str) -> Result<(), Errno> {
        let bytes = self.path_bytes(dir) + name.len();
        if bytes > self.limits.path_bytes_max {
            return Err(Errno::Nametoolong);
        }
        self.longest_path_bytes = self.longest_path_bytes.max(bytes);
        Ok(())
    }

    /// Checks that no path beneath the directory `id` becomes too long when it is renamed to `to`. Walks the tree
    /// only if some path may.
    ///
    /// # Errors
    /// `ENAMETOOLONG`.
    pub(super) fn expect_paths_beneath(
        &mut self,
        id: NodeId,
        to: (NodeId, &str),
    ) -> Result<(), Errno> {
        let before = self.path_bytes(id);
        let after = self.path_bytes(to.0) + to.1.len() + 1;
        let Some(longer) = after.checked_sub(before) else { return Ok(()) };
        if self.longest_path_bytes + longer > self.limits.path_bytes_max {
            self.unfold_beneath(id).map_err(|_| Errno::Io)?;
            let longest = after + self.longest_beneath(id);
            if longest > self.limits.path_bytes_max {
                return Err(Errno::Nametoolong);
            }
            self.longest_path_bytes = self.longest_path_bytes.max(longest);
        } else {
            self.longest_path_bytes += longer;
        }
        Ok(())
    }

    /// Length of the longest known path beneath the directory `id`, from there.
    fn longest_beneath(&self, id: NodeId) -> usize {
        let mut longest = 0;
        let mut todo = vec![(id, 0)];
        while let Some((dir, bytes)) = todo.pop() {
            for (name, entry) in &self.dir(dir).entries {
                longest = longest.max(bytes + name.len());
                if let EntryKind::Node(child) = entry.kind
                    && matches!(self.node(child).body, Body::Dir(_))
                {
                    todo.push((child, bytes + name.len() + 1));
                }
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::kernel::vfs::{Base, Follow, HostDir, Mtimes, OpenFlags, Source, VfsLimits};

    /// A tree that no path reaches could be created through descriptors; then all changes were lost.
    #[test]
    fn path_beyond_the_limit_cannot_be_created() {
        let folder = tempfile::tempdir().unwrap();
        let source = Source::Host(Arc::new(HostDir::open(folder.path()).unwrap()));
        let mut overlay = Overlay::new(VfsLimits::default(), 1);
        let mount = overlay.mount("/w", source, false, Mtimes::Fixed(1), 1).unwrap();
        let top = Base { dir: overlay.mount_root(mount), root: overlay.root() };
        let chain = |overlay: &mut Overlay, name: &str| {
            let mut base = top;
            let mut made = 0;
            loop {
                match overlay.create_dir(base, name, 2) {
                    Ok(dir) => base.dir = dir,
                    Err(errno) => return (base, made, errno),
                }
                made += 1;
            }
        };
        // `d`, `d/d` and so on: 2048 names of one byte, and 2047 slashes.
        let (deepest, made, errno) = chain(&mut overlay, "d");
        assert_eq!((made, errno), (2048, Errno::Nametoolong));
        let create = OpenFlags { create: true, write: true, ..OpenFlags::default() };
        assert_eq!(overlay.open(deepest, "f", create, 2), Err(Errno::Nametoolong));
        assert_eq!(overlay.symlink("x", deepest, "l", 2), Err(Errno::Nametoolong));
        overlay.write("/w/file", b"text", 2).unwrap();
        assert_eq!(
            overlay.link((top, "file"), Follow::No, (deepest, "l"), 2),
            Err(Errno::Nametoolong)
        );
        assert_eq!(overlay.rename((top, "file"), (deepest, "f"), 2), Err(Errno::Nametoolong));
        // Renaming a directory lengthens the paths beneath it.
        overlay.create_dir(top, "e", 2).unwrap();
        overlay.create_dir(top, "ee", 2).unwrap();
        for to in ["e/d", "dd"] {
            assert_eq!(overlay.rename((top, "d"), (top, to), 2), Err(Errno::Nametoolong), "{to}");
        }
        overlay.rename((top, "d"), (top, "c"), 2).unwrap();
        overlay.rename((top, "c/d"), (top, "b"), 2).unwrap();
        overlay.rename((top, "b"), (top, "e/d"), 2).unwrap();
        assert_eq!(overlay.rename((top, "e/d"), (top, "ee/d"), 2), Err(Errno::Nametoolong));
        assert!(overlay.diff().unwrap().len() > 2000);
        // The limit is that of Linux; other systems have shorter paths.
        if cfg!(target_os = "linux") {
            overlay.apply().unwrap();
        }
    }
}
