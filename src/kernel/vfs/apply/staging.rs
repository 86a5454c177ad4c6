//! Plans the steps of an apply, and stages them beside their places.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;

use super::Target;
use super::failure::StepError;
use super::settle::Placed;
use super::transaction::{Touched, Transaction};
use crate::kernel::vfs::FileVersion;
use crate::kernel::vfs::diff::Change;
use crate::kernel::vfs::journal::plan::{Attributes, Identity, Plan, Step};
use crate::kernel::vfs::layer::Times;
use crate::kernel::vfs::layer::host_dir::HostDir;
use crate::kernel::vfs::layer::host_permissions::HostPermissions;
use crate::kernel::vfs::layer::temporary::temporary_name;
use crate::kernel::vfs::layer::{FileType, Layer, Stat};
use crate::kernel::vfs::overlay::Overlay;
use crate::kernel::vfs::overlay::node::{Body, Node, NodeId, Origin, TimesOf};
use crate::kernel::vfs::path::VPath;

/// How a step is staged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// As a copy. Reads from the disk, which checks change times.
    Copy,
    /// As a further name of a file, whose change time changes by that.
    Link,
}

/// The plan for one directory of the host.
pub(super) struct Planned<'a> {
    pub plan: Plan,
    /// For each step, the index of its change.
    pub changes: Vec<usize>,
    /// For each step, the file on the disk of which it makes a further name, if any: determined once, before change times on the
    /// disk change.
    pub links: Vec<Option<&'a VPath>>,
}

impl Overlay {
    /// Plans the steps. Nothing is changed yet.
    pub(super) fn plan<'a>(&'a self, target: &'a Target) -> Result<Planned<'a>, StepError> {
        let mut planned = Planned { plan: Plan::default(), changes: Vec::new(), links: Vec::new() };
        let unstable = target.unstable();
        let beside = |path: &VPath| temporary_beside(path, &unstable);
        let mut add = |index, step| {
            planned.plan.steps.push(step);
            planned.changes.push(index);
        };
        let changes = || target.changes.iter().enumerate();
        let is_made = |change: &Change| target.created.contains(&change.path);
        for (index, change) in changes().filter(|(_, it)| it.after.is_none() || is_made(it)) {
            if change.before_type().is_some_and(|before| before != FileType::Directory) {
                let path = change.path.clone();
                add(index, Step::Remove { backup: beside(&path), path, dir_mode: None });
            }
        }
        for (index, change) in changes().rev() {
            if target.removed.contains(&change.path) {
                let path = change.path.clone();
                let permissions = target.host.permissions(&path);
                let mode = permissions.map_err(StepError::new("examine", &path))?.mode();
                add(index, Step::Remove { backup: beside(&path), path, dir_mode: Some(mode) });
            }
        }
        for (index, change) in changes().filter(|(_, change)| is_made(change)) {
            let path = change.path.clone();
            add(index, Step::CreateDir { temporary: beside(&path), path });
        }
        for (index, change) in changes().filter(|(_, it)| it.after.is_some() && !is_made(it)) {
            let path = change.path.clone();
            let backup = replaced(change).map(|_| beside(&path));
            add(index, Step::Place { temporary: beside(&path), path, backup });
        }
        planned.links = self.links(target, &planned.changes);
        let mut known = HashMap::new();
        for (step, origin) in planned.plan.steps.iter().zip(&planned.links) {
            if let (Step::Place { temporary, .. }, Some(origin)) = (step, origin) {
                let removable = target.host.expect_removable(origin, temporary, &mut known);
                removable.map_err(StepError::new("link to", origin))?;
            }
            let (Step::Remove { path, backup, .. }
            | Step::Place { path, backup: Some(backup), .. }) = step
            else {
                continue;
            };
            let movable = target.host.expect_movable(path, backup, &mut known);
            movable.map_err(StepError::new("replace or remove", path))?;
        }
        planned.plan.attributes = self.attributes(target)?;
        Ok(planned)
    }

