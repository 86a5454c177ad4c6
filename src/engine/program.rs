//! Programs: modules that are compiled and linked.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::code_cache::{self, Code as LoadedCode, CodeCache};
use super::compile::{self, CacheUse};
use super::generator::Generator;
use super::link::{Linked, Loaded, UnknownImports, find, find_in, link, load};
use super::module::Encoding;
use super::tier::{Tier, TierChoice};
use super::{CompileProgress, Engine, Module, ProgramError, optimizer, player};
use crate::abi;
use crate::base::digest::Digest;
use crate::kernel::process::programs::{Found, uncounted};

/// A compiled and linked module: run it any number of times, on any number of threads.
#[derive(Clone)]
pub struct Program {
    engine: Engine,
    code: Arc<Code>,
}

/// The code of a program, in the tiers that there are.
struct Code {
    name: String,
    digest: Digest,
    encoding: Encoding,
    unknown_imports: Vec<String>,
    quick: Option<Linked>,
    optimized: OnceLock<OptimizedCode>,
    /// Whether a process ran in the quick tier, and in the optimized one.
    has_run: [AtomicBool; 2],
}

struct OptimizedCode {
    pre: Linked,
    /// The same for processes beyond the pool, once needed.
    beyond_pool: OnceLock<Result<Linked, String>>,
}

/// Code that a process can run.
#[derive(Clone, Copy)]
pub(super) struct Runnable<'p> {
    pub pre: &'p Linked,
    pub tier: Tier,
}

impl Program {
    /// Loads `module` from the cache, or compiles it, which takes seconds for a large one.
    ///
    /// # Errors
    /// [`ProgramError`]: `Invalid`, `Import`.
    pub fn new(engine: &Engine, module: &Module) -> Result<Self, ProgramError> {
        Self::with_unknown(engine, module, UnknownImports::Trap)
    }

    /// As [`Program::new`], with a choice for functions that are not defined.
    ///
    /// # Errors
    /// [`ProgramError`]: `Invalid`, `Import`.
    pub fn with_unknown(
        engine: &Engine,
        module: &Module,
        unknown: UnknownImports,
    ) -> Result<Self, ProgramError> {
        match Self::from_cache(engine, module, unknown)? {
            Some(program) => Ok(program),
            None => Ok(Self::compile(engine, module, unknown)?.0),
        }
    }

    /// Loads the module in the file `path`, binary or text.
    ///
    /// # Errors
    /// [`ProgramError`].
    pub fn load(engine: &Engine, path: impl AsRef<Path>) -> Result<Self, ProgramError> {
        Self::new(engine, &Module::read(path.as_ref())?)
    }

    /// Loads `module` from the cache: its optimized code if that is there, or else its quick code, of the tiers that
    /// `engine` uses; `None` if there is neither.
    ///
    /// # Errors
    /// [`ProgramError::Import`].
    pub fn from_cache(
        engine: &Engine,
        module: &Module,
        unknown: UnknownImports,
    ) -> Result<Option<Self>, ProgramError> {
        match engine.cache() {
            Some(cache) => Self::from_other_cache(cache, engine, module, unknown),
            None => Ok(None),
        }
    }

    /// As [`Program::from_cache`], from a cache that is not that of `engine`.
    ///
    /// # Errors
    /// [`ProgramError::Import`].
    pub fn from_other_cache(
        cache: &CodeCache,
        engine: &Engine,
        module: &Module,
        unknown: UnknownImports,
    ) -> Result<Option<Self>, ProgramError> {
        for tier in [Tier::Optimized, Tier::Quick] {
            if !engine.config().tier.takes(tier) {
                continue;
            }
            for generator in Generator::of(tier, engine.config(), module.encoding()) {
                let (digest, encoding) = (module.digest(), module.encoding());
                if let Some(code) = find_in(cache, engine, digest, encoding, *generator) {
                    return Self::new_linked(engine, module, &code, unknown).map(Some);
                }
            }
        }
        Ok(None)
    }

