//! Changes to one directory of the host, all or nothing.
//!
//! New contents are written to temporaries beside their places, and files to be replaced get a further name. Then
//! things are renamed. Whatever was there is kept under another name until all is done, so that
//! [`Transaction::roll_back`] can restore it. A replaced file exists at every moment, in its old version or the
//! new one.

use std::collections::HashSet;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;

use super::checked::is_same;
use super::conflicts::ConflictKind;
use super::dir_times::DirTimes;
use super::failure::{Failure, StepError};
use crate::base::errno::Errno;
use crate::kernel::vfs::diff::file_version::FileVersion;
use crate::kernel::vfs::journal::plan::{Attributes, Identity, Plan, Step};
use crate::kernel::vfs::journal::recovery::{Begun, Finished};
use crate::kernel::vfs::journal::tree::Tree;
use crate::kernel::vfs::journal::{SYNCED_ONE_BY_ONE_MAX, Witness, dirs_of, sync_dirs};
use crate::kernel::vfs::layer::Stat;
use crate::kernel::vfs::layer::Times;
use crate::kernel::vfs::layer::host_dir::{Access, set_file_times};
use crate::kernel::vfs::layer::host_permissions::HostPermissions;
use crate::kernel::vfs::path::VPath;

/// Unit in which zeros become holes.
const BLOCK_BYTES: usize = 4096;

/// The stamps of files to which writing gave or took a name, by inode.
#[derive(Default)]
pub(super) struct Touched(HashSet<(u64, u64)>);

impl Touched {
    /// Records the present stamp of `path`.
    pub fn note(&mut self, tree: &dyn Tree, path: &VPath) {
        if let Ok(stat) = tree.stat(path) {
            self.0.insert((stat.inode, stat.stamp));
        }
    }

    fn allow(&self, before: &Stat, now: &Stat) -> bool {
        is_same(before, now)
            && (before.stamp == now.stamp || self.0.contains(&(now.inode, now.stamp)))
    }
}

/// Changes to one directory of the host.
pub(super) struct Transaction<'w> {
    tree: Arc<dyn Tree>,
    plan: Plan,
    /// What was staged for each step.
    staged: Vec<Option<Identity>>,
    /// The same, with all attributes.
    made: Vec<Option<Stat>>,
    /// Steps whose old file cannot get a further name: it is renamed right before the new one is placed.
    renames: HashSet<usize>,
    /// How many steps were carried out, the last one perhaps in part.
    carried_out: usize,
    /// All must survive a power cut.
    is_durable: bool,
    syncs_each: bool,
    dir_times: Vec<DirTimes>,
    witness: &'w dyn Witness,
}

impl<'w> Transaction<'w> {
    pub fn new(tree: Arc<dyn Tree>, plan: Plan, durable: bool, witness: &'w dyn Witness) -> Self {
        let (staged, made) = (vec![None; plan.steps.len()], vec![None; plan.steps.len()]);
        let files = plan.steps.iter().filter(|step| matches!(step, Step::Place { .. })).count();
        let can_sync_all = cfg!(target_os = "linux");
        let syncs_each = durable && (files <= SYNCED_ONE_BY_ONE_MAX || !can_sync_all);
        let (renames, carried_out) = (HashSet::new(), 0);
        Self {
            tree,
            plan,
            staged,
            made,
            renames,
            carried_out,
            is_durable: durable,
            syncs_each,
            dir_times: Vec::new(),
            witness,
        }
    }

    /// With the times of directories once all is done.
    pub fn with_dir_times(self, dir_times: Vec<DirTimes>) -> Self {
        Self { dir_times, ..self }
    }

    pub fn dir_times(&self) -> &[DirTimes] {
        &self.dir_times
    }

    pub fn steps(&self) -> &[Step] {
        &self.plan.steps
    }

    pub fn staged(&self) -> &[Option<Identity>] {
        &self.staged
    }

