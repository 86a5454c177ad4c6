//! `belljar verify`.

use clap::Args;

use super::run::RunArgs;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:
  belljar verify -- wc README.md
  belljar verify -n 10 --toolchain DIR -- cc1 -quiet main.c -o main.s
  belljar verify --cached -- sh build.sh

All options of `belljar run` can be given except --apply, --check, --diff and --trace; --json reports \
the comparison.

Exit codes: 0 if all runs were equal, also if all failed in the same way, 1 if not.",
    after_long_help = "Examples:
  belljar verify -- wc README.md
      Run it three times, and tell whether everything that crossed its boundary was equal.
  belljar verify -n 10 --toolchain DIR -- cc1 -quiet main.c -o main.s
      All options of `belljar run` can be given except --apply, --check, --diff and --trace; --json \
reports the comparison.
  belljar verify --cached -- sh build.sh
      Run it once, and compare the processes that `--cache-results` would answer with what it knows of them.

The first run is as you ask for it. Each further run works on a copy of what the first one saw of \
its directories. The copy has another name, other file times, and files made in another order; \
arguments that contain the path of a directory contain that of the copy. Variables that are passed \
through, the user, the language, the time zone and the start time differ, and all processors are \
busy. Belljar compares, record by record, what each run asked for and what it was answered.

Exit codes: 0 if all runs were equal, also if all failed in the same way, 1 if not; 2, 126 or 127, as \
with `belljar run`, if it cannot be run."
)]
pub struct VerifyArgs {
    /// How often to run it
    #[arg(short = 'n', long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(2..=1000), help_heading = "Verification")]
    pub runs: u32,

    /// Run it once, with all processes that the cache of results knows, and compare these with what is known
    #[arg(long, conflicts_with = "runs", help_heading = "Verification")]
    pub cached: bool,

    #[command(flatten)]
    pub run: RunArgs,
}
