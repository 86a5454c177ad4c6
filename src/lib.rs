//! Belljar.
pub mod abi;
pub mod base;
pub mod kernel;
pub use kernel::machine::*;
pub use kernel::vfs::Source;