    /// Attributes that are set last.
    pub fn attributes(&self) -> &[Attributes] {
        &self.plan.attributes
    }

    /// Paths of staged steps, with the attributes of what was staged.
    pub fn made(&self) -> impl Iterator<Item = (&VPath, &Stat)> {
        let steps = self.plan.steps.iter().zip(&self.made);
        steps.filter_map(|(step, made)| Some((step.path(), made.as_ref()?)))
    }

    pub fn tree(&self) -> &dyn Tree {
        &*self.tree
    }

    fn expect_goes_on(&self, path: &VPath) -> Result<(), StepError> {
        if self.witness.is_interrupted() {
            return Err(StepError::new("write", path)(io::ErrorKind::Interrupted.into()));
        }
        Ok(())
    }

    /// The path of the step `index`, and its temporary or backup.
    fn made_by(&self, index: usize) -> (VPath, VPath) {
        match &self.plan.steps[index] {
            Step::CreateDir { path, temporary } | Step::Place { path, temporary, .. } => {
                (path.clone(), temporary.clone())
            }
            Step::Remove { path, backup, .. } => (path.clone(), backup.clone()),
        }
    }

    fn note_staged(&mut self, index: usize) -> Result<(), StepError> {
        let (path, temporary) = self.made_by(index);
        let stat = self.tree.stat(&temporary).map_err(io::Error::other);
        let stat = stat.map_err(StepError::new("examine the temporary file for", &path))?;
        self.staged[index] = Some(Identity::of(&stat));
        self.made[index] = Some(stat);
        Ok(())
    }

    /// Writes `version` to the temporary of the step `index`.
    pub fn stage_file(
        &mut self,
        index: usize,
        version: &FileVersion,
        permissions: Option<&HostPermissions>,
        times: Option<Times>,
    ) -> Result<(), StepError> {
        let (path, temporary) = &self.made_by(index);
        self.expect_goes_on(path)?;
        let access = match permissions {
            Some(_) => Access::Private,
            None if version.executable => Access::SharedExecutable,
            None => Access::Shared,
        };
        let created = self.tree.create_file(temporary, access);
        let mut file = created.map_err(StepError::new("create a temporary file for", path))?;
        let written = version.read_pieces(|offset, bytes| {
            if self.witness.is_interrupted() {
                return Err(PieceError::Host(io::ErrorKind::Interrupted.into()));
            }
            let is_zero = |block: &[u8]| block.iter().all(|byte| *byte == 0);
            let mut at = offset;
            // Zeros become holes, so that a guest's sparse file does not fill the disk.
            let blocks: Vec<&[u8]> = bytes.chunks(BLOCK_BYTES).collect();
            for run in blocks.chunk_by(|a, b| is_zero(a) == is_zero(b)) {
                let len: usize = run.iter().map(|block| block.len()).sum();
                if !is_zero(run[0]) {
                    let start = (at - offset) as usize;
                    file.seek(SeekFrom::Start(at))?;
                    file.write_all(&bytes[start..start + len]).map_err(PieceError::Host)?;
                }
                at += len as u64;
            }
            Ok(())
        });
        let written = written.map_err(|error| match error {
            PieceError::Layer(errno) => io::Error::other(errno),
            PieceError::Host(error) => error,
        });
        // Setting the length makes a hole at the end.
        let written = written.and_then(|()| file.set_len(version.len()));
        written.map_err(StepError::new("write a temporary file for", path))?;
        if let Some(permissions) = permissions {
            let set = permissions.set_on(&file);
            set.map_err(StepError::new("set the permissions of", path))?;
        }
        if let Some(times) = times {
            let set = set_file_times(&file, times);
            set.map_err(StepError::new("set the times of", path))?;
        }
        if self.syncs_each {
            let synced = self.tree.sync_file(temporary, &file);
            synced.map_err(StepError::new("sync a temporary file for", path))?;
        }
        drop(file);
        self.note_staged(index)
    }

