//! Errors of sessions.

use std::path::PathBuf;

use crate::engine::EngineError;
use crate::host::HostError;
use crate::kernel::machine::MachineError;
use crate::kernel::vfs::{ApplyError, DiffError};
#[cfg(feature = "llm")]
use crate::llm::FixtureError;
use crate::native::SubprocessError;
use crate::net::EgressRuleError;
use crate::tape::TapeError;
use crate::toolchain::ResolveError;

/// A session cannot be activated, used or finalized.
#[derive(thiserror::Error)]
pub enum TestbenchError {
    /// The worktree cannot be opened.
    #[error("cannot open the worktree {}", path.display())]
    Worktree {
        /// The directory.
        path: PathBuf,
        /// The host's error.
        source: std::io::Error,
    },
    /// The toolchain's directory cannot be used.
    #[error(transparent)]
    Toolchain(#[from] ResolveError),
    /// The engine for the toolchain cannot be made.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A subprocess or the process tape failed.
    #[error(transparent)]
    Subprocess(#[from] SubprocessError),
    /// The fixture of language models cannot be used.
    #[cfg(feature = "llm")]
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    /// The egress rules of the environment are invalid.
    #[error(transparent)]
    Egress(#[from] EgressRuleError),
    /// The tape failed.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// The machine cannot be built.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A host call failed.
    #[error(transparent)]
    Host(HostError),
    /// The changes cannot be determined.
    #[error(transparent)]
    Diff(#[from] DiffError),
    /// The changes of a command cannot be applied to the disk.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

crate::base::readable::readable!(TestbenchError);
