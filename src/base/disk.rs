//! The host's files by path, for belljar's own needs (modules, caches, reports).
//!
//! Guests never come here: their files go through the kernel and its capability-based host layer.
//! Every error carries the operation and the path.
#![allow(clippy::disallowed_methods, reason = "this file is the door to the host's files by path")]

use std::fs::{File, FileTimes, Metadata};
use std::hash::Hasher;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::digest::DigestHasher;

/// A host file operation that failed.
#[derive(thiserror::Error)]
#[error("cannot {operation} {}", path.display())]
pub struct DiskError {
    /// What was tried, as a verb: `read`, `create folder`.
    pub operation: &'static str,
    /// The path as the caller gave it.
    pub path: PathBuf,
    /// What the host answered.
    pub source: io::Error,
}

crate::base::readable::readable!(DiskError);

impl DiskError {
    /// Wraps `source` for `map_err`.
    pub fn new(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { operation, path: path.to_owned(), source }
    }
}

/// The whole content of a file.
pub fn read(path: &Path) -> Result<Vec<u8>, DiskError> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes).map_err(DiskError::new("read", path))?;
    Ok(bytes)
}

/// What the symbolic link at `path` leads to.
pub fn read_link(path: &Path) -> Result<PathBuf, DiskError> {
    std::fs::read_link(path).map_err(DiskError::new("read link", path))
}

/// The content of a file; `None` if it has more than `bytes_max` bytes, whatever it says that it has.
pub fn read_at_most(path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, DiskError> {
    let mut bytes = Vec::new();
    let read = open(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(DiskError::new("read", path))?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= bytes_max))
}

/// A file opened for reading. What is no regular file is refused, and never waited for: a pipe may have
/// nobody who writes to it, and a device no end.
pub fn open(path: &Path) -> Result<File, DiskError> {
    let mut options = File::options();
    options.read(true);
    expect_file(open_without_waiting(&mut options, path), path)
}

/// What `path` names opened for reading, whatever it is: opening a pipe waits for somebody who writes.
pub fn open_stream(path: &Path) -> Result<File, DiskError> {
    File::open(path).map_err(DiskError::new("open", path))
}

/// A file created, or emptied, for writing; or a device or a pipe that somebody reads, as it is. It is
/// never waited for.
pub fn create(path: &Path) -> Result<File, DiskError> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    open_to_write(&mut options, path)
}

/// What is at `path`, whatever it is, to be written to at its end. It is never waited for.
pub fn append(path: &Path) -> Result<File, DiskError> {
    let mut options = File::options();
    options.append(true);
    open_to_write(&mut options, path)
}

fn open_to_write(options: &mut std::fs::OpenOptions, path: &Path) -> Result<File, DiskError> {
    open_without_waiting(options, path).map_err(|error| {
        let error = match std::fs::metadata(path) {
            // `ENXIO`
            #[cfg(unix)]
            Ok(metadata)
                if std::os::unix::fs::FileTypeExt::is_fifo(&metadata.file_type())
                    && error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) =>
            {
                io::Error::other("nobody reads the pipe")
            }
            _ => error,
        };
        DiskError::new("create", path)(error)
    })
}

/// Opens `path` without waiting for whoever has the other end of a pipe; what was opened then waits as
/// ever.
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
        return Err(fail(io::Error::other("it is a pipe or a device, and no file")));
    }
    Ok(file)
}

/// A new file for writing that nobody else can read, where nothing is: no link is followed.
pub fn create_new_private(path: &Path) -> Result<File, DiskError> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(DiskError::new("create", path))
}

/// A file to lock, made if it is not there. Nobody else can open one that is new. A link in its place
/// is not followed.
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

/// Whether `file` is what stands at `path`, as far as the system can tell.
pub fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let (Ok(file), Ok(there)) = (file.metadata(), std::fs::symlink_metadata(path)) else {
            return false;
        };
        (file.dev(), file.ino()) == (there.dev(), there.ino())
    }
    #[cfg(not(unix))]
    {
        // An open file can be neither renamed nor removed there.
        let _ = file;
        path.exists()
    }
}

/// A file opened for reading from its start and writing at its end.
pub fn open_append(path: &Path) -> Result<File, DiskError> {
    let mut options = File::options();
    options.read(true).append(true);
    expect_file(open_without_waiting(&mut options, path), path)
}

