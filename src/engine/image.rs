//! Programs as processes.

use super::config::MODULES_MAX;
use super::known;
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

async fn process(program: Program, mut guest: Guest) -> Ended {
    if let Err(stop) = guest.begin() {
        return Ended { guest, outcome: Ok(stop.into()) };
    }
    match known::results_for(&program, &guest) {
        None => run_calling(&program, guest, None).await.0,
        // In a box: a process that is not answered does not carry its state.
        Some(results) => Box::pin(known::process(&results, &program, guest)).await,
    }
}