    /// Compiles `module` in the first tier that `engine` uses, and stores its code in the cache if there is one.
    ///
    /// # Errors
    /// [`ProgramError`]: `Invalid`, `Import`, `SharedMemory`, `CompileMemory`.
    pub fn compile(
        engine: &Engine,
        module: &Module,
        unknown: UnknownImports,
    ) -> Result<(Self, CacheUse), ProgramError> {
        Self::compile_watched(engine, module, unknown, &CompileProgress::default())
    }

    /// As [`Program::compile`]; `progress` shows how far it is.
    ///
    /// # Errors
    /// As [`Program::compile`].
    pub fn compile_watched(
        engine: &Engine,
        module: &Module,
        unknown: UnknownImports,
        progress: &CompileProgress,
    ) -> Result<(Self, CacheUse), ProgramError> {
        let config = engine.config();
        let tier = compile::first_tier(config, module);
        let (program, cache_use) = uncounted(|| {
            let compiled = compile::compile(engine, module, tier, progress)?;
            let code = load(engine, module, compiled.generator, &compiled.image)?;
            let program = Self::new_linked(engine, module, &code, unknown)?;
            Ok::<_, ProgramError>((program, compiled.cache_use))
        })?;
        let is_wanted = config.tier == TierChoice::Auto && config.optimize_in_background;
        if tier == Tier::Quick && is_wanted {
            let (program, module) = (program.clone(), module.clone());
            // If it fails, for example because the module takes too much memory, quick code stays.
            optimizer::later(Box::new(move || drop(program.optimize(&module))));
        }
        Ok((program, cache_use))
    }

    fn new_linked(
        engine: &Engine,
        module: &Module,
        code: &Loaded<'_>,
        unknown: UnknownImports,
    ) -> Result<Self, ProgramError> {
        let name = module.name().to_owned();
        let (pre, unknown_imports) = link(code, &name, unknown, abi::define)?;
        let tier = code.generator.tier();
        let (quick, optimized) = match tier {
            Tier::Quick => (Some(pre), OnceLock::new()),
            Tier::Optimized => (None, OnceLock::from(OptimizedCode::new(pre))),
        };
        let (digest, encoding) = (module.digest(), module.encoding());
        let has_run = Default::default();
        let code = Code { name, digest, encoding, unknown_imports, quick, optimized, has_run };
        Ok(Self { engine: engine.clone(), code: Arc::new(code) })
    }

    /// The player of `engine`.
    ///
    /// # Errors
    /// Those of [`Program::compile`].
    pub(super) fn player(engine: &Engine) -> Result<Self, ProgramError> {
        let module = Module::from_bytes(player::NAME, player::module())?;
        let (digest, found) = (module.digest(), Generator::Optimizing);
        uncounted(|| {
            let code = if let Some(code) = find(engine, digest, Encoding::Module, found) {
                code
            } else {
                let progress = CompileProgress::default();
                let compiled = compile::compile(engine, &module, Tier::Optimized, &progress)?;
                load(engine, &module, compiled.generator, &compiled.image)?
            };
            let (pre, unknown_imports) =
                link(&code, player::NAME, UnknownImports::Deny, abi::define_for_player)?;
            let code = Code {
                name: player::NAME.to_owned(),
                digest,
                encoding: Encoding::Module,
                unknown_imports,
                quick: None,
                optimized: OnceLock::from(OptimizedCode::new(pre)),
                has_run: Default::default(),
            };
            Ok(Self { engine: engine.clone(), code: Arc::new(code) })
        })
    }

    /// Compiles `module`, of which this is, to optimized code, which processes that begin later run.
    pub(super) fn optimize(&self, module: &Module) -> Result<(), ProgramError> {
        let compiled =
            compile::compile(&self.engine, module, Tier::Optimized, &CompileProgress::default())?;
        let code = load(&self.engine, module, compiled.generator, &compiled.image)?;
        self.set_optimized_code(&code)
    }

    fn set_optimized_code(&self, code: &Loaded<'_>) -> Result<(), ProgramError> {
        // Denied imports were refused when it was first linked.
        let (pre, _) = link(code, &self.code.name, UnknownImports::Trap, abi::define)?;
        let _ = self.code.optimized.set(OptimizedCode::new(pre));
        Ok(())
    }

