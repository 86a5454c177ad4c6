//! The shell: POSIX scripts, run on the kernel as a process that is no module.
//!
//! `lexer.rs` and `words.rs` take text apart, and `parser.rs` makes of it a tree that is run: `run.rs`,
//! `simple.rs`, `expand.rs`. A subshell is another
//! process with a copy of the state and a part of the tree. Every process of a script waits as any
//! guest does, by making a call again, so that all of them run in turns on the kernel's scheduler.
//!
//! Nothing here knows the host: a shell has a [`crate::kernel::guest::Guest`] and nothing else.

mod arithmetic;
mod builtin;
mod builtins;
mod calls;
mod context;
mod deep;
mod expand;
mod fields;
mod glob;
mod held;
mod image;
mod lexer;
mod memory;
mod outline;
mod parser;
mod pattern;
mod redirect;
mod run;
mod simple;
mod state;
mod tree;
mod words;

pub use image::ShellImage;
pub use outline::{OutlineError, OutlineWord, outline};
