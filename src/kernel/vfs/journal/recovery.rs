//! Takes back or finishes a plan that was begun.
//!
//! Both decide each step from what is on the disk, so they can start wherever an earlier process stopped: while
//! writing, at a refused step, or in a recovery.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::io;

use crate::kernel::vfs::journal::plan::{Attributes, Identity, Plan, Step};
use crate::kernel::vfs::journal::tree::Tree;
use crate::kernel::vfs::layer::host_dir::Access;
use crate::kernel::vfs::layer::{FileType, Stat};
use crate::kernel::vfs::path::VPath;

/// A path that was changed later, so that it cannot be taken back without a loss.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangedSince {
    /// The path, relative to the directory.
    pub path: VPath,
    /// How it was changed.
    pub what: ChangedKind,
}

/// How a path was changed later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangedKind {
    /// It is neither the old nor the new version.
    Changed,
    /// A directory that was created has this entry, which belljar did not write.
    Holds(String),
    /// The old version is not at its backup name.
    Lost,
    /// It cannot be examined, for this reason.
    Unseen(String),
    /// It is no longer a directory, and an entry must be restored in it.
    NotADirectory,
}

impl fmt::Display for ChangedSince {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match &self.what {
            ChangedKind::Changed => write!(f, "{path} has changed since"),
            ChangedKind::Holds(name) => write!(f, "{path} now also holds {name:?}"),
            ChangedKind::Lost => write!(f, "the old version of {path} is gone"),
            ChangedKind::Unseen(why) => write!(f, "{path} cannot be examined: {why}"),
            ChangedKind::NotADirectory => {
                write!(f, "{path} is no longer a directory (move it back if it was moved)")
            }
        }
    }
}

/// What taking a step back requires.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Undo {
    /// It was not done: remove its temporaries.
    Clear,
    /// Move the backup to its place.
    Restore,
    /// Create the directory again.
    MakeDir(u32),
    /// Remove what was made.
    Remove,
    /// It would lose a later change.
    Not(ChangedKind),
    /// This directory, which it needs, is no longer one.
    Nowhere(VPath),
}

/// The result of taking back.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::kernel::vfs) struct TakenBack {
    /// Number of files and symbolic links restored.
    pub files: usize,
    /// Paths that were not restored.
    pub left: Vec<VPath>,
}

/// The result of finishing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::kernel::vfs) struct Finished {
    /// Paths whose times or permissions the host refused to set.
    pub refused: Vec<VPath>,
    /// Temporaries that could not be removed.
    pub leftovers: Vec<VPath>,
}

/// A plan that was begun in a directory.
pub(in crate::kernel::vfs) struct Begun<'a> {
    pub tree: &'a dyn Tree,
    pub plan: &'a Plan,
    /// What was staged for each step; empty if unknown, in which case nothing should have been put in place.
    pub staged: &'a [Option<Identity>],
    /// How many steps were carried out, the last one perhaps in part, if that is known: of the others, nothing but temporaries
    /// is to be removed.
    pub carried_out: Option<usize>,
}

