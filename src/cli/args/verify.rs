//! `belljar verify`.

use clap::Args;

use super::run::RunArgs;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:
  belljar verify -- wc README.md
  belljar verify -n 10 --toolchain DIR -- cc1 -quiet main.c -o main.s

All options of `belljar run` can be given but --apply, --check, --diff and --trace; --json reports \
the verification.

Exit codes: 0 if all runs were the same, also if all failed in the same way, 1 if not.",
    after_long_help = "Examples:
  belljar verify -- wc README.md
      Run it three times, and say whether all that crossed its boundary was the same.
  belljar verify -n 10 --toolchain DIR -- cc1 -quiet main.c -o main.s
      All options of `belljar run` can be given but --apply, --check, --diff and --trace; --json \
reports the verification.

The first run is as you ask for it. Each further run works on a copy of what the first one saw of \
its folders. The copy has another name, other file times, and files made in another order; \
arguments that hold the path of a folder hold that of the copy. Variables that are passed through \
have other values, and so have the user, the language, the time zone and the start time; the \
machine is busy. Belljar compares, record by record, what each run asked for and what it was \
answered.

Exit codes: 0 if all runs were the same, also if all failed in the same way, 1 if not. What cannot be run ends as with `belljar run`: 2, 126 or 127."
)]
pub struct VerifyArgs {
    /// How often to run it
    #[arg(short = 'n', long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(2..=1000), help_heading = "Verification")]
    pub runs: u32,

    #[command(flatten)]
    pub run: RunArgs,
}
