//! Directories of the host, through cap-std, which only the files `host_*` of this directory use.
//!
//! Every path is resolved beneath the open root, component by component: neither a symbolic link nor a host
//! process that rearranges the tree can lead outside.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{File, FileTimes};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

#[cfg(not(unix))]
use cap_fs_ext::{FollowSymlinks, MetadataExt, OpenOptionsFollowExt};
use cap_std::ambient_authority;
#[cfg(unix)]
use cap_std::fs::Metadata;
#[cfg(unix)]
use cap_std::fs::MetadataExt;
use cap_std::fs::{Dir, DirBuilder, DirEntry as HostEntry, OpenOptions};

#[cfg(windows)]
use windows_sys::Win32::Storage::FileSystem as file_system;

#[cfg(unix)]
use super::host_examined::examined;
use super::host_examined::{Examined, examined_open, type_of};
#[cfg(unix)]
use super::host_last::LastHeld;
use super::host_syntax::{link_text, native};
use super::spelling::Spelling;
use super::{Blob, DirEntry, FileType, Layer, Stat};
use crate::base::disk;
use crate::base::errno::Errno;
use crate::base::patience;
use crate::kernel::vfs::layer::Times;
use crate::kernel::vfs::layer::temporary::may_be_temporary;
use crate::kernel::vfs::path::VPath;
#[cfg(feature = "remote")]
use crate::store::FileState;

/// An open directory of the host: a [`Layer`] for reading, and the target of an apply.
pub struct HostDir {
    pub(super) dir: Dir,
    /// Its path when it was opened, canonical if possible. Never opened: another directory may be there now.
    path: PathBuf,
    /// Returns the temporaries that are not listed.
    hidden: OnceLock<HiddenNames>,
    /// How names are spelled, where the disk finds them otherwise too.
    pub(super) spelling: Spelling,
    #[cfg(unix)]
    pub(super) last_held: LastHeld,
}

/// Returns the names that directories do not list at this moment.
pub(in crate::kernel::vfs) type HiddenNames = Box<dyn Fn() -> HashSet<String> + Send + Sync>;

/// A file of the host opened for reading.
pub struct HostFile {
    file: File,
    /// [`Stat::stamp`] at open, if the file may change while it is read.
    stamp: Option<u64>,
}

/// Who may access a new file or directory. The process's `umask` applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::kernel::vfs) enum Access {
    /// Its owner only, until its permissions are set.
    Private,
    /// Everyone, without execution.
    Shared,
    /// Everyone, with execution.
    SharedExecutable,
}

#[cfg(unix)]
impl Access {
    fn file_mode(self) -> u32 {
        match self {
            Self::Private => 0o600,
            Self::Shared => 0o666,
            Self::SharedExecutable => 0o777,
        }
    }

    fn dir_mode(self) -> u32 {
        if self == Self::Private { 0o700 } else { 0o777 }
    }
}

/// Sets the times of an open file.
pub(in crate::kernel::vfs) fn set_file_times(file: &File, times: Times) -> io::Result<()> {
    let time = |ns| SystemTime::UNIX_EPOCH + Duration::from_nanos(ns);
    file.set_times(FileTimes::new().set_accessed(time(times.atim)).set_modified(time(times.mtim)))
}

