//! Field splitting (POSIX 2.6.5).

use std::ops::Range;

use super::held::ENTRY_BYTES;
use super::pattern::{Pattern, Steps};
use crate::kernel::machine::limits::Stop;
use crate::kernel::machine::memory::{Charge, Memory, OutOfMemory};

/// Longest expansion of a word, in bytes.
pub const WORD_BYTES_MAX: usize = 64 << 20;

/// A field, complete or not.
#[derive(Clone, Debug, Default)]
pub struct Field {
    /// The bytes.
    pub text: Vec<u8>,
    /// Positions of quoted bytes that are special in patterns, in order.
    quoted: Vec<usize>,
    /// Whether it contains an unquoted `*`, `?` or `[`.
    pub has_pattern: bool,
}

/// Returns whether `byte` is special in a pattern.
fn is_special(byte: u8) -> bool {
    matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\' | b'!' | b'^' | b'-')
}

impl Field {
    /// Appends text that matches only itself.
    pub fn push_quoted(&mut self, text: &[u8]) {
        let start = self.text.len();
        self.text.extend_from_slice(text);
        let special = text.iter().enumerate().filter(|(_, byte)| is_special(**byte));
        self.quoted.extend(special.map(|(at, _)| start + at));
    }

    /// Appends text that may be a pattern.
    pub fn push(&mut self, text: &[u8]) {
        self.has_pattern |= text.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['));
        self.text.extend_from_slice(text);
    }

    /// Returns the pattern in `range` of it.
    ///
    /// # Errors
    /// Errors of `steps`.
    pub fn pattern(&self, range: Range<usize>, steps: &mut Steps<'_>) -> Result<Pattern, Stop> {
        let within = self.quoted.iter().filter(|at| range.contains(at));
        let quoted: Vec<usize> = within.map(|at| at - range.start).collect();
        Pattern::new(&self.text[range], &quoted, steps)
    }
}

/// The bytes that separate fields, as a table: a script may list millions.
#[derive(Clone, Debug)]
pub struct Separators([bool; 256]);

impl Separators {
    /// The separators in `bytes`.
    pub fn new(bytes: &[u8]) -> Self {
        let mut set = [false; 256];
        for byte in bytes {
            set[usize::from(*byte)] = true;
        }
        Self(set)
    }

    /// Returns whether `byte` is a separator.
    pub fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte)]
    }
}

/// A word could not be expanded.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
    /// It is too long.
    #[error("word too long: limit {} MiB", WORD_BYTES_MAX >> 20)]
    TooLong,
    /// No memory is left.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
}

crate::base::readable::readable!(WordError);

/// Fields under construction.
#[derive(Debug)]
pub struct Fields {
    /// The complete fields.
    pub done: Vec<Field>,
    current: Field,
    /// Whether `current` is a field, even if it is empty.
    is_open: bool,
    /// Whether IFS whitespace has ended a field and nothing has followed: another separator then belongs to it.
    after_blank: bool,
    /// The separators; `None` if nothing is split.
    separators: Option<Separators>,
    bytes: usize,
    charge: Charge,
}

impl Fields {
    /// Creates an empty list, charged to `memory`. Results of expansions are split at `separators`, if any.
    pub fn new(separators: Option<Separators>, memory: &Memory) -> Self {
        Self {
            done: Vec::new(),
            current: Field::default(),
            is_open: false,
            after_blank: false,
            separators,
            bytes: 0,
            charge: memory.charge(),
        }
    }

    /// Returns whether results of expansions are split.
    pub fn splits(&self) -> bool {
        self.separators.is_some()
    }

    fn account(&mut self, text: &[u8]) -> Result<(), WordError> {
        self.bytes += text.len();
        if self.bytes > WORD_BYTES_MAX {
            return Err(WordError::TooLong);
        }
        Ok(self.charge.grow(text.len() as u64)?)
    }

