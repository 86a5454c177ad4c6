//! Rank 11: the command line. Only this folder prints.

/// Prints a line to standard error: information, a note or a warning.
macro_rules! note {
    ($($format:tt)*) => { $crate::cli::message::print(false, format_args!($($format)*)) };
}

/// As `note!`, for errors.
macro_rules! complain {
    ($($format:tt)*) => { $crate::cli::message::print(true, format_args!($($format)*)) };
}

/// Prints a line to standard output.
macro_rules! say {
    ($($format:tt)*) => {
        $crate::cli::sink::print(format!("{}\n", format_args!($($format)*)).as_bytes())
    };
}

#[cfg(feature = "annotations")]
mod annotate;
mod annotations;
mod args;
mod background;
mod cache;
mod cause;
mod changes;
mod compile;
mod config;
mod doctor;
mod ending;
mod exit;
mod fidelity;
mod found;
mod hints;
mod home;
mod host;
mod host_call;
mod host_paths;
mod install;
#[cfg(feature = "import")]
mod keys;
mod loaded;
mod man_pages;
#[cfg(feature = "mcp")]
mod mcp;
mod message;
mod mounts;
mod native;
#[cfg(feature = "http")]
mod net;
mod optimize;
mod options;
mod overtime;
mod patch;
mod perturbed;
mod planted_links;
mod portable;
mod programs;
mod progress;
mod project;
mod record;
mod recover;
#[cfg(feature = "remote")]
mod remote_exec;
mod remote_results;
mod repetition;
mod replaceable;
mod replay;
mod report;
mod result_secrets;
mod results;
mod run;
#[cfg(feature = "remote")]
mod runner;
mod sandbox;
mod self_test;
mod setup;
mod sh;
mod signals;
mod signatures;
mod sink;
mod started_natives;
mod tape;
mod tape_view;
mod terminal;
mod text;
mod toolchain;
mod trust;
mod usage;
mod verify;
mod verify_cached;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser};

use args::tape::TapeAction;
use args::{Cli, Subcommand};

/// Unpacks the bundle `file` into the empty folder `into`, and checks all its files, for tests with random bundles.
///
/// # Errors
/// Why the bundle is refused.
#[cfg(feature = "import")]
pub fn unpack_bundle(file: &std::path::Path, into: &std::path::Path) -> Result<(), String> {
    install::bundle::open(file, into).map(drop).map_err(|error| format!("{error:#}"))
}

/// Unpacks all regular files of the package `file`, a wheel or a tarball of npm, into the empty folder `into`, for tests with
/// random packages.
///
/// # Errors
/// Why the package is refused.
#[cfg(feature = "import")]
pub fn unpack_package(file: &std::path::Path, into: &std::path::Path) -> Result<(), String> {
    toolchain::unpack_package(file, into).map(drop).map_err(|error| format!("{error:#}"))
}

/// Verifies `signature`, a signature of `text` by the public key `key`, both in the formats of minisign, for tests with random
/// ones.
///
/// # Errors
/// Why the key or the signature is refused.
#[cfg(feature = "import")]
pub fn verify_signature(key: &str, text: &[u8], signature: &str) -> Result<(), String> {
    use crate::base::signature::{PublicKey, Signature};
    let key = PublicKey::parse(key).map_err(|error| error.to_string())?;
    let signature = Signature::parse(signature).map_err(|error| error.to_string())?;
    key.verify(text, &signature).map_err(|error| error.to_string())
}

/// Decodes `bytes` as a directory of the inputs of an action, for tests with random ones; returns its names.
///
/// # Errors
/// Why it is refused.
#[cfg(feature = "remote")]
pub fn names_in_input_directory(bytes: &[u8]) -> Result<Vec<String>, String> {
    crate::actions::names_in_directory(bytes)
}

/// Directories of the user, for programs that share compiled code, toolchains and journals with the command line.
pub use home::{cache_dir, installed_toolchains, journals, journals_dir};

