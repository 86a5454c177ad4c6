//! From text to tokens: the part of POSIX's grammar that depends on quotes, nesting and
//! here-documents. What the tokens mean together is the parser's business.
//!
//! Text is bytes. Nesting is bounded here, so that whatever reads the tokens may recurse.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use brush_parser::{SourcePosition, SourceSpan, Token};

use super::cases::{Case, OpenCases};
use super::grammar;
use super::tree::{Piece, Word, is_name};
use super::words::assigned;
use crate::kernel::machine::memory::{Charge, OutOfMemory};

/// Constructs within constructs. Beyond: refused.
const DEPTH_MAX: usize = 200;

/// What a token takes until the script has been run, in its tokens, for the parser and in the tree.
const TOKEN_BYTES: u64 = 1000;

/// A script that is no script, or uses what there is not.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// Something stands where it cannot.
    #[error("{line}: Syntax error: {what}")]
    Malformed {
        /// The line, from 1.
        line: u32,
        /// What is wrong.
        what: String,
    },
    /// There is no memory for it.
    #[error("{line}: {error}")]
    Memory {
        /// The line, from 1.
        line: u32,
        /// What there is.
        error: OutOfMemory,
    },
    /// What other shells have and POSIX has not.
    #[error("line {line}: {name} is not supported; POSIX has no such thing")]
    Unsupported {
        /// The line, from 1.
        line: u32,
        /// What it is called.
        name: &'static str,
    },
}

crate::base::readable::readable!(SyntaxError);

/// A script's tokens.
#[derive(Default)]
pub struct Tokens {
    /// What the parser is shown: of a word only what matters to the grammar.
    pub list: Vec<Token>,
    /// The words, by where they begin.
    pub words: HashMap<usize, Word>,
    /// The `case` constructs, by the token that each begins with. The parser is not shown them: it
    /// would read one within another twice, and one within that four times.
    pub cases: HashMap<usize, Case>,
}

/// Reads `source` into tokens.
pub struct Lexer<'s> {
    pub(super) source: &'s [u8],
    pub(super) at: usize,
    pub(super) line: u32,
    pub(super) depth: usize,
    /// What the script takes.
    memory: &'s RefCell<Charge>,
}

/// A construct that has begun and not ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Paren,
    Brace,
    If,
    Loop,
    /// Before its `in`, at a pattern, or in a list of commands.
    CaseSubject,
    CasePattern,
    CaseBody,
}

/// Where the lexer is within a script.
struct Scan {
    tokens: Tokens,
    opens: Vec<Open>,
    /// Whether a word here names a command, or is reserved.
    at_command: bool,
    /// What of a `for` came: 1 after itself, 2 after its variable, 3 after its `in`.
    for_words: u8,
    after_redirect: bool,
    documents: Vec<Document>,
    /// The `case` constructs among `opens`.
    cases: OpenCases,
}

/// A here-document whose body has not come yet.
struct Document {
    key: usize,
    delimiter: Vec<u8>,
    is_quoted: bool,
    strips_tabs: bool,
}

const OPERATORS: [&str; 16] =
    ["<<-", "&&", "||", ";;", "<<", ">>", "<&", ">&", "<>", ">|", "|", "&", ";", "<", ">", "("];

const REFUSED: [(&str, &str); 8] = [
    ("<<<", "<<<"),
    ("&>", "&>"),
    ("|&", "|&"),
    (";;&", ";;&"),
    (";&", ";&"),
    ("<(", "process substitution"),
    (">(", "process substitution"),
    ("$[", "$[…]"),
];

impl<'s> Lexer<'s> {
    /// A lexer of `source`, whose first line is `line`. What comes of it is charged to `memory`.
    pub fn new(source: &'s [u8], line: u32, memory: &'s RefCell<Charge>) -> Self {
        Self { source, at: 0, line, depth: 0, memory }
    }

    /// A lexer of `source`, which is part of what this one reads.
    pub(super) fn within<'i>(&'i self, source: &'i [u8], line: u32) -> Lexer<'i> {
        Lexer { source, at: 0, line, depth: self.depth + 1, memory: self.memory }
    }

    pub(super) fn take_memory(&self, bytes: u64) -> Result<(), SyntaxError> {
        let taken = self.memory.borrow_mut().grow(bytes);
        taken.map_err(|error| SyntaxError::Memory { line: self.line, error })
    }

