//! Rank 1: what is kept on the host's disk between runs.

mod cas;

pub use cas::{Cas, Removed, StoreError, read_slice};
