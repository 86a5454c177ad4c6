//! The host's files by path, for belljar's own use (modules, caches, reports). Files of guests go through
//! the kernel and its layers. Each error has the operation and the path.
#![allow(clippy::disallowed_methods, reason = "this file is the door to the host's files by path")]

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

#[cfg(windows)]
use windows_sys::Win32::Storage::FileSystem as file_system;

use super::patience;

/// A failed operation on a file of the host.
#[derive(thiserror::Error)]
#[error("cannot {operation} {}", path.display())]
pub struct DiskError {
    /// The operation, as a verb: `read`, `create directory`.
    pub operation: &'static str,
    /// The path, as given.
    pub path: PathBuf,
    /// The error of the host.
    pub source: io::Error,
}

crate::base::readable::readable!(DiskError);

impl DiskError {
    /// Returns a function that wraps an [`io::Error`], for `map_err`.
    pub fn new(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { operation, path: path.to_owned(), source }
    }
}

/// Reads a whole file.
pub fn read(path: &Path) -> Result<Vec<u8>, DiskError> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes).map_err(DiskError::new("read", path))?;
    Ok(bytes)
}

/// Reads the target of a symbolic link.
pub fn read_link(path: &Path) -> Result<PathBuf, DiskError> {
    std::fs::read_link(path).map_err(DiskError::new("read link", path))
}

/// Reads a file; `None` if it turns out to have more than `bytes_max` bytes.
pub fn read_at_most(path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, DiskError> {
    let mut bytes = Vec::new();
    let read = open(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(DiskError::new("read", path))?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= bytes_max))
}

/// Opens a regular file for reading. Other files are refused without waiting: a pipe may have no
/// writer, and a device no end.
pub fn open(path: &Path) -> Result<File, DiskError> {
    let mut options = File::options();
    options.read(true);
    expect_file(open_without_waiting(&mut options, path), path)
}

/// Opens a file or directory to set its times.
#[cfg(feature = "cli")]
pub fn open_to_set_times(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt;
        // Directories, too.
        let flags = file_system::FILE_FLAG_BACKUP_SEMANTICS;
        options.access_mode(file_system::FILE_WRITE_ATTRIBUTES).custom_flags(flags);
    }
    #[cfg(not(windows))]
    options.read(true);
    options.open(path)
}

/// As [`open`], and its bytes may be run: Windows maps no other file as code.
pub fn open_code(path: &Path) -> Result<File, DiskError> {
    let mut options = File::options();
    options.read(true);
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt;
        options.access_mode(file_system::FILE_GENERIC_READ | file_system::FILE_GENERIC_EXECUTE);
        // Nobody writes to it meanwhile.
        options.share_mode(file_system::FILE_SHARE_READ | file_system::FILE_SHARE_DELETE);
    }
    expect_file(open_without_waiting(&mut options, path), path)
}

/// Opens any file for reading. Opening a pipe waits for a writer.
#[cfg(feature = "cli")]
pub fn open_stream(path: &Path) -> Result<File, DiskError> {
    File::open(path).map_err(DiskError::new("open", path))
}

/// Creates or truncates a file for writing; or opens a device, or a pipe that has a reader. It does not wait.
#[cfg(any(test, feature = "cli"))]
pub fn create(path: &Path) -> Result<File, DiskError> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    open_to_write(&mut options, path)
}

/// Opens any file for appending. It does not wait.
#[cfg(feature = "cli")]
pub fn append(path: &Path) -> Result<File, DiskError> {
    let mut options = File::options();
    options.append(true);
    open_to_write(&mut options, path)
}

#[cfg(any(test, feature = "cli"))]
fn open_to_write(options: &mut std::fs::OpenOptions, path: &Path) -> Result<File, DiskError> {
    open_without_waiting(options, path).map_err(|error| {
        let error = match std::fs::metadata(path) {
            // `ENXIO`
            #[cfg(unix)]
            Ok(metadata)
                if std::os::unix::fs::FileTypeExt::is_fifo(&metadata.file_type())
                    && error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) =>
            {
                io::Error::other("the pipe has no reader")
            }
            // Windows says that the access is denied.
            Ok(metadata) if metadata.is_dir() => io::ErrorKind::IsADirectory.into(),
            _ => error,
        };
        DiskError::new("create", path)(error)
    })
}

/// Opens `path` without waiting for the other end of a pipe. Reads and writes wait as usual.
fn open_without_waiting(options: &mut std::fs::OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
        use std::os::unix::fs::OpenOptionsExt;
        let file = options.custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
        let flags = fcntl_getfl(&file)?;
        fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
        Ok(file)
    }
    #[cfg(not(unix))]
    options.open(path)
}

