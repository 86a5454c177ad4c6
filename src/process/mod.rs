//! Rank 6: starting processes in a machine, in the manner of [`std::process`].

mod by_name;
mod command;
mod shell;

pub use command::{Command, ExitStatus, Output};
pub use shell::{OutlineError, OutlineWord, ShellImage, outline};
