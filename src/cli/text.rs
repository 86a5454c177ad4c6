//! Text in messages and reports.

pub use crate::base::printable::printable;

/// `1 change`, `2 changes`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
