//! The scheduler: one process at a time, on the caller's thread, in an order that depends on nothing
//! but what the processes did.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::outcome::{Outcome, RunError};
use super::turn::Turnstile;
use super::{Casualty, Newborn};
use crate::base::ambient;
use crate::kernel::guest::{BadPreopen, Guest, Startup};
use crate::kernel::io::host_stdin;
use crate::kernel::io::stdio::{Input, Stdio};
use crate::kernel::machine::Machine;
use crate::kernel::machine::clock::ClockId;
use crate::kernel::machine::limits::Limit;
use crate::kernel::pid::Pid;
use crate::tape::{Kind, NativeEvent};

/// A process that is going on. It is polled when it is its turn, and pending while it waits.
pub type Running = Pin<Box<dyn Future<Output = Ended>>>;

/// What a process runs on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mode {
    /// A module. Its descriptors from 3 on are the directories that it starts with, as preview1 has
    /// it.
    Module,
    /// The machine itself. Its descriptors from 3 on are free, and it looks paths up from
    /// [`crate::kernel::guest::AT_FDCWD`].
    BuiltIn,
    /// The machine itself, which looks a program up by its name, starts it and ends as that does. As
    /// [`Mode::BuiltIn`] otherwise.
    Named,
    /// Whoever answers calls of the host. As [`Mode::BuiltIn`] otherwise.
    Host,
    /// The host, which nobody can repeat. As [`Mode::BuiltIn`] otherwise.
    Native {
        /// The sandbox profile that confines it, if one does.
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

    /// The sandbox profile of a native one that is confined.
    pub fn into_profile(self) -> Option<String> {
        match self {
            Self::Native { profile } => profile,
            Self::Module | Self::BuiltIn | Self::Named | Self::Host => None,
        }
    }
}

/// What can be run as a process.
pub trait Image: Send {
    /// Its name, for messages.
    fn name(&self) -> &str;

    /// What it runs on.
    fn mode(&self) -> Mode;

    /// How many modules can live at once in a machine that runs this one; `None` for any number.
    fn live_max(&self) -> Option<u32> {
        None
    }

    /// Begins it as `guest`, which has no turn yet: [`Guest::begin`] waits for that.
    fn start(self: Box<Self>, guest: Guest) -> Running;
}

/// A process that has ended and still has its turn.
pub struct Ended {
    /// The kernel's side of it.
    pub guest: Guest,
    /// How it ended, or why it did not start.
    pub outcome: Result<Outcome, RunError>,
}

/// What a run leaves behind.
pub struct Finished<M = Machine> {
    /// The machine, with everything that the processes did to it.
    pub machine: M,
    /// The streams.
    pub stdio: Stdio,
    /// How the first process ended, or why it did not start; or what ended them all.
    pub outcome: Result<Outcome, RunError>,
    /// Processes but the first that trapped: the first hundred.
    pub casualties: Vec<Casualty>,
    /// Fuel that was used, if the engine counts it.
    pub fuel_used: Option<u64>,
}

impl Finished<()> {
    /// What is left of a run that did not begin.
    pub(crate) fn not_started(stdio: Stdio, error: RunError) -> Self {
        let (outcome, casualties, fuel_used) = (Err(error), Vec::new(), None);
        Self { machine: (), stdio, outcome, casualties, fuel_used }
    }
}

