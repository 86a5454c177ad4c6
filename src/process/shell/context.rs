//! A running shell: its state, its process and its messages.

use std::collections::{BTreeMap, BTreeSet};

use super::state::{State, Traps, Variable};
use crate::kernel::guest::Guest;
use crate::kernel::machine::clock::BUSY_NS;
use crate::kernel::machine::limits::Stop;
use crate::kernel::process::Pid;

/// Why a command stops early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leave {
    /// The process ends at once.
    Stop(Stop),
    /// The shell ends, with its status.
    Exit,
    /// An error, already reported, ends a shell that is not interactive.
    Error,
    /// A function or a script of `.` returns.
    Return,
    /// This many loops end.
    Break(u32),
    /// A loop continues, after this many loops inside it end.
    Continue(u32),
}

impl From<Stop> for Leave {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

/// The result of running something.
pub type Run<T = ()> = Result<T, Leave>;

/// Former states of variables, by name.
pub type Before = Vec<(Box<[u8]>, Option<Variable>)>;

/// Instructions charged for a command.
const COMMAND_FUEL: u64 = 1000;

/// Commands between two turns, which take [`BUSY_NS`].
const TURN_COMMANDS: u32 = 1000;

/// A shell's process.
pub struct Shell {
    /// The kernel's side.
    pub guest: Guest,
    /// The state that a subshell copies.
    pub state: State,
    /// The actions of `trap`.
    pub traps: Traps,
    /// The status of a command's last command substitution.
    pub substituted: Option<u8>,
    /// Background children, with the status of those that were waited for.
    pub jobs: BTreeMap<Pid, Option<u8>>,
    /// Children that only write a here-document.
    pub feeders: BTreeSet<Pid>,
    /// Statuses of other children that ended while another one was waited for.
    ended: BTreeMap<Pid, u8>,
    /// Local variables of the active functions, with their former states.
    pub locals: Vec<Before>,
    /// What runs now is the last that this process does, whatever it returns.
    pub is_last: bool,
    commands: u32,
}

impl Shell {
    /// Creates a shell.
    pub fn new(guest: Guest, state: State) -> Self {
        Self {
            guest,
            state,
            traps: Traps::new(),
            substituted: None,
            jobs: BTreeMap::new(),
            feeders: BTreeSet::new(),
            ended: BTreeMap::new(),
            locals: Vec::new(),
            is_last: false,
            commands: 0,
        }
    }

    /// Prints `text` on standard error, after the shell's name and the line.
    pub async fn say(&mut self, text: &str) -> Run {
        let name = String::from_utf8_lossy(&self.state.name);
        let mut message = format!("{name}: {}: {text}\n", self.state.line).into_bytes();
        // A closed standard error is ignored.
        self.write(2, &mut message).await?.unwrap_or_default();
        Ok(())
    }

    /// Reports an error, with status 2.
    pub async fn fail<T>(&mut self, text: &str) -> Run<T> {
        self.say(text).await?;
        self.state.status = 2;
        Err(Leave::Error)
    }

    /// Counts a command that begins, and gives up the turn now and then.
    pub async fn tick(&mut self) -> Run {
        self.commands += 1;
        self.guest.spend(COMMAND_FUEL)?;
        if self.commands >= TURN_COMMANDS {
            self.commands = 0;
            self.pass_turn(BUSY_NS).await?;
        }
        Ok(())
    }

    /// Waits for the child `pid`; returns its status.
    ///
    /// Other children that end meanwhile are waited for, too: whoever asks for them must not find them.
    pub async fn wait_for(&mut self, pid: Pid) -> Run<u8> {
        let notes_others = self.guest.machine().kernel_version() > 10;
        loop {
            if let Some(status) = self.ended.remove(&pid) {
                return Ok(status);
            }
            let which = Some(pid).filter(|_| !notes_others || !self.has_others(pid));
            let Ok(Some((ended, status))) = self.proc_wait(which, true).await? else {
                return Ok(127);
            };
            self.note_ended(ended, status.code());
            if ended == pid {
                self.ended.remove(&pid);
                return Ok(status.code());
            }
        }
    }

    /// Whether a background child other than `pid` is running.
    fn has_others(&self, pid: Pid) -> bool {
        let is_other = |(job, status): (&Pid, &Option<u8>)| *job != pid && status.is_none();
        !self.feeders.is_empty() || self.jobs.iter().any(is_other)
    }

    /// The child `pid` has ended with `status`.
    fn note_ended(&mut self, pid: Pid, status: u8) {
        if self.feeders.remove(&pid) {
            return;
        }
        match self.jobs.get_mut(&pid) {
            Some(job) => *job = Some(status),
            None => drop(self.ended.insert(pid, status)),
        }
    }

    /// As [`Shell::wait_for`]. If `is_last`, the child takes the place of this process, unless traps run after it:
    /// a signal to this process ends the child.
    pub async fn end_with(&mut self, pid: Pid, is_last: bool) -> Run<u8> {
        if is_last && self.traps.is_empty() {
            self.give_place_to(pid);
        }
        self.wait_for(pid).await
    }

    /// Lets the child `pid` take the place of this process: a signal to this process ends the child.
    pub fn give_place_to(&mut self, pid: Pid) {
        // It cannot fail for a child of this process.
        let _ = self.guest.proc_become(pid);
    }

    /// Reaps background children that have ended, so that they do not count as processes.
    pub async fn reap(&mut self) -> Run {
        while self.has_others(Pid::MACHINE) {
            let ended = self.proc_wait(None, false).await?;
            let Ok(Some((pid, status))) = ended else { break };
            self.note_ended(pid, status.code());
        }
        Ok(())
    }
}