fn expect_file(opened: io::Result<File>, path: &Path) -> Result<File, DiskError> {
    let fail = |source| DiskError::new("open", path)(source);
    let file = opened.map_err(fail)?;
    let metadata = file.metadata().map_err(fail)?;
    if metadata.is_dir() {
        return Err(fail(io::ErrorKind::IsADirectory.into()));
    }
    if !metadata.is_file() {
        return Err(fail(io::Error::other("not a regular file but a pipe or a device")));
    }
    Ok(file)
}

/// Creates a new file for writing, private to this user. Nothing may exist at `path`, not even a link.
pub fn create_new_private(path: &Path) -> Result<File, DiskError> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(DiskError::new("create", path))
}

/// As [`create_new_private`]; until the file is closed, nobody else takes it for writing, and all may read it.
pub fn create_new_exclusive(path: &Path) -> Result<File, DiskError> {
    #[cfg(not(windows))]
    {
        let file = create_new_private(path)?;
        let locked = file.try_lock().map_err(io::Error::from);
        locked.map_err(DiskError::new("take for writing", path))?;
        // Another process may have removed it as a leftover before it was locked.
        if !is_at(&file, path) {
            let error = io::Error::other("another process has replaced it");
            return Err(DiskError::new("take for writing", path)(error));
        }
        Ok(file)
    }
    #[cfg(windows)]
    {
        // A lock would keep others from reading.
        let mut options = File::options();
        options.write(true).create_new(true);
        let share = file_system::FILE_SHARE_READ;
        std::os::windows::fs::OpenOptionsExt::share_mode(&mut options, share);
        options.open(path).map_err(DiskError::new("create", path))
    }
}

/// Whether [`create_new_exclusive`] made the file at `path`, and it is still open. `file` is that file, open for reading.
pub fn is_taken(file: &File, path: &Path) -> bool {
    #[cfg(not(windows))]
    return file.try_lock().is_err() || !is_at(file, path);
    #[cfg(windows)]
    {
        const LOOKS: u32 = 10;
        let _ = file;
        // Files of a process that was killed are closed a moment later.
        (0..LOOKS).all(|look| {
            super::ambient::sleep(std::time::Duration::from_millis(u64::from(look) * 10));
            File::options().append(true).open(path).is_err()
        })
    }
}

/// Opens a lock file, and creates it, private to this user, if it does not exist. Links are not followed.
pub fn open_lock(path: &Path) -> Result<File, DiskError> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    }
    options.open(path).map_err(DiskError::new("open", path))
}

/// Returns whether `file` is the file at `path`, as far as the system can tell.
pub fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let (Ok(file), Ok(there)) = (file.metadata(), std::fs::symlink_metadata(path)) else {
            return false;
        };
        (file.dev(), file.ino()) == (there.dev(), there.ino())
    }
    #[cfg(windows)]
    {
        let opened = file.try_clone().and_then(same_file::Handle::from_file);
        let there = same_file::Handle::from_path(path);
        opened.is_ok_and(|opened| there.is_ok_and(|there| there == opened))
    }
    #[cfg(not(any(unix, windows)))]
    {
        let _ = file;
        path.exists()
    }
}

/// Whether the disk of `file`, which is empty and stays so, has room for `bytes`. True where the system does not tell.
pub fn has_room(file: &File, bytes: u64) -> bool {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FallocateFlags, fallocate};
        let full = [rustix::io::Errno::NOSPC, rustix::io::Errno::DQUOT];
        let found = fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes);
        // Other errors are of disks that cannot tell.
        !found.is_err_and(|errno| full.contains(&errno))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file, bytes);
        true
    }
}

/// Opens a file for reading from its start and appending.
#[cfg(feature = "annotations")]
pub fn open_append(path: &Path) -> Result<File, DiskError> {
    let mut options = File::options();
    options.read(true).append(true);
    expect_file(open_without_waiting(&mut options, path), path)
}

/// Checks that `path` is a regular file or does not exist: nothing else may be replaced by a file.
pub fn expect_replaceable(path: &Path) -> Result<(), DiskError> {
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            let why = "not a regular file; name another path";
            Err(DiskError::new("replace", path)(io::Error::other(why)))
        }
        _ => Ok(()),
    }
}

/// Sets the modification time of the file `path` to now.
pub fn touch(path: &Path) -> Result<(), DiskError> {
    let touched = File::options().append(true).open(path);
    let touched = touched.and_then(|file| file.set_modified(std::time::SystemTime::now()));
    touched.map_err(DiskError::new("set the time of", path))
}

/// Renames `from` to `to`, replacing it.
pub fn rename(from: &Path, to: &Path) -> Result<(), DiskError> {
    patience::repeat(|| std::fs::rename(from, to)).map_err(DiskError::new("rename", from))
}

