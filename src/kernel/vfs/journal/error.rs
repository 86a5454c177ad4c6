//! Errors of journals.

use std::io;
use std::path::{Path, PathBuf};

use super::recovery::ChangedSince;
use crate::base::disk::DiskError;
use crate::base::own::{ExposedError, OwnError};
use crate::kernel::vfs::path::VPath;

/// A journal cannot be written or followed.
#[derive(thiserror::Error)]
pub enum JournalError {
    /// The directory of journals cannot be used.
    #[error(
        "cannot {operation} the journal {}: {error} (belljar must be able to write there; BELLJAR_HOME \
         can name another directory)",
        path.display()
    )]
    Disk {
        /// What failed, as a verb.
        operation: &'static str,
        /// The directory or the journal.
        path: PathBuf,
        /// The host's error.
        error: io::Error,
    },
    /// A directory cannot be identified.
    #[error(transparent)]
    Folder(#[from] DiskError),
    /// Another user could have written the journal.
    #[error(transparent)]
    Exposed(#[from] ExposedError),
    /// The journal is damaged.
    #[error(
        "the journal {} is damaged: {why}; {}. The files .belljar-*.tmp in that directory hold new and \
        replaced contents: repair the directory by hand, then remove the journal",
        path.display(), about(folders)
    )]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The directories it names, if they can be read.
        folders: Vec<PathBuf>,
        /// The defect.
        why: &'static str,
    },
    /// A later belljar wrote it.
    #[error(
        "the journal {} has version {major}.{minor}, but this belljar reads version 1; recover it \
        with the belljar that wrote it",
        path.display()
    )]
    Version {
        /// The journal.
        path: PathBuf,
        /// Its major version.
        major: u16,
        /// Its minor version.
        minor: u16,
    },
    /// The write that was begun cannot be taken back without losing later changes.
    #[error(
        "an interrupted write to {0} cannot be taken back, because {1}; `belljar recover --skip-changed {0}` \
        keeps these changes and takes the rest back",
        folder.display(), list(changed, ToString::to_string)
    )]
    Changed {
        /// The directory.
        folder: PathBuf,
        /// The later changes.
        changed: Vec<ChangedSince>,
    },
    /// The host refused to take a step back.
    #[error(
        "an interrupted write to {0} cannot be taken back, because the system refuses to restore {1}; make \
        that writable and run `belljar recover {0}`, or give it up with `belljar recover --skip-changed {0}`",
        folder.display(), list(left, ToString::to_string)
    )]
    Refused {
        /// The directory.
        folder: PathBuf,
        /// Paths that were not restored.
        left: Vec<VPath>,
    },
    /// A directory to be forgotten still exists.
    #[error("the directory {0} is there: recover it with `belljar recover {0}`", folder.display())]
    Present {
        /// The directory.
        folder: PathBuf,
    },
    /// [`crate::kernel::vfs::Witness::is_interrupted`] returned true.
    #[error("interrupted")]
    Interrupted,
}

crate::base::readable::readable!(JournalError);

impl From<OwnError> for JournalError {
    fn from(error: OwnError) -> Self {
        match error {
            OwnError::Exposed(error) => error.into(),
            OwnError::Disk(error) => error.into(),
        }
    }
}

fn about(folders: &[PathBuf]) -> String {
    match folders {
        [] => "it names no directory".to_owned(),
        folders => format!("it is for {}", list(folders, |it| it.display().to_string())),
    }
}

fn list<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join("; ")
}

/// Wraps an error of the host, for `map_err`.
pub(super) fn failed(
    operation: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> JournalError + use<> {
    let path = path.to_owned();
    move |error| JournalError::Disk { operation, path, error }
}
