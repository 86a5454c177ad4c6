//! Children of a component: a resource of `belljar:process`.

use crate::kernel::process::{Pid, WaitStatus};

/// `belljar:process/processes.child`
#[derive(Clone, Copy)]
pub(in crate::abi) struct Child {
    pub pid: Pid,
    /// How it ended, once it was waited for.
    pub status: Option<WaitStatus>,
}

impl Child {
    /// The process, until it was waited for.
    pub fn awaited(&self) -> Option<Pid> {
        self.status.is_none().then_some(self.pid)
    }
}
