//! The parser: POSIX's grammar, by recursive descent. Constructs of other shells are refused by name.

use std::sync::Arc;

use super::builtin::{self, Builtin};
use super::deep::with_stack;
use super::lexer::{Delimiter, Lexer, SyntaxError, Taken, Token};
use super::tree::{
    Access, Chain, Command, Document, Item, Kind, List, Piece, Pipeline, Redirect, Simple, Target,
    Word, is_name,
};
use super::words::{assigned, assigned_value};
use crate::kernel::machine::memory::Charge;

/// Longest script, in bytes.
pub const SCRIPT_BYTES_MAX: usize = 16 << 20;

type Parsed<T> = Result<T, SyntaxError>;

/// Parses `source`, whose first line is `line`; returns `memory` with the charge for it, too.
///
/// # Errors
/// [`SyntaxError`].
pub fn parse(source: &[u8], line: u32, memory: Charge) -> Parsed<(List, Charge)> {
    if source.len() > SCRIPT_BYTES_MAX {
        let what = format!("the script is longer than {} MiB", SCRIPT_BYTES_MAX >> 20);
        return Err(SyntaxError::Malformed { line, what });
    }
    let taken = Taken::new(memory);
    let mut lexer = Lexer::new(source, line, &taken);
    lexer.take_memory(source.len() as u64)?;
    let list = whole(&mut lexer)?;
    Ok((list, taken.into_charge()))
}

/// Parses all commands of `lexer`.
///
/// # Errors
/// [`SyntaxError`].
pub(super) fn whole(lexer: &mut Lexer<'_>) -> Parsed<List> {
    let mut parser = Parser::new(lexer)?;
    let list = parser.list()?;
    if !matches!(parser.token, Token::End) {
        return Err(parser.unexpected(None));
    }
    parser.documents()?;
    Ok(list)
}

/// Parses the commands up to and with the closing `)`.
///
/// # Errors
/// [`SyntaxError`].
pub(super) fn nested(lexer: &mut Lexer<'_>) -> Parsed<List> {
    let mut parser = Parser::new(lexer)?;
    let list = parser.list()?;
    if !parser.is(")") {
        return Err(parser.unexpected(Some(")")));
    }
    if !parser.pending.is_empty() {
        return Err(parser.lexer.malformed("here-document without a body"));
    }
    Ok(list)
}

/// A parser with one token of lookahead.
struct Parser<'l, 's> {
    lexer: &'l mut Lexer<'s>,
    /// The next token.
    token: Token,
    /// Its first line.
    line: u32,
    /// Here-documents that begin after the line.
    pending: Vec<(Delimiter, Document)>,
}

impl<'l, 's> Parser<'l, 's> {
    fn new(lexer: &'l mut Lexer<'s>) -> Parsed<Self> {
        let (token, line) = lexer.token()?;
        Ok(Self { lexer, token, line, pending: Vec::new() })
    }

    /// Takes the token.
    fn next(&mut self) -> Parsed<Token> {
        // The line after may be the text of a here-document, not a token.
        if self.is("\n") {
            self.documents()?;
        }
        let (token, line) = self.lexer.token()?;
        self.line = line;
        Ok(std::mem::replace(&mut self.token, token))
    }

    fn documents(&mut self) -> Parsed<()> {
        for (delimiter, document) in std::mem::take(&mut self.pending) {
            document.set(self.lexer.document_until(&delimiter)?);
        }
        Ok(())
    }

    /// Returns whether `text` is next, as an operator or a reserved word.
    fn is(&self, text: &str) -> bool {
        match self.token {
            Token::Operator(operator) => operator == text,
            _ => self.literal() == text.as_bytes(),
        }
    }

    /// The text of the next word, if nothing in it is quoted or expanded.
    fn literal(&self) -> &[u8] {
        match &self.token {
            Token::Word(word) => word.literal().unwrap_or_default(),
            _ => b"",
        }
    }

    fn skip_newlines(&mut self) -> Parsed<()> {
        while self.is("\n") {
            self.next()?;
        }
        Ok(())
    }

    /// Takes `text` if it is next; returns whether it was.
    fn take(&mut self, text: &str) -> Parsed<bool> {
        let is_it = self.is(text);
        if is_it {
            self.next()?;
        }
        Ok(is_it)
    }

    /// Takes `text`, which must be next.
    fn expect(&mut self, text: &str) -> Parsed<()> {
        if self.take(text)? { Ok(()) } else { Err(self.unexpected(Some(text))) }
    }

