//! Changes to one directory of the host that are made as a whole or not at all.
//!
//! New contents are first written to temporaries beside their places. Then things are renamed;
//! what stood in the way is kept under another temporary name until all is done, so that
//! [`Transaction::roll_back`] can put it back. A file that is replaced is there at every moment,
//! in its old version or the new one. A crash of the host leaves temporaries, never half a file.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;

use super::file_version::FileVersion;
use super::host::{Access, HostDir, HostPermissions, set_file_times};
use super::node::Times;
use super::path::VPath;
use crate::base::errno::Errno;

/// What file systems leave out of a file where it is all zeros.
const BLOCK_BYTES: usize = 4096;

/// A step that the host refused.
#[derive(Debug)]
pub(super) struct StepError {
    /// What was tried, as a verb.
    pub operation: &'static str,
    pub path: VPath,
    pub source: io::Error,
}

impl StepError {
    pub fn new(operation: &'static str, path: &VPath) -> impl FnOnce(io::Error) -> Self {
        let path = path.clone();
        move |source| Self { operation, path, source }
    }
}

/// How to take back a step.
enum Undo {
    /// Put what is at `backup` at `path` again.
    Restore {
        backup: VPath,
        path: VPath,
        is_dir: bool,
    },
    RemoveFile(VPath),
    RemoveDir(VPath),
    /// What was at this path is lost: the host let nothing be kept of it.
    Impossible(VPath),
}

/// Changes to one directory of the host. See the module's own text.
pub(super) struct Transaction {
    host: Arc<HostDir>,
    /// Directories that are not there both before and after: nothing temporary may stand in them.
    unstable: HashSet<VPath>,
    /// Temporaries with new contents that have not come to their places.
    staged: HashSet<VPath>,
    undo: Vec<Undo>,
}

impl Transaction {
    pub fn new(host: Arc<HostDir>, unstable: HashSet<VPath>) -> Self {
        Self { host, unstable, staged: HashSet::new(), undo: Vec::new() }
    }

    /// Writes `version` to a temporary beside `path`; answers its name.
    pub fn stage_file(
        &mut self,
        path: &VPath,
        version: &FileVersion,
        permissions: Option<&HostPermissions>,
        times: Option<Times>,
    ) -> Result<VPath, StepError> {
        let temporary = self.temporary_beside(path);
        let access = match permissions {
            Some(_) => Access::Private,
            None if version.executable => Access::SharedExecutable,
            None => Access::Shared,
        };
        let created = self.host.create_file(&temporary, access);
        let mut file = created.map_err(StepError::new("create a temporary file for", path))?;
        self.staged.insert(temporary.clone());
        let written = version.read_pieces(|offset, bytes| {
            let is_zero = |block: &[u8]| block.iter().all(|byte| *byte == 0);
            let mut at = offset;
            // Runs of blocks that hold something: zeros that a guest made for nothing must not
            // fill the disk.
            let blocks: Vec<&[u8]> = bytes.chunks(BLOCK_BYTES).collect();
            for run in blocks.chunk_by(|a, b| is_zero(a) == is_zero(b)) {
                let len: usize = run.iter().map(|block| block.len()).sum();
                if !is_zero(run[0]) {
                    let start = (at - offset) as usize;
                    file.seek(SeekFrom::Start(at))?;
                    file.write_all(&bytes[start..start + len]).map_err(PieceError::Host)?;
                }
                at += len as u64;
            }
            Ok(())
        });
        let written = written.map_err(|error| match error {
            PieceError::Layer(errno) => io::Error::other(errno),
            PieceError::Host(error) => error,
        });
        // The length also makes the holes at the end.
        let written = written.and_then(|()| file.set_len(version.len()));
        written.map_err(StepError::new("write a temporary file for", path))?;
        if let Some(permissions) = permissions {
            let set = permissions.set_on(&file);
            set.map_err(StepError::new("set the permissions of", path))?;
        }
        if let Some(times) = times {
            let set = set_file_times(&file, times);
            set.map_err(StepError::new("set the times of", path))?;
        }
        Ok(temporary)
    }

    /// Makes a temporary beside `path` a further name of the file `of`.
    pub fn stage_link(&mut self, path: &VPath, of: &VPath) -> Result<VPath, StepError> {
        let temporary = self.temporary_beside(path);
        let linked = self.host.hard_link(of, &temporary);
        linked.map_err(StepError::new("link to", of))?;
        self.staged.insert(temporary.clone());
        Ok(temporary)
    }

    /// Makes a temporary symbolic link beside `path`.
    pub fn stage_symlink(
        &mut self,
        path: &VPath,
        target: &str,
        times: Option<Times>,
    ) -> Result<VPath, StepError> {
        let temporary = self.temporary_beside(path);
        let made = self.host.symlink(target, &temporary);
        made.map_err(StepError::new("create a temporary link for", path))?;
        self.staged.insert(temporary.clone());
        if let Some(times) = times {
            let set = self.host.set_times(&temporary, times);
            set.map_err(StepError::new("set the times of", path))?;
        }
        Ok(temporary)
    }

    /// Takes away what stands at `path`; a directory must be empty.
    pub fn remove(&mut self, path: &VPath, is_dir: bool) -> Result<(), StepError> {
        let failed = || StepError::new("remove", path);
        let backup = self.temporary_beside(path);
        if self.host.rename(path, &backup).is_ok() {
            self.undo.push(Undo::Restore { backup: backup.clone(), path: path.clone(), is_dir });
            if is_dir && !self.host.names(&backup).map_err(failed())?.is_empty() {
                return Err(failed()(io::ErrorKind::DirectoryNotEmpty.into()));
            }
            return Ok(());
        }
        if is_dir { self.host.remove_dir(path) } else { self.host.remove_file(path) }
            .map_err(failed())?;
        self.undo.push(Undo::Impossible(path.clone()));
        Ok(())
    }