/// Metadata of `path`, links followed.
pub fn metadata(path: &Path) -> Result<Metadata, DiskError> {
    std::fs::metadata(path).map_err(DiskError::new("examine", path))
}

/// Metadata of `path` itself, links not followed.
pub fn symlink_metadata(path: &Path) -> Result<Metadata, DiskError> {
    std::fs::symlink_metadata(path).map_err(DiskError::new("examine", path))
}

/// Returns whether `path` is an executable file, as far as the system can tell.
pub fn is_executable(path: &Path) -> bool {
    let Ok(metadata) = std::fs::metadata(path) else { return false };
    #[cfg(unix)]
    let may_execute = std::os::unix::fs::MetadataExt::mode(&metadata) & 0o111 != 0;
    #[cfg(not(unix))]
    let may_execute = true;
    metadata.is_file() && may_execute
}

/// Lets the owner of a file execute it, on systems with modes.
#[cfg(feature = "import")]
pub fn set_executable(path: &Path) -> Result<(), DiskError> {
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(path, mode).map_err(DiskError::new("change the mode of", path))?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// The paths of the entries of a directory, sorted.
pub fn list(path: &Path) -> Result<Vec<PathBuf>, DiskError> {
    let entries = std::fs::read_dir(path).map_err(DiskError::new("list", path))?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()
        .map_err(DiskError::new("list", path))?;
    paths.sort();
    Ok(paths)
}

/// The number of regular files below the directory `path`, or 1 if it is one, and their bytes. Links are not followed.
pub fn size_of(path: &Path) -> Result<(usize, u64), DiskError> {
    let (mut files, mut bytes, mut left) = (0, 0, vec![path.to_owned()]);
    while let Some(path) = left.pop() {
        let metadata = symlink_metadata(&path)?;
        if metadata.is_dir() {
            left.extend(list(&path)?);
        } else if metadata.is_file() {
            files += 1;
            bytes += metadata.len();
        }
    }
    Ok((files, bytes))
}

/// The paths of the entries of a directory, sorted; none if it does not exist.
pub fn list_if_there(path: &Path) -> Result<Vec<PathBuf>, DiskError> {
    match list(path) {
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed,
    }
}

/// The directory that `path` is in: `.` for a name alone.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Removes a file, if it exists.
pub fn remove_file(path: &Path) -> Result<(), DiskError> {
    match patience::repeat(|| std::fs::remove_file(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(DiskError::new("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Removes a directory and its contents. Links are not followed.
pub fn remove_dir_all(path: &Path) -> Result<(), DiskError> {
    std::fs::remove_dir_all(path).map_err(DiskError::new("remove", path))
}

/// Removes an empty directory.
pub fn remove_empty_dir(path: &Path) -> Result<(), DiskError> {
    std::fs::remove_dir(path).map_err(DiskError::new("remove", path))
}

/// Creates a directory and its parents, which others may read as the user's settings have it.
#[cfg(feature = "cli")]
pub fn create_dir_all(path: &Path) -> Result<(), DiskError> {
    std::fs::create_dir_all(path).map_err(DiskError::new("create directory", path))
}

/// Creates a directory and its parents, private to this user.
pub fn create_private_dir_all(path: &Path) -> Result<(), DiskError> {
    #[cfg(windows)]
    let created = create_private_dirs(path);
    #[cfg(not(windows))]
    let created = {
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(path)
    };
    created.map_err(DiskError::new("create directory", path))
}

/// Creates those of the directories `path` and above that do not exist.
#[cfg(windows)]
fn create_private_dirs(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_private_dirs(parent)?;
    }
    match super::acl::create_private_dir(path) {
        // Another process made it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        created => created,
    }
}

/// Returns `path` as an absolute path without links, `.` and `..`. A part at its end that does not exist
/// is kept.
pub fn canonical(path: &Path) -> Result<PathBuf, DiskError> {
    #[cfg(windows)]
    let found = dunce::canonicalize(path);
    #[cfg(not(windows))]
    let found = std::fs::canonicalize(path);
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match (path.parent(), path.file_name()) {
                (Some(parent), Some(name)) => {
                    let parent =
                        if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
                    let parent = canonical(parent)?;
                    // Windows does not tell a file on the way from what does not exist.
                    if cfg!(windows) && parent.is_file() {
                        let error = io::ErrorKind::NotADirectory.into();
                        return Err(DiskError::new("find", path)(error));
                    }
                    Ok(parent.join(name))
                }
                _ => Err(DiskError::new("find", path)(error)),
            }
        }
        found => found.map_err(DiskError::new("find", path)),
    }
}

/// The current directory of the host process.
#[cfg(feature = "cli")]
pub fn current_dir() -> Result<PathBuf, DiskError> {
    std::env::current_dir().map_err(DiskError::new("find", Path::new(".")))
}
