//! Rank 5: compiles and runs modules. Only this directory and `abi/` use wasmtime.

mod backend;
mod code_cache;
mod compile;
mod compile_cost;
mod config;
mod deadline;
mod generator;
mod image;
mod inspect;
mod invoke;
mod known;
mod late;
mod link;
mod module;
mod optimizer;
mod player;
#[cfg(feature = "import")]
mod precompiled;
mod prepare;
mod program;
mod progress;
mod run;
#[cfg(test)]
mod stack_tests;
mod stop_page;
mod tier;
mod validate;
mod watchdog;

use std::sync::{Arc, OnceLock};

use backend::Backends;
pub use code_cache::{CacheError, CacheInfo, CodeCache};
pub use compile::CacheUse;
pub(crate) use config::MODULES_MAX;
pub use config::{CACHE_BYTES_MAX, EngineConfig, QUICK_STACK_BYTES, STACK_BYTES};
pub use inspect::ModuleInfo;
#[cfg(all(feature = "cli", feature = "remote"))]
pub(crate) use known::is_of_code_and_imports;
pub use late::LateProgram;
pub use link::UnknownImports;
pub use module::{Encoding, Module, ProgramError};
#[cfg(feature = "import")]
pub(crate) use precompiled::{AdoptError, Platform, adopt};
pub use program::Program;
pub use progress::CompileProgress;
pub use run::run;
pub use tier::{Tier, TierChoice, UnknownTier};

pub use crate::kernel::process::outcome::{Outcome, RunError, Trap};
pub use crate::kernel::process::schedule::Finished;
use watchdog::Watchdog;

/// An engine could not be created.
#[derive(thiserror::Error, Clone)]
#[error("cannot create the engine: {0}")]
pub struct EngineError(String);

crate::base::readable::readable!(EngineError);

/// Compiles modules and runs programs. Cheap to clone; one per process is enough, for any number of threads.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    config: EngineConfig,
    backends: Backends,
    cache: Option<CodeCache>,
    watchdog: Watchdog,
    /// See [`player`]; why there is none, if it cannot be made.
    player: OnceLock<Result<Program, ProgramError>>,
}

impl Engine {
    /// Creates an engine.
    ///
    /// # Errors
    /// The host lacks something that the code generator needs.
    pub fn new(config: EngineConfig) -> Result<Self, EngineError> {
        let (mut config, backends) = (config, Backends::new());
        backends.make_first(&mut config)?;
        let cache = config
            .cache_dir
            .as_deref()
            .map(|dir| CodeCache::new(dir).bytes_max(config.cache_bytes_max));
        let watchdog = Watchdog::default();
        let player = OnceLock::new();
        Ok(Self(Arc::new(Inner { config, backends, cache, watchdog, player })))
    }

    /// The configuration.
    pub fn config(&self) -> &EngineConfig {
        &self.0.config
    }

    /// The cache of compiled code, if there is one.
    pub fn cache(&self) -> Option<&CodeCache> {
        self.0.cache.as_ref()
    }
}