    /// The best code that there is by now, for a process that begins.
    pub(super) fn best(&self) -> Runnable<'_> {
        let is_known = self.code.optimized.get().is_some();
        let config = self.engine.config();
        if !is_known
            && config.tier == TierChoice::Auto
            && let Some(code) =
                find(&self.engine, self.code.digest, self.code.encoding, Generator::Optimizing)
        {
            // If it cannot be used, quick code does the same.
            let _ = uncounted(|| self.set_optimized_code(&code));
        }
        let runnable = match (self.code.optimized.get(), &self.code.quick) {
            (Some(code), _) => Runnable { pre: &code.pre, tier: Tier::Optimized },
            (None, Some(pre)) => Runnable { pre, tier: Tier::Quick },
            (None, None) => unreachable!("a program is made with code"),
        };
        self.code.has_run[runnable.tier as usize].store(true, Ordering::Relaxed);
        runnable
    }

    /// Code for processes beyond the pool, or why there is none; `None` if `runnable` does not use the pool.
    pub(super) fn beyond_pool(&self, runnable: Runnable<'_>) -> Option<Result<Runnable<'_>, &str>> {
        let tier = runnable.tier;
        let code = self.code.optimized.get().filter(|_| tier == Tier::Optimized)?;
        // There is no pool for components.
        let Linked::Module(pooled) = &code.pre else { return None };
        let pre = code.beyond_pool.get_or_init(|| {
            let config = self.engine.config();
            let backend =
                self.engine.0.backends.plain(config, Generator::Optimizing, Encoding::Module);
            let backend = backend.map_err(|error| error.to_string())?;
            let module = code_cache::copy(pooled.module(), &backend.engine)
                .map_err(|error| format!("{error:#}"))?;
            let code = LoadedCode::Module(module);
            let loaded = Loaded { backend, generator: Generator::Optimizing, code };
            let define = if self.is_player() { abi::define_for_player } else { abi::define };
            let linked = link(&loaded, &self.code.name, UnknownImports::Trap, define);
            linked.map(|(pre, _)| pre).map_err(|error| error.to_string())
        });
        Some(pre.as_ref().map(|pre| Runnable { pre, tier }).map_err(String::as_str))
    }

    fn is_player(&self) -> bool {
        let player = self.engine.0.player.get().and_then(|player| player.as_ref().ok());
        player.is_some_and(|player| Arc::ptr_eq(&player.code, &self.code))
    }

    /// The tier that its next process would run in.
    pub fn tier(&self) -> Tier {
        let is_optimized = self.code.optimized.get().is_some();
        if is_optimized { Tier::Optimized } else { Tier::Quick }
    }

    /// The tiers that its processes ran in so far.
    pub fn tiers_run(&self) -> Vec<Tier> {
        let ran = |tier: &Tier| self.code.has_run[*tier as usize].load(Ordering::Relaxed);
        [Tier::Quick, Tier::Optimized].into_iter().filter(ran).collect()
    }

    /// The engine that it was compiled for.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the program as the result of a lookup.
    pub fn found(self) -> Found {
        let digest = Some(self.digest());
        Found { digest, ..Found::built_in(Box::new(self)) }
    }

    /// The name for messages.
    pub fn name(&self) -> &str {
        &self.code.name
    }

    /// The digest of the module's binary form.
    pub fn digest(&self) -> Digest {
        self.code.digest
    }

    /// What its binary is.
    pub fn encoding(&self) -> Encoding {
        self.code.encoding
    }

    /// The imported functions that are not defined: `module.name`, or `interface#name` of a component.
    pub fn unknown_imports(&self) -> &[String] {
        &self.code.unknown_imports
    }

    /// The usual `argv[0]`: the file name without `.wasm` or `.wat`.
    pub fn default_argv0(&self) -> String {
        argv0_of(self.name())
    }
}

/// The usual `argv[0]` of the program in the file `name`.
pub(super) fn argv0_of(name: &str) -> String {
    let stem = Path::new(name).file_stem();
    stem.map_or_else(|| name.to_owned(), |stem| stem.to_string_lossy().into())
}

impl OptimizedCode {
    fn new(pre: Linked) -> Self {
        Self { pre, beyond_pool: OnceLock::new() }
    }
}
