//! The process table: parents, states, waits.

mod groups;
pub mod outcome;
pub mod programs;
pub mod schedule;
mod signal;
pub(super) mod turn;
mod waits;
pub mod wakeup;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use self::outcome::{Outcome, Trap};
use self::schedule::Image;
pub use self::signal::Signal;
use super::guest::Guest;
use super::io::pipe::{End, PipeId};
pub use super::pid::Pid;
use crate::base::errno::Errno;

/// How a process ended, for its parent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitStatus {
    /// It exited with this code.
    Exited(u32),
    /// This signal killed it.
    Signalled(Signal),
}

impl WaitStatus {
    fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Exited(code) => Self::Exited(*code),
            Outcome::Trapped(_) => Self::Signalled(Signal::ABRT),
            Outcome::Signalled(signal) => Self::Signalled(*signal),
            Outcome::Limit(_) | Outcome::Deadlock(_) | Outcome::Tape => {
                Self::Signalled(Signal::KILL)
            }
        }
    }

    /// The exit status of a shell: the low byte of the code, or 128 plus the number of the signal.
    pub fn code(self) -> u8 {
        match self {
            Self::Exited(code) => (code & 0xff) as u8,
            Self::Signalled(signal) => 128 + signal.number(),
        }
    }
}

/// The event that a process waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Its turn.
    Turn,
    /// Bytes in a pipe, or its end.
    Readable(PipeId),
    /// Room in a pipe, or the end of its readers.
    Writable(PipeId),
    /// One of several pipes, a time, or the end of a child.
    Poll(Vec<(PipeId, End)>, Vec<Pid>),
    /// The end of this child, or of any.
    Child(Option<Pid>),
    /// A time only.
    Time,
    /// The bell, or bytes in this pipe; or room in this pipe, while something outside may act. The bell is not heard then.
    Host(Option<(PipeId, End)>),
}

#[derive(Debug)]
enum State {
    Ready,
    Running,
    Waiting(Wait),
    Zombie(WaitStatus),
}

#[derive(Debug)]
struct Entry {
    parent: Pid,
    /// The leader of its group.
    group: Pid,
    /// Whether its parent does not see it: it makes a host call for it.
    hidden: bool,
    name: Box<str>,
    state: State,
    /// The signal that has killed it, until it notices.
    killed: Option<Signal>,
    /// When its group ends, if it leads one and that is known: a time of the monotonic clock in nanoseconds.
    deadline: Option<u64>,
    /// The child that it has become, as by `exec`.
    became: Option<Pid>,
    timer: Option<(u64, u64)>,
    /// Until when its timer leaves native programs time, counted as [`Processes::host_waited_ns`].
    host_wait_max_ns: u64,
    /// The last time that it waited for in one wait after another, with its `host_wait_max_ns`.
    instant: Option<(u64, u64)>,
    /// Whether its last wait ended at its time.
    timed_out: bool,
    /// Whether the bell has rung for it since its last wait began.
    rung: bool,
}

/// A process that has been made and has not begun.
pub(super) struct NewProcess {
    pub pid: Pid,
    pub guest: Guest,
    pub image: Box<dyn Image>,
}

/// A process that trapped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrappedProcess {
    /// The process.
    pub pid: Pid,
    /// Its name.
    pub name: String,
    /// The trap.
    pub trap: Trap,
}

/// Most trapped processes kept: a guest decides how many there are.
pub(crate) const TRAPPED_MAX: usize = 100;

/// The processes of one run.
#[derive(Default)]
pub struct Processes {
    entries: BTreeMap<Pid, Entry>,
    /// Parent and child, so that thousands of processes do not take quadratic time.
    children: BTreeSet<(Pid, Pid)>,
    /// Those that stand for something outside, which acts while they wait to write to a pipe.
    acting_outside: BTreeSet<Pid>,
    /// Modules that have not ended.
    pub(super) modules: u32,
    last: u32,
    ready: VecDeque<Pid>,
    timers: BTreeSet<(u64, u64, Pid)>,
    timers_set: u64,
    /// Number of processes that wait for the host.
    waiting_for_host: u32,
    /// Real time in which no process could run and the host was waited for.
    pub(super) host_waited_ns: u64,
    pub(super) newborn: Vec<NewProcess>,
    /// The outcome that has ended all processes, or will.
    pub(super) ended: Option<Outcome>,
    /// Processes other than the first that trapped.
    pub(super) trapped: Vec<TrappedProcess>,
}

