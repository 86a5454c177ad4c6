//! A read-only tree defined by a test, which can also fail.

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar::Errno;
use belljar::kernel::vfs::{Blob, DirEntry, FileType, Stat, VPath};
use belljar::{Layer, Source};

/// The entry at a path.
#[derive(Clone)]
pub enum Item {
    Dir,
    File(&'static [u8]),
    Link(&'static [u8]),
    /// Another type, such as a pipe.
    Special,
    /// A file that is shorter than its size.
    Shortened(&'static [u8]),
    /// A file that cannot be opened.
    Unopenable(Errno),
    /// An entry that cannot be examined.
    Unknowable(Errno),
}

/// A read-only tree, by path.
pub struct Tree(BTreeMap<&'static str, Item>);

impl Tree {
    /// A tree with these entries, parents before their children.
    pub fn source<const N: usize>(items: [(&'static str, Item); N]) -> Source {
        Source::Layers(vec![Arc::new(Self(items.into()))])
    }

    fn item(&self, path: &VPath) -> Result<&Item, Errno> {
        if path.is_root() {
            return Ok(&Item::Dir);
        }
        self.0.get(path.as_str()).ok_or(Errno::Noent)
    }
}

fn file_type(item: &Item) -> FileType {
    match item {
        Item::Dir => FileType::Directory,
        Item::Link(_) => FileType::SymbolicLink,
        Item::Special => FileType::CharacterDevice,
        _ => FileType::RegularFile,
    }
}

impl Layer for Tree {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno> {
        let item = self.item(path)?;
        let size = match item {
            Item::File(bytes) => bytes.len(),
            Item::Shortened(bytes) => bytes.len() + 10,
            Item::Unopenable(_) => 10,
            Item::Unknowable(errno) => return Err(*errno),
            _ => 0,
        };
        let file_type = file_type(item);
        Ok(Stat {
            file_type,
            size: size as u64,
            mtime_ns: 0,
            executable: false,
            stamp: 0,
            inode: 0,
            nlink: 1,
        })
    }

    fn list(&self, path: &VPath) -> Result<Vec<DirEntry>, Errno> {
        let inside = |(known, item): (&&str, &Item)| {
            let (parent, name) = known.rsplit_once('/').unwrap_or(("", known));
            (parent == path.as_str())
                .then(|| DirEntry { name: name.into(), file_type: file_type(item) })
        };
        Ok(self.0.iter().filter_map(inside).collect())
    }

    fn read_link(&self, path: &VPath) -> Result<Box<[u8]>, Errno> {
        match self.item(path)? {
            Item::Link(text) => Ok((*text).into()),
            _ => Err(Errno::Inval),
        }
    }

    fn open(&self, path: &VPath) -> Result<Blob, Errno> {
        match self.item(path)? {
            Item::File(bytes) | Item::Shortened(bytes) => Ok(Blob::Bytes(Arc::from(*bytes))),
            Item::Unopenable(errno) => Err(*errno),
            _ => Err(Errno::Acces),
        }
    }
}
