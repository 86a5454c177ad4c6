//! Symbolic links that a program may have planted.
//!
//! A program can replace a directory by a symbolic link, and `--apply` writes that. A later command that
//! names a path through the link would then read or write somewhere else.

use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use super::args::groups::MountArgs;
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
        let Some(named) = lexical(path) else { return Ok(()) };
        for folder in &self.0 {
            let Some(base) = lexical(folder) else { continue };
            if named == base || !named.starts_with(&base) {
                continue;
            }
            let (Ok(real), Ok(real_base)) = (disk::canonical(path), disk::canonical(folder)) else {
                continue;
            };
            if !real.starts_with(&real_base) {
                let (path, real) = (path.display(), real.display());
                return Err(Usage(format!(
                    "{option}: {path} leads out of {} by a symbolic link, which a program may have \
                     put there; if that is intended, name {real}",
                    folder.display()
                ))
                .into());
            }
        }
        Ok(())
    }
}

/// The absolute path without `.` and `..`, as if there were no links.
fn lexical(path: &Path) -> Option<PathBuf> {
    let mut clean = disk::current_dir().ok()?;
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    Some(clean)
}
