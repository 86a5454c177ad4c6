//! `belljar sh`.

use std::ffi::OsStr;
use std::io::IsTerminal;

use anyhow::Result;

use super::args::sh::ShArgs;
use super::args::values::SHELL;
use super::args::values::StdinFrom;
use super::{hints, run};

/// Runs the shell, which is a program among others.
pub fn run(mut args: ShArgs) -> Result<u8> {
    let first = args.run.command.first().and_then(|arg| arg.to_str());
    if let Some(option) = first.filter(|arg| arg.starts_with("--")) {
        return Err(hints::no_such_option(option, &["sh"]).into());
    }
    if let Some(hint) = hints::misread_value(&args.run.command).filter(|_| !args.run.quiet) {
        note!("belljar: note: {} is taken for a script; {hint}", args.run.command[0].display());
    }
    let reads_terminal = args.run.command.is_empty()
        && args.run.stdin == StdinFrom::Inherit
        && std::io::stdin().is_terminal();
    if reads_terminal && !args.run.quiet {
        note!("belljar: note: reading the script from the terminal; end it with Ctrl-D");
    }
    args.run.command.insert(0, OsStr::new(SHELL).to_owned());
    run::run(&args.run, None)
}