    /// Stages the step `index` as a further name of the file `of`.
    pub fn stage_link(
        &mut self,
        index: usize,
        of: &VPath,
        touched: &mut Touched,
    ) -> Result<(), StepError> {
        let (path, temporary) = &self.made_by(index);
        self.expect_goes_on(path)?;
        let linked = self.tree.hard_link(of, temporary);
        linked.map_err(StepError::new("link to", of))?;
        touched.note(&*self.tree, temporary);
        self.note_staged(index)
    }

    /// Stages the step `index` as a symbolic link.
    pub fn stage_symlink(
        &mut self,
        index: usize,
        target: &str,
        times: Option<Times>,
    ) -> Result<(), StepError> {
        let (path, temporary) = &self.made_by(index);
        self.expect_goes_on(path)?;
        let made = self.tree.symlink(target, temporary);
        made.map_err(StepError::new("create a temporary link for", path))?;
        if let Some(times) = times {
            let set = self.tree.set_times(temporary, times);
            set.map_err(StepError::new("set the times of", path))?;
        }
        self.note_staged(index)
    }

    /// Stages the step `index` as a directory.
    pub fn stage_dir(
        &mut self,
        index: usize,
        permissions: Option<&HostPermissions>,
    ) -> Result<(), StepError> {
        let (path, temporary) = &self.made_by(index);
        self.expect_goes_on(path)?;
        let access = if permissions.is_some() { Access::Private } else { Access::Shared };
        let made = self.tree.create_dir(temporary, access);
        made.map_err(StepError::new("create a temporary directory for", path))?;
        if let Some(permissions) = permissions {
            let given = self.tree.give_dir(temporary, permissions);
            given.map_err(StepError::new("set the owner of", path))?;
        }
        self.note_staged(index)
    }

    /// Gives the file that the step `index` will replace, which must be `before`, its backup name.
    pub fn keep(
        &mut self,
        index: usize,
        before: Option<&Stat>,
        touched: &mut Touched,
    ) -> Result<(), Failure> {
        let Step::Place { path, backup: Some(backup), .. } = &self.plan.steps[index] else {
            return Ok(());
        };
        self.expect_goes_on(path)?;
        self.expect(path, before, touched)?;
        // A file that takes the place of another name of itself: whether it was put there cannot be seen, and is the same.
        if let (Some(made), Some(before)) = (self.staged[index], before)
            && made.inode != 0
            && made.is(before)
        {
            self.staged[index] = None;
        }
        match self.tree.hard_link(path, backup) {
            Ok(()) => touched.note(&*self.tree, path),
            Err(_) => drop(self.renames.insert(index)),
        }
        Ok(())
    }

    /// Syncs what was staged.
    pub fn sync_staged(&self) -> Result<(), StepError> {
        if !self.is_durable {
            return Ok(());
        }
        let synced = if self.syncs_each {
            sync_dirs(&*self.tree, self.dirs_of_kept(|step| matches!(step, Step::Place { .. })))
        } else {
            let is_place = |step: &&Step| matches!(step, Step::Place { .. });
            let places: Vec<Step> = self.plan.steps.iter().filter(is_place).cloned().collect();
            // Temporaries can be in a directory above the place.
            let temporaries = places.iter().flat_map(Step::temporaries);
            let dirs: HashSet<VPath> =
                temporaries.filter_map(|path| path.split_last().map(|(dir, _)| dir)).collect();
            self.tree.sync_file_systems(&dirs.into_iter().collect::<Vec<_>>()).map(drop)
        };
        synced.map_err(StepError::new("sync", &VPath::root()))
    }

    /// The directories that hold backups of steps of a kind.
    fn dirs_of_kept(&self, is_of_kind: impl Fn(&Step) -> bool) -> Vec<VPath> {
        let is_kept =
            |step: &Step| matches!(step, Step::Place { backup: Some(_), .. } | Step::Remove { .. });
        let kept = |step: &&Step| is_kept(step) && is_of_kind(step);
        dirs_of(&self.plan.steps.iter().filter(kept).cloned().collect::<Vec<_>>())
    }

