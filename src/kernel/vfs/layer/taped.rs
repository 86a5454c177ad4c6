//! The tree that a tape recorded.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::recording::{OPEN, READ_LINK, parse_listing, type_of_name};
use super::{Blob, DirEntry, FileType, Layer, Stat};
use crate::base::digest::Digest;
use crate::base::errno::Errno;
use crate::kernel::vfs::path::VPath;
use crate::tape::{Found, Kind, Payload, Record, TapeStore};

/// A record holds an answer that no layer can give.
#[derive(thiserror::Error)]
#[error("record {seq}: {message}")]
pub struct TapedTreeError {
    /// The record.
    pub seq: u64,
    /// The defect.
    pub message: String,
}

crate::base::readable::readable!(TapedTreeError);

/// The trees below a recorded machine, as far as it asked for them: enough to replay the run without them.
pub struct TapedTree {
    entries: HashMap<String, Entry>,
    store: TapeStore,
}

/// The answers recorded for one path, by question.
#[derive(Default)]
struct Entry {
    stat: Answers<Stat>,
    /// The last answer that found a directory; set by [`TapedTree::keep_last_answers`]. The root of a mount
    /// stays a directory, even if the tree around the mount was asked for the same path later.
    dir: Option<Stat>,
    list: Answers<Vec<DirEntry>>,
    link: Answers<Box<[u8]>>,
    content: Answers<(Digest, u64)>,
}

/// The answers to one question, in order; the last one repeats. A question was asked again if its answer was
/// an error of the storage.
struct Answers<T> {
    given: Vec<Result<T, Errno>>,
    asked: AtomicUsize,
}

impl<T> Default for Answers<T> {
    fn default() -> Self {
        Self { given: Vec::new(), asked: AtomicUsize::new(0) }
    }
}

impl<T: Clone> Answers<T> {
    /// Returns the next answer; `None` if the question was never asked.
    fn next(&self) -> Option<Result<T, Errno>> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        self.given.get(asked).or(self.given.last()).cloned()
    }

    fn keep_first(&mut self) {
        self.given.truncate(1);
    }

    fn keep_last(&mut self) {
        self.given.drain(..self.given.len().saturating_sub(1));
    }
}

impl TapedTree {
    /// An empty tree, with the contents in `store`.
    pub fn new(store: TapeStore) -> Self {
        Self { entries: HashMap::new(), store }
    }

    /// Takes in `record`, if a layer made it.
    ///
    /// # Errors
    /// [`TapedTreeError`]: unknown errno or operation, invalid listing, missing or damaged payload.
    pub fn learn(&mut self, record: &Record) -> Result<(), TapedTreeError> {
        self.learn_kind(&record.kind).map_err(|message| TapedTreeError { seq: record.seq, message })
    }

    fn learn_kind(&mut self, kind: &Kind) -> Result<(), String> {
        let bytes =
            |payload: &Payload| payload.bytes(&self.store).map_err(|error| error.to_string());
        let errno = |name: &str| {
            Errno::from_name(name).ok_or_else(|| format!("{name:?} is not an errno of preview1"))
        };
        match kind {
            Kind::FileStat { path, found } => {
                let stat = match found {
                    Found::Errno { errno: name } => Err(errno(name)?),
                    Found::Entry { file_type, len_bytes, mtime_ns, executable } => Ok(Stat {
                        file_type: type_of_name(file_type),
                        size: *len_bytes,
                        mtime_ns: mtime_ns.unwrap_or_default(),
                        executable: *executable,
                        stamp: 0,
                        inode: 0,
                        nlink: 1,
                    }),
                };
                self.entry(path).stat.given.push(stat);
            }
            Kind::DirList { path, entries } => {
                let text = String::from_utf8(bytes(entries)?);
                let text = text.map_err(|_| "the listing is not UTF-8")?;
                let list = match Errno::from_name(&text) {
                    Some(errno) => Err(errno),
                    None => Ok(parse_listing(&text)?),
                };
                self.entry(path).list.given.push(list);
            }
            Kind::LinkRead { path, target } => {
                let target = bytes(target)?.into();
                self.entry(path).link.given.push(Ok(target));
            }
            Kind::FileRead { path, content_hash, len_bytes, .. } => {
                self.entry(path).content.given.push(Ok((*content_hash, *len_bytes)));
            }
            Kind::FileError { path, operation, errno: name } => {
                let errno = errno(name)?;
                match operation.as_str() {
                    OPEN => self.entry(path).content.given.push(Err(errno)),
                    READ_LINK => self.entry(path).link.given.push(Err(errno)),
                    _ => return Err(format!("{operation:?} is not an operation of a tree")),
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Drops all answers except the last to each question: the tree as it was in the end.
    pub fn keep_last_answers(&mut self) {
        for Entry { stat, dir, list, link, content } in self.entries.values_mut() {
            let is_dir = |stat: &&Stat| stat.file_type == FileType::Directory;
            *dir = stat.given.iter().flatten().rfind(is_dir).copied();
            stat.keep_last();
            list.keep_last();
            link.keep_last();
            content.keep_last();
        }
    }

    /// Drops all answers except the first to each question: the tree as it was in the beginning.
    pub fn keep_first_answers(&mut self) {
        for Entry { stat, list, link, content, .. } in self.entries.values_mut() {
            stat.keep_first();
            list.keep_first();
            link.keep_first();
            content.keep_first();
        }
    }

    fn entry(&mut self, path: &str) -> &mut Entry {
        self.entries.entry(path.to_owned()).or_default()
    }
}

/// A part of a [`TapedTree`], as it was mounted when the tape was recorded.
pub struct TapedLayer {
    tree: Arc<TapedTree>,
    at: Box<str>,
    exact_names: bool,
}

impl TapedLayer {
    /// The part of `tree` that was mounted at the absolute path `at`.
    pub fn new(tree: Arc<TapedTree>, at: &str, exact_names: bool) -> Self {
        Self { tree, at: at.into(), exact_names }
    }

    /// # Errors
    /// `ENOENT` if the tape has no record of `path`: the run is not the recorded one.
    fn find(&self, path: &VPath) -> Result<&Entry, Errno> {
        self.tree.entries.get(&path.absolute(&self.at)).ok_or(Errno::Noent)
    }
}

impl Layer for TapedLayer {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno> {
        let entry = self.find(path)?;
        match entry.dir.filter(|_| path.is_root()) {
            Some(dir) => Ok(dir),
            None => entry.stat.next().unwrap_or(Err(Errno::Noent)),
        }
    }

    fn list(&self, path: &VPath) -> Result<Vec<DirEntry>, Errno> {
        self.find(path)?.list.next().unwrap_or(Err(Errno::Noent))
    }

    fn read_link(&self, path: &VPath) -> Result<Box<[u8]>, Errno> {
        self.find(path)?.link.next().unwrap_or(Err(Errno::Inval))
    }

    fn open(&self, path: &VPath) -> Result<Blob, Errno> {
        let content = self.find(path)?.content.next();
        let (digest, len_bytes) = content.unwrap_or(Err(Errno::Noent))?;
        let content = self.tree.store.open(digest, len_bytes).map_err(|_| Errno::Io)?;
        Ok(content.into())
    }

    // Also for contents that were withheld from the store.
    fn digest(&self, path: &VPath) -> Result<Digest, Errno> {
        let content = self.find(path)?.content.next();
        content.unwrap_or(Err(Errno::Noent)).map(|(digest, _)| digest)
    }

    fn names_are_exact(&self) -> bool {
        self.exact_names
    }
}
