//! What an action made: the files, directories and symbolic links at the paths of its outputs.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Bound;

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;
use prost::Message as _;

use super::ActionError;
use super::input_root::{InputRoot, Node};
use super::known_inputs::{KnownInputs, innermost, state_of};
use crate::base::errno::Errno;
use crate::kernel::vfs::{
    Base, DiffEntry, FileType, Follow, Listed, Listing, Mount, Overlay, VPath,
};
use crate::remote::{BESIDE_BYTES, Blob, Connection, again};

/// Bytes of contents that wait to be uploaded together.
const WAITING_BYTES_MAX: u64 = 32 << 20;

/// Most files that wait to be asked for at the server.
const UNREAD_MAX: usize = 20_000;

/// Most bytes of an output stream that are part of the result itself.
const INLINE_BYTES_MAX: usize = 1 << 10;

/// Most names in a directory that is an output, at any depth.
const NAMES_MAX: usize = 1_000_000;

/// How the directories of outputs are described.
#[derive(Clone, Copy)]
pub struct Forms {
    /// As one message with all of them.
    pub tree: bool,
    /// Each by itself.
    pub directories: bool,
}

/// Directories, with the hashes of their digests.
type Described = Vec<(String, api::Directory)>;

/// The outputs of an action, on their way to the server.
pub struct Outputs<'a> {
    vfs: &'a mut Overlay,
    /// What is below, by mount point.
    inputs: &'a [(String, InputRoot)],
    server: &'a Connection,
    forms: Forms,
    /// Absolute paths at which something is that the inputs do not have.
    changed: BTreeSet<String>,
    /// Absolute paths of mounts: what is there is none of the outputs around them.
    mount_points: BTreeSet<String>,
    waiting: Vec<Blob>,
    waiting_bytes: u64,
    /// Hashes of contents that were uploaded.
    sent: HashSet<String>,
    /// Digests of inputs that are outputs, which the server may lack.
    reused: HashMap<String, api::Digest>,
    /// A directory of the inputs has another digest than the one that its description has here.
    has_odd_inputs: bool,
    /// The directories that were uploaded by themselves, by their digests.
    uploaded: HashMap<String, api::Directory>,
    /// Digests of files that were read before.
    known: Option<KnownInputs>,
    /// Files that were not read, because their digests are known, and their paths.
    unread: Vec<(api::Digest, String)>,
}

impl<'a> Outputs<'a> {
    /// The outputs in `vfs`, whose mounts have `inputs` below and whose changes are `entries`. Without inputs, everything is read.
    pub fn new(
        vfs: &'a mut Overlay,
        inputs: &'a [(String, InputRoot)],
        entries: &[DiffEntry],
        server: &'a Connection,
        forms: Forms,
    ) -> Self {
        let mounts = vfs.mounts();
        let full = |DiffEntry { mount, path, .. }: &DiffEntry| {
            Some(path.absolute(&mounts.get(mount.index())?.path()))
        };
        let changed = entries.iter().filter_map(full).collect();
        let mount_points = vfs.mounts().iter().map(Mount::path).collect();
        let (waiting, waiting_bytes, sent) = (Vec::new(), 0, HashSet::new());
        let (reused, uploaded) = (HashMap::new(), HashMap::new());
        Self {
            vfs,
            inputs,
            server,
            forms,
            changed,
            mount_points,
            waiting,
            waiting_bytes,
            sent,
            reused,
            has_odd_inputs: false,
            uploaded,
            known: None,
            unread: Vec::new(),
        }
    }

    /// Files whose digests are `known` are read only if the server lacks them.
    pub fn with_known(mut self, known: Option<KnownInputs>) -> Self {
        self.known = known;
        self
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
                let (digest, is_executable) = self.file(&real)?;
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
        self.upload_blob(Blob::new(bytes))
    }

    fn upload_blob(&mut self, blob: Blob) -> Result<api::Digest, ActionError> {
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
        let unread = std::mem::take(&mut self.unread);
        let digests: Vec<_> = unread.iter().map(|(digest, _)| digest.clone()).collect();
        let missing = again(|| self.server.missing(&digests))?;
        let mut missing: HashSet<String> = missing.into_iter().map(|digest| digest.hash).collect();
        for (digest, real) in unread {
            if !missing.remove(&digest.hash) {
                continue;
            }
            let failed = |errno| ActionError::Output { path: real.clone(), errno };
            let blob = Blob::new(self.vfs.read(&real).map_err(failed)?);
            if blob.digest != digest {
                return Err(ActionError::Changed { path: real });
            }
            self.waiting_bytes += blob.bytes.len() as u64 + BESIDE_BYTES;
            self.waiting.push(blob);
            if self.waiting_bytes > WAITING_BYTES_MAX {
                self.write()?;
            }
        }
        self.write()
    }

