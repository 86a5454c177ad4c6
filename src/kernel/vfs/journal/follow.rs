//! Follows a journal without a writer: what was begun is taken back or finished, in those of its directories that
//! exist.

use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::error::{JournalError, failed};
use super::format::{self as format, Content, JournalDefect, Root};
use super::recovery::Begun;
use super::{
    COMMITTED, DRAFT, Found, Journals, OnChanged, Recovered, Witness, dirs_of, name, new_id,
    sync_dirs,
};
use crate::base::disk::{self, DiskError};
use crate::base::own::ExposedError;
use crate::kernel::vfs::journal::plan::{Identity, Plan, Step};
use crate::kernel::vfs::layer::Layer;
use crate::kernel::vfs::layer::host_dir::{Access, HostDir};
use crate::kernel::vfs::path::VPath;

/// A directory of a journal, with its parts.
struct About<'c> {
    root: &'c Root,
    /// The plan; `None` if that part is incomplete.
    plan: Option<&'c Plan>,
    /// What was staged for each step; empty if that part is incomplete.
    staged: &'c [Option<Identity>],
    /// When the journal was written, if that is known.
    written: Option<SystemTime>,
}

/// The directories of the journal `found`, whose content is `content`.
fn abouts<'c>(found: &Found, content: &'c Content) -> impl Iterator<Item = About<'c>> {
    let written = found.written();
    content.roots.iter().enumerate().map(move |(index, root)| About {
        root,
        written,
        plan: content.plans.as_ref().and_then(|plans| plans.get(index)),
        staged: content.staged.as_ref().map_or(&[], |staged| &staged[index]),
    })
}

impl About<'_> {
    /// Whether `folder` is this directory. A device can have another number after a restart, and a new directory the
    /// number of one that was removed: then something that the journal names must be there.
    fn is(&self, folder: &HostDir) -> bool {
        let Ok(id) = folder.id() else { return false };
        let Root { id: known, path } = self.root;
        let (is_same, is_there) = (id == *known, folder.path() == path);
        is_same && is_there && !self.is_older_than(folder)
            || id.1 == known.1 && (is_same || is_there) && self.shows_in(folder)
    }

    /// Whether `folder` was made after the journal had been written.
    fn is_older_than(&self, folder: &HostDir) -> bool {
        let made = folder.created();
        made.zip(self.written).is_some_and(|(made, written)| made > written)
    }

    /// Whether a temporary, or what was staged for a step, is in `folder`.
    fn shows_in(&self, folder: &HostDir) -> bool {
        let Some(plan) = self.plan else { return false };
        let is_there = |path: &VPath| Layer::stat(folder, path).is_ok();
        let is_made = |(step, made): (&Step, &Option<Identity>)| {
            let made = made.as_ref();
            made.is_some_and(|it| Layer::stat(folder, step.path()).is_ok_and(|stat| it.is(&stat)))
        };
        plan.steps.iter().flat_map(Step::temporaries).any(is_there)
            || plan.steps.iter().zip(self.staged).any(is_made)
    }

    /// Opens the directory if it still exists: one of `folders`, the one at its path, or the one at the end of its
    /// path in one of `folders`, which was moved with it.
    fn open(&self, folders: &[&HostDir]) -> Option<HostDir> {
        if let Some(folder) = folders.iter().find(|folder| self.is(folder)) {
            return folder.try_clone().ok();
        }
        let here = HostDir::open(&self.root.path).ok().filter(|folder| self.is(folder));
        here.or_else(|| folders.iter().find_map(|folder| self.open_in(folder)))
    }

    /// Opens the directory if it is in `folder` under some of the last names of its path.
    fn open_in(&self, folder: &HostDir) -> Option<HostDir> {
        let names: Vec<_> = self.root.path.components().collect();
        let ends = (1..names.len()).rev().map(|at| names[at..].iter().collect::<PathBuf>());
        let mut opened = ends.filter_map(|end| HostDir::open(&folder.path().join(end)).ok());
        opened.find(|dir| {
            dir.id().is_ok_and(|id| id == self.root.id)
                && (!self.is_older_than(dir) || self.shows_in(dir))
        })
    }
}

/// Most entries of a directory among which one that was moved is searched for.
const ENTRIES_MAX: usize = 1000;

