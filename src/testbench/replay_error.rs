//! Errors of replays.

use crate::engine::EngineError;
use crate::kernel::machine::MachineError;
use crate::kernel::vfs::{DiffError, TapedTreeError};
use crate::store::StoreError;
use crate::tape::TapeError;

/// A run cannot be replayed, or diverges from its tape.
#[derive(thiserror::Error)]
pub enum ReplayError {
    /// The tape cannot be read; or, as [`TapeError::Desync`], the run diverges from it.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// The tape is not one of a run.
    #[error("{tape} is not the tape of a run: {message}")]
    Incomplete {
        /// The tape.
        tape: String,
        /// What is missing or invalid.
        message: String,
    },
    /// The tape is of a newer kernel.
    #[error(
        "{tape} was recorded with kernel version {found}, and this belljar has {known}; use a newer \
         belljar"
    )]
    Kernel {
        /// The tape.
        tape: String,
        /// The kernel version of the tape.
        found: u32,
        /// The newest supported version.
        known: u32,
    },
    /// The tape has contradictory or invalid records of files.
    #[error("{tape}: {source}")]
    Tree {
        /// The tape.
        tape: String,
        /// What is wrong.
        source: TapedTreeError,
    },
    /// The store next to the tape failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine cannot be built.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// An engine that counts fuel cannot be made.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The changes of the run cannot be determined.
    #[error(transparent)]
    Diff(#[from] DiffError),
    /// `load` has no module for a program.
    #[error("cannot load {program}: {message}")]
    Program {
        /// The name on the tape.
        program: String,
        /// Why.
        message: String,
    },
}

crate::base::readable::readable!(ReplayError);
