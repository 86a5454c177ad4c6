//! Word expansion (POSIX 2.6).

use std::pin::Pin;
use std::sync::Arc;

use super::arithmetic::{self, Names};
use super::context::{Run, Shell};
use super::fields::{Field, Fields, Separators, WORD_BYTES_MAX, WordError};
use super::held::{Held, Words};
use super::image::Part;
use super::state::Variables;
use super::tree::{List, Operator, Parameter, Piece, Word, is_name};
use super::words::{assigned, assigned_value};
use crate::kernel::guest::FdAction;
use crate::kernel::machine::limits::Stop;

/// The value of a parameter.
enum Value {
    /// Unset.
    Unset,
    Text(Arc<[u8]>),
    /// `$@` and `$*`.
    All(Vec<Vec<u8>>),
}

impl Value {
    fn is_unset(&self, or_empty: bool) -> bool {
        match self {
            Self::Unset => true,
            Self::Text(text) => or_empty && text.is_empty(),
            Self::All(all) => all.is_empty() || or_empty && all.iter().all(Vec::is_empty),
        }
    }
}

const DEFAULT_IFS: &[u8] = b" \t\n";

type Waiting<'a, T> = Pin<Box<dyn Future<Output = Run<T>> + 'a>>;

impl Shell {
    fn separators(&self) -> Arc<[u8]> {
        self.state.variables.get(b"IFS").cloned().unwrap_or_else(|| DEFAULT_IFS.into())
    }

    /// Expands `words` to fields, with pathname expansion.
    pub async fn fields(&mut self, words: &[Word]) -> Run<Words> {
        let mut all = Words::none(self.memory());
        let separators = Separators::new(&self.separators());
        for word in words {
            if let [Piece::Text(text) | Piece::Quoted(text)] = word.0.as_slice()
                && !text.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
            {
                let added = all.add(text.to_vec());
                self.check_memory(added).await?;
                continue;
            }
            let mut fields = Fields::new(Some(separators.clone()), self.memory());
            self.expand(&word.0, &mut fields, false).await?;
            let done = fields.end_open();
            self.check_word(done).await?;
            for field in fields.done {
                self.add_matches(field, &mut all).await?;
            }
        }
        Ok(all)
    }

    /// As [`Shell::fields`], but words of the form of assignments are expanded as assignments.
    pub async fn declared_fields(&mut self, words: &[Word]) -> Run<Words> {
        let mut all = Words::none(self.memory());
        for word in words {
            if let Some(name) = assigned(word).filter(|name| is_name(name)) {
                let value = self.text(&assigned_value(word.clone(), name.len() + 1)).await?;
                let added = all.add([name, b"=", &value].concat());
                self.check_memory(added).await?;
                continue;
            }
            for field in &*self.fields(std::slice::from_ref(word)).await? {
                let added = all.add(field.clone());
                self.check_memory(added).await?;
            }
        }
        Ok(all)
    }

    async fn add_matches(&mut self, field: Field, all: &mut Words) -> Run {
        let mut matches = Words::none(self.memory());
        if field.has_pattern && !self.state.options.noglob {
            matches = self.matches(&field).await?;
        }
        let added = if matches.is_empty() { all.add(field.text) } else { all.append(matches) };
        self.check_memory(added).await
    }

    /// Expands `word` without field splitting and pathname expansion.
    pub async fn text(&mut self, word: &Word) -> Run<Vec<u8>> {
        match word.0.as_slice() {
            [] => Ok(Vec::new()),
            [Piece::Text(text) | Piece::Quoted(text)] => Ok(text.to_vec()),
            pieces => Ok(self.field(pieces).await?.text),
        }
    }

    /// As [`Shell::text`], but keeps what is needed to match it as a pattern.
    pub async fn field(&mut self, pieces: &[Piece]) -> Run<Field> {
        let mut fields = Fields::new(None, self.memory());
        self.expand(pieces, &mut fields, false).await?;
        Ok(fields.into_one())
    }

