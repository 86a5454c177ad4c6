//! Hints in messages: what the user may have meant.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::CommandFactory;

use super::args::Cli;
use super::args::run::{OnMissing, RunArgs};
use super::args::values::Sink;
use super::exit::{Hinted, Usage};
use super::install::recipes;
use super::setup;
use super::text::printable;
use crate::base::disk;
use crate::toolchain::{meant, similar};
use crate::{ProgramError, ResolveError, Resolved, RunError};

/// The long options of the command `path`, such as `["sandbox", "exec"]`, without their dashes.
fn options(path: &[&str]) -> Vec<String> {
    let root = Cli::command();
    let found = path.iter().try_fold(&root, |command, name| command.find_subcommand(name));
    let shown = found.into_iter().flat_map(clap::Command::get_arguments);
    shown
        .filter(|arg| !arg.is_hide_set())
        .filter_map(clap::Arg::get_long)
        .map(str::to_owned)
        .collect()
}

/// The name of a word that looks like a long option, without dashes and value.
fn long_name(arg: &str) -> Option<&str> {
    arg.strip_prefix("--")?.split('=').next()
}

/// The hint for a long option that the command `path` does not take, but another one does.
pub fn taken_elsewhere(option: &str, path: &[&str]) -> Option<String> {
    const OTHERS: [(&[&str], &str); 3] = [
        (&["sandbox", "create"], ", and keeps it for all programs of the session"),
        (&["run"], ""),
        (&["record"], ""),
    ];
    let name = long_name(option)?;
    let is_of_session = path.first() == Some(&"sandbox");
    OTHERS.iter().skip(usize::from(!is_of_session)).find_map(|(command, what)| {
        let takes = *command != path && options(command).iter().any(|known| known == name);
        takes.then(|| format!("`belljar {}` takes it{what}", command.join(" ")))
    })
}

fn did_you_mean(word: &str, known: &[String], prefix: &str) -> String {
    let similar: Vec<String> =
        similar(word, known).iter().map(|name| format!("{prefix}{name}")).collect();
    meant(&similar)
}

/// The error for `option` in the place of PROGRAM, or of the script, of the command `path`.
pub fn no_such_option(option: &str, path: &[&str]) -> Usage {
    if long_name(option).is_some_and(|name| options(path).iter().any(|known| known == name)) {
        let option = printable(option);
        return Usage(format!("{option} is after --, where the program begins: put it before"));
    }
    let elsewhere = taken_elsewhere(option, path).map(|elsewhere| format!("; {elsewhere}"));
    let meant = || match long_name(option) {
        Some(name) => did_you_mean(name, &options(path), "--"),
        None => String::new(),
    };
    let hint = elsewhere.unwrap_or_else(meant);
    let (option, path) = (printable(option), path.join(" "));
    let own = if path == "sh" {
        "those of the script come after it"
    } else {
        "those of the program come after PROGRAM"
    };
    Usage(format!("there is no option {option}{hint} (`belljar {path} --help` lists them; {own})"))
}

/// The program, as it was named.
///
/// # Errors
/// In its place is an unknown option.
pub fn program_of(args: &RunArgs) -> Result<&OsStr, Usage> {
    let named = args.command.first().map_or(OsStr::new(""), OsString::as_os_str);
    if named.is_empty() {
        return Err(Usage("\"\" cannot be the name of a program".to_owned()));
    }
    match named.to_str() {
        Some(option) if option.starts_with('-') => Err(no_such_option(option, command_of_run())),
        _ => Ok(named),
    }
}

/// The hint for an option of the command `path` among the arguments of a program that failed: everything
/// after PROGRAM belongs to the program.
pub fn misplaced_option(program_args: &[OsString], path: &[&str]) -> Option<String> {
    let options = options(path);
    let is_option =
        |arg: &&str| long_name(arg).is_some_and(|name| options.iter().any(|option| option == name));
    let option = program_args.iter().filter_map(|arg| arg.to_str()).find(is_option)?;
    let option = printable(option);
    Some(if path == ["sh"] {
        format!("{option} after the script went to the script; belljar's options come before it")
    } else {
        format!("{option} after PROGRAM went to the program; belljar's options come before it")
    })
}

/// The command of this process, of those that take the options of a run.
pub fn command_of_run() -> &'static [&'static str] {
    match std::env::args_os().nth(1).unwrap_or_default().to_str() {
        Some("sh") => &["sh"],
        Some("record") => &["record"],
        Some("verify") => &["verify"],
        Some("host") => &["host", "call"],
        _ => &["run"],
    }
}

