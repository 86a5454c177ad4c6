//! Numbers of processes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of a process: 1 for the first of a run, then counting on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pid(pub u32);

impl Pid {
    /// Whoever started the run. No process has this number.
    pub const MACHINE: Self = Self(0);
    /// The first process of a run.
    pub const FIRST: Self = Self(1);
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