    /// Expands `pieces`. Their text is split if they are `nested` in an expansion.
    async fn expand(&mut self, pieces: &[Piece], out: &mut Fields, nested: bool) -> Run {
        for piece in pieces {
            let done = match piece {
                Piece::Text(text) if nested => out.push_expanded(text),
                Piece::Text(text) => out.push_literal(text),
                Piece::Quoted(text) => out.push_quoted(text),
                Piece::Tilde => match self.state.variables.get(b"HOME") {
                    Some(home) => out.push_quoted(home),
                    None => out.push_literal(b"~"),
                },
                Piece::Parameter { parameter, operator: Operator::Value, quoted } => {
                    let value = self.value(parameter);
                    if value.is_unset(false) {
                        self.check_set(parameter).await?;
                    }
                    self.add(&value, parameter, *quoted, out)
                }
                Piece::Parameter { parameter, operator, quoted } => {
                    self.operate_boxed(parameter, operator, *quoted, out).await?;
                    Ok(())
                }
                Piece::Substitution { script, quoted } => {
                    let output = self.substitute(script).await?;
                    if *quoted { out.push_quoted(&output) } else { out.push_expanded(&output) }
                }
                Piece::Arithmetic { expression, quoted } => {
                    let text = self.nested_field(&expression.0).await?.text;
                    let value = self.evaluate(&text).await?.to_string();
                    let value = value.as_bytes();
                    if *quoted { out.push_quoted(value) } else { out.push_expanded(value) }
                }
            };
            self.check_word(done).await?;
        }
        Ok(())
    }

    async fn check_word(&mut self, done: Result<(), WordError>) -> Run {
        match done {
            Ok(()) => Ok(()),
            Err(error) => self.fail(&error.to_string()).await,
        }
    }

