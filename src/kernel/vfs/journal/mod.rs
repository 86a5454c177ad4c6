//! Journals: each write to the disk is noted before it is done, so that it can be finished or taken back after a kill.
//!
//! Journals are in a directory of their own, private to the user. A journal being written is `ID.draft`. Once the
//! plans are in it and synced, it becomes `ID.prepared`, and the first name in the target directory may change. All
//! can be taken back until the journal is renamed to `ID.committed`: then everything is in place, and only backups
//! remain to be removed. Then the journal is removed.
//!
//! A writer has its journal locked, so an unlocked journal belongs to a killed process. Two processes never write to
//! the same directory, or to one within another. Journals are begun and recovered one at a time, under a lock of
//! the file `lock`.

pub(super) mod error;
pub(super) mod follow;
pub(super) mod format;
pub(super) mod plan;
pub(super) mod recovery;
pub(super) mod tree;

#[cfg(test)]
mod follow_tests;
#[cfg(test)]
mod format_tests;
#[cfg(test)]
pub(super) mod tests;

use std::collections::HashSet;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use self::error::{JournalError, failed};
use self::follow::moved;
use self::format::{BYTES_MAX, Content, JournalDefect, Root};
use self::plan::{Identity, Plan, Step};
use self::tree::Tree;
use super::layer::host_dir::{Access, HostDir};
use super::layer::temporary::temporary_name;
use super::layer::{FileType, Layer};
use super::path::VPath;
use crate::base::ambient;
use crate::base::disk::{self, DiskError};
use crate::base::errno::Errno;
use crate::base::own::{self, OtherUsers};

/// Interval between checks whether another process is done.
const PATIENCE: Duration = Duration::from_millis(10);

/// Above this number of files, syncing whole file systems takes less time.
pub(super) const SYNCED_ONE_BY_ONE_MAX: usize = 64;

const LOCK: &str = "lock";
pub(super) const DRAFT: &str = "draft";
const PREPARED: &str = "prepared";
pub(super) const COMMITTED: &str = "committed";

/// A directory of journals.
pub struct Journals {
    pub(super) path: PathBuf,
    dir: Arc<HostDir>,
    /// `dir`, for writing.
    pub(super) tree: Arc<dyn Tree>,
    #[cfg(all(test, unix))]
    decorate: Option<self::tests::Through>,
}

/// Is told of waits and recoveries during an operation.
pub trait Witness {
    /// Another belljar is writing to `folder` and is waited for.
    fn waiting(&self, folder: &Path);
    /// A directory was recovered.
    fn recovered(&self, recovered: &Recovered);
    /// A journal does not name its directories, or the recovery of one of several directories failed.
    fn unreadable(&self, error: &JournalError);
    /// Returns whether to stop and leave everything as it was.
    fn is_interrupted(&self) -> bool;
}

/// Ignores everything.
impl Witness for () {
    fn waiting(&self, _folder: &Path) {}
    fn recovered(&self, _recovered: &Recovered) {}
    fn unreadable(&self, _error: &JournalError) {}
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// The recovery of a directory from the journal of a killed belljar.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// The directory.
    pub folder: PathBuf,
    /// Everything was in place, and the rest was done; otherwise it was taken back.
    pub is_finished: bool,
    /// Number of files and symbolic links taken back, or written and removed.
    pub files: usize,
    /// Paths in the directory that were changed later and left as they are.
    pub left: Vec<VPath>,
    /// Where the old versions of these are kept.
    pub kept: Vec<VPath>,
}

/// What to do about paths that were changed later.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnChanged {
    /// Take nothing back and return an error.
    #[default]
    Refuse,
    /// Leave them and take the rest back.
    Skip,
}

/// A journal in the directory of journals.
pub(super) struct Found {
    id: String,
    pub state: &'static str,
    /// Locked while it is open, unless a writer has it locked.
    file: Option<File>,
    pub is_live: bool,
    pub content: Result<Content, JournalDefect>,
}

impl Found {
    pub fn name(&self) -> VPath {
        name(&self.id, self.state)
    }

    /// When it was written, if that is known.
    pub fn written(&self) -> Option<SystemTime> {
        self.file.as_ref()?.metadata().ok()?.modified().ok()
    }

