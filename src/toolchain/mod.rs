//! Rank 6: finds programs by name.

mod demo;
mod described;
pub(crate) mod digests;
mod file_list;
mod folder;
mod installed;
mod manifest;
pub(crate) mod names;
mod programs;
mod registry;
mod temporary;
mod trees;
mod versions;

pub use programs::{Compile, Loaded, ToolchainPrograms};

pub use described::{Code, Described, Toolchain};
pub use folder::ToolchainFolder;
#[cfg(feature = "cli")]
pub(crate) use folder::signature_in;
pub use installed::{InstallError, InstalledToolchains, SignedManifest};
#[cfg(feature = "import")]
pub(crate) use manifest::MANIFEST_BYTES_MAX;
#[cfg(feature = "cli")]
pub(crate) use manifest::pointer;
pub use manifest::{
    FileEntry, MANIFEST, Manifest, ManifestError, Problem, ProgramEntry, SIGNATURE,
};
#[cfg(feature = "import")]
pub(crate) use names::at;
#[cfg(feature = "cli")]
pub(crate) use registry::meant;
pub use registry::{ResolveError, Resolved, Toolchains, similar};
pub use temporary::{DOWNLOADS, Temporary};
