//! Rank 2: results of processes that are known from earlier runs.
//!
//! A process is a function of the answers that its calls get: it has no clock, no chance and no files of its own. So a
//! process that makes the calls of an earlier one, and gets the same answers, ends as that did, and its code need not
//! run. A [`Trace`] has the calls of one process, with digests of their answers; a [`ResultCache`] keeps traces by
//! [`Action`]. `engine/` makes the calls of a trace again, and runs the code from the first answer that differs.
//!
//! ```
//! use std::sync::Arc;
//! use belljar::results::{ResultCache, Results};
//! use belljar::{Command, Engine, EngineConfig, Machine, Program, Toolchains};
//!
//! let engine = Engine::new(EngineConfig { pool_slots: 0, ..EngineConfig::default() })?;
//! let echo = Program::new(&engine, &Toolchains::default().resolve("echo")?.module()?)?;
//! let folder = tempfile::tempdir()?;
//! let results = Arc::new(Results::new(ResultCache::new(folder.path())));
//! for _ in 0..2 {
//!     let mut machine = Machine::builder().build()?;
//!     machine.set_results(Some(results.clone()));
//!     assert_eq!(Command::new(&echo).arg("hello").output(&mut machine)?.stdout, b"hello\n");
//! }
//! let statistics = results.statistics();
//! assert_eq!((statistics.misses, statistics.hits), (1, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod action;
mod cache;
mod lookup;
#[cfg(feature = "remote")]
mod remote;
mod secrets;
mod shared;
mod statistics;
mod trace;

pub use self::action::{Action, Place};
pub use self::cache::{ResultCache, ResultCacheError, ResultsInfo, TraceInfo};
#[cfg(feature = "remote")]
pub use self::remote::{RemoteCache, RemoteConfig, RemoteStatistics, trace_of_contents};
pub use self::secrets::Secrets;
pub use self::shared::Shared;
pub use self::statistics::{Difference, NotKept, Results, Statistics, Unkept, WrongTrace};
#[cfg(feature = "remote")]
pub use crate::base::signature::{
    KeyId, PublicKey, SecretKey, SecretKeyText, Signature, SignatureError,
};
#[cfg(feature = "remote")]
pub use crate::remote::RemoteError;

pub use self::trace::{
    Abandoned, Answer, Bytes, Call, Compared, End, Function, Known, Span, Trace, TraceBuilder,
};
