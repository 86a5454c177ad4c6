//! What may have been meant: a word more where a message alone leaves its reader stuck.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use belljar::base::disk;
use belljar::toolchain::similar;
use belljar::{ProgramError, ResolveError, Resolved, RunError};
use clap::{Args, CommandFactory};

use super::args::{Cli, OnMissing, RunArgs};
use super::exit::{Hinted, Usage};
use super::report::printable;
use super::setup;
use super::values::Sink;

/// The long options of `belljar run`, without their dashes.
fn options() -> Vec<String> {
    let command = RunArgs::augment_args(clap::Command::new("run"));
    command.get_arguments().filter_map(clap::Arg::get_long).map(str::to_owned).collect()
}

/// The name of what looks like a long option, without dashes and value.
fn long_name(arg: &str) -> Option<&str> {
    arg.strip_prefix("--")?.split('=').next()
}

fn did_you_mean(word: &str, known: &[String], prefix: &str) -> String {
    let similar: Vec<String> =
        similar(word, known).iter().map(|name| format!("{prefix}{name}")).collect();
    if similar.is_empty() {
        String::new()
    } else {
        format!("; did you mean {}?", similar.join(", "))
    }
}

/// `option` stands where PROGRAM should.
pub fn no_such_option(option: &str) -> Usage {
    let options = options();
    let what = match long_name(option) {
        Some(name) => format!("{}{}", printable(option), did_you_mean(name, &options, "--")),
        None => printable(option),
    };
    Usage(format!(
        "there is no option {what} (`belljar run --help` lists them; the program's own come after \
         PROGRAM)"
    ))
}

/// An option of belljar among the arguments of a program that is not content: it stands too late,
/// as everything after PROGRAM is the program's.
pub fn misplaced_option(program_args: &[OsString]) -> Option<String> {
    let options = options();
    let is_option =
        |arg: &&str| long_name(arg).is_some_and(|name| options.iter().any(|option| option == name));
    let option = program_args.iter().filter_map(|arg| arg.to_str()).find(is_option)?;
    let option = printable(option);
    Some(format!("{option} after PROGRAM went to the program; belljar's options come before it"))
}

/// Adds to `error`, if it is a program that was not found, where one that was meant may be.
pub fn program_not_found(error: anyhow::Error, args: &RunArgs, program: &str) -> anyhow::Error {
    let Some(ResolveError::NotFound { similar, .. }) = error.downcast_ref() else { return error };
    let is_file = |path: &str| disk::metadata(Path::new(path)).is_ok_and(|found| found.is_file());
    let is_dir = |path: &str| disk::metadata(Path::new(path)).is_ok_and(|found| found.is_dir());
    let module = format!("{program}.wasm");
    let streams = [("--json", &args.json), ("--diff", &args.diff), ("--trace", &args.trace)];
    let bare = streams.iter().find(|(_, sink)| **sink == Some(Sink::Stream));
    let hint = if is_file(&module) {
        format!("for the module in this folder: ./{module}")
    } else if is_dir(program) {
        format!("{program} is a folder; to look for programs in it: --toolchain {program}")
    } else if is_file(program) {
        format!("a file of this folder needs a path: ./{program}")
    } else if let Some((option, _)) = bare.filter(|_| program.contains('.')) {
        format!("if it is the file for {option}: {option}={program}")
    } else if !similar.is_empty() {
        return error;
    } else {
        "`belljar programs` lists what there is; name a folder with --toolchain or \
         BELLJAR_TOOLCHAIN, or a module by its path"
            .to_owned()
    };
    Hinted { error, hint }.into()
}

/// Adds to `error`, if it is a file that is not there, the module of nearly that name.
pub fn module_not_found(error: ProgramError, program: &Path) -> anyhow::Error {
    let module = program.with_added_extension("wasm");
    match &error {
        ProgramError::Read(_) if disk::metadata(&module).is_ok_and(|found| found.is_file()) => {
            let hint = format!("did you mean {}?", module.display());
            Hinted { error: error.into(), hint }.into()
        }
        _ => error.into(),
    }
}

/// Adds to `error` the option that it is about.
pub fn not_started(error: RunError, args: &RunArgs) -> anyhow::Error {
    let hint = match &error {
        RunError::Memory { .. } => "raise it with --max-memory",
        RunError::Preopen { .. } if args.cwd.is_some() => "--cwd named it",
        _ => return error.into(),
    };
    Hinted { error: error.into(), hint: hint.to_owned() }.into()
}

/// Says how a program that was not found could be.
pub fn on_missing(args: &RunArgs) {
    if args.on_missing == OnMissing::Deny {
        note!(
            "belljar: note: if a program was not found: --toolchain names a folder of modules, and \
             --on-missing native lets the host's programs run"
        );
    }
}

/// What to say of a word that stands where a command of the command `parent` should.
pub fn no_such_subcommand(parent: &str, word: &str) -> Option<String> {
    let command = Cli::command();
    let command = command.find_subcommand(parent)?;
    let names: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    let meant = match (parent, word) {
        ("sandbox", "ps") => "; did you mean list?".to_owned(),
        ("sandbox", "run") => "; did you mean exec?".to_owned(),
        _ => did_you_mean(word, &names, ""),
    };
    let (word, names) = (printable(word), names.join(", "));
    Some(format!("there is no command {parent} {word}{meant} (commands: {names}, help)"))
}

/// What to say of a word that stands where a command should.
pub fn no_such_command(word: &str) -> String {
    let shown = printable(word);
    let is_program = match setup::program(OsStr::new(word), &[]) {
        Ok(Resolved::File(path)) => disk::metadata(&path).is_ok(),
        Ok(Resolved::BuiltIn { .. }) => true,
        Err(_) => false,
    };
    if is_program {
        return format!("there is no command {shown}; to run the program: belljar run {shown}");
    }
    let command = Cli::command();
    let shown_ones = command.get_subcommands().filter(|command| !command.is_hide_set());
    let names: Vec<String> = shown_ones.map(|c| c.get_name().to_owned()).collect();
    let meant = did_you_mean(word, &names, "");
    format!("there is no command {shown}{meant} (commands: {}, help)", names.join(", "))
}
