//! Compiles modules.

use std::borrow::Cow;

use super::backend::Backend;
use super::compile_cost::CompileCost;
use super::generator::{Generator, is_prepared};
use super::module::{Encoding, Module};
use super::prepare::{self, Target};
use super::progress::CompileProgress;
use super::tier::{Tier, TierChoice};
use super::{CacheError, Engine, EngineConfig, ProgramError, validate};
use crate::base::digest::Digest;

/// Modules up to this size are optimized at once, in bytes: a quick compilation would save milliseconds.
const SMALL_MODULE_BYTES: u64 = 256 << 10;

/// Most bytes of variables in a function that Winch compiles. The smallest frame of optimized code has 32 bytes, and
/// the stack of quick code is 64 times as large.
const WINCH_VARIABLE_BYTES_MAX: u64 = 1920;

/// Where the compiled code of a program came from.
#[derive(Debug)]
pub enum CacheUse {
    /// From the cache.
    Hit,
    /// Compiled, and stored in the cache.
    Stored,
    /// Compiled; there is no cache.
    Off,
    /// Compiled; the cache could not be used.
    Failed(CacheError),
}

/// The tier in which an engine of `config` compiles `module` first.
pub(super) fn first_tier(config: &EngineConfig, module: &Module) -> Tier {
    match config.tier {
        TierChoice::Optimized => Tier::Optimized,
        TierChoice::Auto if module.size() <= SMALL_MODULE_BYTES => Tier::Optimized,
        TierChoice::Auto | TierChoice::Quick => Tier::Quick,
    }
}

/// Machine code of a module.
pub(super) struct Compiled {
    pub generator: Generator,
    /// As wasmtime serializes it.
    pub image: Vec<u8>,
    pub cache_use: CacheUse,
}

/// Compiles `module` in the tier `tier`, and stores its code in the cache if there is one.
///
/// # Errors
/// [`ProgramError`]: `Invalid`, `SharedMemory`, `CompileMemory`, `Changed`, `Engine`.
pub(super) fn compile(
    engine: &Engine,
    module: &Module,
    tier: Tier,
    progress: &CompileProgress,
) -> Result<Compiled, ProgramError> {
    let (config, backends) = (engine.config(), &engine.0.backends);
    let bytes = module.bytes()?;
    let encoding = module.encoding();
    let knows_all = backends.first(config, Generator::Optimizing, encoding)?;
    let work = Work::of(&knows_all.engine, config, module, &bytes, progress)?;
    let mut refused = None;
    for generator in Generator::of(tier, config, encoding) {
        // Its frames have all variables, so that recursion would end sooner than in optimized code.
        let variable_bytes = work.cost.variable_bytes_max();
        if *generator == Generator::Winch && variable_bytes > WINCH_VARIABLE_BYTES_MAX {
            continue;
        }
        let Ok(backend) = backends.first(config, *generator, encoding) else { continue };
        match work.image(&backend.engine, config, *generator)? {
            Ok(image) => {
                let cache_use = store(engine, backend, module.digest(), &image);
                return Ok(Compiled { generator: *generator, image, cache_use });
            }
            Err(why) => refused = Some(why),
        }
    }
    Err(work.invalid(refused.unwrap_or_else(|| format!("no compiler for the {tier} tier"))))
}

/// Compiles `module` in the optimized tier on `on`, an engine for another machine.
///
/// # Errors
/// As [`compile`].
#[cfg(feature = "import")]
pub(super) fn optimized_on(
    on: &wasmtime::Engine,
    config: &EngineConfig,
    module: &Module,
    progress: &CompileProgress,
) -> Result<Vec<u8>, ProgramError> {
    let bytes = module.bytes()?;
    let work = Work::of(on, config, module, &bytes, progress)?;
    work.image(on, config, Generator::Optimizing)?.map_err(|why| work.invalid(why))
}

