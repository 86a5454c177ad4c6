//! The state of a whole directory of the host at one time, to tell what a native program changed in it.
//!
//! A content is read once: later scans read it again only if the file's stamp (type, length, modification time, change
//! time, inode) differs, or if it changed so shortly before it was read that the disk's clock could not show another
//! change.

use std::collections::BTreeMap;
use std::time::Duration;

use super::host_dir::HostDir;
use super::host_examined::Examined;
use super::{FileType, Layer};
use crate::base::ambient;
use crate::base::digest::Digest;
use crate::base::errno::Errno;
use crate::kernel::vfs::path::VPath;

/// The coarsest clock of a disk: FAT's.
const COARSEST: Duration = Duration::from_secs(2);

/// Lag of a clock that is not known to be coarser: one tick of the system's timer.
const TURN: Duration = Duration::from_millis(16);

/// Attempts to read a file that changes meanwhile.
const LOOKS_MAX: usize = 4;

/// What is at a path, as far as its content tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EntryState {
    /// A regular file.
    File {
        /// The digest of its content.
        digest: Digest,
        /// Its length in bytes.
        len_bytes: u64,
        /// Its owner may execute it.
        executable: bool,
    },
    /// A directory.
    Dir,
    /// A symbolic link.
    Link {
        /// Its text.
        target: Box<[u8]>,
    },
    /// A pipe, socket or device, or a file that may not be read.
    Other,
}

/// A difference between two scans.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateChange {
    /// The path, relative to the scanned directory.
    pub path: VPath,
    /// What was there; `None` for nothing.
    pub before: Option<EntryState>,
    /// What is there; `None` for nothing.
    pub after: Option<EntryState>,
}

/// Why a directory cannot be scanned.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// It has more entries than the caller allows.
    #[error("the directory has more than {limit} entries")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The host refuses to show an entry.
    #[error("cannot read {path}: {errno}")]
    Unreadable {
        /// The path, relative to the scanned directory.
        path: VPath,
        /// Why.
        errno: Errno,
    },
}

crate::base::readable::readable!(ScanError);

/// Contents that were read, by path.
#[derive(Clone, Default, Debug)]
pub struct KnownDigests {
    known: BTreeMap<VPath, Known>,
}

#[derive(Clone, Debug)]
struct Known {
    digest: Digest,
    stamp: u64,
}

/// A directory of the host at one time: every entry beneath it whose name is UTF-8.
#[derive(Clone, Default, Debug)]
pub struct FolderScan {
    entries: BTreeMap<VPath, EntryState>,
    digests: KnownDigests,
}

impl FolderScan {
    /// What was at `path`.
    pub fn get(&self, path: &VPath) -> Option<&EntryState> {
        self.entries.get(path)
    }

    /// As [`FolderScan::get`], with the path.
    pub fn get_entry(&self, path: &VPath) -> Option<(&VPath, &EntryState)> {
        self.entries.get_key_value(path)
    }

    /// Takes `state` for what was at `path`.
    pub fn set(&mut self, path: &VPath, state: Option<EntryState>) {
        match state {
            Some(state) => drop(self.entries.insert(path.clone(), state)),
            None => drop(self.entries.remove(path)),
        }
    }

    /// What was in the directory `path` and below, sorted by path.
    pub fn beneath(&self, path: VPath) -> impl Iterator<Item = (&VPath, &EntryState)> {
        let prefix = if path.is_root() { String::new() } else { format!("{path}/") };
        let start = prefix.clone();
        // All names beneath the directory begin with its path and a slash, and so are together.
        let from =
            self.entries.range(path..).skip_while(move |(at, _)| !at.as_str().starts_with(&start));
        from.take_while(move |(at, _)| at.as_str().starts_with(&prefix))
    }

    /// What differs from `earlier`, sorted by path.
    pub fn changes_since(&self, earlier: &Self) -> Vec<StateChange> {
        let mut changes = Vec::new();
        for (path, before) in &earlier.entries {
            let after = self.entries.get(path);
            if after != Some(before) {
                let (before, after) = (Some(before.clone()), after.cloned());
                changes.push(StateChange { path: path.clone(), before, after });
            }
        }
        let added = self.entries.iter().filter(|(path, _)| !earlier.entries.contains_key(*path));
        changes.extend(added.map(|(path, after)| StateChange {
            path: path.clone(),
            before: None,
            after: Some(after.clone()),
        }));
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        changes
    }
}

