//! Rank 1: contents on the host's disk.

mod cas;
mod file_digests;
#[cfg(feature = "remote")]
mod folder_digests;

pub use cas::{Cas, Removed, StoreError, read_slice};
pub use file_digests::{FileDigests, FileState};
#[cfg(feature = "remote")]
pub use folder_digests::FolderDigests;
