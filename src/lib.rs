//! Belljar.
pub mod base;
pub mod kernel;
