//! A tree of directories that a server keeps by their digests: nothing is fetched before it is asked for.

use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;
use prost::Message as _;
use prost::encoding::{DecodeContext, decode_key, skip_field};

use super::ActionError;
use super::error::fetch;
use crate::base::errno::Errno;
use crate::kernel::machine::{Interrupter, Machine};
use crate::kernel::vfs::{Blob, DirEntry, FileType, HostFile, Layer, Stat, VPath, check_name};
use crate::remote::{CONTENT_BYTES_MAX, Connection, is_digest, len_of};

/// Largest description of one directory, in bytes. In memory, one that is made up can take up to 24 times as much.
pub const DIRECTORY_BYTES_MAX: u64 = 32 << 20;

/// Most names in a directory.
const NAMES_MAX: usize = 200_000;

/// Most names that an action lists. A few directories that contain each other's names twice, forty levels deep, have more
/// than any machine could hold.
const LISTED_MAX: u64 = 1_000_000;

/// What was fetched for an action.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fetched {
    /// Directories.
    pub directories: u64,
    /// Files.
    pub files: u64,
    /// Bytes of the files.
    pub file_bytes: u64,
}

/// The input root of an action, or a directory in it.
#[derive(Clone)]
pub struct InputRoot {
    root: api::Digest,
    shared: Arc<Shared>,
}

struct Shared {
    server: Arc<Connection>,
    state: Mutex<State>,
}

struct State {
    directories: HashMap<Key, Arc<Directory>>,
    files: HashMap<Key, Kept>,
    /// Where the files are that were fetched, one after the other. It has no name, or is removed when it is closed.
    scratch: File,
    scratch_len: u64,
    reader: Arc<HostFile>,
    fetched: Fetched,
    /// Names that were listed.
    listed: u64,
    /// The first failure: what the program did after it means nothing.
    failure: Option<ActionError>,
    /// Whether there was one. Nothing is fetched any more.
    has_failed: bool,
    interrupter: Option<Interrupter>,
}

/// A digest: the hash and the length. A wrong length must not find what another digest has.
type Key = (String, i64);

fn key(digest: &api::Digest) -> Key {
    (digest.hash.clone(), digest.size_bytes)
}

/// A file that was fetched.
#[derive(Clone, Copy)]
struct Kept {
    offset: u64,
    len: u64,
}

/// A directory, by name.
#[derive(Debug, Default)]
pub struct Directory(pub BTreeMap<String, Node>);

/// What is at a name.
#[derive(Clone, PartialEq, Debug)]
pub enum Node {
    Directory(api::Digest),
    File { digest: api::Digest, executable: bool },
    Link(String),
}

impl Directory {
    /// Decodes a directory.
    ///
    /// # Errors
    /// Why it is refused: a name is malformed or occurs twice, a digest is malformed, a link has no text.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        expect_few_fields(bytes)?;
        Self::from_message(api::Directory::decode(bytes).map_err(|error| error.to_string())?)
    }

    /// As [`Self::from_bytes`], from what is decoded already.
    ///
    /// # Errors
    /// The same.
    pub fn from_message(message: api::Directory) -> Result<Self, String> {
        let mut directory = Self::default();
        for api::DirectoryNode { name, digest } in message.directories {
            let digest = checked(&name, digest, DIRECTORY_BYTES_MAX)?;
            directory.add(name, Node::Directory(digest))?;
        }
        for file in message.files {
            let digest = checked(&file.name, file.digest, u64::MAX)?;
            let executable = file.is_executable;
            directory.add(file.name, Node::File { digest, executable })?;
        }
        for link in message.symlinks {
            if link.target.is_empty() || link.target.contains('\0') {
                return Err(format!("the text of the symbolic link {:?} is none", link.name));
            }
            directory.add(link.name, Node::Link(link.target))?;
        }
        Ok(directory)
    }

    fn add(&mut self, name: String, node: Node) -> Result<(), String> {
        let is_name =
            !matches!(&*name, "" | "." | "..") && !name.contains('/') && check_name(&name).is_ok();
        if !is_name {
            return Err(format!("{name:?} is no name"));
        }
        match self.0.entry(name) {
            Entry::Occupied(taken) => Err(format!("the name {:?} is there twice", taken.key())),
            Entry::Vacant(free) => {
                free.insert(node);
                Ok(())
            }
        }
    }
}

