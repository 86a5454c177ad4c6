//! Calls on descriptors, reading and writing aside.

use std::borrow::Cow;

use super::{AT_FDCWD, Guest, node_of};
use crate::base::errno::Errno;
use crate::kernel::io::fd::{Description, FdFlags, OpenDir, OpenFile, OpenPipe};
use crate::kernel::machine::Machine;
use crate::kernel::vfs::{Base, FileType, Listed, Metadata, NodeId, Overlay, SetTime, Times};

/// `rights` of preview1 that the kernel names.
pub mod rights {
    /// `fd_read`, `fd_pread`
    pub const FD_READ: u64 = 1 << 1;
    /// `fd_seek`
    pub const FD_SEEK: u64 = 1 << 2;
    /// `fd_write`, `fd_pwrite`
    pub const FD_WRITE: u64 = 1 << 6;
    /// `fd_readdir`
    pub const FD_READDIR: u64 = 1 << 14;
    /// `path_filestat_set_size`, which no call uses
    pub const PATH_FILESTAT_SET_SIZE: u64 = 1 << 19;
    /// `fd_filestat_set_size`
    pub const FD_FILESTAT_SET_SIZE: u64 = 1 << 22;
    /// Every right that preview1 defines.
    pub const ALL: u64 = (1 << 30) - 1;
    /// The rights of a preopened directory: all `path_*` calls, `fd_readdir`, and the attributes.
    pub const PREOPEN: u64 =
        ((1 << 27) - (1 << 9)) & !(PATH_FILESTAT_SET_SIZE | FD_FILESTAT_SET_SIZE);
    /// The inheriting rights of a preopened directory.
    pub const PREOPEN_INHERITING: u64 = PREOPEN | ((1 << 9) - 1) | FD_FILESTAT_SET_SIZE | 1 << 27;
}

/// The answer of `fd_fdstat_get`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FdStat {
    /// The file type.
    pub file_type: FileType,
    /// The flags.
    pub flags: FdFlags,
    /// The rights of the descriptor. Only reading and writing are enforced.
    pub rights_base: u64,
    /// The inheriting rights. Reported, not enforced.
    pub rights_inheriting: u64,
}

/// The answer of `fd_filestat_get` and `path_filestat_get`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileStat {
    /// The device: 1 for files of the namespace, 0 for streams, devices and programs.
    pub dev: u64,
    /// The attributes.
    pub metadata: Metadata,
}

impl FileStat {
    pub(super) fn of(metadata: Metadata) -> Self {
        Self { dev: 1, metadata }
    }
}

impl Guest {
    /// `fd_advise`: no effect.
    ///
    /// # Errors
    /// `EBADF` unless `fd` is a file or directory.
    pub fn fd_advise(&mut self, fd: u32) -> Result<(), Errno> {
        match self.description(fd)? {
            Description::Dir(_) if self.knows_version_10() => Ok(()),
            _ => self.open_file(fd).map(|_| ()),
        }
    }

    /// `fd_allocate`: extends the file to at least `offset + len` bytes.
    ///
    /// # Errors
    /// `EBADF` unless `fd` is a file; `EINVAL` if `len` is 0; `EBADF` unless it was opened for writing; `EFBIG`,
    /// `ENOSPC` at the limits.
    pub fn fd_allocate(&mut self, fd: u32, offset: u64, len: u64) -> Result<(), Errno> {
        if len == 0 && self.knows_version_10() {
            self.open_file(fd)?;
            return Err(Errno::Inval);
        }
        let node = self.writable_file(fd)?.node;
        let now = self.now();
        self.machine.vfs.allocate(node, offset, len, now)?;
        self.open_file(fd)?.note_write();
        Ok(())
    }

    /// Opens the file of `fd` once more, only for reading or, if it `writes`, for writing: at `offset`, or to append. The
    /// descriptor closes on exec.
    ///
    /// # Errors
    /// `EBADF` unless `fd` is a regular file that is open for that; `EMFILE` at the limit of open files.
    pub fn fd_reopen(&mut self, fd: u32, offset: Option<u64>, writes: bool) -> Result<u32, Errno> {
        let mut file = self.open_file(fd)?.clone();
        if !(if writes { file.write } else { file.read }) {
            return Err(Errno::Badf);
        }
        self.check_open_files()?;
        (file.read, file.write) = (!writes, writes);
        file.offset = offset.unwrap_or(0);
        if offset.is_none() {
            file.flags = file.flags.with(FdFlags::APPEND);
        }
        if let Some(taped) = &mut file.taped {
            taped.written = false;
        }
        self.machine.vfs.reopen(file.node);
        let copy = self.push(Description::File(file));
        self.fd_set_close_on_exec(copy, true)?;
        Ok(copy)
    }

