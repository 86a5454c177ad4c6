//! What was begun on the disk is taken back, or finished.
//!
//! Both look at what is there, step by step, and so begin from wherever somebody stopped: in the
//! middle of writing, when the host refused something, or in the middle of this.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::io;

use crate::kernel::vfs::journal::plan::{Attributes, Identity, Plan, Step};
use crate::kernel::vfs::journal::tree::Tree;
use crate::kernel::vfs::layer::host_dir::Access;
use crate::kernel::vfs::layer::{FileType, Stat};
use crate::kernel::vfs::path::VPath;

/// Something that somebody else changed since, so that it cannot be taken back without a loss.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangedSince {
    /// Where, relative to the folder.
    pub path: VPath,
    /// In what way.
    pub what: ChangedKind,
}

/// In what way something was changed since.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangedKind {
    /// It is neither what stood there before nor what was written.
    Changed,
    /// A directory that was made holds this name, which was not written.
    Holds(String),
    /// What stood there before is not where it was kept.
    Lost,
    /// It cannot be looked at, for this reason: a link may lead out of the folder where a directory was.
    Unseen(String),
    /// It is no directory any more, and something has to be put back there.
    NotADirectory,
}

impl fmt::Display for ChangedSince {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match &self.what {
            ChangedKind::Changed => write!(f, "{path} was changed since"),
            ChangedKind::Holds(name) => write!(f, "{path} holds {name:?}, which is not from there"),
            ChangedKind::Lost => write!(f, "what {path} was before is gone"),
            ChangedKind::Unseen(why) => write!(f, "{path} cannot be looked at: {why}"),
            ChangedKind::NotADirectory => write!(f, "{path} is no directory any more"),
        }
    }
}

/// What is to be done about a step to take it back.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Undo {
    /// It was not done: only its temporaries go.
    Clear,
    /// What is kept at the backup goes back to its place.
    Restore,
    /// The directory is made again.
    MakeDir(u32),
    /// What was made is removed.
    Remove,
    /// It cannot be done without a loss.
    Not(ChangedKind),
    /// This directory, in which it would have to be done, is none any more.
    Nowhere(VPath),
}

/// What was taken back.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::kernel::vfs) struct TakenBack {
    /// Files and links that have again what they had.
    pub files: usize,
    /// Paths that are not as they were.
    pub left: Vec<VPath>,
}

/// What was finished.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::kernel::vfs) struct Finished {
    /// Paths that do not have the times or permissions they should have: the host refused.
    pub refused: Vec<VPath>,
    /// Temporaries that could not be removed.
    pub leftovers: Vec<VPath>,
}

/// A plan that was begun, and where.
pub(in crate::kernel::vfs) struct Begun<'a> {
    pub tree: &'a dyn Tree,
    pub plan: &'a Plan,
    /// What was made of each step; empty if that is not known. Nothing has come to its place then, as
    /// far as anybody knows.
    pub staged: &'a [Option<Identity>],
}