    /// Carries out the step `index`, which replaces `before`.
    pub fn place(
        &mut self,
        index: usize,
        before: Option<&Stat>,
        touched: &mut Touched,
    ) -> Result<(), Failure> {
        let tree = &*self.tree;
        let step = &self.plan.steps[index];
        self.expect_goes_on(step.path())?;
        match step {
            // What is in it is examined once nothing can be added.
            Step::Remove { dir_mode: Some(_), .. } => {}
            Step::CreateDir { path, .. } => self.expect(path, None, touched)?,
            Step::Remove { path, .. } | Step::Place { path, .. } => {
                self.expect(path, before, touched)?;
            }
        }
        self.carried_out = index + 1;
        match step {
            Step::Remove { path, backup, dir_mode: Some(_) } => {
                let failed = || StepError::new("remove", path);
                match tree.rename(path, backup) {
                    Ok(()) if !tree.names(backup).map_err(failed())?.is_empty() => {
                        return Err(failed()(io::ErrorKind::DirectoryNotEmpty.into()).into());
                    }
                    Ok(()) => {}
                    // Some file systems cannot rename directories.
                    Err(_) => tree.remove_dir(path).map_err(failed())?,
                }
            }
            Step::Remove { path, backup, dir_mode: None } => {
                tree.rename(path, backup).map_err(StepError::new("remove", path))?;
                touched.note(tree, backup);
            }
            Step::CreateDir { path, temporary } => {
                put_new(tree, temporary, path, "create directory")?;
            }
            Step::Place { path, temporary, backup } => {
                let failed = || StepError::new("write", path);
                let moves_away = self.renames.contains(&index);
                if let Some(backup) = backup
                    && moves_away
                {
                    tree.rename(path, backup).map_err(failed())?;
                }
                if moves_away || backup.is_none() {
                    put_new(tree, temporary, path, "write")?;
                } else {
                    tree.rename(temporary, path).map_err(failed())?;
                }
                touched.note(tree, path);
                if let Some(backup) = backup {
                    touched.note(tree, backup);
                }
            }
        }
        Ok(())
    }

    /// Checks that the backup of the step `index` is still `before`: a process that had the file open may have written
    /// to it, and that would be lost.
    pub fn expect_kept(&self, index: usize, before: Option<&Stat>) -> Result<(), Failure> {
        let (Step::Place { path, backup: Some(backup), .. }
        | Step::Remove { path, backup, dir_mode: None }) = &self.plan.steps[index]
        else {
            return Ok(());
        };
        match (self.tree.stat(backup), before) {
            (Ok(now), Some(before)) if !is_same(before, &now) => {
                Err(Failure::Conflict(path.clone(), ConflictKind::Changed))
            }
            _ => Ok(()),
        }
    }

    /// Checks, right before a step, that `path` is still as it was checked.
    fn expect(
        &self,
        path: &VPath,
        expected: Option<&Stat>,
        touched: &Touched,
    ) -> Result<(), Failure> {
        let conflict = |what| Err(Failure::Conflict(path.clone(), what));
        match (self.tree.stat(path), expected) {
            (Ok(now), Some(before)) if touched.allow(before, &now) => Ok(()),
            (Err(Errno::Noent), None) => Ok(()),
            (Ok(_), Some(_)) => conflict(ConflictKind::Changed),
            (Ok(_), None) => conflict(ConflictKind::Appeared),
            (Err(Errno::Noent), Some(_)) => conflict(ConflictKind::Vanished),
            (Err(errno), _) => Err(StepError::new("examine", path)(io::Error::other(errno)).into()),
        }
    }

