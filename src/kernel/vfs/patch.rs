//! Changes written to the disk.
//!
//! First everything that matters is compared with what the disk has now: a difference is a
//! conflict, and nothing is written. Then new contents are staged, and put in place as one
//! transaction for all mounts (see [`super::transaction`]). In between, and after, all paths go
//! through the open directory that was mounted: nothing outside it can be reached.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::conflicts::{Conflict, ConflictKind};
use super::diff::{Change, DiffError};
use super::host::{Access, HostDir, HostPermissions};
use super::layer::{FileType, Layer, Stat};
use super::node::{Body, MountId, NodeId, Origin, Times};
use super::overlay::{Found, Overlay};
use super::path::VPath;
use super::settle::{Checked, Placed, is_same};
use super::transaction::{StepError, Transaction};
use crate::base::errno::Errno;

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
    /// Paths that have all their bytes, but not the times or permissions they should have: the
    /// host refused.
    pub attributes_refused: Vec<VPath>,
    /// Temporaries that the host did not let us remove. They hold what was replaced or removed.
    pub leftovers: Vec<VPath>,
}

/// Why changes could not be written to the disk.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The changes could not be told. Nothing was written.
    #[error(transparent)]
    Diff(#[from] DiffError),
    /// The disk is not as it was when it was looked at. All differences that matter, sorted by
    /// mount and path. Nothing was written.
    #[error("nothing was written, because {}", list(.0))]
    Conflicts(Vec<Conflict>),
    /// The host refused a step. Nothing was written, or it was taken back.
    #[error("cannot {operation} {path}: {error}; nothing was written")]
    Host {
        /// What was tried, as a verb.
        operation: &'static str,
        /// The mount.
        mount: MountId,
        /// The path relative to the mount's root.
        path: VPath,
        /// What the host answered.
        error: io::Error,
    },
    /// Two mounts show the same file or directory of the disk, and both changed it. Nothing was
    /// written.
    #[error(
        "the mounts {first} and {second} both changed {} on the disk; nothing was written \
         (mount one of them read-only)",
        path.display()
    )]
    Overlap {
        /// One mount's path in the namespace.
        first: String,
        /// The other's.
        second: String,
        /// What both changed, on the disk.
        path: PathBuf,
    },
    /// Something went wrong, and not all that had been written could be taken back.
    #[error("{cause}, except that these could not be put back: {}", list(left))]
    HalfDone {
        /// What went wrong. Its text says of what is not in `left` that it was not written.
        cause: Box<ApplyError>,
        /// Paths, relative to their mounts, that are not as they were before.
        left: Vec<VPath>,
    },
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
    /// Directories that are to be made.
    pub created: HashSet<VPath>,
    /// Directories that are to be removed.
    pub removed: HashSet<VPath>,
}

/// What is ready to be put in place.
struct Staged {
    transaction: Transaction,
    placements: Vec<Placement>,
    /// Directories to be made that are to have the permissions of where they came from.
    permissions: HashMap<VPath, HostPermissions>,
}

/// The inodes of files that writing gave or took a name, which changes the stamps of their others.
type Touched = HashSet<u64>;

struct Placement {
    temporary: VPath,
    path: VPath,
    /// The file or link that it replaces.
    replaces: Option<Stat>,
}

/// Why a target was not written.
enum Failure {
    Step(StepError),
    Conflict(VPath, ConflictKind),
}

impl From<StepError> for Failure {
    fn from(error: StepError) -> Self {
        Self::Step(error)
    }
}