    pub fn roots(&self) -> &[Root] {
        self.content.as_ref().map_or(&[], |content| &content.roots)
    }
}

impl Journals {
    /// Opens the directory `dir`, and creates it, private to this user, if needed. On Unix it and its parent
    /// must belong to this user or root, and others must not be able to write there; the parent may be writable
    /// if it is sticky (`/tmp`).
    ///
    /// # Errors
    /// [`JournalError::Exposed`], [`JournalError::Folder`], [`JournalError::Disk`].
    pub fn open(dir: &Path) -> Result<Self, JournalError> {
        expect_own(dir)?;
        disk::create_private_dir_all(dir)?;
        expect_own(dir)?;
        Ok(Self::of(dir, HostDir::open(dir).map_err(failed("open", dir))?))
    }

    /// Opens the directory `dir` if it exists, with the conditions of [`Journals::open`].
    ///
    /// # Errors
    /// [`JournalError::Exposed`], [`JournalError::Folder`], [`JournalError::Disk`].
    pub fn open_existing(dir: &Path) -> Result<Option<Self>, JournalError> {
        match HostDir::open(dir) {
            Ok(host) => {
                expect_own(dir)?;
                Ok(Some(Self::of(dir, host)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("open", dir)(error)),
        }
    }

    fn of(path: &Path, dir: HostDir) -> Self {
        let dir = Arc::new(dir);
        Self {
            path: path.to_owned(),
            tree: dir.clone(),
            dir,
            #[cfg(all(test, unix))]
            decorate: None,
        }
    }

    /// Passes all operations, also those of recovered directories, through `decorate`.
    #[cfg(all(test, unix))]
    pub(super) fn decorated(mut self, decorate: self::tests::Through) -> Self {
        self.tree = decorate(self.dir.clone());
        self.decorate = Some(decorate);
        self
    }

    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "a test stands in between"))]
    pub(super) fn through(&self, folder: HostDir) -> Arc<dyn Tree> {
        let folder = Arc::new(folder);
        #[cfg(all(test, unix))]
        if let Some(decorate) = &self.decorate {
            return decorate(folder);
        }
        folder
    }

    /// Finishes or takes back what killed belljars had begun to write to `folder`, a directory in it, or one that
    /// contains it: where it was, or moved to a place above `folder` or directly in it. Waits for live ones.
    ///
    /// # Errors
    /// [`JournalError`]; except for `Refused`, nothing was changed.
    pub fn recover(
        &self,
        folder: &HostDir,
        on_changed: OnChanged,
        witness: &dyn Witness,
    ) -> Result<Vec<Recovered>, JournalError> {
        // Without related journals the directory of journals need not be writable.
        let all = self.found(false)?;
        let moved = moved(&all, &[folder]);
        let may_concern =
            |found: &Found| found.content.is_err() || found.related(&[folder]).is_some();
        if moved.is_empty() && !all.iter().any(may_concern) {
            return Ok(Vec::new());
        }
        drop(all);
        self.settle(&[folder], on_changed, witness).map(|(_, recovered)| recovered)
    }

    /// As [`Journals::recover`], for all existing directories of all journals. An error in one does not stop the
    /// others.
    ///
    /// # Errors
    /// [`JournalError`]: the last one. [`Witness::unreadable`] gets the earlier ones.
    pub fn recover_all(
        &self,
        on_changed: OnChanged,
        witness: &dyn Witness,
    ) -> Result<Vec<Recovered>, JournalError> {
        let found = self.found(false)?;
        let roots = found.iter().flat_map(Found::roots);
        let folders: Vec<HostDir> =
            roots.filter_map(|root| HostDir::open(&root.path).ok()).collect();
        // Journals that name no directory are reported as well.
        if folders.is_empty() && found.iter().all(|found| found.content.is_ok()) {
            return Ok(Vec::new());
        }
        drop(found);
        let folders: Vec<&HostDir> = folders.iter().collect();
        let (mut recovered, mut refused) = (Vec::new(), None);
        // An empty chunk reports journals that name no directory.
        let each = folders.chunks(1).chain(folders.is_empty().then_some(&[][..]));
        for folder in each {
            match self.settle(folder, on_changed, witness) {
                Ok((_, here)) => recovered.extend(here),
                Err(JournalError::Interrupted) => return Err(JournalError::Interrupted),
                Err(error) => {
                    if let Some(earlier) = refused.replace(error) {
                        witness.unreadable(&earlier);
                    }
                }
            }
        }
        refused.map_or(Ok(recovered), Err)
    }

    /// The directories of all journals.
    ///
    /// # Errors
    /// [`JournalError::Disk`].
    pub fn folders(&self) -> Result<Vec<PathBuf>, JournalError> {
        let found = self.found(false)?;
        Ok(found.iter().flat_map(Found::roots).map(|root| root.path.clone()).collect())
    }

    /// The directories of the journals of killed belljars.
    ///
    /// # Errors
    /// [`JournalError::Disk`].
    pub fn interrupted(&self) -> Result<Vec<PathBuf>, JournalError> {
        let found = self.found(true)?;
        let killed = found.iter().filter(|found| !found.is_live);
        Ok(killed.flat_map(Found::roots).map(|root| root.path.clone()).collect())
    }

    /// The names of temporaries of all journals in the directory `journals`.
    pub(super) fn temporaries(journals: &Path) -> HashSet<String> {
        let mut names = HashSet::new();
        let Ok(Some(journals)) = Self::open_existing(journals) else { return names };
        // Unreadable journals name none; recovering reports them.
        for found in journals.found(false).unwrap_or_default() {
            let plans = found.content.ok().and_then(|content| content.plans);
            for path in plans.iter().flatten().flat_map(|p| &p.steps).flat_map(Step::temporaries) {
                names.extend(path.split_last().map(|(_, name)| name.to_owned()));
            }
        }
        names
    }

    /// Begins a journal about `folders`, after other writers there are done and older journals are recovered.
    ///
    /// # Errors
    /// [`JournalError`].
    pub(super) fn begin(
        &self,
        folders: &[&HostDir],
        witness: &dyn Witness,
    ) -> Result<Journal<'_>, JournalError> {
        let (_lock, _) = self.settle(folders, OnChanged::Refuse, witness)?;
        let mut roots = Vec::new();
        for folder in folders {
            let id = folder.id().map_err(DiskError::new("examine", folder.path()))?;
            roots.push(Root { id, path: folder.path().to_owned() });
        }
        let id = new_id();
        let path = name(&id, DRAFT);
        let create = || {
            let file = self.tree.create_file(&path, Access::Private)?;
            file.lock()?;
            Ok(file)
        };
        let file = create().map_err(failed("create", &self.at(&path)))?;
        let mut journal = Journal { journals: self, id, state: DRAFT, file };
        journal.write(&format::beginning(&roots))?;
        Ok(journal)
    }

    /// Waits for other writers to `folders` and recovers older journals. While the returned lock is held no
    /// other process can begin.
    fn settle(
        &self,
        folders: &[&HostDir],
        on_changed: OnChanged,
        witness: &dyn Witness,
    ) -> Result<(File, Vec<Recovered>), JournalError> {
        let mut recovered = Vec::new();
        let mut is_told = false;
        loop {
            let lock = self.lock(witness)?;
            let mut live = None;
            let all = self.found(true)?;
            let moved = moved(&all, folders);
            let folders: Vec<&HostDir> = folders.iter().copied().chain(&moved).collect();
            for found in all {
                let folder = found.related(&folders);
                if found.is_live && (folder.is_some() || found.content.is_err()) {
                    live = Some(folder.unwrap_or_default());
                    break;
                }
                if folder.is_none() && found.content.is_ok() {
                    continue;
                }
                match self.follow(&found, &folders, on_changed) {
                    Ok(here) => {
                        for recovered in &here {
                            witness.recovered(recovered);
                        }
                        recovered.extend(here);
                    }
                    Err(error) if folder.is_none() => witness.unreadable(&error),
                    Err(error) => return Err(error),
                }
            }
            let Some(folder) = live else { return Ok((lock, recovered)) };
            drop(lock);
            if !std::mem::replace(&mut is_told, true) {
                witness.waiting(&folder);
            }
            wait(witness)?;
        }
    }

    pub(super) fn lock(&self, witness: &dyn Witness) -> Result<File, JournalError> {
        let path = VPath::root().join(LOCK);
        let at = self.at(&path);
        let file = self.dir.open_to_lock(&path, true).map_err(failed("open", &at))?;
        while !lock(&file).map_err(failed("lock", &at))? {
            wait(witness)?;
        }
        Ok(file)
    }

    /// Ids and states of all journals; other files are ignored.
    fn names(&self) -> Result<Vec<(String, &'static str)>, JournalError> {
        let names = self.dir.names(&VPath::root()).map_err(failed("list", &self.path))?;
        let parts = |name: std::ffi::OsString| {
            let (id, state) = name.to_str()?.split_once('.')?;
            let known = [DRAFT, PREPARED, COMMITTED].into_iter().find(|known| *known == state)?;
            Some((id.to_owned(), known))
        };
        let mut names: Vec<_> = names.into_iter().filter_map(parts).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// All journals; locks those without a writer if `locks`.
    pub(super) fn found(&self, locks: bool) -> Result<Vec<Found>, JournalError> {
        'again: loop {
            let mut all = Vec::new();
            for (id, state) in self.names()? {
                match self.find(&id, state, locks)? {
                    Some(found) => all.push(found),
                    // Its writer has renamed or removed it meanwhile.
                    None => continue 'again,
                }
            }
            return Ok(all);
        }
    }

    /// The journal `id`; `None` if it is gone or in another state now.
    fn find(
        &self,
        id: &str,
        state: &'static str,
        locks: bool,
    ) -> Result<Option<Found>, JournalError> {
        let name = name(id, state);
        let path = self.at(&name);
        let found = |file, is_live, content| {
            Ok(Some(Found { id: id.to_owned(), state, file, is_live, content }))
        };
        // Before it is opened: a symbolic link may lead anywhere, and opening a pipe waits.
        match Layer::stat(&*self.dir, &name) {
            Ok(stat) if stat.file_type == FileType::RegularFile => {}
            Ok(_) => return found(None, false, Err(JournalDefect::Damaged("it is not a file"))),
            Err(Errno::Noent) => return Ok(None),
            Err(errno) => return Err(failed("examine", &path)(io::Error::other(errno))),
        }
        let opened =
            if locks { self.dir.open_to_lock(&name, false) } else { self.dir.open_to_read(&name) };
        let mut file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("open", &path)(error)),
        };
        let metadata = file.metadata().map_err(failed("examine", &path))?;
        if let Some(exposure) = own::exposure(&path, &metadata)? {
            // Not waited for: another user could hold the lock for ever.
            return found(None, false, Err(JournalDefect::Exposed(exposure)));
        }
        let is_live = locks && !lock(&file).map_err(failed("lock", &path))?;
        if locks && !disk::is_at(&file, &path) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let too_long = || Err(JournalDefect::Damaged("it is too long"));
        let content = match metadata.len() {
            len if len > BYTES_MAX => too_long(),
            _ => match (&mut file).take(BYTES_MAX + 1).read_to_end(&mut bytes) {
                Ok(len) if len as u64 > BYTES_MAX => too_long(),
                Ok(_) => format::parse(&bytes),
                // Some systems do not let others read a locked file.
                Err(_) if is_live || !locks => Err(JournalDefect::Damaged("it cannot be read")),
                Err(error) => return Err(failed("read", &path)(error)),
            },
        };
        found(Some(file), is_live, content)
    }

    pub(super) fn at(&self, name: &VPath) -> PathBuf {
        self.path.join(name.as_str())
    }
}