    fn write(&mut self) -> Result<(), ActionError> {
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
        self.known.into_iter().for_each(KnownInputs::save);
        let reused: Vec<_> = std::mem::take(&mut self.reused).into_values().collect();
        let lost = again(|| self.server.missing(&reused))?;
        // Of no bytes, servers need not know.
        match lost.into_iter().find(|digest| digest.size_bytes != 0) {
            None => Ok(self.uploaded),
            Some(digest) => Err(ActionError::missing("an input that is an output", &digest)),
        }
    }

    /// Whether a file could not be read because it changed on the disk.
    fn is_drifted(&mut self) -> bool {
        self.vfs.take_drifts().iter().any(|drift| drift.kind.is_error())
    }

    /// Whether the absolute path `real` is a mount point, or a directory that was made to hold one and holds nothing else.
    fn is_for_mounts(&mut self, real: &str) -> bool {
        if self.mount_points.contains(real) {
            return true;
        }
        if !has_beneath(&self.mount_points, real) || !self.vfs.is_scaffold_at(&real[1..]) {
            return false;
        }
        let Ok(id) = self.vfs.open_dir(real) else { return false };
        let listed = self.vfs.list(id);
        self.vfs.close(id);
        // As deep as the paths of mounts are.
        listed.is_ok_and(|listed| {
            listed.iter().all(|entry| self.is_for_mounts(&format!("{real}/{}", entry.name)))
        })
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

    /// The file at the absolute path `real`, without symbolic links on the way.
    fn file(&mut self, real: &str) -> Result<(api::Digest, bool), ActionError> {
        let failed = |errno| ActionError::Output { path: real.to_owned(), errno };
        if !self.changed.contains(real)
            && let Some(Node::File { digest, executable }) = self.input(real)
        {
            self.reused.insert(digest.hash.clone(), digest.clone());
            return Ok((digest, executable));
        }
        let executable = self.vfs.is_executable_at(self.base(), &real[1..], Follow::No);
        let executable = executable.map_err(failed)?;
        let state = self.known.as_ref().and_then(|_| state_of(self.vfs, real));
        if let (Some(known), Some(state)) = (&mut self.known, state)
            && let Some(digest) = known.get(real, state)
        {
            if self.sent.insert(digest.hash.clone()) {
                self.unread.push((digest.clone(), real.to_owned()));
            }
            if self.unread.len() >= UNREAD_MAX {
                self.flush()?;
            }
            return Ok((digest, executable));
        }
        let bytes = self.vfs.read(real).map_err(|errno| match errno {
            // A file that changes while it is read could be a mixture of two.
            Errno::Io if self.is_drifted() => ActionError::Changed { path: real.to_owned() },
            errno => failed(errno),
        });
        let blob = Blob::new(bytes?);
        if let (Some(known), Some(state)) = (&mut self.known, state) {
            known.put(self.vfs, real, state, &blob.digest);
        }
        Ok((self.upload_blob(blob)?, executable))
    }

    /// The inputs of which the absolute path `real` is one, and its path there.
    fn inputs_of<'p>(&self, real: &'p str) -> Option<(&'a InputRoot, &'p str)> {
        innermost(self.inputs.iter().map(|(at, root)| (at, root)), real)
    }

    /// The input at the absolute path `real`, whether it is as it was or not.
    fn input(&self, real: &str) -> Option<Node> {
        let (root, rest) = self.inputs_of(real)?;
        match root.find(&VPath::parse(rest).ok()?) {
            Ok(None) => Some(Node::Directory(root.digest().clone())),
            Ok(found) => found,
            Err(_) => None,
        }
    }

    /// The input directory at the absolute path `real`, if nothing in it is another than it was, and its digest.
    fn unchanged(&self, real: &str) -> Option<(&'a InputRoot, api::Digest)> {
        let is_changed = self.changed.contains(real) || has_beneath(&self.changed, real);
        if is_changed || has_beneath(&self.mount_points, real) {
            return None;
        }
        let Some(Node::Directory(digest)) = self.input(real) else { return None };
        Some((self.inputs_of(real)?.0, digest))
    }

    /// The directories that the one with `digest`, of `inputs`, has at any depth, each once, and it itself first; `None` if one
    /// would have another digest here: who reads a tree finds its directories by encoding them.
    fn tree_of_inputs(
        inputs: &InputRoot,
        digest: &api::Digest,
    ) -> Result<Option<Described>, ActionError> {
        let (mut seen, mut wanted, mut tree) = (HashSet::new(), vec![digest.clone()], Vec::new());
        while let Some(digest) = wanted.pop() {
            if !seen.insert(digest.hash.clone()) {
                continue;
            }
            let message = inputs.message(&digest)?;
            if Blob::of(&message).digest != digest {
                return Ok(None);
            }
            wanted.extend(message.directories.iter().filter_map(|node| node.digest.clone()));
            tree.push((digest.hash, message));
        }
        Ok(Some(tree))
    }

