//! `belljar sh`.

use clap::Args;

use super::run::RunArgs;

const EXAMPLES: &str = "Examples:
  belljar sh -c 'wc -l < README.md'           run a command
  belljar sh --apply build.sh release         run a script, write its changes
  belljar sh -eu build.sh                     stop at the first failure
  belljar sh --check --diff format.sh         fail if it would change files
  generate | belljar sh                       run a script from standard input
  belljar sh --toolchain DIR -c 'cc1 main.c'  with the programs of a directory

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
        .help("The shell's own options, then -c and the text of a script, or a script file, and its \
               arguments: everything from here on belongs to the script [default: read the script \
               from standard input]")),
    // The shell has an option of this name.
    mut_arg("env", |arg| arg.short(None)),
    after_help = EXAMPLES,
    after_long_help = EXAMPLES
)]
pub struct ShArgs {
    #[command(flatten)]
    pub run: RunArgs,
}