/// Runs `image` in `machine`, and all processes that it starts, until it ends. Blocks the calling
/// thread.
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
    let turnstile = guest.hand_on();
    let mut running = BTreeMap::from([(Pid::FIRST, image.start(guest))]);
    let mut not_started = None;
    let machine = loop {
        let mut machine = turnstile.take();
        for Newborn { pid, guest, image } in machine.run.processes.newborn.drain(..) {
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

/// Lets `process` run until it ends, or hands the machine on.
fn take_turn(process: &mut Running, turnstile: &Turnstile) -> Option<Ended> {
    loop {
        match process.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ended) => return Some(ended),
            Poll::Pending if turnstile.has_machine() => return None,
            // wasmtime pauses for reasons of its own, to collect garbage for one.
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
    Finished { machine, stdio, outcome, casualties: processes.casualties, fuel_used }
}

/// What a wait for the host ended with.
enum Heard {
    /// The host has done something for this process.
    Ring(Pid),
    /// Time comes before the host: the clock may move.
    Time,
    /// The run's timeout.
    Timeout,
}

/// After how much real time the host is looked at for the first time, and how much at most passes
/// between two looks.
const LOOK_FIRST: Duration = Duration::from_micros(200);
const LOOK_EVERY_MAX: Duration = Duration::from_millis(20);

impl Machine {
    /// Whose turn is next; `None` once all have ended. When everybody waits, the host is waited for
    /// if it has something to do; otherwise the clock moves to the earliest time that somebody waits
    /// for.
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
                    Heard::Ring(pid) => {
                        self.run.processes.wake_rung(pid);
                        continue;
                    }
                    Heard::Timeout => {
                        self.end_at(Limit::Timeout);
                        continue;
                    }
                    Heard::Time => {}
                }
            }
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

    /// Waits for the host, while somebody else waits for `due` on the machine's clock. Time comes
    /// first, and a tape has that,
    /// - as soon as all that the host runs for the machine does nothing before it is given input, as
    ///   far as the host can tell;
    /// - at the latest when the host was waited for as long as somebody has waited for a time: a clock
    ///   that is paused stands still meanwhile, but is never behind the real one.
    fn listen(&mut self, due: Option<u64>) -> Heard {
        let until = self.host_is_waited_for_until(due);
        let is_late = |until: Option<Instant>| until.is_some_and(|it| it <= ambient::instant_now());
        let is_looked_at = !self.run.bell.is_taped() && (due.is_none() || self.clock.is_virtual());
        let hungry = self.run.processes.hungry().filter(|_| is_looked_at);
        let mut pause = LOOK_FIRST;
        loop {
            let look_at = hungry.as_ref().and(ambient::instant_now().checked_add(pause));
            let waits = |pid| pid == Pid::MACHINE || self.run.processes.waits_for_host(pid);
            let begun = ambient::instant_now();
            let heard = self.run.bell.listen(waits, until.into_iter().chain(look_at).min());
            let waited_ns = ambient::elapsed_since(begun).as_nanos();
            let waited_ns = u64::try_from(waited_ns).unwrap_or(u64::MAX);
            let host_waited_ns = &mut self.run.processes.host_waited_ns;
            *host_waited_ns = host_waited_ns.saturating_add(waited_ns);
            match heard {
                Some(Pid::MACHINE) => break,
                Some(pid) => return Heard::Ring(pid),
                None if self.run.bell.times_out() => return Heard::Timeout,
                // The tape has no more: the run leaves it here, or ended here.
                None if self.run.bell.is_taped() => return Heard::Time,
                None if self.is_out_of_time() => return Heard::Timeout,
                None if is_late(until) => break,
                None => {
                    let is_idle =
                        |hungry: &Vec<Pid>| hungry.iter().all(|pid| self.run.bell.is_idle(*pid));
                    if hungry.as_ref().is_some_and(is_idle) {
                        break;
                    }
                    pause = (pause * 2).min(LOOK_EVERY_MAX);
                }
            }
        }
        if let (Some(tape), Some(pid)) = (&self.tape, self.run.processes.first_due()) {
            tape.push(Kind::Native { pid: pid.0, event: NativeEvent::ClockMoved });
        }
        Heard::Time
    }

    /// Until when the host is waited for, while somebody else waits for `due` on the machine's clock.
    fn host_is_waited_for_until(&mut self, due: Option<u64>) -> Option<Instant> {
        let left_ns = if self.clock.is_virtual() {
            self.run.processes.patience_left_ns()
        } else {
            due.map(|due| due.saturating_sub(self.clock.now(ClockId::Monotonic)))
        };
        let due = left_ns
            .and_then(|left_ns| ambient::instant_now().checked_add(Duration::from_nanos(left_ns)));
        due.into_iter().chain(self.deadline()).min()
    }

    /// Ends all processes at `limit`.
    pub(super) fn end_at(&mut self, limit: Limit) {
        self.note_limit(limit);
        self.run.processes.end_all(Outcome::Limit(limit));
    }

    /// Lets time pass until the monotonic clock shows `t`.
    ///
    /// # Errors
    /// The timeout that comes first, if one does; the clock then stands there.
    pub(in crate::kernel) fn sleep_until(&mut self, t: u64) -> Result<(), Limit> {
        let stop_at = self.limits.virtual_timeout_ns().filter(|stop_at| t > *stop_at);
        let until = stop_at.unwrap_or(t);
        if self.is_at_taped_timeout() {
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
        self.stamp_tape();
        stop_at.map_or(Ok(()), |_| Err(Limit::VirtualTimeout))
    }

    /// Has the tape show the time, if it is a virtual one: that of the host is on it as it is read.
    fn stamp_tape(&mut self) {
        if self.clock.is_virtual()
            && let Some(tape) = &self.tape
        {
            tape.set_monotonic(self.clock.now(ClockId::Monotonic));
        }
    }
}
