//! Renaming on the disk.

use std::io;
use std::path::Path;

use cap_std::fs::Dir;

use super::host_dir::HostDir;
use crate::base::patience;
use crate::kernel::vfs::path::VPath;

/// What is done with a file at the new name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    Replaced,
    Kept,
}

impl HostDir {
    /// Renames within the tree and replaces a file at `to`.
    ///
    /// # Errors
    /// Those of the host.
    pub(in crate::kernel::vfs) fn rename(&self, from: &VPath, to: &VPath) -> io::Result<()> {
        self.rename_with(from, to, Existing::Replaced)
    }

    /// Renames within the tree to a name that nothing has. Where the system or the file system cannot check that in the
    /// same step, a file or an empty directory that has just appeared at `to` is replaced.
    ///
    /// # Errors
    /// `AlreadyExists` if something is at `to`; those of the host.
    pub(in crate::kernel::vfs) fn rename_to_new(&self, from: &VPath, to: &VPath) -> io::Result<()> {
        self.rename_with(from, to, Existing::Kept)
    }

    fn rename_with(&self, from: &VPath, to: &VPath, existing: Existing) -> io::Result<()> {
        let ((from_dir, from), (to_dir, to)) = (self.place(from)?, self.place(to)?);
        patience::repeat(|| {
            renamed_at_once(&from_dir, from, &to_dir, to, existing)
                .unwrap_or_else(|| from_dir.rename(from, &to_dir, to))
        })
    }
}

/// `None` where the system cannot check the new name in the same step.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn renamed_at_once(
    from_dir: &Dir,
    from: &Path,
    to_dir: &Dir,
    to: &Path,
    existing: Existing,
) -> Option<io::Result<()>> {
    use rustix::fs::{RenameFlags, renameat_with};
    use rustix::io::Errno;
    let flags = match existing {
        Existing::Replaced => RenameFlags::empty(),
        Existing::Kept => RenameFlags::NOREPLACE,
    };
    match renameat_with(from_dir, from, to_dir, to, flags) {
        // Old kernels, and file systems that do not know the flag. The other call finds what else is not valid.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => None,
        done => Some(done.map_err(io::Error::from)),
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn renamed_at_once(_: &Dir, _: &Path, _: &Dir, _: &Path, _: Existing) -> Option<io::Result<()>> {
    None
}
