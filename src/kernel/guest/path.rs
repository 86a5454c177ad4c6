//! Calls on paths, which are relative to a directory descriptor and stay beneath its root.

use super::{FileStat, Guest, rights};
use crate::base::errno::Errno;
use crate::kernel::io::fd::{Description, FdFlags, OpenDir, OpenFile, Reach, TapedFile};
use crate::kernel::vfs::{Base, FileType, Follow, OpenFlags, SetTime};

/// `oflags` of preview1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags of one call")]
pub struct OFlags {
    /// Create the file if it does not exist.
    pub creat: bool,
    /// Fail unless it is a directory.
    pub directory: bool,
    /// Fail if it exists.
    pub excl: bool,
    /// Truncate it.
    pub trunc: bool,
}

impl Guest {
    /// `path_create_directory`.
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR` unless `fd` is a directory; [`crate::kernel::vfs::Overlay::create_dir`].
    pub fn path_create_directory(&mut self, fd: u32, path: &str) -> Result<(), Errno> {
        let now = self.now();
        self.in_dir(fd, path, |vfs, base, path| vfs.create_dir(base, path, now).map(|_| ()))
    }

    /// `path_executable_get` of the module `belljar`.
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR` unless `fd` is a directory; [`crate::kernel::vfs::Overlay::is_executable_at`].
    pub fn path_executable_get(
        &mut self,
        fd: u32,
        follow: Follow,
        path: &str,
    ) -> Result<bool, Errno> {
        match self.in_dir(fd, path, |vfs, base, path| vfs.is_executable_at(base, path, follow)) {
            Err(Errno::Noent) => self.is_special_program(fd, path),
            executable => executable,
        }
    }

    /// `path_executable_set` of the module `belljar`.
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR` unless `fd` is a directory; [`crate::kernel::vfs::Overlay::set_executable_at`].
    pub fn path_executable_set(
        &mut self,
        fd: u32,
        follow: Follow,
        path: &str,
        executable: bool,
    ) -> Result<(), Errno> {
        let now = self.now();
        self.in_dir(fd, path, |vfs, base, path| {
            vfs.set_executable_at(base, path, follow, executable, now)
        })
    }

    /// `path_filestat_get`.
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR` unless `fd` is a directory; [`crate::kernel::vfs::Overlay::stat`].
    pub fn path_filestat_get(
        &mut self,
        fd: u32,
        follow: Follow,
        path: &str,
    ) -> Result<FileStat, Errno> {
        match self.in_dir(fd, path, |vfs, base, path| vfs.stat(base, path, follow)) {
            Err(Errno::Noent) => self.stat_special(fd, path),
            stat => stat.map(FileStat::of),
        }
    }

    /// `path_filestat_set_times`.
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR` unless `fd` is a directory; [`crate::kernel::vfs::Overlay::set_times_at`].
    pub fn path_filestat_set_times(
        &mut self,
        fd: u32,
        follow: Follow,
        path: &str,
        atim: SetTime,
        mtim: SetTime,
    ) -> Result<(), Errno> {
        let now = self.now();
        self.in_dir(fd, path, |vfs, base, path| {
            vfs.set_times_at(base, path, follow, atim, mtim, now)
        })
    }

    /// `path_link`.
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR` unless both descriptors are directories; [`crate::kernel::vfs::Overlay::link`]. Errors of `from`
    /// come first.
    pub fn path_link(
        &mut self,
        from: (u32, &str),
        follow: Follow,
        to: (u32, &str),
    ) -> Result<(), Errno> {
        let from_base = self.base(from.0, from.1, false)?;
        let to_base = self.base(to.0, to.1, true);
        if to_base.is_err() && self.knows_version_10() {
            self.machine.vfs.stat(from_base, from.1, follow)?;
        }
        let to_base = to_base?;
        let now = self.now();
        self.machine.vfs.link((from_base, from.1), follow, (to_base, to.1), now)
    }

