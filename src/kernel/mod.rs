//! Rank 3: the virtual kernel.
//!
//! A [`Machine`](machine::Machine) is what one process tree shares; a [`Guest`](guest::Guest) is the
//! kernel's side of one process, and the only door through which the ABI comes in. Nothing here
//! knows wasm. All that a guest can observe is owned by its machine: nothing is global.

pub mod guest;
pub mod host;
pub mod io;
pub mod machine;
mod pid;
pub mod process;
pub mod vfs;
