//! What a baseline answered for a path, to be answered again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::base::digest::Digest;
use crate::kernel::vfs::layer::{DirEntry, FileType, Stat};
use crate::kernel::vfs::path::VPath;

/// What is answered for a path from now on.
#[derive(Clone)]
pub(in crate::kernel::vfs) enum Pin {
    /// This was there.
    There(There),
    /// Nothing was there; if not `is_certain`, something may have been.
    Absent { is_certain: bool },
    /// It is not known what was there.
    Unknown,
}

#[derive(Clone)]
pub(in crate::kernel::vfs) struct There {
    pub stat: Stat,
    pub link: Option<Box<[u8]>>,
    pub content: Option<(Digest, u64)>,
    pub list: Option<Arc<List>>,
    /// For a directory: a change time after the start that is only due to writes of this session, so that the
    /// names are known to be the old ones apart from these.
    pub accepted_ns: Option<u64>,
}

/// The names in a directory.
#[derive(Clone, Default)]
pub(in crate::kernel::vfs) struct List {
    pub entries: Vec<DirEntry>,
    /// Inode numbers of the subdirectories, where known.
    pub inodes: HashMap<Box<str>, u64>,
    /// The directory had changed before it was listed.
    pub is_late: bool,
}

impl From<Stat> for There {
    fn from(stat: Stat) -> Self {
        Self { stat, link: None, content: None, list: None, accepted_ns: None }
    }
}

impl List {
    /// The entry `name`.
    pub(in crate::kernel::vfs) fn find(&self, name: &str) -> Option<&DirEntry> {
        let at = self.entries.binary_search_by(|entry| (*entry.name).cmp(name)).ok()?;
        Some(&self.entries[at])
    }

    /// Sets the entry `name` from `pin`.
    pub(in crate::kernel::vfs) fn set(&mut self, name: &str, pin: &Pin) {
        let at = self.entries.binary_search_by(|entry| (*entry.name).cmp(name));
        self.inodes.remove(name);
        match (pin, at) {
            (Pin::There(there), at) => {
                let stat = &there.stat;
                let entry = DirEntry { name: name.into(), file_type: stat.file_type };
                if stat.file_type == FileType::Directory && stat.inode != 0 {
                    self.inodes.insert(name.into(), stat.inode);
                }
                match at {
                    Ok(at) => self.entries[at] = entry,
                    Err(at) => self.entries.insert(at, entry),
                }
            }
            (_, Ok(at)) => drop(self.entries.remove(at)),
            (_, Err(_)) => {}
        }
    }
}

/// The entries of a map of paths that are beneath the directory `dir`, at any depth.
pub(in crate::kernel::vfs) fn beneath<'p, V>(
    map: &'p BTreeMap<VPath, V>,
    dir: &VPath,
) -> impl Iterator<Item = (&'p VPath, &'p V)> + use<'p, V> {
    let prefix = prefix_of(dir);
    let first = dir.join("");
    let from = if dir.is_root() { VPath::root() } else { first };
    map.range(from..)
        .take_while(move |(path, _)| path.as_str().starts_with(&prefix))
        .filter(|(path, _)| !path.is_root())
}

pub(super) fn prefix_of(dir: &VPath) -> String {
    if dir.is_root() { String::new() } else { format!("{}/", dir.as_str()) }
}
