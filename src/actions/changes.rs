//! What an action changed, made again here.

use std::collections::HashMap;
use std::sync::Arc;

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;

use super::ActionError;
use super::input_root::Node;
use super::moves::{ChangedMount, Moves};
use super::trees::Trees;
use crate::base::errno::Errno;
use crate::kernel::vfs::{FileType, Follow, Overlay, beneath};

/// Most files, directories and links that a result may bring along. Few directories that contain each other can have more
/// than any machine could hold.
const CHANGES_MAX: usize = 1_000_000;

/// Changes in a directory of the namespace.
pub struct Changes<'a, 't> {
    pub vfs: &'a mut Overlay,
    pub trees: &'a mut Trees<'t>,
    /// The time of the changes.
    pub now: u64,
    /// When files were written, by their absolute paths, where that is known.
    pub written: HashMap<String, u64>,
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
    /// Makes the root of `mount` what it was after the run; `moves` have begun.
    ///
    /// # Errors
    /// [`ActionError`]: the result is malformed, its contents are not there, or the namespace does not take a change.
    pub fn make(&mut self, mount: &ChangedMount, moves: &mut Moves) -> Result<(), ActionError> {
        let ChangedMount { path, before, after, .. } = mount;
        let (before, after) = (Some(before.clone()), after.clone());
        // A list, because recursion could overflow the stack.
        let (mut made, mut written) = (0, Vec::new());
        let mut changed = vec![Changed { path: path.clone(), before, after }];
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
                let waiting = moves.take(&at, node);
                if let Some((held, was)) = &waiting {
                    let placed = self.place(held, &at, old.is_some());
                    let placed = placed.map_err(|errno| failed(name, errno))?;
                    old = Some(was).filter(|_| placed);
                }
                let reached = match node {
                    Node::Directory(_) => moves.reach_into(&at),
                    _ => moves.first_name(&at).is_some(),
                };
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
                        // It may hold a mount point here, too.
                        if made != Err(Errno::Exist) || !self.vfs.is_scaffold_at(&at[1..]) {
                            made.map_err(|errno| failed(name, errno))?;
                        }
                    }
                    changed.push(Changed { path: at, before, after: after.clone() });
                } else {
                    let when = self.written.get(&at).copied().unwrap_or(self.now);
                    written.push((when, at, old.cloned(), node.clone()));
                }
            }
        }
        self.write_all(mount, moves, written)
    }

    /// Writes the files and links `written`, each with its time, its path, and what was there before.
    fn write_all(
        &mut self,
        mount: &ChangedMount,
        moves: &Moves,
        mut written: Vec<(u64, String, Option<Node>, Node)>,
    ) -> Result<(), ActionError> {
        // What is written later is later, also here; further names come last.
        written.sort_by_key(|(when, at, ..)| (moves.first_name(at).is_some(), *when));
        for (when, at, mut old, node) in written {
            if let Some((first, whose)) = self.named_before(mount, moves, &at)?
                && whose == node
            {
                if self.link(&first, &at, old.is_some()) {
                    continue;
                }
                old = None;
            }
            let content = self.content(old.as_ref(), &node, &at)?;
            self.write(&at, old.as_ref(), &node, content, when)
                .map_err(|errno| ActionError::Output { path: at, errno })?;
        }
        Ok(())
    }

    /// The first name of the file whose further name is the absolute path `at` in `mount`, and what is there after the run.
    fn named_before(
        &mut self,
        mount: &ChangedMount,
        moves: &Moves,
        at: &str,
    ) -> Result<Option<(String, Node)>, ActionError> {
        let Some(first) = moves.first_name(at) else { return Ok(None) };
        let Some(rest) = beneath(&mount.path, first) else { return Ok(None) };
        Ok(self.trees.find(&mount.after, rest)?.map(|node| (first.to_owned(), node)))
    }

    /// Ends when all mounts are made.
    ///
    /// # Errors
    /// [`ActionError::Output`]: what is of no use any more cannot be removed.
    pub fn finish(&mut self, moves: Moves) -> Result<(), ActionError> {
        for holder in moves.finish() {
            let failed = |errno| ActionError::Output { path: holder.clone(), errno };
            self.remove(&holder).map_err(failed)?;
        }
        Ok(())
    }

    /// Moves what waits at the absolute path `held` to `at`, where it may replace something; returns whether it could be moved.
    fn place(&mut self, held: &str, at: &str, replaces: bool) -> Result<bool, Errno> {
        if replaces {
            self.remove(at)?;
        }
        let base = self.vfs.host_base();
        // A file with several names cannot be moved to another mount: it is made there anew.
        Ok(self.vfs.rename((base, &held[1..]), (base, &at[1..]), self.now).is_ok())
    }

    /// Makes the absolute path `at` a further name of the file `first`, in place of what is there; returns whether that could be done.
    fn link(&mut self, first: &str, at: &str, replaces: bool) -> bool {
        let base = self.vfs.host_base();
        let removed = !replaces || self.vfs.unlink(base, &at[1..], self.now).is_ok();
        let linked = self.vfs.link((base, &first[1..]), Follow::No, (base, &at[1..]), self.now);
        removed && linked.is_ok()
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
            // No old file has this text, unless it was written there on purpose.
            let name = format!("the content {} of {} bytes", digest.hash, digest.size_bytes);
            return Ok(Some(name.into_bytes()));
        }
        self.trees.content(digest, path).map(Some)
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
