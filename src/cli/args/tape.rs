//! `belljar tape` and `fidelity`.

use std::path::PathBuf;

use clap::Args;

use crate::tape::FidelityMode;

#[derive(Args, Debug)]
pub struct TapeArgs {
    #[command(subcommand)]
    pub action: TapeAction,
}

#[derive(clap::Subcommand, Debug)]
pub enum TapeAction {
    /// Print the records, a line each
    Show {
        /// The tape
        tape: PathBuf,
        /// Only records of this kind; may be repeated
        #[arg(long, value_name = "KIND")]
        kind: Vec<String>,
        /// Print the records as they stand on the tape
        #[arg(long)]
        json: bool,
    },
    /// Print records that contain a text; exits with 1 if none does
    Grep {
        /// The text
        text: String,
        /// The tape
        tape: PathBuf,
        /// Print the records as they stand on the tape
        #[arg(long)]
        json: bool,
    },
    /// Say how many records of which kind there are, and what they take
    Stat {
        /// The tape
        tape: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a content by its digest, or by the beginning of it
    Cat {
        /// The tape
        tape: PathBuf,
        /// The digest, as `content_hash` has it
        digest: String,
    },
}

#[derive(Args, Debug)]
#[command(after_help = "Modes:
  byte-identical   every record, with its number and its times
  semantic         every record, without these
  outcome          the files in the end, the exit status, how many model calls

A record that only one tape has is one divergence, and what follows it is compared.

Exit codes: 0 if nothing diverges, 1 if something does, 2 if a tape cannot be read.")]
pub struct FidelityArgs {
    /// The tape that was recorded
    pub recorded: PathBuf,

    /// The tape to compare with it
    pub replay: PathBuf,

    /// What must be the same
    #[arg(long, value_name = "MODE", default_value = "semantic")]
    pub mode: FidelityMode,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
