//! Why files of a recorded or replayed program cannot be dealt with.

use std::io;
use std::path::PathBuf;

use crate::base::errno::Errno;
use crate::kernel::vfs::{ApplyError, DiffError, ScanError};
use crate::store::StoreError;

/// Files that a program changed cannot be recorded, or not be made again.
#[derive(thiserror::Error)]
pub enum FilesError {
    /// The root of the session cannot be opened.
    #[error("cannot open the directory {}", path.display())]
    Root {
        /// The directory.
        path: PathBuf,
        /// The host's error.
        source: io::Error,
    },
    /// The root of the session cannot be searched for changes.
    #[error(
        "cannot look for changed files: {0}; leave out what programs do not change with `--ignore` \
         (SubprocessFiles::ignore)"
    )]
    Scan(ScanError),
    /// A file is too long for the tape.
    #[error(
        "{path} has {len_bytes} bytes, more than the limit file_bytes_max of {limit_bytes}; raise it \
         with SubprocessFiles::file_bytes_max, or leave the file out with `--ignore` \
         (SubprocessFiles::ignore)"
    )]
    TooLong {
        /// The path, relative to the root.
        path: String,
        /// Its length.
        len_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// The contents of all files are too long for the tape.
    #[error(
        "the contents on the tape would exceed the limit bytes_max of {limit_bytes} bytes with \
         {path}; raise it with SubprocessFiles::bytes_max, or leave files out with \
         SubprocessFiles::ignore"
    )]
    Full {
        /// The path, relative to the root.
        path: String,
        /// The limit.
        limit_bytes: u64,
    },
    /// A file changes while it is recorded.
    #[error(
        "{path} changes although the program has ended; wait for what it left running, or leave the \
         file out with SubprocessFiles::ignore"
    )]
    Changing {
        /// The path, relative to the root.
        path: String,
    },
    /// The store of the tape failed, or lacks a content.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The content of a file is not on the tape, as it holds a secret.
    #[error(
        "cannot make {path} again: it holds a secret according to the rule {rule}, so its content is \
         not on the tape; leave the file out with SubprocessFiles::ignore and record the tape again"
    )]
    Withheld {
        /// The path, relative to the root.
        path: String,
        /// The rule.
        rule: String,
    },
    /// The namespace or the host refuses a change.
    #[error("cannot change {path}: {errno}")]
    Refused {
        /// The path, relative to the root.
        path: String,
        /// Why.
        errno: Errno,
    },
    /// A directory on the way to a file is a symbolic link, or no directory.
    #[error("cannot change {path}: {at} is not a directory; links are not followed")]
    NotADir {
        /// The path, relative to the root.
        path: String,
        /// What is on the way.
        at: String,
    },
    /// The changes of the overlay cannot be determined.
    #[error(transparent)]
    Diff(#[from] DiffError),
    /// The disk refuses the changes. None was made.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// What [`super::SubprocessFiles::write_by`] sets cannot write the changes.
    #[error(transparent)]
    Write(Box<dyn std::error::Error + Send + Sync>),
}

crate::base::readable::readable!(FilesError);