impl HostDir {
    /// Scans this directory without following symbolic links. Paths for which `skips` is true are left out, with all
    /// beneath them, and so are names that are not UTF-8. What `earlier` knows is not read again.
    ///
    /// A file that is being written keeps the state that it has in `earlier`, or is left out.
    ///
    /// # Errors
    /// [`ScanError`]: there are more than `entries_max` entries, or the host refuses to list a directory.
    pub fn scan(
        &self,
        earlier: &FolderScan,
        skips: &dyn Fn(&VPath) -> bool,
        entries_max: usize,
    ) -> Result<FolderScan, ScanError> {
        let clock_ns = self.settled_before_ns();
        let mut scan = FolderScan::default();
        let mut dirs = vec![VPath::root()];
        while let Some(dir) = dirs.pop() {
            let unreadable = |errno| ScanError::Unreadable { path: dir.clone(), errno };
            let held = match self.hold(&dir) {
                Ok(held) => held,
                Err(Errno::Noent | Errno::Notdir) if !dir.is_root() => continue,
                Err(errno) => return Err(unreadable(errno)),
            };
            for (entry, _) in held.list().map_err(unreadable)? {
                let path = dir.join(&entry.name);
                if skips(&path) {
                    continue;
                }
                let found = match held.examine(&entry.name) {
                    Ok(found) => found,
                    Err(Errno::Noent | Errno::Notdir) => continue,
                    Err(errno) => return Err(ScanError::Unreadable { path, errno }),
                };
                let state = match found.stat.file_type {
                    FileType::Directory => {
                        dirs.push(path.clone());
                        Some(EntryState::Dir)
                    }
                    FileType::RegularFile => {
                        scan.digests.copy_of(&path, &earlier.digests);
                        match self.file_state(&path, found, &mut scan.digests, clock_ns) {
                            Err(Errno::Io | Errno::Busy) => earlier.get(&path).cloned(),
                            state => state.map_err(|errno| ScanError::Unreadable {
                                path: path.clone(),
                                errno,
                            })?,
                        }
                    }
                    FileType::SymbolicLink => match self.read_link(&path) {
                        Ok(target) => Some(EntryState::Link { target }),
                        Err(Errno::Noent | Errno::Inval | Errno::Notdir) => None,
                        Err(errno) => return Err(ScanError::Unreadable { path, errno }),
                    },
                    _ => Some(EntryState::Other),
                };
                if let Some(state) = state {
                    scan.entries.insert(path, state);
                }
                if scan.entries.len() > entries_max {
                    return Err(ScanError::TooMany { limit: entries_max });
                }
            }
        }
        Ok(scan)
    }

