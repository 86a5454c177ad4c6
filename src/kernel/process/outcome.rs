//! How processes end.

use super::Signal;
use crate::base::errno::Errno;
use crate::kernel::guest::SpawnError;
use crate::kernel::machine::limits::{Limit, Stop};

/// How a process ended; of a tree, how its first process did, or what ended them all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It returned, or called `proc_exit`, with this code.
    Exited(u32),
    /// It reached a limit and was ended.
    Limit(Limit),
    /// It trapped.
    Trapped(Trap),
    /// A process, itself for one, has ended it with a signal.
    Signalled(Signal),
    /// Every process waited for another one: who for what, a line each.
    Deadlock(String),
    /// Its machine's tape failed; see [`crate::tape::Recorder::finish`].
    Tape,
}

impl Outcome {
    /// Its name in reports and on tapes: `exited`, `trapped`, `signalled`, `deadlock`, `tape`, or
    /// that of the limit.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Exited(_) => "exited",
            Self::Limit(limit) => limit.name(),
            Self::Trapped(_) => "trapped",
            Self::Signalled(_) => "signalled",
            Self::Deadlock(_) => "deadlock",
            Self::Tape => "tape",
        }
    }

    /// Whether it ends all processes of a run, whichever it happens to.
    pub(in crate::kernel) fn ends_all(&self) -> bool {
        matches!(self, Self::Limit(_) | Self::Deadlock(_) | Self::Tape)
    }

    /// Whether its time was over: real, virtual, or counted in instructions.
    pub fn is_of_time(&self) -> bool {
        matches!(self, Self::Limit(Limit::Timeout | Limit::VirtualTimeout | Limit::Fuel))
    }

    /// The code that stands for it where there are only codes: its own if it exited; 124 if its time
    /// was over; 128 and the signal's number; 134, as of `SIGABRT`, if it trapped or reached another
    /// limit; 125 if all waited for each other, or the tape failed.
    pub fn code(&self) -> u32 {
        match self {
            Self::Exited(code) => *code,
            Self::Signalled(signal) => 128 + u32::from(signal.number()),
            outcome if outcome.is_of_time() => 124,
            Self::Limit(_) | Self::Trapped(_) => 134,
            Self::Deadlock(_) | Self::Tape => 125,
        }
    }

    /// The exit code, if it exited.
    pub fn exit_code(&self) -> Option<u32> {
        match self {
            Self::Exited(code) => Some(*code),
            _ => None,
        }
    }
}

impl From<Stop> for Outcome {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Exit(code) => Self::Exited(code),
            Stop::Limit(limit) => Self::Limit(limit),
            Stop::Signalled(signal) => Self::Signalled(signal),
            Stop::Tape => Self::Tape,
        }
    }
}

/// A trap: the program did what the machine cannot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trap {
    /// What, in a few words.
    pub message: String,
    /// The functions that were active, the innermost first, as far as their names are known.
    pub backtrace: Vec<String>,
}

/// Exports that a message names.
const EXPORTS_NAMED_MAX: usize = 20;

/// What a module exports, for a message.
fn exported(exports: &[String]) -> String {
    let names: Vec<String> =
        exports.iter().take(EXPORTS_NAMED_MAX).map(|name| format!("{name:?}")).collect();
    match exports.len().checked_sub(names.len()) {
        _ if names.is_empty() => "it exports no function".to_owned(),
        Some(more @ 1..) => format!("it exports {} and {more} more", names.join(", ")),
        _ => format!("it exports {}", names.join(", ")),
    }
}

/// A program could not be started.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// It has no function to start with.
    #[error(
        "{program} is a library, not a command: what is called is an export named \"_start\", or one whose \
         name is empty, after \"_initialize\"; {}", exported(.exports)
    )]
    NoStart {
        /// The program.
        program: String,
        /// The names of the functions that it exports.
        exports: Vec<String>,
    },
    /// A function to start with takes or returns something.
    #[error(
        "{program} exports a function {export:?} that no command has: it must take and return nothing"
    )]
    BadStart {
        /// The program.
        program: String,
        /// The name of the function.
        export: String,
    },
    /// A directory that it was to start with is not there.
    #[error("cannot open the directory {path} for {program}: {errno}")]
    Preopen {
        /// The program.
        program: String,
        /// The directory's path in the namespace.
        path: String,
        /// Why not.
        errno: Errno,
    },
    /// The machine has no such program, or cannot run it.
    #[error("{0}")]
    Spawn(SpawnError),
    /// It needs more memory at the start than the limit allows.
    #[error("{program} needs more memory than its limit of {limit_bytes} bytes to start")]
    Memory {
        /// The program.
        program: String,
        /// The limit.
        limit_bytes: u64,
    },
    /// It is the host's, and cannot be run, or not go on.
    #[error("cannot run the host's {program}: {message}")]
    Host {
        /// The program.
        program: String,
        /// Why not.
        message: String,
    },
    /// It cannot be instantiated.
    #[error("cannot start {program}: {message}")]
    Instantiate {
        /// The program.
        program: String,
        /// Why not.
        message: String,
    },
}

crate::base::readable::readable!(RunError);

impl RunError {
    /// It, with `name` for the program: what the host calls it is not the guest's to know.
    pub(in crate::kernel) fn of(mut self, name: &str) -> Self {
        match &mut self {
            Self::NoStart { program, .. }
            | Self::BadStart { program, .. }
            | Self::Preopen { program, .. }
            | Self::Memory { program, .. }
            | Self::Host { program, .. }
            | Self::Instantiate { program, .. } => name.clone_into(program),
            Self::Spawn(_) => {}
        }
        self
    }
}
