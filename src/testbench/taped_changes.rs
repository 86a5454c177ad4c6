//! What a recorded run changed, made once more from its tape.

use std::path::Path;

use serde_json::{Map, Value};

use super::replay::{ReplayError, Script};
use crate::base::digest::Digest;
use crate::base::errno::Errno;
use crate::kernel::limits::Limits;
use crate::kernel::machine::Machine;
use crate::kernel::vfs::{Follow, Overlay};
use crate::store::{Cas, StoreError};
use crate::tape::{Kind, TapeError, TapeReader, cas_dir};

/// The changes on a tape cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum TapedChangesError {
    /// The tape.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A content is not in the store beside the tape, or is not what it was.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What stands there is not what stood there when the tape was recorded.
    #[error("{path} is not what it was when the tape was recorded: {found}")]
    Conflict {
        /// The path in the namespace.
        path: String,
        /// What is there.
        found: &'static str,
    },
    /// The namespace refuses.
    #[error("cannot change {path}: {errno}")]
    Refused {
        /// The path in the namespace.
        path: String,
        /// Why.
        errno: Errno,
    },
}

impl From<TapeError> for TapedChangesError {
    fn from(error: TapeError) -> Self {
        Self::Replay(error.into())
    }
}

/// One change, as the tape has it.
struct Change {
    path: String,
    /// `added`, `modified` or `deleted`.
    how: String,
    detail: Map<String, Value>,
}

impl Change {
    fn text(&self, field: &str) -> Option<&str> {
        self.detail.get(field).and_then(Value::as_str)
    }

    fn digest(&self, field: &str) -> Option<Digest> {
        Digest::from_hex(self.text(field)?)
    }

    fn refused(&self) -> impl FnOnce(Errno) -> TapedChangesError + '_ {
        |errno| TapedChangesError::Refused { path: self.path.clone(), errno }
    }

    fn conflict(&self, found: &'static str) -> TapedChangesError {
        TapedChangesError::Conflict { path: self.path.clone(), found }
    }

    /// # Errors
    /// [`TapedChangesError::Conflict`] unless what stands at the path is what the run found there.
    fn check(&self, vfs: &mut Overlay) -> Result<(), TapedChangesError> {
        let base = vfs.host_base();
        let there = vfs.stat(base, self.path.trim_start_matches('/'), Follow::No);
        if self.how == "added" {
            return match there {
                Err(Errno::Noent | Errno::Notdir) => Ok(()),
                Ok(_) if self.text("file_type") == Some("dir") => Ok(()),
                Ok(_) => Err(self.conflict("something is there")),
                Err(errno) => Err(self.refused()(errno)),
            };
        }
        if there.is_err() {
            return Err(self.conflict("nothing is there"));
        }
        if let Some(before) = self.digest("before_content_hash")
            && vfs.read(&self.path).map(|bytes| Digest::of(&bytes)) != Ok(before)
        {
            return Err(self.conflict("it has another content"));
        }
        if let Some(before) = self.text("before_target")
            && vfs.read_link(base, self.path.trim_start_matches('/')) != Ok(before)
        {
            return Err(self.conflict("it leads somewhere else"));
        }
        Ok(())
    }

    fn remove(&self, vfs: &mut Overlay, now: u64) -> Result<(), TapedChangesError> {
        let (base, path) = (vfs.host_base(), self.path.trim_start_matches('/'));
        let removed = match self.text("file_type") {
            Some("dir") => vfs.remove_dir(base, path, now),
            _ => vfs.unlink(base, path, now),
        };
        removed.map_err(self.refused())
    }

    fn make(&self, vfs: &mut Overlay, cas: &Cas, now: u64) -> Result<(), TapedChangesError> {
        let (base, path) = (vfs.host_base(), self.path.trim_start_matches('/'));
        match self.text("file_type") {
            Some("dir") => match vfs.create_dir(base, path, now) {
                Ok(_) | Err(Errno::Exist) => Ok(()),
                Err(errno) => Err(self.refused()(errno)),
            },
            Some("link") => {
                if self.how == "modified" {
                    vfs.unlink(base, path, now).map_err(self.refused())?;
                }
                let target = self.text("target").unwrap_or_default();
                vfs.symlink(target, base, path, now).map_err(self.refused())
            }
            Some("file") => {
                let digest = self.digest("content_hash");
                let digest = digest.ok_or_else(|| self.refused()(Errno::Inval))?;
                if let Some(rule) = self.text("withheld_by") {
                    return Err(StoreError::Withheld { digest, rule: rule.to_owned() }.into());
                }
                let len_bytes = self.detail.get("len_bytes").and_then(Value::as_u64);
                let bytes = cas.get(digest, len_bytes.unwrap_or(0))?;
                vfs.write(&self.path, &bytes, now).map_err(self.refused())
            }
            _ => Err(self.refused()(Errno::Notsup)),
        }
    }
}

/// Makes in `vfs` what the run on the tape at `path` changed, after checking that everything there
/// is what the run found; answers how many changes there were. Times are not set, and permissions
/// stay those of any new file.
///
/// # Errors
/// [`TapedChangesError`]. `vfs` is then as it was, or partly changed if it refused.
pub fn make_taped_changes(path: &Path, vfs: &mut Overlay) -> Result<usize, TapedChangesError> {
    let mut changes = Vec::new();
    for record in TapeReader::open(path)? {
        if let Kind::Change { path, change, detail } = record?.kind
            && change != "times"
        {
            changes.push(Change { path, how: change, detail });
        }
    }
    for change in &changes {
        change.check(vfs)?;
    }
    let cas = Cas::new(cas_dir(path));
    let now = 0;
    // What a folder held goes before the folder, and a folder comes before what it holds.
    for change in changes.iter().rev().filter(|change| change.how == "deleted") {
        change.remove(vfs, now)?;
    }
    for change in changes.iter().filter(|change| change.how != "deleted") {
        change.make(vfs, &cas, now)?;
    }
    Ok(changes.len())
}

/// The machine of the tape at `path` as the run left it, put together from the tape alone: nothing
/// runs.
///
/// # Errors
/// [`TapedChangesError`].
pub fn changed_machine(path: &Path) -> Result<Machine, TapedChangesError> {
    let (builder, _) = Script::read(path)?.at_the_end().into_builder(path, &Limits::default())?;
    let mut machine = builder.build().map_err(ReplayError::from)?;
    make_taped_changes(path, machine.vfs_mut())?;
    Ok(machine)
}