/// Expects a file at `path`, or nothing: what else is there, a device say, must not give way to a file.
pub fn expect_replaceable(path: &Path) -> Result<(), DiskError> {
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            let why = "it is no file; name another path";
            Err(DiskError::new("replace", path)(io::Error::other(why)))
        }
        _ => Ok(()),
    }
}

/// Gives `from` the name `to`, whatever stood there.
pub fn rename(from: &Path, to: &Path) -> Result<(), DiskError> {
    std::fs::rename(from, to).map_err(DiskError::new("rename", from))
}

/// Metadata of what `path` names, links followed.
pub fn metadata(path: &Path) -> Result<Metadata, DiskError> {
    std::fs::metadata(path).map_err(DiskError::new("examine", path))
}

/// Metadata of `path` itself: a symbolic link is not followed.
pub fn symlink_metadata(path: &Path) -> Result<Metadata, DiskError> {
    std::fs::symlink_metadata(path).map_err(DiskError::new("examine", path))
}

/// Whether `path` names a file that somebody may execute, as far as the system tells that.
pub fn is_executable(path: &Path) -> bool {
    let Ok(metadata) = std::fs::metadata(path) else { return false };
    #[cfg(unix)]
    let may_execute = std::os::unix::fs::MetadataExt::mode(&metadata) & 0o111 != 0;
    #[cfg(not(unix))]
    let may_execute = true;
    metadata.is_file() && may_execute
}

/// The names in a folder, sorted.
pub fn list(path: &Path) -> Result<Vec<PathBuf>, DiskError> {
    let entries = std::fs::read_dir(path).map_err(DiskError::new("list", path))?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()
        .map_err(DiskError::new("list", path))?;
    paths.sort();
    Ok(paths)
}