    /// Returns the error for an unexpected token.
    fn unexpected(&self, expected: Option<&str>) -> SyntaxError {
        let token = match &self.token {
            Token::End => "end of file".to_owned(),
            Token::Operator("\n") => "newline".to_owned(),
            Token::Operator(operator) => format!("\"{operator}\""),
            Token::Number(number) => format!("\"{number}\""),
            Token::Word(word) => match word.literal().map(str::from_utf8) {
                Some(Ok(text)) if text.len() < 100 => format!("\"{text}\""),
                _ => "word".to_owned(),
            },
        };
        let expected = expected.map(|it| format!(" (expecting \"{it}\")")).unwrap_or_default();
        let what = format!("{token} unexpected{expected}");
        SyntaxError::Malformed { line: self.line, what }
    }

    fn unsupported(&self, name: &'static str) -> SyntaxError {
        SyntaxError::Unsupported { line: self.line, name }
    }

    fn malformed(&self, what: &str) -> SyntaxError {
        SyntaxError::Malformed { line: self.line, what: what.to_owned() }
    }

    /// Parses commands, up to a token that cannot begin one.
    fn list(&mut self) -> Parsed<List> {
        let mut list = List::new();
        loop {
            self.skip_newlines()?;
            if !self.begins_command() {
                return Ok(list);
            }
            let chain = Arc::new(self.chain()?);
            let background = self.take("&")?;
            list.push(Item { chain, background });
            if !background && !self.take(";")? && !self.is("\n") {
                return Ok(list);
            }
        }
    }

    /// As [`Parser::list`], but at least one command.
    fn body(&mut self) -> Parsed<List> {
        let list = self.list()?;
        if list.is_empty() { Err(self.unexpected(None)) } else { Ok(list) }
    }

    fn begins_command(&self) -> bool {
        const ENDS: [&[u8]; 9] =
            [b"then", b"else", b"elif", b"fi", b"do", b"done", b"esac", b"in", b"}"];
        match &self.token {
            Token::Word(_) => !ENDS.contains(&self.literal()),
            Token::Operator(operator) => *operator == "(" || redirection(operator).is_some(),
            Token::Number(_) => true,
            Token::End => false,
        }
    }

    fn begins_compound(&self) -> bool {
        ["(", "{", "if", "while", "until", "for", "case"].iter().any(|text| self.is(text))
    }

