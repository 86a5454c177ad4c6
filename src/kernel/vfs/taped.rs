//! The tree that a tape has seen.

use std::collections::HashMap;
use std::sync::Arc;

use super::layer::{Blob, DirEntry, Layer, Stat};
use super::path::VPath;
use super::recording::{parse_listing, type_of_name};
use crate::base::digest::Digest;
use crate::base::errno::Errno;
use crate::store::Cas;
use crate::tape::{Found, Kind, Payload, Record};

/// A tape holds something that no layer can have answered.
#[derive(Debug, thiserror::Error)]
#[error("record {seq}: {message}")]
pub struct TapedTreeError {
    /// The record.
    pub seq: u64,
    /// What is wrong with it.
    pub message: String,
}

/// What a tape says of the trees below a machine: enough to run it again without them. What nobody
/// asked for when the tape was recorded is not there.
pub struct TapedTree {
    entries: HashMap<String, Entry>,
    cas: Cas,
}

#[derive(Default)]
struct Entry {
    stat: Option<Result<Stat, Errno>>,
    list: Option<Result<Vec<DirEntry>, Errno>>,
    link: Option<Box<[u8]>>,
    content: Option<(Digest, u64)>,
}

impl TapedTree {
    /// A tree of which nothing is known, with the contents in `cas`.
    pub fn new(cas: Cas) -> Self {
        Self { entries: HashMap::new(), cas }
    }

    /// Learns what `record` says, if it is of a layer.
    ///
    /// # Errors
    /// [`TapedTreeError`]: an errno that does not exist, a listing that is none, a payload that is
    /// missing or damaged.
    pub fn learn(&mut self, record: &Record) -> Result<(), TapedTreeError> {
        self.learn_kind(&record.kind).map_err(|message| TapedTreeError { seq: record.seq, message })
    }

    fn learn_kind(&mut self, kind: &Kind) -> Result<(), String> {
        let bytes = |payload: &Payload| payload.bytes(&self.cas).map_err(|error| error.to_string());
        let errno = |name: &str| {
            Errno::from_name(name).ok_or_else(|| format!("{name:?} is no errno of preview1"))
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
                self.entry(path).stat = Some(stat);
            }
            Kind::DirList { path, entries } => {
                let text = String::from_utf8(bytes(entries)?);
                let text = text.map_err(|_| "the listing is no text")?;
                let list = match Errno::from_name(&text) {
                    Some(errno) => Err(errno),
                    None => Ok(parse_listing(&text)?),
                };
                self.entry(path).list = Some(list);
            }
            Kind::LinkRead { path, target } => {
                let target = bytes(target)?.into();
                self.entry(path).link = Some(target);
            }
            Kind::FileRead { path, content_hash, len_bytes } => {
                self.entry(path).content = Some((*content_hash, *len_bytes));
            }
            _ => {}
        }
        Ok(())
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
    /// What `tree` knows of the mount point `at`, an absolute path.
    pub fn new(tree: Arc<TapedTree>, at: &str, exact_names: bool) -> Self {
        Self { tree, at: at.into(), exact_names }
    }

    /// # Errors
    /// `ENOENT` for what the tape does not know: the run is another one than was recorded.
    fn find(&self, path: &VPath) -> Result<&Entry, Errno> {
        self.tree.entries.get(&path.absolute(&self.at)).ok_or(Errno::Noent)
    }
}

impl Layer for TapedLayer {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno> {
        self.find(path)?.stat.unwrap_or(Err(Errno::Noent))
    }

    fn list(&self, path: &VPath) -> Result<Vec<DirEntry>, Errno> {
        self.find(path)?.list.clone().unwrap_or(Err(Errno::Noent))
    }

    fn read_link(&self, path: &VPath) -> Result<Box<[u8]>, Errno> {
        self.find(path)?.link.clone().ok_or(Errno::Inval)
    }

    fn open(&self, path: &VPath) -> Result<Blob, Errno> {
        let (digest, len_bytes) = self.find(path)?.content.ok_or(Errno::Noent)?;
        Ok(Blob::Bytes(self.tree.cas.get(digest, len_bytes).map_err(|_| Errno::Io)?.into()))
    }

    fn names_are_exact(&self) -> bool {
        self.exact_names
    }
}
