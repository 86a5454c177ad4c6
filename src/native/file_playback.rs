//! Checks the files of replayed programs, and makes again what these changed.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file_recording::show_on_disk;
use super::files_error::FilesError;
use super::made_files::{Making, vpath};
use super::mismatch::Difference;
use super::subprocess_files::Writer;
use super::taped_files::{TapedChange, TapedInput, TapedState};
use super::{MakeFiles, SubprocessFiles, TapeEntry};
use crate::base::digest::Digest;
use crate::kernel::machine::Machine;
use crate::kernel::vfs::{
    DiffKind, EntryState, FileVersion, HostDir, KnownDigests, Mtimes, Overlay, Source, VPath,
    VfsLimits, WORKTREE, is_sensitive,
};
use crate::store::StoreError;
use crate::tape::TapeStore;

/// A file that a replay did not make, although the recorded program changed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnmadeFile {
    /// Its path from the root of the session.
    pub path: String,
    /// Why it was not made.
    pub why: Unmade,
}

/// Why a replay does not make a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmade {
    /// The session makes no files: [`MakeFiles::Nowhere`].
    Nowhere,
    /// Other tools may run or obey it, and files are made on the disk.
    Sensitive,
    /// It is no file, directory or symbolic link.
    Special,
}

/// The files of a session that is replayed.
pub(super) struct FilePlayback {
    root: PathBuf,
    /// Opened when the first entry has files.
    host: Option<Arc<HostDir>>,
    settings: SubprocessFiles,
    store: TapeStore,
    known: KnownDigests,
    /// The state of files that were not made, for programs that were given them later.
    unmade: BTreeMap<VPath, (Option<TapedState>, Unmade)>,
    /// Programs that were started and have not ended.
    running: Vec<Running>,
}

/// What a replay needs to find at a path.
struct Expected<'a> {
    path: &'a str,
    state: Option<&'a TapedState>,
    /// Or this: what the program made there is there already, as an earlier replay has left it.
    or: Option<&'a TapedState>,
}

impl<'a> Expected<'a> {
    fn of_input(input: &'a TapedInput) -> Self {
        Self { path: &input.path, state: Some(&input.state), or: None }
    }

    fn of_change(change: &'a TapedChange) -> Self {
        let TapedChange { path, before, after } = change;
        let or = if before.is_none() { after.as_ref() } else { None };
        Self { path, state: before.as_ref(), or }
    }
}

struct Running {
    index: usize,
    /// Programs that ended before it when it was recorded.
    ended: u64,
    changes: Vec<TapedChange>,
    /// What its entry needs was compared when it started.
    is_checked: bool,
}

impl FilePlayback {
    pub fn new(root: &Path, tape: &Path, settings: &SubprocessFiles) -> Self {
        Self {
            root: if root.as_os_str().is_empty() { ".".into() } else { root.to_owned() },
            host: None,
            settings: settings.clone(),
            store: TapeStore::of(tape),
            known: KnownDigests::default(),
            unmade: BTreeMap::new(),
            running: Vec::new(),
        }
    }

    /// What was not made so far.
    pub fn unmade(&self) -> Vec<UnmadeFile> {
        let file = |(path, (_, why)): (&VPath, &(_, Unmade))| UnmadeFile {
            path: path.as_str().to_owned(),
            why: *why,
        };
        self.unmade.iter().map(file).collect()
    }

    /// The files that are not as they were before the program of `entry` was recorded. What it changes is compared at
    /// its end if others run beside it.
    ///
    /// # Errors
    /// [`FilesError`].
    pub fn differences(
        &mut self,
        entry: &TapeEntry,
        machine: &mut Machine,
    ) -> Result<Vec<Difference>, FilesError> {
        let inputs = entry.inputs.iter().map(Expected::of_input);
        let is_alone = self.is_alone(entry);
        let changes = entry.changes.iter().filter(|_| is_alone).map(Expected::of_change);
        let expected: Vec<_> = inputs.chain(changes).collect();
        self.compare(&expected, machine)
    }

