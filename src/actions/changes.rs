//! What an action changed, made again here.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;

use super::ActionError;
use super::beside::TimesOf;
use super::error::fetch;
use super::input_root::{DIRECTORY_BYTES_MAX, Directory, Node};
use super::moves::Moves;
use crate::base::errno::Errno;
use crate::kernel::vfs::{FileType, Follow, Overlay, SetTime};
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

impl Trees<'_> {
    /// What the directory with the digest `root` has at `path`.
    ///
    /// # Errors
    /// [`ActionError`]: a directory is malformed, or not there.
    pub fn find(&mut self, root: &api::Digest, path: &str) -> Result<Option<Node>, ActionError> {
        let mut node = Node::Directory(root.clone());
        for name in path.split('/') {
            let Node::Directory(digest) = &node else { return Ok(None) };
            match self.get(digest)?.0.get(name) {
                Some(inner) => node = inner.clone(),
                None => return Ok(None),
            }
        }
        Ok(Some(node))
    }
}

/// Changes in a directory of the namespace.
pub struct Changes<'a, 't> {
    pub vfs: &'a mut Overlay,
    pub trees: &'a mut Trees<'t>,
    /// The time of the changes.
    pub now: u64,
    /// When files were written, by their absolute paths, where that is known.
    pub written: HashMap<String, u64>,
    /// The absolute paths of files that were written.
    pub made: HashSet<String>,
    /// Whether contents are fetched. Without them, a file that changed holds a text that names its new content.
    pub fetches: bool,
}

/// A directory that the action changed; without `before`, it is new.
struct Changed {
    path: String,
    before: Option<api::Digest>,
    after: api::Digest,
}

impl Changes<'_, '_> {
    /// Makes the directory at the absolute path `path`, which has the digest `before`, the one with the digest `after`, which it has
    /// after the `moves`.
    ///
    /// # Errors
    /// [`ActionError`]: the result is malformed, its contents are not there, or the namespace does not take a change.
    pub fn make(
        &mut self,
        path: &str,
        before: api::Digest,
        after: api::Digest,
        mut moves: Moves,
    ) -> Result<(), ActionError> {
        // A list, because recursion could overflow the stack.
        let (mut made, mut written) = (0, Vec::new());
        let mut changed = vec![Changed { path: path.to_owned(), before: Some(before), after }];
        while let Some(Changed { path, before, after }) = changed.pop() {
            if before.as_ref() == Some(&after) && !moves.reach_into(&path) {
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
                let at = format!("{path}/{name}");
                let is_same_type = |other: &Node| other.file_type() == node.file_type();
                if !moves.is_away(&at) && !new.0.get(name).is_some_and(is_same_type) {
                    self.remove(&at).map_err(|errno| failed(name, errno))?;
                }
            }
            for (name, node) in &new.0 {
                let at = format!("{path}/{name}");
                let is_old = |old: &&Node| old.file_type() == node.file_type();
                let mut old = old.0.get(name).filter(|old| is_old(old) && !moves.is_away(&at));
                let moved = moves.take(&at, node);
                if let Some((held, was)) = &moved {
                    if old.is_some() {
                        self.remove(&at).map_err(|errno| failed(name, errno))?;
                    }
                    let base = self.vfs.host_base();
                    let renamed = self.vfs.rename((base, &held[1..]), (base, &at[1..]), self.now);
                    renamed.map_err(|errno| failed(name, errno))?;
                    old = Some(was);
                }
                let reached = matches!(node, Node::Directory(_)) && moves.reach_into(&at);
                if old == Some(node) && !reached {
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
                    let when = self.written.get(&at).copied().unwrap_or(self.now);
                    written.push((when, at, old.cloned(), node.clone()));
                }
            }
        }
        // What is written later is later, also here.
        written.sort_by_key(|(when, ..)| *when);
        for (when, at, old, node) in written {
            let content = self.content(old.as_ref(), &node, &at)?;
            self.write(&at, old.as_ref(), &node, content, when)
                .map_err(|errno| ActionError::Output { path: at, errno })?;
        }
        if let Some(holder) = moves.finish() {
            let failed = |errno| ActionError::Output { path: holder.clone(), errno };
            self.remove(&holder).map_err(failed)?;
        }
        Ok(())
    }

    /// Gives the file at the absolute path `path` the `times`, if it is there.
    pub fn set_times(&mut self, path: &str, times: &TimesOf) {
        if !times.was_set && self.made.contains(path) {
            return;
        }
        let (accessed, modified) = (SetTime::At(times.accessed_ns), SetTime::At(times.modified_ns));
        let base = self.vfs.host_base();
        // Of what is not there, nothing is told.
        let (follow, now) = (Follow::No, times.changed_ns);
        let _ = self.vfs.set_times_at(base, &path[1..], follow, accessed, modified, now);
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
        if !self.fetches {
            // The old file holds this only if somebody has written it there for that.
            let name = format!("the content {} of {} bytes", digest.hash, digest.size_bytes);
            return Ok(Some(name.into_bytes()));
        }
        fetch(self.trees.server, digest, || format!("the output {path:?}")).map(Some)
    }

    fn write(
        &mut self,
        path: &str,
        old: Option<&Node>,
        node: &Node,
        content: Option<Vec<u8>>,
        now: u64,
    ) -> Result<(), Errno> {
        let base = self.vfs.host_base();
        match node {
            Node::File { executable, .. } => {
                if let Some(bytes) = content {
                    self.vfs.write(path, &bytes, now)?;
                    self.made.insert(path.to_owned());
                }
                let is_executable = self.vfs.is_executable_at(base, &path[1..], Follow::No)?;
                if is_executable != *executable {
                    self.vfs.set_executable_at(base, &path[1..], Follow::No, *executable, now)?;
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
