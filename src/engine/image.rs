//! Programs as processes.

use super::config::MODULES_MAX;
use super::known::{self, Knowable};
use super::program::Program;
use super::run::run_calling;
use crate::kernel::guest::Guest;
use crate::kernel::process::schedule::{Ended, Image, Mode, Running};

impl Image for Program {
    fn name(&self) -> &str {
        Program::name(self)
    }

    fn mode(&self) -> Mode {
        Mode::Module
    }

    fn live_max(&self) -> Option<u32> {
        Some(MODULES_MAX)
    }

    fn start(self: Box<Self>, guest: Guest) -> Running {
        Box::pin(process(*self, guest))
    }
}

/// Runs `program` as `guest`, unless its results are known.
pub(super) async fn process(program: impl Knowable, mut guest: Guest) -> Ended {
    if let Err(stop) = guest.begin() {
        return Ended { guest, outcome: Ok(stop.into()) };
    }
    if let Some(results) = known::results_for(&program, &guest) {
        // In a box: a process that is not answered does not carry its state.
        return Box::pin(known::process(&results, &program, guest)).await;
    }
    match program.load() {
        Ok(program) => run_calling(&program, guest, None).await.0,
        Err(error) => Ended { guest, outcome: Err(error) },
    }
}