    fn expand_boxed<'a>(&'a mut self, pieces: &'a [Piece], out: &'a mut Fields) -> Waiting<'a, ()> {
        Box::pin(async move { self.expand(pieces, out, true).await })
    }

    fn nested_field<'a>(&'a mut self, pieces: &'a [Piece]) -> Waiting<'a, Field> {
        Box::pin(self.field(pieces))
    }

    fn operate_boxed<'a>(
        &'a mut self,
        parameter: &'a Parameter,
        operator: &'a Operator,
        quoted: bool,
        out: &'a mut Fields,
    ) -> Waiting<'a, ()> {
        Box::pin(self.operate(parameter, operator, quoted, out))
    }

    /// Evaluates the arithmetic expression `text`.
    pub async fn evaluate(&mut self, text: &[u8]) -> Run<i64> {
        let mut names = ShellNames(&mut self.state.variables);
        match arithmetic::evaluate(text, &mut names) {
            Ok(value) => Ok(value),
            Err(message) => self.fail(&message).await,
        }
    }

    fn value(&self, parameter: &Parameter) -> Value {
        let number = |number: u64| Value::Text(number.to_string().into_bytes().into());
        match parameter {
            Parameter::Variable(name) => match self.state.variables.get(name) {
                Some(value) => Value::Text(value.clone()),
                None if **name == *b"LINENO" => number(self.state.line.into()),
                None if **name == *b"PPID" => number(self.state.parent.0.into()),
                None => Value::Unset,
            },
            Parameter::Positional(index) => match self.state.parameters.get(index - 1) {
                Some(value) => Value::Text(value.as_slice().into()),
                None => Value::Unset,
            },
            Parameter::Name => Value::Text(self.state.name.clone()),
            Parameter::All | Parameter::Joined => Value::All(self.state.parameters.to_vec()),
            Parameter::Count => number(self.state.parameters.len() as u64),
            Parameter::Status => number(self.state.status.into()),
            Parameter::Options => Value::Text(self.state.options.letters().into()),
            Parameter::Pid => number(self.state.pid.0.into()),
            Parameter::Background => match self.state.background {
                Some(pid) => number(pid.0.into()),
                None => Value::Unset,
            },
        }
    }

    async fn check_set(&mut self, parameter: &Parameter) -> Run {
        if !self.state.options.nounset || matches!(parameter, Parameter::All | Parameter::Joined) {
            return Ok(());
        }
        let name = shown(parameter);
        self.fail(&format!("{name}: parameter not set")).await
    }

    fn add(
        &self,
        value: &Value,
        parameter: &Parameter,
        quoted: bool,
        out: &mut Fields,
    ) -> Result<(), WordError> {
        match value {
            Value::Unset if quoted => out.push_quoted(b""),
            Value::Unset => Ok(()),
            Value::Text(text) if quoted => out.push_quoted(text),
            Value::Text(text) => out.push_expanded(text),
            Value::All(all) => self.add_all(all, *parameter == Parameter::Joined, quoted, out),
        }
    }

    fn add_all(
        &self,
        all: &[Vec<u8>],
        joined: bool,
        quoted: bool,
        out: &mut Fields,
    ) -> Result<(), WordError> {
        let separators = self.separators();
        let separator = if joined { &separators[..separators.len().min(1)] } else { b" " };
        if quoted && joined && all.is_empty() {
            return out.push_quoted(b"");
        }
        for (index, text) in all.iter().enumerate() {
            let is_first = index == 0;
            match (quoted, joined || !out.splits()) {
                (true, true) if is_first => out.push_quoted(text)?,
                (true, true) => {
                    out.push_quoted(separator)?;
                    out.push_quoted(text)?;
                }
                (true, false) => {
                    if !is_first {
                        out.end_open()?;
                    }
                    out.push_quoted(text)?;
                }
                (false, _) => {
                    if !is_first && out.splits() {
                        out.end_open()?;
                    } else if !is_first {
                        out.push_expanded(separator)?;
                    }
                    out.push_expanded(text)?;
                }
            }
        }
        Ok(())
    }

    async fn operate(
        &mut self,
        parameter: &Parameter,
        operator: &Operator,
        quoted: bool,
        out: &mut Fields,
    ) -> Run {
        let value = self.value(parameter);
        let word = match operator {
            Operator::Value => {
                let done = self.add(&value, parameter, quoted, out);
                return self.check_word(done).await;
            }
            Operator::Length => return self.add_length(&value, parameter, quoted, out).await,
            Operator::Trim { suffix, longest, pattern } => {
                if value.is_unset(false) {
                    self.check_set(parameter).await?;
                }
                if matches!(value, Value::Unset) {
                    let done = self.add(&value, parameter, quoted, out);
                    return self.check_word(done).await;
                }
                let pattern = self.field(&pattern.0).await?;
                let pattern = self.pattern(&pattern, 0..pattern.text.len()).await?;
                let value = self.stepwise(|steps| {
                    let mut trimmed = |text: &[u8]| {
                        let left = pattern.trim(text, *suffix, *longest, steps)?;
                        Ok(text[left].to_vec())
                    };
                    Ok(match value {
                        Value::Unset => Value::Unset,
                        Value::Text(text) => Value::Text(trimmed(&text)?.into()),
                        Value::All(all) => {
                            let all = all.iter().map(|text| trimmed(text));
                            Value::All(all.collect::<Result<_, Stop>>()?)
                        }
                    })
                })?;
                let done = self.add(&value, parameter, quoted, out);
                return self.check_word(done).await;
            }
            Operator::Default { or_empty, word } if value.is_unset(*or_empty) => Some(word),
            Operator::Assign { or_empty, word } if value.is_unset(*or_empty) => {
                let value = self.assign(parameter, word).await?;
                let done = self.add(&value, parameter, quoted, out);
                return self.check_word(done).await;
            }
            Operator::Require { or_empty, word } if value.is_unset(*or_empty) => {
                let text = self.text(word).await?;
                let text = match text.as_slice() {
                    b"" if *or_empty => "parameter not set or null".into(),
                    b"" => "parameter not set".into(),
                    text => String::from_utf8_lossy(text).into_owned(),
                };
                return self.fail(&format!("{}: {text}", shown(parameter))).await;
            }
            Operator::Instead { or_empty, word } if !value.is_unset(*or_empty) => Some(word),
            Operator::Instead { .. } => {
                let done = self.add(&Value::Unset, parameter, quoted, out);
                return self.check_word(done).await;
            }
            Operator::Default { .. } | Operator::Assign { .. } | Operator::Require { .. } => None,
        };
        let done = match word {
            None => self.add(&value, parameter, quoted, out),
            Some(word) => {
                self.expand_boxed(&word.0, out).await?;
                if quoted && word.0.is_empty() { out.push_quoted(b"") } else { Ok(()) }
            }
        };
        self.check_word(done).await
    }

    async fn add_length(
        &mut self,
        value: &Value,
        parameter: &Parameter,
        quoted: bool,
        out: &mut Fields,
    ) -> Run {
        if value.is_unset(false) {
            self.check_set(parameter).await?;
        }
        let len = match value {
            Value::Unset => 0,
            Value::Text(text) => text.len(),
            Value::All(all) => all.iter().map(|text| text.len() + 1).sum::<usize>().max(1) - 1,
        };
        let value = Value::Text(len.to_string().into_bytes().into());
        let done = self.add(&value, parameter, quoted, out);
        self.check_word(done).await
    }

    async fn assign(&mut self, parameter: &Parameter, word: &Word) -> Run<Value> {
        let Parameter::Variable(name) = parameter else {
            return self.fail(&format!("{}: bad variable name", shown(parameter))).await;
        };
        let value: Arc<[u8]> = self.nested_field(&word.0).await?.text.into();
        self.set(name, value.clone()).await?;
        Ok(Value::Text(value))
    }

    /// Sets a variable.
    pub async fn set(&mut self, name: &[u8], value: impl Into<Arc<[u8]>>) -> Run {
        if let Err(error) = self.state.variables.set(name, value) {
            return self.fail(&error.to_string()).await;
        }
        // Other systems nearly always have `PATH` in the environment, so that a shell exports what a script assigns.
        let is_path = name == b"PATH" && self.guest.machine().kernel_version() > 10;
        if self.state.options.allexport || is_path {
            let exported = self.state.variables.export(name);
            self.check_memory(exported).await?;
        }
        if name == b"OPTIND" {
            self.state.getopts_at = 0;
        }
        Ok(())
    }

    /// Runs `script` and returns its output without trailing newlines.
    async fn substitute(&mut self, script: &Arc<List>) -> Run<Held<Vec<u8>>> {
        if script.is_empty() {
            self.substituted = Some(0);
            return Ok(Held::none(self.memory()));
        }
        let (reader, writer) = match self.pipe() {
            Ok(ends) => ends,
            Err(errno) => {
                return self.fail(&format!("Pipe call failed: {}", errno.meaning())).await;
            }
        };
        let to_pipe = [FdAction::Inherit { from: writer, to: 1 }];
        let started = self.start_part(Part::Substitution(script.clone()), &to_pipe).await;
        self.close(writer);
        let pid = match started {
            Ok(pid) => pid,
            Err(leave) => {
                self.close(reader);
                return Err(leave);
            }
        };
        let output = self.read_to_end(reader, WORD_BYTES_MAX).await?;
        self.close(reader);
        let status = self.wait_for(pid).await?;
        self.substituted = Some(status);
        let Ok(mut output) = output else {
            let max = WORD_BYTES_MAX >> 20;
            return self.fail(&format!("command substitution: more than {max} MiB")).await;
        };
        while output.last() == Some(&b'\n') {
            output.pop();
        }
        // Variables and arguments cannot hold NUL.
        output.retain(|byte| *byte != 0);
        Ok(output)
    }
}

struct ShellNames<'s>(&'s mut Variables);

impl Names for ShellNames<'_> {
    fn get(&self, name: &[u8]) -> Vec<u8> {
        self.0.get(name).map(|value| value.to_vec()).unwrap_or_default()
    }

    fn set(&mut self, name: &[u8], value: i64) -> Result<(), String> {
        let set = self.0.set(name, value.to_string().into_bytes());
        set.map_err(|error| error.to_string())
    }
}

/// The name of a parameter in messages.
fn shown(parameter: &Parameter) -> String {
    match parameter {
        Parameter::Variable(name) => String::from_utf8_lossy(name).into_owned(),
        Parameter::Positional(index) => index.to_string(),
        Parameter::Name => "0".into(),
        Parameter::All => "@".into(),
        Parameter::Joined => "*".into(),
        Parameter::Count => "#".into(),
        Parameter::Status => "?".into(),
        Parameter::Options => "-".into(),
        Parameter::Pid => "$".into(),
        Parameter::Background => "!".into(),
    }
}
