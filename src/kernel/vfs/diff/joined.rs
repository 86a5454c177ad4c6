//! New files with several names, at some of which a layer has equal files. The first of these is no change, and the other
//! names are further names of it: the layer's files there may be others.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{Change, Comparison, DiffError};
use crate::kernel::vfs::overlay::Overlay;
use crate::kernel::vfs::overlay::node::{Body, MountId, NodeId};
use crate::kernel::vfs::path::VPath;

impl Overlay {
    /// Whether `id` is a new file or symbolic link with several names.
    pub(in crate::kernel::vfs) fn is_new_with_names(&self, id: NodeId) -> bool {
        let node = self.node(id);
        let is_of_kind = match node.body {
            Body::File(_) => self.kernel_version > 8,
            Body::Symlink(_) => self.kernel_version > 9,
            Body::Dir(_) | Body::Special(_) => false,
        };
        is_of_kind && node.nlink > 1 && node.origin.is_none()
    }

    /// For new files with several names: one that is not among `changes`.
    pub(in crate::kernel::vfs) fn unchanged_names(
        &self,
        changes: &[Change],
    ) -> HashMap<NodeId, VPath> {
        let of_new: HashSet<(MountId, &VPath)> = changes
            .iter()
            .filter(|change| change.after.is_some_and(|id| self.is_new_with_names(id)))
            .map(|change| (change.mount, &change.path))
            .collect();
        let mut names = HashMap::new();
        for mount in of_new.iter().map(|(mount, _)| *mount).collect::<BTreeSet<_>>() {
            for placed in self.placed_in(mount) {
                let is_changed = of_new.contains(&(mount, &placed.path));
                if self.is_new_with_names(placed.id) && !is_changed {
                    names.entry(placed.id).or_insert(placed.path);
                }
            }
        }
        names
    }
}

impl Comparison<'_> {
    /// Makes the names of a new file at which the layers have equal files changes, but for the first.
    pub(super) fn join_equal_names(&mut self) -> Result<(), DiffError> {
        let mut equal = std::mem::take(&mut self.equal_names);
        if self.overlay.kernel_version < 10 {
            return Ok(());
        }
        equal.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let mut with_first: HashSet<Option<NodeId>> = HashSet::new();
        for change in equal {
            if !with_first.insert(change.after) {
                self.add(change)?;
            }
        }
        Ok(())
    }
}
