//! Toolchains in OCI registries.

mod artifact;
mod registry;

pub use artifact::{pull, push, version};
pub use registry::{Registry, is_reference};
