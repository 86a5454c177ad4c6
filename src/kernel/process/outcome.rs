//! How processes end.

use super::Signal;
use crate::base::errno::Errno;
use crate::kernel::guest::SpawnError;
use crate::kernel::machine::limits::{Limit, Stop};

/// How a process ended; for a tree, how its first process did, or what ended all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It returned, or called `proc_exit`, with this code.
    Exited(u32),
    /// It reached a limit and was ended.
    Limit(Limit),
    /// It trapped.
    Trapped(Trap),
    /// A signal of a process, perhaps its own, killed it.
    Signalled(Signal),
    /// All processes wait for each other: a line for each.
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

    /// Returns whether it ends all processes of a run, whichever has it.
    pub(in crate::kernel) fn ends_all(&self) -> bool {
        matches!(self, Self::Limit(_) | Self::Deadlock(_) | Self::Tape)
    }

    /// Returns whether it is a limit of time: real, virtual, or counted in instructions.
    pub fn is_of_time(&self) -> bool {
        matches!(self, Self::Limit(Limit::Timeout | Limit::VirtualTimeout | Limit::Fuel))
    }

    /// The exit code for it: its own if it exited; 124 for limits of time; 128 plus the number of the
    /// signal; 134, as for `SIGABRT`, for a trap or another limit; 125 for a deadlock or a failed tape.
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

/// A trap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trap {
    /// The cause, in a few words.
    pub message: String,
    /// The active functions, innermost first, as far as their names are known.
    pub backtrace: Vec<String>,
}

/// Most exports named in a message.
const EXPORTS_NAMED_MAX: usize = 20;

/// The exports of a module, for a message.
fn exported(exports: &[String]) -> String {
    let names: Vec<String> =
        exports.iter().take(EXPORTS_NAMED_MAX).map(|name| format!("{name:?}")).collect();
    let more = match exports.len().saturating_sub(names.len()) {
        _ if names.is_empty() => return "it exports no function".to_owned(),
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("--invoke (Command::invoke) calls what it exports: {}{more}", names.join(", "))
}

/// A program could not be started.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The module or component has nothing to start with.
    #[error(
        "{program} is a library, not a command: it exports no {wanted}; {}",
        exported(.exports)
    )]
    NoStart {
        /// The program.
        program: String,
        /// What it lacks.
        wanted: &'static str,
        /// The names of the functions that it exports, or of all that a component exports.
        exports: Vec<String>,
    },
    /// A start function has parameters or results.
    #[error("{program}: export {export:?} must have type () -> ()")]
    BadStart {
        /// The program.
        program: String,
        /// The name of the function.
        export: String,
    },
    /// A call of an export cannot be made: see [`Command::invoke`](crate::Command::invoke).
    #[error("cannot call {call} of {program}: {problem}")]
    Invoke {
        /// The program.
        program: String,
        /// The call.
        call: String,
        /// Why not.
        problem: String,
    },
    /// A preopened directory cannot be opened.
    #[error("cannot open the directory {path} for {program}: {errno}")]
    Preopen {
        /// The program.
        program: String,
        /// The directory's path in the namespace.
        path: String,
        /// The error.
        errno: Errno,
    },
    /// The machine has no such program, or cannot run it.
    #[error("{0}")]
    Spawn(SpawnError),
    /// Its initial memory exceeds the limit.
    #[error("{program} needs more memory than its limit of {limit_bytes} bytes to start")]
    Memory {
        /// The program.
        program: String,
        /// The limit.
        limit_bytes: u64,
    },
    /// A native program cannot be started, or failed while it ran.
    #[error("cannot run native program {program}: {message}")]
    Host {
        /// The program.
        program: String,
        /// The reason.
        message: String,
    },
    /// It cannot be instantiated.
    #[error("cannot start {program}: {message}")]
    Instantiate {
        /// The program.
        program: String,
        /// The reason.
        message: String,
    },
}

crate::base::readable::readable!(RunError);

impl RunError {
    /// Returns it with `name` for the program, as guests must not learn the host's name for it.
    pub(in crate::kernel) fn of(mut self, name: &str) -> Self {
        match &mut self {
            Self::NoStart { program, .. }
            | Self::BadStart { program, .. }
            | Self::Invoke { program, .. }
            | Self::Preopen { program, .. }
            | Self::Memory { program, .. }
            | Self::Host { program, .. }
            | Self::Instantiate { program, .. } => name.clone_into(program),
            Self::Spawn(_) => {}
        }
        self
    }
}
