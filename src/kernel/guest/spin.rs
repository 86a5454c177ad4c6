//! The clock as a process sees it, and loops that wait by asking again and again: they let time pass, so that they end,
//! and end the same way in each run.

use super::{Fault, Guest};
use crate::kernel::machine::clock::{
    BUSY_MAX, BUSY_NS, BUSY_START, ClockId, FREE_READS, READ_NS, SPIN_FREE_READS, SPIN_FREE_STARTS,
    SPIN_START_NS, SPIN_TICK_NS, UPTIME_NS,
};
use crate::kernel::machine::limits::Stop;
use crate::kernel::process::{Signal, Wait};

/// What a process did without a wait.
#[derive(Default)]
pub(super) struct Spin {
    /// Reads of the clock since the last other call.
    reads_in_a_row: u64,
    /// Reads of the clock since the last wait.
    reads: u64,
    /// Questions in vain since the last wait.
    questions: u64,
    /// Whether it has read the clock since it started.
    has_read: bool,
}

impl Spin {
    /// A call begins.
    #[inline]
    pub fn note_call(&mut self, reads_clock: bool) {
        if !reads_clock {
            self.reads_in_a_row = 0;
        }
    }

    /// The process waits for something to happen.
    pub fn note_wait(&mut self) {
        (self.reads, self.questions) = (0, 0);
    }
}

impl Guest {
    /// `clock_time_get`: returns the time of a clock in nanoseconds.
    ///
    /// Reads move a virtual clock beyond [`SPIN_FREE_READS`] with no other call between, beyond [`FREE_READS`] without a
    /// wait, and when more than [`SPIN_FREE_STARTS`] processes have read it while it stood still.
    ///
    /// # Errors
    /// [`Fault::Stop`] if a timeout comes first, that of the run or of the command that the process belongs to.
    pub fn clock_time_get(&mut self, id: ClockId) -> Result<u64, Fault> {
        if self.machine.clock.is_virtual() {
            let step_ns = self.step_of_read();
            if step_ns > 0 {
                let now = self.machine.clock.now(ClockId::Monotonic);
                let readers = self.machine.run.clock_readers;
                let now = now.saturating_add(step_ns);
                self.pass_time(now)?;
                self.machine.run.clock_readers = readers;
                self.check_deadline(now)?;
            }
        }
        let value_ns = self.read_clock(id);
        self.tape_clock_read(id, value_ns);
        Ok(value_ns)
    }

    /// Kills the processes of the group, this one too, once `now` is the deadline of the group. A process that only reads the
    /// clock keeps its turn, so that no other process could do that.
    fn check_deadline(&mut self, now: u64) -> Result<(), Fault> {
        let processes = &mut self.machine.run.processes;
        if processes.deadline(self.pid).is_none_or(|end| end > now) {
            return Ok(());
        }
        let group = processes.group(self.pid);
        processes.kill_group(group);
        Err(Fault::Stop(Stop::Signalled(Signal::KILL)))
    }

    /// Counts a read of the clock; returns by how much it moves the clock.
    #[inline]
    fn step_of_read(&mut self) -> u64 {
        let spin = &mut self.spin;
        spin.reads_in_a_row += 1;
        spin.reads += 1;
        let is_free = spin.reads_in_a_row <= SPIN_FREE_READS && spin.reads <= FREE_READS;
        if is_free && spin.has_read { 0 } else { self.step_of_odd_read() }
    }

    /// By how much a read moves the clock that is the first one, or one of many.
    #[cold]
    fn step_of_odd_read(&mut self) -> u64 {
        let is_known = self.knows_version_11();
        let spin = &mut self.spin;
        let mut step_ns = if spin.reads_in_a_row > SPIN_FREE_READS { SPIN_TICK_NS } else { 0 };
        let is_first = !std::mem::replace(&mut spin.has_read, true);
        if is_known {
            if spin.reads > FREE_READS {
                step_ns = step_ns.max(READ_NS);
            }
            if is_first {
                let readers = &mut self.machine.run.clock_readers;
                *readers = readers.saturating_add(1);
                if *readers > SPIN_FREE_STARTS {
                    step_ns = step_ns.max(SPIN_START_NS);
                }
            }
        }
        step_ns
    }

    /// Returns what is added to clock `id` for modules: see [`UPTIME_NS`].
    pub fn uptime_ns(&self, id: ClockId) -> u64 {
        let starts_at_0 = id != ClockId::Monotonic || self.machine.kernel_version() == 0;
        if starts_at_0 { 0 } else { UPTIME_NS }
    }

    /// Moves time until the monotonic clock shows `t`, within a turn.
    ///
    /// # Errors
    /// [`Fault::Stop`] if a timeout comes first; the clock then stands at that timeout.
    pub fn pass_time(&mut self, t: u64) -> Result<(), Fault> {
        self.tape_sleep(t);
        self.machine.sleep_until(t).map_err(|limit| self.stop_at(limit))
    }