    /// Syncs the directories in which names changed.
    pub fn sync(&self) -> Result<(), StepError> {
        if !self.is_durable {
            return Ok(());
        }
        let mut dirs = dirs_of(&self.plan.steps);
        // Entries that left a removed directory left it under its backup name.
        dirs.extend(self.plan.steps.iter().filter_map(|step| match step {
            Step::Remove { backup, dir_mode: Some(_), .. } => Some(backup.clone()),
            _ => None,
        }));
        let synced = sync_dirs(&*self.tree, dirs);
        synced.map_err(StepError::new("sync", &VPath::root()))
    }

    fn begun(&self) -> Begun<'_> {
        Begun {
            tree: &*self.tree,
            plan: &self.plan,
            staged: &self.staged,
            carried_out: Some(self.carried_out),
        }
    }

    /// Takes everything back, times of directories included; returns paths that could not be put back.
    pub fn roll_back(&self) -> Vec<VPath> {
        let left = self.begun().take_back().left;
        DirTimes::put_all_back(&self.dir_times, &*self.tree);
        // The result is reported even if it might not survive a power cut.
        let _ = self.sync();
        left
    }

    /// Sets the last attributes and removes backups.
    pub fn finish(&self) -> Finished {
        let finished = self.begun().finish();
        DirTimes::set_all(&self.dir_times, &*self.tree);
        if self.is_durable {
            // After a power cut the journal is there too, or nothing that it names is left.
            let _ = sync_dirs(&*self.tree, self.dirs_of_kept(|_| true));
        }
        finished
    }
}

/// Moves `temporary` to `path`, where nothing was; what another program has just put there stays.
fn put_new(
    tree: &dyn Tree,
    temporary: &VPath,
    path: &VPath,
    operation: &'static str,
) -> Result<(), Failure> {
    match tree.rename_to_new(temporary, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(Failure::Conflict(path.clone(), ConflictKind::Appeared))
        }
        put => Ok(put.map_err(StepError::new(operation, path))?),
    }
}

enum PieceError {
    Layer(Errno),
    Host(io::Error),
}

impl From<Errno> for PieceError {
    fn from(errno: Errno) -> Self {
        Self::Layer(errno)
    }
}

