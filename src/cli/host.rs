//! `belljar host`, and the host of all runs.

use std::io::{BufRead, IsTerminal, Read, Write};
use std::sync::Arc;

use anyhow::{Context, Result};
use belljar::Outcome;
use belljar::base::disk;
use belljar::host::{
    Answers, CommandPolicy, HostError, Question, ScriptedAnswers, SessionHost, SessionHostBuilder,
};
#[cfg(feature = "http")]
use belljar::net::{Credentials, HttpClient};
use belljar::toolchain::similar;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde_json::{Value, json};

use super::args::{AnswerArgs, OnMissing, RunArgs};
use super::exit::{Usage, WOULD_CHANGE};
#[cfg(feature = "http")]
use super::net;
use super::overtime::Overtime;
use super::replaceable::Written;
use super::report::{Report, printable};
use super::sink::{self, Failure, Once, Opened, Stdout};
use super::values::{Sink, StdinFrom};
use super::{changes, run, setup};

/// Exit code of a call that failed.
const CALL_FAILED: u8 = 1;

/// Bytes of parameters that are read.
const PARAMS_BYTES_MAX: u64 = 1 << 30;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar host manifest                         what can be asked for
  belljar host call workspace.cwd               ask for something
  belljar host call process.exec --params '{\"command\": \"ls | wc -l\"}'

A field that an operation does not take is refused with the names of those that it takes.

`belljar help host call` says more.")]
pub struct HostArgs {
    #[command(subcommand)]
    pub action: HostAction,
}

#[derive(clap::Subcommand, Debug)]
pub enum HostAction {
    /// List what programs may ask of their host
    Manifest {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Ask the host, as a program would, and print the answer
    Call(Box<CallArgs>),
}

const CALL_HELP: &str = "Examples:
  belljar host call workspace.cwd
  belljar host call process.exec --params '{\"argv\": [\"wc\", \"README.md\"]}'
  belljar host call template.render --params @params.json --worktree templates
  belljar host call process.exec --host-policy policy.json --params -

The other options are those of `belljar run`. Exit codes: 0 for an answer, also one about a \
command that failed, 1 for a call that failed, 126 for a command that the policy blocked, \
2 for a command line that makes no sense.";

#[derive(Args, Debug)]
#[command(override_usage = "belljar host call [OPTIONS] CAPABILITY.OPERATION")]
pub struct CallArgs {
    /// What is passed: JSON, a file after @, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", help_heading = "Call", allow_hyphen_values = true)]
    pub params: Option<String>,

    #[command(flatten)]
    pub run: CallRunArgs,
}

/// The options of a run, which stand before or after the one word that is no option.
#[derive(Debug)]
pub struct CallRunArgs(RunArgs);

/// Options of a run that a call has no use for.
const NOT_FOR_CALLS: [&str; 2] = ["argv0", "stdin"];

impl CallRunArgs {
    fn change(command: Command) -> Command {
        let command = command.mut_arg("command", |word| {
            let name = "CAPABILITY.OPERATION";
            let word = word.trailing_var_arg(false).allow_hyphen_values(false);
            word.num_args(1).value_names([name]).help("What to ask for").long_help(None::<&str>)
        });
        // Those of a run have its own help.
        let command = command.after_help(CALL_HELP).after_long_help(CALL_HELP);
        NOT_FOR_CALLS.iter().fold(command, |command, id| command.mut_arg(*id, |arg| arg.hide(true)))
    }
}

impl FromArgMatches for CallRunArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        RunArgs::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl Args for CallRunArgs {
    fn augment_args(command: Command) -> Command {
        Self::change(RunArgs::augment_args(command))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::change(RunArgs::augment_args_for_update(command))
    }
}

pub fn run(args: &HostArgs) -> Result<u8> {
    match &args.action {
        HostAction::Manifest { json } => manifest(*json),
        HostAction::Call(args) => call(args),
    }
}

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
    let network = setup::network_policy(&args.rules)?;
    #[cfg(feature = "http")]
    let host = host.network_policy(network);
    #[cfg(not(feature = "http"))]
    let _ = network;
    Ok(host.build())
}

/// What hosts are, of which any number can be made.
pub struct HostSettings {
    policy: CommandPolicy,
    answers: Option<Arc<dyn Answers>>,
    task: Option<String>,
    #[cfg(feature = "http")]
    credentials: Credentials,
}

