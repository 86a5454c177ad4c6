//! Determines what a refresh keeps of a mount.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::touched::is_only_touched;
use crate::base::errno::Errno;
use crate::kernel::vfs::apply::conflicts::{Conflict, ConflictKind};
use crate::kernel::vfs::diff::{Change, DiffError, failed};
use crate::kernel::vfs::layer::host_dir::HostDir;
use crate::kernel::vfs::layer::{DirEntry, FileType, Stat};
use crate::kernel::vfs::overlay::Overlay;
use crate::kernel::vfs::overlay::baseline::{Baseline, start};
use crate::kernel::vfs::overlay::node::{Body, MountId, NodeId, TimesOf};
use crate::kernel::vfs::overlay::pin_table::Pins;
use crate::kernel::vfs::overlay::pins::{List, Pin, There, beneath};
use crate::kernel::vfs::path::VPath;

/// What a refresh does with one mount.
pub(super) struct RefreshPlan {
    pub mount: MountId,
    pub layer: u16,
    /// The state so far.
    pub baseline: Arc<Baseline>,
    /// The start of the new state.
    pub start_ns: u64,
    /// Names that stay as programs left them: their nodes, or `None` for those that were removed.
    pub kept: BTreeMap<VPath, Option<NodeId>>,
    /// All paths that programs changed; includes those where the disk has the change by now.
    pub changed: HashSet<VPath>,
    /// The state before the kept changes, which is the disk's, or at a conflict the old one.
    pub pins: BTreeMap<VPath, Pin>,
    /// Directories that keep the times that programs see.
    pub timed_dirs: HashSet<VPath>,
    /// Directories that are gone or removed: nothing but what `pins` has is in them.
    frozen: BTreeSet<VPath>,
    /// Files of which only the execute permission was set, and which the disk changed: they get it again.
    pub executable: Vec<(VPath, bool)>,
    pub conflicts: Vec<Conflict>,
}

impl Overlay {
    /// Compares the changes of all mounts that have a baseline with the disk.
    ///
    /// # Errors
    /// Those of the diff and of the disk.
    pub(super) fn plan_refresh(&mut self) -> Result<Vec<RefreshPlan>, DiffError> {
        let mut plans = Vec::new();
        for (mount, index) in (0..).map(MountId).zip(0..self.mounts.len()) {
            let Some(baseline) = self.mounts[index].baseline.clone() else { continue };
            plans.push(RefreshPlan {
                mount,
                layer: self.mounts[index].layer,
                start_ns: start(baseline.disk(), true),
                baseline,
                kept: BTreeMap::new(),
                changed: HashSet::new(),
                pins: BTreeMap::new(),
                timed_dirs: HashSet::new(),
                frozen: BTreeSet::new(),
                executable: Vec::new(),
                conflicts: Vec::new(),
            });
        }
        // Entries of unknown former state are left out: they are the disk's.
        let mut changes = self.known_changes()?;
        for plan in &mut plans {
            let here: Vec<Change> = changes.extract_if(.., |it| it.mount == plan.mount).collect();
            plan.changed = here.iter().map(|change| change.path.clone()).collect();
            let removed = here.iter().filter(|it| it.before.is_some());
            let removed: HashSet<VPath> = removed.map(|it| it.path.clone()).collect();
            let (left, _) = self.split_settled(plan.baseline.disk(), here)?;
            for change in left {
                match self.only_executable(&change) {
                    Some(executable) if plan.is_another_file(&change.path)? => {
                        plan.changed.remove(&change.path);
                        plan.executable.push((change.path, executable));
                    }
                    _ => plan.keep_change(&change, &removed)?,
                }
            }
            self.keep_unchanged(plan)?;
        }
        Ok(plans)
    }

    /// The execute permission of a file in its place, if a program set only that.
    fn only_executable(&self, change: &Change) -> Option<bool> {
        let node = self.node(change.after?);
        let origin = node.origin.as_deref()?;
        let is_written = matches!(&node.body, Body::File(file) if file.content.is_dirty());
        let is_in_place = origin.path == change.path && self.mount_of(origin.layer) == change.mount;
        let has_more = is_written || node.carries_times() || node.nlink > 1;
        node.executable.filter(|_| is_in_place && !has_more)
    }