/// The hint for the first word of `command` if it was meant as the value of `--apply`, but is taken for
/// PROGRAM.
pub fn misread_value(command: &[OsString]) -> Option<String> {
    const MEANT: [&str; 9] =
        ["always", "success", "never", "yes", "no", "true", "false", "on", "off"];
    command.first()?.to_str().filter(|word| MEANT.contains(word))?;
    let words: Vec<OsString> = std::env::args_os().collect();
    let before = words.len().checked_sub(command.len() + 1).and_then(|at| words.get(at))?;
    (before == "--apply")
        .then(|| "--apply takes its value after `=`: --apply=always, or --apply=success".to_owned())
}

/// Adds a hint to `error` if a program was not found: where the intended one may be.
pub fn program_not_found(error: anyhow::Error, args: &RunArgs, program: &str) -> anyhow::Error {
    let Some(ResolveError::NotFound { similar, .. }) = error.downcast_ref() else { return error };
    let is_file = |path: &str| disk::metadata(Path::new(path)).is_ok_and(|found| found.is_file());
    let is_dir = |path: &str| disk::metadata(Path::new(path)).is_ok_and(|found| found.is_dir());
    let module = format!("{program}.wasm");
    let streams = [("--json", &args.json), ("--diff", &args.diff), ("--trace", &args.trace)];
    let bare = streams.iter().find(|(_, sink)| **sink == Some(Sink::Stream));
    let hint = if let Some(hint) = misread_value(&args.command) {
        hint
    } else if let Some((owner, project)) = setup::left_out_by_project(program) {
        let project = project.display();
        format!("the installed toolchain {owner} has it; name that in [toolchains] of {project}")
    } else if is_file(&module) {
        format!("to run the module in this directory: ./{module}")
    } else if is_dir(program) {
        format!("{program} is a directory; to look for programs in it: --toolchain {program}")
    } else if is_file(program) {
        format!("to run the file in this directory: ./{program}")
    } else if let Some((option, _)) = bare.filter(|_| program.contains('.')) {
        format!("to name the file of {option}: {option}={program}")
    } else if let Some(hint) = installs(program) {
        hint
    } else if !similar.is_empty() {
        return error;
    } else {
        "`belljar programs` lists all programs; add a directory with --toolchain or \
         BELLJAR_TOOLCHAIN, or give the path of a module"
            .to_owned()
    };
    Hinted { error, hint }.into()
}

/// What installs a toolchain that has `program`, if there is a recipe for one.
pub fn installs(program: &str) -> Option<String> {
    let recipe = recipes::with_program(program)?;
    Some(format!("`belljar install {recipe}` installs a toolchain that has it"))
}

/// Adds a hint to `error` if the file does not exist, but a module of nearly that name does.
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

/// Says how programs that were not found could be: `names`, as far as they are known.
pub fn on_missing(args: &RunArgs, names: &[String]) {
    if args.on_missing == OnMissing::Native {
        return;
    }
    let what = match names {
        [] => "if a program was not found".to_owned(),
        names => not_found(names),
    };
    note!(
        "belljar: note: {what}: --toolchain adds a directory of modules, and --on-missing native runs \
         native programs"
    );
}

/// `there is no program gcc`, `there are no programs gcc, ld`.
pub fn not_found(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().map(|name| printable(name)).collect();
    let what = if shown.len() == 1 { "is no program" } else { "are no programs" };
    format!("there {what} {}", shown.join(", "))
}

/// The message for an unknown subcommand of the command `parent`.
pub fn no_such_subcommand(parent: &str, word: &str) -> Option<String> {
    let command = Cli::command();
    let command = command.find_subcommand(parent)?;
    let names: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    let meant = match (parent, word) {
        ("sandbox", "ps") => "; did you mean list?".to_owned(),
        ("sandbox", "run") => "; did you mean exec?".to_owned(),
        ("tape", word) if is_file_name(word) => {
            format!("; to print the records of a tape: belljar tape show {}", printable(word))
        }
        _ => did_you_mean(word, &names, ""),
    };
    let (word, names) = (printable(word), names.join(", "));
    Some(format!("there is no command {parent} {word}{meant} (commands: {names}, help)"))
}

/// Whether `word` is the name of a file, or looks like one.
fn is_file_name(word: &str) -> bool {
    word.contains(['.', '/']) || disk::metadata(Path::new(word)).is_ok()
}

/// The message for an unknown command.
pub fn no_such_command(word: &str) -> String {
    let shown = printable(word);
    let is_program =
        match setup::toolchains(&[]).and_then(|all| setup::program(OsStr::new(word), &all)) {
            Ok(Resolved::File(path)) => disk::metadata(&path).is_ok(),
            Ok(Resolved::BuiltIn { .. } | Resolved::Described(_)) => true,
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
