//! Rank 9: the command line. Only this folder prints.

/// Prints a line to standard error. Whoever closed it does not want to know.
macro_rules! note {
    ($($format:tt)*) => {{
        let _ = std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("{}\n", format_args!($($format)*)),
        );
    }};
}

/// Prints a line to standard output, as far as somebody listens.
macro_rules! say {
    ($($format:tt)*) => {{
        let _ = std::io::Write::write_fmt(
            &mut std::io::stdout(),
            format_args!("{}\n", format_args!($($format)*)),
        );
    }};
}

mod args;
mod cache;
mod changes;
mod doctor;
mod exit;
mod overtime;
mod programs;
mod progress;
mod report;
mod run;
mod setup;
mod values;

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Cli, Subcommand};

/// Parses the command line, does what it says, and answers the exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help that is asked for goes to standard output and is a success; the rest is usage.
            let code = if error.use_stderr() { exit::USAGE } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let done = match cli.command {
        Subcommand::Run(args) => run::run(&args),
        Subcommand::Programs(args) => programs::run(&args),
        Subcommand::Cache(args) => cache::run(&args),
        Subcommand::Doctor(args) => Ok(doctor::run(&args)),
        Subcommand::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "belljar", &mut io::stdout());
            Ok(0)
        }
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let (code, message) = exit::describe(&error);
            note!("belljar: {message}");
            ExitCode::from(code)
        }
    }
}
