//! Messages about an invalid command line: one line, in the form of all other messages.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::OsStringValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};

use super::args::Cli;
use super::args::values::{Sink, host_of_mount};
use super::{exit, hints, run};

/// Prints what is wrong with the command line, and returns the exit code. Requested help comes this way,
/// too: it goes to standard output and is a success.
pub fn misunderstood(error: &clap::Error) -> u8 {
    if !error.use_stderr() {
        let _ = error.print();
        return 0;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return exit::USAGE;
    }
    let word = std::env::args_os().nth(1).unwrap_or_default().to_string_lossy().into_owned();
    let unknown = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(named)) if *named == word => Some(hints::no_such_command(&word)),
        Some(ContextValue::String(named)) => hints::no_such_subcommand(&word, named),
        _ => None,
    };
    if let Some(message) = unknown {
        complain!("belljar: {message}");
        return exit::USAGE;
    }
    let message = message(error);
    complain!("belljar: {message} (see `{} --help`)", command_path());
    if let Some((sink, folders)) = json_of_misunderstood(std::env::args_os()) {
        run::report_misunderstood(&message, &sink, folders);
    }
    exit::USAGE
}

/// What is wrong, in one line.
fn message(error: &clap::Error) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        Some(ContextValue::Strings(texts)) => texts.first().map(String::as_str),
        _ => None,
    };
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(argument) = text(ContextKind::InvalidArg)
    {
        let meant = text(ContextKind::SuggestedArg);
        // After `--` comes the program.
        if meant == Some(argument) {
            return format!("{argument} is after --, where the program begins: put it before");
        }
        let path = command_words();
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let elsewhere = hints::taken_elsewhere(argument, &path);
        let meant = elsewhere.or_else(|| meant.map(|meant| format!("did you mean {meant}?")));
        let meant = meant.map(|meant| format!("; {meant}")).unwrap_or_default();
        let what = if argument.starts_with('-') { "option" } else { "argument" };
        return format!("there is no {what} {argument}{meant}");
    }
    // The usage follows the first paragraph.
    let mut whole = error.to_string();
    if let Some(argument) = text(ContextKind::InvalidArg)
        && let Some(variable) = variable_of(argument)
    {
        whole = whole.replace(&format!("'{argument}'"), &format!("the variable {variable}"));
    }
    let lines = whole.lines().take_while(|line| !line.is_empty()).map(str::trim);
    let lines = lines.collect::<Vec<_>>().join(" ");
    lines.trim_start_matches("error: ").to_owned()
}

/// The variable that sets `argument`, such as `--tier <TIER>`, if the command line does not.
fn variable_of(argument: &str) -> Option<String> {
    fn of(command: &Command, long: &str) -> Option<String> {
        let arg = command.get_arguments().find(|arg| arg.get_long() == Some(long));
        let variable = arg.and_then(|arg| Some(arg.get_env()?.to_string_lossy().into_owned()));
        variable.or_else(|| command.get_subcommands().find_map(|command| of(command, long)))
    }
    let option = argument.split(' ').next().filter(|option| option.starts_with("--"))?;
    let gives = |word: OsString| {
        let rest = word.to_str().and_then(|word| word.strip_prefix(option));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    let variable = of(&Cli::command(), option.trim_start_matches('-'))?;
    (!std::env::args_os().any(gives)).then_some(variable)
}

/// The words of this process's command line that name a command, such as `belljar sandbox exec`.
fn command_path() -> String {
    [vec!["belljar".to_owned()], command_words()].concat().join(" ")
}

/// As [`command_path`], without belljar itself.
fn command_words() -> Vec<String> {
    let mut words = Vec::new();
    let root = Cli::command();
    let mut command = &root;
    for word in std::env::args_os().skip(1) {
        let Some(found) = word.to_str().and_then(|word| command.find_subcommand(word)) else {
            break;
        };
        words.push(found.get_name().to_owned());
        command = found;
    }
    words
}

/// The output of `--json` in an invalid command line, if it is one of `run`, and the directories that its
/// programs could change. Values are not parsed, as one of them may be the invalid one.
fn json_of_misunderstood(args: impl Iterator<Item = OsString>) -> Option<(Sink, Vec<PathBuf>)> {
    let lenient = Cli::command().ignore_errors(true).mut_subcommand("run", |run| {
        run.mut_args(|arg| {
            let takes_values = arg.get_action().takes_values();
            if takes_values { arg.value_parser(OsStringValueParser::new()) } else { arg }
        })
    });
    let matches = lenient.try_get_matches_from(args).ok()?;
    let run = matches.subcommand_matches("run")?;
    let json = run.get_one::<OsString>("json")?;
    let folders = |name| run.get_many::<OsString>(name).into_iter().flatten();
    let folders = folders("worktree").chain(folders("dir")).map(host_of_mount);
    Some((json.clone().into(), folders.chain([".".into()]).collect()))
}
