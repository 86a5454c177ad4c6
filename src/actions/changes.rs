//! What an action changed, made again here.

use std::collections::HashMap;
use std::sync::Arc;

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;

use super::ActionError;
use super::error::fetch;
use super::input_root::{DIRECTORY_BYTES_MAX, Directory, Node};
use crate::base::errno::Errno;
use crate::kernel::vfs::{FileType, Follow, Overlay};
use crate::remote::{Connection, is_digest};

/// Most files, directories and links that a result may bring along. Few directories that contain each other can have more
/// than any machine could hold.
const CHANGES_MAX: usize = 1_000_000;

/// Directories by their digests: those that were uploaded, and those of a result, which are fetched where they differ.
pub struct Trees<'a> {
    known: HashMap<String, Arc<Directory>>,
    server: &'a Connection,
}

impl<'a> Trees<'a> {
    /// Of the directories `uploaded`, which were made here.
    ///
    /// # Errors
    /// [`ActionError::Machine`]: one has a file that is too large.
    pub fn new(
        uploaded: HashMap<String, api::Directory>,
        server: &'a Connection,
    ) -> Result<Self, ActionError> {
        let read = |(hash, message)| Ok((hash, Arc::new(Directory::from_message(message)?)));
        let known = uploaded.into_iter().map(read).collect::<Result<_, String>>();
        Ok(Self { known: known.map_err(ActionError::Machine)?, server })
    }

    fn get(&mut self, digest: &api::Digest) -> Result<Arc<Directory>, ActionError> {
        if let Some(known) = self.known.get(&digest.hash) {
            return Ok(known.clone());
        }
        if !is_digest(digest, DIRECTORY_BYTES_MAX) {
            let reason = format!("a directory has {} bytes", digest.size_bytes);
            return Err(ActionError::invalid("the result", reason));
        }
        let bytes = fetch(self.server, digest, || "a directory of the result".to_owned())?;
        let directory = Directory::from_bytes(&bytes)
            .map_err(|reason| ActionError::invalid("the result", reason))?;
        let directory = Arc::new(directory);
        self.known.insert(digest.hash.clone(), directory.clone());
        Ok(directory)
    }
}

/// Changes in a directory of the namespace.
pub struct Changes<'a, 't> {
    pub vfs: &'a mut Overlay,
    pub trees: &'a mut Trees<'t>,
    /// The time of the changes.
    pub now: u64,
}

/// A directory that the action changed; without `before`, it is new.
struct Changed {
    path: String,
    before: Option<api::Digest>,
    after: api::Digest,
}

impl Changes<'_, '_> {
    /// Makes the directory at the absolute path `path`, which has the digest `before`, the one with the digest `after`.
    ///
    /// # Errors
    /// [`ActionError`]: the result is malformed, its contents are not there, or the namespace does not take a change.
    pub fn make(
        &mut self,
        path: &str,
        before: api::Digest,
        after: api::Digest,
    ) -> Result<(), ActionError> {
        // A list, because recursion could overflow the stack.
        let mut made = 0;
        let mut changed = vec![Changed { path: path.to_owned(), before: Some(before), after }];
        while let Some(Changed { path, before, after }) = changed.pop() {
            if before.as_ref() == Some(&after) {
                continue;
            }
            let old = match &before {
                None => Arc::default(),
                Some(digest) => self.trees.get(digest)?,
            };
            let new = self.trees.get(&after)?;
            let failed =
                |name: &str, errno| ActionError::Output { path: format!("{path}/{name}"), errno };
            for (name, node) in &old.0 {
                let is_same_type = |other: &Node| other.file_type() == node.file_type();
                if !new.0.get(name).is_some_and(is_same_type) {
                    self.remove(&format!("{path}/{name}")).map_err(|errno| failed(name, errno))?;
                }
            }
            for (name, node) in &new.0 {
                let at = format!("{path}/{name}");
                let old = old.0.get(name).filter(|old| old.file_type() == node.file_type());
                if old == Some(node) {
                    continue;
                }
                made += 1;
                if made > CHANGES_MAX {
                    let reason = format!("it has more than {CHANGES_MAX} changes");
                    return Err(ActionError::invalid("the result", reason));
                }
                if let Node::Directory(after) = node {
                    let before = match old {
                        Some(Node::Directory(digest)) => Some(digest.clone()),
                        _ => None,
                    };
                    if before.is_none() {
                        let base = self.vfs.host_base();
                        let made = self.vfs.create_dir(base, &at[1..], self.now);
                        made.map_err(|errno| failed(name, errno))?;
                    }
                    changed.push(Changed { path: at, before, after: after.clone() });
                } else {
                    let content = self.content(old, node, &at)?;
                    self.write(&at, old, node, content).map_err(|errno| failed(name, errno))?;
                }
            }
        }
        Ok(())
    }

    /// The bytes of `node`, if they are others than those of `old`.
    fn content(
        &self,
        old: Option<&Node>,
        node: &Node,
        path: &str,
    ) -> Result<Option<Vec<u8>>, ActionError> {
        let Node::File { digest, .. } = node else { return Ok(None) };
        if matches!(old, Some(Node::File { digest: before, .. }) if before == digest) {
            return Ok(None);
        }
        fetch(self.trees.server, digest, || format!("the output {path:?}")).map(Some)
    }

    fn write(
        &mut self,
        path: &str,
        old: Option<&Node>,
        node: &Node,
        content: Option<Vec<u8>>,
    ) -> Result<(), Errno> {
        let base = self.vfs.host_base();
        match node {
            Node::File { executable, .. } => {
                if let Some(bytes) = content {
                    self.vfs.write(path, &bytes, self.now)?;
                }
                let was = matches!(old, Some(Node::File { executable: true, .. }));
                if old.is_none() || was != *executable {
                    self.vfs.set_executable_at(
                        base,
                        &path[1..],
                        Follow::No,
                        *executable,
                        self.now,
                    )?;
                }
                Ok(())
            }
            Node::Link(text) => {
                if old.is_some() {
                    self.vfs.unlink(base, &path[1..], self.now)?;
                }
                self.vfs.symlink(text, base, &path[1..], self.now)
            }
            Node::Directory(_) => Ok(()),
        }
    }

    /// Removes what is at `path`, with all that is in it.
    fn remove(&mut self, path: &str) -> Result<(), Errno> {
        let base = self.vfs.host_base();
        let (mut directories, mut unlisted) = (Vec::new(), Vec::new());
        if self.vfs.stat(base, &path[1..], Follow::No)?.file_type == FileType::Directory {
            unlisted.push(path.to_owned());
        } else {
            return self.vfs.unlink(base, &path[1..], self.now);
        }
        while let Some(at) = unlisted.pop() {
            let id = self.vfs.open_dir(&at)?;
            let listing = self.vfs.list(id);
            self.vfs.close(id);
            for entry in listing?.iter() {
                let inner = format!("{at}/{}", entry.name);
                if entry.file_type == FileType::Directory {
                    unlisted.push(inner);
                } else {
                    self.vfs.unlink(base, &inner[1..], self.now)?;
                }
            }
            directories.push(at);
        }
        for at in directories.iter().rev() {
            self.vfs.remove_dir(base, &at[1..], self.now)?;
        }
        Ok(())
    }
}
