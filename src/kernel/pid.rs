//! Process numbers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of a process, counted from 1 in each run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pid(pub u32);

impl Pid {
    /// Stands for the machine, as the parent of the first process.
    pub const MACHINE: Self = Self(0);
    /// The first process of a run.
    pub const FIRST: Self = Self(1);
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
