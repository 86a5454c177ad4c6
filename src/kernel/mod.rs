//! Rank 3: the virtual kernel.
//!
//! A [`Machine`](machine::Machine) is what one process tree shares; a [`Guest`](guest::Guest) is the
//! kernel's side of one process, and the only door for the ABI. Nothing here knows WebAssembly, and
//! nothing that a guest can observe is global.

pub mod guest;
pub(crate) mod host;
pub(crate) mod io;
pub(crate) mod machine;
mod pid;
pub(crate) mod process;
pub mod vfs;

pub use host::{Host, HostCall, HostReply, Start};
pub use machine::clock;
pub use machine::fork::ForkError;
pub use machine::limits::Stop;
pub use process::outcome::Outcome;
pub use process::programs::{Found, MakeImage, NotRunnable, Place, Programs};
pub use process::schedule;
pub use process::{Pid, Signal, WaitStatus};
