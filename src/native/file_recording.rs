//! Records what native programs change beneath the root of a session.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::files_error::FilesError;
use super::given_files::{Given, given};
use super::made_files::Making;
use super::opened_files::{Opened, Watch};
use super::taped_files::{TapedChange, TapedInput, TapedState};
use super::{SubprocessFiles, SubprocessRequest};
use crate::base::digest::Digest;
use crate::base::disk;
use crate::kernel::machine::Machine;
use crate::kernel::vfs::{EntryState, FolderScan, HostDir, Layer, StateChange, VPath};
use crate::store::{Cas, StoreError, read_slice};
use crate::tape::{Redaction, cas_dir};

/// What is recorded of the files of one call.
#[derive(Default)]
pub(super) struct RecordedFiles {
    pub inputs: Vec<TapedInput>,
    pub changes: Vec<TapedChange>,
    /// How many programs had ended when it ended, itself included; `None` if they ended in the order of starting.
    pub ended: Option<u64>,
}

/// The files of a session that is recorded. Contents go into the store of the tape at once, and are removed again unless
/// the tape is written.
pub(super) struct FileRecording {
    host: HostDir,
    settings: SubprocessFiles,
    redaction: Redaction,
    /// The tape and its store, where they are beneath the root.
    own: Vec<VPath>,
    /// The root as it was last seen.
    scan: Arc<FolderScan>,
    /// `None` where the system does not tell which files are opened.
    watch: Option<Watch>,
    /// In the order of starting.
    running: Vec<Running>,
    started: u64,
    ended: u64,
    cas: Cas,
    /// The contents of the tape, and which rule withheld them.
    kept: HashMap<Digest, Option<String>>,
    kept_bytes: u64,
    /// Contents that were not in the store before.
    added: Vec<Digest>,
    is_finished: bool,
}

struct Running {
    call: u64,
    number: u64,
    given: Given,
    /// What was opened while it ran; `None` if that is not known.
    opened: Option<BTreeSet<VPath>>,
    /// The root as it was before.
    before: Arc<FolderScan>,
    changes: BTreeMap<VPath, (Option<EntryState>, Option<EntryState>)>,
}

impl Running {
    fn take(&mut self, changes: Vec<StateChange>) {
        for StateChange { path, before, after } in changes {
            match self.changes.get_mut(&path) {
                Some(known) => known.1 = after,
                None => drop(self.changes.insert(path, (before, after))),
            }
        }
        self.changes.retain(|_, (before, after)| before != after);
    }

    /// The files that it was given: those that it opened, or if that is not known, all in the directories that it was
    /// told to look at.
    fn inputs(&self) -> Vec<TapedInput> {
        let mut inputs = self.given.named.clone();
        match &self.opened {
            None => inputs.extend(self.given.in_dirs.clone()),
            Some(opened) => {
                let found = opened.iter().filter_map(|path| Some((path, self.before.get(path)?)));
                let files = found.filter(|(_, state)| !matches!(state, EntryState::Dir));
                inputs.extend(files.map(|(path, state)| (path.clone(), TapedState::of(state))));
            }
        }
        inputs.retain(|path, _| !self.changes.contains_key(path));
        let input =
            |(path, state): (VPath, _)| TapedInput { path: path.as_str().to_owned(), state };
        inputs.into_iter().map(input).collect()
    }
}

impl FileRecording {
    /// Begins to record the directory `root` for the tape at `tape`.
    ///
    /// # Errors
    /// [`FilesError`]: the root cannot be opened, or the store is a link.
    pub fn new(
        root: &Path,
        tape: &Path,
        settings: &SubprocessFiles,
        redaction: &Redaction,
    ) -> Result<Self, FilesError> {
        let root = if root.as_os_str().is_empty() { Path::new(".") } else { root };
        let host = HostDir::open(root)
            .map_err(|source| FilesError::Root { path: root.to_owned(), source })?;
        let cas = Cas::new(cas_dir(tape));
        cas.expect_folder()?;
        let host_path = host.path().to_owned();
        let own = [tape, cas.dir()].into_iter().filter_map(|path| within(&host, path)).collect();
        Ok(Self {
            host,
            settings: settings.clone(),
            redaction: redaction.clone(),
            own,
            scan: Arc::default(),
            watch: Watch::new(host_path.as_path()),
            running: Vec::new(),
            started: 0,
            ended: 0,
            cas,
            kept: HashMap::new(),
            kept_bytes: 0,
            added: Vec::new(),
            is_finished: false,
        })
    }