impl Processes {
    /// The number of processes, zombies included.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Adds a process, which runs after those that are ready.
    pub fn add(&mut self, parent: Pid, name: &str) -> Pid {
        self.last += 1;
        let pid = Pid(self.last);
        let group = self.entries.get(&parent).map_or(pid, |entry| entry.group);
        let entry = Entry {
            parent,
            group,
            hidden: false,
            name: name.into(),
            state: State::Ready,
            killed: None,
            deadline: None,
            became: None,
            timer: None,
            host_wait_max_ns: 0,
            instant: None,
            timed_out: false,
            rung: false,
        };
        self.entries.insert(pid, entry);
        self.children.insert((parent, pid));
        self.ready.push_back(pid);
        pid
    }

    /// Hides `pid` from its parent, for which it makes a host call.
    pub(super) fn hide(&mut self, pid: Pid) {
        self.entry(pid).hidden = true;
    }

    /// Undoes [`Processes::add`], before `pid` had a turn.
    pub(super) fn forget(&mut self, pid: Pid) {
        self.remove(pid);
        self.ready.retain(|ready| *ready != pid);
    }

    fn remove(&mut self, pid: Pid) {
        if let Some(entry) = self.entries.remove(&pid) {
            self.children.remove(&(entry.parent, pid));
            self.acting_outside.remove(&pid);
        }
    }

    fn children(&self, parent: Pid) -> impl Iterator<Item = Pid> {
        let all = self.children.range((parent, Pid(0))..=(parent, Pid(u32::MAX)));
        all.map(|(_, child)| *child)
    }

    /// The name by which `pid` was started.
    pub fn name(&self, pid: Pid) -> &str {
        self.entries.get(&pid).map_or("", |entry| &entry.name)
    }

    fn entry(&mut self, pid: Pid) -> &mut Entry {
        self.entries.get_mut(&pid).expect("a process that acts has not been reaped")
    }

    /// The parent of `pid` as the process sees it: that of an orphan is the first process.
    pub fn parent(&self, pid: Pid) -> Pid {
        match self.entries.get(&pid).map(|entry| entry.parent) {
            Some(Pid::MACHINE) if pid != Pid::FIRST => Pid::FIRST,
            parent => parent.unwrap_or(Pid::MACHINE),
        }
    }

    /// Returns whether another process than the running one is ready.
    pub fn others_are_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The signal that has killed `pid`, if any.
    pub fn killed(&self, pid: Pid) -> Option<Signal> {
        self.entries.get(&pid)?.killed
    }

    /// Has `pid` wait, until the clock shows `until` at most. The clock shows `now`.
    pub fn wait(&mut self, pid: Pid, wait: Wait, until: Option<u64>, now: u64) {
        let timer = until.map(|due| {
            self.timers_set += 1;
            (due, self.timers_set)
        });
        if let Some((due, set)) = timer {
            self.timers.insert((due, set, pid));
        }
        if wait == Wait::Turn {
            self.ready.push_back(pid);
        }
        self.waiting_for_host += u32::from(matches!(wait, Wait::Host(_)));
        let host_wait_max_ns =
            self.host_waited_ns.saturating_add(until.unwrap_or(0).saturating_sub(now));
        let entry = self.entry(pid);
        (entry.timer, entry.timed_out, entry.rung) = (timer, false, false);
        entry.host_wait_max_ns = host_wait_max_ns;
        entry.state = if wait == Wait::Turn { State::Ready } else { State::Waiting(wait) };
    }

    /// The wait of `pid` that has begun is for the time `until`, whatever wakes it before: what it has already waited
    /// for that time in real time counts.
    pub fn goes_on_waiting(&mut self, pid: Pid, until: Option<u64>) {
        let Some(until) = until else { return };
        let Some(entry) = self.entries.get_mut(&pid) else { return };
        match entry.instant {
            Some((due, max_ns)) if due == until => {
                entry.host_wait_max_ns = entry.host_wait_max_ns.min(max_ns);
            }
            _ => entry.instant = Some((until, entry.host_wait_max_ns)),
        }
    }