impl Overlay {
    /// Writes the changes in mounts of host directories back to these directories, all or nothing.
    /// Afterwards the namespace is as it was, and has no changes there.
    ///
    /// A file that is replaced keeps its permissions, without those to run as another user; one
    /// that was moved takes its own along. One that has further names on the disk is replaced also if
    /// only its times were set: the other names, which may lie elsewhere, keep theirs. Names of one file become names of one file where the
    /// host allows it; one that is new has the permissions of a new file under all of them. Times
    /// that were set explicitly go to the disk, also where nothing else changed; others are the
    /// host's. Forks of this overlay see the disk change beneath them. Nothing is synced: after a
    /// power failure the file system of the host decides.
    ///
    /// No conflict is made of files that were neither read nor changed, of listings, and of names
    /// that were not found. If there is nothing to write, nothing is checked either.
    ///
    /// # Errors
    /// See [`ApplyError`]; but for `HalfDone`, the disk is as it was before.
    pub fn apply(&mut self) -> Result<Applied, ApplyError> {
        let targets = self.targets()?;
        let has_times = |target: &Target| target.placed.iter().any(|p| self.node(p.id).times_set);
        if targets.iter().all(|target| target.changes.is_empty() && !has_times(target)) {
            return Ok(Applied::default());
        }
        self.expect_apart(&targets)?;
        let checked = self.check(&targets)?;
        let placed: HashSet<NodeId> =
            targets.iter().flat_map(|target| &target.placed).map(|placed| placed.id).collect();
        for target in &targets {
            let severed = self.sever_strays(target.mount, target.layer, &placed);
            severed.map_err(|(path, errno)| DiffError::Layer { operation: "read", path, errno })?;
        }
        let mut staged = Vec::new();
        let mut touched = HashSet::new();
        for target in &targets {
            let transaction = Transaction::new(target.host.clone(), target.unstable());
            let (placements, permissions) = (Vec::new(), HashMap::new());
            let mut here = Staged { transaction, placements, permissions };
            let result = self.stage(target, &mut here, &mut touched);
            staged.push(here);
            if let Err(error) = result {
                return Err(self.give_up(target.mount, error.into(), staged, &checked));
            }
        }
        let mut applied = Applied::default();
        for index in 0..targets.len() {
            let (target, here) = (&targets[index], &mut staged[index]);
            if let Err(failure) = commit(target, here, &mut touched, &mut applied) {
                return Err(self.give_up(targets[index].mount, failure, staged, &checked));
            }
        }
        for (target, staged) in targets.iter().zip(staged) {
            applied.leftovers.extend(staged.transaction.finish());
            self.set_attributes(target, &staged.permissions, &mut applied.attributes_refused);
            self.settle(target.mount, target.layer, &target.placed);
        }
        self.renew_stamps(&checked);
        Ok(applied)
    }

