//! Reads of real time while the clock was paused.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A host capability that read real time while the session's clock was paused: its answers cannot
/// be replayed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct ClockLeak {
    /// The name that the capability gives.
    pub capability_id: String,
    /// The clock that it read.
    pub kind: ClockLeakKind,
    /// Number of reads.
    pub count: u64,
}

/// A clock of the host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockLeakKind {
    /// The wall clock.
    Wall,
    /// The monotonic clock.
    Instant,
}

impl ClockLeakKind {
    /// The name on a tape.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wall => "wall",
            Self::Instant => "instant",
        }
    }
}

/// Counts leaks.
#[derive(Clone, Debug, Default)]
pub struct ClockLeaks(BTreeMap<(String, ClockLeakKind), u64>);

impl ClockLeaks {
    /// Counts a leak.
    pub fn note(&mut self, capability_id: &str, kind: ClockLeakKind) {
        *self.0.entry((capability_id.to_owned(), kind)).or_default() += 1;
    }

    /// All leaks, sorted by capability and kind.
    pub fn list(&self) -> Vec<ClockLeak> {
        let leak = |((capability_id, kind), count): (&(String, ClockLeakKind), &u64)| ClockLeak {
            capability_id: capability_id.clone(),
            kind: *kind,
            count: *count,
        };
        self.0.iter().map(leak).collect()
    }
}
