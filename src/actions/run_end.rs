//! How a run ended on a worker, for the one who asked for it: an action has an exit code alone.

use serde::{Deserialize, Serialize};

use super::ActionError;
use super::beside::Beside;
use crate::kernel::machine::limits::Limit;
use crate::kernel::process::Pid;
use crate::kernel::process::outcome::{Outcome, Trap};
use crate::kernel::process::{Signal, TrappedProcess};
use crate::process::ExitStatus;

/// The name of the output with it.
pub const END: &str = "end.json";

/// Largest description, in bytes.
pub const END_BYTES_MAX: u64 = 64 << 20;

/// Most limits and programs that it names.
const NAMED_MAX: usize = 100;

/// How a run ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunEnd {
    how: How,
    trapped: Vec<SavedTrapped>,
    /// The limits that it met.
    pub limits_hit: Vec<Limit>,
    /// Programs that it looked for in vain.
    pub missing_programs: Vec<String>,
    /// Bytes of memory that its changes took.
    pub upper_bytes: u64,
    /// What the trees of its outputs do not tell.
    pub beside: Beside,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum How {
    Exited(u32),
    Limit(Limit),
    Trapped(SavedTrap),
    Signalled(u32),
    Deadlock(String),
    /// The program cannot be started, for this reason.
    NotStarted(String),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedTrap {
    message: String,
    backtrace: Vec<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedTrapped {
    pid: u32,
    name: String,
    trap: SavedTrap,
}

impl RunEnd {
    /// That of a run which ended with `status`.
    pub fn of(status: &ExitStatus, limits_hit: Vec<Limit>, missing_programs: Vec<String>) -> Self {
        let how = match status.outcome() {
            Outcome::Exited(code) => How::Exited(*code),
            Outcome::Limit(limit) => How::Limit(*limit),
            Outcome::Trapped(trap) => How::Trapped(SavedTrap::of(trap)),
            Outcome::Signalled(signal) => How::Signalled(signal.number().into()),
            Outcome::Deadlock(waits) => How::Deadlock(waits.clone()),
            Outcome::Tape => How::NotStarted("it has a tape".to_owned()),
        };
        let trapped = |process: &TrappedProcess| SavedTrapped {
            pid: process.pid.0,
            name: process.name.clone(),
            trap: SavedTrap::of(&process.trap),
        };
        let trapped = status.trapped().iter().take(NAMED_MAX).map(trapped).collect();
        let missing_programs = missing_programs.into_iter().take(NAMED_MAX).collect();
        let (upper_bytes, beside) = (0, Beside::default());
        Self { how, trapped, limits_hit, missing_programs, upper_bytes, beside }
    }

    /// That of a program which cannot be started, for this reason.
    pub fn not_started(reason: String) -> Self {
        let (trapped, limits_hit, missing_programs) = (Vec::new(), Vec::new(), Vec::new());
        let (how, upper_bytes, beside) = (How::NotStarted(reason), 0, Beside::default());
        Self { how, trapped, limits_hit, missing_programs, upper_bytes, beside }
    }

    /// That of a run which ended with a limit.
    pub fn limit(limit: Limit) -> Self {
        Self { how: How::Limit(limit), limits_hit: vec![limit], ..Self::not_started(String::new()) }
    }

    /// Its description; without what the trees do not tell, if that is too long.
    ///
    /// # Errors
    /// [`ActionError::Machine`]: it has none.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ActionError> {
        let bytes = |end: &Self| {
            serde_json::to_vec(end).map_err(|error| ActionError::Machine(error.to_string()))
        };
        match bytes(self)? {
            whole if whole.len() as u64 <= END_BYTES_MAX => Ok(whole),
            _ => bytes(&Self { beside: Beside::default(), ..self.clone() }),
        }
    }

    /// The one that `bytes` describe.
    ///
    /// # Errors
    /// [`ActionError::Invalid`].
    pub fn read(bytes: &[u8]) -> Result<Self, ActionError> {
        let wrong = |reason: String| ActionError::invalid(END, reason);
        let end: Self = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        let counts = [end.trapped.len(), end.limits_hit.len(), end.missing_programs.len()];
        match counts.iter().find(|count| **count > NAMED_MAX) {
            Some(count) => Err(wrong(format!("a list has {count} entries"))),
            None if !end.beside.is_bounded() => Err(wrong("too much was moved".to_owned())),
            None => Ok(end),
        }
    }

    /// How the first process ended.
    ///
    /// # Errors
    /// The reason, if it could not be started.
    pub fn status(&self) -> Result<ExitStatus, String> {
        let outcome = match &self.how {
            How::Exited(code) => Outcome::Exited(*code),
            How::Limit(limit) => Outcome::Limit(*limit),
            How::Trapped(trap) => Outcome::Trapped(trap.to_trap()),
            How::Signalled(number) => match Signal::from_number(*number) {
                Some(signal) => Outcome::Signalled(signal),
                None => return Err(format!("it was ended by signal {number}, which is none")),
            },
            How::Deadlock(waits) => Outcome::Deadlock(waits.clone()),
            How::NotStarted(reason) => return Err(reason.clone()),
        };
        let trapped = |process: &SavedTrapped| TrappedProcess {
            pid: Pid(process.pid),
            name: process.name.clone(),
            trap: process.trap.to_trap(),
        };
        Ok(ExitStatus::of_another_machine(outcome, self.trapped.iter().map(trapped).collect()))
    }
}

impl SavedTrap {
    fn of(Trap { message, backtrace }: &Trap) -> Self {
        Self { message: message.clone(), backtrace: backtrace.clone() }
    }

    fn to_trap(&self) -> Trap {
        Trap { message: self.message.clone(), backtrace: self.backtrace.clone() }
    }
}
