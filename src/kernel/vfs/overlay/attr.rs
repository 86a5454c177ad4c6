//! Attributes: POSIX `fstatat`, `utimensat`.

use super::Overlay;
use super::node::{Body, NodeId, TimesOf};
use super::resolve::{Base, Follow};
use crate::base::errno::Errno;
use crate::kernel::vfs::layer::FileType;
use crate::kernel::vfs::layer::Times;

/// The attributes that `stat` returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metadata {
    /// Inode number: unique in the namespace, independent of the host.
    pub ino: u64,
    /// Its type.
    pub file_type: FileType,
    /// Number of names of a file; 1 for a directory, as on file systems that do not count.
    pub nlink: u32,
    /// Length of a file or of a symbolic link's text in bytes; 0 for a directory.
    pub size: u64,
    /// Its times.
    pub times: Times,
}

/// How to change one of a file's times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetTime {
    /// Keep it.
    Keep,
    /// The time of the operation.
    Now,
    /// Set it to this time, nanoseconds since the Unix epoch.
    At(u64),
}

impl Overlay {
    /// Returns the attributes of `path`.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, and those of [`Base`].
    pub fn stat(&mut self, base: Base, path: &str, follow: Follow) -> Result<Metadata, Errno> {
        let id = self.lookup(base, path, follow)?;
        Ok(self.metadata_of(id))
    }

    /// Returns the attributes of a node.
    pub fn metadata_of(&mut self, id: NodeId) -> Metadata {
        self.settle_times(id);
        let node = self.node(id);
        let size = match &node.body {
            Body::File(file) => file.content.len(),
            Body::Symlink(target) => target.len() as u64,
            Body::Dir(_) | Body::Special(_) => 0,
        };
        Metadata {
            ino: node.ino,
            file_type: node.body.file_type(),
            nlink: node.nlink,
            size,
            times: node.times,
        }
    }

    /// The file `path`, which was created here, cannot be executed when it is applied, whatever it replaces.
    ///
    /// # Errors
    /// Those of [`Overlay::stat`].
    pub(crate) fn make_plain(&mut self, base: Base, path: &str) -> Result<(), Errno> {
        let id = self.lookup(base, path, Follow::No)?;
        if let Body::File(file) = &mut self.node_mut(id).body {
            file.is_plain = true;
        }
        Ok(())
    }

    /// Sets the times of `path`.
    ///
    /// # Errors
    /// `EROFS` on a read-only mount, and those of [`Overlay::stat`].
    pub fn set_times_at(
        &mut self,
        base: Base,
        path: &str,
        follow: Follow,
        atim: SetTime,
        mtim: SetTime,
        now: u64,
    ) -> Result<(), Errno> {
        let id = self.lookup(base, path, follow)?;
        self.set_times(id, atim, mtim, now)
    }

    /// Sets the times of a node. No content is copied.
    ///
    /// # Errors
    /// `EROFS` on a read-only mount.
    pub fn set_times(
        &mut self,
        id: NodeId,
        atim: SetTime,
        mtim: SetTime,
        now: u64,
    ) -> Result<(), Errno> {
        if (atim, mtim) == (SetTime::Keep, SetTime::Keep) {
            return Ok(());
        }
        self.expect_writable(id)?;
        self.settle_times(id);
        let now = if mtim == SetTime::Now {
            self.time_of_touch(id, now)
        } else {
            self.time_of_making(now)
        };
        let node = self.node_mut(id);
        let set = |field: &mut u64, to: SetTime| match to {
            SetTime::Keep => {}
            SetTime::Now => *field = now,
            SetTime::At(time) => *field = time,
        };
        set(&mut node.times.atim, atim);
        set(&mut node.times.mtim, mtim);
        node.times.ctim = now;
        match mtim {
            SetTime::Keep => {}
            SetTime::Now => node.times_of = TimesOf::Clock,
            SetTime::At(_) => node.times_of = TimesOf::Guest,
        }
        Ok(())
    }
}
