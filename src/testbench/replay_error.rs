//! What can go wrong with replays.

use crate::engine::EngineError;
use crate::kernel::machine::MachineError;
use crate::kernel::vfs::{DiffError, TapedTreeError};
use crate::store::StoreError;
use crate::tape::TapeError;

/// A run could not be repeated, or did something else than its tape says.
#[derive(thiserror::Error)]
pub enum ReplayError {
    /// The tape cannot be read; or, as [`TapeError::Desync`], the run leaves it.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// The tape does not say how to run it.
    #[error("{tape} is no tape of a run: {message}")]
    Incomplete {
        /// The tape.
        tape: String,
        /// What it lacks.
        message: String,
    },
    /// The tape is of a kernel that this version does not know.
    #[error(
        "{tape} was recorded with version {found} of the kernel, and this belljar has {known}: \
         use a newer one"
    )]
    Kernel {
        /// The tape.
        tape: String,
        /// Its kernel.
        found: u32,
        /// The newest that is known here.
        known: u32,
    },
    /// The tape says something of the tree below that nothing can have answered.
    #[error("{tape}: {source}")]
    Tree {
        /// The tape.
        tape: String,
        /// What.
        source: TapedTreeError,
    },
    /// The store beside the tape.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine cannot be put together again.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// No engine can be made that counts fuel, as the tape does.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// What the run changed cannot be told.
    #[error(transparent)]
    Diff(#[from] DiffError),
    /// Whoever was asked for a program has none.
    #[error("cannot load {program}: {message}")]
    Program {
        /// Its name on the tape.
        program: String,
        /// Why not.
        message: String,
    },
}

crate::base::readable::readable!(ReplayError);
