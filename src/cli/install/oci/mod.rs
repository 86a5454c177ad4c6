//! Toolchains in OCI registries.

mod artifact;
mod registry;

pub use artifact::{pull, push};
pub use registry::{Registry, is_reference};