/// A valid module that is being compiled.
struct Work<'a> {
    name: &'a str,
    encoding: Encoding,
    bytes: &'a [u8],
    cost: CompileCost,
    pool: Option<rayon::ThreadPool>,
    progress: &'a CompileProgress,
}

impl<'a> Work<'a> {
    /// Examines `module`, whose bytes are `bytes`; `knows_all` knows all instructions.
    ///
    /// # Errors
    /// [`ProgramError`]: `Invalid`, `SharedMemory`, `CompileMemory`.
    fn of(
        knows_all: &wasmtime::Engine,
        config: &EngineConfig,
        module: &'a Module,
        bytes: &'a [u8],
        progress: &'a CompileProgress,
    ) -> Result<Self, ProgramError> {
        // Compiling a large module takes minutes, refusing it a moment.
        validate::expect_valid(knows_all, module, bytes)?;
        let cost = CompileCost::of(bytes);
        let pool = pool(threads(config, module, &cost)?, progress);
        let (name, encoding) = (module.name(), module.encoding());
        Ok(Self { name, encoding, bytes, cost, pool, progress })
    }

    fn invalid(&self, message: String) -> ProgramError {
        ProgramError::Invalid { name: self.name.to_owned(), message }
    }

    /// The machine code that `generator` makes on `engine`, or why it makes none.
    ///
    /// # Errors
    /// [`ProgramError::Invalid`].
    fn image(
        &self,
        engine: &wasmtime::Engine,
        config: &EngineConfig,
        generator: Generator,
    ) -> Result<Result<Vec<u8>, String>, ProgramError> {
        let mut refused = String::new();
        for form in generator.forms(config, self.encoding) {
            let target = Target { form: *form, merges_loads: generator == Generator::Optimizing };
            let prepared = if is_prepared(config, self.encoding) {
                on_pool(self.pool.as_ref(), || prepare::prepare(self.bytes, target))
                    .map_err(|error| self.invalid(error.to_string()))?
            } else {
                Cow::Borrowed(self.bytes)
            };
            self.progress.begin(self.cost.functions());
            let precompile = || match self.encoding {
                Encoding::Module => engine.precompile_module(&prepared),
                Encoding::Component => engine.precompile_component(&prepared),
            };
            match on_pool(self.pool.as_ref(), precompile) {
                Ok(image) => return Ok(Ok(image)),
                // A module can be valid, and too long when it is prepared.
                Err(error) => refused = format!("{error:#}"),
            }
        }
        Ok(Err(refused))
    }
}

fn store(engine: &Engine, backend: &Backend, module: Digest, image: &[u8]) -> CacheUse {
    let Some(cache) = engine.cache() else { return CacheUse::Off };
    match cache.store(backend.key(engine.config(), module), image) {
        Ok(()) => CacheUse::Stored,
        Err(error) => CacheUse::Failed(error),
    }
}

/// Returns how many threads compile `module`, which takes `cost`.
fn threads(
    config: &EngineConfig,
    module: &Module,
    cost: &CompileCost,
) -> Result<usize, ProgramError> {
    let limit_bytes = config.compile_memory_bytes_max;
    cost.threads_within(limit_bytes, rayon::current_num_threads()).ok_or_else(|| {
        ProgramError::CompileMemory {
            name: module.name().to_owned(),
            bytes: cost.on_threads(1),
            limit_bytes,
        }
    })
}

/// `threads` threads with the priority of this one, which count what they compile.
fn pool(threads: usize, progress: &CompileProgress) -> Option<rayon::ThreadPool> {
    let progress = progress.clone();
    let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
    builder.start_handler(move |_| progress.count_on_this_thread()).build().ok()
}

/// Does `work` on `pool`, or on this thread if there is none.
fn on_pool<T: Send>(pool: Option<&rayon::ThreadPool>, work: impl FnOnce() -> T + Send) -> T {
    match pool {
        Some(pool) => pool.install(work),
        None => work(),
    }
}
