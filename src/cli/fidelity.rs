//! `belljar fidelity`.

use anyhow::Result;

use super::args::tape::FidelityArgs;
use super::exit::{self, Usage};
use super::started_natives::StartedNatives;
use super::tape;
use super::text::printable;
use crate::tape::{CompareError, compare};

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
            let ran = StartedNatives::on(tape).map_err(Usage::because)?;
            if !ran.is_empty() {
                say!("{}: {ran}", printable(&tape.to_string_lossy()));
            }
        }
    }
    Ok(if report.is_faithful() { 0 } else { exit::DIFFERENT })
}
