//! The shell: POSIX scripts, run by a built-in process.
//!
//! `lexer.rs` and `words.rs` split text into tokens and pieces, `parser/` makes a tree, and `run.rs`,
//! `simple.rs` and `expand.rs` run it. A subshell is another process with a copy of the state and a part of
//! the tree. Processes of a script wait as any guest does, by making a call again.
//!
//! A shell has a [`crate::kernel::guest::Guest`] and no other access to the host.

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
