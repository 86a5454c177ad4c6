//! Processes that could not start for lack of host resources, for replays.

use std::collections::VecDeque;

use crate::kernel::pid::Pid;

/// A process that could not be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapedLack {
    /// The place on the tape.
    pub seq: u64,
    /// Which process it was.
    pub pid: Pid,
    /// The message.
    pub message: String,
}

/// Those of the runs that a machine replays, in the order of the tape.
#[derive(Debug, Default)]
pub(crate) struct Lacks(VecDeque<TapedLack>);

impl Lacks {
    pub(super) fn taped(lacks: Vec<TapedLack>) -> Self {
        Self(lacks.into())
    }

    /// Returns the message of the process `pid`, if the recorded run could not start it after as many
    /// `records` as there are now.
    pub(crate) fn at(&mut self, pid: Pid, records: impl FnOnce() -> u64) -> Option<String> {
        let lack = self.0.pop_front_if(|lack| lack.pid == pid && lack.seq == records())?;
        Some(lack.message)
    }
}
