//! Moved and linked files, whose content may be that of another place on the disk.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::plan::RefreshPlan;
use crate::kernel::vfs::apply::conflicts::{Conflict, ConflictKind};
use crate::kernel::vfs::apply::settle::Placed;
use crate::kernel::vfs::diff::DiffError;
use crate::kernel::vfs::layer::FileType;
use crate::kernel::vfs::overlay::node::{Body, Entry, EntryKind, MountId, NodeId};
use crate::kernel::vfs::overlay::{Overlay, node_bytes};
use crate::kernel::vfs::path::VPath;

/// A node that was moved or linked from elsewhere.
struct Moved {
    id: NodeId,
    /// Index of the plan of the mount it comes from.
    plan: usize,
    from: VPath,
    /// Where it is now.
    to: (MountId, VPath),
    is_dir: bool,
}

impl Overlay {
    /// Makes moved and linked nodes independent if the disk changed what they come from: programs keep what they have,
    /// as new files. That is a conflict, told once, and only for the directory if all of it was moved.
    ///
    /// # Errors
    /// Those of the disk.
    pub(super) fn detach_from_changed_origins(
        &mut self,
        plans: &mut [RefreshPlan],
    ) -> Result<(), DiffError> {
        let paths = |plan: &RefreshPlan| plan.conflicts.iter().map(|it| it.path.clone()).collect();
        let mut told: Vec<HashSet<VPath>> = plans.iter().map(paths).collect();
        for Moved { id, plan, from, to, is_dir } in self.moved_nodes(plans) {
            let (plan, told) = (&mut plans[plan], &mut told[plan]);
            let now = plan.now(&from)?;
            let mut conflict = Conflict {
                mount: plan.mount,
                mount_path: String::new(),
                path: from.clone(),
                what: ConflictKind::OriginGone(to.0, to.1),
            };
            if is_dir {
                // Each file in it has its own origin.
                self.become_made_dir(id);
                let is_gone = now.is_none_or(|now| now.file_type != FileType::Directory);
                if is_gone && !is_told(&from, told) {
                    told.insert(from);
                    plan.conflicts.push(conflict);
                }
                continue;
            }
            // A change there is compared on its own: its former state is kept.
            if told.contains(&from) && plan.kept.contains_key(&from) {
                continue;
            }
            if let Some(now) = plan.unchanged_on_disk(&from)? {
                plan.pin_now(&from, now);
                continue;
            }
            let is_special = matches!(self.node(id).body, Body::Special(_));
            if !is_special && self.detach_from_layer(id).is_ok() {
                if is_told(&from, told) {
                    continue;
                }
            } else {
                // What it holds cannot be read any more: the former state stays.
                let is_gone = now.is_none();
                conflict.what =
                    if is_gone { ConflictKind::Vanished } else { ConflictKind::Changed };
                plan.pin_old(&from);
                let here = self.node_at(plan.mount, &from);
                plan.kept.insert(from.clone(), here);
            }
            told.insert(from);
            plan.conflicts.push(conflict);
        }
        Ok(())
    }

    /// The nodes that stay and come from another place in a mount of `plans`; directories first.
    fn moved_nodes(&self, plans: &[RefreshPlan]) -> Vec<Moved> {
        let by_layer: HashMap<u16, usize> =
            plans.iter().enumerate().map(|(index, plan)| (plan.layer, index)).collect();
        let mut places: HashMap<NodeId, (MountId, VPath)> = HashMap::new();
        for (mount, _) in (0..).map(MountId).zip(&self.mounts) {
            let plan = plans.iter().find(|plan| plan.mount == mount);
            for Placed { id, path, .. } in self.placed_in(mount) {
                let stays = plan.is_none_or(|plan| plan.kept.get(&path) == Some(&Some(id)));
                let Some(origin) = self.node(id).origin.as_deref().filter(|_| stays) else {
                    continue;
                };
                let is_home =
                    plan.is_some_and(|it| it.layer == origin.layer) && origin.path == path;
                if !is_home && by_layer.contains_key(&origin.layer) {
                    places.entry(id).or_insert((mount, path));
                }
            }
        }
        let mut moved: Vec<Moved> = Vec::new();
        for (id, to) in places {
            let node = self.node(id);
            let Some(origin) = node.origin.as_deref() else { continue };
            let is_dir = matches!(node.body, Body::Dir(_));
            let plan = by_layer[&origin.layer];
            moved.push(Moved { id, plan, from: origin.path.clone(), to, is_dir });
        }
        moved.sort_by(|a, b| (!a.is_dir, a.plan, &a.from).cmp(&(!b.is_dir, b.plan, &b.from)));
        moved
    }

    /// Makes the directory `id`, which was moved, one that programs created.
    fn become_made_dir(&mut self, id: NodeId) {
        if self.node_mut(id).origin.take().is_some() {
            self.upper_bytes = self.upper_bytes.saturating_add(node_bytes(&self.node(id).body));
        }
    }

    /// The node at `path` of `mount`, if it was looked at and exists.
    pub(super) fn node_at(&self, mount: MountId, path: &VPath) -> Option<NodeId> {
        let mut at = self.mount_root(mount);
        for name in path.as_str().split('/').filter(|name| !name.is_empty()) {
            let Body::Dir(dir) = &self.node(at).body else { return None };
            let EntryKind::Node(next) = dir.entries.get(name)?.kind else { return None };
            at = next;
        }
        Some(at)
    }

    /// The names of entries with nodes in the directory `dir`.
    pub(in crate::kernel::vfs) fn known_names(&self, dir: NodeId) -> Vec<Arc<str>> {
        let entries = self.dir(dir).entries.iter();
        let is_known =
            |entry: &Entry| matches!(entry.kind, EntryKind::Node(_) | EntryKind::Folded(_));
        let nodes = entries.filter(|(_, entry)| is_known(entry));
        nodes.map(|(name, _)| name.clone()).collect()
    }
}

/// Whether a conflict was told for `path` or a directory above it.
fn is_told(path: &VPath, told: &HashSet<VPath>) -> bool {
    let mut at = path.clone();
    while !told.contains(&at) {
        match at.split_last() {
            Some((dir, _)) => at = dir,
            None => return false,
        }
    }
    true
}
