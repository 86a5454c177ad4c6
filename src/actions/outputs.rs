//! What an action made: the files, directories and symbolic links at the paths of its outputs.

use std::collections::{HashMap, HashSet};

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;
use prost::Message as _;

use super::ActionError;
use super::input_root::{InputRoot, Node};
use crate::base::errno::Errno;
use crate::kernel::vfs::{
    Base, DiffEntry, FileType, Follow, Listed, Listing, Overlay, VPath, beneath,
};
use crate::remote::{BESIDE_BYTES, Blob, Connection, again};

/// Bytes of contents that wait to be uploaded together.
const WAITING_BYTES_MAX: u64 = 32 << 20;

/// Most bytes of an output stream that are part of the result itself.
const INLINE_BYTES_MAX: usize = 1 << 10;

/// How the directories of outputs are described.
#[derive(Clone, Copy)]
pub struct Forms {
    /// As one message with all of them.
    pub tree: bool,
    /// Each by itself.
    pub directories: bool,
}

/// The outputs of an action, on their way to the server.
pub struct Outputs<'a> {
    vfs: &'a mut Overlay,
    /// What is below, by mount point.
    inputs: &'a [(String, InputRoot)],
    server: &'a Connection,
    forms: Forms,
    /// Absolute paths at which something is that the inputs do not have.
    changed: HashSet<String>,
    waiting: Vec<Blob>,
    waiting_bytes: u64,
    /// Hashes of contents that were uploaded.
    sent: HashSet<String>,
    /// Digests of inputs that are outputs, which the server may lack.
    reused: HashMap<String, api::Digest>,
    /// The directories that were uploaded by themselves, by their digests.
    uploaded: HashMap<String, api::Directory>,
}

impl<'a> Outputs<'a> {
    /// The outputs in `vfs`, whose mounts have `inputs` below.
    ///
    /// # Errors
    /// [`ActionError::Machine`] if the changes cannot be found out.
    pub fn new(
        vfs: &'a mut Overlay,
        inputs: &'a [(String, InputRoot)],
        server: &'a Connection,
        forms: Forms,
    ) -> Result<Self, ActionError> {
        let mut changed = HashSet::new();
        // Without inputs, everything is read.
        if !inputs.is_empty() {
            let entries = vfs.diff().map_err(|error| ActionError::Machine(error.to_string()))?;
            let mounts = vfs.mounts();
            let full = |DiffEntry { mount, path, .. }: &DiffEntry| {
                Some(path.absolute(&mounts.get(mount.index())?.path()))
            };
            changed.extend(entries.iter().filter_map(full));
        }
        let (waiting, waiting_bytes, sent) = (Vec::new(), 0, HashSet::new());
        let (reused, uploaded) = (HashMap::new(), HashMap::new());
        Ok(Self {
            vfs,
            inputs,
            server,
            forms,
            changed,
            waiting,
            waiting_bytes,
            sent,
            reused,
            uploaded,
        })
    }