/// A journal being written. When dropped it stays for recovery, unless it is a draft.
pub(super) struct Journal<'j> {
    journals: &'j Journals,
    id: String,
    state: &'static str,
    /// Locked while it is open.
    file: File,
}

impl Journal<'_> {
    /// Records and syncs the plans, in the order of the directories. They may be carried out afterwards.
    pub fn prepare(&mut self, plans: &[Plan]) -> Result<(), JournalError> {
        self.write(&format::plans_part(plans))?;
        self.sync()?;
        self.rename(PREPARED)
    }

    /// Records and syncs what was staged. It may be put in place afterwards.
    pub fn staged(&mut self, staged: &[Vec<Option<Identity>>]) -> Result<(), JournalError> {
        self.write(&format::staged_part(staged))?;
        self.sync()
    }

    /// Records that everything is in place. From then on nothing is taken back.
    pub fn commit(&mut self) -> Result<(), JournalError> {
        let renamed = self.rename(COMMITTED);
        if renamed.is_err() && self.state == COMMITTED {
            let back = self.journals.tree.rename(&self.name(), &name(&self.id, PREPARED));
            if back.is_err() {
                // Recovery will find it committed, so it is.
                return Ok(());
            }
            self.state = PREPARED;
        }
        renamed
    }

    /// Removes the journal, as nothing is left to do.
    pub fn remove(self) -> Result<(), JournalError> {
        let tree = &self.journals.tree;
        let path = self.journals.at(&self.name());
        tree.remove_file(&self.name()).map_err(failed("remove", &path))?;
        tree.sync_dir(&VPath::root()).map_err(failed("sync", &self.journals.path))
    }

    fn name(&self) -> VPath {
        name(&self.id, self.state)
    }

    fn write(&mut self, part: &[u8]) -> Result<(), JournalError> {
        let path = self.journals.at(&self.name());
        self.file.write_all(part).map_err(failed("write", &path))
    }

    fn sync(&self) -> Result<(), JournalError> {
        let synced = self.journals.tree.sync_file(&self.name(), &self.file);
        synced.map_err(failed("sync", &self.journals.at(&self.name())))
    }

    fn rename(&mut self, state: &'static str) -> Result<(), JournalError> {
        let tree = &self.journals.tree;
        let path = self.journals.at(&self.name());
        tree.rename(&self.name(), &name(&self.id, state)).map_err(failed("rename", &path))?;
        self.state = state;
        tree.sync_dir(&VPath::root()).map_err(failed("sync", &self.journals.path))
    }
}

