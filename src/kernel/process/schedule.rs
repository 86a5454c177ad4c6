//! The scheduler: one process at a time, on the caller's thread, in an order that depends only on what
//! the processes did.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::outcome::{Outcome, RunError};
use super::turn::Turnstile;
use super::{NewProcess, TrappedProcess};
use crate::base::ambient;
use crate::kernel::guest::{BadPreopen, Guest, Startup};
use crate::kernel::io::host_stdin;
use crate::kernel::io::pipe::End;
use crate::kernel::io::stdio::{Input, Stdio};
use crate::kernel::machine::Machine;
use crate::kernel::machine::clock::ClockId;
use crate::kernel::machine::limits::Limit;
use crate::kernel::pid::Pid;
use crate::tape::{Kind, NativeEvent};

/// A running process. It is polled in its turn, and pending while it waits.
pub type Running = Pin<Box<dyn Future<Output = Ended>>>;

/// How a process runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mode {
    /// As a module. Its descriptors from 3 on are its preopens, as in preview1.
    Module,
    /// Built in. Its descriptors from 3 on are free, and its paths start at [`crate::kernel::guest::AT_FDCWD`].
    BuiltIn,
    /// Built in: looks up a program by name, starts it and has its outcome. Otherwise as [`Mode::BuiltIn`].
    Named,
    /// As the process that answers a host call. Otherwise as [`Mode::BuiltIn`].
    Host,
    /// Natively, on the host. Otherwise as [`Mode::BuiltIn`].
    Native {
        /// The sandbox profile that confines it, if any.
        profile: Option<String>,
    },
}

impl Mode {
    /// Its name on tapes.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Module => "wasi",
            Self::BuiltIn => "builtin",
            Self::Named => "named",
            Self::Host => "host",
            Self::Native { .. } => "native",
        }
    }

    /// The sandbox profile of a native program that is confined.
    pub fn into_profile(self) -> Option<String> {
        match self {
            Self::Native { profile } => profile,
            Self::Module | Self::BuiltIn | Self::Named | Self::Host => None,
        }
    }
}

/// Something that can run as a process.
pub trait Image: Send {
    /// Its name, for messages.
    fn name(&self) -> &str;

    /// How it runs.
    fn mode(&self) -> Mode;

    /// Most modules alive at once in a machine that runs this one; `None`: no limit.
    fn live_max(&self) -> Option<u32> {
        None
    }

    /// Starts it as `guest`, which has no turn yet: [`Guest::begin`] waits for it.
    fn start(self: Box<Self>, guest: Guest) -> Running;
}

/// A process that has ended and still has the turn.
pub struct Ended {
    /// The kernel's side of it.
    pub guest: Guest,
    /// How it ended, or why it did not start.
    pub outcome: Result<Outcome, RunError>,
}

/// The result of a run.
pub struct Finished<M = Machine> {
    /// The machine after the run.
    pub machine: M,
    /// The streams.
    pub stdio: Stdio,
    /// How the first process ended, or why it did not start; or what ended all.
    pub outcome: Result<Outcome, RunError>,
    /// The first 100 processes other than the first that trapped.
    pub trapped: Vec<TrappedProcess>,
    /// Fuel used, if the engine counts it.
    pub fuel_used: Option<u64>,
}

impl Finished<()> {
    /// The result of a run that did not begin.
    pub(crate) fn not_started(stdio: Stdio, error: RunError) -> Self {
        let (outcome, trapped, fuel_used) = (Err(error), Vec::new(), None);
        Self { machine: (), stdio, outcome, trapped, fuel_used }
    }
}

/// Runs `image` and all processes that it starts, in `machine`, until it ends. Blocks the calling thread.
pub fn run(image: Box<dyn Image>, mut machine: Machine, startup: Startup) -> Finished {
    machine.start_run();
    let mut guest = match Guest::first(machine, startup, image.as_ref()) {
        Ok(guest) => guest,
        Err(bad) => {
            let BadPreopen { machine, preopen, errno } = *bad;
            let program = image.name().to_owned();
            let error = RunError::Preopen { program, path: preopen.path, errno };
            return finish(machine, Some(error));
        }
    };
    let turnstile = guest.end_turn();
    let mut running = BTreeMap::from([(Pid::FIRST, image.start(guest))]);
    let mut not_started = None;
    let machine = loop {
        let mut machine = turnstile.take();
        for NewProcess { pid, guest, image } in machine.run.processes.newborn.drain(..) {
            running.insert(pid, image.start(guest));
        }
        let Some(pid) = machine.next_turn() else { break machine };
        turnstile.put(machine);
        let Some(process) = running.get_mut(&pid) else { continue };
        let Some(Ended { guest, outcome }) = take_turn(process, &turnstile) else { continue };
        running.remove(&pid);
        let error = guest.end(outcome);
        if pid == Pid::FIRST {
            not_started = error;
        }
    };
    finish(*machine, not_started)
}

