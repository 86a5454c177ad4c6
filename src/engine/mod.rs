//! Rank 5: compiles and runs modules. Only this directory and `abi/` use wasmtime.

mod code_cache;
mod compile_cost;
mod config;
mod inspect;
mod program;
mod run;
mod watchdog;

use std::sync::{Arc, OnceLock};

use wasmtime::Linker;

use crate::abi::{Process, belljar, preview1};
pub use code_cache::{CacheError, CacheInfo, CodeCache};
pub(crate) use config::MODULES_MAX;
pub use config::{EngineConfig, STACK_BYTES};
pub use program::{CacheUse, Module, Program, ProgramError, UnknownImports};
pub use run::run;

pub use crate::kernel::process::outcome::{Outcome, RunError, Trap};
pub use crate::kernel::process::schedule::Finished;
use watchdog::Watchdog;

/// An engine could not be created.
#[derive(thiserror::Error)]
#[error("cannot create the engine: {0}")]
pub struct EngineError(String);

crate::base::readable::readable!(EngineError);

/// Compiles modules and runs programs. Cheap to clone; one per process is enough, for any number of threads.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    config: EngineConfig,
    main: Backend,
    /// For modules and processes that do not fit into the pool.
    on_demand: OnceLock<Backend>,
    cache: Option<CodeCache>,
    watchdog: Watchdog,
}

/// A wasmtime engine and a linker for it.
struct Backend {
    engine: wasmtime::Engine,
    linker: Linker<Process>,
}

impl Backend {
    fn new(config: &EngineConfig, pool_slots: u32) -> Result<Self, EngineError> {
        let fail = |error: wasmtime::Error| EngineError(format!("{error:#}"));
        let engine = wasmtime::Engine::new(&config.to_wasmtime(pool_slots)).map_err(fail)?;
        let mut linker = Linker::new(&engine);
        preview1::add_to_linker(&mut linker).map_err(fail)?;
        belljar::add_to_linker(&mut linker).map_err(fail)?;
        Ok(Self { engine, linker })
    }
}

impl Engine {
    /// Creates an engine.
    ///
    /// # Errors
    /// The host lacks something that the code generator needs.
    pub fn new(config: EngineConfig) -> Result<Self, EngineError> {
        let mut config = config;
        let main = match Backend::new(&config, config.pool_slots) {
            // The pool exceeds the address space.
            Err(_) if config.pool_slots > 0 => {
                config.pool_slots = 0;
                Backend::new(&config, 0)
            }
            main => main,
        }?;
        let cache = config.cache_dir.as_deref().map(CodeCache::new);
        let watchdog = Watchdog::default();
        let inner = Inner { config, main, on_demand: OnceLock::new(), cache, watchdog };
        Ok(Self(Arc::new(inner)))
    }

    /// The configuration.
    pub fn config(&self) -> &EngineConfig {
        &self.0.config
    }

    /// The cache of compiled code, if there is one.
    pub fn cache(&self) -> Option<&CodeCache> {
        self.0.cache.as_ref()
    }

    fn on_demand(&self) -> Result<&Backend, EngineError> {
        if let Some(backend) = self.0.on_demand.get() {
            return Ok(backend);
        }
        let backend = Backend::new(&self.0.config, 0)?;
        Ok(self.0.on_demand.get_or_init(|| backend))
    }
}