impl Drop for Journal<'_> {
    fn drop(&mut self) {
        if self.state == DRAFT {
            // If this fails, the next recovery removes it.
            let _ = self.journals.tree.remove_file(&self.name());
        }
    }
}

/// Checks that no other user could have written to the directory `dir`.
fn expect_own(dir: &Path) -> Result<(), JournalError> {
    if let Some(above) = dir.parent() {
        own::expect_own_folder(above, OtherUsers::MayAddFiles)?;
    }
    Ok(own::expect_own_folder(dir, OtherUsers::Excluded)?)
}

/// A new random id.
pub(super) fn new_id() -> String {
    temporary_name()[9..25].to_owned()
}

pub(super) fn name(id: &str, state: &str) -> VPath {
    VPath::root().join(&format!("{id}.{state}"))
}

/// Locks `file`; returns false if another process has it locked.
fn lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn wait(witness: &dyn Witness) -> Result<(), JournalError> {
    if witness.is_interrupted() {
        return Err(JournalError::Interrupted);
    }
    ambient::sleep(PATIENCE);
    Ok(())
}

/// The directories in which `steps` change names.
pub(super) fn dirs_of(steps: &[Step]) -> Vec<VPath> {
    let paths = steps.iter().flat_map(|step| step.temporaries().chain([step.path()]));
    let dirs: HashSet<VPath> =
        paths.filter_map(|path| path.split_last().map(|(dir, _)| dir)).collect();
    dirs.into_iter().collect()
}

/// Syncs those of the directories `dirs` that exist.
pub(super) fn sync_dirs(tree: &dyn Tree, mut dirs: Vec<VPath>) -> io::Result<()> {
    let mut there = Vec::new();
    dirs.sort_unstable();
    for dir in dirs {
        // Skips symbolic links in place of directories.
        if tree.is_dir(&dir)? {
            there.push(dir);
        }
    }
    if there.len() > SYNCED_ONE_BY_ONE_MAX && tree.sync_file_systems(&there)? {
        return Ok(());
    }
    there.iter().try_for_each(|dir| tree.sync_dir(dir))
}
