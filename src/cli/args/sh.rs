//! `belljar sh`.

use clap::Args;

use super::run::RunArgs;

const EXAMPLES: &str = "Examples:
  belljar sh -c 'wc -l < README.md'           run a command
  belljar sh --apply build.sh release         run a script, keep what it makes
  belljar sh -eu build.sh                     stop at the first failure
  belljar sh --check --diff format.sh         fail, if it would change files
  generate | belljar sh                       run what another program says
  belljar sh --toolchain DIR -c 'cc1 main.c'  with the programs of a folder

The long options are those of `belljar run`; they come first, then those of the shell (-e, -u, -x, \
-o pipefail, ...), then the script. Exit codes: the script's own, and those of `belljar \
run`.";

#[derive(Args, Debug)]
#[command(
    override_usage = "belljar sh [OPTIONS] [-aCefnuvx] [-o OPTION] -c TEXT [NAME [ARG]...]
       belljar sh [OPTIONS] [-aCefnuvx] [-o OPTION] FILE [ARG]...
       belljar sh [OPTIONS] [-aCefnuvx] [-o OPTION] [-s [ARG]...] < FILE",
    mut_arg("command", |arg| arg
        .value_names(["SCRIPT", "ARGS"])
        .required(false)
        .num_args(0..)
        .help("-c and the text of a script, or the file that has it, after the shell's own options; \
               and arguments for it: everything from here on is the script's [default: the script is \
               read from standard input]")),
    // The shell has an option of this name.
    mut_arg("env", |arg| arg.short(None)),
    after_help = EXAMPLES,
    after_long_help = EXAMPLES
)]
pub struct ShArgs {
    #[command(flatten)]
    pub run: RunArgs,
}
