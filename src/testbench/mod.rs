//! Rank 8: runs that are recorded, repeated and compared.

mod changes;
mod replay;

pub use changes::record_changes;
pub use replay::{ReplayError, Replayed, replay};
