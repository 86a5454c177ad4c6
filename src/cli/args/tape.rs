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
    /// Print the records, one per line
    Show {
        /// The tape
        tape: PathBuf,
        /// Only records of this kind; may be repeated
        #[arg(long, value_name = "KIND")]
        kind: Vec<String>,
        /// Print the records as they are on the tape
        #[arg(long)]
        json: bool,
    },
    /// Print the records that contain a text; exits with 1 if there are none
    Grep {
        /// The text
        text: String,
        /// The tape
        tape: PathBuf,
        /// Print the records as they are on the tape
        #[arg(long)]
        json: bool,
    },
    /// Print the number of records of each kind, and the command line of the run
    Stat {
        /// The tape
        tape: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a content by its digest, or the first digits of it
    Cat {
        /// The tape
        tape: PathBuf,
        /// The digest, as in `content_hash`
        digest: String,
    },
}

#[derive(Args, Debug)]
#[command(after_help = "Modes:
  byte-identical   every record, with its number and its times
  semantic         every record, without number and times
  outcome          final files, exit status, number of model calls

A record that only one tape has is one divergence; the records after it are aligned again.

Exit codes: 0 if nothing differs, 1 if something does, 2 if a tape cannot be read.")]
pub struct FidelityArgs {
    /// The recorded tape
    pub recorded: PathBuf,

    /// The tape to compare with it
    pub replay: PathBuf,

    /// What must be equal
    #[arg(long, value_name = "MODE", default_value = "semantic")]
    pub mode: FidelityMode,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
