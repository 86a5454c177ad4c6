//! When real time ends a run, and how a replay ends where the recorded run did.
//!
//! Where real time ends a run nobody can repeat, so the tape says it in steps: calls that have begun,
//! calls that have ended, commands of the shell. A process that is ended between two steps has only
//! computed since the first of them, which nobody can observe.

use std::collections::VecDeque;
use std::time::Instant;

use super::Machine;
use crate::base::ambient;
use crate::kernel::process::programs::{uncounted_by_now, uncounted_since};
use crate::tape::{Kind, Recorder};

/// Where real time ended a recorded run.
#[derive(Clone, Copy, Debug)]
pub struct TapedTimeout {
    /// The place on the tape.
    pub seq: u64,
    /// Steps of the machine until then.
    pub steps: u64,
}

/// How far the runs of a machine have come, and where real time ends them.
#[derive(Debug, Default)]
pub(crate) struct Timeouts {
    /// Steps of all processes, in all runs.
    steps: u64,
    /// Where the recorded runs were ended that a machine repeats.
    taped: Option<VecDeque<TapedTimeout>>,
}

impl Timeouts {
    /// Those of a machine that repeats a tape on which real time ended runs at `ends`.
    pub(super) fn taped(ends: Vec<TapedTimeout>) -> Self {
        Self { taped: Some(ends.into()), ..Self::default() }
    }

    /// Counts a step.
    #[inline]
    pub(crate) fn step(&mut self) {
        self.steps += 1;
    }

    /// Whether the machine repeats a run that was ended here, or before, if its tape has `records` by now.
    pub(crate) fn is_here(&self, records: Option<u64>) -> bool {
        let Some(taped) = &self.taped else { return false };
        let is_here = |end: &TapedTimeout| {
            self.steps >= end.steps && records.is_none_or(|records| records >= end.seq)
        };
        taped.front().is_some_and(is_here)
    }

    /// Whether a recorded run will be ended that the machine repeats.
    pub(crate) fn repeats(&self) -> bool {
        self.taped.as_ref().is_some_and(|taped| !taped.is_empty())
    }
}

impl Machine {
    /// Whether the machine repeats a run that was ended here, or before.
    #[inline]
    pub(crate) fn is_at_taped_timeout(&self) -> bool {
        // A process may have to come to its next step to be ended.
        let is_here = || self.timeouts.is_here(self.tape.as_ref().map(Recorder::records));
        self.timeouts.taped.is_some() && (self.run.has_timed_out || is_here())
    }

    /// Starts the countdown of [`crate::Limits::timeout`].
    pub(super) fn start_countdown(&mut self) {
        // A timeout that no clock can show never comes.
        let end = |timeout| ambient::instant_now().checked_add(timeout);
        self.run.deadline = self.limits.timeout.and_then(end);
        self.run.uncounted_before = uncounted_by_now();
    }

    /// When the run's timeout is over. What was done for it that no timeout counts moves it.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.run.deadline?.checked_add(uncounted_since(self.run.uncounted_before))
    }

    /// Real time that the run has left, in nanoseconds, if it is bounded.
    pub(in crate::kernel) fn time_left_ns(&self) -> Option<u64> {
        let left = self.deadline()?.saturating_duration_since(ambient::instant_now());
        Some(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Whether the run has gone on for too long.
    pub(crate) fn is_out_of_time(&self) -> bool {
        self.is_at_taped_timeout() || is_over(self.deadline())
    }

    /// Records where real time ends the run, once.
    pub(super) fn tape_timeout(&mut self) {
        if std::mem::replace(&mut self.run.has_timed_out, true) {
            return;
        }
        let Timeouts { steps, taped } = &mut self.timeouts;
        // An older tape does not say where, and one that is repeated too slowly has nothing to say.
        let is_on_tape = taped.as_mut().is_none_or(|taped| taped.pop_front().is_some());
        if let Some(tape) = self.tape.as_ref().filter(|_| is_on_tape) {
            tape.push(Kind::Timeout { steps: *steps });
        }
    }

    /// Whether the run was ended because it went on for too long.
    pub(crate) fn has_timed_out(&self) -> bool {
        self.run.has_timed_out
    }
}

/// Whether a run that must end at `deadline` has gone on for too long.
pub(in crate::kernel) fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| deadline <= ambient::instant_now())
}
