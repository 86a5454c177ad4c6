//! Rank 3: the virtual kernel.
pub mod vfs;