impl HostDir {
    /// Opens the host directory `path`. Later reads go to *this* directory, even if another one takes its path.
    ///
    /// # Errors
    /// Those of the host: the path is missing, is not a directory, or may not be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let dir = Dir::open_ambient_dir(path, ambient_authority())?;
        let path = disk::canonical(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self::of(dir, path))
    }

    /// Opens the directory at `path` beneath this one. No symbolic link leads out of this one.
    ///
    /// # Errors
    /// Those of the host: the path is missing, is not a directory, leads outside, or may not be read.
    pub fn open_beneath(&self, path: &VPath) -> io::Result<Self> {
        if path.is_root() {
            return self.try_clone();
        }
        let native = native(path)?;
        let dir = self.dir.open_dir(native)?;
        let path = self.dir.canonicalize(native).unwrap_or_else(|_| native.to_owned());
        Ok(Self::of(dir, self.path.join(path)))
    }

    fn of(dir: Dir, path: PathBuf) -> Self {
        Self {
            dir,
            path,
            hidden: OnceLock::new(),
            spelling: Spelling::default(),
            #[cfg(unix)]
            last_held: LastHeld::default(),
        }
    }

    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }

    pub(in crate::kernel::vfs) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self::of(self.dir.try_clone()?, self.path.clone()))
    }

    /// Stops listing temporaries that `hidden` returns. Only the first call has an effect.
    pub(in crate::kernel::vfs) fn hide_temporaries(&self, hidden: HiddenNames) {
        let _ = self.hidden.set(hidden);
    }

    /// Its path when it was opened: for messages, and to detect directories that contain each other.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the file `path`, which must not exist, and opens it for writing.
    pub(in crate::kernel::vfs) fn create_file(
        &self,
        path: &VPath,
        access: Access,
    ) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        cap_std::fs::OpenOptionsExt::mode(&mut options, access.file_mode());
        #[cfg(not(unix))]
        let _ = access;
        let (dir, name) = self.place(path)?;
        dir.open_with(name, &options).map(cap_std::fs::File::into_std)
    }

    /// Sets the times of `path`; a symbolic link is not followed.
    pub(in crate::kernel::vfs) fn set_times(&self, path: &VPath, times: Times) -> io::Result<()> {
        #[cfg(unix)]
        {
            use rustix::fs::{AtFlags, Timespec, Timestamps, utimensat};
            let timespec = |ns: u64| {
                Timespec::try_from(Duration::from_nanos(ns))
                    .map_err(|_| io::ErrorKind::InvalidInput)
            };
            let times = Timestamps {
                last_access: timespec(times.atim)?,
                last_modification: timespec(times.mtim)?,
            };
            let (dir, name) = self.place(path)?;
            Ok(utimensat(&*dir, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
        }
        #[cfg(not(unix))]
        {
            let (dir, name) = self.place(path)?;
            set_file_times(
                &dir.open_with(name, &unfollowed(file_system::FILE_WRITE_ATTRIBUTES))?.into_std(),
                times,
            )
        }
    }

    /// Checks that no other program has `path` open in a way that keeps it from being moved or removed.
    #[cfg(windows)]
    pub(super) fn expect_free(&self, path: &VPath) -> io::Result<()> {
        use windows_sys::Win32::Foundation::ERROR_SHARING_VIOLATION;
        let (dir, name) = self.place(path)?;
        match patience::repeat(|| dir.open_with(name, &unfollowed(file_system::DELETE))) {
            Err(error) if error.raw_os_error() == Some(ERROR_SHARING_VIOLATION.cast_signed()) => {
                let why = "another program has it open; close that program";
                Err(io::Error::new(io::ErrorKind::ResourceBusy, why))
            }
            // Whatever else is wrong stops the write itself.
            _ => Ok(()),
        }
    }

    /// Identifies this directory on this machine, whatever its path: device and inode, on Windows volume and file.
    pub(in crate::kernel::vfs) fn id(&self) -> io::Result<(u64, u64)> {
        let metadata = self.dir.dir_metadata()?;
        Ok((metadata.dev(), metadata.ino()))
    }

    /// When the directory was made, if the host knows that.
    pub(in crate::kernel::vfs) fn created(&self) -> Option<std::time::SystemTime> {
        Some(self.dir.dir_metadata().ok()?.created().ok()?.into_std())
    }

    /// Returns what is at `path`, `None` if nothing is; an error if that cannot be determined.
    pub(in crate::kernel::vfs) fn look(&self, path: &VPath) -> Result<Option<Stat>, Errno> {
        match Layer::stat(self, path) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::Noent | Errno::Notdir) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Returns what is at `path`, with its change time.
    pub(in crate::kernel::vfs) fn examine(&self, path: &VPath) -> Result<Examined, Errno> {
        let examined = self.examine_as_found(path).map_err(errno)?;
        self.expect_exact(path).map_err(errno)?;
        Ok(examined)
    }

    /// What is at `path` in whichever spelling, for names that the caller made.
    pub(in crate::kernel::vfs) fn stat_as_found(&self, path: &VPath) -> Result<Stat, Errno> {
        self.examine_as_found(path).map(|examined| examined.stat).map_err(errno)
    }

    /// What is at `path` in whichever spelling; a symbolic link is not followed.
    pub(super) fn examine_as_found(&self, path: &VPath) -> io::Result<Examined> {
        #[cfg(unix)]
        return self.metadata(path).map(|metadata| examined(&metadata));
        #[cfg(not(unix))]
        if path.is_root() {
            examined_open(&self.dir.try_clone()?.into_std_file())
        } else {
            examined_open(
                &self
                    .at(path, |dir, name| {
                        dir.open_with(name, &unfollowed(file_system::FILE_READ_ATTRIBUTES))
                    })?
                    .into_std(),
            )
        }
    }

    #[cfg(unix)]
    pub(super) fn metadata(&self, path: &VPath) -> io::Result<Metadata> {
        if path.is_root() {
            return self.dir.dir_metadata();
        }
        self.at(path, |dir, name| dir.symlink_metadata(name))
    }

    /// Calls `what` with the directory that holds `path`, and its name there. No symbolic link is followed on
    /// the way: such a path is not found.
    fn at<T>(
        &self,
        path: &VPath,
        what: impl FnOnce(&Dir, &Path) -> io::Result<T>,
    ) -> io::Result<T> {
        let (dir, name) = self.place(path)?;
        what(&dir, name)
    }

    /// The entries of the directory `path`; no symbolic link is followed.
    fn entries(&self, path: &VPath) -> io::Result<cap_std::fs::ReadDir> {
        #[cfg(unix)]
        return self.walk_to(path)?.entries();
        #[cfg(not(unix))]
        if path.is_root() { self.dir.entries() } else { self.dir.read_dir(native(path)?) }
    }

    /// The present time on the clock of the disk, in nanoseconds since the Unix epoch: the change time of an
    /// unnamed file created here. `None` where the host or the file system cannot create one.
    pub(in crate::kernel::vfs) fn disk_clock_ns(&self) -> Option<u64> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{Mode, OFlags, openat};
            let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
            let file = openat(&self.dir, ".", flags, Mode::RUSR | Mode::WUSR).ok()?;
            Some(examined_open(&File::from(file)).ok()?.changed_ns)
        }
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// The entries of the directory `path`, as [`Layer::list`] returns them, each with its inode number, or 0
    /// where the host has none.
    pub(in crate::kernel::vfs) fn list_with_inodes(
        &self,
        path: &VPath,
    ) -> Result<Vec<(DirEntry, u64)>, Errno> {
        self.expect_exact(path).map_err(errno)?;
        self.sorted(path, self.entries(path))
    }

    /// The `entries` of the directory `path`, as [`HostDir::list_with_inodes`] returns them.
    pub(super) fn sorted(
        &self,
        path: &VPath,
        entries: io::Result<cap_std::fs::ReadDir>,
    ) -> Result<Vec<(DirEntry, u64)>, Errno> {
        let entry = |entry: io::Result<HostEntry>| match entry.and_then(|e| Ok((e.file_type()?, e)))
        {
            Ok((file_type, entry)) => {
                let name = entry.file_name().into_string().ok()?;
                let found = DirEntry { name: name.into(), file_type: type_of(file_type) };
                Some(Ok((found, inode_of(&entry))))
            }
            Err(error) => Some(Err(errno(error))),
        };
        let mut list =
            entries.map_err(errno)?.filter_map(entry).collect::<Result<Vec<_>, Errno>>()?;
        self.remove_temporaries(path, &mut list);
        list.sort_unstable_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        Ok(list)
    }

    /// Opens the file `path` for reading and writing, to lock it; creates it if `create`.
    pub(in crate::kernel::vfs) fn open_to_lock(
        &self,
        path: &VPath,
        create: bool,
    ) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(create);
        #[cfg(unix)]
        cap_std::fs::OpenOptionsExt::mode(&mut options, Access::Private.file_mode());
        self.dir.open_with(native(path)?, &options).map(cap_std::fs::File::into_std)
    }

    /// Opens the file `path` for reading. Does not wait for the writer of a pipe, and follows no symbolic link.
    pub(in crate::kernel::vfs) fn open_to_read(&self, path: &VPath) -> io::Result<File> {
        self.at(path, open_unfollowed)
    }

    /// Why `path` cannot be opened: Windows denies the access to a directory.
    fn not_opened(&self, path: &VPath, error: io::Error) -> Errno {
        let is_dir =
            || self.stat_as_found(path).is_ok_and(|stat| stat.file_type == FileType::Directory);
        match errno(error) {
            Errno::Acces if cfg!(windows) && is_dir() => Errno::Isdir,
            errno => errno,
        }
    }

    /// The names of all entries of the directory `path`, including those that are not UTF-8.
    pub(in crate::kernel::vfs) fn names(&self, path: &VPath) -> io::Result<Vec<OsString>> {
        self.entries(path)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
    }

    /// Creates `to` as a further name of the file `from`.
    pub(in crate::kernel::vfs) fn hard_link(&self, from: &VPath, to: &VPath) -> io::Result<()> {
        let ((from_dir, from), (to_dir, to)) = (self.place(from)?, self.place(to)?);
        from_dir.hard_link(from, &to_dir, to)
    }

    /// Removes a file or symbolic link.
    pub(in crate::kernel::vfs) fn remove_file(&self, path: &VPath) -> io::Result<()> {
        let (dir, name) = self.place(path)?;
        patience::repeat(|| dir.remove_file(name))
    }

    /// Removes an empty directory.
    pub(in crate::kernel::vfs) fn remove_dir(&self, path: &VPath) -> io::Result<()> {
        let (dir, name) = self.place(path)?;
        patience::repeat(|| dir.remove_dir(name))
    }

    pub(in crate::kernel::vfs) fn create_dir(
        &self,
        path: &VPath,
        access: Access,
    ) -> io::Result<()> {
        #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        cap_std::fs::DirBuilderExt::mode(&mut builder, access.dir_mode());
        #[cfg(not(unix))]
        let _ = access;
        let (dir, name) = self.place(path)?;
        dir.create_dir_with(name, &builder)
    }

    fn remove_temporaries(&self, dir: &VPath, list: &mut Vec<(DirEntry, u64)>) {
        let Some(hidden) = self.hidden.get() else { return };
        if !list.iter().any(|(entry, _)| may_be_temporary(&entry.name)) {
            return;
        }
        let hidden = hidden();
        list.retain(|(entry, _)| {
            // The list may be older than `hidden`: a temporary whose journal has ended since is gone.
            !may_be_temporary(&entry.name)
                || !hidden.contains(&*entry.name)
                    && native(&dir.join(&entry.name))
                        .is_ok_and(|path| self.dir.symlink_metadata(path).is_ok())
        });
    }
}

