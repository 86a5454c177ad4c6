//! Text in messages and reports.

pub use crate::base::printable::printable;

/// `text` as a word of a command line for a shell of POSIX.
pub fn shell_word(text: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_./+@%=:,".contains(it);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", printable(text).replace('\'', r"'\''"))
}

/// The last part of a path with slashes.
pub fn last_part(path: &str) -> String {
    printable(path.rsplit('/').next().unwrap_or_default())
}

/// `1 change`, `2 changes`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
