//! Whoever answers questions: a person, a test, or a file.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

use super::error::HostError;
use super::json;
use crate::base::disk::{self, DiskError};

/// Bytes of a file of answers.
const ANSWERS_BYTES_MAX: u64 = 4 << 20;

/// A question that a program asks, or the command policy.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// What is asked.
    pub question: String,
    /// What can be answered; anything, if there are none.
    #[serde(default)]
    pub choices: Vec<String>,
    /// What stands for an empty answer.
    #[serde(default)]
    pub default: Option<String>,
}

/// Answers questions. Any closure that takes one does.
pub trait Answers: Send + Sync {
    /// The answer.
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

/// Answers that were written down, given one after the other.
pub struct ScriptedAnswers {
    name: String,
    answers: Vec<String>,
    given: Mutex<usize>,
}

/// A file that holds no answers.
#[derive(thiserror::Error)]
pub enum AnswersError {
    /// It cannot be read.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// It is too long.
    #[error("{file} has more than {ANSWERS_BYTES_MAX} bytes")]
    TooLong {
        /// The file.
        file: String,
    },
    /// It is something else.
    #[error("{file}, line {line}: {problem}; expected a list of texts, as in [\"yes\", \"no\"]")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
}

crate::base::readable::readable!(AnswersError);

impl ScriptedAnswers {
    /// These answers, in this order.
    pub fn new<T: Into<String>>(answers: impl IntoIterator<Item = T>) -> Self {
        let answers = answers.into_iter().map(Into::into).collect();
        Self { name: "the scripted answers".to_owned(), answers, given: Mutex::new(0) }
    }

    /// Those in the file `path`: a list of texts, as JSON.
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
                "{name}: no answer is left of {count} for {:?}",
                question.question
            ));
        };
        *given += 1;
        Ok(answer.clone())
    }
}

/// What `answers` says to `question`: one of its choices, or its default for an empty answer.
///
/// # Errors
/// Nobody answers, or something else.
pub(super) fn ask(
    name: &str,
    answers: Option<&dyn Answers>,
    question: &Question,
) -> Result<String, HostError> {
    let Question { question: text, choices, default } = question;
    let Some(answers) = answers else {
        let problem = format!("nobody is there to answer {text:?}");
        return Err(HostError::failed(name, problem));
    };
    let answer = answers.answer(question).map_err(|why| HostError::failed(name, why))?;
    let answer = match default {
        Some(default) if answer.is_empty() => default.clone(),
        _ => answer,
    };
    if !choices.is_empty() && !choices.contains(&answer) {
        let choices = choices.join(", ");
        let problem = format!("{answer:?} is no answer to {text:?}; expected one of {choices}");
        return Err(HostError::failed(name, problem));
    }
    Ok(answer)
}

/// The question that `params` are.
///
/// # Errors
/// They are none.
pub(super) fn question(name: &str, params: &serde_json::Value) -> Result<Question, HostError> {
    let question: Question = json::take(name, params)?;
    match &question {
        Question { default: Some(default), choices, .. }
            if !choices.is_empty() && !choices.contains(default) =>
        {
            Err(HostError::params(name, format!("the default {default:?} is none of the choices")))
        }
        _ => Ok(question),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripted_answers_come_in_their_order_and_end() {
        let script = ScriptedAnswers::new(["a", ""]);
        let ask = |default: Option<&str>| {
            let default = default.map(Into::into);
            let question = Question { question: "which?".into(), choices: Vec::new(), default };
            ask("interaction.ask", Some(&script), &question).map_err(|error| error.to_string())
        };
        assert_eq!(ask(None).unwrap(), "a");
        assert_eq!(ask(Some("b")).unwrap(), "b");
        let error = ask(None).unwrap_err();
        assert!(error.contains("no answer is left of 2 for \"which?\""), "{error}");
    }

    #[test]
    fn an_answer_is_one_of_the_choices() {
        let choices = vec!["yes".to_owned(), "no".to_owned()];
        let question = Question { question: "sure?".into(), choices, default: None };
        let says = |text: &'static str| move |_: &Question| Ok(text.to_owned());
        assert_eq!(ask("i.ask", Some(&says("no")), &question).unwrap(), "no");
        let error = ask("i.ask", Some(&says("maybe")), &question).unwrap_err().to_string();
        assert!(error.contains("\"maybe\" is no answer") && error.contains("yes, no"), "{error}");
        assert!(ask("i.ask", None, &question).unwrap_err().to_string().contains("nobody is there"));
    }
}
