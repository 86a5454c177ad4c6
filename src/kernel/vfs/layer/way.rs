//! Opens directories of the host without following symbolic links.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};

#[cfg(any(target_os = "linux", target_os = "android"))]
const FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const FLAGS: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// Opens the directory `path` beneath `root`, to list it. `path` has neither `.` nor `..`.
///
/// # Errors
/// `ENOTDIR` if a component is a symbolic link or not a directory; those of the host.
pub(super) fn open(root: &impl AsFd, path: &Path) -> io::Result<File> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{ResolveFlags, openat2};
        use rustix::io::Errno;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match openat2(root, path, FLAGS, Mode::empty(), resolve) {
            // Missing in old kernels, denied by some seccomp profiles, or raced by a rename.
            Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => {}
            dir => return dir.map(File::from).map_err(no_link),
        }
    }
    let mut dir: Option<File> = None;
    for name in path {
        let flags = FLAGS | OFlags::NOFOLLOW;
        let next = match &dir {
            Some(dir) => openat(dir, name, flags, Mode::empty()),
            None => openat(root, name, flags, Mode::empty()),
        };
        dir = Some(next.map_err(no_link)?.into());
    }
    dir.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Converts `ELOOP` to `ENOTDIR`: a symbolic link is not a directory, wherever it leads.
fn no_link(error: rustix::io::Errno) -> io::Error {
    match error {
        rustix::io::Errno::LOOP => rustix::io::Errno::NOTDIR.into(),
        error => error.into(),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests use the disk")]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn symlink_component_is_enotdir() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("d/e/f")).unwrap();
        std::fs::write(at("file"), "").unwrap();
        for (to, name) in [("d", "in"), ("/etc", "out"), ("loop", "loop"), ("nowhere", "dangling")]
        {
            symlink(to, at(name)).unwrap();
        }
        let root = File::open(folder.path()).unwrap();
        assert!(open(&root, Path::new("d/e/f")).is_ok());
        assert!(open(&root, Path::new("d")).is_ok());
        for path in ["in", "in/e", "out", "out/x", "loop", "loop/x", "dangling/x", "file", "file/x"]
        {
            let error = open(&root, Path::new(path)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotADirectory, "{path}: {error}");
        }
        let error = open(&root, Path::new("d/none/f")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
