//! Names on disks that find a file by several, and symbolic links.

use std::ffi::OsString;
use std::io;
#[cfg(windows)]
use std::path::Path;

use super::host_dir::HostDir;
use super::host_syntax::NAMES_FOLD;
use super::spelling::Names;
use crate::base::ambient;
use crate::kernel::vfs::path::VPath;

impl HostDir {
    /// Checks that `path`, which the disk finds, is spelled as the disk has it.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if not; those of the host.
    pub(super) fn expect_exact(&self, path: &VPath) -> io::Result<()> {
        if NAMES_FOLD && !self.spelling.is_exact(self, path)? {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(())
    }

    /// Whether the disk finds `path`, in whichever spelling.
    pub(in crate::kernel::vfs) fn finds(&self, path: &VPath) -> io::Result<bool> {
        match self.examine_as_found(path) {
            Ok(_) => Ok(true),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(false),
                _ => Err(error),
            },
        }
    }

    /// Creates the symbolic link `path` with the text `target`: verbatim, but with backslashes on Windows, which
    /// resolves no others.
    ///
    /// # Errors
    /// Those of the host; `PermissionDenied` if this user may not make links on Windows.
    pub(in crate::kernel::vfs) fn symlink(&self, target: &str, path: &VPath) -> io::Result<()> {
        let (dir, name) = self.place(path)?;
        #[cfg(unix)]
        return dir.symlink_contents(target, name);
        #[cfg(windows)]
        {
            let beside = name.parent().unwrap_or(Path::new("")).join(target);
            let is_dir = dir.metadata(beside).is_ok_and(|found| found.is_dir());
            let text = target.replace('/', "\\");
            let made =
                if is_dir { dir.symlink_dir(text, name) } else { dir.symlink_file(text, name) };
            made.map_err(|error| match error.raw_os_error().map(i32::cast_unsigned) {
                Some(windows_sys::Win32::Foundation::ERROR_PRIVILEGE_NOT_HELD) => io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    "Windows makes symbolic links only for administrators, or in Developer Mode",
                ),
                _ => error,
            })
        }
        #[cfg(not(any(unix, windows)))]
        {
            let _ = (target, dir, name);
            Err(io::ErrorKind::Unsupported.into())
        }
    }
}

impl Names for HostDir {
    fn changed_ns(&self, path: &VPath) -> io::Result<u64> {
        Ok(self.examine_as_found(path)?.changed_ns)
    }

    fn names(&self, path: &VPath) -> io::Result<Vec<Box<str>>> {
        let utf8 = |name: OsString| name.into_string().ok().map(Into::into);
        Ok(HostDir::names(self, path)?.into_iter().filter_map(utf8).collect())
    }

    fn now_ns(&self) -> u64 {
        ambient::wall_now_ns()
    }
}