/// Removes a file. A file that is not there is no error.
pub fn remove_file(path: &Path) -> Result<(), DiskError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(DiskError::new("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// What to copy of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copied {
    /// Nothing.
    Nothing,
    /// That it is there: a file of its length, a folder with what is kept of its entries, a link.
    Shape,
    /// All of it.
    Content,
}

/// Copies the folder `from` to `to`, which is made. `keep` is asked what to copy of each entry, by
/// its path below `from`, with slashes. What is copied is the same as there but for its time; that,
/// and the order in which entries are made, depend on `number`, from 1; many file systems list them in
/// it. In place of a pipe or a device stands a socket.
pub fn copy_tree_perturbed(
    from: &Path,
    to: &Path,
    number: u64,
    keep: &dyn Fn(&str) -> Copied,
) -> Result<(), DiskError> {
    copy_dir(from, to, "", number, keep)
}

fn copy_dir(
    from: &Path,
    to: &Path,
    below: &str,
    number: u64,
    keep: &dyn Fn(&str) -> Copied,
) -> Result<(), DiskError> {
    create_private_dir_all(to)?;
    let mut entries = list(from)?;
    in_order(&mut entries, number);
    for entry in entries {
        let Some(name) = entry.file_name() else { continue };
        let copy = to.join(name);
        let path = format!("{below}{}", name.to_string_lossy());
        let kept = keep(&path);
        if kept == Copied::Nothing {
            continue;
        }
        let metadata = symlink_metadata(&entry)?;
        if metadata.is_dir() {
            copy_dir(&entry, &copy, &(path + "/"), number, keep)?;
        } else if metadata.is_symlink() {
            let target = std::fs::read_link(&entry).map_err(DiskError::new("read link", &entry))?;
            symlink(&target, &copy)?;
        } else if !metadata.is_file() {
            make_special(&copy)?;
        } else {
            if kept == Copied::Content {
                std::fs::copy(&entry, &copy).map_err(DiskError::new("copy", &entry))?;
            } else {
                let file = create(&copy)?;
                file.set_len(metadata.len()).map_err(DiskError::new("set length of", &copy))?;
                let access = file.set_permissions(metadata.permissions());
                access.map_err(DiskError::new("set permissions of", &copy))?;
            }
            let times = FileTimes::new().set_modified(perturbed(&metadata, &path, number));
            // A read-only copy keeps the time at which it was made, which is another one as well.
            if let Ok(file) = File::options().write(true).open(&copy) {
                file.set_times(times).map_err(DiskError::new("set times of", &copy))?;
            }
        }
    }
    // Where a folder cannot be opened, it keeps the time at which it was made, which is another one as well.
    if let (Ok(metadata), Ok(dir)) = (symlink_metadata(from), File::open(to)) {
        let _ = dir.set_times(FileTimes::new().set_modified(perturbed(&metadata, below, number)));
    }
    Ok(())
}

/// Another time for the copy `number` of the file `path` with the attributes `metadata`: in the first copy
/// files that are later than others are earlier, in further ones chance has it.
fn perturbed(metadata: &std::fs::Metadata, path: &str, number: u64) -> SystemTime {
    if number % 2 == 1 {
        let modified = metadata.modified().ok();
        let since = modified.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let earlier = PERTURBED_END.saturating_sub(since.unwrap_or_default());
        return SystemTime::UNIX_EPOCH + earlier + Duration::from_secs(number);
    }
    let mut hasher = DigestHasher::default();
    hasher.write_u64(number);
    hasher.write(path.as_bytes());
    SystemTime::UNIX_EPOCH + Duration::from_secs(hasher.finish() % PERTURBED_END.as_secs())
}

/// 2036-12-31T23:00:00Z, since 1970: before machines' clocks start. A program that writes to a file with a later time
/// moves its clock for that alone.
const PERTURBED_END: Duration = Duration::from_hours(587_327);

/// Puts sorted entries into another order for each of as many numbers as there are entries; 1
/// reverses them.
fn in_order(entries: &mut [PathBuf], number: u64) {
    if let Some(by) = number.wrapping_sub(1).checked_rem(entries.len() as u64) {
        entries.rotate_left(by as usize);
        entries.reverse();
    }
}

/// Stands for a pipe, a socket or a device: something that is no file, and that nobody opens.
#[cfg(unix)]
fn make_special(path: &Path) -> Result<(), DiskError> {
    std::os::unix::net::UnixListener::bind(path).map_err(DiskError::new("create", path))?;
    Ok(())
}

/// There is nothing of the kind.
#[cfg(windows)]
fn make_special(_path: &Path) -> Result<(), DiskError> {
    Ok(())
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> Result<(), DiskError> {
    std::os::unix::fs::symlink(target, link).map_err(DiskError::new("create link", link))
}

/// Whether a link leads to a file or a folder is part of it there.
#[cfg(windows)]
fn symlink(target: &Path, link: &Path) -> Result<(), DiskError> {
    use std::os::windows::fs::{symlink_dir, symlink_file};

    let place = link.parent().unwrap_or(Path::new(".")).join(target);
    let made = if place.is_dir() { symlink_dir(target, link) } else { symlink_file(target, link) };
    made.map_err(DiskError::new("create link", link))
}

/// Removes a folder and all that is in it. Links are removed, and not followed.
pub fn remove_dir_all(path: &Path) -> Result<(), DiskError> {
    std::fs::remove_dir_all(path).map_err(DiskError::new("remove", path))
}

/// Removes a folder that is empty.
pub fn remove_empty_dir(path: &Path) -> Result<(), DiskError> {
    std::fs::remove_dir(path).map_err(DiskError::new("remove", path))
}

/// Creates a folder and its parents; on Unix, new ones can be entered by this user alone.
pub fn create_private_dir_all(path: &Path) -> Result<(), DiskError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(DiskError::new("create folder", path))
}

/// The absolute path of `path` without links, `.` and `..`. What does not exist at its end stays as
/// it is.
pub fn canonical(path: &Path) -> Result<PathBuf, DiskError> {
    match std::fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match (path.parent(), path.file_name()) {
                (Some(parent), Some(name)) => {
                    let parent =
                        if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
                    Ok(canonical(parent)?.join(name))
                }
                _ => Err(DiskError::new("find", path)(error)),
            }
        }
        found => found.map_err(DiskError::new("find", path)),
    }
}

/// The process's current folder.
pub fn current_dir() -> Result<PathBuf, DiskError> {
    std::env::current_dir().map_err(DiskError::new("find", Path::new(".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_made_in_as_many_orders_as_there_are_entries() {
        let sorted = ["a", "b", "c"].map(PathBuf::from);
        let orders: std::collections::HashSet<Vec<PathBuf>> = (1..=3)
            .map(|number| {
                let mut entries = sorted.to_vec();
                in_order(&mut entries, number);
                assert_ne!(entries, sorted);
                entries
            })
            .collect();
        assert_eq!(orders.len(), 3);
        in_order(&mut [], 1);
    }
}
