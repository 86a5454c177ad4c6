//! Rank 6: finds programs by name.

mod demo;
mod described;
pub(crate) mod digests;
mod folder;
mod installed;
mod manifest;
mod names;
mod programs;
mod registry;
mod trees;

pub use programs::{Compile, Loaded, ToolchainPrograms};

pub use described::{Code, Described, Toolchain};
pub use folder::ToolchainFolder;
pub use installed::{InstallError, InstalledToolchains, ReadFile};
pub use manifest::{FileEntry, MANIFEST, Manifest, ManifestError, Problem, ProgramEntry};
pub use registry::{ResolveError, Resolved, Toolchains, similar};
