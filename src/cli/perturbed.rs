//! Copies of a tree that differ from it in what no result may depend on: times and the order of entries.
#![allow(
    clippy::disallowed_methods,
    reason = "a copy is made of files by path, for `verify` alone"
)]

use std::fs::{File, FileTimes};
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::base::digest::DigestHasher;
use crate::base::disk::{self, DiskError};

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
pub fn copy_tree(
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
    disk::create_private_dir_all(to)?;
    let mut entries = disk::list(from)?;
    in_order(&mut entries, number);
    for entry in entries {
        let Some(name) = entry.file_name() else { continue };
        let copy = to.join(name);
        let path = format!("{below}{}", name.to_string_lossy());
        let kept = keep(&path);
        if kept == Copied::Nothing {
            continue;
        }
        let metadata = disk::symlink_metadata(&entry)?;
        if metadata.is_dir() {
            copy_dir(&entry, &copy, &(path + "/"), number, keep)?;
        } else if metadata.is_symlink() {
            let target = disk::read_link(&entry)?;
            symlink(&target, &copy)?;
        } else if !metadata.is_file() {
            make_special(&copy)?;
        } else {
            if kept == Copied::Content {
                std::fs::copy(&entry, &copy).map_err(DiskError::new("copy", &entry))?;
            } else {
                let file = disk::create(&copy)?;
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
    if let (Ok(metadata), Ok(dir)) = (disk::symlink_metadata(from), disk::open_to_set_times(to)) {
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
