//! A layer that records its answers on a tape.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Blob, DirEntry, FileType, Layer, Stat};
use crate::base::digest::Digest;
use crate::base::errno::Errno;
use crate::kernel::vfs::path::VPath;
use crate::tape::{Found, Kind, Recorder, TapedContent};

/// The digest and the length of a recorded content.
type Recorded = (Digest, u64);

/// What the machine knows of a file.
enum Known {
    /// It was found, with this stamp, and not opened yet.
    Found(u64),
    /// Its content was recorded.
    Recorded(Recorded),
}

/// Records all answers of another layer. The overlay asks for each thing once, so the tape holds all that a
/// machine saw of the tree, without repetition.
///
/// A file may change while a run has it open. So the machine reads the content that was recorded, from the
/// tape's store: a run and its replay read the same bytes. A content withheld for a secret is read in place.
pub struct RecordingLayer {
    inner: Arc<dyn Layer>,
    /// The mount point.
    at: Box<str>,
    /// The machine sees the layer's own times. Otherwise they are not recorded.
    shows_times: bool,
    recorder: Recorder,
    /// The machine reads the content that was recorded, and not that of the other layer.
    substitutes: bool,
    files: Mutex<HashMap<VPath, Known>>,
}

impl RecordingLayer {
    /// Records the answers of `inner`, mounted at `at`.
    pub fn new(inner: Arc<dyn Layer>, at: &VPath, shows_times: bool, recorder: Recorder) -> Self {
        let at = at.absolute("/").into();
        Self { inner, at, shows_times, recorder, substitutes: true, files: Mutex::default() }
    }

    /// Lets the machine read the contents of `inner`, which do not change: recorded are the first ones.
    #[must_use]
    pub fn reading_in_place(mut self) -> Self {
        self.substitutes = false;
        self
    }

    fn absolute(&self, path: &VPath) -> String {
        path.absolute(&self.at)
    }

    fn files(&self) -> MutexGuard<'_, HashMap<VPath, Known>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the content of `blob`. Returns its digest and length, and the bytes that were recorded, if they are few.
    fn record_content(
        &self,
        path: &VPath,
        blob: &Blob,
    ) -> Result<(Recorded, Option<Vec<u8>>), Errno> {
        let read = |offset, buf: &mut [u8]| blob.read_at(buf, offset);
        let path = self.absolute(path);
        let (content, bytes) = self.recorder.read_content(&path, read)?;
        let TapedContent { content_hash, len_bytes, withheld_by } = content;
        self.recorder.push(Kind::FileRead { path, content_hash, len_bytes, withheld_by });
        Ok(((content_hash, len_bytes), bytes))
    }

    fn open_recorded(&self, path: &VPath) -> Result<Blob, Errno> {
        if !self.substitutes {
            return self.open_in_place(path);
        }
        let kept = |digest| self.recorder.kept(digest).map(Blob::from);
        let mut files = self.files();
        let blob = match files.get(path) {
            Some(Known::Recorded((digest, _))) => {
                return kept(*digest).map_or_else(|| self.inner.open(path), Ok);
            }
            Some(Known::Found(found)) => {
                let blob = self.inner.open(path)?;
                if blob.stamp().is_some_and(|stamp| stamp != *found) {
                    // The length that the machine knows is that of another content.
                    return Err(Errno::Io);
                }
                blob
            }
            None => self.inner.open(path)?,
        };
        let (recorded, bytes) = self.record_content(path, &blob)?;
        files.insert(path.clone(), Known::Recorded(recorded));
        let (digest, _) = recorded;
        match bytes {
            Some(bytes) => Ok(Blob::Bytes(bytes.into())),
            None => Ok(kept(digest).unwrap_or(blob)),
        }
    }

    fn open_in_place(&self, path: &VPath) -> Result<Blob, Errno> {
        let blob = self.inner.open(path)?;
        let mut files = self.files();
        if !files.contains_key(path) {
            let (recorded, _) = self.record_content(path, &blob)?;
            files.insert(path.clone(), Known::Recorded(recorded));
        }
        Ok(blob)
    }

    fn record_stat(&self, path: &VPath, answer: Result<Stat, Errno>) -> Result<Stat, Errno> {
        let found = match &answer {
            Err(errno) => Found::Errno { errno: errno.name().to_owned() },
            Ok(stat) => Found::Entry {
                file_type: type_name(stat.file_type).to_owned(),
                len_bytes: stat.size,
                mtime_ns: self.shows_times.then_some(stat.mtime_ns),
                executable: stat.executable && stat.file_type == FileType::RegularFile,
            },
        };
        self.recorder.push(Kind::FileStat { path: self.absolute(path), found });
        answer
    }

