//! What WASI 0.2 lacks: the packages `belljar:process` and `belljar:host`, whose WIT is beside the
//! sources of the crate `belljar-guest`.
//!
//! They are to components what the import module [`belljar`](crate::abi::belljar) is to modules.

mod host;
mod process;
mod stdio;
mod types;

pub(super) use host::calls;
pub(super) use process::{define_child, processes};
