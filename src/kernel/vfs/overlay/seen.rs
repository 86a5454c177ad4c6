//! Which paths the namespace has looked at, and so would not read from the layers again.

use super::Overlay;
use super::node::{Body, EntryKind, MountId};
use crate::kernel::vfs::path::VPath;

impl Overlay {
    /// Whether the answer for `path` in `mount` is known by now, or that there is nothing. Looks at no layer.
    pub(crate) fn has_seen(&self, mount: MountId, path: &VPath) -> bool {
        let mut at = self.mount_root(mount);
        for name in path.as_str().split('/').filter(|name| !name.is_empty()) {
            let Body::Dir(dir) = &self.node(at).body else { return true };
            match dir.entries.get(name).map(|entry| entry.kind) {
                Some(EntryKind::Node(id)) => at = id,
                Some(EntryKind::Absent | EntryKind::Below(_)) => return true,
                None => return dir.complete,
            }
        }
        true
    }
}
