//! Journals: what is being written to the disk is noted before it is done, so that whoever comes
//! after a belljar that was killed can finish it or take it back.
//!
//! Journals lie in a folder of their own, which belongs to the user alone. One that is being written
//! is called `ID.draft`; once it says all that is to be done, and that would survive a power cut, it
//! is `ID.prepared`, and the first name below the folder may change. From then on everything could
//! be taken back, until the journal is renamed to `ID.committed`: then everything has its place, and
//! only what was kept of before is left to be removed. In the end the journal goes.
//!
//! Whoever writes has its journal locked, so that one that nobody has locked is of somebody who was
//! killed. No two write to folders of which one holds the other, or that are the same. Journals are
//! begun and recovered one at a time: the file `lock` is locked for that long.

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
use std::time::Duration;

use self::error::{JournalError, failed};
use self::format::{BYTES_MAX, Content, Flaw, Root};
use self::plan::{Identity, Plan, Step};
use self::tree::Tree;
use super::layer::host_dir::{Access, HostDir};
use super::layer::temporary::temporary_name;
use super::layer::{FileType, Layer};
use super::path::VPath;
use crate::base::ambient;
use crate::base::disk::{self, DiskError};
use crate::base::errno::Errno;
use crate::base::own::{self, Strangers};

/// How long to wait before looking again whether somebody is done.
const PATIENCE: Duration = Duration::from_millis(10);

/// Above this many files it takes less time to sync whole file systems.
pub(super) const SYNCED_ONE_BY_ONE_MAX: usize = 64;

const LOCK: &str = "lock";
pub(super) const DRAFT: &str = "draft";
const PREPARED: &str = "prepared";
pub(super) const COMMITTED: &str = "committed";

/// A folder of journals.
pub struct Journals {
    pub(super) path: PathBuf,
    dir: Arc<HostDir>,
    /// `dir`, to write to.
    pub(super) tree: Arc<dyn Tree>,
    #[cfg(all(test, unix))]
    decorate: Option<self::tests::Through>,
}

/// What is told of journals while something else is done.
pub trait Witness {
    /// Another belljar writes to `folder` at this moment. It is waited for.
    fn waiting(&self, folder: &Path);
    /// Something was recovered.
    fn recovered(&self, recovered: &Recovered);
    /// There is a journal that does not say which folder it is about, or one of several folders that are
    /// seen to is refused.
    fn unreadable(&self, error: &JournalError);
    /// Whether to stop, and leave everything as it was.
    fn is_interrupted(&self) -> bool;
}

/// Nobody.
impl Witness for () {
    fn waiting(&self, _folder: &Path) {}
    fn recovered(&self, _recovered: &Recovered) {}
    fn unreadable(&self, _error: &JournalError) {}
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// What became of a journal that a belljar which was killed had left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// The folder that was written to.
    pub folder: PathBuf,
    /// Whether everything had its place: then what was left to do was done. Otherwise it was taken
    /// back.
    pub is_finished: bool,
    /// Files and links that were taken back, or that had been written or removed.
    pub files: usize,
    /// Paths below the folder that somebody has changed since, and that were left as they are.
    pub left: Vec<VPath>,
    /// Where what they were before is kept, for those of which it is.
    pub kept: Vec<VPath>,
}

/// What to do about what somebody has changed since.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnChanged {
    /// Take nothing back, and say what it is.
    #[default]
    Refuse,
    /// Leave it as it is, and take the rest back.
    Skip,
}

/// A journal that somebody has left, or writes.
pub(super) struct Found {
    id: String,
    pub state: &'static str,
    /// Locked as long as it is open, unless somebody else has it.
    _file: Option<File>,
    is_live: bool,
    pub content: Result<Content, Flaw>,
}

impl Found {
    pub fn name(&self) -> VPath {
        name(&self.id, self.state)
    }

    pub fn roots(&self) -> &[Root] {
        self.content.as_ref().map_or(&[], |content| &content.roots)
    }
}

impl Journals {
    /// The folder `dir`, which is made if need be, and which nobody else can look into then. On Unix it,
    /// and the folder that holds it, must belong to this user or to root, and nobody else may write there;
    /// to the one that holds it others may, if nobody can rename there what is another's (`/tmp`).
    ///
    /// # Errors
    /// [`JournalError::Exposed`], [`JournalError::Folder`], [`JournalError::Disk`].
    pub fn open(dir: &Path) -> Result<Self, JournalError> {
        expect_own(dir)?;
        disk::create_private_dir_all(dir)?;
        expect_own(dir)?;
        Ok(Self::of(dir, HostDir::open(dir).map_err(failed("open", dir))?))
    }

    /// The folder `dir`, if it is there; see [`Journals::open`] for whose it must be.
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

