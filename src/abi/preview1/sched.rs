//! `sched_yield`.

use wasmtime::Caller;

use crate::abi::{Answering, Process, call_waiting, trace};

/// `sched_yield()`: lets other processes run.
pub fn sched_yield(caller: Caller<'_, Process>, (): ()) -> Answering<'_> {
    Box::new(call_waiting(caller, "sched_yield", |_, guest| {
        trace!(guest, "");
        guest.sched_yield()?;
        Ok(None)
    }))
}