    /// Creates the directory `path`.
    pub fn create_dir(&mut self, path: &VPath, access: Access) -> Result<(), StepError> {
        self.host.create_dir(path, access).map_err(StepError::new("create directory", path))?;
        self.undo.push(Undo::RemoveDir(path.clone()));
        Ok(())
    }

    /// Gives what is staged at `temporary` its name, in place of a file or link if `replaces`.
    pub fn place(
        &mut self,
        temporary: &VPath,
        path: &VPath,
        replaces: bool,
    ) -> Result<(), StepError> {
        let mut undo = Undo::RemoveFile(path.clone());
        if replaces {
            let backup = self.temporary_beside(path);
            undo = match self.host.hard_link(path, &backup) {
                Ok(()) => Undo::Restore { backup, path: path.clone(), is_dir: false },
                Err(_) => Undo::Impossible(path.clone()),
            };
        }
        match self.host.rename(temporary, path) {
            Ok(()) => {
                self.staged.remove(temporary);
                self.undo.push(undo);
                Ok(())
            }
            Err(error) => {
                if let Undo::Restore { backup, .. } = undo {
                    // What failed is told; a second name that stays behind says no more.
                    let _ = self.host.remove_file(&backup);
                }
                Err(StepError::new("write", path)(error))
            }
        }
    }

    /// Takes everything back. Answers what could not be: paths that are not as they were.
    pub fn roll_back(self) -> Vec<VPath> {
        let mut left = Vec::new();
        for step in self.undo.into_iter().rev() {
            let (path, undone) = match step {
                Undo::Restore { backup, path, .. } => {
                    let undone = self.host.rename(&backup, &path);
                    (path, undone)
                }
                Undo::RemoveFile(path) => {
                    let undone = self.host.remove_file(&path);
                    (path, undone)
                }
                Undo::RemoveDir(path) => {
                    let undone = self.host.remove_dir(&path);
                    (path, undone)
                }
                Undo::Impossible(path) => (path, Err(io::ErrorKind::Unsupported.into())),
            };
            if undone.is_err() {
                left.push(path);
            }
        }
        for path in self.staged {
            match self.host.remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => left.push(path),
                // Gone, be it by somebody else's hand.
                _ => {}
            }
        }
        left
    }

    /// Makes everything final. Answers the temporaries that could not be removed.
    pub fn finish(self) -> Vec<VPath> {
        let mut left = Vec::new();
        for step in self.undo {
            let Undo::Restore { backup, is_dir, .. } = step else { continue };
            let removed =
                if is_dir { self.host.remove_dir(&backup) } else { self.host.remove_file(&backup) };
            if removed.is_err() {
                left.push(backup);
            }
        }
        left
    }

    /// A name that nothing has, in the nearest directory above `path` that stays.
    fn temporary_beside(&self, path: &VPath) -> VPath {
        let mut dir = path.split_last().map_or_else(VPath::root, |(parent, _)| parent);
        while let Some((parent, _)) = dir.split_last().filter(|_| self.unstable.contains(&dir)) {
            dir = parent;
        }
        let random = RandomState::new().build_hasher().finish();
        dir.join(&format!(".belljar-{random:016x}.tmp"))
    }
}

enum PieceError {
    Layer(Errno),
    Host(io::Error),
}

impl From<Errno> for PieceError {
    fn from(errno: Errno) -> Self {
        Self::Layer(errno)
    }
}

impl From<io::Error> for PieceError {
    fn from(error: io::Error) -> Self {
        Self::Host(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::vfs::Layer;

    fn path(text: &str) -> VPath {
        VPath::parse(text).unwrap()
    }

    #[test]
    fn a_failed_step_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let host = Arc::new(HostDir::open(folder.path()).unwrap());
        let write = |name: &str| {
            let mut file = host.create_file(&path(name), Access::Shared).unwrap();
            file.write_all(name.as_bytes()).unwrap();
        };
        host.create_dir(&path("full"), Access::Shared).unwrap();
        ["old", "gone", "full/kept"].into_iter().for_each(write);
        let names = |dir: &str| {
            let mut names = host.names(&path(dir)).unwrap();
            names.sort();
            names
        };
        let before = names("");
        let unstable = HashSet::from([path("full")]);
        let mut transaction = Transaction::new(host.clone(), unstable);
        let staged = transaction.stage_link(&path("old"), &path("gone")).unwrap();
        transaction.stage_symlink(&path("never"), "placed", None).unwrap();
        transaction.remove(&path("gone"), false).unwrap();
        transaction.create_dir(&path("new"), Access::Shared).unwrap();
        transaction.place(&staged, &path("old"), true).unwrap();
        assert_eq!(host.stat(&path("old")).unwrap().size, 4);
        let error = transaction.remove(&path("full"), true).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::DirectoryNotEmpty);
        assert_eq!((error.operation, error.path), ("remove", path("full")));
        assert!(transaction.create_dir(&path("old"), Access::Shared).is_err());
        assert_eq!(transaction.roll_back(), []);
        assert_eq!(names(""), before);
        assert_eq!(names("full"), ["kept"]);
        assert_eq!(host.stat(&path("old")).unwrap().size, 3);
    }

    #[test]
    fn what_cannot_be_put_back_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let host = Arc::new(HostDir::open(folder.path()).unwrap());
        let mut transaction = Transaction::new(host.clone(), HashSet::new());
        transaction.create_dir(&path("made"), Access::Shared).unwrap();
        host.create_dir(&path("made/theirs"), Access::Shared).unwrap();
        assert_eq!(transaction.roll_back(), [path("made")]);
    }
}
