//! Field splitting: from the results of expansions to fields, as POSIX 2.6.5 has it.

use std::ops::Range;

use super::held::ENTRY_BYTES;
use super::pattern::{Pattern, Steps};
use crate::kernel::machine::limits::Stop;
use crate::kernel::machine::memory::{Charge, Memory, OutOfMemory};

/// Bytes that the expansion of a word may have. Beyond: an error.
pub const WORD_BYTES_MAX: usize = 64 << 20;

/// A field, or what is to become one.
#[derive(Clone, Debug, Default)]
pub struct Field {
    /// Its bytes.
    pub text: Vec<u8>,
    /// Where in it quoted bytes stand that would mean something in a pattern, in order.
    quoted: Vec<usize>,
    /// Whether something in it matches more than itself.
    pub has_pattern: bool,
}

/// Whether `byte` means something in a pattern.
fn is_special(byte: u8) -> bool {
    matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\' | b'!' | b'^' | b'-')
}

impl Field {
    /// Adds text that stands for itself.
    pub fn push_quoted(&mut self, text: &[u8]) {
        let start = self.text.len();
        self.text.extend_from_slice(text);
        let special = text.iter().enumerate().filter(|(_, byte)| is_special(**byte));
        self.quoted.extend(special.map(|(at, _)| start + at));
    }

    /// Adds text that may match.
    pub fn push(&mut self, text: &[u8]) {
        self.has_pattern |= text.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['));
        self.text.extend_from_slice(text);
    }

    /// What the part of it at these positions matches.
    ///
    /// # Errors
    /// Those of `steps`.
    pub fn pattern(&self, range: Range<usize>, steps: &mut Steps<'_>) -> Result<Pattern, Stop> {
        let within = self.quoted.iter().filter(|at| range.contains(at));
        let quoted: Vec<usize> = within.map(|at| at - range.start).collect();
        Pattern::new(&self.text[range], &quoted, steps)
    }
}

/// Bytes that separate fields. A script may name millions of them.
#[derive(Clone, Debug)]
pub struct Separators([bool; 256]);

impl Separators {
    /// Those that are in `bytes`.
    pub fn new(bytes: &[u8]) -> Self {
        let mut set = [false; 256];
        for byte in bytes {
            set[usize::from(*byte)] = true;
        }
        Self(set)
    }

    /// Whether `byte` is one.
    pub fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte)]
    }
}

/// A word cannot be expanded.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
    /// It is too long.
    #[error("a word is longer than {} MiB", WORD_BYTES_MAX >> 20)]
    TooLong,
    /// There is no memory for it.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
}

crate::base::readable::readable!(WordError);

/// The fields of words, as they come into being.
#[derive(Debug)]
pub struct Fields {
    /// Those that are whole.
    pub done: Vec<Field>,
    current: Field,
    /// Whether `current` is one, empty as it may be.
    is_open: bool,
    /// Whether a blank of IFS has ended a field and nothing came since: a delimiter that is no blank
    /// belongs to it then.
    after_blank: bool,
    /// Bytes that split; `None` where nothing is split.
    separators: Option<Separators>,
    bytes: usize,
    charge: Charge,
}

impl Fields {
    /// None yet, whose memory is taken from `memory`. Results of expansions are split at `separators`, if there are any.
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

    /// Whether results of expansions become several fields.
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

    /// Adds text that stands for itself, and be it empty.
    pub fn push_quoted(&mut self, text: &[u8]) -> Result<(), WordError> {
        self.account(text)?;
        let special = text.iter().filter(|byte| is_special(**byte)).count();
        self.charge.grow((special * size_of::<usize>()) as u64)?;
        self.current.push_quoted(text);
        (self.is_open, self.after_blank) = (true, false);
        Ok(())
    }

    /// Adds text of the script itself, which is not split.
    pub fn push_literal(&mut self, text: &[u8]) -> Result<(), WordError> {
        self.account(text)?;
        self.current.push(text);
        (self.is_open, self.after_blank) = (true, false);
        Ok(())
    }

    /// Adds the result of an expansion.
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

    /// Ends a field, empty as it may be.
    fn end(&mut self) -> Result<(), OutOfMemory> {
        self.charge.grow(ENTRY_BYTES)?;
        self.done.push(std::mem::take(&mut self.current));
        (self.is_open, self.after_blank) = (false, false);
        Ok(())
    }

    /// Ends a field, if one has begun.
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

    /// The only field, where nothing is split.
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
    fn blanks_are_taken_together_and_other_separators_are_not() {
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
    fn quoted_text_is_a_field_however_empty() {
        let mut fields = Fields::new(Some(Separators::new(b" ")), &Memory::new(1000));
        fields.push_expanded(b"a ").unwrap();
        fields.push_quoted(b"").unwrap();
        fields.push_expanded(b" b").unwrap();
        fields.end_open().unwrap();
        let texts: Vec<&[u8]> = fields.done.iter().map(|field| &field.text[..]).collect();
        assert_eq!(texts, [b"a" as &[u8], b"", b"b"]);
    }
}