impl Layer for HostDir {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno> {
        self.examine(path).map(|examined| examined.stat)
    }

    fn list(&self, path: &VPath) -> Result<Vec<DirEntry>, Errno> {
        let list = self.list_with_inodes(path)?;
        Ok(list.into_iter().map(|(entry, _)| entry).collect())
    }

    fn read_link(&self, path: &VPath) -> Result<Box<[u8]>, Errno> {
        self.expect_exact(path).map_err(errno)?;
        let target = self.at(path, |dir, name| dir.read_link_contents(name)).map_err(errno)?;
        Ok(link_text(target))
    }

    fn open(&self, path: &VPath) -> Result<Blob, Errno> {
        self.expect_exact(path).map_err(errno)?;
        // A pipe can have taken the file's place since it was examined.
        let file = self.open_to_read(path).map_err(|error| self.not_opened(path, error))?;
        blob(file)
    }
}

/// The regular file `file`, which is open for reading.
pub(super) fn blob(file: File) -> Result<Blob, Errno> {
    let stat = examined_open(&file).map_err(errno)?.stat;
    match stat.file_type {
        FileType::RegularFile => Ok(Blob::Host(HostFile { file, stamp: Some(stat.stamp) })),
        FileType::Directory => Err(Errno::Isdir),
        _ => Err(Errno::Acces),
    }
}

