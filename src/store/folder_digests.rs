//! Digests of the files of a folder, as they were when they were last read: a table for each folder.
//!
//! A file is taken for unchanged as [`super::FileDigests`] takes it. The table is read and written whole; of two processes that
//! write it at once, one wins, and the files of the other are read again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::file_digests::FileState;
use crate::base::digest::Digest;
use crate::base::disk::DiskError;
use crate::base::own::{OtherUsers, expect_own_folder};
use crate::base::{atomic_file, disk, last_use};

const LAYOUT: &str = "hashes-1";

/// Largest table, in bytes: about a million files.
const TABLE_BYTES_MAX: u64 = 256 << 20;

/// Most tables that are kept: those that were written last.
const TABLES_MAX: usize = 100;

/// A SHA-256 digest.
type Sha256 = [u8; 32];

/// The digests of the files of one folder.
pub struct FolderDigests {
    table: PathBuf,
    known: HashMap<String, (FileState, Sha256)>,
    /// What is known of the files that this process looked at.
    seen: HashMap<String, (FileState, Sha256)>,
    is_changed: bool,
}

#[derive(Serialize, Deserialize)]
struct Line {
    path: String,
    state: FileState,
    digest: Sha256,
}

impl FolderDigests {
    /// The digests of the files in `folder`, an absolute path, that the directory `dir` keeps. A table that is damaged, or that
    /// others could have written, is empty.
    pub fn open(dir: &Path, folder: &Path) -> Self {
        let root = dir.join(LAYOUT);
        let table = root.join(Digest::of(folder.as_os_str().as_encoded_bytes()).to_string());
        let is_own = expect_own_folder(&root, OtherUsers::Excluded).is_ok();
        let known = if is_own { read(&table).unwrap_or_default() } else { HashMap::new() };
        Self { table, known, seen: HashMap::new(), is_changed: false }
    }

    /// The digest of the file `path` of the folder, if it was read in the `state` that it has now.
    pub fn get(&mut self, path: &str, state: FileState) -> Option<Sha256> {
        let (known, digest) = self.known.get(path)?;
        if *known != state {
            return None;
        }
        self.seen.insert(path.to_owned(), (state, *digest));
        Some(*digest)
    }

    /// Remembers that the file `path` of the folder, which was in `state` both before and after it was read, has the digest
    /// `digest`. One that changed just before is not remembered.
    pub fn put(&mut self, path: &str, state: FileState, digest: Sha256) {
        if !state.is_recent() {
            self.seen.insert(path.to_owned(), (state, digest));
            self.is_changed = true;
        }
    }

    /// Writes the table, if it has changed. A failure costs nothing but the time to read the files again.
    pub fn save(self) {
        if !self.is_changed && self.seen.len() == self.known.len() {
            return;
        }
        let line = |(path, (state, digest))| Line { path, state, digest };
        let lines: Vec<_> = self.seen.into_iter().map(line).collect();
        let Ok(bytes) = postcard::to_allocvec(&lines) else { return };
        let root = disk::folder_of(&self.table);
        let is_own = disk::create_private_dir_all(root).is_ok()
            && expect_own_folder(root, OtherUsers::Excluded).is_ok();
        if is_own && bytes.len() as u64 <= TABLE_BYTES_MAX {
            let digest = Digest::of(&bytes);
            let _ = atomic_file::write_unsynced(&self.table, &[digest.as_bytes(), &bytes]);
            let _ = trim(root);
        }
    }

    /// Removes all tables of the directory `dir`.
    ///
    /// # Errors
    /// Some cannot be removed.
    pub fn clear(dir: &Path) -> Result<(), DiskError> {
        for path in disk::list_if_there(&dir.join(LAYOUT))? {
            disk::remove_file(&path)?;
        }
        Ok(())
    }
}

fn read(table: &Path) -> Option<HashMap<String, (FileState, Sha256)>> {
    let bytes = disk::read_at_most(table, TABLE_BYTES_MAX + Digest::BYTES as u64).ok()??;
    let lines: Vec<Line> = postcard::from_bytes(Digest::checked(&bytes)?).ok()?;
    Some(lines.into_iter().map(|line| (line.path, (line.state, line.digest))).collect())
}

/// Removes the tables that were written least recently, if there are too many.
fn trim(root: &Path) -> Result<(), DiskError> {
    let mut tables = disk::list_if_there(root)?;
    if tables.len() > TABLES_MAX {
        tables.sort_by_key(|table| disk::metadata(table).ok().map(|it| last_use::of(&it)));
        for table in &tables[..tables.len() - TABLES_MAX] {
            disk::remove_file(table)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The state of a file that has not changed for long: the build takes longer.
    fn old() -> FileState {
        state(&Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
    }

    fn state(path: &Path) -> FileState {
        FileState::of(&disk::open(path).unwrap()).unwrap()
    }

    #[test]
    fn files_are_known_until_they_change() {
        let (dir, folder) = (tempfile::tempdir().unwrap(), Path::new("/project"));
        let old = old();
        let mut digests = FolderDigests::open(dir.path(), folder);
        assert_eq!(digests.get("a", old), None);
        digests.put("a", old, [7; 32]);
        digests.save();
        let mut digests = FolderDigests::open(dir.path(), folder);
        assert_eq!(digests.get("a", old), Some([7; 32]));
        let new = dir.path().join("new");
        atomic_file::write(&new, &[b"new"]).unwrap();
        assert_eq!(digests.get("a", state(&new)), None);
        digests.put("new", state(&new), [8; 32]);
        digests.save();
        let mut digests = FolderDigests::open(dir.path(), folder);
        assert_eq!(digests.get("new", state(&new)), None, "it changed just before it was read");
        assert_eq!(digests.get("a", old), Some([7; 32]), "it was looked at again");
        digests.save();
        assert_eq!(FolderDigests::open(dir.path(), Path::new("/other")).get("a", old), None);
    }

    #[test]
    fn damaged_table_is_empty_and_old_ones_are_removed() {
        let (dir, folder) = (tempfile::tempdir().unwrap(), Path::new("/project"));
        let old = old();
        let known = || FolderDigests::open(dir.path(), folder).get("a", old);
        for number in 0..TABLES_MAX + 5 {
            let other = format!("/{number}");
            let mut digests = FolderDigests::open(dir.path(), Path::new(&other));
            digests.put("a", old, [1; 32]);
            digests.save();
        }
        let mut digests = FolderDigests::open(dir.path(), folder);
        digests.put("a", old, [7; 32]);
        let table = digests.table.clone();
        digests.save();
        assert_eq!(disk::list_if_there(&dir.path().join(LAYOUT)).unwrap().len(), TABLES_MAX);
        assert_eq!(known(), Some([7; 32]));
        let mut bytes = disk::read(&table).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        atomic_file::write(&table, &[&bytes]).unwrap();
        assert_eq!(known(), None);
        FolderDigests::clear(dir.path()).unwrap();
        assert_eq!(disk::list_if_there(&dir.path().join(LAYOUT)).unwrap().len(), 0);
    }
}
