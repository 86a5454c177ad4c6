//! The native programs of a run, which make it not hermetic.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use super::text::{count, printable};
use crate::tape::{Kind, TapeError, TapeReader};

/// Most names that are shown.
const SHOWN_MAX: usize = 8;

/// Native programs that ran.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StartedNatives {
    /// The number of processes.
    pub processes: usize,
    /// The name of each program, once, in the order of their first start.
    pub names: Vec<String>,
    /// The process IDs of those in the last run that was noted.
    pids: BTreeSet<u32>,
}

impl StartedNatives {
    /// Those on a tape.
    ///
    /// # Errors
    /// The tape cannot be read.
    pub fn on(tape: &Path) -> Result<Self, TapeError> {
        let mut ran = Self::default();
        for record in TapeReader::open(tape)? {
            ran.note(&record?.kind);
        }
        Ok(ran)
    }

    /// Notes the record `kind`, if it is the start of one.
    pub fn note(&mut self, kind: &Kind) {
        let Kind::ProcessSpawn { program, mode, pid, parent, .. } = kind else { return };
        if parent.is_none() {
            self.pids.clear();
        }
        if mode == "native" {
            // A native child of a native process writes the output of processes that its parent left behind.
            if !parent.is_some_and(|parent| self.pids.contains(&parent)) {
                self.add(program);
            }
            self.pids.insert(*pid);
        }
    }

    fn add(&mut self, program: &str) {
        self.processes += 1;
        if !self.names.iter().any(|name| name == program) {
            self.names.push(program.to_owned());
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.processes == 0
    }
}

impl From<Vec<String>> for StartedNatives {
    fn from(started: Vec<String>) -> Self {
        let mut ran = Self::default();
        for program in &started {
            ran.add(program);
        }
        ran
    }
}

/// In a sentence.
impl fmt::Display for StartedNatives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.names.iter().take(SHOWN_MAX).map(|name| printable(name));
        let names = names.collect::<Vec<_>>().join(", ");
        let more = if self.names.len() > SHOWN_MAX { ", …" } else { "" };
        let processes = count(self.processes, "native program");
        write!(f, "not hermetic: {processes} ran: {names}{more}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_counted_and_named_once() {
        let ran = StartedNatives::from(["git", "sort", "git"].map(str::to_owned).to_vec());
        assert_eq!(ran.to_string(), "not hermetic: 3 native programs ran: git, sort");
        let many = (0..9).map(|n| n.to_string()).collect::<Vec<_>>();
        assert!(StartedNatives::from(many).to_string().ends_with("6, 7, …"));
        assert!(StartedNatives::default().is_empty());
    }
}