/// Directories of `found` that are not where they were, but above one of `folders`, or directly in one.
pub(super) fn moved(found: &[Found], folders: &[&HostDir]) -> Vec<HostDir> {
    let contents = found.iter().filter_map(|found| Some((found, found.content.as_ref().ok()?)));
    let all = contents.flat_map(|(found, content)| abouts(found, content));
    let missing: Vec<_> = all.filter(|about| about.open(folders).is_none()).collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let mut near = Vec::new();
    for folder in folders {
        near.extend(folder.path().ancestors().skip(1).map(Path::to_owned));
        // What cannot be listed cannot be searched.
        near.extend(disk::list(folder.path()).unwrap_or_default().into_iter().take(ENTRIES_MAX));
    }
    near.retain(|path| disk::symlink_metadata(path).is_ok_and(|it| it.is_dir()));
    let opened = near.iter().filter_map(|path| HostDir::open(path).ok());
    opened.filter(|dir| missing.iter().any(|about| about.is(dir))).collect()
}

impl Found {
    /// The directory of this journal that is, contains, or is contained in one of `folders`.
    pub(super) fn related(&self, folders: &[&HostDir]) -> Option<PathBuf> {
        let is_of = |about: &About<'_>, folder: &HostDir| {
            let path = &about.root.path;
            about.is(folder)
                || (folder.path().starts_with(path) || path.starts_with(folder.path()))
                    && about.open(&[]).is_some()
                || about.open_in(folder).is_some()
        };
        let content = self.content.as_ref().ok().into_iter();
        let mut abouts = content.flat_map(|content| abouts(self, content));
        let found = abouts.find(|about| folders.iter().any(|folder| is_of(about, folder)));
        found.map(|about| about.root.path.clone())
    }
}

impl Journals {
    /// Gives up the recovery of the directory that was at `folder`, an absolute path, and is not there any more; its
    /// journals stay for their other directories. Returns the number of journals that named it.
    ///
    /// # Errors
    /// [`JournalError::Present`] if it is there; [`JournalError::Disk`]; [`JournalError::Interrupted`].
    pub fn forget(&self, folder: &Path, witness: &dyn Witness) -> Result<usize, JournalError> {
        let _lock = self.lock(witness)?;
        let mut count = 0;
        for found in self.found(true)?.iter().filter(|found| !found.is_live) {
            let Ok(content) = &found.content else { continue };
            let (gone, rest): (Vec<_>, Vec<_>) =
                abouts(found, content).partition(|about| about.root.path == folder);
            if gone.is_empty() {
                continue;
            }
            if gone.iter().any(|about| about.open(&[]).is_some()) {
                return Err(JournalError::Present { folder: folder.to_owned() });
            }
            count += 1;
            if rest.is_empty() || found.state == DRAFT {
                self.remove(found)?;
            } else {
                self.keep_rest(found, &rest)?;
            }
        }
        Ok(count)
    }

    fn remove(&self, found: &Found) -> Result<(), JournalError> {
        let removed = self.tree.remove_file(&found.name());
        removed.map_err(failed("remove", &self.at(&found.name())))?;
        self.tree.sync_dir(&VPath::root()).map_err(failed("sync", &self.path))
    }

    /// Recovers what `found` is for. The caller holds the lock.
    pub(super) fn follow(
        &self,
        found: &Found,
        folders: &[&HostDir],
        on_changed: OnChanged,
    ) -> Result<Vec<Recovered>, JournalError> {
        let path = self.at(&found.name());
        if found.state == DRAFT {
            // A draft: nothing had begun.
            return self.remove(found).map(|()| Vec::new());
        }
        let damaged = |why| {
            let folders = found.roots().iter().map(|root| root.path.clone()).collect();
            Err(JournalError::Damaged { path: path.clone(), folders, why })
        };
        let content = match &found.content {
            Ok(content) => content,
            Err(JournalDefect::Damaged(why)) => return damaged(why),
            Err(JournalDefect::Version(major, minor)) => {
                return Err(JournalError::Version { path, major: *major, minor: *minor });
            }
            Err(JournalDefect::Exposed(exposure)) => {
                return Err(ExposedError { path, exposure: exposure.clone() }.into());
            }
        };
        if let Some(why) = content.defect {
            return damaged(why);
        }
        let is_finished = found.state == COMMITTED;
        if content.plans.is_none() {
            return damaged("its second part is incomplete");
        }
        if is_finished && content.staged.is_none() {
            return damaged("its third part is incomplete");
        }
        let mut there = Vec::new();
        let mut rest = Vec::new();
        for about in abouts(found, content) {
            let Some(plan) = about.plan else { continue };
            match about.open(folders) {
                Some(folder) => {
                    let path = folder.path().to_owned();
                    there.push((path, plan, self.through(folder), about.staged));
                }
                None if *plan == Plan::default() => {}
                None => rest.push(about),
            }
        }
        if !is_finished {
            for (folder, plan, tree, staged) in &there {
                let begun = Begun { tree: &**tree, plan, staged, carried_out: None };
                let examine =
                    |error| JournalError::Folder(DiskError::new("examine", folder)(error));
                if staged.is_empty() && begun.has_moved() {
                    return damaged("its third part is incomplete, and files were moved");
                }
                let changed = begun.changed_since().map_err(examine)?;
                if !changed.is_empty() && on_changed == OnChanged::Refuse {
                    return Err(JournalError::Changed { folder: folder.clone(), changed });
                }
            }
        }
        let mut recovered = Vec::new();
        for (folder, plan, tree, staged) in &there {
            let begun = Begun { tree: &**tree, plan, staged, carried_out: None };
            recovered.push(recover_root(folder, &begun, is_finished, on_changed)?);
        }
        if rest.is_empty() {
            self.remove(found)?;
        } else if !there.is_empty() {
            self.keep_rest(found, &rest)?;
        }
        Ok(recovered)
    }

