//! What the disk held when it was compared with what is to be written.

use std::collections::HashMap;

use crate::kernel::vfs::layer::Stat;
use crate::kernel::vfs::path::VPath;

/// What was compared with the disk, by layer and path.
pub(super) type Checked = HashMap<(u16, VPath), Stat>;

/// Whether nothing but names came or went.
pub(super) fn is_same(before: &Stat, after: &Stat) -> bool {
    (before.file_type, before.size, before.mtime_ns)
        == (after.file_type, after.size, after.mtime_ns)
}
