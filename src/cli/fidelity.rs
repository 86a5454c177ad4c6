//! `belljar fidelity`.

use std::path::PathBuf;

use anyhow::Result;
use belljar::tape::{CompareError, FidelityMode, compare};
use clap::Args;

use super::exit::{self, Usage};
use super::host_programs::HostPrograms;
use super::report::printable;
use super::tape;

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

pub fn run(args: &FidelityArgs) -> Result<u8> {
    for tape in [&args.recorded, &args.replay] {
        tape::open(tape)?;
    }
    let compared = compare(args.recorded.as_path(), args.replay.as_path(), args.mode);
    let report = match compared {
        Err(CompareError::Tape(error)) => {
            return Err(Usage::because(error).into());
        }
        report => report?,
    };
    if args.json {
        say!("{}", serde_json::to_string(&report)?);
    } else {
        say!("{}", report.render().trim_end());
        for tape in [&args.recorded, &args.replay] {
            let ran = HostPrograms::on(tape).map_err(Usage::because)?;
            if !ran.is_empty() {
                say!("{}: {ran}", printable(&tape.to_string_lossy()));
            }
        }
    }
    Ok(if report.is_faithful() { 0 } else { exit::DIFFERENT })
}
