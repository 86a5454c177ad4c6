//! Where the parts of `case` constructs are among the tokens of a script.

use std::ops::Range;

use brush_parser::Token;

/// A `case`.
pub struct Case {
    /// Where in the source it begins.
    pub at: usize,
    /// Where in the source its subject begins.
    pub subject: usize,
    /// Of each arm, the tokens of its patterns with what separates them, and those of its commands.
    pub arms: Vec<(Range<usize>, Range<usize>)>,
    /// The token that is its `esac`.
    pub end: usize,
}

/// Those that have begun and not ended, the innermost last.
#[derive(Default)]
pub struct OpenCases(Vec<OpenCase>);

struct OpenCase {
    /// The token that it begins with.
    begin: usize,
    case: Case,
    /// Where the part begins that is being read: patterns or commands.
    part: usize,
    /// The patterns of the commands that are being read.
    patterns: Range<usize>,
}

impl OpenCases {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One begins with the token `begin`, at `at` in the source, where `subject` is where its subject
    /// begins.
    pub fn begin(&mut self, begin: usize, at: usize, subject: usize) {
        let case = Case { at, subject, arms: Vec::new(), end: 0 };
        self.0.push(OpenCase { begin, case, part: 0, patterns: 0..0 });
    }

    /// The token `at` is the first of the patterns of the innermost one.
    pub fn begin_part(&mut self, at: usize) {
        if let Some(open) = self.0.last_mut() {
            open.part = at;
        }
    }

    /// Whether nothing but ends of lines comes before the last of `tokens` in its part.
    pub fn is_first_of_part(&self, tokens: &[Token]) -> bool {
        let part = self.0.last().and_then(|open| tokens.get(open.part..tokens.len() - 1));
        part.is_some_and(|before| before.iter().all(|token| token.to_str() == "\n"))
    }

    /// The token `at` is the `)` after the patterns of an arm.
    pub fn end_patterns(&mut self, at: usize) {
        if let Some(open) = self.0.last_mut() {
            open.patterns = open.part..at;
            open.part = at + 1;
        }
    }

    /// The token `at` ends the commands of an arm.
    pub fn end_arm(&mut self, at: usize) {
        if let Some(open) = self.0.last_mut() {
            open.case.arms.push((open.patterns.clone(), open.part..at));
            open.part = at + 1;
        }
    }

    /// The token `at` is the `esac` of the innermost one: the token that begins it, and what it is.
    pub fn end(&mut self, at: usize) -> Option<(usize, Case)> {
        let OpenCase { begin, case, .. } = self.0.pop()?;
        Some((begin, Case { end: at, ..case }))
    }
}
