//! `belljar host`.

use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::run::RunArgs;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar host manifest                         list all operations
  belljar host call workspace.cwd               make a call
  belljar host call process.exec --params '{\"command\": \"ls | wc -l\"}'

A field that an operation does not take is refused; the message names those that it takes.

See also `belljar help host call`.")]
pub struct HostArgs {
    #[command(subcommand)]
    pub action: HostAction,
}

#[derive(clap::Subcommand, Debug)]
pub enum HostAction {
    /// List the operations that programs can ask of their host
    Manifest {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a call of the host as a program would, and print the answer
    Call(Box<CallArgs>),
}

const CALL_HELP: &str = "Examples:
  belljar host call workspace.cwd
  belljar host call process.exec --params '{\"argv\": [\"wc\", \"README.md\"]}'
  belljar host call template.render --params @params.json --worktree templates
  belljar host call process.exec --host-policy policy.json --params -

The other options are those of `belljar run`. Exit codes: 0 for an answer, also one about a \
command that failed, 1 for a call that failed, 2 for an invalid command line, 126 for a command \
that the policy blocked.";

#[derive(Args, Debug)]
#[command(override_usage = "belljar host call [OPTIONS] CAPABILITY.OPERATION")]
pub struct CallArgs {
    /// The parameters: JSON, a file after @, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", help_heading = "Call", allow_hyphen_values = true)]
    pub params: Option<String>,

    #[command(flatten)]
    pub run: CallRunArgs,
}

/// The options of a run, before or after the operation.
#[derive(Debug)]
pub struct CallRunArgs(pub RunArgs);

/// Options of a run that do not apply to a call.
const NOT_FOR_CALLS: [&str; 3] = ["argv0", "invoke", "stdin"];

impl CallRunArgs {
    fn change(command: Command) -> Command {
        let command = command.mut_arg("command", |word| {
            let name = "CAPABILITY.OPERATION";
            let word = word.trailing_var_arg(false).allow_hyphen_values(false);
            word.num_args(1).value_names([name]).help("The operation").long_help(None::<&str>)
        });
        // Without these, the examples of `run` would show.
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
