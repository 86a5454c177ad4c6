//! Rank 6: where programs are found by name.

mod demo;
mod programs;
mod registry;

pub use programs::{Compile, Loaded, ToolchainPrograms};

pub use registry::{ResolveError, Resolved, Toolchains, similar};
