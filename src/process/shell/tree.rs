//! The tree of a parsed script.
//!
//! Parts that another process may run are behind an [`Arc`], so that a subshell copies nothing.

use std::fmt;
use std::mem;
use std::sync::{Arc, OnceLock};

use super::deep::with_stack;

/// A list of commands.
pub type List = Vec<Item>;

/// An element of a list.
#[derive(Debug)]
pub struct Item {
    /// The commands.
    pub chain: Arc<Chain>,
    /// Whether it runs in the background (`&`).
    pub background: bool,
}

/// Pipelines joined by `&&` and `||`.
#[derive(Debug)]
pub struct Chain {
    /// The first.
    pub first: Pipeline,
    /// The others, each with whether it needs success (`&&`) or failure (`||`) before it.
    pub rest: Vec<(bool, Pipeline)>,
}

/// Commands joined by pipes.
#[derive(Debug)]
pub struct Pipeline {
    /// Whether its status is negated (`!`).
    pub negated: bool,
    /// The parts, at least one.
    pub parts: Vec<Arc<Command>>,
}

/// A command and its redirections.
#[derive(Debug)]
pub struct Command {
    /// Its first line, from 1.
    pub line: u32,
    /// Its kind.
    pub kind: Kind,
    /// Its redirections, in order.
    pub redirects: Vec<Redirect>,
}

impl Drop for Command {
    /// Drops deeply nested commands with enough stack.
    fn drop(&mut self) {
        if !matches!(self.kind, Kind::Simple(_)) {
            let kind = mem::replace(&mut self.kind, Kind::Group(List::new()));
            with_stack(|| drop(kind));
        }
    }
}

/// The kind of a command.
#[derive(Debug)]
pub enum Kind {
    /// A program, builtin or function; or assignments alone.
    Simple(Simple),
    /// `{ …; }`
    Group(List),
    /// `( … )`
    Subshell(Arc<List>),
    /// `if`
    If {
        /// The conditions, each with its body.
        branches: Vec<(List, List)>,
        /// The body of `else`.
        otherwise: Option<List>,
    },
    /// `while`, `until`
    Loop {
        /// Whether it is `until`.
        until: bool,
        /// The condition.
        condition: List,
        /// The body.
        body: List,
    },
    /// `for`
    For {
        /// The variable.
        name: Box<[u8]>,
        /// Its values; `None` for the positional parameters.
        words: Option<Vec<Word>>,
        /// The body.
        body: List,
    },
    /// `case`
    Case {
        /// The word to match.
        subject: Word,
        /// The patterns of each body.
        arms: Vec<(Vec<Word>, List)>,
    },
    /// `name() …`
    Function {
        /// Its name.
        name: Box<[u8]>,
        /// The body.
        body: Arc<Command>,
    },
}

/// A simple command.
#[derive(Debug)]
pub struct Simple {
    /// Assignments.
    pub assignments: Vec<(Box<[u8]>, Word)>,
    /// The command's name and its arguments.
    pub words: Vec<Word>,
    /// Whether it is a declaration utility of POSIX, which sets variables by its arguments.
    pub declares: bool,
    /// Whether expanding its words has no effect and cannot fail, so that any process may do it.
    pub is_pure: bool,
}

/// A redirection.
#[derive(Debug)]
pub struct Redirect {
    /// The descriptor.
    pub fd: u32,
    /// Its target.
    pub target: Target,
}

/// The target of a redirection.
#[derive(Debug)]
pub enum Target {
    /// A file.
    File(Access, Word),
    /// Another descriptor, or closed (`-`).
    Duplicate(Word),
    /// A here-document.
    Document(Document),
}

/// The text of a here-document, set after its command was parsed.
#[derive(Clone, Default)]
pub struct Document(Arc<OnceLock<Word>>);

impl Document {
    /// Sets the text. Only the first call has an effect.
    pub fn set(&self, text: Word) {
        let _ = self.0.set(text);
    }