/// Fails if the message `bytes` has more fields than a directory has names, before memory is taken for each.
fn expect_few_fields(bytes: &[u8]) -> Result<(), String> {
    let mut rest = bytes;
    for _ in 0..NAMES_MAX {
        if rest.is_empty() {
            return Ok(());
        }
        let (tag, wire_type) = decode_key(&mut rest).map_err(|error| error.to_string())?;
        let skipped = skip_field(wire_type, tag, &mut rest, DecodeContext::default());
        skipped.map_err(|error| error.to_string())?;
    }
    if rest.is_empty() { Ok(()) } else { Err(format!("it has more than {NAMES_MAX} names")) }
}

/// The names in the encoded directory `bytes`.
///
/// # Errors
/// Why it is none.
pub fn names_in_directory(bytes: &[u8]) -> Result<Vec<String>, String> {
    Ok(Directory::from_bytes(bytes)?.0.into_keys().collect())
}

/// The digest of `name`, if it is one of contents with at most `bytes_max` bytes.
fn checked(name: &str, digest: Option<api::Digest>, bytes_max: u64) -> Result<api::Digest, String> {
    match digest {
        Some(digest) if is_digest(&digest, bytes_max) => Ok(digest),
        Some(api::Digest { hash, size_bytes }) => {
            Err(format!("{name:?} has {size_bytes} bytes, and the digest {hash:?}"))
        }
        None => Err(format!("{name:?} has no digest")),
    }
}

impl InputRoot {
    /// The tree of the directory `root` of `server`.
    ///
    /// # Errors
    /// [`ActionError::Machine`] if there is no place for what is fetched.
    pub fn new(server: Arc<Connection>, root: api::Digest) -> Result<Self, ActionError> {
        let scratch = tempfile::tempfile();
        let file = scratch.and_then(|scratch| Ok((scratch.try_clone()?, scratch)));
        let (reader, scratch) = file.map_err(|error| {
            ActionError::Machine(format!("no temporary file can be made: {error}"))
        })?;
        let state = State {
            directories: HashMap::new(),
            files: HashMap::new(),
            scratch,
            scratch_len: 0,
            reader: Arc::new(reader.into()),
            fetched: Fetched::default(),
            listed: 0,
            failure: None,
            has_failed: false,
            interrupter: None,
        };
        Ok(Self { root, shared: Arc::new(Shared { server, state: Mutex::new(state) }) })
    }

    /// Its digest.
    pub fn digest(&self) -> &api::Digest {
        &self.root
    }

    /// The description of the directory with `digest`, which is in it, as the server has it.
    ///
    /// # Errors
    /// [`ActionError`]: it cannot be fetched, or is malformed.
    pub fn message(&self, digest: &api::Digest) -> Result<api::Directory, ActionError> {
        let what = || "a directory of the input root".to_owned();
        let bytes = self.fetch(digest, what).map_err(|errno| self.why(errno))?;
        let wrong = |reason| ActionError::invalid(what(), reason);
        expect_few_fields(&bytes).map_err(wrong)?;
        api::Directory::decode(&*bytes).map_err(|error| wrong(error.to_string()))
    }

    /// The directory `path` in it.
    ///
    /// # Errors
    /// [`ActionError`]: it is not there, or cannot be fetched.
    pub fn directory_at(&self, path: &str) -> Result<Self, ActionError> {
        let found = VPath::parse(path).and_then(|path| self.find(&path));
        match found {
            Ok(Some(Node::Directory(root))) => Ok(Self { root, shared: self.shared.clone() }),
            _ => Err(self.take_failure().unwrap_or_else(|| {
                ActionError::invalid("the input root", format!("it has no directory {path:?}"))
            })),
        }
    }