    /// The tokens up to the end; or, if `is_nested`, up to the `)` that closes what was opened
    /// before, which is taken as well.
    ///
    /// # Errors
    /// [`SyntaxError`].
    pub fn script(&mut self, is_nested: bool) -> Result<Tokens, SyntaxError> {
        let mut scan = Scan {
            tokens: Tokens::default(),
            opens: Vec::new(),
            at_command: true,
            for_words: 0,
            after_redirect: false,
            documents: Vec::new(),
            cases: OpenCases::default(),
        };
        let depth = self.depth;
        loop {
            self.depth = depth + scan.opens.len();
            self.check_depth(0)?;
            self.skip_blanks();
            let Some(byte) = self.peek() else { break };
            self.take_memory(TOKEN_BYTES)?;
            if byte == b'\n' {
                self.newline(&mut scan)?;
            } else if byte == b')' {
                let top = scan.opens.last().copied();
                if top == Some(Open::Paren) {
                    scan.opens.pop();
                } else if top == Some(Open::CasePattern) {
                    scan.replace_top(Open::CaseBody);
                    scan.cases.end_patterns(scan.tokens.list.len());
                } else if top == Some(Open::CaseSubject) {
                    return Err(self.malformed("\")\" unexpected (expecting \"in\")"));
                } else if top.is_none() && is_nested {
                    self.at += 1;
                    self.depth = depth;
                    return self.finish(scan);
                }
                self.operator(&mut scan, 1);
                scan.at_command = true;
            } else if let Some(operator) = OPERATORS.iter().find(|op| self.sees(op.as_bytes())) {
                self.check_refused(&scan)?;
                self.take_operator(&mut scan, operator)?;
            } else {
                self.take_word(&mut scan)?;
            }
        }
        if is_nested {
            return Err(self.malformed("end of file unexpected (expecting \")\")"));
        }
        if !scan.documents.is_empty() {
            self.bodies(&mut scan)?;
        }
        self.finish(scan)
    }

    fn finish(&self, scan: Scan) -> Result<Tokens, SyntaxError> {
        if !scan.cases.is_empty() {
            return Err(self.malformed("end of file unexpected (expecting \"esac\")"));
        }
        if scan.documents.is_empty() {
            return Ok(scan.tokens);
        }
        Err(self.malformed("here-document without a body"))
    }

