//! Optimizes modules while programs run their quick code.

use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};

use super::{Module, Program};
use crate::base::priority;

/// Has threads of low priority optimize `module`, from which `program` was made.
pub(super) fn optimize(program: &Program, module: &Module) {
    // Without a thread, or if it fails, for example because the module takes too much memory, quick code stays.
    if let Some(jobs) = jobs() {
        let _ = jobs.send((program.clone(), module.clone()));
    }
}

/// Takes modules to a thread that optimizes one after the other, on further threads. They belong to the process:
/// however many engines it has, it has one set of processors.
fn jobs() -> Option<&'static Sender<(Program, Module)>> {
    static JOBS: OnceLock<Option<Sender<(Program, Module)>>> = OnceLock::new();
    let start = || {
        let (jobs, wanted) = mpsc::channel::<(Program, Module)>();
        let work = move || {
            // Threads that compile get the priority of this one.
            priority::give_way();
            for (program, module) in wanted {
                let _ = program.optimize(&module);
            }
        };
        let name = "belljar-optimizer".to_owned();
        std::thread::Builder::new().name(name).spawn(work).ok().map(|_| jobs)
    };
    JOBS.get_or_init(start).as_ref()
}
