//! The list of the files of an installed toolchain, in a form that is used without being parsed: a run that needs one
//! file of ten thousand looks at some twenty entries.
//!
//! After the magic number and the number of entries, as u32, follow the entries, sorted by path, then all paths. Numbers are
//! little-endian. An entry: where its path begins among the paths, and the path's length, as u32; the file's length, as u64;
//! the digest of its content; 1 if it is executable, else 0.

use crate::base::digest::Digest;

const MAGIC: &[u8] = b"belljar files 1\n";

/// Bytes before the first entry.
const HEAD_BYTES: usize = MAGIC.len() + 4;

const ENTRY_BYTES: usize = 4 + 4 + 8 + Digest::BYTES + 1;

/// A file of an installed toolchain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredFile<'a> {
    pub path: &'a str,
    pub content: Digest,
    pub len_bytes: u64,
    pub executable: bool,
}

/// The files of an installed toolchain, sorted by path.
#[derive(Debug)]
pub struct FileList {
    bytes: Vec<u8>,
    len: usize,
}

/// The bytes of a list of `files`, which are sorted by path.
pub fn encode<'a>(files: impl IntoIterator<Item = StoredFile<'a>>) -> Vec<u8> {
    let (mut entries, mut paths) = (Vec::new(), Vec::new());
    let mut count: u32 = 0;
    for StoredFile { path, content, len_bytes, executable } in files {
        entries.extend_from_slice(&(paths.len() as u32).to_le_bytes());
        entries.extend_from_slice(&(path.len() as u32).to_le_bytes());
        entries.extend_from_slice(&len_bytes.to_le_bytes());
        entries.extend_from_slice(content.as_bytes());
        entries.push(executable.into());
        paths.extend_from_slice(path.as_bytes());
        count += 1;
    }
    [MAGIC, &count.to_le_bytes(), &entries, &paths].concat()
}

impl FileList {
    /// Takes in the bytes of a list. What is wrong with an entry shows when it is looked at.
    ///
    /// # Errors
    /// They are not those of a list.
    pub fn decode(bytes: Vec<u8>) -> Result<Self, String> {
        let rest = bytes.strip_prefix(MAGIC).ok_or("it is no list of files of this version")?;
        let count = rest.first_chunk().ok_or("it is cut off")?;
        let len = u32::from_le_bytes(*count) as usize;
        if rest.len() - 4 < len.saturating_mul(ENTRY_BYTES) {
            return Err("it is cut off".to_owned());
        }
        Ok(Self { bytes, len })
    }

    /// The file at `index` in the order of paths. `None` behind the last, or if its entry is damaged.
    pub fn at(&self, index: usize) -> Option<StoredFile<'_>> {
        if index >= self.len {
            return None;
        }
        let entry = self.bytes.get(HEAD_BYTES + index * ENTRY_BYTES..)?;
        let (begin, entry) = entry.split_first_chunk()?;
        let (path_len, entry) = entry.split_first_chunk()?;
        let (len_bytes, entry) = entry.split_first_chunk()?;
        let (content, entry) = entry.split_first_chunk()?;
        let paths = self.bytes.get(HEAD_BYTES + self.len * ENTRY_BYTES..)?;
        let path = paths.get(u32::from_le_bytes(*begin) as usize..)?;
        let path = path.get(..u32::from_le_bytes(*path_len) as usize)?;
        Some(StoredFile {
            path: std::str::from_utf8(path).ok()?,
            content: Digest::from_bytes(*content),
            len_bytes: u64::from_le_bytes(*len_bytes),
            executable: *entry.first()? == 1,
        })
    }

    /// The index of the first file whose path is not before `path`.
    pub fn first_from(&self, path: &str) -> usize {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low.midpoint(high);
            // A damaged entry is behind all others.
            if self.at(middle).is_some_and(|file| file.path < path) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The file `path`.
    pub fn get(&self, path: &str) -> Option<StoredFile<'_>> {
        self.at(self.first_from(path)).filter(|file| file.path == path)
    }

    /// All files, in the order of their paths.
    pub fn iter(&self) -> impl Iterator<Item = StoredFile<'_>> {
        (0..self.len).filter_map(|index| self.at(index))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(path: &str) -> StoredFile<'_> {
        let content = Digest::of(path.as_bytes());
        StoredFile { path, content, len_bytes: path.len() as u64, executable: path.len() % 2 == 1 }
    }

    proptest! {
        #[test]
        fn all_files_are_found_and_no_others(
            paths in proptest::collection::btree_set("[a-c/]{1,6}", 0..40), other in "[a-c/]{1,6}"
        ) {
            let files: Vec<_> = paths.iter().map(|path| file(path)).collect();
            let list = FileList::decode(encode(files.iter().copied())).unwrap();
            prop_assert!(list.iter().eq(files.iter().copied()));
            for path in &paths {
                prop_assert_eq!(list.get(path), Some(file(path)));
            }
            prop_assert_eq!(list.get(&other).is_some(), paths.contains(&other));
            let first = paths.range(other.clone()..).next();
            prop_assert_eq!(list.at(list.first_from(&other)).map(|file| file.path), first.map(String::as_str));
        }

        #[test]
        fn any_bytes_are_a_list_or_an_error(tail in proptest::collection::vec(any::<u8>(), 0..200)) {
            let bytes = [MAGIC, &tail].concat();
            if let Ok(list) = FileList::decode(bytes) {
                let _ = (list.get("a"), list.iter().count(), list.at(usize::MAX));
            }
        }
    }
}