    /// Attributes that are set last: permissions of directories and times that were set explicitly, innermost first, and times
    /// of paths that did not change otherwise.
    fn attributes(&self, target: &Target) -> Result<Vec<Attributes>, StepError> {
        let changed: HashSet<&VPath> = target.changes.iter().map(|change| &change.path).collect();
        let mut todo: BTreeMap<&VPath, (Option<u32>, Option<Times>)> = BTreeMap::new();
        for change in target.changes.iter().filter(|it| target.created.contains(&it.path)) {
            let Some(id) = change.after else { continue };
            if let Some(permissions) = self.permissions(target, change, id)? {
                todo.entry(&change.path).or_default().0 = Some(permissions.mode_for_new());
            }
        }
        let first_written_ns = self.first_written_ns(target);
        for placed in &target.placed {
            let (node, path) = (self.node(placed.id), &placed.path);
            let is_dir = matches!(node.body, Body::Dir(_));
            // What the disk has already keeps its time, unless that has to be later than one that is written now.
            let is_kept = node.times_of == TimesOf::Clock
                && target.on_disk.contains_key(path)
                && first_written_ns.is_none_or(|first| node.times.mtim < first);
            if is_kept || node.is_changed_dir() {
                continue;
            }
            let Some(times) = target.disk_times.of(node) else { continue };
            if is_dir || !changed.contains(path) {
                todo.entry(path).or_default().1 = Some(times);
            }
        }
        // Setting the times of a file changes them under its other names.
        let mut timed = HashSet::new();
        let attributes = |(path, (mode, times)): (&VPath, (Option<u32>, Option<Times>))| {
            let is_new = target.created.contains(path);
            let stat = if is_new { None } else { target.host.stat(path).ok() };
            let of = stat.as_ref().map(Identity::of);
            let file = of.filter(|of| of.inode != 0 && of.file_type != FileType::Directory);
            let is_first = file.is_none_or(|of| timed.insert(of.inode));
            is_first.then(|| Attributes { path: path.clone(), times, mode, of })
        };
        Ok(todo.into_iter().rev().filter_map(attributes).collect())
    }

    /// The earliest time of a write to a file that the disk does not have yet.
    fn first_written_ns(&self, target: &Target) -> Option<u64> {
        let is_new = |placed: &&Placed| !target.on_disk.contains_key(&placed.path);
        let nodes = target.placed.iter().filter(is_new).map(|placed| self.node(placed.id));
        let is_written =
            |node: &&Node| node.times_of == TimesOf::Clock && !matches!(node.body, Body::Dir(_));
        nodes.filter(is_written).map(|node| node.times.mtim).min()
    }

    /// For each of the `planned` changes, the file on the disk of which it makes a further name, if any.
    fn links<'a>(&'a self, target: &'a Target, planned: &[usize]) -> Vec<Option<&'a VPath>> {
        let from =
            |id: NodeId| self.linked_from(target, id).or_else(|| target.unchanged_names.get(&id));
        planned.iter().map(|change| from(target.changes[*change].after?)).collect()
    }

    /// Stages the steps of one kind (`by`). `links` are those of the plan.
    pub(super) fn stage(
        &self,
        target: &Target,
        planned: &[usize],
        (links, by): (&[Option<&VPath>], By),
        transaction: &mut Transaction<'_>,
        touched: &mut Touched,
    ) -> Result<(), StepError> {
        // The first staged name of each file.
        let mut staged_at: HashMap<NodeId, VPath> = HashMap::new();
        for (index, (planned, origin)) in planned.iter().zip(links).enumerate() {
            let change = &target.changes[*planned];
            let Some(id) = change.after else { continue };
            if origin.is_some() != (by == By::Link) {
                continue;
            }
            match transaction.steps()[index].clone() {
                Step::Remove { .. } => {}
                Step::CreateDir { .. } => {
                    let permissions = self.permissions(target, change, id)?;
                    transaction.stage_dir(index, permissions.as_ref())?;
                }
                Step::Place { temporary, .. } => {
                    let mut link = |of: &VPath| transaction.stage_link(index, of, touched).is_ok();
                    let is_linked =
                        staged_at.get(&id).is_some_and(&mut link) || origin.is_some_and(&mut link);
                    if !is_linked {
                        let twin = staged_at.get(&id).filter(|_| by == By::Link);
                        self.stage_anew(target, change, (id, twin), index, transaction)?;
                    }
                    staged_at.entry(id).or_insert(temporary);
                }
            }
        }
        Ok(())
    }

    /// The host directory of `origin`.
    fn host_of(&self, origin: &Origin) -> Option<&HostDir> {
        self.mounts[usize::from(self.mount_of(origin.layer).0)].host.as_deref()
    }

    /// The times that the disk has for `node`, unless it was written to.
    pub(super) fn times_of_origin(&self, node: &Node) -> Option<Times> {
        let is_written = matches!(&node.body, Body::File(file) if file.content.is_dirty());
        let origin = node.origin.as_ref().filter(|_| !is_written)?;
        let stat = self.host_of(origin)?.stat(&origin.path).ok()?;
        (stat.stamp == origin.stamp).then(|| Times::all(stat.mtime_ns))
    }