impl HostSettings {
    /// Hosts under `policy` that answer as `args` say.
    ///
    /// # Errors
    /// [`Usage`] for a file, or a credential, that cannot be used.
    pub fn of_args(policy: CommandPolicy, args: &AnswerArgs) -> Result<Self> {
        let answers: Option<Arc<dyn Answers>> = match &args.host_answers {
            Some(path) => {
                let answers = ScriptedAnswers::read(path);
                Some(Arc::new(answers.map_err(|error| Usage::of("--host-answers", error))?))
            }
            None if std::io::stdin().is_terminal() && setup::stderr_is_terminal() => {
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

    /// One of them, which may reach nobody.
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

/// Asks whoever sits at the terminal.
fn ask_on_terminal(question: &Question) -> Result<String, String> {
    let choices = match &question.choices {
        choices if choices.is_empty() => String::new(),
        choices => format!(" [{}]", choices.join("/")),
    };
    let default = question.default.as_ref().map(|text| format!(" (default: {text})"));
    let text = format!("{}{choices}{}", question.question, default.unwrap_or_default());
    let mut stderr = std::io::stderr();
    // Who cannot be asked will not answer.
    let _ = write!(stderr, "belljar: {} ", printable(&text)).and_then(|()| stderr.flush());
    let mut answer = String::new();
    match std::io::stdin().lock().read_line(&mut answer) {
        Ok(0) => Err(format!("nobody answers {:?}", question.question)),
        Ok(_) => Ok(answer.trim_end_matches(['\r', '\n']).to_owned()),
        Err(error) => Err(format!("cannot read the answer to {:?}: {error}", question.question)),
    }
}

fn manifest(json: bool) -> Result<u8> {
    let manifest = SessionHost::default().capabilities();
    if json {
        say!("{}", serde_json::to_string(&manifest)?);
        return Ok(0);
    }
    let operations = manifest.iter().flat_map(|(capability, entry)| {
        let name = move |operation: &String| format!("{capability}.{operation}");
        entry.operations.iter().map(move |(op, what)| (name(op), what.description.clone()))
    });
    for (name, description) in operations {
        say!("{name:28} {description}");
    }
    Ok(0)
}

fn call(call: &CallArgs) -> Result<u8> {
    let args = &call.run.0;
    refuse_unused(args)?;
    run::check_paths(args, None)?;
    let name = args.program()?.to_string_lossy().into_owned();
    let stdout = Stdout::default();
    let open = |what, sink: &Sink| Opened::new(what, sink, &stdout);
    let json_to = args.json.as_ref().map(|sink| open(Written::Report, sink)).transpose()?;
    let diff_to = args.diff.as_ref().map(|sink| open(Written::Patch, sink)).transpose()?;
    let params = params(call)?;
    let host = of_args(args)?;
    let children = setup::native_children(args)?;
    let (mut machine, preopens) = setup::machine(args, None, children.as_ref(), &host)?;
    let trace_failure = Failure::default();
    machine.set_trace(run::trace(args, &trace_failure)?);
    let environment = setup::environment(&args.env)?;
    let calling = Overtime::watch(args.limits.timeout, &name, "ended", &Once::new(None));
    let result = host.call_as(&mut machine, &name, &params, |command| {
        run::set_up(command, args, environment, preopens);
    });
    drop(calling);
    machine.set_trace(None);
    let code = match &result {
        Err(_) => CALL_FAILED,
        Ok(value) if name == "process.exec" && value["status"] == "blocked" => {
            super::exit::NOT_RUNNABLE
        }
        Ok(_) => 0,
    };
    match (json_to, &result) {
        (Some(to), result) => to.print(&format!("{}\n", answer(result)))?,
        (None, Ok(Value::String(text))) => {
            let end = if text.ends_with('\n') { "" } else { "\n" };
            sink::print(format!("{text}{end}").as_bytes());
        }
        (None, Ok(value)) => say!("{}", serde_json::to_string_pretty(value)?),
        (None, Err(error)) => {
            let hint = hint(error, &name, args, &host);
            let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            complain!("belljar: {}{hint}", printable(&error.to_string()));
        }
    }
    let outcome = Outcome::Exited(code.into());
    let mut report = Report::default();
    changes::settle(args, &mut machine, &outcome, diff_to, &Once::new(None), &mut report)?;
    trace_failure.check("--trace")?;
    if args.check && code == 0 && !report.changes.is_empty() {
        return Ok(WOULD_CHANGE);
    }
    Ok(code)
}

/// What may help a call that failed.
fn hint(error: &HostError, name: &str, args: &RunArgs, host: &SessionHost) -> Option<String> {
    match error {
        HostError::Unsupported { .. } => {
            let known = host.capabilities().into_iter().flat_map(|(capability, entry)| {
                entry.operations.into_keys().map(move |op| format!("{capability}.{op}"))
            });
            let meant = match similar(name, &known.collect::<Vec<_>>()) {
                similar if similar.is_empty() => String::new(),
                similar => format!("did you mean {}? ", similar.join(", ")),
            };
            Some(format!("{meant}`belljar host manifest` lists what there is"))
        }
        HostError::EgressBlocked { .. } => Some("--allow-net adds a rule".to_owned()),
        HostError::Failed { .. }
            if name == "interaction.ask" && args.answers.host_answers.is_none() =>
        {
            Some("--host-answers names a file of answers; a terminal is asked otherwise".to_owned())
        }
        _ => None,
    }
}

fn refuse_unused(args: &RunArgs) -> Result<()> {
    if let [_, more, ..] = args.command.as_slice() {
        let more = printable(&more.to_string_lossy());
        let why = format!("{more} is one word too many: what is passed comes after --params");
        return Err(Usage(why).into());
    }
    let options =
        [("--argv0", args.argv0.is_some()), ("--stdin", !matches!(args.stdin, StdinFrom::Inherit))];
    match options.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => {
            Err(Usage(format!("{option} is not for calls; see `belljar host call --help`")).into())
        }
    }
}

fn answer(result: &Result<Value, HostError>) -> Value {
    match result {
        Ok(value) => json!({ "ok": value }),
        Err(error) => json!({ "error": { "kind": error.kind(), "message": error.to_string() } }),
    }
}

/// What is passed.
fn params(call: &CallArgs) -> Result<Value> {
    let Some(given) = &call.params else { return Ok(json!({})) };
    let text = if given == "-" {
        let mut text = Vec::new();
        let mut stdin = std::io::stdin().lock().take(PARAMS_BYTES_MAX);
        stdin.read_to_end(&mut text).context("cannot read standard input")?;
        text
    } else if let Some(path) = given.strip_prefix('@') {
        let read = disk::read_at_most(path.as_ref(), PARAMS_BYTES_MAX);
        read.map_err(|error| Usage::of("--params", error))?.ok_or_else(|| {
            let size = bytesize::ByteSize(PARAMS_BYTES_MAX).display().iec();
            Usage(format!("--params: {path} has more than {size}"))
        })?
    } else {
        given.clone().into_bytes()
    };
    let value = belljar::host::parse_json(&text);
    value.map_err(|error| Usage(format!("--params is no JSON: {error}")).into())
}
