//! Rank 7: native programs, as processes of a machine and as subprocesses of a session.

mod blocked;
mod child;
mod children;
mod environment;
mod error;
mod file_playback;
mod file_recording;
mod files_error;
mod given_files;
mod image;
mod in_machine;
mod live;
mod lookup;
mod machine_tape;
mod made_files;
mod mismatch;
mod not_started;
mod opened_files;
mod os_process;
mod pipe_state;
mod playback;
mod polled_child;
mod profile;
mod recording;
mod request;
mod runner;
mod streams;
mod subprocess_files;
mod subprocesses;
mod tape;
mod taped_bytes;
mod taped_failure;
mod taped_files;

pub use child::SubprocessChild;
pub use children::{NativeChildren, NativePrograms};
pub use error::{FindError, SubprocessError};
pub use file_playback::{Unmade, UnmadeFile};
pub use files_error::FilesError;
pub use image::{NativeImage, TapedChildren};
#[cfg(feature = "cli")]
pub(crate) use live::clean_up_max;
#[cfg(all(unix, feature = "cli"))]
pub(crate) use live::end_all;
#[cfg(feature = "import")]
pub(crate) use lookup::to_start;
pub use mismatch::{Difference, Mismatch};
pub use profile::{ProfileError, SandboxProfile};
pub use request::{
    SUBPROCESS_OUTPUT_BYTES_MAX, SubprocessInput, SubprocessOutput, SubprocessRequest,
    SubprocessStatus, SubprocessStdio,
};
pub use runner::{NativeCommand, NativeError};
pub use streams::{ChildInput, ChildOutput};
pub use subprocess_files::{
    FILE_BYTES_MAX, FILES_BYTES_MAX, FILES_ENTRIES_MAX, MakeFiles, SubprocessFiles,
};
pub use subprocesses::{OnMissing, SubprocessConfig, Subprocesses};
pub use tape::{PROCESS_TAPE_BYTES_MAX, ProcessTape, TapeEntry};
pub use taped_bytes::TapedBytes;
pub use taped_failure::TapedFailure;
pub use taped_files::{TapedChange, TapedInput, TapedState};