    /// The permissions for `id`: those of its origin, or of the file that it replaces, with the execute permission
    /// that a program set.
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
        let is_file = matches!(node.body, Body::File(_))
            && change.before_type() == Some(FileType::RegularFile);
        let from = match &node.origin {
            Some(origin) => self.host_of(origin).map(|host| (host, &origin.path)),
            None => is_file.then_some((&*target.host, &change.path)),
        };
        let Some((host, path)) = from else { return Ok(None) };
        let permissions = host.permissions(path).map_err(StepError::new("examine", path))?;
        // As `Node::is_executable` has it: a new file with several names cannot be executed.
        let is_new = node.origin.is_none() && is_file && node.nlink > 1;
        Ok(Some(match node.executable.or(is_new.then_some(false)) {
            Some(true) => permissions.with_execute(),
            Some(false) => permissions.without_execute(),
            None => permissions,
        }))
    }

    /// The file on the disk of which `id` becomes a further name.
    fn linked_from(&self, target: &Target, id: NodeId) -> Option<&VPath> {
        let node = self.node(id);
        if matches!(node.body, Body::Dir(_)) {
            return None;
        }
        // A file that was only moved or linked gets a further name, which keeps all its attributes. A file that stays
        // can be linked to while it is this file: an equal file put in its place is another one.
        let is_written = matches!(&node.body, Body::File(file) if file.content.is_dirty());
        // So does the execute permission, which other names of the file keep.
        if node.executable.is_some() {
            return None;
        }
        let leaves = |origin: &Origin| target.change_at(&origin.path).is_some();
        let is_near = |origin: &&Origin| {
            let is_same = if leaves(origin) { !is_written } else { self.is_at_home(id) };
            origin.layer == target.layer && is_same
        };
        // A further name shares the times of the file. Times that changed are set on the file in its place.
        let keeps_times = |origin: &Origin| match node.times_of {
            TimesOf::Guest | TimesOf::Clock => !leaves(origin),
            TimesOf::Layer | TimesOf::Content => true,
        };
        node.origin.as_deref().filter(is_near).filter(|it| keeps_times(it)).map(|it| &it.path)
    }

    /// Stages a copy of `id`: of `twin`, if that is a staged name of the same file of the disk, in another file system
    /// beneath the directory. Change times on the disk then no longer tell that it is unchanged.
    fn stage_anew(
        &self,
        target: &Target,
        change: &Change,
        (id, twin): (NodeId, Option<&VPath>),
        index: usize,
        transaction: &mut Transaction<'_>,
    ) -> Result<(), StepError> {
        let node = self.node(id);
        let path = &change.path;
        if let (Some(twin), Body::File(_)) = (twin, &node.body) {
            let examine = |errno| StepError::new("examine", path)(io::Error::other(errno));
            let stat = target.host.stat(twin).map_err(examine)?;
            let version = FileVersion::of_layer(target.host.clone(), twin, &stat);
            let permissions = self.permissions(target, change, id)?;
            let times = target.disk_times.of(node).unwrap_or(Times::all(stat.mtime_ns));
            return transaction.stage_file(index, &version, permissions.as_ref(), Some(times));
        }
        // A moved file keeps its time even if it must be copied.
        let times = target.disk_times.of(node).or_else(|| self.times_of_origin(node));
        if let Body::Symlink(text) = &node.body {
            return transaction.stage_symlink(index, text, times);
        }
        let permissions = self.permissions(target, change, id)?;
        match self.file_version(id, change.before.as_ref()) {
            Some(version) => transaction.stage_file(index, &version, permissions.as_ref(), times),
            None => Err(StepError::new("copy", path)(io::ErrorKind::Unsupported.into())),
        }
    }
}

/// The file or symbolic link that `change` replaces.
pub(super) fn replaced(change: &Change) -> Option<&Stat> {
    let stat = change.before.as_ref().map(|found| &found.stat);
    stat.filter(|stat| stat.file_type != FileType::Directory)
}

/// A new temporary name in the nearest directory above `path` that exists before and after.
fn temporary_beside(path: &VPath, unstable: &HashSet<VPath>) -> VPath {
    let mut dir = path.split_last().map_or_else(VPath::root, |(parent, _)| parent);
    while let Some((parent, _)) = dir.split_last().filter(|_| unstable.contains(&dir)) {
        dir = parent;
    }
    dir.join(&temporary_name())
}