    pub(super) fn check_depth(&self, more: usize) -> Result<(), SyntaxError> {
        if self.depth + more > DEPTH_MAX {
            return Err(self.malformed(&format!("more than {DEPTH_MAX} constructs in each other")));
        }
        Ok(())
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
        self.source[self.at..].starts_with(text)
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
                Some(b'\\') if self.peek_at(1) == Some(b'\n') => {
                    self.at += 2;
                    self.line += 1;
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

    fn check_refused(&self, scan: &Scan) -> Result<(), SyntaxError> {
        if let Some((_, name)) = REFUSED.iter().find(|(text, _)| self.sees(text.as_bytes())) {
            return Err(self.unsupported(name));
        }
        if self.sees(b"((") && scan.at_command && scan.for_words == 0 {
            return Err(self.unsupported("((…))"));
        }
        if self.sees(b"((") && scan.for_words > 0 {
            return Err(self.unsupported("for ((…))"));
        }
        Ok(())
    }

    fn span(&self, start: usize, line: u32) -> SourceSpan {
        let position =
            |index: usize| Arc::new(SourcePosition { index, line: line as usize, column: 1 });
        SourceSpan { start: position(start), end: position(self.at) }
    }

    /// Takes an operator of this many bytes.
    fn operator(&mut self, scan: &mut Scan, len: usize) {
        let (start, line) = (self.at, self.line);
        for _ in 0..len {
            self.next();
        }
        let text = String::from_utf8_lossy(&self.source[start..self.at]).into_owned();
        scan.tokens.list.push(Token::Operator(text, self.span(start, line)));
    }

    fn newline(&mut self, scan: &mut Scan) -> Result<(), SyntaxError> {
        self.operator(scan, 1);
        scan.at_command = true;
        if scan.for_words != 2 {
            scan.for_words = 0;
        }
        if scan.documents.is_empty() { Ok(()) } else { self.bodies(scan) }
    }

    fn take_operator(&mut self, scan: &mut Scan, operator: &str) -> Result<(), SyntaxError> {
        self.operator(scan, operator.len());
        match operator {
            "<<" | "<<-" => return self.take_delimiter(scan, operator == "<<-"),
            "<" | ">" | ">>" | "<&" | ">&" | "<>" | ">|" => {
                scan.after_redirect = true;
                return Ok(());
            }
            "(" if scan.opens.last() != Some(&Open::CasePattern) => scan.opens.push(Open::Paren),
            ";;" if scan.opens.last() == Some(&Open::CaseBody) => {
                scan.replace_top(Open::CasePattern);
                scan.cases.end_arm(scan.tokens.list.len() - 1);
            }
            _ if scan.opens.last() == Some(&Open::CaseSubject) => {
                let what = format!("\"{operator}\" unexpected (expecting \"in\")");
                return Err(self.malformed(&what));
            }
            _ => {}
        }
        scan.at_command = true;
        scan.for_words = 0;
        Ok(())
    }

    fn take_delimiter(&mut self, scan: &mut Scan, strips_tabs: bool) -> Result<(), SyntaxError> {
        self.skip_blanks();
        let (start, line) = (self.at, self.line);
        let word = self.word()?;
        let mut delimiter = Vec::new();
        let mut is_quoted = false;
        for piece in &word.0 {
            match piece {
                Piece::Text(text) => delimiter.extend_from_slice(text),
                Piece::Quoted(text) => {
                    is_quoted = true;
                    delimiter.extend_from_slice(text);
                }
                _ => return Err(self.malformed("a here-document's delimiter is expanded")),
            }
        }
        if word.0.is_empty() {
            return Err(self.malformed("a here-document has no delimiter"));
        }
        let key = self.at;
        let tag = Token::Word("E".to_owned(), self.span(start, line));
        let body = Token::Word(String::new(), self.span(key, line));
        scan.tokens.list.extend([tag.clone(), body, tag]);
        scan.documents.push(Document { key, delimiter, is_quoted, strips_tabs });
        Ok(())
    }

    fn bodies(&mut self, scan: &mut Scan) -> Result<(), SyntaxError> {
        for document in std::mem::take(&mut scan.documents) {
            let line = self.line;
            let mut body = Vec::new();
            while self.at < self.source.len() {
                let rest = &self.source[self.at..];
                let len = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                let mut text = &rest[..len];
                self.at += (len + 1).min(rest.len());
                self.line += 1;
                if document.strips_tabs {
                    let tabs = text.iter().take_while(|byte| **byte == b'\t').count();
                    text = &text[tabs..];
                }
                if text == document.delimiter {
                    break;
                }
                body.extend_from_slice(text);
                body.push(b'\n');
            }
            let word = if document.is_quoted {
                Word(vec![Piece::Quoted(body.into())])
            } else {
                self.within(&body, line).document()?
            };
            scan.tokens.words.insert(document.key, word);
        }
        Ok(())
    }

    fn take_word(&mut self, scan: &mut Scan) -> Result<(), SyntaxError> {
        let (start, line) = (self.at, self.line);
        let word = self.word()?;
        if self.at == start {
            // Only a `)`, an operator or a blank ends a word before it begins.
            return Err(self.malformed("word unexpected"));
        }
        let literal = word.literal().unwrap_or_default().to_vec();
        let is_redirected = matches!(self.peek(), Some(b'<' | b'>'));
        if is_redirected && !literal.is_empty() && literal.iter().all(u8::is_ascii_digit) {
            if literal.len() > 9 {
                return Err(self.malformed("bad file descriptor number"));
            }
            scan.push(Word::default(), &literal, self.span(start, line));
            return Ok(());
        }
        if is_assignment(&word) && self.peek() == Some(b'(') {
            return Err(self.unsupported("an array"));
        }
        let shown = shown(&word);
        scan.push(word, &shown, self.span(start, line));
        if std::mem::take(&mut scan.after_redirect) {
            return Ok(());
        }
        self.reserved(scan, &literal, &shown)
    }

    /// Keeps account of what `literal` begins or ends, if it is reserved where it stands.
    fn reserved(
        &mut self,
        scan: &mut Scan,
        literal: &[u8],
        shown: &[u8],
    ) -> Result<(), SyntaxError> {
        let top = scan.opens.last().copied();
        match (top, literal) {
            (Some(Open::CaseSubject), b"in") => {
                scan.replace_top(Open::CasePattern);
                scan.cases.begin_part(scan.tokens.list.len());
                scan.at_command = false;
                return Ok(());
            }
            (Some(Open::CaseSubject), _) => {
                return Err(self.malformed("word unexpected (expecting \"in\")"));
            }
            (Some(Open::CasePattern), b"esac")
                if scan.cases.is_first_of_part(&scan.tokens.list) =>
            {
                close(scan, Open::CasePattern);
                scan.end_case();
                return Ok(());
            }
            (Some(Open::CasePattern), _) => return Ok(()),
            _ => {}
        }
        if scan.for_words == 1 {
            scan.for_words = 2;
            scan.at_command = true;
            return Ok(());
        }
        if scan.for_words == 2 && literal == b"in" {
            (scan.at_command, scan.for_words) = (false, 3);
            self.skip_blanks();
            if matches!(self.peek(), Some(b';' | b'\n')) {
                // The parser cannot tell no values from no `in`: this is a value that is none.
                scan.push(Word::default(), b"''", self.span(self.at, self.line));
            }
            return Ok(());
        }
        if !std::mem::take(&mut scan.at_command) {
            return Ok(());
        }
        match literal {
            b"[[" => return Err(self.unsupported("[[ … ]]")),
            b"function" => return Err(self.unsupported("function")),
            b"select" => return Err(self.unsupported("select")),
            b"coproc" => return Err(self.unsupported("coproc")),
            b"if" => scan.open(Open::If),
            b"while" | b"until" => scan.open(Open::Loop),
            b"{" => scan.open(Open::Brace),
            b"then" | b"else" | b"elif" | b"do" | b"!" => {
                scan.at_command = true;
                scan.for_words = 0;
            }
            b"for" => {
                scan.open(Open::Loop);
                scan.for_words = 1;
            }
            b"case" => {
                scan.opens.push(Open::CaseSubject);
                let (begin, at) = (scan.tokens.list.len() - 1, scan.last_start());
                self.skip_blanks();
                let (start, line) = (self.at, self.line);
                let subject = self.word()?;
                if self.at == start {
                    return Err(self.malformed("word expected after \"case\""));
                }
                scan.push(subject, b"''", self.span(start, line));
                scan.cases.begin(begin, at, start);
            }
            b"fi" => close(scan, Open::If),
            b"done" => close(scan, Open::Loop),
            b"}" => close(scan, Open::Brace),
            b"esac" if top == Some(Open::CaseBody) => {
                close(scan, Open::CaseBody);
                scan.cases.end_arm(scan.tokens.list.len() - 1);
                scan.end_case();
            }
            // Another assignment or the command's name may follow.
            _ => scan.at_command = shown.ends_with(b"="),
        }
        Ok(())
    }

    /// The commands up to the next `)`.
    pub(super) fn nested(&mut self) -> Result<Arc<super::tree::List>, SyntaxError> {
        self.depth += 1;
        self.check_depth(0)?;
        let tokens = self.script(true)?;
        self.depth -= 1;
        grammar::build(&tokens, self.line).map(Arc::new)
    }
}

/// What is reserved ends `open`, if that is the innermost.
fn close(scan: &mut Scan, open: Open) {
    if scan.opens.last() == Some(&open) {
        scan.opens.pop();
    }
    // What ends another construct may follow.
    scan.at_command = true;
}

impl Scan {
    /// Where in the source the token stands that was added last.
    fn last_start(&self) -> usize {
        self.tokens.list.last().map_or(0, |token| token.location().start.index)
    }

    /// The token that was added last is the `esac` of the innermost `case`.
    fn end_case(&mut self) {
        if let Some((begin, case)) = self.cases.end(self.tokens.list.len() - 1) {
            self.tokens.cases.insert(begin, case);
        }
    }

    fn push(&mut self, word: Word, shown: &[u8], span: SourceSpan) {
        let text = String::from_utf8_lossy(shown).into_owned();
        self.tokens.words.insert(span.start.index, word);
        self.tokens.list.push(Token::Word(text, span));
    }

    fn open(&mut self, open: Open) {
        self.opens.push(open);
        self.at_command = true;
    }

    fn replace_top(&mut self, open: Open) {
        if let Some(top) = self.opens.last_mut() {
            *top = open;
        }
    }
}

fn is_assignment(word: &Word) -> bool {
    assigned(word).is_some_and(|name| is_name(name) || name.ends_with(b"+"))
}

/// What of `word` matters to the grammar: names, numbers, reserved words, and what is assigned to.
fn shown(word: &Word) -> Vec<u8> {
    if let Some(name) = assigned(word) {
        let bare = name.strip_suffix(b"+").unwrap_or(name);
        if is_name(bare) {
            return [name, b"="].concat();
        }
        if let Some(at) = bare.iter().position(|byte| *byte == b'[')
            && is_name(&bare[..at])
            && bare.ends_with(b"]")
        {
            return [&bare[..at], b"[0]="].concat();
        }
    }
    let matters = |byte: &u8| byte.is_ascii_alphanumeric() || b"_{}!".contains(byte);
    match word.literal() {
        Some(text) if text.iter().all(matters) => text.to_vec(),
        _ => b"''".to_vec(),
    }
}
