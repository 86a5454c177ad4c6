//! What Rust's standard library lacks on WASI: processes, and calls of the host.
//!
//! The same code runs on three kinds of targets:
//!
//! | target | processes | [`host`] |
//! |---|---|---|
//! | `wasm32-wasip1` | the import module `belljar` | the import module `belljar` |
//! | `wasm32-wasip2` | `belljar:process` | `belljar:host` |
//! | any other | `std::process` | there is none |
//!
//! What the standard library has beyond that is missing on WASI: `Stdio` of a `File` of `wasm32-wasip2` (take
//! [`process::read_from`] and [`process::write_to`], which all targets have), the `get_…` of `Command`, and what is of one
//! operating system alone.
//!
//! ```no_run
//! use belljar_guest::process::Command;
//!
//! let listing = Command::new("ls").arg("-l").output()?;
//! assert!(listing.status.success());
//! print!("{}", String::from_utf8_lossy(&listing.stdout));
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod env;
pub mod host;
pub mod process;
#[cfg(target_os = "wasi")]
mod sys;