/// Opens the entry `name` of `dir` for reading, as [`HostDir::open_to_read`] does.
pub(super) fn open_unfollowed(dir: &Dir, name: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(not(unix))]
    options.follow(FollowSymlinks::No);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
        cap_std::fs::OpenOptionsExt::custom_flags(&mut options, flags);
    }
    dir.open_with(name, &options).map(cap_std::fs::File::into_std)
}

impl From<File> for HostFile {
    /// A file that does not change.
    fn from(file: File) -> Self {
        Self { file, stamp: None }
    }
}

impl HostFile {
    /// [`Stat::stamp`] when it was opened, if the file may change while it is read.
    pub fn stamp(&self) -> Option<u64> {
        self.stamp
    }

    /// What tells it from another state of it; `None` on systems where that cannot be told.
    #[cfg(feature = "remote")]
    pub fn state(&self) -> Option<FileState> {
        FileState::of(&self.file)
    }

    /// Reads at `offset` until `buf` is full or the file ends; returns the count.
    ///
    /// # Errors
    /// `EIO` if the file changed since it was opened, as `buf` could mix two states; those of the host.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let filled = self.read_unchecked(buf, offset)?;
        if let Some(stamp) = self.stamp
            && examined_open(&self.file).map_err(errno)?.stat.stamp != stamp
        {
            return Err(Errno::Io);
        }
        Ok(filled)
    }

    fn read_unchecked(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let mut filled = 0;
        while filled < buf.len() {
            match read_some_at(&self.file, &mut buf[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(errno(error)),
            }
        }
        Ok(filled)
    }
}

