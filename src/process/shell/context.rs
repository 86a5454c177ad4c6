//! A shell at work: its state, its process, and how it talks to the kernel.

use std::collections::{BTreeMap, BTreeSet};

use super::state::{State, Traps, Variable};
use crate::kernel::guest::Guest;
use crate::kernel::machine::limits::Stop;
use crate::kernel::process::Pid;

/// Why commands are not run to their end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leave {
    /// The process ends at once.
    Stop(Stop),
    /// The shell ends, with its status.
    Exit,
    /// Something is wrong, has been said, and ends a shell that is not interactive.
    Error,
    /// A function, or a script of `.`, ends.
    Return,
    /// Loops end.
    Break(u32),
    /// A loop goes on, and those within it end.
    Continue(u32),
}

impl From<Stop> for Leave {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

/// What running something answers.
pub type Run<T = ()> = Result<T, Leave>;

/// Variables by name, as they were before.
pub type Before = Vec<(Box<[u8]>, Option<Variable>)>;

/// Instructions that a command counts for.
const COMMAND_FUEL: u64 = 1000;

/// Commands between two looks at whether others want their turn.
const TURN_COMMANDS: u32 = 1000;

/// A shell's process.
pub struct Shell {
    /// The kernel's side of it.
    pub guest: Guest,
    /// What its subshells begin with.
    pub state: State,
    /// What `trap` has set.
    pub traps: Traps,
    /// The status of the last command substitution of a command.
    pub substituted: Option<u8>,
    /// Children that run in the background, and the statuses of those that have been waited for.
    pub jobs: BTreeMap<Pid, Option<u8>>,
    /// Children that only write a here-document.
    pub feeders: BTreeSet<Pid>,
    /// Variables that the functions being called have made their own, and what they were before.
    pub locals: Vec<Before>,
    commands: u32,
}

impl Shell {
    /// A shell that begins.
    pub fn new(guest: Guest, state: State) -> Self {
        Self {
            guest,
            state,
            traps: Traps::new(),
            substituted: None,
            jobs: BTreeMap::new(),
            feeders: BTreeSet::new(),
            locals: Vec::new(),
            commands: 0,
        }
    }

    /// Says `text` on standard error, after the shell's name and the line.
    pub async fn say(&mut self, text: &str) -> Run {
        let name = String::from_utf8_lossy(&self.state.name);
        let mut message = format!("{name}: {}: {text}\n", self.state.line).into_bytes();
        // Whoever closed standard error does not want to know.
        self.write(2, &mut message).await?.unwrap_or_default();
        Ok(())
    }

    /// Says what is wrong; the status is then 2.
    pub async fn fail<T>(&mut self, text: &str) -> Run<T> {
        self.say(text).await?;
        self.state.status = 2;
        Err(Leave::Error)
    }

    /// Accounts for a command that begins, and gives others their turn now and then.
    pub async fn tick(&mut self) -> Run {
        self.commands += 1;
        self.guest.spend(COMMAND_FUEL)?;
        if self.commands >= TURN_COMMANDS {
            self.commands = 0;
            self.sched_yield().await?;
        }
        Ok(())
    }

    /// Waits for the child `pid`, and answers its status.
    pub async fn wait_for(&mut self, pid: Pid) -> Run<u8> {
        let ended = self.proc_wait(Some(pid), true).await?;
        Ok(match ended {
            Ok(Some((_, status))) => status.code(),
            Ok(None) | Err(_) => 127,
        })
    }

    /// Notes which background children have ended, so that they do not count as processes.
    pub async fn reap(&mut self) -> Run {
        while !self.feeders.is_empty() || self.jobs.values().any(Option::is_none) {
            let ended = self.proc_wait(None, false).await?;
            let Ok(Some((pid, status))) = ended else { break };
            if !self.feeders.remove(&pid) {
                self.jobs.insert(pid, Some(status.code()));
            }
        }
        Ok(())
    }
}
