//! A few files of layers that are kept open for reading. Guests may open more files than the host allows a
//! process.

use std::sync::Arc;

use super::node::NodeId;
use crate::kernel::vfs::layer::Blob;

/// Files kept open at once. Systems allow a process at least 256.
const OPEN_MAX: usize = 32;

/// Open files of layers, the most recently used last.
#[derive(Clone, Default)]
pub(in crate::kernel::vfs) struct BelowFiles(Vec<(NodeId, Arc<Blob>)>);

impl BelowFiles {
    /// The file below `id`, if it is open.
    pub fn get(&mut self, id: NodeId) -> Option<Arc<Blob>> {
        let index = self.0.iter().position(|(of, _)| *of == id)?;
        self.0[index..].rotate_left(1);
        self.0.last().map(|(_, blob)| blob.clone())
    }

    /// Keeps the file below `id` open and closes the least recently used one if there are too many.
    pub fn keep(&mut self, id: NodeId, blob: Arc<Blob>) {
        if self.0.len() == OPEN_MAX {
            self.0.remove(0);
        }
        self.0.push((id, blob));
    }

    /// Closes the file below `id`.
    pub fn close(&mut self, id: NodeId) {
        self.0.retain(|(of, _)| *of != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_file_is_closed() {
        let mut files = BelowFiles::default();
        let blob = || Arc::new(Blob::Bytes(Arc::from(*b"x")));
        let id = |n: usize| NodeId(u32::try_from(n).unwrap());
        (0..OPEN_MAX).for_each(|n| files.keep(id(n), blob()));
        assert!(files.get(id(0)).is_some());
        files.keep(id(OPEN_MAX), blob());
        assert!(files.get(id(1)).is_none(), "0 was used later");
        files.close(id(0));
        assert!(files.get(id(0)).is_none());
        assert_eq!(files.0.len(), OPEN_MAX - 1);
    }
}
