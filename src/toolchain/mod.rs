//! Rank 6: where programs are found by name.

mod demo;
mod registry;

pub use registry::{ResolveError, Resolved, Toolchains, similar};
