//! What can go wrong with journals.

use std::io;
use std::path::{Path, PathBuf};

use super::recovery::ChangedSince;
use crate::base::disk::DiskError;
use crate::base::own::{ExposedError, OwnError};
use crate::kernel::vfs::path::VPath;

/// A journal cannot be written, or not be followed.
#[derive(thiserror::Error)]
pub enum JournalError {
    /// The folder of journals cannot be used.
    #[error(
        "cannot {operation} the journal {}: {error} (belljar must be able to write there; BELLJAR_HOME \
         can name another folder)",
        path.display()
    )]
    Disk {
        /// What was tried, as a verb.
        operation: &'static str,
        /// The folder, or the journal.
        path: PathBuf,
        /// What the host answered.
        error: io::Error,
    },
    /// The folder that is to be opened, or the one of journals, cannot be told from others.
    #[error(transparent)]
    Folder(#[from] DiskError),
    /// Somebody else could have put a journal there, or written it.
    #[error(transparent)]
    Exposed(#[from] ExposedError),
    /// It makes no sense.
    #[error(
        "the journal {} is damaged: {why}; {}. Files called .belljar-*.tmp in that folder hold what \
         was being written, and what it replaced: put right what is wrong by hand, and then remove \
         the journal",
        path.display(), about(folders)
    )]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The folders that it was about, as far as it says.
        folders: Vec<PathBuf>,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A later belljar wrote it.
    #[error(
        "the journal {} has version {major}.{minor}, and this belljar reads version 1: recover it \
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
    /// What was begun cannot be taken back, because somebody has changed it since.
    #[error(
        "an earlier belljar did not finish what it wrote to {0}, and it cannot be taken back, because {1}; \
         `belljar recover --skip-changed {0}` leaves that as it is and takes the rest back",
        folder.display(), list(changed, ToString::to_string)
    )]
    Changed {
        /// The folder.
        folder: PathBuf,
        /// What was changed.
        changed: Vec<ChangedSince>,
    },
    /// The host refused to take something back.
    #[error(
        "an earlier belljar did not finish what it wrote to {0}, and the system refuses to put these \
         back: {1}; see to it that they can be written, and then run `belljar recover {0}`, or leave \
         them as they are with `belljar recover --skip-changed {0}`",
        folder.display(), list(left, ToString::to_string)
    )]
    Refused {
        /// The folder.
        folder: PathBuf,
        /// What is not as it was.
        left: Vec<VPath>,
    },
    /// [`crate::kernel::vfs::Witness::is_interrupted`] said so.
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
        [] => "it does not say which folder it was about".to_owned(),
        folders => format!("it was about {}", list(folders, |it| it.display().to_string())),
    }
}

fn list<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join("; ")
}

/// Wraps an error of the host for `map_err`.
pub(super) fn failed(
    operation: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> JournalError + use<> {
    let path = path.to_owned();
    move |error| JournalError::Disk { operation, path, error }
}