    fn chain(&mut self) -> Parsed<Chain> {
        let first = self.pipeline()?;
        let mut rest = Vec::new();
        loop {
            let after_success = self.is("&&");
            if !after_success && !self.is("||") {
                return Ok(Chain { first, rest });
            }
            self.next()?;
            self.skip_newlines()?;
            rest.push((after_success, self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Parsed<Pipeline> {
        let negated = self.take("!")?;
        let mut parts = vec![Arc::new(self.command()?)];
        while self.take("|")? {
            self.skip_newlines()?;
            parts.push(Arc::new(self.command()?));
        }
        Ok(Pipeline { negated, parts })
    }

    fn command(&mut self) -> Parsed<Command> {
        if !self.begins_command() || self.is("!") {
            return Err(self.unexpected(None));
        }
        match self.literal() {
            b"[[" => Err(self.unsupported("[[ … ]]")),
            b"function" => Err(self.unsupported("function")),
            b"select" => Err(self.unsupported("select")),
            b"coproc" => Err(self.unsupported("coproc")),
            _ if self.begins_compound() => self.compound(),
            _ => self.simple(),
        }
    }

    /// Parses a compound command and its redirections.
    fn compound(&mut self) -> Parsed<Command> {
        let line = self.line;
        self.lexer.enter()?;
        let kind = with_stack(|| self.kind())?;
        self.lexer.leave();
        let mut redirects = Vec::new();
        while let Some(redirect) = self.redirect()? {
            redirects.push(redirect);
        }
        Ok(Command { line, kind, redirects })
    }

    fn kind(&mut self) -> Parsed<Kind> {
        // `((` is not two subshells.
        let is_arithmetic = self.lexer.sees(b"(");
        if self.is("(") && is_arithmetic {
            return Err(self.unsupported("((…))"));
        }
        let Token::Word(word) = self.next()? else {
            let list = Arc::new(self.body()?);
            self.expect(")")?;
            return Ok(Kind::Subshell(list));
        };
        match word.literal().unwrap_or_default() {
            b"{" => {
                let list = self.body()?;
                self.expect("}")?;
                Ok(Kind::Group(list))
            }
            b"if" => self.branches(),
            b"for" => self.each(),
            b"case" => self.case(),
            word => {
                let condition = self.body()?;
                Ok(Kind::Loop { until: word == b"until", condition, body: self.repeated()? })
            }
        }
    }

    fn branches(&mut self) -> Parsed<Kind> {
        let mut branches = Vec::new();
        loop {
            let condition = self.body()?;
            self.expect("then")?;
            branches.push((condition, self.body()?));
            if !self.take("elif")? {
                break;
            }
        }
        let otherwise = if self.take("else")? { Some(self.body()?) } else { None };
        self.expect("fi")?;
        Ok(Kind::If { branches, otherwise })
    }

    fn repeated(&mut self) -> Parsed<List> {
        self.expect("do")?;
        let body = self.body()?;
        self.expect("done")?;
        Ok(body)
    }

    fn each(&mut self) -> Parsed<Kind> {
        if self.is("(") && self.lexer.sees(b"(") {
            return Err(self.unsupported("for ((…))"));
        }
        if !is_name(self.literal()) {
            return Err(self.malformed("Bad for loop variable"));
        }
        let name = self.literal().into();
        self.next()?;
        let is_ended = self.take(";")?;
        self.skip_newlines()?;
        let mut words = None;
        if !is_ended && self.take("in")? {
            let mut values = Vec::new();
            while matches!(self.token, Token::Word(_)) {
                values.push(self.argument()?);
            }
            if !self.take(";")? && !self.is("\n") {
                return Err(self.unexpected(None));
            }
            self.skip_newlines()?;
            words = Some(values);
        }
        Ok(Kind::For { name, words, body: self.repeated()? })
    }

    fn case(&mut self) -> Parsed<Kind> {
        let subject = self.word()?;
        self.skip_newlines()?;
        self.expect("in")?;
        let mut arms = Vec::new();
        loop {
            self.skip_newlines()?;
            if self.take("esac")? {
                break;
            }
            self.take("(")?;
            let mut patterns = vec![self.word()?];
            while self.take("|")? {
                patterns.push(self.word()?);
            }
            self.expect(")")?;
            arms.push((patterns, self.list()?));
            if !self.take(";;")? {
                self.expect("esac")?;
                break;
            }
        }
        Ok(Kind::Case { subject, arms })
    }

    /// Parses a simple command, or the definition of a function.
    fn simple(&mut self) -> Parsed<Command> {
        let line = self.line;
        let (assignments, words) = (Vec::new(), Vec::new());
        let mut made = Simple { assignments, words, declares: false, is_pure: true };
        let mut redirects = Vec::new();
        loop {
            if let Some(redirect) = self.redirect()? {
                redirects.push(redirect);
            } else if !matches!(self.token, Token::Word(_)) {
                break;
            } else if made.words.is_empty() && self.begins_assignment()? {
                let word = self.word()?;
                let name: Box<[u8]> = assigned(&word).unwrap_or_default().into();
                let value = assigned_value(word, name.len() + 1);
                made.assignments.push((name, value));
            } else {
                made.words.push(self.argument()?);
                let is_alone = made.words.len() == 1 && made.assignments.is_empty();
                if is_alone && redirects.is_empty() && self.is("(") {
                    return self.function(&made.words[0], line);
                }
            }
        }
        made.declares = declares(&made.words);
        made.is_pure = made.assignments.is_empty() && made.words.iter().all(Word::is_pure);
        Ok(Command { line, kind: Kind::Simple(made), redirects })
    }

    fn begins_assignment(&self) -> Parsed<bool> {
        let Token::Word(word) = &self.token else { return Ok(false) };
        let Some(name) = assigned(word) else { return Ok(false) };
        let bare = name.strip_suffix(b"+").unwrap_or(name);
        let of_array = bare.strip_suffix(b"]").and_then(|it| it.split(|byte| *byte == b'[').next());
        if of_array.is_some_and(is_name) {
            return Err(self.unsupported("an array"));
        }
        if is_name(bare) && bare.len() < name.len() {
            return Err(self.unsupported("+="));
        }
        Ok(is_name(name))
    }

    fn function(&mut self, name: &Word, line: u32) -> Parsed<Command> {
        self.next()?;
        self.expect(")")?;
        let may_be_name =
            |name: &&[u8]| is_name(name) && !builtin::find(name).is_some_and(Builtin::is_special);
        let Some(name) = name.literal().filter(may_be_name) else {
            let what = "Bad function name".to_owned();
            return Err(SyntaxError::Malformed { line, what });
        };
        self.skip_newlines()?;
        if !self.begins_compound() {
            return Err(self.unexpected(None));
        }
        let mut body = self.compound()?;
        body.line = line;
        let kind = Kind::Function { name: name.into(), body: Arc::new(body) };
        Ok(Command { line, kind, redirects: Vec::new() })
    }

    /// Takes the next word.
    fn word(&mut self) -> Parsed<Word> {
        match &mut self.token {
            Token::Word(word) => {
                let word = std::mem::take(word);
                self.next()?;
                Ok(word)
            }
            _ => Err(self.unexpected(None)),
        }
    }

    /// Takes the next word, which may expand to several fields.
    fn argument(&mut self) -> Parsed<Word> {
        if let Token::Word(word) = &self.token {
            let has_braces =
                |piece: &Piece| matches!(piece, Piece::Text(text) if expands_braces(text));
            if word.0.iter().any(has_braces) {
                return Err(self.unsupported("brace expansion"));
            }
        }
        self.word()
    }

    /// Takes the next redirection, if there is one.
    fn redirect(&mut self) -> Parsed<Option<Redirect>> {
        let number = match self.token {
            Token::Number(number) => {
                self.next()?;
                Some(number)
            }
            _ => None,
        };
        let Token::Operator(operator) = self.token else { return Ok(None) };
        let Some((default, kind)) = redirection(operator) else { return Ok(None) };
        let target = match kind {
            Redirection::File(access) => {
                self.next()?;
                Target::File(access, self.word()?)
            }
            Redirection::Duplicate => {
                self.next()?;
                // Another redirection follows without a blank: `2>&1<file`.
                if let Token::Number(number) = self.token {
                    let digits = number.to_string().into_bytes().into();
                    self.token = Token::Word(Word(vec![Piece::Text(digits)]));
                }
                Target::Duplicate(self.word()?)
            }
            Redirection::Document { strips_tabs } => {
                let delimiter = self.lexer.delimiter(strips_tabs)?;
                let is_there = delimiter.is_some();
                let document = Document::default();
                // Noted before the next token, which may be the end of the line.
                self.pending.extend(delimiter.map(|delimiter| (delimiter, document.clone())));
                self.next()?;
                if !is_there {
                    return Err(self.unexpected(None));
                }
                Target::Document(document)
            }
        };
        Ok(Some(Redirect { fd: number.unwrap_or(default), target }))
    }
}

enum Redirection {
    File(Access),
    Duplicate,
    Document { strips_tabs: bool },
}

/// Returns the default descriptor of `operator`, and its kind.
fn redirection(operator: &str) -> Option<(u32, Redirection)> {
    Some(match operator {
        "<" => (0, Redirection::File(Access::Read)),
        ">" => (1, Redirection::File(Access::Write)),
        ">>" => (1, Redirection::File(Access::Append)),
        "<>" => (0, Redirection::File(Access::ReadWrite)),
        ">|" => (1, Redirection::File(Access::Clobber)),
        "<&" => (0, Redirection::Duplicate),
        ">&" => (1, Redirection::Duplicate),
        "<<" => (0, Redirection::Document { strips_tabs: false }),
        "<<-" => (0, Redirection::Document { strips_tabs: true }),
        _ => return None,
    })
}

/// Returns whether other shells would apply brace expansion to `text`: `{a,b}`, `{1..9}`.
fn expands_braces(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(open) = rest.iter().position(|byte| *byte == b'{') {
        rest = &rest[open + 1..];
        let Some(close) = rest.iter().position(|byte| *byte == b'}') else { return false };
        let inner = &rest[..close];
        if inner.contains(&b',') || inner.windows(2).any(|two| two == b"..") {
            return true;
        }
    }
    false
}

/// Returns whether `words` call a declaration utility, perhaps with `command`.
fn declares(words: &[Word]) -> bool {
    let mut names = words.iter().map(|word| match word.0.as_slice() {
        [Piece::Text(text)] => &**text,
        _ => b"",
    });
    let mut name = names.next();
    while name == Some(b"command") || name == Some(b"-p") || name == Some(b"--") {
        name = names.next();
    }
    name.is_some_and(|name| matches!(name, b"export" | b"readonly" | b"local"))
}

#[cfg(test)]
mod tests;
