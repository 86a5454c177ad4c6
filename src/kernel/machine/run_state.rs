//! The state of one run of a machine.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::limits::{Limit, Limits};
use super::memory::Memory;
use super::{Machine, OnUse};
use crate::kernel::io::fd::Descriptions;
use crate::kernel::io::pipe::Pipes;
use crate::kernel::io::stdio::Stdio;
use crate::kernel::process::Processes;
use crate::kernel::process::wakeup::HostBell;

/// The state of one run, made anew for each; afterwards, its results.
pub(crate) struct RunState {
    pub(crate) descriptions: Descriptions,
    pub(crate) pipes: Pipes,
    pub(crate) processes: Processes,
    pub(crate) stdio: Stdio,
    /// Bytes of standard input that were read and put back.
    pub(crate) stdin_given_back: VecDeque<u8>,
    /// Wakes processes that wait for the host.
    pub(crate) bell: HostBell,
    /// Memory taken by processes.
    pub(crate) memory: Memory,
    /// Processes that have read the clock since it last moved.
    pub(in crate::kernel) clock_readers: u32,
    /// What processes did since all of them waited, in the units of [`BUSY_MAX`].
    pub(in crate::kernel) busy: u32,
    /// How often they were busy for that long while none of them waited for a time.
    pub(in crate::kernel) timeless_rests: u64,
    /// Remaining fuel, if it is counted.
    pub(crate) fuel_left: Option<u64>,
    /// Whether standard output, and error, are known to have no reader any more.
    pub(in crate::kernel) outputs_without_reader: [bool; 2],
    /// Remaining bytes of output.
    pub(crate) output_left: u64,
    /// The deadline on the host's clock.
    pub(super) deadline: Option<Instant>,
    /// Uncounted time of this thread when the run began.
    pub(super) uncounted_before: Duration,
    /// Rings the bell when the machine is interrupted.
    pub(super) interruption: Option<OnUse>,
    /// Whether it timed out, so that the tape has it.
    pub(super) has_timed_out: bool,
    pub(super) limits_hit: Vec<Limit>,
    /// Programs that processes did not find.
    pub(in crate::kernel) missing_programs: Vec<String>,
    /// What a call of an export returned.
    pub(crate) returned: Option<serde_json::Value>,
}

impl RunState {
    /// Creates the state of a run with the full `limits`, in which `bell` rings.
    pub(super) fn new(limits: &Limits, bell: HostBell) -> Self {
        Self {
            descriptions: Descriptions::default(),
            pipes: Pipes::default(),
            processes: Processes::default(),
            stdio: Stdio::default(),
            stdin_given_back: VecDeque::new(),
            bell,
            memory: Memory::new(limits.memory_bytes_max),
            clock_readers: 0,
            busy: 0,
            timeless_rests: 0,
            fuel_left: None,
            outputs_without_reader: [false; 2],
            output_left: limits.output_bytes_max,
            deadline: None,
            uncounted_before: Duration::ZERO,
            interruption: None,
            has_timed_out: false,
            limits_hit: Vec::new(),
            missing_programs: Vec::new(),
            returned: None,
        }
    }
}

impl Machine {
    /// What the call of an export returned in the last run: see [`Command::invoke`](crate::Command::invoke). Several
    /// results are a list. Records are objects; a variant is its name, or an object of its name and its value; `none` is
    /// null; what JSON has no numbers for are the strings `nan`, `inf` and `-inf`.
    pub fn returned(&self) -> Option<&serde_json::Value> {
        self.run.returned.as_ref()
    }

    /// Starts a run, and the countdown of [`Limits::timeout`].
    pub(crate) fn start_run(&mut self) {
        let next = RunState::new(&self.limits, self.run.bell.for_next_run());
        let last = std::mem::replace(&mut self.run, next);
        if self.kernel_version < 5 {
            self.run.output_left = last.output_left;
            self.run.memory = last.memory;
            self.run.limits_hit = last.limits_hit;
            self.run.missing_programs = last.missing_programs;
        } else {
            self.vfs.forget_limit_hit();
        }
        self.vfs.note_process_end();
        self.start_countdown();
        self.listen_to_interrupter();
    }

    /// The limits that guests reached in the last run, each once, in that order.
    pub fn limits_hit(&self) -> Vec<Limit> {
        let mut hit = self.run.limits_hit.clone();
        if self.run.memory.has_refused() && !hit.contains(&Limit::Memory) {
            hit.push(Limit::Memory);
        }
        match self.vfs.limit_hit() {
            Some("upper_bytes_max") => hit.push(Limit::Upper),
            Some(_) => hit.push(Limit::FileSize),
            None => {}
        }
        hit
    }

    /// Notes that a guest reached `limit`.
    pub(crate) fn note_limit(&mut self, limit: Limit) {
        if !self.run.limits_hit.contains(&limit) {
            self.run.limits_hit.push(limit);
        }
        if limit == Limit::Timeout {
            self.tape_timeout();
        }
    }

    /// The fuel of a run, if it is counted.
    pub(crate) fn fuel(&self) -> u64 {
        self.limits.fuel.unwrap_or(u64::MAX)
    }
}
