//! From tokens to a tree: the grammar is `brush-parser`'s, and what it finds is put into the form
//! in which it is run. Whatever POSIX has not is refused here, before anything runs.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use brush_parser::ast;
use brush_parser::ast::SourceLocation;
use brush_parser::{ParseError, ParserOptions, SourceSpan, Token};

use super::cases::Case;
use super::lexer::{Lexer, SyntaxError, Tokens};
use super::tree::{
    Access, Chain, Command, Item, Kind, List, Piece, Pipeline, Redirect, Simple, Target, Word,
    is_name,
};
use super::words::assigned_value;
use crate::kernel::machine::memory::Charge;

/// Stack for the parser, whose depth the lexer bounds, in bytes. Of what is not used nothing is
/// taken.
const PARSER_STACK_BYTES: usize = 32 << 20;

/// Bytes of a script. Beyond: refused.
pub const SCRIPT_BYTES_MAX: usize = 16 << 20;

/// The commands of `source`, whose first line is `line`, and `memory`, to which what they take has
/// been added.
///
/// # Errors
/// [`SyntaxError`].
pub fn parse(source: &[u8], line: u32, mut memory: Charge) -> Result<(List, Charge), SyntaxError> {
    if source.len() > SCRIPT_BYTES_MAX {
        let what = format!("the script is longer than {} MiB", SCRIPT_BYTES_MAX >> 20);
        return Err(SyntaxError::Malformed { line, what });
    }
    memory.grow(source.len() as u64).map_err(|error| SyntaxError::Memory { line, error })?;
    let memory = RefCell::new(memory);
    let list = stacker::maybe_grow(PARSER_STACK_BYTES, PARSER_STACK_BYTES + (1 << 20), || {
        let mut lexer = Lexer::new(source, line, &memory);
        let tokens = lexer.script(false)?;
        build(&tokens, lexer.line)
    })?;
    Ok((list, memory.into_inner()))
}

/// The commands that `tokens` stand for; the last is in line `last_line`.
///
/// # Errors
/// [`SyntaxError`].
pub(super) fn build(tokens: &Tokens, last_line: u32) -> Result<List, SyntaxError> {
    let cases = tokens.cases.values().map(|case| (case.at, case)).collect();
    Builder { tokens, cases }.range(0..tokens.list.len(), last_line)
}

/// What the parser says of `tokens`, after which `next` comes in line `end_line`.
fn malformed(
    tokens: &[Token],
    error: &ParseError,
    next: Option<&Token>,
    end_line: u32,
) -> SyntaxError {
    let ParseError::ParsingNear(position) = error else {
        if next.is_some() {
            return unexpected(next, end_line);
        }
        let what = "end of file unexpected".to_owned();
        return SyntaxError::Malformed { line: end_line, what };
    };
    let at = tokens.iter().rfind(|token| token.location().start.index == position.index);
    unexpected(at, position.line as u32)
}

/// `token` in line `line` stands where it cannot.
fn unexpected(token: Option<&Token>, line: u32) -> SyntaxError {
    let what = match token.map(Token::to_str) {
        Some("\n") => "newline unexpected".to_owned(),
        Some("''") | None => "word unexpected".to_owned(),
        Some(text) => format!("\"{text}\" unexpected"),
    };
    SyntaxError::Malformed { line, what }
}

struct Builder<'t> {
    tokens: &'t Tokens,
    /// The `case` constructs, by where each begins in the source.
    cases: HashMap<usize, &'t Case>,
}

type Built<T> = Result<T, SyntaxError>;

