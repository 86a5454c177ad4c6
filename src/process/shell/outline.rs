//! The commands of a script, for policies that judge it before it runs.

use super::deep::with_stack;
use super::lexer::SyntaxError;
use super::parser;
use super::tree::{
    Chain, Command, Item, Kind, Operator, Parameter, Piece, Pipeline, Redirect, Simple, Target,
    Word,
};
use crate::kernel::machine::memory::Memory;

/// A word of a command, as far as it is known before it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OutlineWord {
    /// One word, made of these pieces; `None` is any text.
    One(Vec<Option<Vec<u8>>>),
    /// Any number of words.
    Many,
}

impl OutlineWord {
    /// Creates a known word.
    pub fn known(text: impl Into<Vec<u8>>) -> Self {
        Self::One(vec![Some(text.into())])
    }

    /// Returns its text, if all of it is known.
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Self::One(pieces) => match pieces.as_slice() {
                [Some(text)] => Some(text),
                _ => None,
            },
            Self::Many => None,
        }
    }
}

/// A script that cannot be parsed.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OutlineError(String);

crate::base::readable::readable!(OutlineError);

impl From<SyntaxError> for OutlineError {
    fn from(error: SyntaxError) -> Self {
        Self(error.to_string())
    }
}

/// Returns the words of each simple command in `script`, also in pipelines, functions, conditions and inside
/// words.
///
/// # Errors
/// The shell would refuse the whole script.
pub fn outline(script: &[u8]) -> Result<Vec<Vec<OutlineWord>>, OutlineError> {
    let memory = Memory::new(OUTLINE_BYTES_MAX);
    let (list, _charge) = parser::parse(script, 1, memory.charge())?;
    let mut outline = Outline::default();
    outline.list(&list);
    Ok(outline.commands)
}

/// Most memory for a parsed script, in bytes.
const OUTLINE_BYTES_MAX: u64 = 256 << 20;

#[derive(Default)]
struct Outline {
    commands: Vec<Vec<OutlineWord>>,
}

impl Outline {
    fn list(&mut self, list: &[Item]) {
        for item in list {
            self.chain(&item.chain);
        }
    }

    fn chain(&mut self, chain: &Chain) {
        let rest = chain.rest.iter().map(|(_, pipeline)| pipeline);
        for Pipeline { parts, .. } in std::iter::once(&chain.first).chain(rest) {
            for part in parts {
                with_stack(|| self.command(part));
            }
        }
    }

    fn command(&mut self, command: &Command) {
        match &command.kind {
            Kind::Simple(Simple { assignments, words, .. }) => {
                for (_, value) in assignments {
                    self.word(value);
                }
                for word in words {
                    self.word(word);
                }
                if !words.is_empty() {
                    self.commands.push(words.iter().map(outline_word).collect());
                }
            }
            Kind::Group(list) => self.list(list),
            Kind::Subshell(list) => self.list(list),
            Kind::If { branches, otherwise } => {
                for (condition, body) in branches {
                    self.list(condition);
                    self.list(body);
                }
                if let Some(body) = otherwise {
                    self.list(body);
                }
            }
            Kind::Loop { condition, body, .. } => {
                self.list(condition);
                self.list(body);
            }
            Kind::For { words, body, .. } => {
                words.iter().flatten().for_each(|word| self.word(word));
                self.list(body);
            }
            Kind::Case { subject, arms } => {
                self.word(subject);
                for (patterns, body) in arms {
                    for pattern in patterns {
                        self.word(pattern);
                    }
                    self.list(body);
                }
            }
            Kind::Function { body, .. } => self.command(body),
        }
        for Redirect { target, .. } in &command.redirects {
            match target {
                Target::File(_, word) | Target::Duplicate(word) => self.word(word),
                Target::Document(document) => self.word(document.text()),
            }
        }
    }

