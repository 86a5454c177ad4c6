//! Timeouts in real time, and their replay.
//!
//! Real time cannot be replayed, so the tape has the number of steps: calls begun, calls ended, shell commands.
//! A process that ends between two steps has only computed since the first, which nothing can observe.

use std::collections::VecDeque;
use std::time::Instant;

use super::{Interrupter, Machine};
use crate::base::ambient;
use crate::kernel::process::programs::{uncounted_since, uncounted_time};
use crate::tape::{Kind, Recorder};

/// Where a recorded run timed out.
#[derive(Clone, Copy, Debug)]
pub struct TapedTimeout {
    /// The place on the tape.
    pub seq: u64,
    /// Steps of the machine by then.
    pub steps: u64,
}

/// The steps of a machine's runs, and where they time out.
#[derive(Debug, Default)]
pub(crate) struct Timeouts {
    /// Steps of all processes, in all runs.
    steps: u64,
    /// Where the replayed runs timed out.
    taped: Option<VecDeque<TapedTimeout>>,
}

impl Timeouts {
    /// For a machine that replays a tape on which runs timed out at `ends`.
    pub(super) fn taped(ends: Vec<TapedTimeout>) -> Self {
        Self { taped: Some(ends.into()), ..Self::default() }
    }

    /// Counts a step.
    #[inline]
    pub(crate) fn step(&mut self) {
        self.steps += 1;
    }

    /// Returns whether the replayed run timed out here or before; the tape has `records` by now.
    pub(crate) fn is_here(&self, records: Option<u64>) -> bool {
        let Some(taped) = &self.taped else { return false };
        let is_here = |end: &TapedTimeout| {
            self.steps >= end.steps && records.is_none_or(|records| records >= end.seq)
        };
        taped.front().is_some_and(is_here)
    }
}

impl Machine {
    /// Returns whether more is to be done after a call than to return its answer: for the trace, the tape, or a timeout.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.tape.is_some()
            || self.trace.is_some()
            || self.timeouts.taped.is_some()
            || self.run.has_timed_out
    }

    /// Returns whether the replayed run timed out here or before.
    #[inline]
    pub(crate) fn is_at_taped_timeout(&self) -> bool {
        self.timeouts.taped.is_some() && self.is_past_taped_timeout()
    }

    #[cold]
    fn is_past_taped_timeout(&self) -> bool {
        // The process may have to reach its next step before it ends.
        let is_here = || self.timeouts.is_here(self.tape.as_ref().map(Recorder::records));
        self.run.has_timed_out || is_here()
    }

    /// Starts the countdown of [`crate::Limits::timeout`].
    pub(super) fn start_countdown(&mut self) {
        // A deadline that the clock cannot represent never comes.
        let end = |timeout| ambient::instant_now().checked_add(timeout);
        self.run.deadline = self.limits.timeout.and_then(end);
        self.run.uncounted_before = uncounted_time();
    }

    /// The deadline of the run: later by its uncounted time, or when it was interrupted.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let interrupted = self.interrupter().and_then(Interrupter::at);
        interrupted.into_iter().chain(self.deadline_of_timeout()).min()
    }

    fn deadline_of_timeout(&self) -> Option<Instant> {
        self.run.deadline?.checked_add(uncounted_since(self.run.uncounted_before))
    }

    /// Real time left of the run in nanoseconds, if it is limited.
    pub(in crate::kernel) fn time_left_ns(&self) -> Option<u64> {
        let left = self.deadline()?.saturating_duration_since(ambient::instant_now());
        Some(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns whether the run is past its timeout.
    pub(crate) fn is_out_of_time(&self) -> bool {
        self.is_at_taped_timeout() || is_over(self.deadline())
    }

    /// Records once that the run timed out.
    pub(super) fn tape_timeout(&mut self) {
        if std::mem::replace(&mut self.run.has_timed_out, true) {
            return;
        }
        let Timeouts { steps, taped } = &mut self.timeouts;
        // An older tape does not have it, nor one whose replay is too slow.
        let is_on_tape = taped.as_mut().is_none_or(|taped| taped.pop_front().is_some());
        if let Some(tape) = self.tape.as_ref().filter(|_| is_on_tape) {
            tape.push(Kind::Timeout { steps: *steps });
        }
    }

    /// Returns whether the run timed out.
    pub(crate) fn has_timed_out(&self) -> bool {
        self.run.has_timed_out
    }
}

/// Returns whether `deadline` has passed.
pub(in crate::kernel) fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| deadline <= ambient::instant_now())
}