    /// Whether no other program changed files while that of `entry` ran, as far as is known at its start.
    fn is_alone(&self, entry: &TapeEntry) -> bool {
        self.running.is_empty() && entry.ended.is_none()
    }

    /// Notes that the program of `entry`, number `index` of the tape, has started.
    pub fn begin(&mut self, index: usize, entry: &TapeEntry) {
        let ended = entry.ended.unwrap_or(index as u64 + 1);
        let is_checked = self.is_alone(entry);
        let changes = entry.changes.clone();
        self.running.push(Running { index, ended, changes, is_checked });
    }

    /// Makes what the program of entry `index` changed, after what programs changed that ended before it when they were
    /// recorded. Returns the files that are not as they were then; then nothing is made.
    ///
    /// # Errors
    /// [`FilesError`].
    pub fn end(
        &mut self,
        index: usize,
        machine: &mut Machine,
    ) -> Result<Vec<Difference>, FilesError> {
        let Some(ended) = self.running.iter().find(|it| it.index == index).map(|it| it.ended)
        else {
            return Ok(Vec::new());
        };
        let mut due: Vec<usize> =
            (0..self.running.len()).filter(|at| self.running[*at].ended <= ended).collect();
        due.sort_by_key(|at| self.running[*at].ended);
        for at in due {
            let changes = std::mem::take(&mut self.running[at].changes);
            let is_checked = std::mem::replace(&mut self.running[at].is_checked, true);
            if !is_checked {
                let expected: Vec<_> = changes.iter().map(Expected::of_change).collect();
                let differences = self.compare(&expected, machine)?;
                if !differences.is_empty() {
                    return Ok(differences);
                }
            }
            self.make(&changes, machine)?;
        }
        self.running.retain(|it| it.index != index);
        Ok(Vec::new())
    }

    fn host(&mut self) -> Result<Arc<HostDir>, FilesError> {
        if let Some(host) = &self.host {
            return Ok(host.clone());
        }
        let opened = HostDir::open(&self.root)
            .map_err(|source| FilesError::Root { path: self.root.clone(), source })?;
        Ok(self.host.insert(Arc::new(opened)).clone())
    }

