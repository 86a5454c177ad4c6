//! `belljar record`.

use std::path::PathBuf;

use clap::Args;

use super::run::RunArgs;
use super::values::size;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:
  belljar record --tape ../run.tape -- wc README.md
  belljar record --tape ../run.tape --diff -- replace old new a.txt
  belljar replay ../run.tape

Write the tape outside of the directories that the program sees. All options of \
`belljar run` can be given.",
    after_long_help = "Examples:
  belljar record --tape ../run.tape -- wc README.md
      Run the program, and write everything that crosses its boundary to ../run.tape, and \
contents to the directory ../run.tape.cas. Write the tape outside of the directories \
that the program sees.
  belljar record --tape ../run.tape --diff -- replace old new a.txt
      All options of `belljar run` can be given, and do what they do there.
  belljar replay ../run.tape
      Repeat the run from the tape alone.

Values of variables with names such as API_KEY, and texts that look like keys and tokens, are kept \
off the tape."
)]
pub struct RecordArgs {
    /// The file to write, or an earlier tape to replace; contents go to the directory FILE.cas
    #[arg(long, value_name = "FILE", help_heading = "Tape")]
    pub tape: PathBuf,

    /// Bytes of the tape and its contents together
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size, help_heading = "Tape")]
    pub max_tape: u64,

    /// Keep the programs that ran in FILE.cas, so that the tape can be replayed without them
    #[arg(long, help_heading = "Tape")]
    pub embed_program: bool,

    #[command(flatten)]
    pub run: RunArgs,
}
