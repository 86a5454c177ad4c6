//! The host that programs call.

use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;

use anyhow::Result;

use super::args::groups::AnswerArgs;
use super::args::run::{OnMissing, RunArgs};
use super::exit::Usage;
use super::message;
#[cfg(feature = "http")]
use super::net;
use super::options;
use super::text::printable;
use crate::host::{
    Answers, CommandPolicy, Question, ScriptedAnswers, SessionHost, SessionHostBuilder,
};
#[cfg(feature = "http")]
use crate::net::{Credentials, HttpClient};

/// The host that `args` ask for.
///
/// # Errors
/// [`Usage`] if a file cannot be used.
pub fn of_args(args: &RunArgs) -> Result<SessionHost> {
    let policy = match &args.rules.host_policy {
        None => CommandPolicy::default(),
        Some(path) => {
            CommandPolicy::read(path).map_err(|error| Usage::of("--host-policy", error))?
        }
    };
    let mut host = HostSettings::of_args(policy, &args.answers)?.builder();
    if args.on_missing == OnMissing::Native {
        host = host.sandbox_profile(args.profile);
    }
    let network = options::network_policy(&args.rules)?;
    #[cfg(feature = "http")]
    let host = host.network_policy(network);
    #[cfg(not(feature = "http"))]
    let _ = network;
    Ok(host.build())
}

/// The settings of hosts, from which any number can be built.
pub struct HostSettings {
    policy: CommandPolicy,
    answers: Option<Arc<dyn Answers>>,
    task: Option<String>,
    #[cfg(feature = "http")]
    credentials: Credentials,
}

impl HostSettings {
    /// Settings with `policy`, and answers as in `args`.
    ///
    /// # Errors
    /// [`Usage`] for a file, or a credential, that cannot be used.
    pub fn of_args(policy: CommandPolicy, args: &AnswerArgs) -> Result<Self> {
        let answers: Option<Arc<dyn Answers>> = match &args.host_answers {
            Some(path) => {
                let answers = ScriptedAnswers::read(path);
                Some(Arc::new(answers.map_err(|error| Usage::of("--host-answers", error))?))
            }
            None if std::io::stdin().is_terminal() && message::stderr_is_terminal() => {
                Some(Arc::new(ask_on_terminal))
            }
            None => None,
        };
        #[cfg(not(feature = "http"))]
        if !args.credential.is_empty() {
            let why = "--credential: this belljar was built without the feature `http`";
            return Err(Usage(why.to_owned()).into());
        }
        Ok(Self {
            policy,
            answers,
            task: args.host_task.clone(),
            #[cfg(feature = "http")]
            credentials: net::credentials(&args.credential)?,
        })
    }

    /// A builder with these settings, and without network.
    pub fn builder(&self) -> SessionHostBuilder {
        let mut host = SessionHost::builder().policy(self.policy.clone());
        if let Some(answers) = self.answers.clone() {
            host = host.answers(move |question: &Question| answers.answer(question));
        }
        if let Some(task) = &self.task {
            host = host.task(task.as_str());
        }
        #[cfg(feature = "http")]
        let host = host.http(HttpClient::default().credentials(self.credentials.clone()));
        host
    }
}

/// Asks on the terminal.
fn ask_on_terminal(question: &Question) -> Result<String, String> {
    let choices = match &question.choices {
        choices if choices.is_empty() => String::new(),
        choices => format!(" [{}]", choices.join("/")),
    };
    let default = question.default.as_ref().map(|text| format!(" (default: {text})"));
    let text = format!("{}{choices}{}", question.question, default.unwrap_or_default());
    let mut stderr = std::io::stderr();
    // Errors are ignored: a question that is not seen gets no answer.
    let _ = write!(stderr, "belljar: {} ", printable(&text)).and_then(|()| stderr.flush());
    let mut answer = String::new();
    match std::io::stdin().lock().read_line(&mut answer) {
        Ok(0) => Err(format!("no answer to {:?}: standard input has ended", question.question)),
        Ok(_) => Ok(answer.trim_end_matches(['\r', '\n']).to_owned()),
        Err(error) => Err(format!("cannot read the answer to {:?}: {error}", question.question)),
    }
}