    /// Appends text that matches only itself, even if it is empty.
    pub fn push_quoted(&mut self, text: &[u8]) -> Result<(), WordError> {
        self.account(text)?;
        let special = text.iter().filter(|byte| is_special(**byte)).count();
        self.charge.grow((special * size_of::<usize>()) as u64)?;
        self.current.push_quoted(text);
        (self.is_open, self.after_blank) = (true, false);
        Ok(())
    }

    /// Appends text of the script, which is not split.
    pub fn push_literal(&mut self, text: &[u8]) -> Result<(), WordError> {
        self.account(text)?;
        self.current.push(text);
        (self.is_open, self.after_blank) = (true, false);
        Ok(())
    }

    /// Appends the result of an expansion.
    pub fn push_expanded(&mut self, text: &[u8]) -> Result<(), WordError> {
        self.account(text)?;
        let Some(separators) = self.separators.clone() else {
            self.current.push(text);
            self.is_open |= !text.is_empty();
            return Ok(());
        };
        let mut rest = text;
        while !rest.is_empty() {
            let len = rest.iter().position(|byte| separators.contains(*byte));
            let (plain, after) = rest.split_at(len.unwrap_or(rest.len()));
            if !plain.is_empty() {
                self.current.push(plain);
                (self.is_open, self.after_blank) = (true, false);
            }
            rest = after;
            let Some((separator, after)) = rest.split_first() else { break };
            rest = after;
            if matches!(separator, b' ' | b'\t' | b'\n') {
                if self.is_open {
                    self.end()?;
                    self.after_blank = true;
                }
            } else if !std::mem::take(&mut self.after_blank) {
                self.end()?;
            }
        }
        Ok(())
    }

    /// Ends a field, even if it is empty.
    fn end(&mut self) -> Result<(), OutOfMemory> {
        self.charge.grow(ENTRY_BYTES)?;
        self.done.push(std::mem::take(&mut self.current));
        (self.is_open, self.after_blank) = (false, false);
        Ok(())
    }

    /// Ends the current field, if there is one.
    ///
    /// # Errors
    /// [`WordError::Memory`].
    pub fn end_open(&mut self) -> Result<(), WordError> {
        if self.is_open {
            self.end()?;
        }
        self.after_blank = false;
        Ok(())
    }

    /// Returns the only field, if nothing is split.
    pub fn into_one(self) -> Field {
        self.current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(separators: &str, text: &str) -> Vec<String> {
        let mut fields =
            Fields::new(Some(Separators::new(separators.as_bytes())), &Memory::new(1000));
        fields.push_expanded(text.as_bytes()).unwrap();
        fields.end_open().unwrap();
        fields.done.iter().map(|f| String::from_utf8_lossy(&f.text).into_owned()).collect()
    }

    #[test]
    fn ifs_blanks_are_merged_and_other_separators_are_not() {
        assert_eq!(split(" \n", "  a \n b "), ["a", "b"]);
        assert_eq!(split(":", "a::b:"), ["a", "", "b"]);
        assert_eq!(split(": ", "a : b :: c"), ["a", "b", "", "c"]);
        assert_eq!(split(":", ":a"), ["", "a"]);
        assert_eq!(split(" ", "   "), [] as [&str; 0]);
        assert_eq!(split("", "a b"), ["a b"]);
    }

    #[test]
    fn empty_fields_take_memory() {
        let mut fields = Fields::new(Some(Separators::new(b":")), &Memory::new(1000));
        let full = WordError::Memory(OutOfMemory { max_bytes: 1000 });
        assert_eq!(fields.push_expanded(&[b':'; 100]), Err(full));
    }

    #[test]
    fn empty_quoted_text_is_a_field() {
        let mut fields = Fields::new(Some(Separators::new(b" ")), &Memory::new(1000));
        fields.push_expanded(b"a ").unwrap();
        fields.push_quoted(b"").unwrap();
        fields.push_expanded(b" b").unwrap();
        fields.end_open().unwrap();
        let texts: Vec<&[u8]> = fields.done.iter().map(|field| &field.text[..]).collect();
        assert_eq!(texts, [b"a" as &[u8], b"", b"b"]);
    }
}