    fn scan_now(&self) -> Result<FolderScan, FilesError> {
        let skips = |path: &VPath| {
            self.settings.ignores(path.as_str()) || self.own.iter().any(|own| own == path)
        };
        self.host.scan(&self.scan, &skips, self.settings.entries_max).map_err(FilesError::Scan)
    }

    /// Takes what changed since the last look. Changes while programs run are those of the one that has run longest;
    /// others were made by the caller, who makes them again in a replay.
    fn look(&mut self) -> Result<Vec<StateChange>, FilesError> {
        self.note_opened();
        let scan = self.scan_now()?;
        let changes = scan.changes_since(&self.scan);
        self.scan = Arc::new(scan);
        if self.watch.as_mut().is_some_and(|watch| !watch.follow(&self.scan)) {
            self.watch = None;
        }
        // The scan has opened files itself. While programs run, what they opened meanwhile counts as well.
        self.note_opened();
        Ok(changes)
    }

    /// Notes what was opened since the last look, by whichever of the running programs.
    fn note_opened(&mut self) {
        let opened = match &mut self.watch {
            Some(watch) => watch.take(),
            None => Opened::Unknown,
        };
        for running in &mut self.running {
            match &opened {
                Opened::Unknown => running.opened = None,
                Opened::Files(files) => {
                    if let Some(known) = &mut running.opened {
                        known.extend(files.iter().cloned());
                    }
                }
            }
        }
    }

    /// Notes that the program of `call` starts.
    ///
    /// # Errors
    /// [`FilesError`].
    pub fn begin(
        &mut self,
        call: u64,
        request: &SubprocessRequest,
        root: &Path,
    ) -> Result<(), FilesError> {
        let found = self.look()?;
        if let Some(first) = self.running.first_mut() {
            first.take(found);
        }
        self.started += 1;
        let given = given(request, root, self.host.path(), &self.scan);
        let (number, before, changes) = (self.started, self.scan.clone(), BTreeMap::new());
        let opened = self.watch.is_some().then(BTreeSet::new);
        self.running.push(Running { call, number, given, opened, before, changes });
        Ok(())
    }

    /// Returns what the program of `call`, which has ended, was given and has changed.
    ///
    /// # Errors
    /// [`FilesError`].
    pub fn end(&mut self, call: u64) -> Result<RecordedFiles, FilesError> {
        let Some(at) = self.running.iter().position(|running| running.call == call) else {
            return Ok(RecordedFiles::default());
        };
        self.note_opened();
        let mut ended = self.running.remove(at);
        ended.take(self.look()?);
        self.ended += 1;
        let mut recorded = RecordedFiles {
            inputs: ended.inputs(),
            changes: Vec::new(),
            ended: (self.ended != ended.number).then_some(self.ended),
        };
        for (path, (before, after)) in ended.changes {
            let change = StateChange { path, before, after };
            match self.keep(&change) {
                // Another program is writing it.
                Err(FilesError::Changing { .. }) if !self.running.is_empty() => {
                    Arc::make_mut(&mut self.scan).set(&change.path, change.before);
                }
                kept => recorded.changes.push(kept?),
            }
        }
        Ok(recorded)
    }

    /// The taped form of `change`, with its content in the store.
    fn keep(&mut self, change: &StateChange) -> Result<TapedChange, FilesError> {
        let mut taped = TapedChange::of(change);
        if let Some(TapedState::File { content_hash, len_bytes, withheld_by, .. }) =
            &mut taped.after
        {
            *withheld_by = self.keep_content(&change.path, *content_hash, *len_bytes)?;
        }
        Ok(taped)
    }

