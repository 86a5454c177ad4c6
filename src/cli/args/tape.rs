//! `belljar tape` and `fidelity`.

use std::path::PathBuf;

use clap::Args;

use super::values::size;
use crate::tape::FidelityMode;

#[derive(Args, Debug)]
pub struct TapeArgs {
    #[command(subcommand)]
    pub action: TapeAction,
}

#[derive(clap::Subcommand, Debug)]
pub enum TapeAction {
    #[command(flatten)]
    Inspect(TapeInspection),
    /// Write a page to look at a run in a browser, or at two runs side by side
    View(ViewArgs),
}

#[derive(clap::Subcommand, Debug)]
pub enum TapeInspection {
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
#[command(after_help = "Examples:
  belljar tape view run.tape               write run.tape.html
  belljar tape view run.tape -o run.html   ... another name
  belljar tape view old.tape new.tape      both, with their first difference

The page is one file and needs no network. It shows the processes in virtual time, what each read \
and wrote, the files before and after, the output, the limits and the annotations.

Exit codes: 0 if the page is written, 2 if a tape cannot be read or the page would replace \
something else.")]
pub struct ViewArgs {
    /// The tape
    pub tape: PathBuf,

    /// A tape to compare with it
    pub other: Option<PathBuf>,

    /// The page, or `-` for standard output; by default FILE.html, after the first tape. An earlier page is replaced,
    /// another file is not
    #[arg(short, long, value_name = "PAGE")]
    pub output: Option<PathBuf>,

    /// Bytes of the page for the fields of records; records beyond are listed without them
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size)]
    pub max_page: u64,

    /// Print JSON: the path of the page, and what it shows
    #[arg(long)]
    pub json: bool,
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
