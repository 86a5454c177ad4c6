//! What the namespace has looked at, when a native program has changed the disk since.

use super::Overlay;
use super::node::{Body, EntryKind, MountId, NodeId};
use crate::kernel::vfs::path::VPath;

impl Overlay {
    /// Whether the answer for `path` in `mount` is known by now, so that no layer would be asked for it.
    pub(crate) fn has_seen(&mut self, mount: MountId, path: &VPath) -> bool {
        let Some((parent, name)) = path.split_last() else { return true };
        let Ok(dir) = self.seen_dir(mount, &parent) else { return false };
        match dir.map(|dir| self.dir(dir)) {
            Some(dir) => dir.complete || dir.entries.contains_key(name),
            None => true,
        }
    }

    /// Takes in that the layer of `mount` has something at `path` by now. Without it, what the namespace has there would
    /// be an addition, if there was nothing when it looked.
    pub(crate) fn note_written_below(&mut self, mount: MountId, path: &VPath) {
        let Some((parent, name)) = path.split_last() else { return };
        let Ok(Some(dir)) = self.seen_dir(mount, &parent) else { return };
        let Some(entry) = self.dir_mut(dir).entries.get_mut(name) else { return };
        // As `Overlay::complete` does.
        let freed = entry.name_bytes(name);
        entry.shadows = true;
        self.uncharge(freed);
    }

    /// The directory `path` of `mount`, if it was looked at; `None` if it is known not to be there.
    ///
    /// # Errors
    /// Nothing, if it is not known.
    fn seen_dir(&mut self, mount: MountId, path: &VPath) -> Result<Option<NodeId>, ()> {
        let mut at = self.mount_root(mount);
        for name in path.as_str().split('/').filter(|name| !name.is_empty()) {
            let Body::Dir(dir) = &self.node(at).body else { return Ok(None) };
            at = match dir.entries.get(name).map(|entry| entry.kind) {
                Some(EntryKind::Node(id)) => id,
                Some(EntryKind::Folded(id)) => self.unfold(at, name, id).map_err(drop)?,
                Some(EntryKind::Absent) => return Ok(None),
                None if dir.complete => return Ok(None),
                Some(EntryKind::Below(_)) | None => return Err(()),
            };
        }
        Ok(matches!(self.node(at).body, Body::Dir(_)).then_some(at))
    }
}
