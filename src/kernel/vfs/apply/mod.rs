//! Writes changes to the disk.
//!
//! First the disk is compared with the state that was looked at: a difference that matters is a conflict, and nothing
//! is written. Then new contents are staged and put in place as one transaction for all mounts (see
//! [`self::transaction`]). All paths go through the open directory that was mounted, so nothing outside it is
//! reached.

mod checked;
pub(super) mod conflicts;
mod dir_times;
mod dirs;
mod failure;
mod names;
pub(super) mod rebase;
pub(super) mod settle;
pub(super) mod staging;
pub(super) mod transaction;
pub(super) mod written;

#[cfg(test)]
mod executable_tests;
#[cfg(test)]
mod power_tests;
#[cfg(test)]
mod race_tests;
#[cfg(test)]
pub(super) mod tests;

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::conflicts::Conflict;
use self::failure::{Failure, StepError};
use self::settle::Placed;
use self::staging::{By, Planned, replaced};
use self::transaction::{Touched, Transaction};
use self::written::Written;
use super::diff::{Change, DiffError};
use super::journal::error::JournalError;
use super::journal::plan::Step;
use super::journal::tree::Tree;
use super::journal::{Journal, Journals, Witness};
use super::layer::host_dir::HostDir;
use super::layer::{FileType, Layer, Stat};
use super::overlay::below_files::BelowFiles;
use super::overlay::node::{Body, MountId, NodeId};
use super::overlay::times::DiskTimes;
use super::overlay::{Found, Overlay};
use super::path::VPath;

/// What was written to the disk.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Applied {
    /// Files and symbolic links that were created or replaced.
    pub written: usize,
    /// Files and symbolic links that were removed.
    pub removed: usize,
    /// Directories that were created.
    pub dirs_created: usize,
    /// Directories that were removed.
    pub dirs_removed: usize,
    /// Paths whose contents were written, but whose times or permissions the host refused to set.
    pub attributes_refused: Vec<VPath>,
    /// Temporary files that the host refused to remove. They hold what was replaced or removed.
    pub leftovers: Vec<VPath>,
}

/// Why changes could not be written to the disk.
#[derive(thiserror::Error)]
pub enum ApplyError {
    /// The changes cannot be determined. Nothing was written.
    #[error(transparent)]
    Diff(#[from] DiffError),
    /// The disk changed since it was looked at. All differences that matter, sorted by mount and path. Nothing was
    /// written.
    #[error("nothing was written, because {}", list(.0))]
    Conflicts(Vec<Conflict>),
    /// The host refused a step. Nothing was written, or all was taken back.
    #[error("cannot {operation} {path}: {error}; nothing was written")]
    Host {
        /// What failed, as a verb.
        operation: &'static str,
        /// The mount.
        mount: MountId,
        /// The path relative to the mount's root.
        path: VPath,
        /// The host's error.
        error: io::Error,
    },
    /// Two mounts show the same file or directory of the disk, and both changed it. Nothing was written.
    #[error(
        "the mounts {first} and {second} both changed {} on the disk; nothing was written \
         (mount one of them read-only)",
        path.display()
    )]
    Overlap {
        /// One mount's path in the namespace.
        first: String,
        /// The other mount's path.
        second: String,
        /// The path on the disk that both changed.
        path: PathBuf,
    },
    /// [`Witness::is_interrupted`] returned true. Nothing was written, or all was taken back.
    #[error("interrupted; nothing was written")]
    Interrupted,
    /// The journal cannot be written, or changes left by another process cannot be taken back. Nothing was
    /// written.
    #[error("{0}; nothing was written")]
    Journal(JournalError),
    /// A step failed, and not all that had been written could be taken back.
    #[error("{cause}, except that these could not be put back: {}", list(left))]
    HalfDone {
        /// The failure. Paths that are not in `left` are as before.
        cause: Box<ApplyError>,
        /// Paths, relative to their mounts, that were not put back.
        left: Vec<VPath>,
    },
}

crate::base::readable::readable!(ApplyError);

