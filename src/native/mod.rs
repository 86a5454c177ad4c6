//! Rank 7: native programs, as processes of a machine and as subprocesses of a session.

mod child;
mod children;
mod error;
mod image;
mod in_machine;
mod lookup;
mod machine_tape;
mod mismatch;
mod os_process;
mod pipe_state;
mod playback;
mod polled_child;
mod profile;
mod recording;
mod request;
mod runner;
mod streams;
mod subprocesses;
mod tape;
mod taped_bytes;
mod taped_failure;
mod waits_to_read;

pub use child::SubprocessChild;
pub use children::{NativeChildren, NativePrograms};
pub use error::{FindError, SubprocessError};
pub use image::{NativeImage, TapedChildren};
pub use mismatch::{Difference, Mismatch};
pub use profile::{ProfileError, SandboxProfile};
pub use request::{
    SUBPROCESS_OUTPUT_BYTES_MAX, SubprocessInput, SubprocessOutput, SubprocessRequest,
    SubprocessStatus, SubprocessStdio,
};
pub use runner::{NativeCommand, NativeError};
pub use streams::{ChildInput, ChildOutput};
pub use subprocesses::{OnMissing, SubprocessConfig, Subprocesses};
pub use tape::{PROCESS_TAPE_BYTES_MAX, ProcessTape, TapeEntry};
pub use taped_bytes::TapedBytes;
pub use taped_failure::TapedFailure;
