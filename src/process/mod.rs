//! Rank 6: starting processes, in the manner of [`std::process`].

mod child;
mod command;
mod host_child;
mod host_image;
mod host_pipes;
mod host_process;
mod host_waits;
mod in_machine;
mod machine_tape;
mod named;
mod native;
mod native_children;
mod playback;
mod process_tape;
mod profile;
mod recording;
mod request;
mod shell;
mod streams;
mod subprocess_error;
mod subprocesses;
mod taped_bytes;
mod taped_failure;

pub use child::SubprocessChild;
pub use command::{Command, ExitStatus, Output};
pub use host_image::{HostImage, TapedChildren};
pub use native::{NativeCommand, NativeError};
pub use native_children::{NativeChildren, NativePrograms};
pub use playback::{Difference, Mismatch};
pub use process_tape::{PROCESS_TAPE_BYTES_MAX, ProcessTape, TapeEntry};
pub use profile::{ProfileError, SandboxProfile};
pub use request::{
    SUBPROCESS_OUTPUT_BYTES_MAX, SubprocessInput, SubprocessOutput, SubprocessRequest,
    SubprocessStatus, SubprocessStdio,
};
pub use shell::{OutlineError, OutlineWord, ShellImage, outline};
pub use streams::{ChildInput, ChildOutput};
pub use subprocess_error::{FindError, SubprocessError};
pub use subprocesses::{OnMissing, SubprocessConfig, Subprocesses};
pub use taped_bytes::TapedBytes;
pub use taped_failure::TapedFailure;
