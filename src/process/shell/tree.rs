//! A script, as it is run: what the parser found, with its words taken apart.
//!
//! Parts that another process may run are behind an [`Arc`], so that a subshell costs no copy.

use std::fmt;
use std::mem;
use std::sync::{Arc, OnceLock};

use super::deep::with_stack;

/// Commands, one after the other.
pub type List = Vec<Item>;

/// A list's element.
#[derive(Debug)]
pub struct Item {
    /// What is run.
    pub chain: Arc<Chain>,
    /// Whether nobody waits for it (`&`).
    pub background: bool,
}

/// Pipelines that are run or not, as those before them ended.
#[derive(Debug)]
pub struct Chain {
    /// The first.
    pub first: Pipeline,
    /// The others, and whether each needs a success (`&&`) or a failure (`||`).
    pub rest: Vec<(bool, Pipeline)>,
}

/// Commands that run at once, each reading what the one before it writes.
#[derive(Debug)]
pub struct Pipeline {
    /// Whether success is failure.
    pub negated: bool,
    /// The parts, at least one.
    pub parts: Vec<Arc<Command>>,
}

/// A command and its redirections.
#[derive(Debug)]
pub struct Command {
    /// The line it begins at, from 1.
    pub line: u32,
    /// What it is.
    pub kind: Kind,
    /// Where its descriptors lead, in order.
    pub redirects: Vec<Redirect>,
}

impl Drop for Command {
    /// However many are in each other.
    fn drop(&mut self) {
        if !matches!(self.kind, Kind::Simple(_)) {
            let kind = mem::replace(&mut self.kind, Kind::Group(List::new()));
            with_stack(|| drop(kind));
        }
    }
}

/// What a command is.
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
        /// Conditions, and what is run after the first that holds.
        branches: Vec<(List, List)>,
        /// What is run if none does.
        otherwise: Option<List>,
    },
    /// `while`, `until`
    Loop {
        /// Whether it goes on while the condition fails.
        until: bool,
        /// The condition.
        condition: List,
        /// What is repeated.
        body: List,
    },
    /// `for`
    For {
        /// The variable.
        name: Box<[u8]>,
        /// Its values; the positional parameters, if `None`.
        words: Option<Vec<Word>>,
        /// What is repeated.
        body: List,
    },
    /// `case`
    Case {
        /// What is compared.
        subject: Word,
        /// Patterns, and what is run after the first that matches.
        arms: Vec<(Vec<Word>, List)>,
    },
    /// `name() …`
    Function {
        /// Its name.
        name: Box<[u8]>,
        /// What a call runs.
        body: Arc<Command>,
    },
}

/// A simple command.
#[derive(Debug)]
pub struct Simple {
    /// Variables and their values.
    pub assignments: Vec<(Box<[u8]>, Word)>,
    /// The command's name and its arguments.
    pub words: Vec<Word>,
    /// Whether it sets variables by its arguments (POSIX: a declaration utility).
    pub declares: bool,
    /// Whether its words can be expanded in any process: they change nothing and cannot fail.
    pub is_pure: bool,
}

/// Where a descriptor leads.
#[derive(Debug)]
pub struct Redirect {
    /// Which.
    pub fd: u32,
    /// Where.
    pub target: Target,
}

/// What a redirection opens.
#[derive(Debug)]
pub enum Target {
    /// A file.
    File(Access, Word),
    /// What another descriptor refers to, or nothing (`-`).
    Duplicate(Word),
    /// These bytes, to be read.
    Document(Document),
}

/// The text of a here-document, which comes after the command that it is for.
#[derive(Clone, Default)]
pub struct Document(Arc<OnceLock<Word>>);

impl Document {
    /// It is `text`. Only the first call has an effect.
    pub fn set(&self, text: Word) {
        let _ = self.0.set(text);
    }

    /// What it is, once the script has been parsed.
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

/// A word: pieces that are expanded and joined. Without any it stands for no field.
#[derive(Clone, Debug, Default)]
pub struct Word(pub Vec<Piece>);

/// A piece of a word.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Text without quotes, in which `*`, `?` and `[` match.
    Text(Box<[u8]>),
    /// Text that stands for itself; an empty one makes a field.
    Quoted(Box<[u8]>),
    /// `~`
    Tilde,
    /// `$…`
    Parameter {
        /// Which.
        parameter: Parameter,
        /// What is done with its value.
        operator: Operator,
        /// Whether it stands in double quotes.
        quoted: bool,
    },
    /// `$(…)`
    Substitution {
        /// The commands whose output it stands for.
        script: Arc<List>,
        /// Whether it stands in double quotes.
        quoted: bool,
    },
    /// `$((…))`
    Arithmetic {
        /// The expression, to be expanded first.
        expression: Word,
        /// Whether it stands in double quotes.
        quoted: bool,
    },
}

/// What a parameter expansion names.
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

/// What is done with a parameter's value.
#[derive(Clone, Debug)]
pub enum Operator {
    /// Nothing.
    Value,
    /// `${#x}`
    Length,
    /// `${x-…}`, `${x:-…}`
    Default {
        /// Whether an empty value counts as none.
        or_empty: bool,
        /// What stands for it then.
        word: Word,
    },
    /// `${x=…}`, `${x:=…}`
    Assign {
        /// Whether an empty value counts as none.
        or_empty: bool,
        /// What it becomes then.
        word: Word,
    },
    /// `${x?…}`, `${x:?…}`
    Require {
        /// Whether an empty value counts as none.
        or_empty: bool,
        /// What is said then.
        word: Word,
    },
    /// `${x+…}`, `${x:+…}`
    Instead {
        /// Whether an empty value counts as none.
        or_empty: bool,
        /// What stands for any other value.
        word: Word,
    },
    /// `${x#…}`, `${x##…}`, `${x%…}`, `${x%%…}`
    Trim {
        /// Whether the end is cut off, not the beginning.
        suffix: bool,
        /// Whether as much as possible is cut off.
        longest: bool,
        /// What is cut off.
        pattern: Word,
    },
}

impl Word {
    /// Its text, if nothing in it is expanded or quoted.
    pub fn literal(&self) -> Option<&[u8]> {
        match self.0.as_slice() {
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether expanding it changes nothing, waits for nothing and cannot fail.
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

/// Whether `text` can be the name of a variable.
pub fn is_name(text: &[u8]) -> bool {
    let is_first = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    text.first().is_some_and(is_first)
        && text.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