    /// Makes `pid` ready, if it waits.
    pub fn wake(&mut self, pid: Pid) {
        let Some(entry) = self.entries.get_mut(&pid) else { return };
        let State::Waiting(wait) = &entry.state else { return };
        self.waiting_for_host -= u32::from(matches!(wait, Wait::Host(_)));
        entry.state = State::Ready;
        if let Some((due, set)) = entry.timer.take() {
            self.timers.remove(&(due, set, pid));
        }
        self.ready.push_back(pid);
    }

    /// Makes those of `pids` ready that wait.
    pub fn wake_all(&mut self, pids: Vec<Pid>) {
        for pid in pids {
            self.wake(pid);
        }
    }

    /// Takes the next process that is ready.
    pub(super) fn next_ready(&mut self) -> Option<Pid> {
        let pid = self.ready.pop_front()?;
        self.entry(pid).state = State::Running;
        Some(pid)
    }

    /// The earliest time that a process waits for.
    pub(in crate::kernel) fn next_due(&self) -> Option<u64> {
        self.timers.first().map(|(due, ..)| *due)
    }

    /// The process that waits for the earliest time.
    pub(super) fn first_due(&self) -> Option<Pid> {
        self.timers.first().map(|(.., pid)| *pid)
    }

    /// How much longer, in real time, the host is waited for before a timer of a process may end.
    pub(super) fn host_wait_left_ns(&self) -> Option<u64> {
        let patience = |(.., pid): &(u64, u64, Pid)| Some(self.entries.get(pid)?.host_wait_max_ns);
        let first = self.timers.iter().filter_map(patience).min()?;
        Some(first.saturating_sub(self.host_waited_ns))
    }

    /// The processes that wait for the host, and the end of a pipe that each of them also waits at: their native programs
    /// have taken all input, or their output has no room. `None` if one waits for the host alone.
    pub(super) fn waiting_at_pipes(&self) -> Option<Vec<(Pid, End)>> {
        let mut waiting = Vec::new();
        for (pid, entry) in &self.entries {
            match &entry.state {
                State::Waiting(Wait::Host(Some((_, end)))) => waiting.push((*pid, *end)),
                State::Waiting(Wait::Host(None)) => return None,
                _ => {}
            }
        }
        Some(waiting)
    }

    /// Wakes the processes that wait for a time up to `now`.
    pub(super) fn wake_due(&mut self, now: u64) {
        while let Some((due, _, pid)) = self.timers.first().copied()
            && due <= now
        {
            self.wake(pid);
            self.entry(pid).timed_out = true;
        }
    }

    /// Returns whether the last wait of `pid` ended at its time, not by another event.
    pub fn timed_out(&self, pid: Pid) -> bool {
        self.entries.get(&pid).is_some_and(|entry| entry.timed_out)
    }

    /// Returns whether `pid` waits for the bell.
    pub(super) fn waits_for_bell(&self, pid: Pid) -> bool {
        let state = self.entries.get(&pid).map(|entry| &entry.state);
        matches!(state, Some(State::Waiting(Wait::Host(None | Some((_, End::Reader))))))
    }

    /// Returns whether a process waits for the host.
    pub(in crate::kernel) fn any_waits_for_host(&self) -> bool {
        self.waiting_for_host > 0
    }

    /// Wakes `pid`, for which the bell has rung.
    pub(super) fn wake_rung(&mut self, pid: Pid) {
        self.wake(pid);
        self.entry(pid).rung = true;
    }

    /// Returns whether the bell has rung for `pid` since its last wait began.
    pub fn was_rung(&self, pid: Pid) -> bool {
        self.entries.get(&pid).is_some_and(|entry| entry.rung)
    }

    /// From now on `pid` stands for something outside, which may act while `pid` waits to write to a pipe.
    pub fn acts_outside(&mut self, pid: Pid) {
        self.acting_outside.insert(pid);
    }

    /// The wait of `pid` for room in `pipe`.
    pub fn wait_for_room(&self, pid: Pid, pipe: PipeId) -> Wait {
        if self.acting_outside.contains(&pid) {
            Wait::Host(Some((pipe, End::Writer)))
        } else {
            Wait::Writable(pipe)
        }
    }

