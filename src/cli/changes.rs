//! What becomes of a run's changes to files.

use anyhow::Result;
use belljar::{Machine, Outcome};

use super::args::RunArgs;
use super::report::Change;

/// What changed, and whether it is on the disk now.
#[derive(Default)]
pub struct Changes {
    pub list: Vec<Change>,
    pub applied: bool,
}

pub fn settle(_args: &RunArgs, _machine: &mut Machine, _outcome: &Outcome) -> Result<Changes> {
    Ok(Changes::default())
}
