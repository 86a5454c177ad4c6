//! The pieces of a word: quotes and expansions.

use super::lexer::{Lexer, SyntaxError};
use super::parser;
use super::tree::{Operator, Parameter, Piece, Word, is_name};

/// Memory charged for a piece besides its text.
const PIECE_BYTES: u64 = 200;

/// The context of a piece of text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    /// Nothing: a blank or an operator ends the word.
    Nothing,
    /// `"…"`
    Quotes,
    /// A here-document, or an arithmetic expression: as in quotes, but `"` is text.
    Document,
    /// `$((…))`
    Arithmetic,
    /// `${x-…}` outside of quotes: `}` ends it.
    Braces,
    /// `${x-…}` in quotes or a here-document.
    QuotedBraces,
}

impl Within {
    fn is_quoted(self) -> bool {
        !matches!(self, Self::Nothing | Self::Braces)
    }
}

/// Pieces under construction.
#[derive(Default)]
struct Pieces {
    list: Vec<Piece>,
    text: Vec<u8>,
    is_quoted: bool,
    /// Number of charged pieces in the list.
    charged: usize,
}

impl Pieces {
    fn push(&mut self, byte: u8, quoted: bool) {
        if quoted != self.is_quoted {
            self.flush();
            self.is_quoted = quoted;
        }
        self.text.push(byte);
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text).into();
            self.list.push(if self.is_quoted { Piece::Quoted(text) } else { Piece::Text(text) });
        }
    }

    fn add(&mut self, piece: Piece) {
        self.flush();
        self.list.push(piece);
    }

    fn finish(mut self) -> Word {
        self.flush();
        Word(self.list)
    }
}

