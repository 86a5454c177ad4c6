//! Rank 9: sandboxes: sessions that live on, fork and resume.
#![doc = include_str!("../../docs/sandbox.md")]

mod backend;
mod copy;
mod home;
mod home_details;
mod home_error;
mod local;
mod registry;
mod session;
mod snapshot;
mod wasi;

pub use backend::{
    ExecRequest, ExecResult, FilesystemAccess, MEMORY_DIR, MEMORY_DIR_VARIABLE, MountSource,
    OUTPUTS_DIR, OUTPUTS_DIR_VARIABLE, SandboxBackend, SandboxCapabilities, SandboxError,
    SandboxFuture, SandboxMount, SandboxSession, SandboxSpec, SessionState, check_session_id,
};
pub use copy::{Copied, CopyError, Listed};
pub use home::{HeldSession, HomeEntry, HomeKind, MakePrograms, SandboxHome};
pub use home_details::HomeDetails;
pub use home_error::HomeError;
pub use local::LocalBackend;
pub use session::{Directories, Directory, MakeHost, Sandbox};
pub use snapshot::{SnapshotError, SnapshotStore};
pub use wasi::WasiBackend;

/// The name of the backend whose programs are modules.
pub const WASI: &str = "wasi";

/// The name of the backend whose programs are native.
pub const LOCAL: &str = "local";
