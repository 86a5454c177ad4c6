//! Attributes: POSIX `fstatat`, `utimensat`.

use super::Overlay;
use super::node::{Body, NodeId, TimesOf};
use super::resolve::{Base, Follow};
use super::times::TimeScale;
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

    /// Returns whether the owner may execute `path`, as a diff shows it: a new file that replaces one has its bit
    /// until a program sets one. Directories and symbolic links are executable, special files are not.
    ///
    /// # Errors
    /// Those of [`Overlay::stat`], and of the layer below for a replaced file.
    pub fn is_executable_at(
        &mut self,
        base: Base,
        path: &str,
        follow: Follow,
    ) -> Result<bool, Errno> {
        let target = self.resolve(base, path, follow)?;
        let node = self.node(target.existing(self)?);
        match node.body {
            Body::Dir(_) | Body::Symlink(_) => return Ok(true),
            Body::Special(file_type) => return Ok(file_type == FileType::SymbolicLink),
            Body::File(_) => {}
        }
        let dir = self.dir(target.dir);
        let replaces = || dir.entries.get(&*target.name).is_some_and(|entry| entry.shadows);
        let before = if node.executable.is_none() && node.origin.is_none() && replaces() {
            self.find_below(&dir.below, &target.name)?
        } else {
            None
        };
        Ok(node.is_executable(before.as_ref().map(|found| &found.stat)))
    }

    /// Sets whether the owner may execute `path`: POSIX `fchmodat`.
    ///
    /// # Errors
    /// Those of [`Overlay::set_executable`] and [`Overlay::stat`].
    pub fn set_executable_at(
        &mut self,
        base: Base,
        path: &str,
        follow: Follow,
        executable: bool,
        now: u64,
    ) -> Result<(), Errno> {
        let id = self.lookup(base, path, follow)?;
        self.set_executable(id, executable, now)
    }

    /// Sets whether the owner may execute the file `id`, under all its names. Directories stay executable. No content
    /// is copied, and only the change time changes.
    ///
    /// # Errors
    /// `EROFS` on a read-only mount; `ENOTSUP` for a symbolic link or special file.
    pub fn set_executable(&mut self, id: NodeId, executable: bool, now: u64) -> Result<(), Errno> {
        self.expect_writable(id)?;
        match self.node(id).body {
            Body::File(_) => {}
            Body::Dir(_) => return Ok(()),
            Body::Symlink(_) | Body::Special(_) => return Err(Errno::Notsup),
        }
        self.choose_executable(id, executable);
        self.node_mut(id).times.ctim = now;
        Ok(())
    }

    /// As [`Overlay::set_executable`] for a file, without another change time.
    pub(in crate::kernel::vfs) fn choose_executable(&mut self, id: NodeId, executable: bool) {
        let node = self.node_mut(id);
        let has_anyway = node.origin.as_ref().is_some_and(|it| it.executable == executable);
        node.executable = (!has_anyway).then_some(executable);
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

    /// Gives `path`, which is not followed, times that it had on another machine: a program set them there, if they were `set`;
    /// otherwise they are those of a write.
    ///
    /// # Errors
    /// Those of [`Overlay::set_times_at`].
    #[cfg(feature = "remote")]
    pub fn restore_times_at(
        &mut self,
        base: Base,
        path: &str,
        times: Times,
        set: bool,
    ) -> Result<(), Errno> {
        let id = self.lookup(base, path, Follow::No)?;
        self.expect_writable(id)?;
        self.settle_times(id);
        let node = self.node_mut(id);
        node.times = times;
        node.times_of = if set { TimesOf::Guest } else { TimesOf::Clock };
        Ok(())
    }

    /// Records that programs changed the directory `path`, if there is one, at an unknown time.
    pub(crate) fn forget_time_of_dir(&mut self, base: Base, path: &str) {
        let Ok(id) = self.lookup(base, path, Follow::No) else { return };
        let node = self.node_mut(id);
        if matches!(node.body, Body::Dir(_)) {
            (node.times.mtim, node.times_of) = (0, TimesOf::Clock);
        }
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
        let now =
            if let SetTime::At(time) = mtim { self.time_of_setting(id, time, now) } else { now };
        let has_clock = self.time_scale != TimeScale::Unknown;
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
            // That of a directory is carried only if it was set, as in `npm ci && touch node_modules` of a makefile.
            SetTime::Now if has_clock && matches!(node.body, Body::Dir(_)) => {
                node.times_of = TimesOf::Guest;
            }
            SetTime::Now => node.times_of = TimesOf::Clock,
            SetTime::At(_) => node.times_of = TimesOf::Guest,
        }
        Ok(())
    }
}