    /// Returns whether a process has not ended.
    pub(super) fn any_alive(&self) -> bool {
        self.entries.values().any(|entry| !matches!(entry.state, State::Zombie(_)))
    }

    /// Sends `signal` to `pid`; `None` only checks that it exists.
    ///
    /// # Errors
    /// `ESRCH` if there is no such process; `ENOTSUP` for a signal that stops.
    pub fn kill(&mut self, pid: Pid, signal: Option<Signal>) -> Result<(), Errno> {
        if !self.entries.contains_key(&pid) {
            return Err(Errno::Srch);
        }
        let Some(signal) = signal else { return Ok(()) };
        if signal.stops() {
            return Err(Errno::Notsup);
        }
        let mut next = (!signal.is_ignored()).then_some(pid);
        while let Some(pid) = next.take() {
            let Some(entry) = self.entries.get_mut(&pid) else { break };
            if !matches!(entry.state, State::Zombie(_)) {
                entry.killed.get_or_insert(signal);
                next = entry.became;
                self.wake(pid);
            }
        }
        Ok(())
    }

    /// From now on `pid` stands for `child`: a signal that ends it ends the child, too.
    ///
    /// # Errors
    /// `ECHILD` unless `child` is a child of `pid`.
    pub fn become_child(&mut self, pid: Pid, child: Pid) -> Result<(), Errno> {
        let is_child = self.children.contains(&(pid, child));
        is_child.then(|| self.entry(pid).became = Some(child)).ok_or(Errno::Child)
    }

    /// Ends all processes with `outcome`.
    pub(super) fn end_all(&mut self, outcome: Outcome) {
        if self.ended.is_none() {
            self.ended = Some(outcome);
        }
        let pids: Vec<Pid> = self.entries.keys().copied().collect();
        for pid in pids {
            // A zombie need not be killed, and a process that exists can be.
            let _ = self.kill(pid, Some(Signal::KILL));
        }
    }

    /// Makes the child `orphan` of `parent` one of the machine, which reaps it. No effect if it is no child of it.
    pub(super) fn disown(&mut self, parent: Pid, orphan: Pid) {
        if !self.children.remove(&(parent, orphan)) {
            return;
        }
        self.children.insert((Pid::MACHINE, orphan));
        let entry = self.entry(orphan);
        entry.parent = Pid::MACHINE;
        if matches!(entry.state, State::Zombie(_)) {
            self.remove(orphan);
        }
    }

    /// Ends `pid`: its children become orphans, and its parent is told.
    pub(super) fn end(&mut self, pid: Pid, outcome: &Outcome) {
        let orphans: Vec<Pid> = self.children(pid).collect();
        for orphan in orphans {
            self.disown(pid, orphan);
        }
        let parent = self.entry(pid).parent;
        if parent == Pid::MACHINE {
            self.remove(pid);
        } else {
            self.entry(pid).state = State::Zombie(WaitStatus::of(outcome));
            let hidden = self.entry(pid).hidden;
            let waits_for_it = |wait: &Wait| match wait {
                Wait::Child(which) => which.map_or(!hidden, |which| which == pid),
                Wait::Poll(_, children) => children.contains(&pid),
                _ => false,
            };
            if matches!(&self.entry(parent).state, State::Waiting(wait) if waits_for_it(wait)) {
                self.wake(parent);
            }
        }
        if pid == Pid::FIRST {
            self.end_all(outcome.clone());
        }
    }

    /// Keeps the trap of `pid`, as its parent sees only `SIGABRT`.
    pub(super) fn note_trap(&mut self, pid: Pid, trap: Trap) {
        if self.trapped.len() < TRAPPED_MAX {
            let name = self.entries.get(&pid).map_or_else(String::new, |e| e.name.to_string());
            self.trapped.push(TrappedProcess { pid, name, trap });
        }
    }

