//! Rank 6: starting processes, in the manner of [`std::process`].

mod command;
mod machine_tape;
mod native;
mod playback;
mod process_tape;
mod request;
mod shell;
mod subprocess_error;
mod subprocesses;
mod taped_bytes;

pub use command::{Command, ExitStatus, Output};
pub use native::{NativeCommand, NativeError};
pub use playback::{Difference, Mismatch};
pub use process_tape::{PROCESS_TAPE_BYTES_MAX, ProcessTape, TapeEntry};
pub use request::{SubprocessOutput, SubprocessRequest, SubprocessStatus};
pub use shell::ShellImage;
pub use subprocess_error::{FindError, SubprocessError};
pub use subprocesses::{OnMissing, Profile, SubprocessConfig, Subprocesses};
pub use taped_bytes::TapedBytes;