/// Polls `process` until it ends or gives up its turn.
fn take_turn(process: &mut Running, turnstile: &Turnstile) -> Option<Ended> {
    loop {
        match process.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ended) => return Some(ended),
            Poll::Pending if turnstile.has_machine() => return None,
            // wasmtime also pauses for reasons of its own, such as garbage collection.
            Poll::Pending => {}
        }
    }
}

fn finish(mut machine: Machine, not_started: Option<RunError>) -> Finished {
    let processes = std::mem::take(&mut machine.run.processes);
    let stdio = std::mem::take(&mut machine.run.stdio);
    let given_back = std::mem::take(&mut machine.run.stdin_given_back).len();
    if given_back > 0 && matches!(stdio.stdin, Input::Host) {
        host_stdin::give_back(given_back as u64);
    }
    let outcome = match not_started {
        Some(error) => Err(error),
        None => Ok(processes.ended.unwrap_or(Outcome::Exited(0))),
    };
    let fuel_used = machine.run.fuel_left.map(|left| machine.fuel() - left);
    Finished { machine, stdio, outcome, trapped: processes.trapped, fuel_used }
}

/// How a wait for the host ended.
enum WaitEnd {
    /// The bell rang for this process.
    Ring(Pid),
    /// The clock may move.
    Time,
    /// The run's timeout.
    Timeout,
}

/// Real time before the first look at native programs, and between two looks at most.
const LOOK_FIRST: Duration = Duration::from_micros(200);
const LOOK_EVERY_MAX: Duration = Duration::from_millis(20);

/// Real time for which native programs must wait for input or for their readers before that is a deadlock: timers of their
/// own, which may be unseen, may end the wait.
const DEADLOCK_AFTER: Duration = Duration::from_secs(5);

impl Machine {
    /// Returns the process that runs next; `None` once all have ended. If all wait, it waits for the host
    /// if one waits for that, else moves the clock to the earliest time that one waits for.
    fn next_turn(&mut self) -> Option<Pid> {
        loop {
            if let Some(pid) = self.run.processes.next_ready() {
                return Some(pid);
            }
            if !self.run.processes.any_alive() {
                return None;
            }
            let due = self.run.processes.next_due();
            if self.run.processes.any_waits_for_host() {
                match self.listen(due) {
                    WaitEnd::Ring(pid) => {
                        self.run.processes.wake_rung(pid);
                        continue;
                    }
                    WaitEnd::Timeout => {
                        self.end_at(Limit::Timeout);
                        continue;
                    }
                    WaitEnd::Time => {}
                }
            }
            // Waits for the host alone do not let time pass.
            self.run.busy = 0;
            let Some(due) = due else {
                let waits = self.run.processes.describe_waits();
                self.run.processes.end_all(Outcome::Deadlock(waits));
                continue;
            };
            match self.sleep_until(due) {
                Ok(()) => self.run.processes.wake_due(due),
                Err(limit) => self.end_at(limit),
            }
        }
    }

