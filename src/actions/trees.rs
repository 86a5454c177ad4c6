//! Directories of inputs and results, by their digests.

use std::collections::HashMap;
use std::sync::Arc;

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;

use super::ActionError;
use super::error::fetch;
use super::input_root::{DIRECTORY_BYTES_MAX, Directory, Node};
use crate::remote::{Connection, is_digest};

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

    /// The directory with this `digest`.
    ///
    /// # Errors
    /// [`ActionError`]: it is malformed, or not there.
    pub fn get(&mut self, digest: &api::Digest) -> Result<Arc<Directory>, ActionError> {
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

    /// The content with this `digest`, of the output `path`.
    ///
    /// # Errors
    /// [`ActionError`]: it is not there.
    pub fn content(&self, digest: &api::Digest, path: &str) -> Result<Vec<u8>, ActionError> {
        fetch(self.server, digest, || format!("the output {path:?}"))
    }

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
