//! Takes in the disk's new state beneath the changes of a namespace: a rebase.
//!
//! The changes are determined, path by path, and compared with the disk: those that the disk has by now are none any
//! more, and what both sides changed is a conflict. Then the tree begins anew from the disk's present state, and the
//! remaining changes are put back. At a conflict it keeps the old state before the change, so that no apply takes the
//! disk's change back.

mod origins;
mod plan;
mod taken;
mod touched;
mod tree;

use self::plan::RefreshPlan;
use super::apply::conflicts::Conflict;
use super::diff::{DiffError, failed};
use super::layer::Layer;
use super::overlay::Overlay;
use super::overlay::baseline::Baseline;
use super::overlay::below_files::BelowFiles;
use super::overlay::node::MountId;
use super::path::VPath;
use crate::base::errno::Errno;

/// The result of [`Overlay::refresh`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Refreshed {
    /// Paths that had been looked at and have changed, sorted by mount and path.
    pub taken: Vec<Taken>,
    /// Paths that both the disk and programs changed; the programs' version stays.
    pub conflicts: Vec<Conflict>,
}

/// A path that changed on the disk.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Taken {
    /// Its mount.
    pub mount: MountId,
    /// Its path, relative to the mount's root.
    pub path: VPath,
    /// How it changed.
    pub kind: TakenKind,
}

/// How a path changed on the disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TakenKind {
    /// It existed, and has other bytes, another text or another type, or may have.
    Changed,
    /// It did not exist.
    Added,
    /// It no longer exists.
    Removed,
}

impl TakenKind {
    /// The name in reports: `changed`, `added`, `removed`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Added => "added",
            Self::Removed => "removed",
        }
    }
}

impl Overlay {
    /// Takes in the present state of host directories in mounts of a [`Baseline`], beneath the changes of programs.
    /// What both sides changed is a conflict, unless they changed it alike: then it is no longer a change.
    /// Nothing may be open.
    ///
    /// # Errors
    /// Those of [`Overlay::diff`], and of [`Overlay::check_mount_names`]; nothing is taken in then.
    pub fn refresh(&mut self) -> Result<Refreshed, DiffError> {
        self.check_mount_names()?;
        self.unfold_all().map_err(DiffError::State)?;
        let before = self.clone();
        let refreshed = self.rebase();
        if refreshed.is_err() {
            *self = before;
        }
        refreshed
    }

    /// What a refresh would take in: paths that had been looked at and have changed on the disk, without those that programs
    /// changed, too. Changes nothing.
    ///
    /// # Errors
    /// Those of [`Overlay::diff`].
    pub fn changed_on_disk(&self) -> Result<Vec<Taken>, DiffError> {
        let mut changed = Vec::new();
        // Looking at the disk leaves traces in the tree.
        for plan in &mut self.clone().plan_refresh()? {
            plan.complete_pins()?;
            changed.append(&mut taken::taken(plan)?);
        }
        changed.sort_unstable();
        Ok(changed)
    }

    fn rebase(&mut self) -> Result<Refreshed, DiffError> {
        let mut plans = self.plan_refresh()?;
        self.detach_from_changed_origins(&mut plans)?;
        let mut refreshed = Refreshed::default();
        for plan in &mut plans {
            plan.complete_pins()?;
            refreshed.taken.append(&mut taken::taken(plan)?);
            refreshed.conflicts.append(&mut plan.conflicts);
        }
        let former: Vec<_> = plans.iter().map(|plan| self.clear_for(plan)).collect();
        let windows: Vec<_> = plans.iter().map(RefreshPlan::window).collect();
        for plan in &plans {
            let disk = plan.baseline.disk().clone();
            let contents = plan.baseline.contents().cloned();
            let begun = Baseline::with(disk, plan.start_ns, contents, plan.new_pins());
            self.set_baseline(plan.mount.index(), begun);
        }
        self.note_refresh(&windows);
        for (plan, former) in plans.iter().zip(former) {
            self.put_back(plan, former)?;
        }
        self.put_mounts_back().map_err(|(at, errno)| failed("examine", &at)(errno))?;
        self.torn.clear();
        self.below_files = BelowFiles::default();
        refreshed.taken.sort_unstable();
        refreshed.conflicts.sort_by(|a, b| (a.mount, &a.path).cmp(&(b.mount, &b.path)));
        refreshed.conflicts.dedup();
        self.name_mounts(&mut refreshed.conflicts);
        Ok(refreshed)
    }

    /// Checks that the worktree's directory on the disk has no entry of the first name of a mount elsewhere.
    ///
    /// # Errors
    /// [`DiffError::Ambiguous`].
    pub fn check_mount_names(&self) -> Result<(), DiffError> {
        let Some(worktree) = self.worktree.filter(|_| self.root_shows) else { return Ok(()) };
        let worktree = &self.mounts[worktree.index()];
        let Some(baseline) = &worktree.baseline else { return Ok(()) };
        for mount in self.mounts.iter().filter(|mount| mount.baseline.is_some()) {
            let name = mount.at.as_str().split('/').next().unwrap_or_default();
            let is_own = name.is_empty() || worktree.at.as_str() == name;
            let on_disk = VPath::parse(name).ok().filter(|_| !is_own);
            if on_disk.is_some_and(|path| baseline.disk().stat(&path).is_ok()) {
                let (path, name) = (mount.path(), name.to_owned());
                return Err(DiffError::Ambiguous { path, name });
            }
        }
        Ok(())
    }

    /// Drops all changes in host directories, and shows their present state.
    ///
    /// # Errors
    /// Those of [`Overlay::discard`]; `EEXIST` if [`Overlay::check_mount_names`] fails.
    pub fn discard_and_refresh(&mut self, now: u64) -> Result<(), Errno> {
        self.check_mount_names().map_err(|_| Errno::Exist)?;
        let mut windows = Vec::new();
        for (mount, index) in (0..).map(MountId).zip(0..self.mounts.len()) {
            let Some(baseline) = self.mounts[index].baseline.clone() else { continue };
            let (disk, contents) = (baseline.disk().clone(), baseline.contents().cloned());
            let begun = Baseline::begin(disk, contents, true);
            windows.push((mount, baseline.start_ns(), begun.start_ns()));
            self.set_baseline(index, begun);
        }
        self.torn.clear();
        self.note_refresh(&windows);
        self.discard(now)
    }
}
