//! The wasmtime engines that compile and run code.

use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use super::config::EngineConfig;
use super::generator::Generator;
use super::tier::Tier;
use super::{EngineError, prepare};
use crate::base::digest::{Digest, DigestHasher};

/// A wasmtime engine.
pub(super) struct Backend {
    pub engine: wasmtime::Engine,
}

impl Backend {
    fn new(config: &EngineConfig, generator: Generator, slots: u32) -> Result<Self, EngineError> {
        let fail = |error: wasmtime::Error| EngineError(format!("{error:#}"));
        let engine = wasmtime::Engine::new(&generator.settings(config, slots)).map_err(fail)?;
        Ok(Self { engine })
    }

    /// The key in the cache of the code for the module with the digest `module`.
    pub fn key(&self, config: &EngineConfig, module: Digest) -> Digest {
        let mut hasher = DigestHasher::default();
        self.engine.precompile_compatibility_hash().hash(&mut hasher);
        if !config.fuel {
            prepare::VERSION.hash(&mut hasher);
        }
        hasher.write(module.as_bytes());
        hasher.digest()
    }
}

/// The wasmtime engines of an engine, made when first needed.
pub(super) struct Backends {
    /// Optimized code, with a pool of `pool_slots`.
    pooled: OnceLock<Result<Backend, EngineError>>,
    /// For modules and processes that do not fit the pool, and where there is none.
    plain: [OnceLock<Result<Backend, EngineError>>; Generator::ALL.len()],
}

impl Backends {
    pub fn new() -> Self {
        Self { pooled: OnceLock::new(), plain: Default::default() }
    }

    /// Makes the first one that programs of `config` need. There is no pool if it exceeds the address space:
    /// `config` says so afterwards.
    pub fn make_first(&self, config: &mut EngineConfig) -> Result<(), EngineError> {
        let tier = if config.tier.takes(Tier::Optimized) { Tier::Optimized } else { Tier::Quick };
        if tier == Tier::Optimized && config.pool_slots > 0 {
            if self.pooled(config).is_ok() {
                return Ok(());
            }
            config.pool_slots = 0;
        }
        let generators = Generator::of(tier, config);
        let mut made = generators.iter().map(|generator| self.plain(config, *generator));
        let first = made.next().expect("each tier has a generator");
        first.or_else(|error| made.next().unwrap_or(Err(error))).map(|_| ())
    }

    /// The engine for processes in the pool, which are those of optimized code.
    ///
    /// # Errors
    /// The pool exceeds the address space.
    pub fn pooled(&self, config: &EngineConfig) -> Result<&Backend, EngineError> {
        let make = || Backend::new(config, Generator::Optimizing, config.pool_slots);
        self.pooled.get_or_init(make).as_ref().map_err(Clone::clone)
    }

    /// The engine for other processes with code of `generator`.
    ///
    /// # Errors
    /// There is none for this processor.
    pub fn plain(
        &self,
        config: &EngineConfig,
        generator: Generator,
    ) -> Result<&Backend, EngineError> {
        let make = || Backend::new(config, generator, 0);
        self.plain[generator as usize].get_or_init(make).as_ref().map_err(Clone::clone)
    }

    /// The engine on which code of `generator` is compiled, and run if it fits.
    pub fn first(
        &self,
        config: &EngineConfig,
        generator: Generator,
    ) -> Result<&Backend, EngineError> {
        if generator == Generator::Optimizing && config.pool_slots > 0 {
            return self.pooled(config);
        }
        self.plain(config, generator)
    }
}
