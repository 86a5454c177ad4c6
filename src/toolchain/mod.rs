//! Rank 6: finds programs by name.

mod demo;
mod programs;
mod registry;

pub use programs::{Compile, Loaded, ToolchainPrograms};

pub use registry::{ResolveError, Resolved, Toolchains, similar};
