//! The lexer: text to tokens, with quotes, nesting and here-documents. Text is bytes.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::deep::with_stack;
use super::parser;
use super::tree::{List, Piece, Word, is_name};
use super::words::assigned;
use crate::kernel::machine::memory::{Charge, OutOfMemory};

/// Most nested quotes and expansions in a word.
const WORD_DEPTH_MAX: usize = 200;

/// Memory charged for a token until the script ends: the token and its part of the tree.
const TOKEN_BYTES: u64 = 1000;

/// Stack of the parser for a level of nesting, in bytes.
const LEVEL_BYTES: u64 = 4 << 10;

/// Syntax error or unsupported construct.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// A syntax error.
    #[error("{line}: Syntax error: {what}")]
    Malformed {
        /// The line, from 1.
        line: u32,
        /// The problem.
        what: String,
    },
    /// No memory is left.
    #[error("{line}: {error}")]
    Memory {
        /// The line, from 1.
        line: u32,
        /// The error.
        error: OutOfMemory,
    },
    /// A construct of other shells that POSIX does not have.
    #[error("line {line}: {name} is not supported: POSIX does not have it")]
    Unsupported {
        /// The line, from 1.
        line: u32,
        /// Its name.
        name: &'static str,
    },
}

crate::base::readable::readable!(SyntaxError);

/// A token.
pub enum Token {
    /// An operator of [`OPERATORS`].
    Operator(&'static str),
    /// A word, or a reserved word.
    Word(Word),
    /// The descriptor before a redirection.
    Number(u32),
    /// The end of the script.
    End,
}

/// Splits `source` into tokens.
pub struct Lexer<'s> {
    pub(super) source: &'s [u8],
    pub(super) at: usize,
    pub(super) line: u32,
    /// Depth of nesting.
    depth: usize,
    /// Depth of nesting in the current word.
    word_depth: usize,
    taken: &'s Taken,
}

/// The memory of a script.
pub struct Taken {
    charge: RefCell<Charge>,
    /// The greatest depth of nesting so far.
    deepest: Cell<usize>,
}

/// The delimiter of a here-document.
pub struct Delimiter {
    text: Vec<u8>,
    is_quoted: bool,
    strips_tabs: bool,
}

/// A line continuation, which POSIX removes before tokens are recognized.
const CONTINUED: &[u8] = b"\\\n";

/// Longer operators come before their prefixes.
const OPERATORS: [&str; 18] = [
    "<<-", "&&", "||", ";;", "<<", ">>", "<&", ">&", "<>", ">|", "|", "&", ";", "<", ">", "(", ")",
    "\n",
];

const REFUSED: [(&str, &str); 7] = [
    ("<<<", "<<<"),
    ("&>", "&>"),
    ("|&", "|&"),
    (";;&", ";;&"),
    (";&", ";&"),
    ("<(", "process substitution"),
    (">(", "process substitution"),
];

impl Taken {
    /// Adds charges to `charge`.
    pub fn new(charge: Charge) -> Self {
        Self { charge: RefCell::new(charge), deepest: Cell::new(0) }
    }

    /// Returns the whole charge.
    pub fn into_charge(self) -> Charge {
        self.charge.into_inner()
    }
}

impl<'s> Lexer<'s> {
    /// Creates a lexer of `source`, whose first line is `line`.
    pub fn new(source: &'s [u8], line: u32, taken: &'s Taken) -> Self {
        Self { source, at: 0, line, depth: 0, word_depth: 0, taken }
    }

    /// Creates a lexer of `source`, a part of this one's text.
    pub(super) fn within<'i>(&'i self, source: &'i [u8], line: u32) -> Lexer<'i> {
        let Self { depth, word_depth, taken, .. } = *self;
        Lexer { source, at: 0, line, depth, word_depth, taken }
    }

    pub(super) fn take_memory(&self, bytes: u64) -> Result<(), SyntaxError> {
        let taken = self.taken.charge.borrow_mut().grow(bytes);
        taken.map_err(|error| SyntaxError::Memory { line: self.line, error })
    }

    /// Takes the next token; returns its first line, too.
    ///
    /// # Errors
    /// [`SyntaxError`].
    pub fn token(&mut self) -> Result<(Token, u32), SyntaxError> {
        self.skip_blanks();
        let line = self.line;
        if self.peek().is_none() {
            return Ok((Token::End, line));
        }
        self.take_memory(TOKEN_BYTES)?;
        if let Some(operator) = OPERATORS.iter().find(|op| self.sees(op.as_bytes())) {
            if let Some((_, name)) = REFUSED.iter().find(|(text, _)| self.sees(text.as_bytes())) {
                return Err(self.unsupported(name));
            }
            self.take(operator.as_bytes());
            return Ok((Token::Operator(operator), line));
        }
        let word = self.word()?;
        let is_redirected = matches!(self.peek(), Some(b'<' | b'>'));
        let digits = word.literal().filter(|text| text.iter().all(u8::is_ascii_digit));
        if let Some(digits) = digits.filter(|_| is_redirected) {
            let number = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
            let number: u32 = number.ok_or_else(|| self.malformed("bad file descriptor number"))?;
            return Ok((Token::Number(number), line));
        }
        if self.peek() == Some(b'(') && is_assignment(&word) {
            return Err(self.unsupported("an array"));
        }
        Ok((Token::Word(word), line))
    }

    /// Does `take` one level deeper.
    pub(super) fn deeper<T>(
        &mut self,
        take: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        self.enter()?;
        let taken = with_stack(|| take(self))?;
        self.leave();
        Ok(taken)
    }