/// Parses the command line, carries it out, and returns the exit code.
pub fn main() -> ExitCode {
    signals::let_long_files_be_errors();
    terminal::prepare();
    let words = match project::settings::add_to(std::env::args_os().collect()) {
        Ok(words) => words,
        Err(error) => return failed(&error),
    };
    let cli = match parse(words.into_iter()) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(usage::misunderstood(&error)),
    };
    let done = match cli.command {
        Subcommand::Run(args) => run::run(&args, None),
        Subcommand::Sh(args) => sh::run(*args),
        Subcommand::Record(args) => run::run(&args.run, Some(&args)),
        Subcommand::Replay(args) => replay::run(&args),
        Subcommand::Native(args) => native::run(&args),
        Subcommand::Tape(args) => match args.action {
            TapeAction::Inspect(action) => tape::run(&action),
            TapeAction::View(args) => tape_view::run(&args),
        },
        Subcommand::Fidelity(args) => fidelity::run(&args),
        Subcommand::Verify(args) if args.cached => verify_cached::run(&args),
        Subcommand::Verify(args) => verify::run(&args),
        Subcommand::Diff(args) => patch::diff(&args),
        Subcommand::Apply(args) => patch::apply(&args),
        Subcommand::Recover(args) => recover::run(&args),
        #[cfg(feature = "annotations")]
        Subcommand::Annotate(args) => annotate::annotate(&args),
        #[cfg(feature = "annotations")]
        Subcommand::Annotations(args) => annotate::run(&args),
        Subcommand::Host(args) => host_call::run(&args),
        Subcommand::Sandbox(args) => sandbox::run(&args),
        #[cfg(feature = "mcp")]
        Subcommand::Mcp(args) => mcp::run(&args),
        Subcommand::Programs(args) => programs::run(&args),
        Subcommand::Install(args) => install::install(&args),
        Subcommand::Uninstall(args) => install::uninstall(&args),
        Subcommand::Toolchain(args) => toolchain::run(&args),
        #[cfg(feature = "import")]
        Subcommand::Keys(args) => keys::run(&args),
        #[cfg(feature = "remote")]
        Subcommand::Runner(args) => runner::run(&args),
        Subcommand::Config(args) => config::run(&args),
        Subcommand::Trust(args) => trust::run(&args),
        Subcommand::Cache(args) => cache::run(&args),
        Subcommand::Doctor(args) => doctor::run(&args),
        Subcommand::CompileModule(args) => compile::child(&args),
        Subcommand::OptimizeModules(args) => optimize::optimize(&args),
        Subcommand::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "belljar", &mut script);
            sink::print(&script);
            Ok(0)
        }
        Subcommand::ManPages { dir } => man_pages::write(&dir),
    };
    match done {
        Ok(code) => ExitCode::from(unless_lost(code)),
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    let (code, message) = exit::describe(error);
    complain!("belljar: {message}");
    ExitCode::from(code)
}

/// Parses the command line. Building the definition of all commands takes about as long as running a
/// small program, so `run` and `sh` are tried alone first.
fn parse(words: impl Iterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let words: Vec<OsString> = words.collect();
    let alone = match words.get(1).and_then(|word| word.to_str()) {
        Some("run") => parse_alone(&words[1..]).map(|args| Subcommand::Run(Box::new(args))),
        Some("sh") => parse_alone(&words[1..]).map(|args| Subcommand::Sh(Box::new(args))),
        _ => None,
    };
    alone.map_or_else(|| Cli::try_parse_from(words), |command| Ok(Cli { command }))
}

/// The arguments of one command, if they are valid.
fn parse_alone<A: Args>(words: &[OsString]) -> Option<A> {
    let command = A::augment_args(clap::Command::new("belljar"));
    A::from_arg_matches(&command.try_get_matches_from(words).ok()?).ok()
}

/// The exit code `code`, unless standard output could not be written.
fn unless_lost(code: u8) -> u8 {
    let Some(error) = sink::print_error() else { return code };
    complain!("belljar: cannot write to standard output: {error}");
    exit::of_unwritten_report()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_described_alone_understands_the_same() {
        for line in [
            "run wc -l --json a",
            "run --quiet --seed 7 --dir a::/b::ro --allow-net a.test wc --quiet",
            "run --json=r.json -e A=b --timeout 1s -- wc",
            "run",
            "run --help",
            "run --version wc",
            "run --no-such wc",
            "run --seed x wc",
            "r wc",
            "sh -c ls a b",
            "sh -eu script.sh --quiet",
            "sh --quiet --no-such",
            "sh --help",
            "replay x",
            "",
        ] {
            let words = || ["belljar"].into_iter().chain(line.split_whitespace());
            let [fast, whole] = [parse(words().map(Into::into)), Cli::try_parse_from(words())]
                .map(|parsed| parsed.map_err(|error| error.to_string()));
            assert_eq!(format!("{fast:?}"), format!("{whole:?}"), "{line}");
        }
        assert!(parse_alone::<args::run::RunArgs>(&["run", "wc"].map(Into::into)).is_some());
        assert!(parse_alone::<args::sh::ShArgs>(&["sh", "-c", "ls"].map(Into::into)).is_some());
    }

    /// Lines that were broken by hand were broken once more where the terminal was narrow.
    #[test]
    fn help_texts_are_broken_once() {
        fn check(command: &clap::Command, wrong: &mut Vec<String>) {
            let texts = [command.get_after_help(), command.get_after_long_help()];
            for text in texts.into_iter().flatten().map(ToString::to_string) {
                let mut before = "";
                for line in text.lines() {
                    let indent = |line: &str| line.len() - line.trim_start().len();
                    // What an example does stands beneath it, or beside it.
                    let is_prose = [0, 6].contains(&indent(line)) && !line.is_empty();
                    let is_broken =
                        is_prose && !before.is_empty() && indent(before) == indent(line);
                    if is_broken || !is_prose && line.chars().count() > 80 {
                        wrong.push(format!("{}: {line}", command.get_name()));
                    }
                    before = line;
                }
            }
            command.get_subcommands().for_each(|command| check(command, wrong));
        }
        let mut wrong = Vec::new();
        check(&Cli::command(), &mut wrong);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
