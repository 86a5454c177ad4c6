//! What can go wrong with sessions.

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

/// A session could not begin, or could not be ended as asked.
#[derive(thiserror::Error)]
pub enum TestbenchError {
    /// The worktree cannot be opened.
    #[error("cannot open the worktree {}", path.display())]
    Worktree {
        /// The folder.
        path: PathBuf,
        /// What the host answered.
        source: std::io::Error,
    },
    /// The folder of the toolchain cannot be used.
    #[error(transparent)]
    Toolchain(#[from] ResolveError),
    /// No engine can be made to run the toolchain with.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The record of subprocesses, or a subprocess.
    #[error(transparent)]
    Subprocess(#[from] SubprocessError),
    /// The fixture of language models.
    #[cfg(feature = "llm")]
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    /// What the environment says of who may be reached.
    #[error(transparent)]
    Egress(#[from] EgressRuleError),
    /// The tape.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// The machine cannot be put together.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A call of the host.
    #[error(transparent)]
    Host(HostError),
    /// What changed cannot be told.
    #[error(transparent)]
    Diff(#[from] DiffError),
    /// What a command changed cannot be written to the disk.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

crate::base::readable::readable!(TestbenchError);