    /// Keeps files whose content is unchanged but whose times are the session's, and all names of files with several.
    fn keep_unchanged(&self, plan: &mut RefreshPlan) -> Result<(), DiffError> {
        let mut names: HashMap<NodeId, Vec<VPath>> = HashMap::new();
        for placed in self.placed_in(plan.mount) {
            let node = self.node(placed.id);
            let is_changed = plan.changed.contains(&placed.path);
            let is_dir = matches!(node.body, Body::Dir(_));
            if is_dir {
                self.keep_dir_time(plan, placed.id, placed.path)?;
                continue;
            }
            if node.nlink > 1 {
                names.entry(placed.id).or_default().push(placed.path.clone());
            }
            let Some(before) = plan.baseline.pinned_stat(&placed.path) else { continue };
            // What was applied keeps the session's time of the write, which the disk does not have.
            let was_applied = || {
                let below = match self.times_below(plan.mount, &before) {
                    (_, TimesOf::Content) => self.content_times(placed.id),
                    (times, _) => Some(times),
                };
                node.times_of == TimesOf::Layer
                    && below.is_some_and(|below| below.mtim != node.times.mtim)
            };
            // A file that the disk changed gets the disk's time with the disk's content.
            if !is_changed
                && (node.carries_times() || was_applied())
                && let Some(now) = plan.unchanged_on_disk(&placed.path)?
                && now.mtime_ns == before.mtime_ns
            {
                plan.keep_as_on_disk(placed.path, placed.id, now);
            }
        }
        for (id, names) in names {
            plan.keep_names(id, &names)?;
        }
        self.keep_dir_time(plan, self.mount_root(plan.mount), VPath::root())
    }

    /// Keeps the time of a directory that a program set or changed, also if that was applied, unless the disk has another
    /// one by now: a name was added or removed there later.
    fn keep_dir_time(
        &self,
        plan: &mut RefreshPlan,
        id: NodeId,
        path: VPath,
    ) -> Result<(), DiffError> {
        let (node, before) = (self.node(id), plan.baseline.pinned_stat(&path));
        let is_of_session = match node.times_of {
            TimesOf::Guest | TimesOf::Clock => true,
            TimesOf::Layer | TimesOf::Content => before.is_some_and(|before| {
                self.times_below(plan.mount, &before).0.mtim != node.times.mtim
            }),
        };
        if !is_of_session {
            return Ok(());
        }
        let is_as_it_was = |now: &Stat| before.is_none_or(|before| now.mtime_ns == before.mtime_ns);
        if plan.now(&path)?.as_ref().is_some_and(is_as_it_was) {
            if !plan.changed.contains(&path) && !path.is_root() {
                plan.pin_unchanged(&path)?;
            }
            plan.timed_dirs.insert(path);
        }
        Ok(())
    }
}

impl RefreshPlan {
    /// Mount, start of the old and of the new state.
    pub fn window(&self) -> (MountId, u64, u64) {
        (self.mount, self.baseline.start_ns(), self.start_ns)
    }

    /// What the disk has at `path` now.
    pub fn now(&self, path: &VPath) -> Result<Option<Stat>, DiffError> {
        self.baseline.disk().look(path).map_err(failed("examine", path))
    }

    fn old_pin(&self, path: &VPath) -> Option<Pin> {
        self.baseline.pins().by_path.get(path).cloned()
    }

    /// Keeps a change that the disk does not have; `removed` are the paths that existed before.
    fn keep_change(&mut self, change: &Change, removed: &HashSet<VPath>) -> Result<(), DiffError> {
        let path = &change.path;
        let (conflict, now) = compare(change, &self.baseline).map_err(failed("examine", path))?;
        let is_own = conflict.as_ref().is_some_and(|conflict| conflict.path == *path);
        if change.before.is_some() {
            match (is_own, now) {
                (false, Some(now)) => self.pin_now(path, now),
                _ => self.pin_old(path),
            }
        }
        let was_dir = change.before_type() == Some(FileType::Directory);
        if was_dir {
            self.frozen.insert(path.clone());
        }
        let other = || holds_another(path, self.baseline.disk(), removed);
        let holds = (conflict.is_none() && was_dir).then(other).flatten();
        let (mount, mount_path) = (self.mount, String::new());
        let holds = holds.map(|what| Conflict { mount, mount_path, path: path.clone(), what });
        self.conflicts.extend(conflict.or(holds));
        self.kept.insert(path.clone(), change.after);
        Ok(())
    }