impl Lexer<'_> {
    /// Takes the next word; empty if there is none.
    ///
    /// # Errors
    /// [`SyntaxError`].
    pub fn word(&mut self) -> Result<Word, SyntaxError> {
        let mut pieces = Pieces::default();
        self.pieces(Within::Nothing, &mut pieces)?;
        Ok(with_tilde(pieces.finish()))
    }

    /// Takes the whole text as a here-document.
    ///
    /// # Errors
    /// [`SyntaxError`].
    pub fn document(&mut self) -> Result<Word, SyntaxError> {
        let mut pieces = Pieces::default();
        self.pieces(Within::Document, &mut pieces)?;
        Ok(pieces.finish())
    }

    /// Takes pieces up to a closing quote or brace, which is left.
    fn pieces(&mut self, within: Within, out: &mut Pieces) -> Result<(), SyntaxError> {
        let quoted = within.is_quoted();
        let mut parens = 0;
        while let Some(byte) = self.peek() {
            if out.charged < out.list.len() {
                self.take_memory(PIECE_BYTES * (out.list.len() - out.charged) as u64)?;
                out.charged = out.list.len();
            }
            match (within, byte) {
                (
                    Within::Nothing,
                    b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')',
                )
                | (Within::Quotes, b'"')
                | (Within::Braces | Within::QuotedBraces, b'}') => {
                    return Ok(());
                }
                (Within::Arithmetic, b'(') => {
                    parens += 1;
                    self.next();
                    out.push(byte, true);
                }
                (Within::Arithmetic, b')') => {
                    if parens == 0 {
                        return Ok(());
                    }
                    parens -= 1;
                    self.next();
                    out.push(byte, true);
                }
                (_, b'\\') => self.escape(within, out),
                (_, b'$') => self.dollar(within, out)?,
                (_, b'`') => self.backquotes(within, out)?,
                (Within::Nothing | Within::Braces, b'\'') => self.apostrophes(out)?,
                (Within::Nothing | Within::Braces | Within::QuotedBraces, b'"') => {
                    self.quotes(out)?;
                }
                // In arithmetic it does not quote and means nothing.
                (Within::Arithmetic, b'"') => {
                    self.next();
                }
                _ => {
                    self.next();
                    out.push(byte, quoted);
                }
            }
        }
        match within {
            Within::Nothing | Within::Document => Ok(()),
            Within::Quotes => Err(self.malformed("Unterminated quoted string")),
            Within::Arithmetic => Err(self.malformed("Missing '))'")),
            _ => Err(self.malformed("Missing '}'")),
        }
    }

    fn escape(&mut self, within: Within, out: &mut Pieces) {
        self.next();
        let Some(byte) = self.peek() else {
            out.push(b'\\', true);
            return;
        };
        if byte == b'\n' {
            self.next();
            return;
        }
        let is_escape = match within {
            Within::Nothing | Within::Braces => true,
            Within::Quotes => matches!(byte, b'$' | b'`' | b'"' | b'\\'),
            Within::QuotedBraces => matches!(byte, b'$' | b'`' | b'"' | b'\\' | b'}'),
            Within::Document | Within::Arithmetic => matches!(byte, b'$' | b'`' | b'\\'),
        };
        if is_escape {
            self.next();
            out.push(byte, true);
        } else {
            out.push(b'\\', true);
        }
    }

    fn apostrophes(&mut self, out: &mut Pieces) -> Result<(), SyntaxError> {
        self.next();
        let rest = &self.source[self.at..];
        let Some(len) = rest.iter().position(|byte| *byte == b'\'') else {
            return Err(self.malformed("Unterminated quoted string"));
        };
        let text = &rest[..len];
        out.add(Piece::Quoted(text.into()));
        for _ in 0..=len {
            self.next();
        }
        Ok(())
    }

    fn quotes(&mut self, out: &mut Pieces) -> Result<(), SyntaxError> {
        self.next();
        self.deeper_in_word(|lexer| {
            out.flush();
            let before = out.list.len();
            lexer.pieces(Within::Quotes, out)?;
            out.flush();
            if out.list.len() == before {
                out.add(Piece::Quoted(Box::default()));
            }
            Ok(())
        })?;
        self.next();
        Ok(())
    }

    fn backquotes(&mut self, within: Within, out: &mut Pieces) -> Result<(), SyntaxError> {
        let line = self.line;
        self.next();
        let mut text = Vec::new();
        loop {
            match self.next() {
                Some(b'`') => break,
                Some(b'\\') => match self.peek() {
                    Some(byte @ (b'$' | b'`' | b'\\')) => {
                        self.next();
                        text.push(byte);
                    }
                    Some(b'"') if within.is_quoted() => {
                        self.next();
                        text.push(b'"');
                    }
                    _ => text.push(b'\\'),
                },
                Some(byte) => text.push(byte),
                None => return Err(self.malformed("EOF in backquote substitution")),
            }
        }
        let script = self.deeper_in_word(|lexer| parser::whole(&mut lexer.within(&text, line)))?;
        out.add(Piece::Substitution { script: script.into(), quoted: within.is_quoted() });
        Ok(())
    }

    fn dollar(&mut self, within: Within, out: &mut Pieces) -> Result<(), SyntaxError> {
        let quoted = within.is_quoted();
        self.next();
        self.skip_continued();
        let parameter = match self.peek() {
            Some(b'(') if self.take(b"((") => return self.arithmetic(quoted, out),
            Some(b'(') => {
                self.next();
                let script = self.nested()?;
                out.add(Piece::Substitution { script, quoted });
                return Ok(());
            }
            Some(b'{') => {
                self.next();
                let piece = self.deeper_in_word(|lexer| lexer.braces(within))?;
                out.add(piece);
                return Ok(());
            }
            Some(b'\'') if !quoted => return Err(self.unsupported("$'…'")),
            Some(b'"') if !quoted => return Err(self.unsupported("$\"…\"")),
            Some(b'[') if !quoted => return Err(self.unsupported("$[…]")),
            Some(byte) if byte.is_ascii_digit() => {
                self.next();
                positional(usize::from(byte - b'0'))
            }
            _ => {
                let Some(parameter) = self.name_or_special() else {
                    out.push(b'$', quoted);
                    return Ok(());
                };
                parameter
            }
        };
        out.add(Piece::Parameter { parameter, operator: Operator::Value, quoted });
        Ok(())
    }

    fn arithmetic(&mut self, quoted: bool, out: &mut Pieces) -> Result<(), SyntaxError> {
        let expression = self.deeper_in_word(|lexer| {
            let mut pieces = Pieces::default();
            lexer.pieces(Within::Arithmetic, &mut pieces)?;
            if lexer.take(b"))") {
                Ok(pieces.finish())
            } else {
                Err(lexer.malformed("Missing '))'"))
            }
        })?;
        out.add(Piece::Arithmetic { expression, quoted });
        Ok(())
    }

    fn name_or_special(&mut self) -> Option<Parameter> {
        let start = (self.at, self.line);
        let name = self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_name(&name) {
            return Some(Parameter::Variable(name.into()));
        }
        (self.at, self.line) = start;
        let parameter = match self.peek()? {
            b'@' => Parameter::All,
            b'*' => Parameter::Joined,
            b'#' => Parameter::Count,
            b'?' => Parameter::Status,
            b'-' => Parameter::Options,
            b'$' => Parameter::Pid,
            b'!' => Parameter::Background,
            _ => return None,
        };
        self.next();
        Some(parameter)
    }

    /// Takes bytes while `part` holds, and skips line continuations.
    fn take_while(&mut self, part: impl Fn(u8) -> bool) -> Vec<u8> {
        let mut taken = Vec::new();
        while let Some(byte) = self.peek().filter(|byte| part(*byte)) {
            taken.push(byte);
            self.at += 1;
            self.skip_continued();
        }
        taken
    }

    fn parameter(&mut self) -> Result<Option<Parameter>, SyntaxError> {
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        let digits = std::str::from_utf8(&digits).unwrap_or_default();
        if digits.is_empty() {
            return Ok(self.name_or_special());
        }
        let number = digits.parse().map_err(|_| self.malformed("Bad substitution"))?;
        Ok(Some(positional(number)))
    }

    /// Takes the rest of `${…}`, after the `${`.
    fn braces(&mut self, within: Within) -> Result<Piece, SyntaxError> {
        let quoted = within.is_quoted();
        self.skip_continued();
        if self.sees(b"#") && !self.sees(b"#}") {
            let start = (self.at, self.line);
            self.next();
            self.skip_continued();
            let parameter = self.parameter()?;
            self.skip_continued();
            if let Some(parameter) = parameter
                && self.take(b"}")
            {
                return Ok(Piece::Parameter { parameter, operator: Operator::Length, quoted });
            }
            (self.at, self.line) = start;
        }
        if self.sees(b"!") && !self.sees(b"!}") && self.peek_at(1).is_some_and(is_first_of_name) {
            return Err(self.unsupported("${!x}"));
        }
        let Some(parameter) = self.parameter()? else {
            return Err(self.malformed("Bad substitution"));
        };
        self.skip_continued();
        let operator = self.operator_in_braces(within)?;
        if self.next() != Some(b'}') {
            return Err(self.malformed("Bad substitution"));
        }
        Ok(Piece::Parameter { parameter, operator, quoted })
    }

    fn operator_in_braces(&mut self, within: Within) -> Result<Operator, SyntaxError> {
        self.skip_continued();
        let or_empty = self.take(b":");
        self.skip_continued();
        let Some(byte) = self.peek() else { return Err(self.malformed("Missing '}'")) };
        match byte {
            b'-' | b'=' | b'?' | b'+' => {
                self.next();
                let word = self.word_in_braces(within, false)?;
                Ok(match byte {
                    b'-' => Operator::Default { or_empty, word },
                    b'=' => Operator::Assign { or_empty, word },
                    b'?' => Operator::Require { or_empty, word },
                    _ => Operator::Instead { or_empty, word },
                })
            }
            _ if or_empty => Err(self.unsupported("${x:1:2}")),
            b'%' | b'#' => {
                self.next();
                self.skip_continued();
                let longest = self.peek() == Some(byte);
                if longest {
                    self.next();
                }
                let pattern = self.word_in_braces(within, true)?;
                Ok(Operator::Trim { suffix: byte == b'%', longest, pattern })
            }
            b'}' => Ok(Operator::Value),
            b'/' => Err(self.unsupported("${x/a/b}")),
            b'^' | b',' => Err(self.unsupported("${x^}")),
            b'[' => Err(self.unsupported("an array")),
            b'@' => Err(self.unsupported("${x@Q}")),
            _ => Err(self.malformed("Bad substitution")),
        }
    }

    fn word_in_braces(&mut self, within: Within, is_pattern: bool) -> Result<Word, SyntaxError> {
        let inner = match within {
            _ if is_pattern => Within::Braces,
            Within::Nothing | Within::Braces => Within::Braces,
            _ => Within::QuotedBraces,
        };
        let mut pieces = Pieces::default();
        self.pieces(inner, &mut pieces)?;
        Ok(if inner == Within::Braces { with_tilde(pieces.finish()) } else { pieces.finish() })
    }
}