impl Begun<'_> {
    /// What somebody else has changed since, so that [`Begun::take_back`] would leave it as it is.
    pub fn changed_since(&self) -> io::Result<Vec<ChangedSince>> {
        let made: HashMap<&VPath, usize> = (0..)
            .zip(&self.plan.steps)
            .filter(|(_, step)| !matches!(step, Step::Remove { .. }))
            .map(|(index, step)| (step.path(), index))
            .collect();
        // What has not come to its place was not put there by a step.
        let is_ours = |path: &VPath| {
            let undo = made.get(path).map(|index| self.undo_of(*index));
            undo.is_some_and(|undo| !matches!(undo, Ok(Undo::Clear)))
        };
        let temporaries: HashSet<&VPath> =
            self.plan.steps.iter().flat_map(Step::temporaries).collect();
        let mut changed = Vec::new();
        let mut gone = BTreeSet::new();
        let removed_dirs = self.removed_dirs();
        for (index, step) in self.plan.steps.iter().enumerate() {
            let path = step.path();
            let undo = self.undo_of(index);
            match undo.unwrap_or_else(|error| Undo::Not(ChangedKind::Unseen(error.to_string()))) {
                Undo::Nowhere(dir) => drop(gone.insert(dir)),
                Undo::Restore | Undo::MakeDir(_) => {
                    gone.extend(self.no_dir_above(path, &removed_dirs)?);
                }
                // What stands there now is another step's, and is looked at there.
                Undo::Not(_) if matches!(step, Step::Remove { .. }) && is_ours(path) => {}
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
        // What was beneath another one that is gone went with it.
        let is_uppermost = |dir: &&VPath| {
            let above = |dir: &VPath| dir.split_last().map(|(dir, _)| dir);
            !std::iter::successors(above(dir), above).any(|dir| gone.contains(&dir))
        };
        for path in gone.iter().filter(is_uppermost).cloned() {
            changed.push(ChangedSince { path, what: ChangedKind::NotADirectory });
        }
        Ok(changed)
    }

    /// The directories that steps remove, each with its step.
    fn removed_dirs(&self) -> HashMap<&VPath, usize> {
        let mut removed = HashMap::new();
        for (index, step) in self.plan.steps.iter().enumerate() {
            if let Step::Remove { path, dir_mode: Some(_), .. } = step {
                removed.insert(path, index);
            }
        }
        removed
    }

    /// The directory above `path`, if it is none, and taking back one of `removed_dirs` does not make it
    /// one.
    fn no_dir_above(
        &self,
        path: &VPath,
        removed_dirs: &HashMap<&VPath, usize>,
    ) -> io::Result<Option<VPath>> {
        let Some((dir, _)) = path.split_last() else { return Ok(None) };
        let will_be = match removed_dirs.get(&dir) {
            // What is in the way there is told of that step.
            Some(index) => self.undo_of(*index)? != Undo::Clear,
            None => false,
        };
        Ok(if will_be || self.tree.is_dir(&dir)? { None } else { Some(dir) })
    }

    /// Whether something has left its place, as far as it can be seen.
    pub fn has_moved(&self) -> bool {
        let is_kept = |step: &Step| match step {
            Step::Remove { backup, .. } => self.tree.look(backup).is_ok_and(|it| it.is_some()),
            _ => false,
        };
        self.plan.steps.iter().any(is_kept)
    }

    /// Takes everything back, the last step first. What somebody else has changed since, and what the
    /// host refuses, is left as it is and named.
    pub fn take_back(&self) -> TakenBack {
        let mut taken = TakenBack::default();
        for (index, step) in self.plan.steps.iter().enumerate().rev() {
            match self.undo(index) {
                Ok(undone) => taken.files += usize::from(undone && step.is_of_file()),
                Err(_) => taken.left.push(step.path().clone()),
            }
        }
        taken
    }

    /// Answers whether something was to be done about it.
    fn undo(&self, index: usize) -> io::Result<bool> {
        let (tree, step) = (self.tree, &self.plan.steps[index]);
        let undo = self.undo_of(index)?;
        match (&undo, step) {
            (Undo::Clear, _) => {}
            (Undo::Not(_), _) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Undo::Nowhere(_), _) => return Err(io::ErrorKind::NotADirectory.into()),
            (
                Undo::Restore,
                Step::Remove { path, backup, .. } | Step::Place { path, backup: Some(backup), .. },
            ) => tree.rename(backup, path)?,
            (Undo::MakeDir(mode), step) => {
                tree.create_dir(step.path(), Access::Shared)?;
                tree.set_dir_mode(step.path(), *mode)?;
            }
            (Undo::Remove | Undo::Restore, step) => {
                tree.remove(step.path())?;
            }
        }
        // The temporary last: as long as it is there, nothing has come to its place.
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
        let undo = self.undo_where_it_was(index)?;
        if undo != Undo::Clear || self.staged.is_empty() {
            return Ok(undo);
        }
        // What was kept may have gone elsewhere, with the directory that held it: temporaries stand in
        // directories that are there before and after.
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
                    // Nothing has come to its place.
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

    /// Whether what stands at `path` is what another step removes, and has not removed.
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

    /// Whether the directory that held `path` is none any more, so that `path` is left over wherever it is
    /// now.
    fn has_gone(&self, path: &VPath) -> bool {
        path.split_last().is_some_and(|(dir, _)| !self.tree.is_dir(&dir).unwrap_or(false))
    }

    /// Finishes what has come to its places: removes what was kept, and sets what is set last.
    pub fn finish(&self) -> Finished {
        let tree = self.tree;
        let mut finished = Finished::default();
        // First: this gives times to directories.
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

/// Whether two names lead to one file, as far as the host says.
fn is_same_file(one: &Stat, other: &Stat) -> bool {
    one.inode != 0 && one.inode == other.inode
}
