//! What may stand in the tags of templates: nothing that could make a value much larger than what it
//! is made of, or the stack deep.
//!
//! Only `for` keeps a value from one tag to the next. So lists in it are made of constants alone, and
//! what grows in a tag is gone after it.

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use super::error::HostError;

/// Operators that join texts, in one tag.
const JOINS_MAX: usize = 16;

/// Words, signs and constants in one tag: what stands within each other takes stack.
const TOKENS_MAX: usize = 512;

/// `elif` in one template, each of which stands within the one before it.
const ELIFS_MAX: usize = 500;

/// What may begin a tag. Everything that keeps a text for later is left out.
const STATEMENTS: [&str; 10] =
    ["block", "elif", "else", "endblock", "endfor", "endif", "extends", "for", "if", "include"];

/// Words after which an operand comes.
const OPERATORS: [&str; 11] =
    ["and", "elif", "else", "extends", "for", "if", "in", "include", "is", "not", "or"];

/// Filters whose results are not much larger than what they get; the last three are our own.
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

/// Checks the template `text`, which lies at `path`, for the operation `name`; answers the bytes of
/// the longest text in a tag of it.
///
/// # Errors
/// Something in it may not be there.
pub(super) fn check(name: &str, path: &str, text: &str) -> Result<usize, HostError> {
    let (mut elifs, mut text_bytes) = (0, 0);
    let (mut tag, mut before) = (Tag::default(), None);
    for token in tokenize(text, false, SyntaxConfig::default()) {
        // What is no template at all is told of when it is rendered.
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
            let message = format!("{path}, line {line}: {what} is not there in templates");
            return Err(HostError::failed(name, message));
        }
        before = Some(token);
    }
    Ok(text_bytes)
}

/// What a bracket begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    /// The arguments of a call.
    Call,
    /// What is put together before the rest, or a list.
    Group,
    /// The place in a list.
    Index,
    List,
    Fields,
}

impl Open {
    fn is_value(self) -> bool {
        matches!(self, Self::List | Self::Fields)
    }
}

/// What was seen of a tag.
#[derive(Default)]
struct Tag {
    tokens: usize,
    joins: usize,
    /// Whether it is the part of a `for` that says through what it goes.
    is_looped: bool,
    is_loop: bool,
    has_items: bool,
    open: Vec<Open>,
}

impl Tag {
    /// What may not be there of `token`, which comes after `before`.
    fn refuses(&mut self, before: Option<&Token<'_>>, token: &Token<'_>) -> Option<String> {
        self.tokens += 1;
        let refused = match (before, token) {
            (_, Token::BlockStart | Token::VariableStart) => {
                *self = Self::default();
                None
            }
            (_, Token::BlockEnd | Token::VariableEnd | Token::TemplateData(_)) => None,
            _ if self.tokens > TOKENS_MAX => Some("a tag of so many words"),
            (Some(Token::BlockStart), Token::Ident(word)) if !STATEMENTS.contains(word) => {
                return Some(format!("`{word}`"));
            }
            (Some(Token::Pipe), Token::Ident(word)) if !FILTERS.contains(word) => {
                return Some(format!("the filter `{word}`"));
            }
            // What these answer is what a part of the template prints.
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
                (self.joins > JOINS_MAX).then_some("a tag that joins so much")
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
            (self.joins > 0 && self.has_items).then_some("a list in a tag that joins");
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
