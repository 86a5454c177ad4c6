//! Rank 9: actions of the Remote Execution API: executed here for others, and elsewhere for us.
//!
//! A worker of a cluster hands over an action: a command, a tree of input files, and the paths of its outputs. The files stay
//! on the server until the program opens them ([`input_root`]); what is uploaded is what the program made ([`outputs`]).
//! A run that a cluster executes is such an action, with a machine in it ([`spec`]): what it reads is uploaded
//! ([`request`]), and what it changed is made again here ([`changes`]).

mod beside;
mod changes;
mod duration;
mod ended;
mod error;
mod input_root;
mod known_inputs;
mod moves;
mod outputs;
mod request;
mod run_end;
mod runner;
mod spec;
mod trees;

pub use self::error::{ActionError, status_of_failure};
pub use self::input_root::names_in_directory;
pub use self::request::{Progress, RemoteRun, Request};
pub use self::runner::{Executed, Runner, Wanted, Worker};
pub use self::spec::{MountSpec, ProgramSpec, Spec, ToolchainSpec};