    /// What the disk has at `path`, if that is what it had.
    pub fn unchanged_on_disk(&self, path: &VPath) -> Result<Option<Stat>, DiffError> {
        let Some(Pin::There(there)) = self.old_pin(path) else { return Ok(None) };
        let Some(now) = self.now(path)? else { return Ok(None) };
        let is_same = now.stamp == there.stat.stamp
            || is_only_touched(path, &there.stat, &now, &self.baseline)
                .map_err(failed("examine", path))?;
        Ok(is_same.then_some(now))
    }

    /// Keeps the names of a file with several, as the disk cannot tell that these are one file: if one of them is
    /// kept, or if nothing changed under any of them.
    fn keep_names(&mut self, id: NodeId, names: &[VPath]) -> Result<(), DiffError> {
        let mut unchanged = Vec::new();
        for path in names.iter().filter(|path| !self.changed.contains(*path)) {
            if let Some(now) = self.unchanged_on_disk(path)? {
                unchanged.push((path.clone(), now));
            }
        }
        let is_kept = names.iter().any(|path| self.kept.get(path) == Some(&Some(id)));
        let has_its_time = |path: &VPath, now: &Stat| {
            self.baseline.pinned_stat(path).is_some_and(|before| before.mtime_ns == now.mtime_ns)
        };
        let is_one_file = || {
            let first = unchanged.first().map(|(_, now)| now.stamp);
            let mut names = unchanged.iter();
            names.all(|(path, now)| Some(now.stamp) == first && has_its_time(path, now))
        };
        if is_kept || unchanged.len() == names.len() && is_one_file() {
            for (path, now) in unchanged {
                self.keep_as_on_disk(path, id, now);
            }
        }
        Ok(())
    }

    /// Whether the disk has a file at `path`, but not as it was.
    fn is_another_file(&self, path: &VPath) -> Result<bool, DiffError> {
        let is_file = self.now(path)?.is_some_and(|now| now.file_type == FileType::RegularFile);
        Ok(is_file && self.unchanged_on_disk(path)?.is_none())
    }

    fn keep_as_on_disk(&mut self, path: VPath, id: NodeId, now: Stat) {
        self.pin_now(&path, now);
        self.kept.insert(path, Some(id));
    }

    /// Pins the directory `path`, if the disk has one there.
    fn pin_unchanged(&mut self, path: &VPath) -> Result<(), DiffError> {
        let now = self.now(path)?.filter(|now| now.file_type == FileType::Directory);
        if let Some(now) = now {
            self.pin_now(path, now);
        }
        Ok(())
    }

    /// Takes `now` for the state at `path`; what is known of the content is still true.
    pub fn pin_now(&mut self, path: &VPath, now: Stat) {
        let known = match self.old_pin(path) {
            Some(Pin::There(there)) if there.stat.file_type == now.file_type => there,
            _ => There::from(now),
        };
        let pin = Pin::There(There { link: known.link, content: known.content, ..now.into() });
        self.pins.insert(path.clone(), pin);
    }

    /// Keeps the old state at `path`.
    pub fn pin_old(&mut self, path: &VPath) {
        let old = self.old_pin(path);
        self.pins.extend(old.map(|pin| (path.clone(), pin)));
    }