    /// Waits for the host, while another process waits for `due` on the machine's clock. The clock may
    /// move, and a tape records that,
    /// - as soon as all native programs are idle until they get input or their output is read, as far as the host can tell;
    /// - at the latest when the host was waited for as long as a process has waited for its time: a paused
    ///   clock stands still meanwhile, but never falls behind real time.
    fn listen(&mut self, due: Option<u64>) -> WaitEnd {
        let until = self.host_is_waited_for_until(due);
        let is_late = |until: Option<Instant>| until.is_some_and(|it| it <= ambient::instant_now());
        let is_looked_at = !self.run.bell.is_taped() && (due.is_none() || self.clock.is_virtual());
        let waiting = self.run.processes.waiting_at_pipes().filter(|_| is_looked_at);
        let mut pause = LOOK_FIRST;
        let mut idle_since = None;
        loop {
            let look_at = waiting.as_ref().and(ambient::instant_now().checked_add(pause));
            let waits = |pid| pid == Pid::MACHINE || self.run.processes.waits_for_bell(pid);
            let begun = ambient::instant_now();
            let heard = self.run.bell.listen(waits, until.into_iter().chain(look_at).min());
            let waited_ns = ambient::elapsed_since(begun).as_nanos();
            let waited_ns = u64::try_from(waited_ns).unwrap_or(u64::MAX);
            let host_waited_ns = &mut self.run.processes.host_waited_ns;
            *host_waited_ns = host_waited_ns.saturating_add(waited_ns);
            match heard {
                Some(Pid::MACHINE) if self.is_interrupted() => return WaitEnd::Timeout,
                Some(Pid::MACHINE) => break,
                Some(pid) => return WaitEnd::Ring(pid),
                None if self.run.bell.times_out() => return WaitEnd::Timeout,
                // The tape has no more: the run diverges here, or ended here.
                None if self.run.bell.is_taped() => return WaitEnd::Time,
                None if self.is_out_of_time() => return WaitEnd::Timeout,
                None if is_late(until) => break,
                None => {
                    let are_idle = |waiting: &Vec<(Pid, End)>| {
                        waiting.iter().all(|(pid, end)| self.run.bell.is_idle(*pid, *end))
                    };
                    if waiting.as_ref().is_some_and(are_idle) {
                        let since = *idle_since.get_or_insert(begun);
                        if due.is_some() || ambient::elapsed_since(since) >= DEADLOCK_AFTER {
                            break;
                        }
                    } else {
                        idle_since = None;
                    }
                    pause = (pause * 2).min(LOOK_EVERY_MAX);
                }
            }
        }
        if let (Some(tape), Some(pid)) = (&self.tape, self.run.processes.first_due()) {
            tape.push(Kind::Native { pid: pid.0, event: NativeEvent::ClockMoved });
        }
        WaitEnd::Time
    }

    /// Until when [`Machine::listen`] waits.
    fn host_is_waited_for_until(&mut self, due: Option<u64>) -> Option<Instant> {
        let left_ns = if self.clock.is_virtual() {
            self.run.processes.host_wait_left_ns()
        } else {
            due.map(|due| due.saturating_sub(self.clock.now(ClockId::Monotonic)))
        };
        let due = left_ns
            .and_then(|left_ns| ambient::instant_now().checked_add(Duration::from_nanos(left_ns)));
        due.into_iter().chain(self.deadline()).min()
    }

    /// Whether something has ended the run, and with it all its processes.
    pub fn run_has_ended(&self) -> bool {
        self.run.processes.ended.is_some()
    }

    /// Ends all processes at `limit`.
    pub(super) fn end_at(&mut self, limit: Limit) {
        self.note_limit(limit);
        self.run.processes.end_all(Outcome::Limit(limit));
    }

    /// Moves time until the monotonic clock shows `t`.
    ///
    /// # Errors
    /// The timeout that comes first, if any; the clock then stands there.
    pub(in crate::kernel) fn sleep_until(&mut self, t: u64) -> Result<(), Limit> {
        let stop_at = self.limits.virtual_timeout_ns().filter(|stop_at| t > *stop_at);
        let until = stop_at.unwrap_or(t);
        if self.is_at_taped_timeout() {
            return Err(Limit::Timeout);
        }
        if !self.clock.is_virtual() && self.is_interrupted_before(until) {
            return Err(Limit::Timeout);
        }
        if !self.clock.is_virtual()
            && let Some(left_ns) = self.time_left_ns()
        {
            let end = self.clock.now(ClockId::Monotonic).saturating_add(left_ns);
            if until > end {
                self.clock.sleep_until(end);
                return Err(Limit::Timeout);
            }
        }
        self.clock.sleep_until(until);
        self.run.clock_readers = 0;
        self.stamp_tape();
        stop_at.map_or(Ok(()), |_| Err(Limit::VirtualTimeout))
    }

    /// Waits until the host's clock shows `t` if this run can be interrupted; returns whether it is.
    fn is_interrupted_before(&mut self, t: u64) -> bool {
        let Some(interrupter) = self.interrupter().cloned() else { return false };
        let left_ns = t.saturating_sub(self.clock.now(ClockId::Monotonic));
        let left_ns = self.time_left_ns().into_iter().chain([left_ns]).min().unwrap_or(left_ns);
        interrupter.wait(Duration::from_nanos(left_ns))
    }

    /// Sets the tape's time to that of a virtual clock; the host's is recorded as it is read.
    fn stamp_tape(&mut self) {
        if self.clock.is_virtual()
            && let Some(tape) = &self.tape
        {
            tape.set_monotonic(self.clock.now(ClockId::Monotonic));
        }
    }
}
