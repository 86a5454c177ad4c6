//! Rank 9: actions of the Remote Execution API, executed in a machine.
//!
//! A worker of a cluster hands over an action: a command, a tree of input files, and the paths of its outputs. The files stay
//! on the server until the program opens them ([`input_root`]); what is uploaded is what the program made ([`outputs`]).

mod action;
mod error;
mod input_root;
mod outputs;

pub use self::action::{Executed, Runner};
pub use self::error::RunnerError;
pub use self::input_root::names_in_directory;
