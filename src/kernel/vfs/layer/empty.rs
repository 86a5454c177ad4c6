//! A layer with nothing in it.

use super::{Blob, DirEntry, FileType, Layer, Stat};
use crate::base::errno::Errno;
use crate::kernel::vfs::path::VPath;

/// A tree with nothing in it: for what is gone, and to compare with.
pub struct EmptyTree;

impl Layer for EmptyTree {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno> {
        if !path.is_root() {
            return Err(Errno::Noent);
        }
        let file_type = FileType::Directory;
        Ok(Stat { file_type, size: 0, mtime_ns: 0, executable: true, stamp: 0, inode: 0, nlink: 1 })
    }

    fn list(&self, _: &VPath) -> Result<Vec<DirEntry>, Errno> {
        Ok(Vec::new())
    }

    fn read_link(&self, _: &VPath) -> Result<Box<[u8]>, Errno> {
        Err(Errno::Noent)
    }

    fn open(&self, _: &VPath) -> Result<Blob, Errno> {
        Err(Errno::Noent)
    }
}