    /// Does everything through what `decorate` makes of its folder, and of those that are recovered.
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

    /// Finishes, or takes back, what belljars that were killed had begun to write to `folder`, to a
    /// folder in it, or to one that holds it. One that is alive is waited for.
    ///
    /// # Errors
    /// [`JournalError`]; but for `Refused`, nothing was changed then.
    pub fn recover(
        &self,
        folder: &HostDir,
        on_changed: OnChanged,
        witness: &dyn Witness,
    ) -> Result<Vec<Recovered>, JournalError> {
        // Nobody needs to write to the folder of journals where there is nothing to do.
        let may_concern =
            |found: &Found| found.content.is_err() || found.related(&[folder]).is_some();
        if !self.found(false)?.iter().any(may_concern) {
            return Ok(Vec::new());
        }
        self.settle(&[folder], on_changed, witness).map(|(_, recovered)| recovered)
    }

    /// As [`Journals::recover`], for all folders that any journal is about and that are there. One that
    /// is refused does not keep the others from being seen to.
    ///
    /// # Errors
    /// [`JournalError`]: the last one. [`Witness::unreadable`] is told of those before it.
    pub fn recover_all(
        &self,
        on_changed: OnChanged,
        witness: &dyn Witness,
    ) -> Result<Vec<Recovered>, JournalError> {
        let found = self.found(false)?;
        let roots = found.iter().flat_map(Found::roots);
        let folders: Vec<HostDir> =
            roots.filter_map(|root| HostDir::open(&root.path).ok()).collect();
        // Those that do not say what they are about are told as well.
        if folders.is_empty() && found.iter().all(|found| found.content.is_ok()) {
            return Ok(Vec::new());
        }
        drop(found);
        let folders: Vec<&HostDir> = folders.iter().collect();
        let (mut recovered, mut refused) = (Vec::new(), None);
        // Without a folder: those that do not say which one they are about.
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

    /// The folders that any journal is about.
    ///
    /// # Errors
    /// [`JournalError::Disk`].
    pub fn folders(&self) -> Result<Vec<PathBuf>, JournalError> {
        let found = self.found(false)?;
        Ok(found.iter().flat_map(Found::roots).map(|root| root.path.clone()).collect())
    }

    /// Names of the temporaries that are on the disk while changes are written there, as the journals
    /// in the folder `journals` tell.
    pub(super) fn temporaries(journals: &Path) -> HashSet<String> {
        let mut names = HashSet::new();
        let Ok(Some(journals)) = Self::open_existing(journals) else { return names };
        // One that cannot be read names nothing; whoever recovers it says so.
        for found in journals.found(false).unwrap_or_default() {
            let plans = found.content.ok().and_then(|content| content.plans);
            for path in plans.iter().flatten().flat_map(|p| &p.steps).flat_map(Step::temporaries) {
                names.extend(path.split_last().map(|(_, name)| name.to_owned()));
            }
        }
        names
    }

    /// Begins a journal about `folders`, once nobody else writes to them and everything that others
    /// had begun there is finished or taken back.
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

    /// Waits until nobody writes to `folders`, and recovers what there is about them. Until the lock is
    /// dropped nobody can begin.
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
            for found in self.found(true)? {
                let folder = found.related(folders);
                if found.is_live && (folder.is_some() || found.content.is_err()) {
                    live = Some(folder.unwrap_or_default());
                    break;
                }
                if folder.is_none() && found.content.is_ok() {
                    continue;
                }
                match self.follow(&found, folders, on_changed) {
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

    fn lock(&self, witness: &dyn Witness) -> Result<File, JournalError> {
        let path = VPath::root().join(LOCK);
        let at = self.at(&path);
        let file = self.dir.open_to_lock(&path, true).map_err(failed("open", &at))?;
        while !lock(&file).map_err(failed("lock", &at))? {
            wait(witness)?;
        }
        Ok(file)
    }

    /// The names of all journals, with what these are made of. What is called otherwise is none.
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

    /// All journals; those that nobody has locked are locked if `locks`.
    fn found(&self, locks: bool) -> Result<Vec<Found>, JournalError> {
        'again: loop {
            let mut all = Vec::new();
            for (id, state) in self.names()? {
                match self.find(&id, state, locks)? {
                    Some(found) => all.push(found),
                    // Whoever writes it is done, or one step further.
                    None => continue 'again,
                }
            }
            return Ok(all);
        }
    }

    /// The journal `id`; `None` if it is not there, or not in this state, any more.
    fn find(
        &self,
        id: &str,
        state: &'static str,
        locks: bool,
    ) -> Result<Option<Found>, JournalError> {
        let name = name(id, state);
        let path = self.at(&name);
        let found = |file, is_live, content| {
            Ok(Some(Found { id: id.to_owned(), state, _file: file, is_live, content }))
        };
        // Before it is opened: a link may lead anywhere, and a pipe may have nobody at its other end.
        match Layer::stat(&*self.dir, &name) {
            Ok(stat) if stat.file_type == FileType::RegularFile => {}
            Ok(_) => return found(None, false, Err(Flaw::Damaged("it is no file"))),
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
        if let Some(exposure) = own::exposure(&metadata) {
            // Nor is it waited for: who locks it may never be done.
            return found(None, false, Err(Flaw::Exposed(exposure)));
        }
        let is_live = locks && !lock(&file).map_err(failed("lock", &path))?;
        if locks && !disk::is_at(&file, &path) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let too_long = || Err(Flaw::Damaged("it is too long"));
        let content = match metadata.len() {
            len if len > BYTES_MAX => too_long(),
            _ => match (&mut file).take(BYTES_MAX + 1).read_to_end(&mut bytes) {
                Ok(len) if len as u64 > BYTES_MAX => too_long(),
                Ok(_) => format::parse(&bytes),
                // Where others cannot read what is locked.
                Err(_) if is_live || !locks => Err(Flaw::Damaged("it cannot be read")),
                Err(error) => return Err(failed("read", &path)(error)),
            },
        };
        found(Some(file), is_live, content)
    }

    pub(super) fn at(&self, name: &VPath) -> PathBuf {
        self.path.join(name.as_str())
    }
}

/// A journal that is being written. Dropped, it is left for whoever comes next, unless nothing had
/// begun.
pub(super) struct Journal<'j> {
    journals: &'j Journals,
    id: String,
    state: &'static str,
    /// Locked as long as it is open.
    file: File,
}

impl Journal<'_> {
    /// Notes what is to be done, in the order of the folders. Once this has answered it may be done.
    pub fn prepare(&mut self, plans: &[Plan]) -> Result<(), JournalError> {
        self.write(&format::plans_part(plans))?;
        self.sync()?;
        self.rename(PREPARED)
    }

    /// Notes what was made beside its places. Once this has answered it may come to them.
    pub fn staged(&mut self, staged: &[Vec<Option<Identity>>]) -> Result<(), JournalError> {
        self.write(&format::staged_part(staged))?;
        self.sync()
    }

    /// Notes that everything has its place. From then on nothing is taken back.
    pub fn commit(&mut self) -> Result<(), JournalError> {
        let renamed = self.rename(COMMITTED);
        if renamed.is_err() && self.state == COMMITTED {
            let back = self.journals.tree.rename(&self.name(), &name(&self.id, PREPARED));
            if back.is_err() {
                // Whoever looks finds that it was done, and so it is.
                return Ok(());
            }
            self.state = PREPARED;
        }
        renamed
    }

    /// Removes it: there is nothing left to do.
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
            // Whoever comes next removes it, if this cannot.
            let _ = self.journals.tree.remove_file(&self.name());
        }
    }
}