    /// Puts the content of the file `path` into the store; returns the rule that withholds it, if there is one.
    fn keep_content(
        &mut self,
        path: &VPath,
        digest: Digest,
        len_bytes: u64,
    ) -> Result<Option<String>, FilesError> {
        if let Some(withheld_by) = self.kept.get(&digest) {
            return Ok(withheld_by.clone());
        }
        let shown = || path.as_str().to_owned();
        let limit_bytes = self.settings.file_bytes_max;
        if len_bytes > limit_bytes {
            return Err(FilesError::TooLong { path: shown(), len_bytes, limit_bytes });
        }
        let bytes = read(&self.host, path, digest, len_bytes)?;
        let withheld_by = self.redaction.find(&bytes).map(str::to_owned);
        if withheld_by.is_none() {
            self.kept_bytes = self.kept_bytes.saturating_add(len_bytes);
            let limit_bytes = self.settings.bytes_max;
            if self.kept_bytes > limit_bytes {
                return Err(FilesError::Full { path: shown(), limit_bytes });
            }
            // Contents of an older tape are used if they match their digest.
            if self.cas.open(digest, len_bytes).is_err() {
                self.cas.put(digest, &mut read_slice(&bytes))?;
                self.added.push(digest);
            }
        }
        self.kept.insert(digest, withheld_by.clone());
        Ok(withheld_by)
    }

    /// Shows in the namespace of `machine` what `changes` changed on the disk, where it has looked before.
    ///
    /// # Errors
    /// [`FilesError`].
    pub fn show(&self, changes: &[TapedChange], machine: &mut Machine) -> Result<(), FilesError> {
        show_on_disk(changes, machine, &mut |path, digest, len_bytes| {
            read(&self.host, &super::made_files::vpath(path), digest, len_bytes)
        })
    }

    /// Keeps the contents of the tape, which was written, and removes those of an older tape at its path.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.is_finished = true;
        let kept = self.kept.iter().filter(|(_, rule)| rule.is_none()).map(|(digest, _)| *digest);
        self.cas.retain(&kept.collect::<HashSet<_>>())?;
        // Fails if there are contents.
        let _ = disk::remove_empty_dir(self.cas.dir());
        Ok(())
    }
}

impl Drop for FileRecording {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        for digest in &self.added {
            let _ = disk::remove_file(&self.cas.path_of(*digest));
        }
        if !self.added.is_empty() {
            let _ = disk::remove_empty_dir(self.cas.dir());
        }
    }
}

/// Shows in the namespace of `machine` what `changes` changed on the disk, where it has looked before; `content_of` reads
/// the disk.
///
/// # Errors
/// [`FilesError`].
pub(super) fn show_on_disk(
    changes: &[TapedChange],
    machine: &mut Machine,
    content_of: super::made_files::ContentOf<'_>,
) -> Result<(), FilesError> {
    let (Some(at), Some(mount)) = (machine.worktree(), machine.vfs().worktree()) else {
        return Ok(());
    };
    let now_ns = machine.now_ns();
    let mut is_stale = |change: &&TapedChange| {
        change.after != Some(TapedState::Other)
            && machine.vfs_mut().has_seen(mount, &super::made_files::vpath(&change.path))
    };
    let stale: Vec<&TapedChange> = changes.iter().filter(&mut is_stale).collect();
    Making { vfs: machine.vfs_mut(), at, now_ns }.make(&stale, content_of)?;
    for change in stale.iter().filter(|change| change.after.is_some()) {
        machine.vfs_mut().note_written_below(mount, &super::made_files::vpath(&change.path));
    }
    Ok(())
}

/// The content of the file `path`, which had this digest when it was looked at.
fn read(host: &HostDir, path: &VPath, digest: Digest, len: u64) -> Result<Vec<u8>, FilesError> {
    let refused = |errno| FilesError::Refused { path: path.as_str().to_owned(), errno };
    let changing = || FilesError::Changing { path: path.as_str().to_owned() };
    let blob = host.open(path).map_err(|_| changing())?;
    let mut bytes = Vec::new();
    let len = usize::try_from(len).map_err(|_| refused(crate::base::errno::Errno::Fbig))?;
    bytes.try_reserve_exact(len).map_err(|_| refused(crate::base::errno::Errno::Nomem))?;
    bytes.resize(len, 0);
    let count = blob.read_at(&mut bytes, 0).map_err(|_| changing())?;
    bytes.truncate(count);
    if Digest::of(&bytes) == digest { Ok(bytes) } else { Err(changing()) }
}

/// `path` relative to the directory `host`, if it is beneath it.
fn within(host: &HostDir, path: &Path) -> Option<VPath> {
    let folder = disk::canonical(disk::folder_of(path)).ok()?;
    let below = folder.strip_prefix(host.path()).ok()?.join(path.file_name()?);
    let names: Option<Vec<&str>> = below.iter().map(|name| name.to_str()).collect();
    VPath::parse(&names?.join("/")).ok()
}
