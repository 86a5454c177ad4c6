//! The wasmtime engines that compile and run code.

use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use super::config::EngineConfig;
use super::generator::{Generator, is_prepared};
use super::module::Encoding;
use super::tier::Tier;
use super::{EngineError, prepare};
use crate::base::digest::{Digest, DigestHasher};

/// A wasmtime engine.
pub(super) struct Backend {
    pub engine: wasmtime::Engine,
    encoding: Encoding,
}

impl Backend {
    fn new(
        config: &EngineConfig,
        generator: Generator,
        encoding: Encoding,
        slots: u32,
    ) -> Result<Self, EngineError> {
        let settings = generator.settings(config, encoding, slots);
        let engine = wasmtime::Engine::new(&settings);
        let engine = engine.map_err(|error| EngineError(format!("{error:#}")))?;
        Ok(Self { engine, encoding })
    }

    /// The key in the cache of the code for the module with the digest `module`.
    pub fn key(&self, config: &EngineConfig, module: Digest) -> Digest {
        let mut hasher = DigestHasher::default();
        self.engine.precompile_compatibility_hash().hash(&mut hasher);
        if is_prepared(config, self.encoding) {
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
    /// For components.
    components: [OnceLock<Result<Backend, EngineError>>; Generator::ALL.len()],
}

impl Backends {
    pub fn new() -> Self {
        Self { pooled: OnceLock::new(), plain: Default::default(), components: Default::default() }
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
        let generators = Generator::of(tier, config, Encoding::Module);
        let plain = |generator| self.plain(config, generator, Encoding::Module);
        let mut made = generators.iter().map(|generator| plain(*generator));
        let first = made.next().expect("each tier has a generator");
        first.or_else(|error| made.next().unwrap_or(Err(error))).map(|_| ())
    }

    /// The engine for processes in the pool, which are those of optimized code.
    ///
    /// # Errors
    /// The pool exceeds the address space.
    pub fn pooled(&self, config: &EngineConfig) -> Result<&Backend, EngineError> {
        let make =
            || Backend::new(config, Generator::Optimizing, Encoding::Module, config.pool_slots);
        self.pooled.get_or_init(make).as_ref().map_err(Clone::clone)
    }

    /// The engine for other processes with code of `encoding` of `generator`.
    ///
    /// # Errors
    /// There is none for this processor.
    pub fn plain(
        &self,
        config: &EngineConfig,
        generator: Generator,
        encoding: Encoding,
    ) -> Result<&Backend, EngineError> {
        let backends = match encoding {
            Encoding::Module => &self.plain,
            Encoding::Component => &self.components,
        };
        let make = || Backend::new(config, generator, encoding, 0);
        backends[generator as usize].get_or_init(make).as_ref().map_err(Clone::clone)
    }

    /// The engine on which code of `encoding` is compiled by `generator`, and run if it fits.
    pub fn first(
        &self,
        config: &EngineConfig,
        generator: Generator,
        encoding: Encoding,
    ) -> Result<&Backend, EngineError> {
        let is_pooled = generator == Generator::Optimizing && encoding == Encoding::Module;
        if is_pooled && config.pool_slots > 0 {
            return self.pooled(config);
        }
        self.plain(config, generator, encoding)
    }
}
