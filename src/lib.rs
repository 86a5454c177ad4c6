//! Belljar runs toolchains that were compiled to WebAssembly in a virtual kernel with its own files,
//! clock, random bytes and limits, so that the same inputs give the same bytes on every system.
//!
//! ```
//! use belljar::{Command, Engine, EngineConfig, HostDir, Machine, Program, Toolchains};
//!
//! let engine = Engine::new(EngineConfig::default())?;
//! let module = Toolchains::default().resolve("wc")?.module()?;
//! let wc = Program::new(&engine, &module)?;
//!
//! let mut machine = Machine::builder().worktree(HostDir::open(".".as_ref())?).build()?;
//! let output = Command::new(&wc).args(["-l", "Cargo.toml"]).output(&mut machine)?;
//! assert!(output.status.success());
//! assert!(String::from_utf8(output.stdout)?.ends_with("Cargo.toml\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//!
//! - **One door.** All calls of a guest go through [`kernel::guest::Guest`], where they are limited,
//!   denied, traced and recorded.
//! - **No ambient state.** A [`Machine`] owns its files, clock, random bytes and limits. Machines on
//!   different threads share nothing.
//! - **Only [`Overlay::apply`] writes to the disk**, when asked.
//! - **Nothing escapes.** Directories of the host are read through capabilities; there are no sockets.
//! - **Time is virtual** unless a machine has the host's clock.
//!
//! # Map
//!
//! The directories of `src/` are ranks. A file uses only lower ones:
//! `base` < `store`, `remote` < [`tape`], [`results`] < [`kernel`], [`net`] < `abi` < [`engine`] < [`process`], [`toolchain`],
//! [`llm`] < [`native`] < [`host`] < [`testbench`], [`sandbox`] < `mcp` < `cli`.
#![cfg_attr(
    not(target_os = "linux"),
    allow(
        clippy::trivially_copy_pass_by_ref,
        clippy::unnecessary_wraps,
        clippy::unused_self,
        reason = "a function has the shape that it needs on the system where it does most"
    )
)]

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

mod abi;
#[cfg(all(feature = "cli", feature = "remote"))]
mod actions;
mod base;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
pub mod engine;
pub mod host;
pub mod kernel;
#[cfg(feature = "llm")]
pub mod llm;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod native;
pub mod net;
pub mod process;
#[cfg(feature = "remote")]
#[cfg_attr(
    not(feature = "cli"),
    allow(
        dead_code,
        unused_imports,
        reason = "actions, which the command line alone has, use the rest"
    )
)]
mod remote;
pub mod results;
pub mod sandbox;
mod store;
pub mod tape;
pub mod testbench;
pub mod toolchain;

pub use base::digest::Digest;
pub use base::errno::Errno;
pub use engine::{
    CompileProgress, Encoding, Engine, EngineConfig, EngineError, Module, Outcome, Program,
    ProgramError, RunError, Tier, TierChoice, Trap, UnknownImports,
};
pub use kernel::guest::{Preopen, Reach};
pub use kernel::io::stdio::{Input, OutputStream, Stdio};
pub use kernel::machine::limits::{Limit, Limits};
pub use kernel::machine::{
    ClockConfig, Interrupter, Machine, MachineBuilder, MachineError, WORKTREE,
};
pub use kernel::vfs::{HostDir, Layer, Mtimes, Overlay, Source, VfsLimits};
pub use process::{Command, ExitStatus, Output};
pub use store::{Cas, FileDigests, Removed, StoreError};
pub use testbench::{Testbench, TestbenchSession};
pub use toolchain::{
    Code, Described, InstallError, InstalledToolchains, Manifest, ManifestError, Problem,
    ProgramEntry, ResolveError, Resolved, SignedManifest, Toolchain, ToolchainFolder,
    ToolchainPrograms, Toolchains,
};