    /// Rewrites the journal `found` for `rest` alone: a directory that was recovered must not be recovered again after
    /// later changes.
    fn keep_rest(&self, found: &Found, rest: &[About<'_>]) -> Result<(), JournalError> {
        let roots: Vec<Root> = rest.iter().map(|about| about.root.clone()).collect();
        let plans: Vec<Plan> = rest.iter().filter_map(|about| about.plan.cloned()).collect();
        let mut bytes = [format::beginning(&roots), format::plans_part(&plans)].concat();
        if found.content.as_ref().is_ok_and(|content| content.staged.is_some()) {
            let staged: Vec<_> = rest.iter().map(|about| about.staged.to_vec()).collect();
            bytes.extend(format::staged_part(&staged));
        }
        let draft = name(&new_id(), DRAFT);
        let path = self.at(&draft);
        let created = self.tree.create_file(&draft, Access::Private);
        let mut file = created.map_err(failed("create", &path))?;
        file.write_all(&bytes).map_err(failed("write", &path))?;
        self.tree.sync_file(&draft, &file).map_err(failed("sync", &path))?;
        self.tree.rename(&draft, &found.name()).map_err(failed("rename", &path))?;
        self.tree.sync_dir(&VPath::root()).map_err(failed("sync", &self.path))
    }
}

fn recover_root(
    folder: &Path,
    begun: &Begun<'_>,
    is_finished: bool,
    on_changed: OnChanged,
) -> Result<Recovered, JournalError> {
    let steps = &begun.plan.steps;
    let mut recovered = Recovered {
        folder: folder.to_owned(),
        is_finished,
        files: 0,
        left: Vec::new(),
        kept: Vec::new(),
    };
    if is_finished {
        recovered.files = steps.iter().filter(|step| step.is_of_file()).count();
        recovered.left = begun.finish().leftovers;
    } else {
        let taken = begun.take_back();
        if !taken.left.is_empty() && on_changed == OnChanged::Refuse {
            let folder = recovered.folder;
            return Err(JournalError::Refused { folder, left: taken.left });
        }
        let left: HashSet<&VPath> = taken.left.iter().collect();
        let of_left = steps.iter().filter(|step| left.contains(step.path()));
        // Temporaries in a directory that was moved are wherever that is now.
        let has_dir =
            |path: &VPath| path.split_last().is_some_and(|(dir, _)| begun.tree.stat(&dir).is_ok());
        let there = |path: &&VPath| begun.tree.stat(path).is_ok() || !has_dir(path);
        recovered.kept = of_left.flat_map(Step::temporaries).filter(there).cloned().collect();
        (recovered.files, recovered.left) = (taken.files, taken.left);
        if begun.staged.is_empty() {
            let staged = steps.iter().filter(|step| !matches!(step, Step::Remove { .. }));
            let temporaries = staged.flat_map(Step::temporaries);
            recovered.left.extend(temporaries.filter(|path| begun.has_gone(path)).cloned());
        }
    }
    // Unreachable paths are left and cannot be synced.
    let left: HashSet<&VPath> = recovered.left.iter().collect();
    let is_left = |step: &Step| step.temporaries().chain([step.path()]).any(|it| left.contains(it));
    let seen: Vec<Step> = steps.iter().filter(|step| !is_left(step)).cloned().collect();
    let sync = |error| JournalError::Folder(DiskError::new("sync", folder)(error));
    sync_dirs(begun.tree, dirs_of(&seen)).map_err(sync)?;
    Ok(recovered)
}
