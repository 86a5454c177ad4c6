//! Which programs of the host a run had: it is not hermetic.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use super::text::{count, printable};
use crate::tape::{Kind, TapeError, TapeReader};

/// Names that are shown.
const SHOWN_MAX: usize = 8;

/// Programs of the host that ran.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostPrograms {
    /// How many processes.
    pub processes: usize,
    /// The name of each program, once, in the order in which they first ran.
    pub names: Vec<String>,
    /// The numbers of those of the run that was noted last.
    pids: BTreeSet<u32>,
}

impl HostPrograms {
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

    /// Takes note of what `kind` says of one.
    pub fn note(&mut self, kind: &Kind) {
        let Kind::ProcessSpawn { program, mode, pid, parent, .. } = kind else { return };
        if parent.is_none() {
            self.pids.clear();
        }
        if mode == "native" {
            // One that another one starts writes what is written by those whom that left behind.
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

impl From<Vec<String>> for HostPrograms {
    fn from(started: Vec<String>) -> Self {
        let mut ran = Self::default();
        for program in &started {
            ran.add(program);
        }
        ran
    }
}

/// In a sentence.
impl fmt::Display for HostPrograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.names.iter().take(SHOWN_MAX).map(|name| printable(name));
        let names = names.collect::<Vec<_>>().join(", ");
        let more = if self.names.len() > SHOWN_MAX { ", …" } else { "" };
        let processes = count(self.processes, "program");
        write!(f, "not hermetic: {processes} of the host ran: {names}{more}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_counted_and_named_once() {
        let ran = HostPrograms::from(["git", "sort", "git"].map(str::to_owned).to_vec());
        assert_eq!(ran.to_string(), "not hermetic: 3 programs of the host ran: git, sort");
        let many = (0..9).map(|n| n.to_string()).collect::<Vec<_>>();
        assert!(HostPrograms::from(many).to_string().ends_with("6, 7, …"));
        assert!(HostPrograms::default().is_empty());
    }
}