    /// Removes a child of `parent` that has ended: `which`, or the one with the lowest number. `None` if
    /// none has ended yet.
    ///
    /// # Errors
    /// `ECHILD` if there is no such child.
    pub fn reap(
        &mut self,
        parent: Pid,
        which: Option<Pid>,
    ) -> Result<Option<(Pid, WaitStatus)>, Errno> {
        let ended = |pid| match self.entries.get(&pid).map(|entry| &entry.state) {
            Some(State::Zombie(status)) => Some((pid, *status)),
            _ => None,
        };
        let is_seen = |pid: &Pid| self.entries.get(pid).is_some_and(|entry| !entry.hidden);
        let seen = || self.children(parent).filter(is_seen);
        let (has_child, found) = match which {
            Some(which) => {
                (self.children.contains(&(parent, which)) && is_seen(&which), ended(which))
            }
            None => (seen().next().is_some(), seen().find_map(ended)),
        };
        if !has_child {
            return Err(Errno::Child);
        }
        if let Some((pid, _)) = found {
            self.remove(pid);
        }
        Ok(found)
    }

    /// Returns whether `pid` has ended and was not waited for.
    pub(super) fn has_ended(&self, pid: Pid) -> bool {
        self.entries.get(&pid).is_some_and(|entry| matches!(entry.state, State::Zombie(_)))
    }

    /// Removes the hidden child `pid` of `parent` and returns its status; `None` if it has not ended.
    pub(super) fn reap_hidden(&mut self, parent: Pid, pid: Pid) -> Option<WaitStatus> {
        let entry = self.entries.get(&pid).filter(|entry| entry.parent == parent)?;
        let State::Zombie(status) = entry.state else { return None };
        self.remove(pid);
        Some(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family() -> (Processes, [Pid; 3]) {
        let mut all = Processes::default();
        let first = all.add(Pid::MACHINE, "sh");
        let child = all.add(first, "make");
        let grandchild = all.add(child, "cc");
        (all, [first, child, grandchild])
    }

    #[test]
    fn processes_run_in_the_order_in_which_they_became_ready() {
        let (mut all, [first, child, grandchild]) = family();
        assert_eq!(all.next_ready(), Some(first));
        all.wait(first, Wait::Time, Some(50), 0);
        assert_eq!(all.next_ready(), Some(child));
        all.wait(child, Wait::Time, Some(40), 0);
        assert_eq!(all.next_ready(), Some(grandchild));
        all.wait(grandchild, Wait::Time, Some(50), 0);
        assert_eq!((all.next_ready(), all.next_due()), (None, Some(40)));
        all.wake_due(50);
        let turns = [all.next_ready(), all.next_ready(), all.next_ready(), all.next_ready()];
        assert_eq!(turns, [Some(child), Some(first), Some(grandchild), None]);
    }

    #[test]
    fn ended_child_is_reaped_once() {
        let (mut all, [first, child, _]) = family();
        assert_eq!(all.reap(first, None), Ok(None));
        all.end(child, &Outcome::Exited(3));
        assert_eq!(all.reap(first, Some(child)), Ok(Some((child, WaitStatus::Exited(3)))));
        assert_eq!(all.reap(first, None), Err(Errno::Child));
    }

    #[test]
    fn orphans_are_reaped_by_the_machine() {
        let (mut all, [first, child, grandchild]) = family();
        all.end(child, &Outcome::Exited(0));
        assert_eq!(all.parent(grandchild), first);
        assert_eq!(all.reap(first, Some(grandchild)), Err(Errno::Child));
        all.end(grandchild, &Outcome::Exited(0));
        assert_eq!(all.count(), 2, "the first process, and the child that it has not waited for");
    }

    #[test]
    fn end_of_first_process_kills_all() {
        let (mut all, [first, child, grandchild]) = family();
        all.end(first, &Outcome::Exited(0));
        assert_eq!(
            (all.killed(child), all.killed(grandchild)),
            (Some(Signal::KILL), Some(Signal::KILL))
        );
    }

    #[test]
    fn signals_have_the_names_and_numbers_of_linux() {
        assert_eq!(Signal::from_name("SIGTERM"), Some(Signal::TERM));
        assert_eq!(Signal::from_number(9).map(Signal::name), Some("KILL"));
        assert_eq!(Signal::from_number(0), None);
        assert_eq!(Signal::from_number(32), None);
        let (mut all, [first, ..]) = family();
        assert_eq!(all.kill(Pid(9), None), Err(Errno::Srch));
        assert_eq!(all.kill(first, Signal::from_name("STOP")), Err(Errno::Notsup));
        assert_eq!(all.kill(first, Signal::from_name("CHLD")), Ok(()));
        assert_eq!(all.killed(first), None);
    }
}
