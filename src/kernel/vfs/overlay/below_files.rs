//! Files of layers that are kept open for reading, a few at a time: a guest may open more files
//! than the host lets a process open.

use std::sync::Arc;

use super::node::NodeId;
use crate::kernel::vfs::layer::Blob;

/// Files kept open at once. Systems grant a process 256 and more.
const OPEN_MAX: usize = 32;

/// Open files of layers, the one used last at the end.
#[derive(Clone, Default)]
pub(in crate::kernel::vfs) struct BelowFiles(Vec<(NodeId, Arc<Blob>)>);

impl BelowFiles {
    /// The file below `id`, if it is kept open.
    pub fn get(&mut self, id: NodeId) -> Option<Arc<Blob>> {
        let index = self.0.iter().position(|(of, _)| *of == id)?;
        self.0[index..].rotate_left(1);
        self.0.last().map(|(_, blob)| blob.clone())
    }

    /// Keeps the file below `id` open, in place of the one that was not used for longest.
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
    fn the_file_not_used_for_longest_makes_room() {
        let mut files = BelowFiles::default();
        let blob = || Arc::new(Blob::Bytes(Arc::from(*b"x")));
        let id = |n: usize| NodeId(u32::try_from(n).unwrap());
        (0..OPEN_MAX).for_each(|n| files.keep(id(n), blob()));
        assert!(files.get(id(0)).is_some());
        files.keep(id(OPEN_MAX), blob());
        assert!(files.get(id(1)).is_none(), "0 was used since");
        files.close(id(0));
        assert!(files.get(id(0)).is_none());
        assert_eq!(files.0.len(), OPEN_MAX - 1);
    }
}
