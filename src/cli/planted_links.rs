//! Symbolic links that a program may have planted.
//!
//! A program can replace a directory by a symbolic link, and `--apply` writes that. A later command that
//! names a path through the link would then read or write somewhere else.

use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use super::args::groups::MountArgs;
use super::args::values::Worktree;
use super::exit::Usage;
use crate::base::disk;
use crate::sandbox::{MountSource, SandboxMount};

/// The directories that programs can change.
pub struct Folders(Vec<PathBuf>);

impl Folders {
    /// Those of a run.
    pub fn of(args: &MountArgs) -> Self {
        let worktree = (!args.no_worktree).then(|| args.worktree.clone().unwrap_or_default().host);
        Self(worktree.into_iter().chain(args.dir.iter().map(|mount| mount.host.clone())).collect())
    }

    /// Those at these paths.
    pub fn at(paths: Vec<PathBuf>) -> Self {
        Self(paths)
    }

    /// Those of a session.
    pub fn of_session(mounts: &[SandboxMount]) -> Self {
        let of_host = |mount: &SandboxMount| match &mount.source {
            MountSource::Host(path) => Some(path.clone()),
            MountSource::Memory => None,
        };
        Self(mounts.iter().filter_map(of_host).collect())
    }

    /// Whether `path` lies in one of the directories, links followed.
    pub fn hold(&self, path: &Path) -> bool {
        let Ok(path) = disk::canonical(path) else { return false };
        self.0.iter().any(|dir| disk::canonical(dir).is_ok_and(|dir| path.starts_with(dir)))
    }

    /// Refuses `path`, which `option` names, if it lies in one of the directories by name and a link leads
    /// out of it.
    ///
    /// # Errors
    /// [`Usage`].
    pub fn check(&self, option: &str, path: &Path) -> Result<()> {
        let Some((folder, real)) = self.left_by(path) else { return Ok(()) };
        let (path, folder, real) = (path.display(), folder.display(), real.display());
        Err(Usage(format!(
            "{option}: {path} leads out of {folder} by a symbolic link, which a program may have put there; if that is \
             intended, name {real}"
        ))
        .into())
    }

    /// The first link on the way of `path` that lies in one of the directories and leads out of it: the directory, and where
    /// `path` leads.
    pub fn left_by(&self, path: &Path) -> Option<(&Path, PathBuf)> {
        let real = self.0.iter().filter_map(|folder| Some((folder, disk::canonical(folder).ok()?)));
        let folders: Vec<(&PathBuf, PathBuf)> = real.collect();
        let mut at = disk::current_dir().ok()?;
        for component in path.components() {
            match component {
                Component::CurDir => continue,
                Component::ParentDir => {
                    at.pop();
                    continue;
                }
                other => at.push(other),
            }
            // A path that does not exist yet is no link.
            let Ok(real) = disk::canonical(&at) else { continue };
            let is_left = |(_, folder): &&(&PathBuf, PathBuf)| {
                at.parent().is_some_and(|dir| dir.starts_with(folder)) && !real.starts_with(folder)
            };
            if let Some((folder, _)) = folders.iter().find(is_left) {
                return Some((folder, disk::canonical(path).unwrap_or(real)));
            }
            at = real;
        }
        None
    }
}

/// Refuses `path`, which `option` of a command that mounts nothing names, if it lies in the current directory by name and a
/// link leads out of it: programs that were run here may have put it there.
///
/// # Errors
/// [`Usage`].
pub fn check_here(option: &str, path: &Path) -> Result<()> {
    Folders::at(vec![PathBuf::from(".")]).check(option, path)
}

/// Refuses directories to mount that lie in another one by name, and to which a link leads out of that.
///
/// # Errors
/// [`Usage`].
pub fn check_folders(args: &MountArgs) -> Result<()> {
    let folders = Folders::of(args);
    if let Some(Worktree { host, .. }) = args.worktree.as_ref().filter(|it| !it.read_only) {
        folders.check("--worktree", host)?;
    }
    // A read-only mount can be a link of the user's own.
    for mount in args.dir.iter().filter(|mount| !mount.read_only) {
        folders.check("--dir", &mount.host)?;
    }
    Ok(())
}

/// Where the absolute `path` leads, if a link is on its way.
pub fn through_link(path: &Path) -> Option<PathBuf> {
    let is_link = |dir: &Path| disk::symlink_metadata(dir).is_ok_and(|it| it.is_symlink());
    path.ancestors().any(is_link).then(|| disk::canonical(path).ok()).flatten()
}
