//! Who read real time although the clock was paused.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A host capability that read real time while the session's clock was paused: what it answers
/// cannot be repeated.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct ClockLeak {
    /// The capability, as it names itself.
    pub capability_id: String,
    /// What it read.
    pub kind: ClockLeakKind,
    /// How often.
    pub count: u64,
}

/// Which of the host's clocks was read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockLeakKind {
    /// The wall clock.
    Wall,
    /// The monotonic clock.
    Instant,
}

impl ClockLeakKind {
    /// Its name on a tape.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wall => "wall",
            Self::Instant => "instant",
        }
    }
}

/// Counts them.
#[derive(Clone, Debug, Default)]
pub struct ClockLeaks(BTreeMap<(String, ClockLeakKind), u64>);

impl ClockLeaks {
    /// Counts one.
    pub fn note(&mut self, capability_id: &str, kind: ClockLeakKind) {
        *self.0.entry((capability_id.to_owned(), kind)).or_default() += 1;
    }

    /// All, sorted by capability and kind.
    pub fn list(&self) -> Vec<ClockLeak> {
        let leak = |((capability_id, kind), count): (&(String, ClockLeakKind), &u64)| ClockLeak {
            capability_id: capability_id.clone(),
            kind: *kind,
            count: *count,
        };
        self.0.iter().map(leak).collect()
    }
}
