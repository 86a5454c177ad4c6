//! Answers to questions: from a person, a test, or a file.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

use super::error::HostError;
use super::json;
use crate::base::disk::{self, DiskError};

/// Size limit of a file of answers.
const ANSWERS_BYTES_MAX: u64 = 4 << 20;

/// A question of a program or of the command policy.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The text.
    pub question: String,
    /// The allowed answers; any answer if empty.
    #[serde(default)]
    pub choices: Vec<String>,
    /// Replaces an empty answer.
    #[serde(default)]
    pub default: Option<String>,
}

/// Answers questions. Implemented by closures that take one.
pub trait Answers: Send + Sync {
    /// Returns the answer.
    ///
    /// # Errors
    /// Why there is none.
    fn answer(&self, question: &Question) -> Result<String, String>;
}

impl<F: Fn(&Question) -> Result<String, String> + Send + Sync> Answers for F {
    fn answer(&self, question: &Question) -> Result<String, String> {
        self(question)
    }
}

/// A list of answers, given one after the other.
pub struct ScriptedAnswers {
    name: String,
    answers: Vec<String>,
    given: Mutex<usize>,
}

/// A file of answers cannot be used.
#[derive(thiserror::Error)]
pub enum AnswersError {
    /// The file cannot be read.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The file is too long.
    #[error("{file} exceeds the limit of {ANSWERS_BYTES_MAX} bytes")]
    TooLong {
        /// The file.
        file: String,
    },
    /// The file is not a JSON list of strings.
    #[error("{file}, line {line}: {problem}; expected a list of strings, as in [\"yes\", \"no\"]")]
    Line {
        /// The file.
        file: String,
        /// From 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
}

crate::base::readable::readable!(AnswersError);

impl ScriptedAnswers {
    /// Gives `answers` in this order.
    pub fn new<T: Into<String>>(answers: impl IntoIterator<Item = T>) -> Self {
        let answers = answers.into_iter().map(Into::into).collect();
        Self { name: "the scripted answers".to_owned(), answers, given: Mutex::new(0) }
    }

    /// Reads answers from the file `path`, a JSON list of strings.
    ///
    /// # Errors
    /// [`AnswersError`], with the line.
    pub fn read(path: &Path) -> Result<Self, AnswersError> {
        let file = path.display().to_string();
        let Some(text) = disk::read_at_most(path, ANSWERS_BYTES_MAX)? else {
            return Err(AnswersError::TooLong { file });
        };
        let answers: Result<Vec<String>, _> = serde_json::from_slice(&text);
        let answers = answers.map_err(|error| {
            let (line, problem) = (error.line().max(1), error.to_string());
            AnswersError::Line { file: file.clone(), line, problem }
        })?;
        Ok(Self { name: file, ..Self::new(answers) })
    }
}

impl Answers for ScriptedAnswers {
    fn answer(&self, question: &Question) -> Result<String, String> {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(answer) = self.answers.get(*given) else {
            let Self { name, answers, .. } = self;
            let count = answers.len();
            return Err(format!(
                "{name}: all {count} answers are used; none is left for {:?}",
                question.question
            ));
        };
        *given += 1;
        Ok(answer.clone())
    }
}

/// The answer to `question`: one of its choices, or its default if the answer is empty.
///
/// # Errors
/// There is no answer, or it is none of the choices.
pub(super) fn ask(
    name: &str,
    answers: Option<&dyn Answers>,
    question: &Question,
) -> Result<String, HostError> {
    let Question { question: text, choices, default } = question;
    let Some(answers) = answers else {
        let problem = format!("no answers are configured for the question {text:?}");
        return Err(HostError::failed(name, problem));
    };
    let answer = answers.answer(question).map_err(|why| HostError::failed(name, why))?;
    let answer = match default {
        Some(default) if answer.is_empty() => default.clone(),
        _ => answer,
    };
    if !choices.is_empty() && !choices.contains(&answer) {
        let choices = choices.join(", ");
        let problem = format!("invalid answer {answer:?} to {text:?}; expected one of {choices}");
        return Err(HostError::failed(name, problem));
    }
    Ok(answer)
}

/// Parses a question.
///
/// # Errors
/// [`HostError::Params`].
pub(super) fn question(name: &str, params: &serde_json::Value) -> Result<Question, HostError> {
    let question: Question = json::take(name, params)?;
    match &question {
        Question { default: Some(default), choices, .. }
            if !choices.is_empty() && !choices.contains(default) =>
        {
            Err(HostError::params(name, format!("the default {default:?} is not a choice")))
        }
        _ => Ok(question),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripted_answers_are_given_in_order_then_fail() {
        let script = ScriptedAnswers::new(["a", ""]);
        let ask = |default: Option<&str>| {
            let default = default.map(Into::into);
            let question = Question { question: "which?".into(), choices: Vec::new(), default };
            ask("interaction.ask", Some(&script), &question).map_err(|error| error.to_string())
        };
        assert_eq!(ask(None).unwrap(), "a");
        assert_eq!(ask(Some("b")).unwrap(), "b");
        let error = ask(None).unwrap_err();
        assert!(error.contains("all 2 answers are used; none is left for \"which?\""), "{error}");
    }

    #[test]
    fn answer_must_be_one_of_the_choices() {
        let choices = vec!["yes".to_owned(), "no".to_owned()];
        let question = Question { question: "sure?".into(), choices, default: None };
        let says = |text: &'static str| move |_: &Question| Ok(text.to_owned());
        assert_eq!(ask("i.ask", Some(&says("no")), &question).unwrap(), "no");
        let error = ask("i.ask", Some(&says("maybe")), &question).unwrap_err().to_string();
        assert!(error.contains("invalid answer \"maybe\"") && error.contains("yes, no"), "{error}");
        assert!(
            ask("i.ask", None, &question)
                .unwrap_err()
                .to_string()
                .contains("no answers are configured")
        );
    }
}