    /// Uploads what is at the absolute path `full`, and notes it in `result` as the output `path`.
    ///
    /// # Errors
    /// [`ActionError`]: it cannot be read or uploaded. It is no error if nothing is there.
    pub fn add(
        &mut self,
        full: &str,
        path: &str,
        result: &mut api::ActionResult,
    ) -> Result<(), ActionError> {
        let failed = |errno| ActionError::Output { path: path.to_owned(), errno };
        if path.is_empty() {
            // The working directory itself, also by a symbolic link to it.
            let real = self.real_path(full).map_err(failed)?;
            let directory = self.directory(&real, path)?;
            result.output_directories.push(directory);
            return Ok(());
        }
        let (parent, name) = full.rsplit_once('/').unwrap_or(("", full));
        // The way there may lead over symbolic links.
        let parent = match self.real_path(if parent.is_empty() { "/" } else { parent }) {
            Ok(parent) => parent,
            Err(Errno::Noent | Errno::Notdir | Errno::Loop) => return Ok(()),
            Err(errno) => return Err(failed(errno)),
        };
        let real = format!("{}/{name}", parent.trim_end_matches('/'));
        let file_type = match self.vfs.stat(self.base(), &real[1..], Follow::No) {
            Ok(metadata) => metadata.file_type,
            Err(Errno::Noent) => return Ok(()),
            Err(errno) => return Err(failed(errno)),
        };
        match file_type {
            FileType::Directory => {
                let directory = self.directory(&real, path)?;
                result.output_directories.push(directory);
            }
            FileType::SymbolicLink => {
                let target = self.vfs.read_link(self.base(), &real[1..]).map_err(failed)?;
                let (path, target) = (path.to_owned(), target.to_owned());
                let link = api::OutputSymlink { path, target, ..api::OutputSymlink::default() };
                result.output_symlinks.push(link);
            }
            FileType::RegularFile => {
                let (digest, is_executable) = self.file(&real, path)?;
                result.output_files.push(api::OutputFile {
                    path: path.to_owned(),
                    digest: Some(digest),
                    is_executable,
                    ..api::OutputFile::default()
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// Uploads `bytes`; returns their digest.
    ///
    /// # Errors
    /// [`ActionError::Remote`].
    pub fn upload(&mut self, bytes: Vec<u8>) -> Result<api::Digest, ActionError> {
        let blob = Blob::new(bytes);
        let digest = blob.digest.clone();
        if !self.sent.insert(digest.hash.clone()) {
            return Ok(digest);
        }
        // Something for its digest, too: there can be many that are empty.
        self.waiting_bytes += blob.bytes.len() as u64 + BESIDE_BYTES;
        self.waiting.push(blob);
        if self.waiting_bytes > WAITING_BYTES_MAX {
            self.flush()?;
        }
        Ok(digest)
    }

    /// An output stream as a result has it: its bytes, or, if there are many, their digest.
    ///
    /// # Errors
    /// [`ActionError::Remote`].
    pub fn stream(&mut self, bytes: &[u8]) -> Result<(Vec<u8>, Option<api::Digest>), ActionError> {
        if bytes.len() <= INLINE_BYTES_MAX {
            return Ok((bytes.to_vec(), None));
        }
        Ok((Vec::new(), Some(self.upload(bytes.to_vec())?)))
    }

    fn flush(&mut self) -> Result<(), ActionError> {
        self.waiting_bytes = 0;
        if self.waiting.is_empty() {
            return Ok(());
        }
        let waiting = std::mem::take(&mut self.waiting);
        Ok(again(|| self.server.write(waiting.clone()))?)
    }

    /// Ends when all is uploaded; returns the directories that were uploaded by themselves, by their digests.
    ///
    /// # Errors
    /// [`ActionError::Remote`].
    pub fn finish(mut self) -> Result<HashMap<String, api::Directory>, ActionError> {
        self.flush()?;
        let reused: Vec<_> = std::mem::take(&mut self.reused).into_values().collect();
        let lost = again(|| self.server.missing(&reused))?;
        // Of no bytes, servers need not know.
        match lost.into_iter().find(|digest| digest.size_bytes != 0) {
            None => Ok(self.uploaded),
            Some(api::Digest { hash, size_bytes: len }) => Err(ActionError::Missing {
                what: "an input that is an output".to_owned(),
                hash,
                len,
            }),
        }
    }

    fn base(&self) -> Base {
        self.vfs.host_base()
    }

    /// The path of the directory `path` without symbolic links.
    fn real_path(&mut self, path: &str) -> Result<String, Errno> {
        let id = self.vfs.open_dir(path)?;
        let real = self.vfs.dir_path(id);
        self.vfs.close(id);
        real.ok_or(Errno::Noent)
    }

    /// The file at the absolute path `real`, without symbolic links on the way, which is that or in that of the output `path`.
    fn file(&mut self, real: &str, path: &str) -> Result<(api::Digest, bool), ActionError> {
        let failed = |errno| ActionError::Output { path: path.to_owned(), errno };
        if let Some((digest, executable)) = self.known(real) {
            self.reused.insert(digest.hash.clone(), digest.clone());
            return Ok((digest, executable));
        }
        let executable = self.vfs.is_executable_at(self.base(), &real[1..], Follow::No);
        let executable = executable.map_err(failed)?;
        let bytes = self.vfs.read(real).map_err(failed)?;
        Ok((self.upload(bytes)?, executable))
    }

    /// The digest of the input file at the absolute path `real`, and whether it is executable, if it is as it was.
    fn known(&self, real: &str) -> Option<(api::Digest, bool)> {
        if self.changed.contains(real) {
            return None;
        }
        let below = self.inputs.iter().filter_map(|(at, root)| Some((root, beneath(at, real)?)));
        // The one with the shortest rest hides the others.
        let (root, rest) = below.min_by_key(|(_, rest)| rest.len())?;
        match root.find(&VPath::parse(rest).ok()?) {
            Ok(Some(Node::File { digest, executable })) => Some((digest, executable)),
            _ => None,
        }
    }

    /// The directory at the absolute path `real`, as output `path`.
    ///
    /// # Errors
    /// [`ActionError`]: it cannot be read or uploaded.
    pub fn directory(
        &mut self,
        real: &str,
        path: &str,
    ) -> Result<api::OutputDirectory, ActionError> {
        let failed = |errno| ActionError::Output { path: path.to_owned(), errno };
        // Parents before children; a list, because recursion could overflow the stack.
        let mut directories: Vec<(String, Listing)> = Vec::new();
        let mut unlisted = vec![real.to_owned()];
        while let Some(at) = unlisted.pop() {
            let id = self.vfs.open_dir(&at).map_err(failed)?;
            let listed = self.vfs.list(id);
            self.vfs.close(id);
            let listed = listed.map_err(failed)?;
            let inner = listed.iter().filter(|entry| entry.file_type == FileType::Directory);
            unlisted.extend(inner.map(|entry| format!("{at}/{}", entry.name)));
            directories.push((at, listed));
        }
        let mut digests: HashMap<String, api::Digest> = HashMap::new();
        let (mut seen, mut children) = (HashSet::new(), Vec::new());
        let (mut root, mut root_digest) = (api::Directory::default(), None);
        for (at, listed) in directories.into_iter().rev() {
            let message = self.message(&at, &listed, path, &mut digests)?;
            let blob = Blob::of(&message);
            if self.forms.directories {
                self.uploaded.insert(blob.digest.hash.clone(), message.clone());
                self.upload(blob.bytes)?;
            }
            if at == real {
                (root, root_digest) = (message, Some(blob.digest));
            } else {
                digests.insert(at, blob.digest.clone());
                if self.forms.tree && seen.insert(blob.digest.hash) {
                    children.push(message);
                }
            }
        }
        children.reverse();
        let tree_digest = if self.forms.tree {
            let tree = api::Tree { root: Some(root), children };
            Some(self.upload(tree.encode_to_vec())?)
        } else {
            None
        };
        Ok(api::OutputDirectory {
            path: path.to_owned(),
            tree_digest,
            root_directory_digest: root_digest.filter(|_| self.forms.directories),
            ..api::OutputDirectory::default()
        })
    }

    /// The directory `at` with the entries `listed`, whose own directories have these `digests`.
    fn message(
        &mut self,
        at: &str,
        listed: &[Listed],
        path: &str,
        digests: &mut HashMap<String, api::Digest>,
    ) -> Result<api::Directory, ActionError> {
        let failed = |errno| ActionError::Output { path: path.to_owned(), errno };
        let mut message = api::Directory::default();
        for Listed { name, file_type, .. } in listed {
            let (real, name) = (format!("{at}/{name}"), name.to_string());
            match file_type {
                FileType::Directory => {
                    let digest = digests.remove(&real);
                    message.directories.push(api::DirectoryNode { name, digest });
                }
                FileType::RegularFile => {
                    let (digest, is_executable) = self.file(&real, path)?;
                    message.files.push(api::FileNode {
                        name,
                        digest: Some(digest),
                        is_executable,
                        ..api::FileNode::default()
                    });
                }
                FileType::SymbolicLink => {
                    let target = self.vfs.read_link(self.base(), &real[1..]).map_err(failed)?;
                    let target = target.to_owned();
                    let link = api::SymlinkNode { name, target, ..api::SymlinkNode::default() };
                    message.symlinks.push(link);
                }
                _ => {}
            }
        }
        Ok(message)
    }
}
