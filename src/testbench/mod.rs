//! Rank 8: runs that are recorded, repeated and compared.

mod changes;
mod clock;
mod replay;

pub use changes::record_changes;
pub use clock::{ClockHandle, NotPaused, Sleep};
pub use replay::{ReplayError, Replayed, replay};