impl Begun<'_> {
    /// Returns the paths that were changed later, and that [`Begun::take_back`] would leave.
    pub fn changed_since(&self) -> io::Result<Vec<ChangedSince>> {
        let made: HashMap<&VPath, usize> = (0..)
            .zip(&self.plan.steps)
            .filter(|(_, step)| !matches!(step, Step::Remove { .. }))
            .map(|(index, step)| (step.path(), index))
            .collect();
        // A step that is not done put nothing at its path.
        let is_ours = |path: &VPath| {
            let undo = made.get(path).map(|index| self.undo_of(*index));
            undo.is_some_and(|undo| !matches!(undo, Ok(Undo::Clear)))
        };
        let temporaries: HashSet<&VPath> =
            self.plan.steps.iter().flat_map(Step::temporaries).collect();
        let mut changed = Vec::new();
        let mut gone = BTreeSet::new();
        let removed_dirs = self.removed_dirs();
        let unseen = self.unseen()?;
        for (index, step) in self.plan.steps.iter().enumerate() {
            let path = step.path();
            let undo = if unseen.get(&index) == Some(&Undo::Clear) {
                Ok(Undo::Not(ChangedKind::Lost))
            } else {
                self.undo_of(index)
            };
            match undo.unwrap_or_else(|error| Undo::Not(ChangedKind::Unseen(error.to_string()))) {
                Undo::Nowhere(dir) => drop(gone.insert(dir)),
                Undo::Restore | Undo::MakeDir(_) => {
                    gone.extend(self.no_dir_above(path, &removed_dirs, &is_ours)?);
                }
                // The path now has the result of another step, which is examined there.
                Undo::Not(ChangedKind::Changed)
                    if matches!(step, Step::Remove { .. }) && is_ours(path) => {}
                Undo::Not(what) => changed.push(ChangedSince { path: path.clone(), what }),
                Undo::Remove if matches!(step, Step::CreateDir { .. }) => {
                    let mut names: Vec<String> = self
                        .tree
                        .names(path)?
                        .into_iter()
                        .map(|name| name.to_string_lossy().into_owned())
                        .filter(|name| {
                            let within = path.join(name);
                            !is_ours(&within) && !temporaries.contains(&within)
                        })
                        .collect();
                    names.sort_unstable();
                    if let Some(name) = names.into_iter().next() {
                        let what = ChangedKind::Holds(name);
                        changed.push(ChangedSince { path: path.clone(), what });
                    }
                }
                _ => {}
            }
        }
        // Report only the topmost of the missing directories.
        let is_uppermost = |dir: &&VPath| {
            let above = |dir: &VPath| dir.split_last().map(|(dir, _)| dir);
            !std::iter::successors(above(dir), above).any(|dir| gone.contains(&dir))
        };
        for path in gone.iter().filter(is_uppermost).cloned() {
            changed.push(ChangedSince { path, what: ChangedKind::NotADirectory });
        }
        Ok(changed)
    }

    /// The directories that steps remove, with the steps' indexes.
    fn removed_dirs(&self) -> HashMap<&VPath, usize> {
        let mut removed = HashMap::new();
        for (index, step) in self.plan.steps.iter().enumerate() {
            if let Step::Remove { path, dir_mode: Some(_), .. } = step {
                removed.insert(path, index);
            }
        }
        removed
    }

    /// The parent of `path`, if it is not a directory and taking back one of `removed_dirs` does not make it one.
    /// `is_ours` tells what a step put in place.
    fn no_dir_above(
        &self,
        path: &VPath,
        removed_dirs: &HashMap<&VPath, usize>,
        is_ours: &impl Fn(&VPath) -> bool,
    ) -> io::Result<Option<VPath>> {
        let Some((dir, _)) = path.split_last() else { return Ok(None) };
        let is_known = !self.staged.is_empty();
        let will_be = match removed_dirs.get(&dir) {
            // Anything in its way is reported for that step. What was put there instead is taken back first.
            Some(index) => self.undo_of(*index)? != Undo::Clear || is_known && is_ours(&dir),
            None => false,
        };
        Ok(if will_be || self.tree.is_dir(&dir)? { None } else { Some(dir) })
    }

    /// Whether a backup of a removal exists, as far as it can be seen.
    pub fn has_moved(&self) -> bool {
        let is_kept = |step: &Step| match step {
            Step::Remove { backup, .. } => self.tree.look(backup).is_ok_and(|it| it.is_some()),
            _ => false,
        };
        self.plan.steps.iter().any(is_kept)
    }

    /// The steps that removed a file of which no name is seen, with what taking them back requires: `Clear` if somebody
    /// removed the backup, and `Nowhere` if its directory is elsewhere, or removed. What was moved may then be in a new file
    /// alone.
    fn unseen(&self) -> io::Result<HashMap<usize, Undo>> {
        let mut unseen = HashMap::new();
        let removed_dirs = self.removed_dirs();
        for (index, step) in self.plan.steps.iter().enumerate() {
            if let Step::Remove { path, backup, dir_mode: None } = step
                && self.is_begun(index)
                && self.tree.look(backup)?.is_none()
                && self.tree.look(path)?.is_none()
                && let undo @ (Undo::Clear | Undo::Nowhere(_)) = self.undo_of(index)?
                && !self.is_in_moved_dir(path, &removed_dirs)?
            {
                unseen.insert(index, undo);
            }
        }
        // What is removed without a new file cannot be left over in one.
        if !self.has_staged_new() {
            unseen.clear();
        }
        Ok(unseen)
    }

    /// Whether something may have been put in place, or moved away, by the step `index`.
    fn is_begun(&self, index: usize) -> bool {
        self.carried_out.is_none_or(|count| index < count)
    }

    /// Whether `path` is in its directory, and that is elsewhere: after a power cut, a directory may have moved to its
    /// backup name, and what was in it not have left it.
    fn is_in_moved_dir(
        &self,
        path: &VPath,
        removed_dirs: &HashMap<&VPath, usize>,
    ) -> io::Result<bool> {
        let Some((dir, name)) = path.split_last() else { return Ok(false) };
        let dir = self.present_dir(&dir, removed_dirs)?;
        Ok(dir.map(|dir| self.tree.look(&dir.join(name))).transpose()?.flatten().is_some())
    }

    /// Where the directory `dir` is: in its place, at its backup name, or in a directory that is at its own.
    fn present_dir(
        &self,
        dir: &VPath,
        removed_dirs: &HashMap<&VPath, usize>,
    ) -> io::Result<Option<VPath>> {
        let step = removed_dirs.get(dir).map(|index| &self.plan.steps[*index]);
        let mut places = vec![dir.clone()];
        if let Some(Step::Remove { backup, .. }) = step {
            places.push(backup.clone());
            if let Some((above, name)) = dir.split_last()
                && let Some(above) = self.present_dir(&above, removed_dirs)?
            {
                places.push(above.join(name));
            }
        }
        for place in places {
            if self.tree.is_dir(&place)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Whether a new file was staged, wherever that is now.
    fn has_staged_new(&self) -> bool {
        let mut steps = self.plan.steps.iter().zip(self.staged);
        steps.any(|(step, staged)| matches!(step, Step::Place { .. }) && staged.is_some())
    }

    /// Takes all steps back, the last one first. Paths that were changed later, or that the host refuses, are left and
    /// returned. So are new files if an old one is lost, or that cannot be seen: one of them may be all that is left of it.
    pub fn take_back(&self) -> TakenBack {
        let mut taken = TakenBack::default();
        let unseen = self.unseen();
        let may_be_lost = !unseen.as_ref().is_ok_and(HashMap::is_empty);
        let unseen = unseen.unwrap_or_default();
        for (index, step) in self.plan.steps.iter().enumerate().rev() {
            let is_new = || match step {
                Step::Place { temporary, path, .. } => {
                    !matches!(self.tree.look(temporary), Ok(None))
                        || !matches!(self.undo_of(index), Ok(Undo::Clear))
                            && !matches!(self.tree.look(path), Ok(None))
                }
                _ => false,
            };
            let is_lost = unseen.get(&index) == Some(&Undo::Clear);
            if is_lost || may_be_lost && is_new() {
                taken.left.push(step.path().clone());
                continue;
            }
            match self.undo(index) {
                Ok(undone) => taken.files += usize::from(undone && step.is_of_file()),
                Err(_) => taken.left.push(step.path().clone()),
            }
        }
        taken
    }

    /// Takes a step back; returns whether anything was to be done.
    fn undo(&self, index: usize) -> io::Result<bool> {
        let (tree, step) = (self.tree, &self.plan.steps[index]);
        let undo = self.undo_of(index)?;
        match (&undo, step) {
            (Undo::Clear, _) => {}
            (Undo::Not(_), _) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Undo::Nowhere(_), _) => return Err(io::ErrorKind::NotADirectory.into()),
            (Undo::Restore, Step::Remove { path, backup, .. }) => {
                tree.rename_to_new(backup, path)?;
            }
            (Undo::Restore, Step::Place { path, backup: Some(backup), .. }) => {
                tree.rename(backup, path)?;
            }
            (Undo::MakeDir(mode), step) => {
                tree.create_dir(step.path(), Access::Shared)?;
                tree.set_dir_mode(step.path(), *mode)?;
            }
            (Undo::Remove | Undo::Restore, step) => {
                tree.remove(step.path())?;
            }
        }
        // The temporary last: while it exists, nothing was put in place.
        match step {
            Step::Place { temporary, backup, .. } => {
                if let Some(backup) = backup {
                    tree.remove(backup)?;
                }
                tree.remove(temporary)?;
            }
            Step::CreateDir { temporary, .. } => drop(tree.remove(temporary)?),
            Step::Remove { .. } => {}
        }
        Ok(undo != Undo::Clear)
    }

    fn undo_of(&self, index: usize) -> io::Result<Undo> {
        let undo = if self.is_begun(index) { self.undo_where_it_was(index)? } else { Undo::Clear };
        if undo != Undo::Clear || self.staged.is_empty() {
            return Ok(undo);
        }
        // The backup may have moved away with its directory: temporaries are in directories that exist before and
        // after.
        for temporary in self.plan.steps[index].temporaries() {
            if let Some((dir, _)) = temporary.split_last().filter(|(dir, _)| !dir.is_root())
                && !self.tree.is_dir(&dir)?
            {
                return Ok(Undo::Nowhere(dir));
            }
        }
        Ok(undo)
    }

    fn undo_where_it_was(&self, index: usize) -> io::Result<Undo> {
        let look = |path: &VPath| self.tree.look(path);
        let staged = self.staged.get(index).copied().flatten();
        let is_made = |stat: &Stat| staged.is_some_and(|made| made.is(stat));
        let is_known = !self.staged.is_empty();
        Ok(match &self.plan.steps[index] {
            Step::Remove { path, backup, dir_mode } => {
                match (look(backup)?, look(path)?, dir_mode) {
                    (Some(_), None, _) => Undo::Restore,
                    (Some(_), Some(_), _) => Undo::Not(ChangedKind::Changed),
                    (None, None, Some(mode)) if is_known => Undo::MakeDir(*mode),
                    (None, _, _) => Undo::Clear,
                }
            }
            Step::CreateDir { path, temporary } => match (look(temporary)?, look(path)?) {
                (None, Some(stat)) if is_made(&stat) => Undo::Remove,
                (None, Some(_)) if !is_known && !self.is_from_before(path)? => {
                    Undo::Not(ChangedKind::Changed)
                }
                _ => Undo::Clear,
            },
            Step::Place { path, temporary, backup: None } => {
                match (look(temporary)?, look(path)?) {
                    (None, Some(stat)) if is_made(&stat) => Undo::Remove,
                    (None, Some(_))
                        if (staged.is_some() || !is_known) && !self.is_from_before(path)? =>
                    {
                        Undo::Not(ChangedKind::Changed)
                    }
                    _ => Undo::Clear,
                }
            }
            Step::Place { path, temporary, backup: Some(backup) } => {
                match (look(backup)?, look(temporary)?, look(path)?) {
                    (None, None, Some(stat)) if is_made(&stat) => Undo::Not(ChangedKind::Lost),
                    (Some(_), _, None) if is_known => Undo::Restore,
                    // Nothing was put in place. If the backup is not a further name of what is there, the user has
                    // replaced the file, and the backup is its last name.
                    (Some(kept), Some(_), Some(stat)) if !is_same_file(&kept, &stat) => {
                        Undo::Not(ChangedKind::Changed)
                    }
                    (None, ..) | (_, _, None) | (_, Some(_), _) => Undo::Clear,
                    (Some(kept), None, Some(stat)) => match is_made(&stat) {
                        true => Undo::Restore,
                        false if is_same_file(&kept, &stat) => Undo::Clear,
                        false => Undo::Not(ChangedKind::Changed),
                    },
                }
            }
        })
    }

    /// Whether `path` still has what another step removes.
    fn is_from_before(&self, path: &VPath) -> io::Result<bool> {
        for step in &self.plan.steps {
            if let Step::Remove { path: removed, backup, .. } = step
                && removed == path
            {
                return Ok(self.tree.look(backup)?.is_none());
            }
        }
        Ok(false)
    }

    /// Whether the directory of `path` is no longer one, so that `path` is left over wherever it is now.
    pub fn has_gone(&self, path: &VPath) -> bool {
        path.split_last().is_some_and(|(dir, _)| !self.tree.is_dir(&dir).unwrap_or(false))
    }

    /// Finishes the plan: removes backups and sets the last attributes.
    pub fn finish(&self) -> Finished {
        let tree = self.tree;
        let mut finished = Finished::default();
        // First, because it changes the times of directories.
        for step in &self.plan.steps {
            for path in step.temporaries() {
                let is_left = match tree.remove(path) {
                    Ok(is_removed) => !is_removed && step.keeps_at(path) && self.has_gone(path),
                    Err(_) => true,
                };
                if is_left {
                    finished.leftovers.push(path.clone());
                }
            }
        }
        for Attributes { path, times, mode, of } in &self.plan.attributes {
            let is_it = |stat: &Stat| match of {
                Some(of) => of.is(stat),
                None => stat.file_type == FileType::Directory,
            };
            if !tree.stat(path).is_ok_and(|stat| is_it(&stat)) {
                finished.refused.push(path.clone());
                continue;
            }
            let mode = mode.map(|mode| tree.set_dir_mode(path, mode));
            let times = times.map(|times| tree.set_times(path, times));
            if mode.into_iter().chain(times).any(|result| result.is_err()) {
                finished.refused.push(path.clone());
            }
        }
        finished
    }
}

/// Whether two names are the same file, as far as the host says. On an overlay file system, a file of a lower layer can
/// get another inode number with a further name.
fn is_same_file(one: &Stat, other: &Stat) -> bool {
    let looks = |stat: &Stat| (stat.file_type, stat.size, stat.mtime_ns);
    one.inode != 0 && one.inode == other.inode || looks(one) == looks(other)
}