    /// Enters a level of nesting.
    pub(super) fn enter(&mut self) -> Result<(), SyntaxError> {
        self.depth += 1;
        if self.depth > self.taken.deepest.get() {
            self.take_memory(LEVEL_BYTES)?;
            self.taken.deepest.set(self.depth);
        }
        Ok(())
    }

    /// Leaves a level of nesting.
    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// As [`Lexer::deeper`], within a word.
    pub(super) fn deeper_in_word<T>(
        &mut self,
        take: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        if self.word_depth == WORD_DEPTH_MAX {
            let what = format!("quotes and expansions nested more than {WORD_DEPTH_MAX} deep");
            return Err(self.malformed(&what));
        }
        self.word_depth += 1;
        let taken = self.deeper(take)?;
        self.word_depth -= 1;
        Ok(taken)
    }

    /// Parses the commands up to and with the next `)`.
    pub(super) fn nested(&mut self) -> Result<Arc<List>, SyntaxError> {
        self.deeper_in_word(parser::nested).map(Arc::new)
    }

    pub(super) fn malformed(&self, what: &str) -> SyntaxError {
        SyntaxError::Malformed { line: self.line, what: what.to_owned() }
    }

    pub(super) fn unsupported(&self, name: &'static str) -> SyntaxError {
        SyntaxError::Unsupported { line: self.line, name }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.source.get(self.at).copied()
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Option<u8> {
        self.source.get(self.at + ahead).copied()
    }

    pub(super) fn sees(&self, text: &[u8]) -> bool {
        self.past(text).is_some()
    }

    /// Takes `text` if it is next.
    pub(super) fn take(&mut self, text: &[u8]) -> bool {
        let Some(at) = self.past(text) else { return false };
        while self.at < at {
            self.next();
        }
        true
    }

    /// Returns the end of `text` if it is next, with line continuations in it.
    fn past(&self, text: &[u8]) -> Option<usize> {
        let mut at = self.at;
        for (index, byte) in text.iter().enumerate() {
            while index > 0 && self.continues(at) {
                at += CONTINUED.len();
            }
            (self.source.get(at) == Some(byte)).then_some(())?;
            at += 1;
        }
        Some(at)
    }

    /// Whether a line continuation stands at `at`.
    fn continues(&self, at: usize) -> bool {
        self.source[at..].starts_with(CONTINUED)
    }

    /// Skips line continuations inside a token.
    pub(super) fn skip_continued(&mut self) {
        while self.continues(self.at) {
            self.at += CONTINUED.len();
            self.line += 1;
        }
    }

    /// Takes a byte.
    pub(super) fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        self.line += u32::from(byte == b'\n');
        Some(byte)
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.at += 1,
                Some(b'\\') if self.continues(self.at) => {
                    self.skip_continued();
                }
                Some(b'#') => {
                    while self.peek().is_some_and(|byte| byte != b'\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    /// Takes the delimiter of a here-document: a word with only its quotes removed; `None` if there is none.
    ///
    /// # Errors
    /// [`SyntaxError`].
    pub fn delimiter(&mut self, strips_tabs: bool) -> Result<Option<Delimiter>, SyntaxError> {
        self.skip_blanks();
        let mut delimiter = Delimiter { text: Vec::new(), is_quoted: false, strips_tabs };
        let mut quote = None;
        while let Some(byte) = self.peek() {
            let is_end = quote.is_none() && b" \t\n;&|<>()".contains(&byte);
            if is_end {
                break;
            }
            self.next();
            match (quote, byte) {
                (None, b'\'' | b'"') => (quote, delimiter.is_quoted) = (Some(byte), true),
                (Some(open), byte) if open == byte => quote = None,
                (None | Some(b'"'), b'\\') => match self.next() {
                    Some(b'\n') => {}
                    Some(next) => {
                        let stays = quote.is_some() && !b"$`\"\\".contains(&next);
                        delimiter.text.extend(stays.then_some(b'\\'));
                        delimiter.text.push(next);
                        delimiter.is_quoted = true;
                    }
                    None => delimiter.text.push(b'\\'),
                },
                (_, byte) => delimiter.text.push(byte),
            }
        }
        if quote.is_some() {
            return Err(self.malformed("Unterminated quoted string"));
        }
        Ok((delimiter.is_quoted || !delimiter.text.is_empty()).then_some(delimiter))
    }

    /// Takes a here-document up to the line `delimiter`.
    ///
    /// # Errors
    /// [`SyntaxError`].
    pub fn document_until(&mut self, delimiter: &Delimiter) -> Result<Word, SyntaxError> {
        let line = self.line;
        let (mut body, mut is_continued) = (Vec::new(), false);
        while self.at < self.source.len() {
            let rest = &self.source[self.at..];
            let len = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            let mut text = &rest[..len];
            self.at += (len + 1).min(rest.len());
            self.line += 1;
            if delimiter.strips_tabs && !is_continued {
                let tabs = text.iter().take_while(|byte| **byte == b'\t').count();
                text = &text[tabs..];
            }
            if text == delimiter.text && !is_continued {
                break;
            }
            let backslashes = text.iter().rev().take_while(|byte| **byte == b'\\').count();
            is_continued = !delimiter.is_quoted && backslashes % 2 == 1;
            body.extend_from_slice(text);
            body.push(b'\n');
        }
        if delimiter.is_quoted {
            return Ok(Word(vec![Piece::Quoted(body.into())]));
        }
        self.deeper_in_word(|lexer| lexer.within(&body, line).document())
    }
}

fn is_assignment(word: &Word) -> bool {
    assigned(word).is_some_and(|name| is_name(name.strip_suffix(b"+").unwrap_or(name)))
}