// Not `#[from]`, which would make it the source too, so that its text appeared twice.
impl From<JournalError> for ApplyError {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

fn list(items: &[impl Display]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// A mount to write to.
pub(super) struct Target {
    pub mount: MountId,
    pub layer: u16,
    pub host: Arc<HostDir>,
    /// Sorted by path.
    pub changes: Vec<Change>,
    pub placed: Vec<Placed>,
    /// Changes are relative to a [`Baseline`], not to the disk.
    pub is_pinned: bool,
    /// Changes that the disk has already, which are not among `changes`.
    pub on_disk: HashMap<VPath, OnDisk>,
    /// Names of new files at which the disk has an equal file without other names, which stays.
    pub unchanged_names: HashMap<NodeId, VPath>,
    /// Converts times to those of the disk.
    pub disk_times: Arc<DiskTimes>,
    /// Directories to be created.
    pub created: HashSet<VPath>,
    /// Directories to be removed.
    pub removed: HashSet<VPath>,
}

impl Target {
    /// The change of `path`.
    pub fn change_at(&self, path: &VPath) -> Option<&Change> {
        let at = self.changes.binary_search_by(|change| change.path.cmp(path)).ok()?;
        Some(&self.changes[at])
    }
}

/// A change that the disk has already.
pub(super) struct OnDisk {
    /// The node at the path in the namespace.
    pub after: Option<NodeId>,
    /// What the disk has at the path.
    pub now: Option<Stat>,
}

/// Wraps a directory of the host for writing.
pub(super) type Decorate<'a> = &'a dyn Fn(Arc<HostDir>) -> Arc<dyn Tree>;

impl Overlay {
    /// Writes the changes in mounts of host directories to these directories, all or nothing. Afterwards the
    /// namespace is as before and has no changes there. Does nothing if nothing changed.
    ///
    /// A replaced file keeps its permissions, without set-user-id and set-group-id; a moved file keeps its own, both
    /// but for the execute permission that a program set. A file of which only the times were set is replaced if it has
    /// further names on the disk: those may be outside the directory and keep their times. Names of one file become
    /// hard links where the host allows it; a new file has default permissions. Times that were set explicitly are set
    /// on the disk, even if nothing else changed; others are the host's. Forks of this overlay see the disk change.
    /// Nothing is synced, and no journal is written: a kill or power cut may leave parts; see
    /// [`Overlay::apply_journaled`].
    ///
    /// Files that were neither read nor changed, listings, and names that were not found cause no conflicts.
    ///
    /// # Errors
    /// [`ApplyError`]. Except for `HalfDone`, the disk is as before.
    pub fn apply(&mut self) -> Result<Applied, ApplyError> {
        self.apply_through(None, &(), &|host| host)
    }

    /// As [`Overlay::apply`], but all or nothing even if the process is killed or the power is cut: each step is
    /// noted in `journals` and synced first, and [`Journals::recover`] finishes it or takes it back. Older journals
    /// of these directories are recovered first; other processes that write to them are waited for. If `witness`
    /// reports an interruption before the commit, all is taken back.
    ///
    /// # Errors
    /// [`ApplyError`]. Except for `HalfDone`, the disk is as before.
    pub fn apply_journaled(
        &mut self,
        journals: &Journals,
        witness: &dyn Witness,
    ) -> Result<Applied, ApplyError> {
        self.apply_through(Some(journals), witness, &|host| host)
    }

    /// Hides, in mounted directories of the host, the temporary files of live [`Journals`] in the directory
    /// `journals`.
    pub fn hide_temporaries(&self, journals: &Path) {
        for host in self.mounts.iter().filter_map(|mount| mount.host.as_ref()) {
            let journals = journals.to_owned();
            host.hide_temporaries(Box::new(move || Journals::temporaries(&journals)));
        }
    }

    pub(super) fn apply_through(
        &mut self,
        journals: Option<&Journals>,
        witness: &dyn Witness,
        decorate: Decorate<'_>,
    ) -> Result<Applied, ApplyError> {
        let mut applied = self.apply_targets(journals, witness, decorate);
        if let Err(ApplyError::Conflicts(conflicts)) = &mut applied {
            self.name_mounts(conflicts);
        }
        applied
    }

    fn apply_targets(
        &mut self,
        journals: Option<&Journals>,
        witness: &dyn Witness,
        decorate: Decorate<'_>,
    ) -> Result<Applied, ApplyError> {
        self.unfold_all().map_err(DiffError::State)?;
        self.renew_touched();
        let targets = self.targets()?;
        if !targets.iter().any(|target| self.has_work(target)) {
            self.apply_dir_times(&targets, decorate);
            return Ok(Applied::default());
        }
        self.expect_apart(&targets)?;
        let folders: Vec<&HostDir> = targets.iter().map(|target| &*target.host).collect();
        let journal = journals.map(|journals| journals.begin(&folders, witness)).transpose();
        let mut journal = journal.map_err(|error| match error {
            JournalError::Interrupted => ApplyError::Interrupted,
            error => error.into(),
        })?;
        // Anything that others wrote while this waited is found below.
        let mut checked = self.check(&targets)?;
        let placed: HashSet<NodeId> =
            targets.iter().flat_map(|target| &target.placed).map(|placed| placed.id).collect();
        for target in &targets {
            let severed = self.detach_strays(target.mount, target.layer, &placed);
            severed.map_err(|(path, errno)| DiffError::Layer { operation: "read", path, errno })?;
        }
        let known_dirs = self.known_dirs(&targets);
        let mut planned = Vec::new();
        for target in &targets {
            let of_mount = |StepError { operation, path, source }| ApplyError::Host {
                operation,
                mount: target.mount,
                path,
                error: source,
            };
            planned.push(self.plan(target).map_err(of_mount)?);
        }
        let split = |Planned { plan, changes, links }| ((plan, changes), links);
        let (planned, links): (Vec<_>, Vec<_>) = planned.into_iter().map(split).unzip();
        let (plans, changes): (Vec<_>, Vec<_>) = planned.into_iter().unzip();
        let durable = journal.is_some();
        let noted = journal.as_mut().map_or(Ok(()), |journal| journal.prepare(&plans));
        let transactions = targets.iter().zip(plans).map(|(target, plan)| {
            let dir_times = self.dir_times(target, &plan);
            let tree = decorate(target.host.clone());
            Transaction::new(tree, plan, durable, witness).with_dir_times(dir_times)
        });
        let mut writing = Writing {
            targets: &targets,
            changes: &changes,
            transactions: transactions.collect(),
            journal,
        };
        let written =
            noted.map_err(Stop::Journal).and_then(|()| self.write_all(&mut writing, &links));
        if let Err(stop) = written {
            let error = give_up(writing, stop, witness);
            self.renew_stamps(&checked);
            self.accept_dirs(known_dirs);
            return Err(error);
        }
        let (applied, transactions) = writing.finish();
        for (target, transaction) in targets.iter().zip(&transactions) {
            let written = Written::of(target, transaction, &mut checked);
            let contents = self.written_contents(target);
            self.move_baseline(target, &written, &contents);
            self.settle_dir_times(target, &written);
            self.settle(target, &written);
        }
        self.renew_stamps(&checked);
        self.accept_dirs(known_dirs);
        for target in &targets {
            self.keep_what_was_written(target);
        }
        // Their files may have other stamps now.
        self.below_files = BelowFiles::default();
        Ok(applied)
    }

    /// Whether programs added or removed names in a directory that an apply writes to, perhaps without another change.
    pub fn has_changed_dirs(&self) -> bool {
        let is_written_to = |mount: MountId| {
            let mount = &self.mounts[mount.index()];
            mount.host.is_some() && !mount.read_only
        };
        self.nodes.iter().any(|(_, node)| node.is_changed_dir() && is_written_to(node.mount))
    }

    /// Whether `target` has something to write or to record.
    fn has_work(&self, target: &Target) -> bool {
        let counts = |placed: &Placed| self.node(placed.id).carries_times();
        !target.changes.is_empty() || !target.on_disk.is_empty() || target.placed.iter().any(counts)
    }

    /// Stages everything, then puts it in place. `links` are those of the plans.
    fn write_all(
        &self,
        writing: &mut Writing<'_, '_>,
        links: &[Vec<Option<&VPath>>],
    ) -> Result<(), Stop> {
        let mut touched = Touched::default();
        let Writing { targets, changes, transactions, journal } = writing;
        let each = |transactions: &mut Vec<_>| 0..transactions.len();
        for by in [By::Copy, By::Link] {
            for at in each(transactions) {
                let (target, transaction) = (&targets[at], &mut transactions[at]);
                let how = (&*links[at], by);
                let staged = self.stage(target, &changes[at], how, transaction, &mut touched);
                staged.map_err(|error| Stop::Failure(target.mount, error.into()))?;
            }
        }
        for at in each(transactions) {
            let (target, transaction) = (&targets[at], &mut transactions[at]);
            let stop = |failure| Stop::Failure(target.mount, failure);
            for (index, change) in changes[at].iter().enumerate() {
                let before = replaced(&target.changes[*change]);
                transaction.keep(index, before, &mut touched).map_err(stop)?;
            }
        }
        for at in each(transactions) {
            let synced = transactions[at].sync_staged();
            synced.map_err(|error| Stop::Failure(targets[at].mount, error.into()))?;
        }
        if let Some(journal) = journal {
            let staged: Vec<_> = transactions.iter().map(|it| it.staged().to_vec()).collect();
            journal.staged(&staged).map_err(Stop::Journal)?;
        }
        for at in each(transactions) {
            let (target, transaction) = (&targets[at], &mut transactions[at]);
            for (index, change) in changes[at].iter().enumerate() {
                let before = replaced(&target.changes[*change]);
                let placed = transaction.place(index, before, &mut touched);
                placed.map_err(|failure| Stop::Failure(target.mount, failure))?;
            }
        }
        for at in each(transactions) {
            let synced = transactions[at].sync();
            synced.map_err(|error| Stop::Failure(targets[at].mount, error.into()))?;
        }
        for at in each(transactions) {
            let target = &targets[at];
            for (index, change) in changes[at].iter().enumerate() {
                let kept = transactions[at].expect_kept(index, replaced(&target.changes[*change]));
                kept.map_err(|failure| Stop::Failure(target.mount, failure))?;
            }
        }
        journal.as_mut().map_or(Ok(()), Journal::commit).map_err(Stop::Journal)
    }

    fn targets(&mut self) -> Result<Vec<Target>, DiffError> {
        let mut changes = self.changes()?;
        let disk_times = Arc::new(self.disk_times());
        let mut targets = Vec::new();
        for (index, mount) in self.mounts.iter().enumerate() {
            let Some(host) = mount.host.clone().filter(|_| !mount.read_only) else { continue };
            let Some((layer, _)) = self.dir(mount.root).below.first() else { continue };
            let mount = MountId(u16::try_from(index).expect("mount ids are 16 bits"));
            let mut changes: Vec<Change> = changes.extract_if(.., |c| c.mount == mount).collect();
            let placed = self.placed_in(mount);
            self.add_files_with_other_names(&host, *layer, &placed, &mut changes);
            let is_pinned = self.mounts[mount.index()].baseline.is_some();
            let mut on_disk = HashMap::new();
            if is_pinned {
                self.add_made_again_elsewhere(&host, *layer, &placed, &mut changes);
                (changes, on_disk) = self.split_settled(&host, changes)?;
            }
            let unchanged_names = self.unchanged_names(&changes);
            let is_dir = |id: &NodeId| matches!(self.node(*id).body, Body::Dir(_));
            let was_dir = |change: &Change| change.before_type() == Some(FileType::Directory);
            let path = |change: &Change| change.path.clone();
            let created = changes.iter().filter(|c| c.after.as_ref().is_some_and(is_dir)).map(path);
            let removed = changes.iter().filter(|c| was_dir(c)).map(path);
            targets.push(Target {
                mount,
                layer: *layer,
                host,
                created: created.collect(),
                removed: removed.collect(),
                placed,
                unchanged_names,
                is_pinned,
                on_disk,
                disk_times: disk_times.clone(),
                changes,
            });
        }
        Ok(targets)
    }

    /// Adds files that the disk has, but which become files of their own, because the disk's have further names, perhaps
    /// outside of the directory: those of which only the times were set, and new ones with several names. A tape does not
    /// have the number of names, so that the diff cannot ask for it.
    fn add_files_with_other_names(
        &self,
        host: &HostDir,
        layer: u16,
        placed: &[Placed],
        changes: &mut Vec<Change>,
    ) {
        let mut names: HashMap<NodeId, Vec<&VPath>> = HashMap::new();
        for Placed { id, path, .. } in placed.iter().filter(|it| self.node(it.id).nlink > 1) {
            names.entry(*id).or_default().push(path);
        }
        let may_be_added = |it: &&Placed| {
            let node = self.node(it.id);
            let is_timed_file = node.carries_times() && matches!(node.body, Body::File(_));
            is_timed_file || self.is_new_with_names(it.id)
        };
        let before = |it: &Placed| {
            let stat = Layer::stat(host, &it.path).ok().filter(|stat| stat.nlink > 1)?;
            let has_others = |names: &Vec<&VPath>| !has_only_names(host, &stat, names);
            names.get(&it.id).is_none_or(has_others).then_some(stat)
        };
        self.add_equal(layer, placed.iter().filter(may_be_added), before, changes);
    }

    /// Adds those of `placed` that are none of the `changes`, sorted by path, and for which `before` returns the attributes of
    /// the file of `layer` with equal content.
    pub(super) fn add_equal<'p>(
        &self,
        layer: u16,
        placed: impl Iterator<Item = &'p Placed>,
        before: impl Fn(&Placed) -> Option<Stat>,
        changes: &mut Vec<Change>,
    ) {
        let known = changes.len();
        for it in placed {
            if changes[..known].binary_search_by(|change| change.path.cmp(&it.path)).is_ok() {
                continue;
            }
            if let Some(stat) = before(it) {
                let (mount, path, after) = (self.node(it.id).mount, it.path.clone(), Some(it.id));
                let before = Some(Found { layer, path: path.clone(), stat, rest: Vec::new() });
                changes.push(Change { mount, path, before, after, is_equal: true });
            }
        }
        changes.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    }

    /// # Errors
    /// [`ApplyError::Overlap`] if two targets would write to one place on the disk.
    fn expect_apart(&self, targets: &[Target]) -> Result<(), ApplyError> {
        let roots = || targets.iter().map(|target| target.host.path());
        let is_within = |(index, root): (usize, &Path)| {
            roots().enumerate().any(|(other, above)| other != index && root.starts_with(above))
        };
        if !roots().enumerate().any(is_within) {
            return Ok(());
        }
        let mut owners: HashMap<PathBuf, MountId> = HashMap::new();
        let on_disk =
            |target: &Target, change: &Change| target.host.path().join(change.path.as_str());
        for target in targets {
            let changed = target.changes.iter().map(|change| on_disk(target, change));
            owners.extend(changed.map(|path| (path, target.mount)));
        }
        for target in targets {
            for change in &target.changes {
                let path = on_disk(target, change);
                let mut above = path.ancestors().filter_map(|path| owners.get_key_value(path));
                if let Some((path, owner)) = above.find(|(_, owner)| **owner != target.mount) {
                    let at = |mount: MountId| self.mounts[mount.index()].path();
                    let (first, second) = (at(*owner), at(target.mount));
                    return Err(ApplyError::Overlap { first, second, path: path.clone() });
                }
            }
        }
        Ok(())
    }
}

/// Whether the file with the attributes `stat`, which is on the disk, has only the names `known`.
fn has_only_names(host: &HostDir, stat: &Stat, known: &[&VPath]) -> bool {
    let is_name = |path: &&&VPath| Layer::stat(host, path).is_ok_and(|it| it.inode == stat.inode);
    stat.inode != 0 && known.iter().filter(is_name).count() as u64 == stat.nlink
}

/// Why writing stopped.
enum Stop {
    Failure(MountId, Failure),
    Journal(JournalError),
}

/// A write to all targets.
struct Writing<'a, 'w> {
    targets: &'a [Target],
    /// For each step of each target, the index of its change.
    changes: &'a [Vec<usize>],
    transactions: Vec<Transaction<'w>>,
    journal: Option<Journal<'w>>,
}

impl<'w> Writing<'_, 'w> {
    /// Completes the write after the commit.
    fn finish(self) -> (Applied, Vec<Transaction<'w>>) {
        let mut applied = Applied::default();
        for transaction in &self.transactions {
            let finished = transaction.finish();
            applied.leftovers.extend(finished.leftovers);
            applied.attributes_refused.extend(finished.refused);
            for step in transaction.steps() {
                match step {
                    Step::Remove { dir_mode: None, .. } => applied.removed += 1,
                    Step::Remove { dir_mode: Some(_), .. } => applied.dirs_removed += 1,
                    Step::CreateDir { .. } => applied.dirs_created += 1,
                    Step::Place { .. } => applied.written += 1,
                }
            }
        }
        // With temporaries left, the journal stays, so that the next run hides and removes them. One that stays for
        // another reason will be found to have nothing left to do.
        if let Some(journal) = self.journal.filter(|_| applied.leftovers.is_empty()) {
            let _ = journal.remove();
        }
        (applied, self.transactions)
    }
}

/// Takes everything back and returns the reason.
fn give_up(writing: Writing<'_, '_>, stop: Stop, witness: &dyn Witness) -> ApplyError {
    let left: Vec<VPath> =
        writing.transactions.iter().rev().flat_map(Transaction::roll_back).collect();
    let cause = match stop {
        _ if witness.is_interrupted() => ApplyError::Interrupted,
        Stop::Failure(mount, Failure::Conflict(path, what)) => {
            ApplyError::Conflicts(vec![Conflict { mount, mount_path: String::new(), path, what }])
        }
        Stop::Failure(mount, Failure::Step(StepError { operation, path, source })) => {
            ApplyError::Host { operation, mount, path, error: source }
        }
        Stop::Journal(error) => error.into(),
    };
    if !left.is_empty() {
        // The journal stays for a later recovery.
        return ApplyError::HalfDone { cause: Box::new(cause), left };
    }
    if let Some(journal) = writing.journal {
        let _ = journal.remove();
    }
    cause
}

impl Target {
    /// Directories that do not exist both before and after: no temporary files in them.
    pub(super) fn unstable(&self) -> HashSet<VPath> {
        self.created.union(&self.removed).cloned().collect()
    }
}
