//! `belljar sh`.

use anyhow::Result;
use clap::Args;

use super::args::RunArgs;
use super::run;

#[derive(Args, Debug)]
#[command(
    override_usage = "belljar sh [OPTIONS] -c TEXT [NAME [ARG]...]\n       belljar sh [OPTIONS] FILE [ARG]...",
    after_help = "Examples:
  belljar sh -c 'wc -l < README.md'           run a command
  belljar sh --apply build.sh release         run a script of this folder, and keep what it makes
  belljar sh --toolchain DIR -c 'cc1 main.c'  with the programs of a folder

All options are those of `belljar run`; the shell's own (-e, -u, -x, ...) come after `--`, as in
`belljar sh -- -eu build.sh`. Exit codes: the script's own, and those of `belljar run`."
)]
pub struct ShArgs {
    #[command(flatten)]
    run: RunArgs,
}

/// Runs the shell, which is a program among others.
pub fn run(mut args: ShArgs) -> Result<u8> {
    args.run.command.insert(0, "sh".into());
    run::run(&args.run, None)
}
