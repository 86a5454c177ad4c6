//! A program that is not the next on its tape.

use std::fmt;
use std::path::PathBuf;

/// Something in which what was asked differs from what a tape holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The field of the entry, for variables with the variable's name: `args`, `env LANG`.
    pub field: String,
    /// What the tape holds, as messages show it.
    pub tape: String,
    /// What was asked for, without secrets.
    pub asked: String,
}

/// A program was asked for that is not the next on the tape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// The tape.
    pub tape: PathBuf,
    /// The number of the call, from 1.
    pub call: u64,
    /// The line of the entry that it was compared with.
    pub line: usize,
    /// In what they differ: at least one.
    pub differences: Vec<Difference>,
    /// The entries around it, and it: line, and the program with its arguments.
    pub around: Vec<(usize, String)>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tape, call, line, differences, around } = self;
        write!(f, "subprocess call {call} is not what {}, line {line}, holds:", tape.display())?;
        for Difference { field, tape, asked } in differences {
            write!(f, "\n  {field}: tape {tape}, asked {asked}")?;
        }
        for (at, summary) in around {
            let mark = if at == line { '>' } else { ' ' };
            write!(f, "\n{mark} line {at}: {summary}")?;
        }
        write!(f, "\nif the new call is right, record the tape again")
    }
}

impl std::error::Error for Mismatch {}
