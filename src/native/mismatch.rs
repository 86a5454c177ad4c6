//! A call that does not match its tape.

use std::fmt;
use std::path::PathBuf;

/// A field in which a call and its tape entry differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The field; for a variable with its name: `args`, `env LANG`.
    pub field: String,
    /// The value on the tape, as messages show it.
    pub tape: String,
    /// The value of the call, without secrets.
    pub asked: String,
}

/// A call that is not the next on the tape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// The tape.
    pub tape: PathBuf,
    /// From 1.
    pub call: u64,
    /// The line of the entry it was compared with.
    pub line: usize,
    /// At least one.
    pub differences: Vec<Difference>,
    /// The entries around that line, and itself: line, and program with arguments.
    pub around: Vec<(usize, String)>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tape, call, line, differences, around } = self;
        write!(f, "subprocess call {call} does not match {}, line {line}:", tape.display())?;
        for Difference { field, tape, asked } in differences {
            write!(f, "\n  {field}: tape {tape}, now {asked}")?;
        }
        for (at, summary) in around {
            let mark = if at == line { '>' } else { ' ' };
            write!(f, "\n{mark} line {at}: {summary}")?;
        }
        write!(f, "\nif the new call is correct, record the tape again")
    }
}

impl std::error::Error for Mismatch {}
