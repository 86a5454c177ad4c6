//! Errors of subprocesses.

use std::io;
use std::path::PathBuf;

use super::{FilesError, Mismatch, ProfileError, SandboxProfile};
use crate::base::disk::DiskError;
use crate::engine::RunError;
use crate::tape::TapeError;

/// Why a search for a program failed: see [`SubprocessError::Refused`].
pub type FindError = Box<dyn std::error::Error + Send + Sync>;

/// A subprocess was not run, or does not match its tape. A program that fails is no error.
///
/// Calls are numbered from 1, including those that fail.
#[derive(thiserror::Error)]
pub enum SubprocessError {
    /// The sandbox profile cannot be enforced.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A required directory cannot be used.
    #[error(transparent)]
    Folder(#[from] DiskError),
    /// A process tape cannot be read or written.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// The host has no such program.
    #[error(
        "subprocess call {call}: the host has no program {program:?}; install it, or add its \
         directory to PATH"
    )]
    NotFound {
        /// The call.
        call: u64,
        /// The program.
        program: String,
    },
    /// The host cannot run the program.
    #[error("subprocess call {call}: cannot run native program {program:?}")]
    Host {
        /// The call.
        call: u64,
        /// The program.
        program: String,
        /// The host's error.
        source: io::Error,
    },
    /// The host denies executing the program.
    #[error(
        "subprocess call {call}: permission denied to execute native program {program:?} in sandbox \
         profile `{profile}`; check its mode{}",
        match profile {
            SandboxProfile::OsHardened => ", and that it is in a system directory or in a root",
            _ => "",
        }
    )]
    PermissionDenied {
        /// The call.
        call: u64,
        /// The program.
        program: String,
        /// The sandbox profile.
        profile: SandboxProfile,
    },
    /// The program exceeded its output limit and was killed.
    #[error(
        "subprocess call {call}: {program:?} was killed, as it wrote more than {limit_bytes} bytes; \
         raise output_bytes_max, or discard what is not needed with SubprocessStdio::Null"
    )]
    OutputLimit {
        /// The call.
        call: u64,
        /// The program.
        program: String,
        /// The limit, in bytes.
        limit_bytes: u64,
    },
    /// A started program was not waited for: its result is unknown.
    #[error(
        "subprocess call {call}: {program:?} was not waited for, so its result is not on the process \
         tape; wait for it before the session ends"
    )]
    Unwaited {
        /// The call.
        call: u64,
        /// The program.
        program: String,
    },
    /// The profile allows no native programs.
    #[error(
        "subprocess call {call}: {program:?} is a native program, and the profile `wasi` runs none; \
         use SubprocessConfig::WasiToolchain with its module, or the profile `unrestricted`"
    )]
    Denied {
        /// The call.
        call: u64,
        /// The program.
        program: String,
    },
    /// The toolchain lacks the program, and native programs are not allowed.
    #[error(
        "subprocess call {call}: there is no {program}.wasm in {}; put it there, or allow native \
         programs with OnMissing::Native",
        dir.display()
    )]
    Missing {
        /// The call.
        call: u64,
        /// The program.
        program: String,
        /// The toolchain's directory.
        dir: PathBuf,
    },
    /// The search refuses the program: its name leads out of the toolchain, or its module is
    /// invalid.
    #[error("subprocess call {call}: program {program:?} of {} is refused", dir.display())]
    Refused {
        /// The call.
        call: u64,
        /// The program.
        program: String,
        /// The toolchain's directory.
        dir: PathBuf,
        /// Why.
        source: FindError,
    },
    /// The program cannot be started in the machine.
    #[error("subprocess call {call}: cannot start the program in the machine")]
    Run {
        /// The call.
        call: u64,
        /// Why.
        source: RunError,
    },
    /// The program's current directory cannot be used.
    #[error("subprocess call {call}: cannot run {program:?} in {}: {why}", dir.display())]
    CurrentDir {
        /// The call.
        call: u64,
        /// The program.
        program: String,
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The call differs from the next entry of the tape.
    #[error(transparent)]
    Mismatch(Box<Mismatch>),
    /// The tape has no more entries.
    #[error(
        "subprocess call {call} is {asked}, but all {entries} entries of {} are used; if the call is \
         correct, record the tape again",
        tape.display()
    )]
    Exhausted {
        /// The call.
        call: u64,
        /// The program and its arguments.
        asked: String,
        /// The tape.
        tape: PathBuf,
        /// The number of its entries.
        entries: usize,
    },
    /// The session has ended, and the tape has entries left.
    #[error(
        "{}, line {line}: {first} was never called; entries left: {left}; if that is correct, record \
         the tape again",
        tape.display()
    )]
    Unconsumed {
        /// The tape.
        tape: PathBuf,
        /// The number of unused entries.
        left: usize,
        /// The line of the first one.
        line: usize,
        /// Its program and arguments.
        first: String,
    },
    /// A call is not on its tape, and the session went on.
    #[error(
        "subprocess call {call} is not on {}, as its own error said; fix the call, or record the \
         tape again",
        tape.display()
    )]
    OffTape {
        /// The first such call.
        call: u64,
        /// The tape.
        tape: PathBuf,
    },
    /// What the program did to files cannot be recorded, or not be repeated.
    #[error("subprocess call {call}: the files of {program:?} cannot be recorded or made again")]
    Files {
        /// The call.
        call: u64,
        /// The program.
        program: String,
        /// Why.
        source: Box<FilesError>,
    },
    /// The machine's tape has failed; what cannot be recorded is not run.
    #[error(
        "subprocess call {call}: {program:?} cannot be recorded on the machine's tape; ending that \
         tape returns the reason"
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
    /// Whether the call and a tape disagree.
    pub(super) fn is_of_tape(&self) -> bool {
        matches!(
            self,
            Self::Tape(_)
                | Self::Mismatch(_)
                | Self::Exhausted { .. }
                | Self::Files { .. }
                | Self::MachineTape { .. }
        )
    }
}
