//! Makes changes of files in a namespace, whoever recorded them: paths are resolved without following links.

use super::taped_files::TapedState;
use super::{FilesError, TapedBytes, TapedChange};
use crate::base::digest::Digest;
use crate::base::errno::Errno;
use crate::kernel::vfs::{FileType, Follow, Overlay, VPath};

/// Returns the content of the file at a path, which has this digest and length.
pub(super) type ContentOf<'a> = &'a mut dyn FnMut(&str, Digest, u64) -> Result<Vec<u8>, FilesError>;

/// A namespace in which files are made.
pub(super) struct Making<'a> {
    pub vfs: &'a mut Overlay,
    /// Where the root of the session is mounted.
    pub at: &'a str,
    /// The time of the changes.
    pub now_ns: u64,
}

impl Making<'_> {
    /// Gives every path of `changes` its state after the change. The namespace may be left with some of the changes
    /// after an error.
    ///
    /// # Errors
    /// [`FilesError`].
    pub fn make(
        &mut self,
        changes: &[&TapedChange],
        content_of: ContentOf<'_>,
    ) -> Result<(), FilesError> {
        // What is beneath a directory sorts after it: it goes before it, and comes after it.
        for change in changes.iter().rev() {
            self.clear(change)?;
        }
        changes.iter().try_for_each(|change| self.put(change, content_of))
    }

    fn full(&self, path: &str) -> String {
        format!("{}/{path}", self.at.trim_start_matches('/'))
    }

    /// The type of what is at `path`.
    fn look(&mut self, path: &str) -> Result<Option<FileType>, FilesError> {
        let base = self.vfs.host_base();
        for (end, _) in path.match_indices('/') {
            let full = self.full(&path[..end]);
            match self.vfs.stat(base, &full, Follow::No) {
                Ok(found) if found.file_type == FileType::Directory => {}
                Ok(_) => {
                    let (path, at) = (path.to_owned(), path[..end].to_owned());
                    return Err(FilesError::NotADir { path, at });
                }
                Err(Errno::Noent) => return Ok(None),
                Err(errno) => return Err(refused(path)(errno)),
            }
        }
        let full = self.full(path);
        match self.vfs.stat(base, &full, Follow::No) {
            Ok(found) => Ok(Some(found.file_type)),
            Err(Errno::Noent) => Ok(None),
            Err(errno) => Err(refused(path)(errno)),
        }
    }

    /// Removes what is in the way of the state after `change`.
    fn clear(&mut self, change: &TapedChange) -> Result<(), FilesError> {
        let path = &*change.path;
        let found = match self.look(path) {
            Ok(Some(found)) => found,
            // What is on the way may be replaced by a directory; if it is not, putting the state fails.
            Ok(None) | Err(FilesError::NotADir { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let stays = match (&change.after, found) {
            (Some(TapedState::Dir), FileType::Directory)
            | (Some(TapedState::File { .. }), FileType::RegularFile) => true,
            (Some(TapedState::Link { target }), FileType::SymbolicLink) => {
                self.has_link(path, target)
            }
            _ => false,
        };
        if stays {
            return Ok(());
        }
        let (base, full) = (self.vfs.host_base(), self.full(path));
        let removed = match found {
            FileType::Directory => self.vfs.remove_dir(base, &full, self.now_ns),
            _ => self.vfs.unlink(base, &full, self.now_ns),
        };
        removed.map_err(refused(path))
    }

    fn has_link(&mut self, path: &str, target: &TapedBytes) -> bool {
        let (base, full) = (self.vfs.host_base(), self.full(path));
        self.vfs.read_link(base, &full).is_ok_and(|text| text.as_bytes() == target.0)
    }

    fn put(&mut self, change: &TapedChange, content_of: ContentOf<'_>) -> Result<(), FilesError> {
        let path = &*change.path;
        let Some(after) = &change.after else { return Ok(()) };
        let found = self.look(path)?;
        let (base, full) = (self.vfs.host_base(), self.full(path));
        match after {
            TapedState::Dir if found.is_none() => {
                self.vfs.create_dir(base, &full, self.now_ns).map(drop).map_err(refused(path))
            }
            TapedState::Link { target } if found.is_none() => {
                let text = std::str::from_utf8(&target.0);
                let text = text.map_err(|_| refused(path)(Errno::Ilseq))?;
                self.vfs.symlink(text, base, &full, self.now_ns).map_err(refused(path))
            }
            TapedState::File { content_hash, len_bytes, executable, withheld_by } => {
                if !self.has_content(&full, *content_hash, *len_bytes) {
                    if let Some(rule) = withheld_by {
                        let (path, rule) = (path.to_owned(), rule.clone());
                        return Err(FilesError::Withheld { path, rule });
                    }
                    let bytes = content_of(path, *content_hash, *len_bytes)?;
                    let absolute = format!("/{full}");
                    self.vfs.write(&absolute, &bytes, self.now_ns).map_err(refused(path))?;
                }
                let has = self.vfs.is_executable_at(base, &full, Follow::No);
                if has.map_err(refused(path))? == *executable {
                    return Ok(());
                }
                let set =
                    self.vfs.set_executable_at(base, &full, Follow::No, *executable, self.now_ns);
                set.map_err(refused(path))
            }
            TapedState::Dir | TapedState::Link { .. } => Ok(()),
            TapedState::Other => Err(refused(path)(Errno::Notsup)),
        }
    }

    /// Whether the file `full` has this content. One that cannot be read is written.
    fn has_content(&mut self, full: &str, digest: Digest, len_bytes: u64) -> bool {
        let base = self.vfs.host_base();
        let found = self.vfs.stat(base, full, Follow::No);
        found.is_ok_and(|it| it.file_type == FileType::RegularFile && it.size == len_bytes)
            && self.vfs.read(&format!("/{full}")).is_ok_and(|bytes| Digest::of(&bytes) == digest)
    }
}

fn refused(path: &str) -> impl FnOnce(Errno) -> FilesError {
    let path = path.to_owned();
    |errno| FilesError::Refused { path, errno }
}

/// The path of a checked entry.
pub(super) fn vpath(path: &str) -> VPath {
    VPath::parse(path).unwrap_or_else(|_| VPath::root())
}
