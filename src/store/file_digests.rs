//! Digests of files that were read before, so that a large file need not be read to know its digest.
//!
//! A file is taken for unchanged if its device, number, length, modification time and change time are those of when it
//! was read. Programs do not set a change time (on Windows a call for that exists), so this finds every change, as long as the clock of the disk is not set
//! back; a file that changed less than two seconds before it was read is not remembered, as it could change again within
//! the granularity of that clock. What this does not find are later writes of a program that has the file mapped into its
//! memory: the system sets its times at the first of them alone.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

#[cfg(windows)]
use crate::base::change_time;
use crate::base::digest::Digest;
use crate::base::disk::DiskError;
use crate::base::own::{OtherUsers, expect_own_folder};
use crate::base::{ambient, atomic_file, disk};

const LAYOUT: &str = "digests-1";

/// The coarsest clock of a disk: FAT's.
const COARSEST: Duration = Duration::from_secs(2);

/// Longest entry.
const ENTRY_BYTES_MAX: u64 = 4096;

/// A directory with the digests of files, which must be private to the user.
#[derive(Clone, Debug)]
pub struct FileDigests {
    root: PathBuf,
}

/// What tells a file from another state of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileState {
    device: u64,
    number: u64,
    len_bytes: u64,
    modified_ns: i128,
    changed_ns: i128,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    state: FileState,
    digest: Digest,
}

impl FileDigests {
    /// The digests in the directory `dir`, which is created with the first one.
    pub fn new(dir: &Path) -> Self {
        Self { root: dir.join(LAYOUT) }
    }

    /// Forgets the digest of the file at `path`.
    pub fn forget(&self, path: &Path) {
        // One that stays is found to be wrong again.
        let _ = disk::remove_file(&self.entry(path));
    }

    /// Forgets all digests.
    ///
    /// # Errors
    /// Some cannot be removed.
    pub fn clear(&self) -> Result<(), DiskError> {
        for path in disk::list_if_there(&self.root)? {
            disk::remove_file(&path)?;
        }
        Ok(())
    }

    fn entry(&self, path: &Path) -> PathBuf {
        self.root.join(Digest::of(path.as_os_str().as_encoded_bytes()).to_string())
    }

    /// The digest of the open file `file` at `path`, if it was read in its present state.
    pub fn get(&self, path: &Path, file: &File) -> Option<Digest> {
        let state = FileState::of(file)?;
        let bytes = disk::read_at_most(&self.entry(path), ENTRY_BYTES_MAX).ok()??;
        expect_own_folder(&self.root, OtherUsers::Excluded).ok()?;
        let entry: Entry = serde_json::from_slice(&bytes).ok()?;
        (entry.state == state).then_some(entry.digest)
    }

    /// Remembers that `file` at `path` had the digest `digest` when it was read; `before` is its state before. Nothing is
    /// remembered of a file that has changed, or that changed just before.
    pub fn put(&self, path: &Path, file: &File, before: Option<FileState>, digest: Digest) {
        let state = FileState::of(file).filter(|state| Some(*state) == before);
        let Some(state) = state else { return };
        if state.is_recent() {
            return;
        }
        let made = disk::create_private_dir_all(&self.root).is_ok()
            && expect_own_folder(&self.root, OtherUsers::Excluded).is_ok();
        let entry = serde_json::to_vec(&Entry { state, digest });
        if let (true, Ok(entry)) = (made, entry) {
            // A file that is not remembered is read again.
            let _ = atomic_file::write_unsynced(&self.entry(path), &[&entry]);
        }
    }
}

impl FileState {
    /// The state of an open file; `None` where it cannot be told, as on disks of Windows without change times.
    #[cfg(unix)]
    pub fn of(file: &File) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;

        let metadata = file.metadata().ok()?;
        let ns = |s: i64, ns: i64| i128::from(s) * 1_000_000_000 + i128::from(ns);
        Some(Self {
            device: metadata.dev(),
            number: metadata.ino(),
            len_bytes: metadata.len(),
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Its length.
    #[cfg(feature = "remote")]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Whether the file changed so little ago that it could change again without another time.
    pub fn is_recent(&self) -> bool {
        let now_ns = i128::from(ambient::wall_now_ns());
        now_ns - self.changed_ns.max(self.modified_ns) < COARSEST.as_nanos().cast_signed()
    }

    /// The state of an open file; `None` where it cannot be told, as on disks of Windows without change times.
    #[cfg(windows)]
    pub fn of(file: &File) -> Option<Self> {
        const NANOS_PER_TICK: i128 = 100;
        let metadata = file.metadata().ok()?;
        let (device, number) = change_time::number(file).ok()?;
        let changed_ticks = change_time::of(file).ok().filter(|ticks| *ticks != 0)?;
        let modified = metadata.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(Self {
            device,
            number,
            len_bytes: metadata.len(),
            modified_ns: modified.as_nanos().cast_signed(),
            changed_ns: i128::from(changed_ticks) * NANOS_PER_TICK,
        })
    }

    /// The state of an open file; `None`, as it cannot be told.
    #[cfg(not(any(unix, windows)))]
    pub fn of(_file: &File) -> Option<Self> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(digests: &FileDigests, path: &Path) -> Option<Digest> {
        digests.get(path, &disk::open(path).unwrap())
    }

    fn put(digests: &FileDigests, path: &Path) -> Digest {
        let file = disk::open(path).unwrap();
        let before = FileState::of(&file);
        let digest = Digest::of(&disk::read(path).unwrap());
        digests.put(path, &file, before, digest);
        digest
    }

    #[test]
    fn file_that_changed_just_before_is_not_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let (digests, path) = (FileDigests::new(dir.path()), dir.path().join("file"));
        atomic_file::write(&path, &[b"one"]).unwrap();
        put(&digests, &path);
        assert_eq!(digest(&digests, &path), None);
    }

    #[test]
    fn changed_file_has_no_digest_even_with_its_old_time_and_length() {
        let dir = tempfile::tempdir().unwrap();
        let digests = FileDigests::new(dir.path());
        // A file that has not changed for long, unlike this program, which may just have been built.
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let own = put(&digests, &path);
        assert_eq!(digest(&digests, &path), Some(own));
        let entry = digests.entry(&path);
        let mut known: Entry = serde_json::from_slice(&disk::read(&entry).unwrap()).unwrap();
        known.state.changed_ns -= 1;
        atomic_file::write(&entry, &[&serde_json::to_vec(&known).unwrap()]).unwrap();
        assert_eq!(digest(&digests, &path), None);
        atomic_file::write(&entry, &[b"damaged"]).unwrap();
        assert_eq!(digest(&digests, &path), None);
    }
}