fn is_first_of_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

fn positional(number: usize) -> Parameter {
    if number == 0 { Parameter::Name } else { Parameter::Positional(number) }
}

/// Recognizes a tilde at the beginning of `word`.
fn with_tilde(mut word: Word) -> Word {
    let alone = word.0.len() == 1;
    if let Some(Piece::Text(text)) = word.0.first_mut()
        && let Some(rest) = text.strip_prefix(b"~")
        && (rest.first() == Some(&b'/') || rest.is_empty() && alone)
    {
        *text = rest.into();
        word.0.insert(0, Piece::Tilde);
        if alone && word.0[1..].iter().all(|p| matches!(p, Piece::Text(text) if text.is_empty())) {
            word.0.truncate(1);
        }
    }
    word
}

/// Returns the variable that `word` assigns to, if it has the form of an assignment.
pub fn assigned(word: &Word) -> Option<&[u8]> {
    let Some(Piece::Text(text)) = word.0.first() else { return None };
    let name = text.split(|byte| *byte == b'=').next().unwrap_or_default();
    (name.len() < text.len()).then_some(name)
}

/// Returns the value of an assignment, after the first `prefix` bytes of `word`, with tildes recognized at
/// its beginning and after colons.
pub fn assigned_value(word: Word, prefix: usize) -> Word {
    let mut value = Vec::new();
    let mut at_start = true;
    let count = word.0.len();
    for (index, piece) in word.0.into_iter().enumerate() {
        let Piece::Text(text) = piece else {
            value.push(piece);
            at_start = false;
            continue;
        };
        let mut text = if index == 0 { &text[prefix..] } else { &text[..] };
        let is_last = index + 1 == count;
        let mut plain = Vec::new();
        while let Some((byte, rest)) = text.split_first() {
            let ends = rest.first().map_or(is_last, |next| matches!(next, b'/' | b':'));
            if *byte == b'~' && at_start && ends {
                if !plain.is_empty() {
                    value.push(Piece::Text(std::mem::take(&mut plain).into()));
                }
                value.push(Piece::Tilde);
            } else {
                plain.push(*byte);
            }
            at_start = *byte == b':';
            text = rest;
        }
        if !plain.is_empty() {
            value.push(Piece::Text(plain.into()));
        }
    }
    Word(value)
}