    /// Adds the directories above the kept names, and the absence of those that were created.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn complete_pins(&mut self) -> Result<(), DiffError> {
        let mut looked_at = HashSet::new();
        let paths: Vec<VPath> = self.pins.keys().chain(self.kept.keys()).cloned().collect();
        for mut path in paths {
            while let Some((parent, _)) = path.split_last() {
                if self.pins.contains_key(&parent) || !looked_at.insert(parent.clone()) {
                    break;
                }
                let now = self.now(&parent)?.filter(|now| now.file_type == FileType::Directory);
                if let Some(now) = now {
                    self.pin_now(&parent, now);
                } else if !self.was_file(&parent) {
                    // Gone: part of a conflict. Or it never was: a new directory.
                    self.pin_old(&parent);
                    self.frozen.insert(parent.clone());
                }
                path = parent;
            }
        }
        for path in self.kept.keys() {
            let is_there =
                |(dir, _): (VPath, &str)| matches!(self.pins.get(&dir), Some(Pin::There(_)));
            if !self.pins.contains_key(path) && path.split_last().is_some_and(is_there) {
                self.pins.insert(path.clone(), Pin::Absent { is_certain: true });
            }
        }
        for dir in std::mem::take(&mut self.frozen) {
            let list = self.pinned_in(&dir);
            if let Some(Pin::There(there)) = self.pins.get_mut(&dir) {
                there.list = Some(Arc::new(list));
            }
        }
        Ok(())
    }

    /// Whether the disk had something else than a directory at `path`. Above a kept name, that is a file that a
    /// directory with a mount hides: for the session, the directory is new.
    fn was_file(&self, path: &VPath) -> bool {
        let before = self.baseline.pinned_stat(path);
        before.is_some_and(|before| before.file_type != FileType::Directory)
    }

    /// The entries of the directory `dir` that are pinned as existing.
    fn pinned_in(&self, dir: &VPath) -> List {
        let entry = |(path, pin): (&VPath, &Pin)| match (pin, path.split_last()) {
            (Pin::There(there), Some((parent, name))) if parent == *dir => {
                Some(DirEntry { name: name.into(), file_type: there.stat.file_type })
            }
            _ => None,
        };
        List { entries: beneath(&self.pins, dir).filter_map(entry).collect(), ..List::default() }
    }

    pub fn new_pins(&self) -> Pins {
        Pins { by_path: self.pins.clone().into(), ..Pins::default() }
    }
}

/// Compares a change with the disk: returns the conflict, if it is one, and what the disk has at its path.
fn compare(
    change: &Change,
    baseline: &Baseline,
) -> Result<(Option<Conflict>, Option<Stat>), Errno> {
    let look = |path: &VPath| baseline.disk().look(path);
    let now = look(&change.path)?;
    let before = change.before.as_ref().map(|found| found.stat);
    let mut path = change.path.clone();
    let what = match (before, now) {
        (Some(before), Some(now)) => {
            let is_same =
                before.stamp == now.stamp || is_only_touched(&path, &before, &now, baseline)?;
            (!is_same).then_some(ConflictKind::Changed)
        }
        (Some(_), None) => Some(ConflictKind::Vanished),
        (None, Some(_)) => Some(ConflictKind::Appeared),
        (None, None) => {
            // The nearest directory above that existed must still exist.
            let mut what = None;
            while let Some((parent, _)) = path.split_last() {
                path = parent;
                let was_dir = matches!(
                    baseline.pins().by_path.get(&path),
                    Some(Pin::There(there)) if there.stat.file_type == FileType::Directory
                );
                match look(&path)?.map(|stat| stat.file_type) {
                    Some(FileType::Directory) => break,
                    Some(_) if was_dir => what = Some(ConflictKind::NotADirectory),
                    None if was_dir => what = Some(ConflictKind::Vanished),
                    _ => continue,
                }
                break;
            }
            what
        }
    };
    let (mount, mount_path) = (change.mount, String::new());
    Ok((what.map(|what| Conflict { mount, mount_path, path, what }), now))
}

/// A conflict if the directory `path`, which programs removed, has other entries on the disk than those they removed.
fn holds_another(path: &VPath, disk: &HostDir, removed: &HashSet<VPath>) -> Option<ConflictKind> {
    let names = disk.names(path).ok()?;
    let is_removed = |name: &str| removed.contains(&path.join(name));
    let others = names.iter().filter(|name| !name.to_str().is_some_and(is_removed));
    let name = others.map(|name| name.to_string_lossy().into_owned()).min()?;
    Some(ConflictKind::Holds(name))
}
