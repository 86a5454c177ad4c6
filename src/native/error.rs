//! What can go wrong with subprocesses.

use std::io;
use std::path::PathBuf;

use super::{Mismatch, ProfileError, SandboxProfile};
use crate::base::disk::DiskError;
use crate::engine::RunError;
use crate::tape::TapeError;

/// Why whoever looks for programs has none: see [`SubprocessError::Refused`].
pub type FindError = Box<dyn std::error::Error + Send + Sync>;

/// A subprocess was not run, or not as its tape says. A program that fails is no error.
///
/// Calls are numbered from 1, those that fail among them.
#[derive(thiserror::Error)]
pub enum SubprocessError {
    /// A sandbox profile cannot be had.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A folder that must be there cannot be used.
    #[error(transparent)]
    Folder(#[from] DiskError),
    /// A process tape cannot be read or written.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// The host has no such program.
    #[error(
        "subprocess call {call}: the host has no program {program:?}; install it, or put its \
         folder on PATH"
    )]
    NotFound {
        /// The call.
        call: u64,
        /// The program.
        program: String,
    },
    /// The host cannot run the program.
    #[error("subprocess call {call}: cannot run the host's program {program:?}")]
    Host {
        /// The call.
        call: u64,
        /// The program.
        program: String,
        /// What the host answered.
        source: io::Error,
    },
    /// The host does not allow the program to start.
    #[error(
        "subprocess call {call}: the host's program {program:?} may not be executed, in the sandbox \
         profile `{profile}`; look at its mode{}",
        match profile {
            SandboxProfile::OsHardened => ", and whether it stands in a folder of the system or in a root",
            _ => "",
        }
    )]
    PermissionDenied {
        /// The call.
        call: u64,
        /// The program.
        program: String,
        /// What programs are confined to.
        profile: SandboxProfile,
    },
    /// The program wrote more than it may, and was ended.
    #[error(
        "subprocess call {call}: {program:?} was ended, as it wrote more than {limit_bytes} bytes; \
         raise that with output_bytes_max, or throw away what is not needed with \
         SubprocessStdio::Null"
    )]
    OutputLimit {
        /// The call.
        call: u64,
        /// The program.
        program: String,
        /// How much it may write, in bytes.
        limit_bytes: u64,
    },
    /// A program was started, and nobody waited for it: what came of it is not known.
    #[error(
        "subprocess call {call}: nobody waited for {program:?}, so that the process tape cannot say \
         what came of it; wait for it before the session ends"
    )]
    Unwaited {
        /// The call.
        call: u64,
        /// The program.
        program: String,
    },
    /// The profile allows no program of the host.
    #[error(
        "subprocess call {call}: {program:?} is a program of the host, and the profile `wasi` runs \
         none; use SubprocessConfig::WasiToolchain with its module, or the profile `unrestricted`"
    )]
    Denied {
        /// The call.
        call: u64,
        /// The program.
        program: String,
    },
    /// The toolchain does not have the program, and the host's is not wanted.
    #[error(
        "subprocess call {call}: there is no {program}.wasm in {}; put it there, or allow the \
         host's program with OnMissing::Native",
        dir.display()
    )]
    Missing {
        /// The call.
        call: u64,
        /// The program.
        program: String,
        /// The toolchain's folder.
        dir: PathBuf,
    },
    /// Whoever looks for programs refuses this one: its name leads elsewhere, or its module is bad.
    #[error("subprocess call {call}: {program:?} is refused as a program of {}", dir.display())]
    Refused {
        /// The call.
        call: u64,
        /// The program.
        program: String,
        /// The toolchain's folder.
        dir: PathBuf,
        /// Why.
        source: FindError,
    },
    /// The program cannot be started in the machine.
    #[error("subprocess call {call}: the program does not start in its machine")]
    Run {
        /// The call.
        call: u64,
        /// Why.
        source: RunError,
    },
    /// The program cannot run where it should.
    #[error("subprocess call {call}: cannot run {program:?} in {}: {why}", dir.display())]
    CurrentDir {
        /// The call.
        call: u64,
        /// The program.
        program: String,
        /// Where.
        dir: PathBuf,
        /// What is wrong with it, and what would be right.
        why: &'static str,
    },
    /// Something else was asked for than the tape has next.
    #[error(transparent)]
    Mismatch(Box<Mismatch>),
    /// The tape has no more entries.
    #[error(
        "subprocess call {call} is {asked}, but {} holds only {entries} and all are used; if the \
         call is right, record the tape again",
        tape.display()
    )]
    Exhausted {
        /// The call.
        call: u64,
        /// The program and its arguments.
        asked: String,
        /// The tape.
        tape: PathBuf,
        /// How many entries it holds.
        entries: usize,
    },
    /// The session has ended, and the tape holds more.
    #[error(
        "{}, line {line}: {first} was never asked for; entries left: {left}; if they are right to \
         be missing, record the tape again",
        tape.display()
    )]
    Unconsumed {
        /// The tape.
        tape: PathBuf,
        /// How many entries nobody asked for.
        left: usize,
        /// The line of the first.
        line: usize,
        /// Its program and arguments.
        first: String,
    },
    /// A call failed for its tape, and whoever made it went on.
    #[error(
        "subprocess call {call} is not on {}, as its own error has said; the session is not the \
         tape's: put the call right, or record the tape again",
        tape.display()
    )]
    OffTape {
        /// The first such call.
        call: u64,
        /// The tape.
        tape: PathBuf,
    },
    /// The machine's own tape has failed: what is not recorded must not happen.
    #[error(
        "subprocess call {call}: {program:?} cannot be recorded on the machine's tape; ending that \
         tape says why"
    )]
    MachineTape {
        /// The call.
        call: u64,
        /// The program.
        program: String,
    },
}

crate::base::readable::readable!(SubprocessError);

impl SubprocessError {
    /// Whether the call and a tape disagree, so that the tape does not tell the session.
    pub(super) fn is_of_tape(&self) -> bool {
        matches!(
            self,
            Self::Tape(_) | Self::Mismatch(_) | Self::Exhausted { .. } | Self::MachineTape { .. }
        )
    }
}
