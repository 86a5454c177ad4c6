//! Rank 6: starting processes, in the manner of [`std::process`].

mod command;
mod native;

pub use command::{Command, ExitStatus, Output};
pub use native::{NativeCommand, NativeError};