    /// `sched_yield`: lets the other processes that are ready run. A process that calls it more than [`SPIN_FREE_READS`]
    /// times without another wait sleeps for [`SPIN_TICK_NS`], if others wait for a time or for the host.
    ///
    /// # Errors
    /// [`Fault::Wait`] if others can act.
    pub fn sched_yield(&mut self) -> Result<(), Fault> {
        if self.has_yielded() {
            return Ok(());
        }
        let time_ns = if self.asks_too_often() { SPIN_TICK_NS } else { 0 };
        self.let_others_act(time_ns)
    }

    /// As [`Guest::sched_yield`]; in version 10 of the kernel, processes whose time has come are ready, too.
    ///
    /// # Errors
    /// As [`Guest::sched_yield`].
    pub fn yield_to_due(&mut self) -> Result<(), Fault> {
        if !self.knows_version_11() {
            let now = self.monotonic_time_in(0);
            self.machine.run.processes.wake_due(now);
        }
        self.sched_yield()
    }

    /// As [`Guest::sched_yield`], after work that takes `time_ns` if others wait for a time or for the host.
    ///
    /// # Errors
    /// As [`Guest::sched_yield`].
    pub fn pass_turn(&mut self, time_ns: u64) -> Result<(), Fault> {
        if self.has_yielded() {
            return Ok(());
        }
        let time_ns = if self.knows_version_11() { time_ns } else { 0 };
        self.let_others_act(time_ns)
    }

    /// The answer is that what the process asks for has not happened yet. A process that asks more than
    /// [`SPIN_FREE_READS`] times without a wait lets others act, as by [`Guest::sched_yield`].
    ///
    /// # Errors
    /// [`Fault::Wait`]: it asks again afterwards.
    pub fn ask_in_vain(&mut self) -> Result<(), Fault> {
        if self.has_yielded() || !self.asks_too_often() {
            return Ok(());
        }
        self.let_others_act(SPIN_TICK_NS)
    }

    /// `bytes` were read from, or written to, something that is not a file.
    #[inline]
    pub(super) fn note_transfer(&mut self, bytes: u64) {
        let kib = u32::try_from(bytes >> 10).unwrap_or(u32::MAX);
        self.note_work(kib.saturating_add(1));
    }

    /// A process is started.
    pub(super) fn note_start(&mut self) {
        self.note_work(BUSY_START);
    }

    #[inline]
    fn note_work(&mut self, work: u32) {
        let busy = &mut self.machine.run.busy;
        *busy = busy.saturating_add(work);
    }

    /// A call begins that may wait, and has done nothing yet. Once the processes were busy for [`BUSY_MAX`], this one lets
    /// others act.
    ///
    /// # Errors
    /// [`Fault::Wait`]: it begins again afterwards.
    #[inline]
    pub fn rest_if_busy(&mut self) -> Result<(), Fault> {
        if self.machine.run.busy > BUSY_MAX { self.rest() } else { Ok(()) }
    }

    #[cold]
    fn rest(&mut self) -> Result<(), Fault> {
        self.machine.run.busy = 0;
        // Others may have been busy again in its rest.
        if self.has_yielded() || !self.knows_version_11() {
            return Ok(());
        }
        let run = &mut self.machine.run;
        run.timeless_rests += u64::from(run.processes.next_due().is_none());
        self.let_others_act(if self.machine.clock.is_virtual() { BUSY_NS } else { SPIN_TICK_NS })
    }

    /// How often processes were busy for [`BUSY_MAX`] while none waited for a time: no time passed for that.
    pub(crate) fn timeless_rests(&self) -> u64 {
        self.machine.run.timeless_rests
    }

    /// Ends the turn if others can act: for `time_ns`, or until they have had theirs.
    fn let_others_act(&mut self, time_ns: u64) -> Result<(), Fault> {
        let processes = &self.machine.run.processes;
        // The host is waited for in real time.
        let is_for_host = processes.next_due().is_none();
        let time_ns = if is_for_host { time_ns.min(SPIN_TICK_NS) } else { time_ns };
        let sleeps = time_ns > 0 && (!is_for_host || processes.any_waits_for_host());
        if !sleeps && !processes.others_are_ready() {
            return Ok(());
        }
        self.progress.get_or_insert_default().yielded = true;
        if !sleeps {
            return Err(self.wait(Wait::Turn, None));
        }
        let until = self.monotonic_time_in(time_ns);
        self.tape_sleep(until);
        let Spin { reads, questions, .. } = self.spin;
        let fault = self.wait(Wait::Time, Some(until));
        (self.spin.reads, self.spin.questions) = (reads, questions);
        Err(fault)
    }

    fn has_yielded(&self) -> bool {
        self.progress.as_ref().is_some_and(|progress| progress.yielded)
    }

    fn asks_too_often(&mut self) -> bool {
        let is_known = self.knows_version_11();
        self.spin.questions += u64::from(is_known);
        self.spin.questions > SPIN_FREE_READS
    }
}