    /// The input directory at the absolute path `real`, if nothing in it is another than it was: its digest, and if a tree is
    /// wanted, its directories.
    fn reused(&mut self, real: &str) -> Result<Option<(api::Digest, Described)>, ActionError> {
        let Some((inputs, digest)) = self.unchanged(real) else { return Ok(None) };
        let tree = match self.forms.tree {
            true if self.has_odd_inputs => None,
            true => Self::tree_of_inputs(inputs, &digest)?,
            false => Some(Vec::new()),
        };
        let Some(tree) = tree else {
            // Not looked for in each directory again.
            self.has_odd_inputs = true;
            return Ok(None);
        };
        self.reused.insert(digest.hash.clone(), digest.clone());
        Ok(Some((digest, tree)))
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
        let (mut seen, mut children) = (HashSet::new(), Vec::new());
        let (mut root, mut root_digest) = (api::Directory::default(), None);
        // Those of directories, by path.
        let mut digests: HashMap<String, api::Digest> = HashMap::new();
        // Parents before children; a list, because recursion could overflow the stack.
        let mut directories: Vec<(String, Listing)> = Vec::new();
        let (mut unlisted, mut names) = (vec![real.to_owned()], 0);
        while let Some(at) = unlisted.pop() {
            let failed = |errno| ActionError::Output { path: at.clone(), errno };
            if let Some((digest, tree)) = self.reused(&at)? {
                let mut tree = tree.into_iter();
                if at == real {
                    root = tree.next().map(|(_, message)| message).unwrap_or_default();
                    root_digest = Some(digest);
                } else {
                    digests.insert(at, digest);
                }
                let added = tree.filter(|(hash, _)| seen.insert(hash.clone()));
                children.extend(added.map(|(_, message)| message));
                continue;
            }
            let id = self.vfs.open_dir(&at).map_err(failed)?;
            let listed = self.vfs.list(id);
            self.vfs.close(id);
            let listed = listed.map_err(failed)?;
            names += listed.len();
            if names > NAMES_MAX {
                let reason = format!("it has more than {NAMES_MAX} names");
                return Err(ActionError::invalid(real, reason));
            }
            let inner = listed.iter().filter(|entry| entry.file_type == FileType::Directory);
            for inner in inner.map(|entry| format!("{at}/{}", entry.name)) {
                if !self.is_for_mounts(&inner) {
                    unlisted.push(inner);
                }
            }
            directories.push((at, listed));
        }
        for (at, listed) in directories.into_iter().rev() {
            let message = self.message(&at, &listed, &mut digests)?;
            let blob = Blob::of(&message);
            if self.forms.directories {
                self.uploaded.insert(blob.digest.hash.clone(), message.clone());
                self.upload_blob(blob.clone())?;
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
        digests: &mut HashMap<String, api::Digest>,
    ) -> Result<api::Directory, ActionError> {
        let mut message = api::Directory::default();
        for Listed { name, file_type, .. } in listed {
            let (real, name) = (format!("{at}/{name}"), name.to_string());
            if self.is_for_mounts(&real) {
                continue;
            }
            match file_type {
                FileType::Directory => {
                    let digest = digests.remove(&real);
                    message.directories.push(api::DirectoryNode { name, digest });
                }
                FileType::RegularFile => {
                    let (digest, is_executable) = self.file(&real)?;
                    message.files.push(api::FileNode {
                        name,
                        digest: Some(digest),
                        is_executable,
                        ..api::FileNode::default()
                    });
                }
                FileType::SymbolicLink => {
                    let target = self.vfs.read_link(self.base(), &real[1..]);
                    let failed = |errno| ActionError::Output { path: real.clone(), errno };
                    let target = target.map_err(failed)?.to_owned();
                    let link = api::SymlinkNode { name, target, ..api::SymlinkNode::default() };
                    message.symlinks.push(link);
                }
                _ => {}
            }
        }
        Ok(message)
    }
}

/// Whether one of the absolute `paths` is beneath the directory `at`.
pub fn has_beneath(paths: &BTreeSet<String>, at: &str) -> bool {
    let prefix = format!("{at}/");
    let from = (Bound::Included(&*prefix), Bound::Unbounded);
    paths.range::<str, _>(from).next().is_some_and(|path| path.starts_with(&prefix))
}