impl From<io::Error> for PieceError {
    fn from(error: io::Error) -> Self {
        Self::Host(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::vfs::layer::temporary::temporary_name;
    use crate::kernel::vfs::{HostDir, Layer};

    fn path(text: &str) -> VPath {
        VPath::parse(text).unwrap()
    }

    fn temporary() -> VPath {
        VPath::root().join(&temporary_name())
    }

    #[test]
    fn failed_step_leaves_no_temporaries() {
        let folder = tempfile::tempdir().unwrap();
        let host = Arc::new(HostDir::open(folder.path()).unwrap());
        let write = |name: &str| {
            let mut file = host.create_file(&path(name), Access::Shared).unwrap();
            file.write_all(name.as_bytes()).unwrap();
        };
        host.create_dir(&path("full"), Access::Shared).unwrap();
        ["old", "gone", "full/kept"].into_iter().for_each(write);
        let names = |dir: &str| {
            let mut names = host.names(&path(dir)).unwrap();
            names.sort();
            names
        };
        let before = names("");
        let stat = |name: &str| Layer::stat(&*host, &path(name)).unwrap();
        let [old, gone] = ["old", "gone"].map(stat);
        let steps = vec![
            Step::Remove { path: path("gone"), backup: temporary(), dir_mode: None },
            Step::CreateDir { path: path("new"), temporary: temporary() },
            Step::Place { path: path("old"), temporary: temporary(), backup: Some(temporary()) },
            Step::Place { path: path("placed"), temporary: temporary(), backup: None },
            Step::Remove { path: path("full"), backup: temporary(), dir_mode: Some(0o755) },
            Step::CreateDir { path: path("old"), temporary: temporary() },
        ];
        let plan = Plan { steps, attributes: Vec::new() };
        let mut touched = Touched::default();
        let mut transaction = Transaction::new(host.clone(), plan, true, &());
        transaction.stage_link(2, &path("gone"), &mut touched).unwrap();
        transaction.stage_link(3, &path("full/kept"), &mut touched).unwrap();
        for index in [1, 5] {
            transaction.stage_dir(index, None).unwrap();
        }
        transaction.keep(2, Some(&old), &mut touched).unwrap();
        transaction.sync_staged().unwrap();
        transaction.place(0, Some(&gone), &mut touched).unwrap();
        transaction.place(1, None, &mut touched).unwrap();
        transaction.place(2, Some(&old), &mut touched).unwrap();
        assert_eq!(Layer::stat(&*host, &path("old")).unwrap().size, 4);
        let Failure::Step(error) = transaction.place(4, None, &mut touched).unwrap_err() else {
            panic!()
        };
        assert_eq!(error.source.kind(), io::ErrorKind::DirectoryNotEmpty);
        assert_eq!((error.operation, error.path), ("remove", path("full")));
        assert!(transaction.place(5, None, &mut touched).is_err(), "the path exists");
        assert_eq!(transaction.roll_back(), []);
        assert_eq!(names(""), before);
        assert_eq!(names("full"), ["kept"]);
        assert_eq!(Layer::stat(&*host, &path("old")).unwrap().size, 3);
    }

    /// Such data was lost with the replaced file. Wine 8 replaces no open file.
    #[cfg(unix)]
    #[test]
    fn write_to_a_replaced_open_file_is_a_conflict() {
        let folder = tempfile::tempdir().unwrap();
        let host = Arc::new(HostDir::open(folder.path()).unwrap());
        let create = |name: &str| host.create_file(&path(name), Access::Shared).unwrap();
        let mut open = [create("replaced"), create("removed")];
        create("other");
        let before = ["replaced", "removed"].map(|name| Layer::stat(&*host, &path(name)).unwrap());
        let steps = vec![
            Step::Place {
                path: path("replaced"),
                temporary: temporary(),
                backup: Some(temporary()),
            },
            Step::Remove { path: path("removed"), backup: temporary(), dir_mode: None },
        ];
        let plan = Plan { steps, attributes: Vec::new() };
        let mut transaction = Transaction::new(host.clone(), plan, false, &());
        let mut touched = Touched::default();
        transaction.stage_link(0, &path("other"), &mut touched).unwrap();
        transaction.keep(0, Some(&before[0]), &mut touched).unwrap();
        for (index, before) in before.iter().enumerate() {
            transaction.place(index, Some(before), &mut touched).unwrap();
            transaction.expect_kept(index, Some(before)).unwrap();
        }
        for (index, name) in ["replaced", "removed"].into_iter().enumerate() {
            open[index].write_all(b"by the user").unwrap();
            let kept = transaction.expect_kept(index, Some(&before[index]));
            let Err(Failure::Conflict(found, ConflictKind::Changed)) = kept else { panic!() };
            assert_eq!(found, path(name));
        }
        assert_eq!(transaction.roll_back(), []);
        for name in ["replaced", "removed"] {
            assert_eq!(Layer::stat(&*host, &path(name)).unwrap().size, 11, "{name}");
        }
    }

    #[test]
    fn paths_that_cannot_be_put_back_are_returned() {
        let folder = tempfile::tempdir().unwrap();
        let host = Arc::new(HostDir::open(folder.path()).unwrap());
        let steps = vec![Step::CreateDir { path: path("made"), temporary: temporary() }];
        let plan = Plan { steps, attributes: Vec::new() };
        let mut transaction = Transaction::new(host.clone(), plan, false, &());
        transaction.stage_dir(0, None).unwrap();
        transaction.place(0, None, &mut Touched::default()).unwrap();
        host.create_dir(&path("made/theirs"), Access::Shared).unwrap();
        assert_eq!(transaction.roll_back(), [path("made")]);
    }
}
