//! `belljar replay`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::groups::TierArg;
use super::values::{duration, size};

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar replay run.tape                  repeat the run, and print its output
  belljar replay --toolchain DIR run.tape  ... with the programs of a directory
  belljar replay --json --quiet run.tape   only report whether it was equal

Exit codes: the program's own, if the run was equal; 1 if it differed; 2 if there is no such \
tape; 125 if it cannot be replayed, or had a secret that the tape does not hold.")]
pub struct ReplayArgs {
    /// The tape
    #[arg(value_name = "FILE")]
    pub tape: PathBuf,

    /// A directory in which NAME.wasm is the program NAME; may be repeated
    #[arg(long, value_name = "DIR")]
    pub toolchain: Vec<PathBuf>,

    /// A module of the run that is neither on the tape nor found by its name; may be repeated
    #[arg(long, value_name = "FILE")]
    pub module: Vec<PathBuf>,

    /// The compiled code that programs run; a run replays in any
    #[arg(long, value_name = "TIER", env = "BELLJAR_TIER", hide_env_values = true, value_enum, default_value_t = TierArg::Auto)]
    pub tier: TierArg,

    /// End the replay after this much real time
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1h")]
    pub timeout: Duration,

    /// Memory that the run may use, if the tape does not say less
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = size)]
    pub max_memory: u64,

    /// Bytes of output, which are held in memory, if the tape does not say less
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size)]
    pub max_output: u64,

    /// Print JSON instead of the run's output
    #[arg(long)]
    pub json: bool,

    /// Print only errors
    #[arg(short, long)]
    pub quiet: bool,
}
