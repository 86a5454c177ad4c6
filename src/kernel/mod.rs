//! Rank 3: the virtual kernel.
//!
//! A [`Machine`](machine::Machine) is what one process tree shares; a [`Guest`](guest::Guest) is the
//! kernel's side of one process, and the only door through which the ABI comes in. Nothing here
//! knows wasm. All that a guest can observe is owned by its machine: nothing is global.

mod address;
pub mod bell;
pub mod clock;
pub mod egress;
pub mod fd;
pub mod fork;
pub mod guest;
pub mod host;
pub mod host_stdin;
pub mod limits;
pub mod machine;
pub mod machine_config;
mod machine_error;
pub mod memory;
pub mod outcome;
pub mod pipe;
pub mod process;
pub mod programs;
pub mod random;
pub mod schedule;
mod signal;
pub mod stdio;
pub mod taped_stdio;
pub mod timeout;
mod turn;
pub mod vfs;