    /// Records an error of `operation`.
    fn record_error<T>(&self, path: &VPath, operation: &str, answer: &Result<T, Errno>) {
        if let Err(errno) = answer {
            self.recorder.push(Kind::FileError {
                path: self.absolute(path),
                operation: operation.to_owned(),
                errno: errno.name().to_owned(),
            });
        }
    }
}

impl Layer for RecordingLayer {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno> {
        let mut answer = self.inner.stat(path);
        if let Ok(stat) = &mut answer
            && self.substitutes
            && stat.file_type == FileType::RegularFile
        {
            match self.files().entry(path.clone()).or_insert(Known::Found(stat.stamp)) {
                // A native program may have written to it since.
                Known::Recorded((_, len)) => stat.size = *len,
                Known::Found(_) => {}
            }
        }
        self.record_stat(path, answer)
    }

    fn stat_now(&self, path: &VPath) -> Result<Stat, Errno> {
        self.record_stat(path, self.inner.stat_now(path))
    }

    fn list(&self, path: &VPath) -> Result<Vec<DirEntry>, Errno> {
        let answer = self.inner.list(path);
        let text = match &answer {
            Err(errno) => errno.name().to_owned(),
            Ok(entries) => listing_text(entries),
        };
        let entries = self.recorder.payload(text.as_bytes());
        self.recorder.push(Kind::DirList { path: self.absolute(path), entries });
        answer
    }

    fn read_link(&self, path: &VPath) -> Result<Box<[u8]>, Errno> {
        let answer = self.inner.read_link(path);
        if let Ok(target) = &answer {
            let target = self.recorder.payload(target);
            self.recorder.push(Kind::LinkRead { path: self.absolute(path), target });
        }
        self.record_error(path, READ_LINK, &answer);
        answer
    }

    fn open(&self, path: &VPath) -> Result<Blob, Errno> {
        let answer = self.open_recorded(path);
        self.record_error(path, OPEN, &answer);
        answer
    }

    fn names_are_exact(&self) -> bool {
        self.inner.names_are_exact()
    }
}

/// The operations whose errors have records of their own.
pub(super) const OPEN: &str = "open";
pub(super) const READ_LINK: &str = "read_link";

/// Type names of a tape, with the letters of its listings.
const TYPES: [(FileType, &str, char); 4] = [
    (FileType::Directory, "dir", 'd'),
    (FileType::RegularFile, "file", 'f'),
    (FileType::SymbolicLink, "link", 'l'),
    (FileType::Unknown, "other", '?'),
];

fn type_name(file_type: FileType) -> &'static str {
    TYPES.iter().find(|(known, ..)| *known == file_type).map_or("other", |(_, name, _)| name)
}

pub(super) fn type_of_name(name: &str) -> FileType {
    TYPES.iter().find(|(_, known, _)| *known == name).map_or(FileType::Unknown, |found| found.0)
}

fn listing_text(entries: &[DirEntry]) -> String {
    let mut text = String::new();
    for entry in entries {
        let letter = TYPES.iter().find(|(known, ..)| *known == entry.file_type);
        text.push(letter.map_or('?', |(.., letter)| *letter));
        text.push(' ');
        text.push_str(&serde_json::Value::from(&*entry.name).to_string());
        text.push('\n');
    }
    text
}

/// Parses a listing.
///
/// # Errors
/// A message with the first invalid line.
pub(super) fn parse_listing(text: &str) -> Result<Vec<DirEntry>, String> {
    text.lines()
        .map(|line| {
            let entry = line.split_once(' ').and_then(|(letter, name)| {
                let mut letters = TYPES.iter().filter(|(.., known)| letter == known.to_string());
                let name: String = serde_json::from_str(name).ok()?;
                Some(DirEntry { name: name.into(), file_type: letters.next()?.0 })
            });
            entry.ok_or_else(|| format!("{line:?} is not an entry of a listing"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_round_trip() {
        let entry = |name: &str, file_type| DirEntry { name: name.into(), file_type };
        let entries = vec![
            entry("a b\n\"c", FileType::RegularFile),
            entry("dir", FileType::Directory),
            entry("pipe", FileType::Unknown),
            entry("é", FileType::SymbolicLink),
        ];
        assert_eq!(parse_listing(&listing_text(&entries)).unwrap(), entries);
        assert_eq!(parse_listing("").unwrap(), []);
        assert!(parse_listing("x \"a\"").is_err());
        assert!(parse_listing("f a").is_err());
    }
}