    /// Adds the commands that run to expand `word`.
    fn word(&mut self, word: &Word) {
        for piece in &word.0 {
            match piece {
                Piece::Text(_) | Piece::Quoted(_) | Piece::Tilde => {}
                Piece::Substitution { script, .. } => self.list(script),
                Piece::Arithmetic { expression, .. } => self.word(expression),
                Piece::Parameter { operator, .. } => match operator {
                    Operator::Value | Operator::Length => {}
                    Operator::Default { word, .. }
                    | Operator::Assign { word, .. }
                    | Operator::Require { word, .. }
                    | Operator::Instead { word, .. }
                    | Operator::Trim { pattern: word, .. } => self.word(word),
                },
            }
        }
    }
}

fn outline_word(word: &Word) -> OutlineWord {
    let mut pieces: Vec<Option<Vec<u8>>> = Vec::new();
    for piece in &word.0 {
        let known = match piece {
            // It may match any number of files.
            Piece::Text(text) if text.iter().any(|byte| b"*?[".contains(byte)) => {
                return OutlineWord::Many;
            }
            Piece::Text(text) | Piece::Quoted(text) => Some(text),
            Piece::Parameter { parameter: Parameter::All, .. }
            | Piece::Parameter { quoted: false, .. }
            | Piece::Substitution { quoted: false, .. }
            | Piece::Arithmetic { quoted: false, .. } => return OutlineWord::Many,
            Piece::Tilde
            | Piece::Parameter { .. }
            | Piece::Substitution { .. }
            | Piece::Arithmetic { .. } => None,
        };
        match (pieces.last_mut(), known) {
            (Some(Some(before)), Some(text)) => before.extend_from_slice(text),
            (Some(None), None) => {}
            (_, known) => pieces.push(known.map(|text| text.to_vec())),
        }
    }
    OutlineWord::One(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(script: &str) -> Vec<String> {
        let show = |word: &OutlineWord| match word {
            OutlineWord::Many => "…".to_owned(),
            OutlineWord::One(pieces) => pieces
                .iter()
                .map(|piece| match piece {
                    Some(text) => String::from_utf8_lossy(text).into_owned(),
                    None => "·".to_owned(),
                })
                .collect(),
        };
        let commands = outline(script.as_bytes()).unwrap();
        commands.iter().map(|words| words.iter().map(show).collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn outline_lists_nested_commands() {
        let script = r#"a=$(b "$(c)") d <<E | { e; }
            `f`
E
            if g; then h; elif i; then j; else k; fi; while l; do m; done
            for x in $(n); do o; done; case $(p) in $(q)) r;; esac
            s() { t; }; (u) && v || ! w & echo "${x:-$(y)}" > $(z)"#;
        let mut names: Vec<String> = shown(script)
            .iter()
            .map(|words| words.split(' ').next().unwrap_or_default().to_owned())
            .collect();
        names.sort();
        let expected: Vec<String> =
            "bcdefghijklmnopqrtuvwyz".chars().map(String::from).chain(["echo".into()]).collect();
        let mut expected = expected;
        expected.sort();
        assert_eq!(names, expected);
    }

    #[test]
    fn outline_accepts_the_nesting_that_the_shell_accepts() {
        for (open, close) in [("{ ", "; }"), ("( ", ")"), ("if ", "; then :; fi")] {
            let script = format!("{}a{}", open.repeat(5_000), close.repeat(5_000));
            assert_eq!(shown(&script)[0], "a");
        }
    }

    #[test]
    fn outline_words_show_their_known_pieces() {
        let words = |script: &str| shown(script).last().unwrap().clone();
        assert_eq!(words(r#"r\m 'a b' "c"d"#), "rm a b cd");
        assert_eq!(words("\"r\"'m' -rf"), "rm -rf");
        assert_eq!(words("rm \"$x\" pre\"$x\"post"), "rm · pre·post");
        assert_eq!(words("$x a$y *.c \"$@\" $((1))"), "… … … … …");
        assert_eq!(words("r\\\nm ~/x"), "rm ·/x");
        assert_eq!(words("''"), "");
        assert!(outline(b"if").is_err());
    }
}