    /// The text, once the script has been parsed.
    pub fn text(&self) -> &Word {
        static NOTHING: Word = Word(Vec::new());
        self.0.get().unwrap_or(&NOTHING)
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// `<`
    Read,
    /// `>`
    Write,
    /// `>|`
    Clobber,
    /// `>>`
    Append,
    /// `<>`
    ReadWrite,
}

/// A word: pieces that are expanded and joined. Without pieces it expands to no field.
#[derive(Clone, Debug, Default)]
pub struct Word(pub Vec<Piece>);

/// A piece of a word.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Unquoted text, in which `*`, `?` and `[` match.
    Text(Box<[u8]>),
    /// Quoted text; even an empty one makes a field.
    Quoted(Box<[u8]>),
    /// `~`
    Tilde,
    /// `$…`
    Parameter {
        /// The parameter.
        parameter: Parameter,
        /// The operator.
        operator: Operator,
        /// Whether it is in double quotes.
        quoted: bool,
    },
    /// `$(…)`
    Substitution {
        /// The commands.
        script: Arc<List>,
        /// Whether it is in double quotes.
        quoted: bool,
    },
    /// `$((…))`
    Arithmetic {
        /// The expression, which is expanded first.
        expression: Word,
        /// Whether it is in double quotes.
        quoted: bool,
    },
}

/// A parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Parameter {
    /// A variable.
    Variable(Box<[u8]>),
    /// `$1` and on.
    Positional(usize),
    /// `$0`
    Name,
    /// `$@`
    All,
    /// `$*`
    Joined,
    /// `$#`
    Count,
    /// `$?`
    Status,
    /// `$-`
    Options,
    /// `$$`
    Pid,
    /// `$!`
    Background,
}

/// The operator of a parameter expansion.
#[derive(Clone, Debug)]
pub enum Operator {
    /// Nothing.
    Value,
    /// `${#x}`
    Length,
    /// `${x-…}`, `${x:-…}`
    Default {
        /// Whether an empty value counts as unset (`:`).
        or_empty: bool,
        /// The default.
        word: Word,
    },
    /// `${x=…}`, `${x:=…}`
    Assign {
        /// Whether an empty value counts as unset (`:`).
        or_empty: bool,
        /// The value to assign.
        word: Word,
    },
    /// `${x?…}`, `${x:?…}`
    Require {
        /// Whether an empty value counts as unset (`:`).
        or_empty: bool,
        /// The error message.
        word: Word,
    },
    /// `${x+…}`, `${x:+…}`
    Instead {
        /// Whether an empty value counts as unset (`:`).
        or_empty: bool,
        /// The text in place of the value.
        word: Word,
    },
    /// `${x#…}`, `${x##…}`, `${x%…}`, `${x%%…}`
    Trim {
        /// Whether a suffix is removed, not a prefix.
        suffix: bool,
        /// Whether the longest match is removed.
        longest: bool,
        /// The pattern.
        pattern: Word,
    },
}

impl Word {
    /// Returns its text, if nothing in it is expanded or quoted.
    pub fn literal(&self) -> Option<&[u8]> {
        match self.0.as_slice() {
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns whether its expansion has no effect, does not wait and cannot fail.
    pub fn is_pure(&self) -> bool {
        self.0.iter().all(|piece| match piece {
            Piece::Text(_) | Piece::Quoted(_) | Piece::Tilde => true,
            Piece::Parameter { operator, .. } => match operator {
                Operator::Value | Operator::Length => true,
                Operator::Default { word, .. }
                | Operator::Instead { word, .. }
                | Operator::Trim { pattern: word, .. } => word.is_pure(),
                Operator::Assign { .. } | Operator::Require { .. } => false,
            },
            Piece::Substitution { .. } | Piece::Arithmetic { .. } => false,
        })
    }
}

/// Returns whether `text` is a valid name of a variable.
pub fn is_name(text: &[u8]) -> bool {
    let is_first = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    text.first().is_some_and(is_first)
        && text.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