/// Expects that nobody else could have put a journal into the folder `dir`.
fn expect_own(dir: &Path) -> Result<(), JournalError> {
    if let Some(above) = dir.parent() {
        own::expect_own_folder(above, Strangers::Apart)?;
    }
    Ok(own::expect_own_folder(dir, Strangers::KeptOut)?)
}

/// An id that no journal has.
pub(super) fn new_id() -> String {
    temporary_name()[9..25].to_owned()
}

pub(super) fn name(id: &str, state: &str) -> VPath {
    VPath::root().join(&format!("{id}.{state}"))
}

/// Locks `file`, unless somebody else has; answers whether it is locked.
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

/// The directories whose names `steps` change.
pub(super) fn dirs_of(steps: &[Step]) -> Vec<VPath> {
    let paths = steps.iter().flat_map(|step| step.temporaries().chain([step.path()]));
    let dirs: HashSet<VPath> =
        paths.filter_map(|path| path.split_last().map(|(dir, _)| dir)).collect();
    dirs.into_iter().collect()
}

/// Makes the names in `dirs` survive a power cut, as far as the directories are there.
pub(super) fn sync_dirs(tree: &dyn Tree, mut dirs: Vec<VPath>) -> io::Result<()> {
    let mut there = Vec::new();
    dirs.sort_unstable();
    for dir in dirs {
        // A link that took a directory's place may lead anywhere, or nowhere.
        if tree.is_dir(&dir)? {
            there.push(dir);
        }
    }
    if there.len() > SYNCED_ONE_BY_ONE_MAX && tree.sync_file_systems(&there)? {
        return Ok(());
    }
    there.iter().try_for_each(|dir| tree.sync_dir(dir))
}
