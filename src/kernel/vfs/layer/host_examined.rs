//! What detects a change of a file or directory of the host.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::time::SystemTime;

#[cfg(not(unix))]
use cap_fs_ext::MetadataExt;
#[cfg(unix)]
use cap_std::fs::MetadataExt;
use cap_std::fs::{FileType as HostType, Metadata};

use super::{FileType, Stat};

/// The entry at a path, with what detects a change of it.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernel::vfs) struct Examined {
    pub stat: Stat,
    /// Last change of anything, on the clock of the disk: nanoseconds since the Unix epoch.
    pub changed_ns: u64,
}

pub(super) fn type_of(file_type: HostType) -> FileType {
    if file_type.is_file() {
        FileType::RegularFile
    } else if file_type.is_dir() {
        FileType::Directory
    } else if file_type.is_symlink() {
        FileType::SymbolicLink
    } else {
        FileType::Unknown
    }
}

/// The open file or directory `file`.
///
/// # Errors
/// Those of the host.
pub(super) fn examined_open(file: &File) -> io::Result<Examined> {
    let metadata = Metadata::from_file(file)?;
    #[cfg(unix)]
    return Ok(examined(&metadata));
    #[cfg(windows)]
    {
        use crate::base::change_time;
        const NANOS_PER_TICK: u64 = 100;
        let changed_ns = change_time::of(file)?.saturating_mul(NANOS_PER_TICK);
        Ok(of(&metadata, false, changed_ns, |stamp| stamp.write_u64(changed_ns)))
    }
    #[cfg(not(any(unix, windows)))]
    Ok(of(&metadata, false, since_epoch_ns(metadata.modified()), |_| {}))
}

/// The file or directory with these attributes.
#[cfg(unix)]
pub(super) fn examined(metadata: &Metadata) -> Examined {
    let seconds = u64::try_from(metadata.ctime()).unwrap_or(0);
    let nanos = u64::try_from(metadata.ctime_nsec()).unwrap_or(0);
    let changed_ns = seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
    of(metadata, metadata.mode() & 0o100 != 0, changed_ns, |stamp| {
        stamp.write_i64(metadata.ctime());
        stamp.write_i64(metadata.ctime_nsec());
    })
}

fn of(
    metadata: &Metadata,
    executable: bool,
    changed_ns: u64,
    write_changed: impl Fn(&mut DefaultHasher),
) -> Examined {
    let file_type = type_of(metadata.file_type());
    let mtime_ns = since_epoch_ns(metadata.modified());
    let size = if file_type == FileType::RegularFile { metadata.len() } else { 0 };
    let (inode, nlink) = (metadata.ino(), metadata.nlink());
    let mut stamp = DefaultHasher::new();
    stamp.write_u8(file_type as u8);
    stamp.write_u64(size);
    // A directory's own times and inode would change with its entries.
    if file_type != FileType::Directory {
        stamp.write_u64(mtime_ns);
        stamp.write_u64(inode);
        write_changed(&mut stamp);
    }
    let stat = Stat { file_type, size, mtime_ns, executable, stamp: stamp.finish(), inode, nlink };
    Examined { stat, changed_ns }
}

fn since_epoch_ns(time: io::Result<cap_std::time::SystemTime>) -> u64 {
    time.ok()
        .and_then(|time| time.into_std().duration_since(SystemTime::UNIX_EPOCH).ok())
        .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