    fn targets(&mut self) -> Result<Vec<Target>, DiffError> {
        let mut changes = self.changes()?;
        let mut targets = Vec::new();
        for (index, mount) in self.mounts.iter().enumerate() {
            let Some(host) = mount.host.clone().filter(|_| !mount.read_only) else { continue };
            let Some((layer, _)) = self.dir(mount.root).below.first() else { continue };
            let mount = MountId(u16::try_from(index).expect("mount ids are 16 bits"));
            let mut changes: Vec<Change> = changes.extract_if(.., |c| c.mount == mount).collect();
            let placed = self.placed_in(mount);
            self.add_shared_times(&host, *layer, &placed, &mut changes);
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
                changes,
            });
        }
        Ok(targets)
    }

    /// Adds the files of which only the times were set and that have further names on the disk:
    /// these must keep theirs.
    fn add_shared_times(
        &self,
        host: &HostDir,
        layer: u16,
        placed: &[Placed],
        changes: &mut Vec<Change>,
    ) {
        let known = changes.len();
        for Placed { id, path, .. } in placed {
            let node = self.node(*id);
            let is_timed_file = node.times_set && matches!(node.body, Body::File(_));
            let is_known =
                || changes[..known].binary_search_by(|change| change.path.cmp(path)).is_ok();
            if !is_timed_file || is_known() {
                continue;
            }
            if let Ok(stat) = host.stat(path)
                && stat.nlink > 1
            {
                let before = Some(Found { layer, path: path.clone(), stat, rest: Vec::new() });
                let (mount, path, after) = (node.mount, path.clone(), Some(*id));
                changes.push(Change { mount, path, before, after });
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

    /// Takes everything back, and says why.
    fn give_up(
        &mut self,
        mount: MountId,
        failure: Failure,
        staged: Vec<Staged>,
        checked: &Checked,
    ) -> ApplyError {
        let roll_back = |staged: Staged| staged.transaction.roll_back();
        let left: Vec<VPath> = staged.into_iter().rev().flat_map(roll_back).collect();
        self.renew_stamps(checked);
        let cause = match failure {
            Failure::Conflict(path, what) => {
                ApplyError::Conflicts(vec![Conflict { mount, path, what }])
            }
            Failure::Step(StepError { operation, path, source }) => {
                ApplyError::Host { operation, mount, path, error: source }
            }
        };
        if left.is_empty() {
            return cause;
        }
        ApplyError::HalfDone { cause: Box::new(cause), left }
    }

    /// The host directory that `origin` lies in.
    fn host_of(&self, origin: &Origin) -> Option<&HostDir> {
        self.mounts[usize::from(self.mount_of(origin.layer).0)].host.as_deref()
    }

    fn stage(
        &self,
        target: &Target,
        staged: &mut Staged,
        touched: &mut Touched,
    ) -> Result<(), StepError> {
        let mut staged_at: HashMap<NodeId, VPath> = HashMap::new();
        for change in &target.changes {
            let Some(id) = change.after else { continue };
            let path = &change.path;
            let permissions = self.permissions(target, change, id)?;
            if target.created.contains(path) {
                staged.permissions.extend(permissions.map(|found| (path.clone(), found)));
                continue;
            }
            let transaction = &mut staged.transaction;
            let again = staged_at.get(&id).and_then(|of| transaction.stage_link(path, of).ok());
            let temporary = if let Some(temporary) = again {
                temporary
            } else {
                let permissions = permissions.as_ref();
                self.stage_one(target, change, id, permissions, transaction, touched)?
            };
            staged_at.entry(id).or_insert_with(|| temporary.clone());
            let replaces = change.before.as_ref().map(|found| found.stat);
            let replaces = replaces.filter(|stat| stat.file_type != FileType::Directory);
            staged.placements.push(Placement { temporary, path: path.clone(), replaces });
        }
        Ok(())
    }

    /// The permissions that `id` is to have: those it has where it comes from, or else those of the
    /// file that it replaces.
    fn permissions(
        &self,
        target: &Target,
        change: &Change,
        id: NodeId,
    ) -> Result<Option<HostPermissions>, StepError> {
        let node = self.node(id);
        if let Body::Symlink(_) = node.body {
            return Ok(None);
        }
        let is_file = change.before_type() == Some(FileType::RegularFile);
        let from = match &node.origin {
            Some(origin) => self.host_of(origin).map(|host| (host, &origin.path)),
            None => (is_file && node.nlink == 1).then_some((&*target.host, &change.path)),
        };
        let Some((host, path)) = from else { return Ok(None) };
        host.permissions(path).map(Some).map_err(StepError::new("examine", path))
    }

    fn stage_one(
        &self,
        target: &Target,
        change: &Change,
        id: NodeId,
        permissions: Option<&HostPermissions>,
        transaction: &mut Transaction,
        touched: &mut Touched,
    ) -> Result<VPath, StepError> {
        let node = self.node(id);
        let path = &change.path;
        let times = node.times_set.then_some(node.times);
        if let Body::Symlink(text) = &node.body {
            return transaction.stage_symlink(path, text, times);
        }
        // A file that was only moved or linked: another name for it does, and keeps all that the
        // host knows of it. If it stays where it is, it does so as long as it is this file: what was
        // put in its place, though equal to it, is another.
        let is_written = matches!(&node.body, Body::File(file) if file.content.is_dirty());
        let leaves = |origin: &Origin| {
            target.changes.binary_search_by(|change| change.path.cmp(&origin.path)).is_ok()
        };
        let is_near = |origin: &&Origin| {
            let is_same = if leaves(origin) { !is_written } else { self.is_at_home(id) };
            origin.layer == target.layer && is_same
        };
        if let Some(origin) = node.origin.as_deref().filter(is_near)
            && times.is_none()
            && let Ok(temporary) = transaction.stage_link(path, &origin.path)
        {
            touched.extend(target.host.stat(&origin.path).map(|stat| stat.inode));
            return Ok(temporary);
        }
        match self.file_version(id, change.before.as_ref()) {
            Some(version) => transaction.stage_file(path, &version, permissions, times),
            None => Err(StepError::new("copy", path)(io::ErrorKind::Unsupported.into())),
        }
    }

    /// Sets what must come last: times and permissions of directories, innermost first, and times
    /// of what did not change otherwise.
    fn set_attributes(
        &self,
        target: &Target,
        permissions: &HashMap<VPath, HostPermissions>,
        refused: &mut Vec<VPath>,
    ) {
        let staged: HashSet<&VPath> = target.changes.iter().map(|change| &change.path).collect();
        let is_dir = |id| matches!(self.node(id).body, Body::Dir(_));
        let mut todo: BTreeMap<&VPath, (Option<&HostPermissions>, Option<Times>)> = BTreeMap::new();
        for (path, permissions) in permissions {
            todo.entry(path).or_default().0 = Some(permissions);
        }
        for Placed { id, path, .. } in &target.placed {
            if self.node(*id).times_set && (is_dir(*id) || !staged.contains(path)) {
                todo.entry(path).or_default().1 = Some(self.node(*id).times);
            }
        }
        for (path, (permissions, times)) in todo.into_iter().rev() {
            let permissions = permissions.map(|p| target.host.set_dir_permissions(path, p));
            let times = times.map(|times| target.host.set_times(path, times));
            if permissions.into_iter().chain(times).any(|result| result.is_err()) {
                refused.push(path.clone());
            }
        }
    }
}

impl Target {
    fn unstable(&self) -> HashSet<VPath> {
        self.created.union(&self.removed).cloned().collect()
    }
}

/// Puts everything in place.
fn commit(
    target: &Target,
    staged: &mut Staged,
    touched: &mut Touched,
    applied: &mut Applied,
) -> Result<(), Failure> {
    let transaction = &mut staged.transaction;
    let is_kept =
        |change: &&Change| change.after.is_some() && !target.created.contains(&change.path);
    for change in target.changes.iter().filter(|change| !is_kept(change)) {
        let Some(before) = change.before.as_ref().map(|found| &found.stat) else { continue };
        if before.file_type != FileType::Directory {
            expect(target, &change.path, Some(before), touched)?;
            transaction.remove(&change.path, false)?;
            applied.removed += 1;
        }
    }
    for change in target.changes.iter().rev() {
        if target.removed.contains(&change.path) {
            transaction.remove(&change.path, true)?;
            applied.dirs_removed += 1;
        }
    }
    for change in &target.changes {
        if target.created.contains(&change.path) {
            let is_private = staged.permissions.contains_key(&change.path);
            let access = if is_private { Access::Private } else { Access::Shared };
            transaction.create_dir(&change.path, access)?;
            applied.dirs_created += 1;
        }
    }
    for Placement { temporary, path, replaces } in &staged.placements {
        expect(target, path, replaces.as_ref(), touched)?;
        transaction.place(temporary, path, replaces.is_some())?;
        applied.written += 1;
    }
    Ok(())
}

/// Makes sure, right before it goes, that `path` is still what was checked.
fn expect(
    target: &Target,
    path: &VPath,
    expected: Option<&Stat>,
    touched: &mut Touched,
) -> Result<(), Failure> {
    let conflict = |what| Err(Failure::Conflict(path.clone(), what));
    let is_unchanged = |before: &Stat, now: &Stat| {
        is_same(before, now) && (before.stamp == now.stamp || touched.contains(&now.inode))
    };
    match (target.host.stat(path), expected) {
        (Ok(now), Some(before)) if is_unchanged(before, &now) => {
            touched.insert(now.inode);
            Ok(())
        }
        (Err(Errno::Noent), None) => Ok(()),
        (Ok(_), Some(_)) => conflict(ConflictKind::Changed),
        (Ok(_), None) => conflict(ConflictKind::Appeared),
        (Err(Errno::Noent), Some(_)) => conflict(ConflictKind::Vanished),
        (Err(errno), _) => Err(StepError::new("examine", path)(io::Error::other(errno)).into()),
    }
}