impl Builder<'_> {
    /// The commands of these tokens, if `end_line` is the line after which they end.
    fn range(&self, range: Range<usize>, end_line: u32) -> Built<List> {
        let mut shown = Vec::with_capacity(range.len());
        let mut at = range.start;
        while at < range.end {
            let Some(token) = self.tokens.list.get(at) else { break };
            if let Some(case) = self.tokens.cases.get(&at) {
                // Instead of a `case`, a group of one command, whose name stands where the `case` does.
                let span = token.location();
                let word = |text: &str| Token::Word(text.to_owned(), span.clone());
                let end = Token::Operator(";".to_owned(), span.clone());
                shown.extend([word("{"), word("''"), end, word("}")]);
                at = case.end + 1;
            } else {
                shown.push(token.clone());
                at += 1;
            }
        }
        if shown.iter().all(|token| token.to_str() == "\n") {
            return Ok(List::new());
        }
        let options = ParserOptions { sh_mode: true, posix_mode: true, ..ParserOptions::default() };
        let program = match brush_parser::parse_tokens(&shown, &options) {
            Ok(program) => program,
            Err(error) => {
                let next = self.tokens.list.get(range.end);
                return Err(malformed(&shown, &error, next, end_line));
            }
        };
        let mut list = List::new();
        for command in &program.complete_commands {
            list.extend(self.list(command)?);
        }
        Ok(list)
    }

    /// The `case` that stands where `group` does for the parser.
    fn case_of(&self, group: &ast::BraceGroupCommand) -> Option<&Case> {
        let [ast::CompoundListItem(chain, _)] = group.list.0.as_slice() else { return None };
        let [ast::Command::Simple(simple)] = chain.first.seq.as_slice() else { return None };
        let at = simple.word_or_name.as_ref()?.loc.as_ref()?.start.index;
        self.cases.get(&at).copied()
    }

    fn case(&self, case: &Case, line: u32) -> Built<Kind> {
        let word = |at: usize| {
            let what = "word unexpected".to_owned();
            self.tokens.words.get(&at).cloned().ok_or(SyntaxError::Malformed { line, what })
        };
        let arms = case.arms.iter().map(|(patterns, body)| {
            let patterns = self.patterns(patterns.clone(), line)?;
            let patterns = patterns.into_iter().map(word).collect::<Built<_>>()?;
            let end = self.tokens.list.get(body.end).map(Token::location);
            Ok((patterns, self.range(body.clone(), line_of(end))?))
        });
        Ok(Kind::Case { subject: word(case.subject)?, arms: arms.collect::<Built<_>>()? })
    }

    /// Where in the source the patterns begin that stand at `range`.
    fn patterns(&self, range: Range<usize>, line: u32) -> Built<Vec<usize>> {
        let tokens = self.tokens.list.get(range).unwrap_or_default();
        let mut tokens = tokens.iter().skip_while(|token| token.to_str() == "\n").peekable();
        tokens.next_if(|token| matches!(token, Token::Operator(text, _) if text == "("));
        let mut patterns = Vec::new();
        loop {
            match tokens.next() {
                Some(Token::Word(_, span)) => patterns.push(span.start.index),
                other => return Err(unexpected(other, line)),
            }
            match tokens.next() {
                None => return Ok(patterns),
                Some(Token::Operator(text, _)) if text == "|" => {}
                other => return Err(unexpected(other, line)),
            }
        }
    }

    fn list(&self, list: &ast::CompoundList) -> Built<List> {
        let item = |ast::CompoundListItem(chain, separator): &_| {
            Ok(Item {
                chain: Arc::new(self.chain(chain)?),
                background: matches!(separator, ast::SeparatorOperator::Async),
            })
        };
        list.0.iter().map(item).collect()
    }

    fn chain(&self, chain: &ast::AndOrList) -> Built<Chain> {
        let rest = chain.additional.iter().map(|next| match next {
            ast::AndOr::And(pipeline) => Ok((true, self.pipeline(pipeline)?)),
            ast::AndOr::Or(pipeline) => Ok((false, self.pipeline(pipeline)?)),
        });
        Ok(Chain { first: self.pipeline(&chain.first)?, rest: rest.collect::<Built<_>>()? })
    }

    fn pipeline(&self, pipeline: &ast::Pipeline) -> Built<Pipeline> {
        let parts = pipeline.seq.iter().map(|part| self.command(part).map(Arc::new));
        let parts: Vec<_> = parts.collect::<Built<_>>()?;
        if parts.is_empty() {
            let what = "\"!\" without a command".to_owned();
            return Err(SyntaxError::Malformed { line: 0, what });
        }
        Ok(Pipeline { negated: pipeline.bang, parts })
    }

    fn command(&self, command: &ast::Command) -> Built<Command> {
        let line = line_of(command.location().as_ref());
        match command {
            ast::Command::Simple(simple) => self.simple(simple, line),
            ast::Command::Compound(compound, redirects) => {
                self.compound(compound, redirects.as_ref(), line)
            }
            ast::Command::Function(function) => {
                let ast::FunctionBody(body, redirects) = &function.body;
                let name: Box<[u8]> =
                    self.word(&function.fname)?.literal().unwrap_or_default().into();
                if !is_name(&name) {
                    let what = "Bad function name".to_owned();
                    return Err(SyntaxError::Malformed { line, what });
                }
                let body = Arc::new(self.compound(body, redirects.as_ref(), line)?);
                Ok(Command { line, kind: Kind::Function { name, body }, redirects: Vec::new() })
            }
            ast::Command::ExtendedTest(..) => Err(unsupported(line, "[[ … ]]")),
        }
    }

    fn simple(&self, simple: &ast::SimpleCommand, line: u32) -> Built<Command> {
        let (assignments, words) = (Vec::new(), Vec::new());
        let mut made = Simple { assignments, words, declares: false, is_pure: true };
        let mut redirects = Vec::new();
        for item in simple.prefix.iter().flat_map(|prefix| &prefix.0) {
            match item {
                ast::CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => {
                    made.assignments.push(self.assignment(assignment, word, line)?);
                }
                other => self.argument(other, &mut made, &mut redirects, line)?,
            }
        }
        if let Some(word) = &simple.word_or_name {
            made.words.push(self.argument_word(word, line)?);
        }
        for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
            self.argument(item, &mut made, &mut redirects, line)?;
        }
        made.declares = declares(&made.words);
        made.is_pure = made.assignments.is_empty() && made.words.iter().all(Word::is_pure);
        Ok(Command { line, kind: Kind::Simple(made), redirects })
    }

    fn assignment(
        &self,
        assignment: &ast::Assignment,
        word: &ast::Word,
        line: u32,
    ) -> Built<(Box<[u8]>, Word)> {
        if assignment.append {
            return Err(unsupported(line, "+="));
        }
        let ast::AssignmentName::VariableName(name) = &assignment.name else {
            return Err(unsupported(line, "an array"));
        };
        let value = assigned_value(self.word(word)?, name.len() + 1);
        Ok((name.as_bytes().into(), value))
    }

    fn argument(
        &self,
        item: &ast::CommandPrefixOrSuffixItem,
        made: &mut Simple,
        redirects: &mut Vec<Redirect>,
        line: u32,
    ) -> Built<()> {
        match item {
            ast::CommandPrefixOrSuffixItem::IoRedirect(redirect) => {
                redirects.push(self.redirect(redirect, line)?);
            }
            ast::CommandPrefixOrSuffixItem::Word(word)
            | ast::CommandPrefixOrSuffixItem::AssignmentWord(_, word) => {
                made.words.push(self.argument_word(word, line)?);
            }
            ast::CommandPrefixOrSuffixItem::ProcessSubstitution(..) => {
                return Err(unsupported(line, "process substitution"));
            }
        }
        Ok(())
    }

    /// The pieces of a word.
    fn word(&self, word: &ast::Word) -> Built<&Word> {
        let at = word.loc.as_ref().map(|span| span.start.index);
        at.and_then(|at| self.tokens.words.get(&at)).ok_or_else(|| {
            let what = "word unexpected".to_owned();
            SyntaxError::Malformed { line: line_of(word.loc.as_ref()), what }
        })
    }

    fn argument_word(&self, word: &ast::Word, line: u32) -> Built<Word> {
        let word = self.word(word)?;
        let has_braces = word.0.iter().any(|piece| match piece {
            super::tree::Piece::Text(text) => expands_braces(text),
            _ => false,
        });
        if has_braces {
            return Err(unsupported(line, "brace expansion"));
        }
        Ok(word.clone())
    }

    fn words(&self, words: &[ast::Word], line: u32) -> Built<Vec<Word>> {
        words.iter().map(|word| self.argument_word(word, line)).collect()
    }

    fn compound(
        &self,
        compound: &ast::CompoundCommand,
        redirects: Option<&ast::RedirectList>,
        line: u32,
    ) -> Built<Command> {
        let kind = match compound {
            ast::CompoundCommand::BraceGroup(group) => match self.case_of(group) {
                Some(case) => self.case(case, line)?,
                None => Kind::Group(self.list(&group.list)?),
            },
            ast::CompoundCommand::Subshell(subshell) => {
                Kind::Subshell(Arc::new(self.list(&subshell.list)?))
            }
            ast::CompoundCommand::ForClause(clause)
                if !is_name(clause.variable_name.as_bytes()) =>
            {
                let what = "Bad for loop variable".to_owned();
                return Err(SyntaxError::Malformed { line, what });
            }
            ast::CompoundCommand::ForClause(clause) => Kind::For {
                name: clause.variable_name.as_bytes().into(),
                words: match &clause.values {
                    Some(words) => Some(self.words(words, line)?),
                    None => None,
                },
                body: self.list(&clause.body.list)?,
            },
            // All of them were replaced.
            ast::CompoundCommand::CaseClause(_) => return Err(unsupported(line, "case")),
            ast::CompoundCommand::IfClause(clause) => self.branches(clause)?,
            ast::CompoundCommand::WhileClause(clause) => self.repeated(clause, false)?,
            ast::CompoundCommand::UntilClause(clause) => self.repeated(clause, true)?,
            ast::CompoundCommand::Arithmetic(_) => return Err(unsupported(line, "((…))")),
            ast::CompoundCommand::ArithmeticForClause(_) => {
                return Err(unsupported(line, "for ((…))"));
            }
            ast::CompoundCommand::Coprocess(_) => return Err(unsupported(line, "coproc")),
        };
        let redirects = redirects.iter().flat_map(|list| &list.0);
        let redirects = redirects.map(|redirect| self.redirect(redirect, line));
        Ok(Command { line, kind, redirects: redirects.collect::<Built<_>>()? })
    }

    fn branches(&self, clause: &ast::IfClauseCommand) -> Built<Kind> {
        let mut branches = vec![(self.list(&clause.condition)?, self.list(&clause.then)?)];
        let mut otherwise = None;
        for ast::ElseClause { condition, body } in clause.elses.iter().flatten() {
            match condition {
                Some(condition) => branches.push((self.list(condition)?, self.list(body)?)),
                None => otherwise = Some(self.list(body)?),
            }
        }
        Ok(Kind::If { branches, otherwise })
    }

    fn repeated(&self, clause: &ast::WhileOrUntilClauseCommand, until: bool) -> Built<Kind> {
        let ast::WhileOrUntilClauseCommand(condition, body, _) = clause;
        let (condition, body) = (self.list(condition)?, self.list(&body.list)?);
        Ok(Kind::Loop { until, condition, body })
    }

    fn redirect(&self, redirect: &ast::IoRedirect, line: u32) -> Built<Redirect> {
        use ast::IoFileRedirectKind as K;
        let number = |fd: Option<i32>, default: u32| match fd {
            Some(fd) => u32::try_from(fd).unwrap_or(u32::MAX),
            None => default,
        };
        match redirect {
            ast::IoRedirect::File(fd, kind, target) => {
                let (default, access) = match kind {
                    K::Read => (0, Some(Access::Read)),
                    K::Write => (1, Some(Access::Write)),
                    K::Append => (1, Some(Access::Append)),
                    K::ReadAndWrite => (0, Some(Access::ReadWrite)),
                    K::Clobber => (1, Some(Access::Clobber)),
                    K::DuplicateInput => (0, None),
                    K::DuplicateOutput => (1, None),
                };
                let (ast::IoFileRedirectTarget::Filename(word)
                | ast::IoFileRedirectTarget::Duplicate(word)) = target
                else {
                    return Err(unsupported(line, "process substitution"));
                };
                let word = self.word(word)?.clone();
                let target = match access {
                    Some(access) => Target::File(access, word),
                    None => Target::Duplicate(word),
                };
                Ok(Redirect { fd: number(*fd, default), target })
            }
            ast::IoRedirect::HereDocument(fd, document) => Ok(Redirect {
                fd: number(*fd, 0),
                target: Target::Document(self.word(&document.doc)?.clone()),
            }),
            ast::IoRedirect::HereString(..) => Err(unsupported(line, "<<<")),
            ast::IoRedirect::OutputAndError(..) => Err(unsupported(line, "&>")),
        }
    }
}

