//! Rank 7: sandboxes, sessions that live, are forked and are resumed.

mod backend;
mod session;
mod snapshot;
mod wasi;

pub use backend::{
    ExecRequest, ExecResult, FilesystemAccess, MEMORY_DIR, MEMORY_DIR_VARIABLE, MountSource,
    OUTPUTS_DIR, OUTPUTS_DIR_VARIABLE, SandboxBackend, SandboxCapabilities, SandboxError,
    SandboxFuture, SandboxMount, SandboxSession, SandboxSpec, SessionState, check_session_id,
};
pub use session::Sandbox;
pub use snapshot::{SnapshotError, SnapshotStore};
pub use wasi::WasiBackend;

/// The name of the backend whose programs are modules.
pub const WASI: &str = "wasi";
