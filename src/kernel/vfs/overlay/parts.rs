//! Parts of a saved session, which are in a store until something looks at them again.

use std::collections::BTreeMap;

use super::node::Node;
use super::pins::Pin;
use crate::base::digest::Digest;
use crate::kernel::vfs::path::VPath;
use crate::store::{Cas, StoreError};

/// Reads parts of a saved session. What a run does not look at is not read, so that a run costs in proportion to
/// what it does.
pub(in crate::kernel::vfs) trait Parts: Send + Sync {
    /// Neighbouring pins.
    ///
    /// # Errors
    /// Those of [`Cas::get`].
    fn pins(&self, digest: Digest) -> Result<BTreeMap<VPath, Pin>, StoreError>;

    /// A directory in which no program changed anything.
    ///
    /// # Errors
    /// Those of [`Cas::get`].
    fn dir(&self, digest: Digest) -> Result<StoredDir, StoreError>;

    /// Why a part could not be read, if one could not.
    fn damage(&self) -> Option<&str>;

    /// What is said of a state that has its digest, but cannot be one.
    fn damaged(&self, digest: Digest) -> StoreError;

    /// Copies a directory, with those in it, to `cas`.
    ///
    /// # Errors
    /// Those of [`Cas::get`] and [`Cas::put`].
    fn copy_dir(&self, digest: Digest, cas: &Cas) -> Result<(), StoreError>;

    /// Whether it reads from `cas`.
    fn is_of(&self, cas: &Cas) -> bool;
}

/// A directory in the store, with its entries.
pub(in crate::kernel::vfs) struct StoredDir {
    /// The directory. Numbers in its entries are those of `entries` and `dirs`.
    pub node: Node,
    /// Its entries that are no directories.
    pub entries: Vec<Node>,
    /// Its directories.
    pub dirs: Vec<Digest>,
}