fn unsupported(line: u32, name: &'static str) -> SyntaxError {
    SyntaxError::Unsupported { line, name }
}

fn line_of(span: Option<&SourceSpan>) -> u32 {
    span.map_or(1, |span| span.start.line as u32)
}

/// Whether other shells would make several words of `text`: `{a,b}`, `{1..9}`.
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

/// Whether `words` call a declaration utility, or `command` with one.
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
mod tests {
    use super::*;
    use crate::kernel::machine::memory::Memory;

    fn parse(source: &[u8], line: u32) -> Result<List, SyntaxError> {
        Ok(super::parse(source, line, Memory::new(u64::MAX).charge())?.0)
    }

    fn refusal(source: &str) -> String {
        parse(source.as_bytes(), 1).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn what_posix_has_not_is_refused_by_its_name() {
        let refused = [
            ("true\n[[ a = a ]]", "line 2: [[ … ]]"),
            ("a=(1 2)", "line 1: an array"),
            ("a[1]=x", "line 1: an array"),
            ("((x = 1))", "line 1: ((…))"),
            ("cat <(echo)", "line 1: process substitution"),
            ("select x in a; do :; done", "line 1: select"),
            ("function f { :; }", "line 1: function"),
            ("coproc x", "line 1: coproc"),
            ("cat &> f", "line 1: &>"),
            ("cat <<< x", "line 1: <<<"),
            ("echo ${x//a/b}", "line 1: ${x/a/b}"),
            ("echo ${x:1:2}", "line 1: ${x:1:2}"),
            ("echo {a,b}", "line 1: brace expansion"),
            ("echo $'a'", "line 1: $'…'"),
            ("a+=b", "line 1: +="),
            ("f() { echo \"$( : ; [[ x ]] )\"; }", "line 1: [[ … ]]"),
            ("for ((;;)); do :; done", "line 1: for ((…))"),
            ("a | b |& c", "line 1: |&"),
        ];
        for (source, what) in refused {
            assert_eq!(
                refusal(source),
                format!("{what} is not supported; POSIX has no such thing")
            );
        }
    }

    #[test]
    fn what_is_no_script_is_refused_with_its_line() {
        assert_eq!(refusal("echo\nfi x"), "2: Syntax error: \"x\" unexpected");
        assert_eq!(refusal("if true"), "1: Syntax error: end of file unexpected");
        assert_eq!(refusal("echo '"), "1: Syntax error: Unterminated quoted string");
        assert_eq!(refusal("99999999999>x"), "1: Syntax error: bad file descriptor number");
    }

    /// The parser and everything after it recurses.
    #[test]
    fn nesting_is_bounded() {
        for (open, close) in
            [("( ", ")"), ("{ ", "; }"), ("$(", ")"), ("if ", "; then :; fi"), ("${a-", "}")]
        {
            let nested = |depth: usize| format!("{}:{}", open.repeat(depth), close.repeat(depth));
            assert!(parse(nested(100).as_bytes(), 1).is_ok(), "{open}");
            assert!(refusal(&nested(100_000)).contains("constructs"));
        }
        assert!(refusal(&"case x in x) ".repeat(100_000)).contains("constructs"));
        assert!(refusal(&"case x in a) ;; }) ".repeat(100_000)).contains("constructs"));
    }

    /// The parser would read the innermost any number of times.
    #[test]
    fn case_in_case_is_read_once() {
        for end in ["; esac ", ";; esac ", "& esac "] {
            let source =
                format!("{}:{}", "case x in x) ".repeat(150), format!(" {end}").repeat(150));
            assert!(parse(source.as_bytes(), 1).is_ok(), "{end}");
        }
        let in_a_row = "case x in a|b) :;; (x) case y in esac;; *) esac; ".repeat(20_000);
        assert!(parse(in_a_row.as_bytes(), 1).is_ok());
        let malformed = format!("{}: )", "case x in x) ".repeat(150));
        assert_eq!(
            refusal(&malformed),
            "1: Syntax error: end of file unexpected (expecting \"esac\")"
        );
        let in_the_middle = format!("{} fi; {}", "case x in x)\n".repeat(100), "esac ".repeat(100));
        assert_eq!(refusal(&in_the_middle), "101: Syntax error: \";\" unexpected");
        assert!(refusal(&"case x in x) ".repeat(300)).contains("more than 200 constructs"));
    }

    #[test]
    fn what_is_no_case_is_refused() {
        for (source, what) in [
            ("case x y", "word unexpected (expecting \"in\")"),
            ("case x; in", "\";\" unexpected (expecting \"in\")"),
            ("case x in a b) ;; esac", "\"b\" unexpected"),
            ("case x in a|) ;; esac", "word unexpected"),
            ("case x in a) fi ;; esac", "\";;\" unexpected"),
            ("case x in a) if ;; esac", "end of file unexpected (expecting \"esac\")"),
            ("case x in a) :; esac; esac", "end of file unexpected"),
            ("case", "word expected after \"case\""),
        ] {
            assert_eq!(refusal(source), format!("1: Syntax error: {what}"), "{source}");
        }
    }

    #[test]
    fn case_may_stand_where_a_parenthesis_closes() {
        for source in [
            "(case a in a) :;; esac)",
            "echo $(case a in a) :;; (b) :; esac)",
            "(case x in x) ;; esac | cat)",
            "f() case x in (esac) ;; esac",
            "case in in in) :; esac > x",
        ] {
            assert!(parse(source.as_bytes(), 1).is_ok(), "{source}");
        }
    }
}