    /// The content of its file `path`, of at most `bytes_max` bytes; `None` if there is none.
    ///
    /// # Errors
    /// [`ActionError`]: it cannot be fetched, or is larger.
    pub fn read(&self, path: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, ActionError> {
        let path = VPath::parse(path)
            .map_err(|errno| ActionError::invalid("a path", errno.to_string()))?;
        match self.find(&path) {
            Ok(Some(Node::File { digest, .. }))
                if len_of(&digest).is_some_and(|len| len <= bytes_max) =>
            {
                let bytes = self.fetch(&digest, || format!("the input file {:?}", path.as_str()));
                bytes.map(Some).map_err(|errno| self.why(errno))
            }
            Ok(Some(Node::File { .. })) => {
                Err(ActionError::invalid("the input root", format!("{path} is too large")))
            }
            Ok(_) | Err(Errno::Noent) => Ok(None),
            Err(errno) => Err(self.why(errno)),
        }
    }

    fn why(&self, errno: Errno) -> ActionError {
        self.take_failure().unwrap_or_else(|| ActionError::Machine(errno.to_string()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // An entry is added when it is complete.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was fetched.
    pub fn fetched(&self) -> Fetched {
        self.state().fetched
    }

    /// The first failure, if something could not be fetched.
    pub fn take_failure(&self) -> Option<ActionError> {
        self.state().failure.take()
    }

    /// Notes that `why` ends the action, and ends the program.
    fn failed(&self, why: ActionError) -> Errno {
        let mut state = self.state();
        if std::mem::replace(&mut state.has_failed, true) {
            return Errno::Io;
        }
        state.failure = Some(why);
        let interrupter = state.interrupter.clone();
        drop(state);
        if let Some(interrupter) = interrupter {
            // From its own thread it would wait for itself.
            thread::spawn(move || interrupter.interrupt());
        }
        Errno::Io
    }

    /// Ends the runs of `machine` when something cannot be fetched.
    pub fn end_on_failure(&self, machine: &mut Machine) {
        let interrupter = Interrupter::default();
        machine.set_interrupter(Some(interrupter.clone()));
        self.state().interrupter = Some(interrupter);
    }

    /// What is at `path`; `None` for the root.
    ///
    /// # Errors
    /// `ENOENT`; `EIO`, and [`Self::take_failure`] says why.
    pub fn find(&self, path: &VPath) -> Result<Option<Node>, Errno> {
        let Some((parents, last)) = path.split_last() else { return Ok(None) };
        let mut at = self.directory(&self.root, "")?;
        let (mut rest, mut end) = (parents.as_str(), 0);
        while !rest.is_empty() {
            let (name, after) = rest.split_once('/').unwrap_or((rest, ""));
            end += name.len();
            let Some(Node::Directory(digest)) = at.0.get(name) else { return Err(Errno::Noent) };
            at = self.directory(digest, &parents.as_str()[..end])?;
            (rest, end) = (after, end + 1);
        }
        at.0.get(last).cloned().map(Some).ok_or(Errno::Noent)
    }

    /// The directory with `digest`, at `path`.
    fn directory(&self, digest: &api::Digest, path: &str) -> Result<Arc<Directory>, Errno> {
        if let Some(known) = self.state().directories.get(&key(digest)) {
            return Ok(known.clone());
        }
        let what = || format!("the directory {:?} of the input root", format!("/{path}"));
        let bytes = self.fetch(digest, what)?;
        let directory = Directory::from_bytes(&bytes)
            .map_err(|reason| self.failed(ActionError::invalid(what(), reason)))?;
        let directory = Arc::new(directory);
        let mut state = self.state();
        state.fetched.directories += 1;
        state.directories.insert(key(digest), directory.clone());
        Ok(directory)
    }

    fn fetch(&self, digest: &api::Digest, what: impl Fn() -> String) -> Result<Vec<u8>, Errno> {
        if self.state().has_failed {
            return Err(Errno::Io);
        }
        if len_of(digest).is_none_or(|len| len > CONTENT_BYTES_MAX) {
            let why =
                format!("{} has more bytes than a worker takes: {}", what(), digest.size_bytes);
            return Err(self.failed(ActionError::Machine(why)));
        }
        fetch(&self.shared.server, digest, what).map_err(|error| self.failed(error))
    }

    /// The content of the file `path`, which has `digest`.
    fn content(&self, digest: &api::Digest, path: &VPath) -> Result<Blob, Errno> {
        if let Some(blob) = self.state().blob(digest) {
            return Ok(blob);
        }
        let bytes = self.fetch(digest, || format!("the input file {:?}", path.as_str()))?;
        let mut state = self.state();
        // A failure leaves bytes behind that nothing refers to, and the length is only what is known to be written.
        if let Err(error) = state.keep(digest, &bytes) {
            drop(state);
            let why = format!("the input file {:?} cannot be kept: {error}", path.as_str());
            return Err(self.failed(ActionError::Machine(why)));
        }
        state.blob(digest).ok_or(Errno::Io)
    }
}

impl State {
    fn blob(&self, digest: &api::Digest) -> Option<Blob> {
        let Kept { offset, len } = *self.files.get(&key(digest))?;
        Some(Blob::Part { file: self.reader.clone(), offset, len })
    }

    fn keep(&mut self, digest: &api::Digest, bytes: &[u8]) -> io::Result<()> {
        self.scratch.seek(SeekFrom::Start(self.scratch_len))?;
        self.scratch.write_all(bytes)?;
        let kept = Kept { offset: self.scratch_len, len: bytes.len() as u64 };
        self.scratch_len += kept.len;
        self.files.insert(key(digest), kept);
        self.fetched.files += 1;
        self.fetched.file_bytes += kept.len;
        Ok(())
    }
}

impl Node {
    pub(super) fn file_type(&self) -> FileType {
        match self {
            Self::Directory(_) => FileType::Directory,
            Self::File { .. } => FileType::RegularFile,
            Self::Link(_) => FileType::SymbolicLink,
        }
    }

    /// A number that is another one for another digest.
    fn stamp(&self) -> u64 {
        let hash = match self {
            Self::Directory(digest) | Self::File { digest, .. } => &digest.hash,
            Self::Link(_) => return 0,
        };
        u64::from_str_radix(&hash[..16], 16).unwrap_or(0)
    }
}

impl Layer for InputRoot {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno> {
        let node = self.find(path)?;
        let file_type = node.as_ref().map_or(FileType::Directory, Node::file_type);
        let (size, executable) = match &node {
            Some(Node::File { digest, executable }) => (len_of(digest).unwrap_or(0), *executable),
            _ => (0, true),
        };
        let stamp = node.as_ref().map_or(0, Node::stamp);
        Ok(Stat { file_type, size, mtime_ns: 0, executable, stamp, inode: 0, nlink: 1 })
    }

    fn list(&self, path: &VPath) -> Result<Vec<DirEntry>, Errno> {
        let directory = match self.find(path)? {
            None => self.directory(&self.root, "")?,
            Some(Node::Directory(digest)) => self.directory(&digest, path.as_str())?,
            Some(_) => return Err(Errno::Notdir),
        };
        let listed = {
            let mut state = self.state();
            state.listed += directory.0.len() as u64;
            state.listed
        };
        if listed > LISTED_MAX {
            let reason = format!("the program listed more than {LISTED_MAX} names");
            return Err(self.failed(ActionError::invalid("the input root", reason)));
        }
        let entry = |(name, node): (&String, &Node)| DirEntry {
            name: name.as_str().into(),
            file_type: node.file_type(),
        };
        Ok(directory.0.iter().map(entry).collect())
    }

    fn read_link(&self, path: &VPath) -> Result<Box<[u8]>, Errno> {
        match self.find(path)? {
            Some(Node::Link(text)) => Ok(text.into_bytes().into()),
            _ => Err(Errno::Inval),
        }
    }

    fn open(&self, path: &VPath) -> Result<Blob, Errno> {
        match self.find(path)? {
            Some(Node::File { digest, .. }) => self.content(&digest, path),
            Some(Node::Directory(_)) | None => Err(Errno::Isdir),
            Some(Node::Link(_)) => Err(Errno::Inval),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::Blob as Known;

    fn digest_of(bytes: &[u8]) -> api::Digest {
        Known::new(bytes.to_vec()).digest
    }

    fn file(name: &str) -> api::FileNode {
        api::FileNode {
            name: name.to_owned(),
            digest: Some(digest_of(b"x")),
            ..api::FileNode::default()
        }
    }

    #[test]
    fn directories_with_wrong_names_are_refused() {
        let long = "x".repeat(256);
        for name in ["", ".", "..", "a/b", "/", "a\0b", &long] {
            let message = api::Directory { files: vec![file(name)], ..Default::default() };
            let error = Directory::from_bytes(&message.encode_to_vec()).unwrap_err();
            assert!(error.ends_with("is no name"), "{error}");
        }
    }

    #[test]
    fn directories_with_a_name_twice_are_refused() {
        let link = api::SymlinkNode {
            name: "a".to_owned(),
            target: "b".to_owned(),
            ..api::SymlinkNode::default()
        };
        let message =
            api::Directory { files: vec![file("a")], symlinks: vec![link], ..Default::default() };
        let error = Directory::from_bytes(&message.encode_to_vec()).unwrap_err();
        assert_eq!(error, "the name \"a\" is there twice");
    }

    #[test]
    fn directories_with_wrong_digests_are_refused() {
        for digest in [
            None,
            Some(api::Digest { hash: "../../etc".to_owned(), size_bytes: 1 }),
            Some(api::Digest { size_bytes: -1, ..digest_of(b"x") }),
        ] {
            let files = vec![api::FileNode { digest, ..file("a") }];
            let message = api::Directory { files, ..Default::default() };
            Directory::from_bytes(&message.encode_to_vec()).unwrap_err();
        }
    }
}
