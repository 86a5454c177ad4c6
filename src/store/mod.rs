//! Rank 1: contents on the host's disk.

mod cas;

pub use cas::{Cas, Removed, StoreError, read_slice};
