//! What tags of templates may contain: nothing that makes a value much larger than its parts, or
//! nests deeply.
//!
//! Only `for` keeps a value from one tag to the next, so lists in `for` must be constants.

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use super::error::HostError;

/// Concatenations per tag.
const JOINS_MAX: usize = 16;

/// Tokens per tag: nesting takes stack.
const TOKENS_MAX: usize = 512;

/// `elif`s per template: each is nested in the one before it.
const ELIFS_MAX: usize = 500;

/// Allowed statements: none that stores a text for later.
const STATEMENTS: [&str; 10] =
    ["block", "elif", "else", "endblock", "endfor", "endif", "extends", "for", "if", "include"];

/// Words that an operand follows.
const OPERATORS: [&str; 11] =
    ["and", "elif", "else", "extends", "for", "if", "in", "include", "is", "not", "or"];

/// Allowed filters, whose results are not much larger than their input; the last three are
/// replaced.
const FILTERS: [&str; 25] = [
    "abs",
    "bool",
    "capitalize",
    "count",
    "d",
    "default",
    "dictsort",
    "first",
    "float",
    "int",
    "items",
    "last",
    "length",
    "lower",
    "max",
    "min",
    "reverse",
    "round",
    "sort",
    "title",
    "trim",
    "upper",
    "join",
    "indent",
    "string",
];

/// Checks the template `text` at `path` for operation `name`; returns the length of the longest
/// string in a tag.
///
/// # Errors
/// It contains something that is not allowed.
pub(super) fn check(name: &str, path: &str, text: &str) -> Result<usize, HostError> {
    let (mut elifs, mut text_bytes) = (0, 0);
    let (mut tag, mut before) = (Tag::default(), None);
    for token in tokenize(text, false, SyntaxConfig::default()) {
        // Rendering reports syntax errors.
        let Ok((token, span)) = token else { return Ok(text_bytes) };
        text_bytes = text_bytes.max(match &token {
            Token::Str(text) => text.len(),
            Token::String(text) => text.len(),
            _ => 0,
        });
        elifs += usize::from(matches!(token, Token::Ident("elif")));
        let refused = match tag.refuses(before.as_ref(), &token) {
            None if elifs > ELIFS_MAX => Some(format!("more than {ELIFS_MAX} times `elif`")),
            refused => refused,
        };
        if let Some(what) = refused {
            let line = span.start_line;
            let message = format!("{path}, line {line}: {what} is not allowed in templates");
            return Err(HostError::failed(name, message));
        }
        before = Some(token);
    }
    Ok(text_bytes)
}

/// What a bracket opens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    /// Arguments of a call.
    Call,
    /// A parenthesized expression or a tuple.
    Group,
    /// An index.
    Index,
    List,
    Fields,
}

impl Open {
    fn is_value(self) -> bool {
        matches!(self, Self::List | Self::Fields)
    }
}

/// State within a tag.
#[derive(Default)]
struct Tag {
    tokens: usize,
    joins: usize,
    /// Whether it is in the iterable of a `for`.
    is_looped: bool,
    is_loop: bool,
    has_items: bool,
    open: Vec<Open>,
}

impl Tag {
    /// Why `token` after `before` is not allowed, if so.
    fn refuses(&mut self, before: Option<&Token<'_>>, token: &Token<'_>) -> Option<String> {
        self.tokens += 1;
        let refused = match (before, token) {
            (_, Token::BlockStart | Token::VariableStart) => {
                *self = Self::default();
                None
            }
            (_, Token::BlockEnd | Token::VariableEnd | Token::TemplateData(_)) => None,
            _ if self.tokens > TOKENS_MAX => Some("a tag of too many tokens"),
            (Some(Token::BlockStart), Token::Ident(word)) if !STATEMENTS.contains(word) => {
                return Some(format!("`{word}`"));
            }
            (Some(Token::Pipe), Token::Ident(word)) if !FILTERS.contains(word) => {
                return Some(format!("the filter `{word}`"));
            }
            // These return rendered text.
            (_, Token::Ident(word @ ("recursive" | "self" | "super"))) => {
                return Some(format!("`{word}`"));
            }
            (Some(Token::BlockStart), Token::Ident("for")) => {
                self.is_loop = true;
                None
            }
            (_, Token::Ident("in")) => {
                self.is_looped = self.is_loop;
                None
            }
            (_, Token::Ident(word)) => {
                let is_constant =
                    matches!(*word, "true" | "false" | "none" | "True" | "False" | "None");
                let is_kept = self.is_looped && self.open.iter().any(|open| open.is_value());
                (is_kept && !is_constant).then_some("a name in a list of `for`")
            }
            (_, Token::Mul | Token::Pow) => Some("multiplication"),
            (_, Token::Tilde | Token::Plus) => {
                self.joins += 1;
                (self.joins > JOINS_MAX).then_some("a tag with too many concatenations")
            }
            (_, Token::Colon) if matches!(self.open.last(), Some(Open::Index | Open::List)) => {
                Some("a slice")
            }
            (_, Token::Comma) => self.comma(),
            (before, Token::BracketOpen | Token::ParenOpen | Token::BraceOpen) => {
                self.open(before, token);
                None
            }
            (_, Token::BracketClose | Token::ParenClose | Token::BraceClose) => {
                self.open.pop();
                None
            }
            _ => None,
        };
        let joins_items =
            (self.joins > 0 && self.has_items).then_some("a list in a tag with concatenations");
        refused.or(joins_items).map(str::to_owned)
    }

    fn open(&mut self, before: Option<&Token<'_>>, token: &Token<'_>) {
        let follows_operand = match before {
            Some(Token::Ident(word)) => !OPERATORS.contains(word),
            Some(before) => matches!(
                before,
                Token::Str(_)
                    | Token::String(_)
                    | Token::BracketClose
                    | Token::ParenClose
                    | Token::BraceClose
            ),
            None => false,
        };
        let open = match (token, follows_operand) {
            (Token::ParenOpen, true) => Open::Call,
            (Token::ParenOpen, false) => Open::Group,
            (Token::BracketOpen, true) => Open::Index,
            (Token::BracketOpen, false) => Open::List,
            _ => Open::Fields,
        };
        self.has_items |= open.is_value();
        self.open.push(open);
    }

    fn comma(&mut self) -> Option<&'static str> {
        if !matches!(self.open.last(), None | Some(Open::Group)) {
            return None;
        }
        self.has_items = true;
        self.is_looped.then_some("a list without brackets in `for`")
    }
}