    /// What is at `path` now; no symbolic link is followed, and a path through one is not there. `known` saves reading a
    /// content again.
    ///
    /// # Errors
    /// Those of the host; `EIO` if a file changes whenever it is read.
    pub fn entry_state(
        &self,
        path: &VPath,
        known: &mut KnownDigests,
    ) -> Result<Option<EntryState>, Errno> {
        let found = match self.examine(path) {
            Ok(found) => found,
            Err(Errno::Noent | Errno::Notdir | Errno::Loop) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        match found.stat.file_type {
            FileType::Directory => Ok(Some(EntryState::Dir)),
            FileType::RegularFile => self.file_state(path, found, known, self.settled_before_ns()),
            FileType::SymbolicLink => {
                self.read_link(path).map(|target| Some(EntryState::Link { target }))
            }
            _ => Ok(Some(EntryState::Other)),
        }
    }

    /// What changed before this time, and is read now, has a later change time if it changes again.
    fn settled_before_ns(&self) -> u64 {
        self.disk_clock_ns().unwrap_or_else(ambient::wall_now_ns)
    }

    /// The state of the regular file `found` at `path`; `None` if it is gone.
    fn file_state(
        &self,
        path: &VPath,
        found: Examined,
        known: &mut KnownDigests,
        settled_before_ns: u64,
    ) -> Result<Option<EntryState>, Errno> {
        let mut found = found;
        for _ in 0..LOOKS_MAX {
            let stat = found.stat;
            if stat.file_type != FileType::RegularFile {
                return Err(Errno::Io);
            }
            let state = |digest| EntryState::File {
                digest,
                len_bytes: stat.size,
                executable: stat.executable,
            };
            if let Some(known) = known.known.get(path).filter(|it| it.stamp == stat.stamp) {
                return Ok(Some(state(known.digest)));
            }
            let blob = match self.open(path) {
                Ok(blob) => blob,
                Err(Errno::Noent | Errno::Notdir) => return Ok(None),
                Err(Errno::Acces | Errno::Perm) => return Ok(Some(EntryState::Other)),
                Err(errno) => return Err(errno),
            };
            if blob.stamp() == Some(stat.stamp)
                && let Ok(digest) = blob.digest()
            {
                known.known.remove(path);
                if is_settled(found.changed_ns, settled_before_ns) {
                    known.known.insert(path.clone(), Known { digest, stamp: stat.stamp });
                }
                return Ok(Some(state(digest)));
            }
            found = match self.examine(path) {
                Ok(found) => found,
                Err(Errno::Noent | Errno::Notdir) => return Ok(None),
                Err(errno) => return Err(errno),
            };
        }
        Err(Errno::Io)
    }
}

impl KnownDigests {
    fn copy_of(&mut self, path: &VPath, earlier: &Self) {
        if let Some(known) = earlier.known.get(path) {
            self.known.insert(path.clone(), known.clone());
        }
    }
}

fn is_settled(changed_ns: u64, settled_before_ns: u64) -> bool {
    let lag = if changed_ns.is_multiple_of(1_000_000_000) { COARSEST } else { TURN };
    let lag_ns = u64::try_from(lag.as_nanos()).unwrap_or(u64::MAX);
    changed_ns.saturating_add(lag_ns) < settled_before_ns
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "the tests change the disk from outside")]

    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    fn scan(host: &HostDir, earlier: &FolderScan) -> FolderScan {
        host.scan(earlier, &|_| false, 100).expect("it has few entries")
    }

    fn changed(now: &FolderScan, earlier: &FolderScan) -> Vec<String> {
        now.changes_since(earlier).iter().map(|change| change.path.as_str().to_owned()).collect()
    }

    /// With the disk's clock in ticks of milliseconds, most of these changes leave all times as they were.
    #[test]
    fn content_that_changes_at_once_and_keeps_its_length_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let host = HostDir::open(folder.path()).unwrap();
        let mut earlier = FolderScan::default();
        for round in 0..200_u8 {
            fs::write(folder.path().join("a"), [round]).unwrap();
            let now = scan(&host, &earlier);
            assert_eq!(changed(&now, &earlier), ["a"], "round {round}");
            earlier = now;
        }
    }

    #[test]
    fn file_is_read_again_only_if_it_changed_though_its_times_are_set_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "one").unwrap();
        let host = HostDir::open(folder.path()).unwrap();
        std::thread::sleep(TURN * 4);
        let first = scan(&host, &FolderScan::default());
        let root = VPath::root();
        assert!(first.digests.known.contains_key(&root.join("a")), "its state is settled");
        // What is known is not read: this digest is of no file.
        let mut forged = first.clone();
        let digest = Digest::of(b"forged");
        forged.digests.known.get_mut(&root.join("a")).unwrap().digest = digest;
        let second = scan(&host, &forged);
        assert!(
            matches!(second.get(&root.join("a")), Some(EntryState::File { digest: it, .. }) if *it == digest)
        );
        let modified = path.metadata().unwrap().modified().unwrap();
        fs::write(&path, "two").unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        assert_eq!(changed(&scan(&host, &first), &first), ["a"]);
    }

    #[test]
    fn links_are_not_followed_and_entries_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "hunter2").unwrap();
        symlink(&outside, root.join("link")).unwrap();
        symlink(Path::new("a"), root.join("a/loop")).unwrap();
        fs::write(root.join("a-b"), "").unwrap();
        let host = HostDir::open(&root).unwrap();
        let found = scan(&host, &FolderScan::default());
        let paths: Vec<_> = found.beneath(VPath::root()).map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["a", "a-b", "a/b", "a/loop", "link"]);
        let below: Vec<_> = found.beneath(VPath::root().join("a")).map(|(path, _)| path).collect();
        assert_eq!(below.len(), 2, "a-b sorts between a and what is in it");
        let few = host.scan(&FolderScan::default(), &|_| false, 4).unwrap_err();
        assert_eq!(few, ScanError::TooMany { limit: 4 });
        let secret = VPath::parse("link/secret").unwrap();
        assert_eq!(host.entry_state(&secret, &mut KnownDigests::default()), Ok(None));
    }
}