    /// `path_open`: returns the new descriptor. Of the rights, only reading and writing count.
    ///
    /// # Errors
    /// `EINVAL` to create a directory; `EBADF`, `ENOTDIR` unless `fd` is a directory; `EMFILE` at the limit;
    /// [`crate::kernel::vfs::Overlay::open`].
    pub fn path_open(
        &mut self,
        fd: u32,
        follow: Follow,
        path: &str,
        oflags: OFlags,
        rights_base: u64,
        flags: FdFlags,
    ) -> Result<u32, Errno> {
        if oflags.creat && oflags.directory && self.knows_version_10() {
            return Err(Errno::Inval);
        }
        self.expect_some(path)?;
        let &OpenDir { base, reach, .. } = self.open_dir(fd)?;
        self.check_open_files()?;
        let now = self.now();
        let read = rights_base & rights::FD_READ != 0;
        // A file that is created or truncated without reading will be written, even if a library has
        // dropped the right, as wasi-libc does with rights that a directory does not pass on.
        let changes = oflags.creat || oflags.trunc;
        let write = rights_base & rights::FD_WRITE != 0 || changes && !read;
        let open = OpenFlags {
            create: oflags.creat,
            exclusive: oflags.excl,
            truncate: oflags.trunc,
            directory: oflags.directory,
            follow: follow == Follow::Yes,
            write,
        };
        let opened = self.in_dir(fd, path, |vfs, base, path| vfs.open(base, path, open, now));
        let node = match opened {
            Err(Errno::Noent) if !oflags.directory => {
                return self.open_special(fd, path, oflags.creat && oflags.excl);
            }
            opened => opened?,
        };
        let taped_path = self.taped_path(fd, path);
        let description = if self.machine.vfs.file_type(node) == FileType::Directory {
            let (root, reach) = match reach {
                Reach::Confined => (node, Reach::Confined),
                _ => (base.root, Reach::Namespace),
            };
            Description::Dir(OpenDir {
                base: Base { dir: node, root },
                reach,
                preopen: None,
                taped_path,
                flags: if self.knows_version_10() { flags } else { FdFlags::default() },
                listing: None,
            })
        } else {
            let written = oflags.trunc || oflags.creat && write;
            let taped = taped_path.map(|path| Box::new(TapedFile { path, written }));
            Description::File(OpenFile { node, offset: 0, flags, read, write, taped })
        };
        Ok(self.push(description))
    }

    /// `path_readlink`: returns the target of a symbolic link.
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR` unless `fd` is a directory; [`crate::kernel::vfs::Overlay::read_link`].
    pub fn path_readlink(&mut self, fd: u32, path: &str) -> Result<&str, Errno> {
        if path.is_empty() {
            // On Linux the only call that may have none, so that the descriptor is looked at.
            self.description(fd)?;
        }
        let base = self.base(fd, path, false)?;
        self.machine.vfs.read_link(base, path)
    }

    /// `path_remove_directory`.
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR` unless `fd` is a directory; [`crate::kernel::vfs::Overlay::remove_dir`].
    pub fn path_remove_directory(&mut self, fd: u32, path: &str) -> Result<(), Errno> {
        let now = self.now();
        self.in_dir(fd, path, |vfs, base, path| vfs.remove_dir(base, path, now))
    }

    /// `path_rename`.
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR` unless both descriptors are directories; [`crate::kernel::vfs::Overlay::rename`]. Errors of the
    /// directory of `from` come first.
    pub fn path_rename(&mut self, from: (u32, &str), to: (u32, &str)) -> Result<(), Errno> {
        let from_base = self.base(from.0, from.1, false)?;
        let to_base = self.base(to.0, to.1, true);
        if to_base.is_err() && self.knows_version_10() {
            self.machine.vfs.expect_dir_of(from_base, from.1)?;
        }
        let to_base = to_base?;
        let taped = (self.taped_path(from.0, from.1), self.taped_path(to.0, to.1));
        let now = self.now();
        self.machine.vfs.rename((from_base, from.1), (to_base, to.1), now)?;
        self.tape_rename(taped.0, taped.1);
        Ok(())
    }

    /// `path_symlink`.
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR` unless `fd` is a directory; `EPERM` for an absolute target in a confined
    /// directory; [`crate::kernel::vfs::Overlay::symlink`].
    pub fn path_symlink(&mut self, text: &str, fd: u32, path: &str) -> Result<(), Errno> {
        self.expect_some(text)?;
        self.expect_some(path)?;
        if self.open_dir(fd)?.reach == Reach::Confined && text.starts_with('/') {
            return Err(Errno::Perm);
        }
        let now = self.now();
        self.in_dir(fd, path, |vfs, base, path| vfs.symlink(text, base, path, now))
    }

    /// `path_unlink_file`.
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR` unless `fd` is a directory; [`crate::kernel::vfs::Overlay::unlink`].
    pub fn path_unlink_file(&mut self, fd: u32, path: &str) -> Result<(), Errno> {
        let taped = self.taped_path(fd, path);
        let now = self.now();
        self.in_dir(fd, path, |vfs, base, path| vfs.unlink(base, path, now))?;
        self.tape_unlink(taped);
        Ok(())
    }
}

/// Joins `from` and `path` to an absolute path without `.` and `..`. Symbolic links are not resolved.
pub fn absolute(from: &str, path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in from.split('/').chain(path.split('/')) {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}
