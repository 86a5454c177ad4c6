//! Times of directories after an apply.
//!
//! An apply changes names in directories, its temporaries among them, and with that their times on the disk. So it
//! sets these at its end: to the time at which a program changed the directory, in the order of all writes; or to the
//! former time, if a program only wrote to files in it or moved it. One in which others changed names meanwhile keeps the
//! time of the apply, which is later than all that programs know. No program set these times, so they are not told as
//! changes, and a host that refuses to set them is not reported. A recovery leaves the times of the disk.

use std::collections::{HashMap, HashSet};

use super::dir_times::{Before, DirTimes};
use super::written::Written;
use super::{Decorate, Target};
use crate::kernel::vfs::journal::plan::{Plan, Step};
use crate::kernel::vfs::layer::{FileType, Layer, Stat, Times};
use crate::kernel::vfs::overlay::Overlay;
use crate::kernel::vfs::overlay::node::{Node, NodeId, TimesOf};
use crate::kernel::vfs::path::VPath;

/// The state of directories on the disk before an apply.
struct State {
    /// Those in which it changes names.
    disturbed: HashSet<VPath>,
    /// Those that programs changed and nobody else did; `None` if that is not recorded.
    unchanged_by_others: Option<HashSet<VPath>>,
}

impl State {
    /// Whether others changed the directory `path` since it was looked at; the disk has it as `now`.
    fn is_changed_by_others(&self, node: &Node, path: &VPath, now: &Stat) -> bool {
        match &self.unchanged_by_others {
            Some(unchanged) => !unchanged.contains(path),
            None => node.origin.as_ref().is_some_and(|origin| origin.stamp != now.stamp),
        }
    }
}

impl Overlay {
    /// The times for the directories of `target` whose times were not set explicitly: determined before anything changes on
    /// the disk.
    pub(super) fn dir_times(&self, target: &Target, plan: &Plan) -> Vec<DirTimes> {
        let (disturbed, dirs) = (disturbed(plan), self.dirs_among(target.mount, &target.placed));
        let baseline = self.mounts[target.mount.index()].baseline.as_ref();
        let is_changed = |(id, _): &&(NodeId, VPath)| self.node(*id).is_changed_dir();
        let changed = dirs.iter().filter(is_changed).map(|(_, path)| path.clone());
        let unchanged_by_others = baseline.map(|it| it.unchanged_dirs(changed.collect()));
        let state = State { disturbed, unchanged_by_others };
        let times = |(id, path)| self.times_of_dir(target, id, path, &state);
        let mut dir_times: Vec<DirTimes> = dirs.into_iter().filter_map(times).collect();
        dir_times.extend(of_gone_dirs(target, &state.disturbed, &dir_times));
        dir_times
    }

    fn times_of_dir(
        &self,
        target: &Target,
        id: NodeId,
        path: VPath,
        state: &State,
    ) -> Option<DirTimes> {
        let node = self.node(id);
        let is_disturbed = state.disturbed.contains(&path);
        // Those that were set explicitly are among the attributes of the plan, but a rollback does not set them.
        let is_set = node.carries_times();
        if target.created.contains(&path) {
            let times = target.disk_times.of(node).or_else(|| self.times_of_origin(node));
            let after = times.filter(|_| !is_set);
            return Some(DirTimes { path, after, is_of_program: true, before: None });
        }
        if !node.is_changed_dir() && !is_disturbed {
            return None;
        }
        let now = Layer::stat(&*target.host, &path).ok()?;
        let before = Before::of(&*target.host, &path, &now, is_disturbed);
        let is_moved = node.origin.as_ref().is_some_and(|origin| origin.path != path);
        // Without a known time that of the apply is the disk's.
        let of_clock = target.disk_times.of(node);
        let is_foreign = || of_clock.is_some() && state.is_changed_by_others(node, &path, &now);
        let (after, is_of_program) = match node.times_of {
            _ if is_set => (None, false),
            // The disk's own time can be that of its last tick.
            TimesOf::Clock if is_foreign() => {
                (is_disturbed.then(|| Times::all(target.disk_times.after_all_ns())), false)
            }
            TimesOf::Clock => (of_clock, true),
            _ => match self.times_of_origin(node).filter(|_| is_moved) {
                Some(times) => (Some(times), true),
                None => (Some(before.times), false),
            },
        };
        Some(DirTimes { path, after, is_of_program, before: Some(before) })
    }

    /// Sets the times of directories in which names came and went, where nothing else is to be written.
    pub(super) fn apply_dir_times(&mut self, targets: &[Target], decorate: Decorate<'_>) {
        let known_dirs = self.known_dirs(targets);
        for target in targets {
            let dir_times = self.dir_times(target, &Plan::default());
            if dir_times.is_empty() {
                continue;
            }
            let tree = decorate(target.host.clone());
            DirTimes::set_all(&dir_times, &*tree);
            let written = Written::of_dirs(&*tree, &dir_times);
            if !written.dir_times().is_empty() {
                self.move_baseline(target, &written, &HashMap::new());
            }
            self.settle_dir_times(target, &written);
        }
        self.accept_dirs(known_dirs);
    }

    /// Records that the disk has the times of directories that programs changed, as `written`.
    pub(super) fn settle_dir_times(&mut self, target: &Target, written: &Written) {
        let on_disk: HashMap<&VPath, u64> =
            written.dir_times().iter().map(|(path, mtime_ns)| (path, *mtime_ns)).collect();
        for (id, path) in self.dirs_among(target.mount, &target.placed) {
            if !self.node(id).is_changed_dir() {
                continue;
            }
            let shown_ns = self.node(id).times.mtim;
            self.node_mut(id).times_of = TimesOf::Layer;
            if let Some(disk_ns) = on_disk.get(&path) {
                self.writes.note_applied(self.time_scale, shown_ns, *disk_ns);
            }
        }
    }
}

/// The times that the `disturbed` directories of the disk get back if the apply is taken back, for those that are not in
/// `known`: the program removed or moved them.
fn of_gone_dirs(target: &Target, disturbed: &HashSet<VPath>, known: &[DirTimes]) -> Vec<DirTimes> {
    let with_before = known.iter().filter(|dir| dir.before.is_some());
    let known: HashSet<&VPath> = with_before.map(|dir| &dir.path).collect();
    let before = |path: &VPath| {
        let now = Layer::stat(&*target.host, path).ok()?;
        (now.file_type == FileType::Directory).then(|| Before::of(&*target.host, path, &now, true))
    };
    let gone = disturbed.iter().filter(|path| !known.contains(path));
    gone.filter_map(|path| {
        let before = Some(before(path)?);
        Some(DirTimes { path: path.clone(), after: None, is_of_program: false, before })
    })
    .collect()
}

/// Directories in which the steps of `plan` change names.
fn disturbed(plan: &Plan) -> HashSet<VPath> {
    let names =
        |step: &Step| -> Vec<VPath> { step.temporaries().chain([step.path()]).cloned().collect() };
    let dirs = plan.steps.iter().flat_map(names);
    dirs.filter_map(|path| path.split_last().map(|(dir, _)| dir)).collect()
}