    /// `fd_close`.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    pub fn fd_close(&mut self, fd: u32) -> Result<(), Errno> {
        let descriptor = self.fds.remove(fd)?;
        self.release(descriptor);
        Ok(())
    }

    /// `fd_close_from` of the module `belljar`: closes every descriptor that is not below `lowest`.
    pub fn fd_close_from(&mut self, lowest: u32) {
        let open: Vec<u32> = self.fds.iter().map(|(fd, _)| fd).filter(|fd| *fd >= lowest).collect();
        for fd in open {
            let closed = self.fd_close(fd);
            debug_assert!(closed.is_ok(), "the descriptor {fd} was open");
        }
    }

    /// `fd_datasync`, `fd_sync`: no effect, as files are in memory.
    ///
    /// # Errors
    /// `EBADF` unless `fd` is a file or directory.
    pub fn fd_sync(&mut self, fd: u32) -> Result<(), Errno> {
        match self.description(fd)? {
            Description::File(_) | Description::Dir(_) => Ok(()),
            _ => Err(Errno::Badf),
        }
    }

    /// `fd_executable_set` of the module `belljar`.
    ///
    /// # Errors
    /// `EBADF` unless `fd` is a file or directory; `EROFS`.
    pub fn fd_executable_set(&mut self, fd: u32, executable: bool) -> Result<(), Errno> {
        let node = node_of(self.description(fd)?).ok_or(Errno::Badf)?;
        let now = self.now();
        self.machine.vfs.set_executable(node, executable, now)
    }

    /// `fd_fdstat_get`.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    pub fn fd_fdstat_get(&mut self, fd: u32) -> Result<FdStat, Errno> {
        let stat = |file_type, flags, rights_base, rights_inheriting| FdStat {
            file_type,
            flags,
            rights_base,
            rights_inheriting,
        };
        let none = FdFlags::default();
        Ok(match self.description(fd)? {
            Description::Stdin => stat(FileType::Unknown, none, rights::FD_READ, rights::FD_READ),
            Description::PipeReader(end) => {
                stat(FileType::Unknown, flags_of(*end), rights::FD_READ, rights::FD_READ)
            }
            Description::PipeWriter(end) => {
                stat(FileType::Unknown, flags_of(*end), rights::FD_WRITE, rights::FD_WRITE)
            }
            Description::Stdout | Description::Stderr => {
                stat(FileType::Unknown, none, rights::FD_WRITE, rights::FD_WRITE)
            }
            Description::Device(_) => {
                let both = rights::FD_READ | rights::FD_WRITE;
                stat(FileType::CharacterDevice, none, both, both)
            }
            Description::Dir(OpenDir { preopen: Some(_), flags, .. }) => {
                stat(FileType::Directory, *flags, rights::PREOPEN, rights::PREOPEN_INHERITING)
            }
            Description::Dir(OpenDir { flags, .. }) => {
                let absent = rights::FD_SEEK
                    | rights::FD_FILESTAT_SET_SIZE
                    | rights::PATH_FILESTAT_SET_SIZE
                    | rights::FD_WRITE;
                // Files that are opened through it may do everything.
                stat(FileType::Directory, *flags, rights::ALL & !absent, rights::ALL)
            }
            Description::File(file) => {
                let mut base = rights::ALL;
                if !file.read {
                    base &= !(rights::FD_READ | rights::FD_READDIR);
                }
                if !file.write {
                    base &= !rights::FD_WRITE;
                }
                stat(FileType::RegularFile, file.flags, base, base)
            }
        })
    }

    /// `fd_fdstat_set_flags`: sets `APPEND` and `NONBLOCK`.
    ///
    /// # Errors
    /// `EBADF` unless `fd` is a file, directory or pipe; `EINVAL` for the flags of synchronous writes.
    pub fn fd_fdstat_set_flags(&mut self, fd: u32, flags: FdFlags) -> Result<(), Errno> {
        let dirs_have_flags = self.knows_version_10();
        match self.description_mut(fd)? {
            Description::Dir(_) if !dirs_have_flags => Err(Errno::Badf),
            Description::File(_)
            | Description::Dir(_)
            | Description::PipeReader(_)
            | Description::PipeWriter(_)
                if flags.has_sync() =>
            {
                Err(Errno::Inval)
            }
            Description::Dir(dir) => {
                dir.flags = flags;
                Ok(())
            }
            Description::File(file) => {
                file.flags = flags;
                Ok(())
            }
            Description::PipeReader(end) | Description::PipeWriter(end) => {
                end.nonblock = flags.is_nonblock();
                Ok(())
            }
            _ => Err(Errno::Badf),
        }
    }

    /// `fd_fdstat_set_rights`: rights cannot be changed.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open, else `ENOTSUP`.
    pub fn fd_fdstat_set_rights(&mut self, fd: u32) -> Result<(), Errno> {
        self.description(fd)?;
        Err(Errno::Notsup)
    }

    /// `fd_filestat_get`.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open.
    pub fn fd_filestat_get(&mut self, fd: u32) -> Result<FileStat, Errno> {
        let description = self.description(fd)?;
        if let Some(node) = node_of(description) {
            return Ok(FileStat::of(self.machine.vfs.metadata_of(node)));
        }
        let number = match description {
            Description::Device(device) => return Ok(self.stat_device(*device)),
            // Not one for each: so a process that looks at them does the same in any place of a pipeline.
            Description::Stdin | Description::PipeReader(_) => 4,
            Description::Stdout | Description::Stderr | Description::PipeWriter(_) => 5,
            Description::File(_) | Description::Dir(_) => 0,
        };
        Ok(self.stat_nameless(FileType::Unknown, number))
    }

    /// Returns the attributes of a stream, a device or a program, with the inode number `ino`.
    pub(super) fn stat_nameless(&self, file_type: FileType, ino: u64) -> FileStat {
        let ino = if self.knows_version_11() { ino } else { 0 };
        let metadata = Metadata { ino, file_type, nlink: 0, size: 0, times: Times::all(0) };
        FileStat { dev: 0, metadata }
    }

    /// `fd_filestat_set_size`.
    ///
    /// # Errors
    /// `EBADF` unless `fd` is a file or directory; `EINVAL` if it was not opened for writing; `EFBIG` at the limit.
    pub fn fd_filestat_set_size(&mut self, fd: u32, size: u64) -> Result<(), Errno> {
        if self.knows_version_10() && matches!(self.description(fd)?, Description::Dir(_)) {
            return Err(Errno::Inval);
        }
        let file = self.open_file(fd)?;
        if !file.write {
            return Err(Errno::Inval);
        }
        let node = file.node;
        let now = self.now();
        self.machine.vfs.set_len(node, size, now)?;
        self.open_file(fd)?.note_write();
        Ok(())
    }

    /// `fd_filestat_set_times`.
    ///
    /// # Errors
    /// `EBADF` unless `fd` is a file or directory; `EROFS`.
    pub fn fd_filestat_set_times(
        &mut self,
        fd: u32,
        atim: SetTime,
        mtim: SetTime,
    ) -> Result<(), Errno> {
        let node = node_of(self.description(fd)?).ok_or(Errno::Badf)?;
        let now = self.now();
        self.machine.vfs.set_times(node, atim, mtim, now)
    }

    /// `fd_prestat_get`, `fd_prestat_dir_name`: returns the name of a preopened directory.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not a preopened directory.
    pub fn fd_prestat(&mut self, fd: u32) -> Result<&str, Errno> {
        match self.description(fd)? {
            Description::Dir(OpenDir { preopen: Some(name), .. }) => Ok(name),
            _ => Err(Errno::Badf),
        }
    }

    /// `fd_readdir`: returns the listing, with the inode numbers of the directory and its parent. Cookies
    /// 1 and 2 are the positions after `.` and `..`, cookie `i + 3` the one after entry `i`.
    ///
    /// The listing is taken at cookie 0, so that cookies stay valid: entries added later are not in it,
    /// removed ones are skipped.
    ///
    /// # Errors
    /// `EBADF` unless `fd` is open; `ENOTDIR` if it is a file; [`Overlay::list`].
    pub fn fd_readdir(&mut self, fd: u32, cookie: u64) -> Result<ReadDir<'_>, Errno> {
        let id = self.fds.get(fd)?.description;
        let Machine { vfs, run, .. } = &mut *self.machine;
        let dir = match run.descriptions.get_mut(id) {
            Description::Dir(dir) => dir,
            Description::File(_) => return Err(Errno::Notdir),
            _ => return Err(Errno::Badf),
        };
        let Base { dir: node, root } = dir.base;
        if cookie == 0 || dir.listing.is_none() {
            dir.listing = None;
            dir.listing = Some(vfs.list(node)?);
        }
        let listing = dir.listing.as_ref().ok_or(Errno::Io)?;
        let ino = vfs.metadata_of(node).ino;
        let parent = if node == root { node } else { vfs.parent(node) };
        let parent_ino = vfs.metadata_of(parent).ino;
        let is_current = vfs.is_listing_of(listing, node);
        Ok(ReadDir { ino, parent_ino, listing, is_current, vfs, node })
    }

    /// Opens the directory `fd` again, to list it: another descriptor, with a listing of its own.
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR` unless `fd` is a directory; `EMFILE` at the limit.
    pub fn fd_open_listing(&mut self, fd: u32) -> Result<u32, Errno> {
        let dir = self.open_dir(fd)?.clone();
        self.check_open_files()?;
        self.machine.vfs.reopen(dir.base.dir);
        Ok(self.push(Description::Dir(OpenDir { preopen: None, listing: None, ..dir })))
    }

    /// `fd_renumber`.
    ///
    /// # Errors
    /// `EBADF` if `from` is not open, or `to` never was: see `FdTable::renumber`.
    pub fn fd_renumber(&mut self, from: u32, to: u32) -> Result<(), Errno> {
        if let Some(replaced) = self.fds.renumber(from, to)? {
            self.release(replaced);
        }
        Ok(())
    }

    /// `sock_accept`, `sock_recv`, `sock_send`, `sock_shutdown`: there are no sockets.
    ///
    /// # Errors
    /// `EBADF` if `fd` is not open, else `ENOTSOCK`.
    pub fn sock(&mut self, fd: u32) -> Result<(), Errno> {
        self.tape_sock();
        self.description(fd)?;
        Err(Errno::Notsock)
    }

    pub(super) fn open_file(&mut self, fd: u32) -> Result<&mut OpenFile, Errno> {
        match self.description_mut(fd)? {
            Description::File(file) => Ok(file),
            _ => Err(Errno::Badf),
        }
    }

    pub(super) fn writable_file(&mut self, fd: u32) -> Result<&mut OpenFile, Errno> {
        let file = self.open_file(fd)?;
        if file.write { Ok(file) } else { Err(Errno::Badf) }
    }

    pub(super) fn open_dir(&self, fd: u32) -> Result<&OpenDir, Errno> {
        if fd == AT_FDCWD
            && !self.is_module
            && let Some(dir) = &self.current_dir
        {
            return Ok(dir);
        }
        match self.description(fd)? {
            Description::Dir(dir) => Ok(dir),
            Description::File(_) => Err(Errno::Notdir),
            _ => Err(Errno::Badf),
        }
    }
}

fn flags_of(end: OpenPipe) -> FdFlags {
    if end.nonblock { FdFlags::NONBLOCK } else { FdFlags::default() }
}

/// The answer of `fd_readdir`.
pub struct ReadDir<'a> {
    /// Inode number of the directory.
    pub ino: u64,
    /// Inode number of its parent, or its own at the root that the process sees.
    pub parent_ino: u64,
    listing: &'a [Listed],
    /// Whether the directory is unchanged since it was listed.
    is_current: bool,
    vfs: &'a Overlay,
    node: NodeId,
}

impl ReadDir<'_> {
    /// Returns the entries from `index` on that still exist, in their present state, with their indices.
    pub fn entries_from(&self, index: usize) -> impl Iterator<Item = (usize, Cow<'_, Listed>)> {
        self.listing.iter().enumerate().skip(index).filter_map(|(index, entry)| {
            if self.is_current {
                return Some((index, Cow::Borrowed(entry)));
            }
            let now = self.vfs.list_one(self.node, &entry.name)?;
            Some((index, Cow::Owned(now)))
        })
    }
}