    fn compare(
        &mut self,
        expected: &[Expected<'_>],
        machine: &mut Machine,
    ) -> Result<Vec<Difference>, FilesError> {
        if expected.is_empty() {
            return Ok(Vec::new());
        }
        let host = self.host()?;
        let changed = match self.settings.make {
            MakeFiles::InOverlay => changed(machine.vfs_mut())?,
            MakeFiles::Nowhere | MakeFiles::OnDisk => HashMap::new(),
        };
        let mut differences = Vec::new();
        for Expected { path, state, or } in expected {
            let at = vpath(path);
            let refused = |errno| FilesError::Refused { path: (*path).to_owned(), errno };
            let now = if let Some((state, _)) = self.unmade.get(&at) {
                state.clone()
            } else {
                let found = match changed.get(&at) {
                    Some(change) => change.state().map_err(refused)?,
                    None => host.entry_state(&at, &mut self.known).map_err(refused)?,
                };
                found.as_ref().map(TapedState::of)
            };
            let is_expected = |state| TapedState::is_same(state, now.as_ref());
            if !(is_expected(*state) || or.is_some() && is_expected(*or)) {
                differences.push(Difference {
                    field: format!("file {path}"),
                    tape: TapedState::shown(*state),
                    asked: TapedState::shown(now.as_ref()),
                });
            }
        }
        Ok(differences)
    }

    fn make(&mut self, changes: &[TapedChange], machine: &mut Machine) -> Result<(), FilesError> {
        let make = self.settings.make;
        let mut due = Vec::new();
        for change in changes {
            let why = match make {
                MakeFiles::Nowhere => Some(Unmade::Nowhere),
                MakeFiles::OnDisk if is_sensitive(&change.path) => Some(Unmade::Sensitive),
                _ if change.after == Some(TapedState::Other) => Some(Unmade::Special),
                _ => None,
            };
            let path = vpath(&change.path);
            if let Some(why) = why {
                self.unmade.insert(path, (change.after.clone(), why));
            } else {
                self.unmade.remove(&path);
                due.push(change.clone());
            }
        }
        if due.is_empty() {
            return Ok(());
        }
        let host = if make == MakeFiles::OnDisk { Some(self.host()?) } else { None };
        let from = (&self.store, self.settings.file_bytes_max);
        let mut content_of = |path: &str, digest, len_bytes| content(from, path, digest, len_bytes);
        let changes: Vec<&TapedChange> = due.iter().collect();
        match (host, machine.worktree()) {
            (Some(host), _) => {
                make_on_disk(host, &changes, &mut content_of, &self.settings.write)?;
                show_on_disk(&due, machine, &mut content_of)
            }
            (None, Some(at)) => {
                let now_ns = machine.now_ns();
                // All or nothing.
                let mut vfs = machine.vfs().clone();
                Making { vfs: &mut vfs, at, now_ns }.make(&changes, &mut content_of)?;
                *machine.vfs_mut() = vfs;
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }
}

/// Makes `changes` beneath the directory `host` of the disk, all or nothing.
fn make_on_disk(
    host: Arc<HostDir>,
    changes: &[&TapedChange],
    content_of: super::made_files::ContentOf<'_>,
    write: &Writer,
) -> Result<(), FilesError> {
    // A time of 0 leaves the times to the host.
    let mut vfs = Overlay::new(VfsLimits::default(), 0);
    let mounted = vfs.mount(WORKTREE, Source::Host(host), false, Mtimes::Host, 0);
    mounted.map_err(|errno| FilesError::Refused { path: ".".to_owned(), errno })?;
    Making { vfs: &mut vfs, at: WORKTREE, now_ns: 0 }.make(changes, content_of)?;
    match &write.0 {
        Some(write) => write(&mut vfs).map_err(FilesError::Write)?,
        None => drop(vfs.apply()?),
    }
    Ok(())
}

/// The content of the file `path`, of at most `limit_bytes` bytes.
fn content(
    (store, limit_bytes): (&TapeStore, u64),
    path: &str,
    digest: Digest,
    len_bytes: u64,
) -> Result<Vec<u8>, FilesError> {
    if len_bytes > limit_bytes {
        return Err(FilesError::TooLong { path: path.to_owned(), len_bytes, limit_bytes });
    }
    let bytes = store.get(digest, len_bytes)?;
    if bytes.len() as u64 == len_bytes {
        return Ok(bytes);
    }
    Err(StoreError::Damaged { path: store.dir().join(digest.to_string()) }.into())
}

/// What the namespace shows at a path that programs changed.
enum Changed {
    Nothing,
    File(FileVersion),
    State(EntryState),
}

impl Changed {
    fn state(&self) -> Result<Option<EntryState>, crate::base::errno::Errno> {
        Ok(match self {
            Self::Nothing => None,
            Self::State(state) => Some(state.clone()),
            Self::File(file) => {
                let (digest, len_bytes) = file.digest()?;
                Some(EntryState::File { digest, len_bytes, executable: file.executable })
            }
        })
    }
}

/// What changed in the worktree, by path.
fn changed(vfs: &mut Overlay) -> Result<HashMap<VPath, Changed>, FilesError> {
    let mut changed = HashMap::new();
    let worktree = vfs.worktree();
    for entry in vfs.diff()?.into_iter().filter(|entry| Some(entry.mount) == worktree) {
        let state = match entry.kind {
            DiffKind::Added { content } | DiffKind::Modified { content, .. } => {
                Changed::File(content)
            }
            DiffKind::DirAdded => Changed::State(EntryState::Dir),
            DiffKind::SymlinkAdded { target } | DiffKind::SymlinkModified { target, .. } => {
                Changed::State(EntryState::Link { target })
            }
            DiffKind::SpecialAdded { .. } => Changed::State(EntryState::Other),
            // A change of type is a deletion followed by an addition.
            DiffKind::Deleted { .. }
            | DiffKind::DirDeleted
            | DiffKind::SymlinkDeleted { .. }
            | DiffKind::SpecialDeleted { .. } => Changed::Nothing,
        };
        changed.insert(entry.path, state);
    }
    Ok(changed)
}
