//! Processes that the host had nothing left for when a tape was recorded: a replay ends where the run did.

use std::collections::VecDeque;

use crate::kernel::pid::Pid;

/// A process that could not be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapedLack {
    /// The place on the tape.
    pub seq: u64,
    /// Which process it was.
    pub pid: Pid,
    /// What was said.
    pub message: String,
}

/// Those of the runs that a machine repeats, in the order of the tape.
#[derive(Debug, Default)]
pub(crate) struct Lacks(VecDeque<TapedLack>);

impl Lacks {
    pub(super) fn taped(lacks: Vec<TapedLack>) -> Self {
        Self(lacks.into())
    }

    /// What was said of the process `pid`, if it could not be started where the tape had as many `records` as it
    /// has now.
    pub(crate) fn at(&mut self, pid: Pid, records: impl FnOnce() -> u64) -> Option<String> {
        let lack = self.0.pop_front_if(|lack| lack.pid == pid && lack.seq == records())?;
        Some(lack.message)
    }
}