impl Read for HostFile {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read(buf)
    }
}

#[cfg(unix)]
fn read_some_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buf, offset)
}

#[cfg(windows)]
fn read_some_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buf, offset)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(in crate::kernel::vfs) fn errno(error: io::Error) -> Errno {
    #[cfg(unix)]
    if let Some(code) = error.raw_os_error() {
        use rustix::io::Errno as Host;
        match Host::from_raw_os_error(code) {
            Host::LOOP => return Errno::Loop,
            Host::NAMETOOLONG => return Errno::Nametoolong,
            Host::MFILE | Host::NFILE => return Errno::Mfile,
            Host::PERM => return Errno::Perm,
            _ => {}
        }
    }
    match error.kind() {
        // Windows has no such file.
        io::ErrorKind::InvalidFilename if cfg!(windows) => Errno::Noent,
        _ => Errno::from_io(&error),
    }
}

/// Opens anything, without access to its content.
#[cfg(windows)]
fn unfollowed(access: u32) -> OpenOptions {
    use cap_std::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    // For directories, and for links.
    let flags = file_system::FILE_FLAG_BACKUP_SEMANTICS | file_system::FILE_FLAG_OPEN_REPARSE_POINT;
    options.access_mode(access).custom_flags(flags);
    options.follow(FollowSymlinks::No);
    options
}

fn inode_of(entry: &HostEntry) -> u64 {
    #[cfg(unix)]
    return std::os::unix::fs::DirEntryExt::ino(entry);
    #[cfg(not(unix))]
    {
        let _ = entry;
        0
    }
}
