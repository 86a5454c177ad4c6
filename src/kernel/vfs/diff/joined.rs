//! New files with several names, at one of which a layer has an equal file: that is no change, and the other names are
//! further names of it.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::Change;
use crate::kernel::vfs::overlay::Overlay;
use crate::kernel::vfs::overlay::node::{Body, MountId, NodeId};
use crate::kernel::vfs::path::VPath;

impl Overlay {
    /// Whether `id` is a new file with several names. At one of them a layer may have an equal file, which stays: the
    /// others are further names of that one.
    fn is_new_with_names(&self, id: NodeId) -> bool {
        let node = self.node(id);
        let is_file = matches!(node.body, Body::File(_));
        is_file && node.nlink > 1 && node.origin.is_none() && !self.acts_as_version_8
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
