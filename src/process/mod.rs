//! Rank 6: starts processes in a machine, like [`std::process`].

mod by_name;
mod command;
mod shell;

pub use command::{Command, ExitStatus, Output};
pub use shell::{OutlineError, OutlineWord, ShellImage, outline};
