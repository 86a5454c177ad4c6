//! The state of the disk when it was compared with what is to be written.

use std::collections::HashMap;

use crate::kernel::vfs::layer::Stat;
use crate::kernel::vfs::path::VPath;

/// Attributes found on the disk during the comparison, by layer and path.
pub(super) type Checked = HashMap<(u16, VPath), Stat>;

/// Whether at most the names of the file changed.
pub(super) fn is_same(before: &Stat, after: &Stat) -> bool {
    (before.file_type, before.size, before.mtime_ns)
        == (after.file_type, after.size, after.mtime_ns)
}
