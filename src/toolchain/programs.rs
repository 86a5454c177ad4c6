//! The programs that processes of a machine can start.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::registry::{ResolveError, Resolved, Toolchains};
use crate::base::digest::Digest;
use crate::engine::{
    Engine, EngineConfig, EngineError, Module, Program, ProgramError, UnknownImports,
};
use crate::kernel::process::programs::{Found, MakeImage, NotRunnable, Programs, uncounted};
use crate::store::read_slice;
use crate::tape::{Recorder, TapeError};

/// Makes the program of a module whose code is not in the cache.
pub type Compile =
    Arc<dyn Fn(&Engine, &Module, UnknownImports) -> Result<Program, ProgramError> + Send + Sync>;

/// Is told of a program that was loaded, and whether its code came from the cache.
pub type Loaded = Arc<dyn Fn(&Program, bool) + Send + Sync>;

/// The programs of toolchains, and modules of a machine's namespace, compiled when they are first
/// started. For [`crate::MachineBuilder::programs`].
///
/// ```
/// use std::sync::Arc;
/// use belljar::{Engine, EngineConfig, Machine, ToolchainPrograms, Toolchains};
///
/// let engine = Engine::new(EngineConfig { pool_slots: 0, ..EngineConfig::default() })?;
/// let programs = ToolchainPrograms::new(&engine, Toolchains::default())
///     .with("sh", belljar::process::ShellImage::maker());
/// let machine = Machine::builder().programs(Arc::new(programs)).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ToolchainPrograms {
    engine_config: EngineConfig,
    engine: OnceLock<Engine>,
    toolchains: Toolchains,
    unknown_imports: UnknownImports,
    /// The tape that keeps the modules.
    tape: Option<Recorder>,
    compile: Option<Compile>,
    loaded: Option<Loaded>,
    /// What is no module, by its name.
    images: HashMap<String, MakeImage>,
    by_name: Mutex<HashMap<String, Option<Program>>>,
    by_digest: Mutex<HashMap<Digest, Program>>,
}

impl ToolchainPrograms {
    /// The programs of `toolchains`.
    pub fn new(engine: &Engine, toolchains: Toolchains) -> Self {
        Self {
            engine: OnceLock::from(engine.clone()),
            ..Self::with_engine_config(engine.config().clone(), toolchains)
        }
    }

    /// The programs of `toolchains`, on an engine that is made once one of them is to run.
    pub fn with_engine_config(engine_config: EngineConfig, toolchains: Toolchains) -> Self {
        Self {
            engine_config,
            engine: OnceLock::new(),
            toolchains,
            unknown_imports: UnknownImports::Trap,
            tape: None,
            compile: None,
            loaded: None,
            images: HashMap::new(),
            by_name: Mutex::default(),
            by_digest: Mutex::default(),
        }
    }

    /// What to do about functions that a module imports and nobody defines.
    #[must_use]
    pub fn unknown_imports(mut self, unknown: UnknownImports) -> Self {
        self.unknown_imports = unknown;
        self
    }

    /// Puts the module of each program that is found by its name on `tape`, so that a replay needs no
    /// toolchain. One that holds what `tape` takes for a secret makes it fail.
    #[must_use]
    pub fn embed_in(mut self, tape: Recorder) -> Self {
        self.tape = Some(tape);
        self
    }

    /// Lets `compile` make the programs whose code is not in the cache, in place of
    /// [`Program::compile`]: to say that it takes time, say, or to do it in another process. No timeout
    /// counts what it takes.
    #[must_use]
    pub fn compiler(mut self, compile: Compile) -> Self {
        self.compile = Some(compile);
        self
    }

    /// Tells `loaded` of each program once it is ready to run, when it is first started.
    #[must_use]
    pub fn on_load(mut self, loaded: Loaded) -> Self {
        self.loaded = Some(loaded);
        self
    }

    /// Adds what is no module, such as [`crate::process::ShellImage`]: the program `name`, unless a
    /// toolchain has one of that name.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, make: MakeImage) -> Self {
        self.images.insert(name.into(), make);
        self
    }

    /// The program of `module`, compiled at most once.
    ///
    /// # Errors
    /// As [`Program::compile`].
    pub fn program(&self, module: &Module) -> Result<Program, ProgramError> {
        let mut known = self.by_digest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = known.get(&module.digest()) {
            return Ok(program.clone());
        }
        let (engine, unknown) = (self.engine()?, self.unknown_imports);
        let cached = Program::from_cache(engine, module, unknown)?;
        let is_cached = cached.is_some();
        let program = match cached {
            Some(program) => program,
            None => match &self.compile {
                Some(compile) => uncounted(|| compile(engine, module, unknown))?,
                None => Program::compile(engine, module, unknown)?.0,
            },
        };
        if let Some(loaded) = &self.loaded {
            loaded(&program, is_cached);
        }
        known.insert(module.digest(), program.clone());
        Ok(program)
    }

    fn engine(&self) -> Result<&Engine, EngineError> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        let engine = Engine::new(self.engine_config.clone())?;
        Ok(self.engine.get_or_init(|| engine))
    }

    fn image(&self, name: &str) -> Option<Found> {
        self.images.get(name).map(|make| Found { image: make(), digest: None, path: None })
    }

    fn find(&self, name: &str) -> Result<Option<Program>, NotRunnable> {
        let not_runnable = |error: &dyn std::fmt::Display| NotRunnable(error.to_string());
        let resolved = match self.toolchains.resolve(name) {
            Ok(resolved) => resolved,
            Err(ResolveError::NotFound { .. } | ResolveError::BadName { .. }) => return Ok(None),
            Err(error) => return Err(not_runnable(&error)),
        };
        // The program that starts it knows its name, and not where the host has it.
        let not_runnable = |error: &dyn std::fmt::Display| match &resolved {
            Resolved::File(path) => {
                NotRunnable(error.to_string().replace(&*path.to_string_lossy(), name))
            }
            Resolved::BuiltIn { .. } => not_runnable(error),
        };
        let module = resolved.module().map_err(|error| not_runnable(&error))?;
        let program = self.program(&module).map_err(|error| not_runnable(&error))?;
        if let Some(tape) = &self.tape {
            let bytes = module.bytes().map_err(|error| not_runnable(&error))?;
            let embedded = tape.content_from(name, read_slice(&bytes));
            let embedded = embedded.map_err(|error| not_runnable(&error))?;
            if let Some(rule) = embedded.withheld_by {
                tape.fail(TapeError::ModuleWithheld { name: name.to_owned(), rule });
            }
        }
        Ok(Some(program))
    }
}

impl Programs for ToolchainPrograms {
    /// What a toolchain has is looked for once: it is not expected to change while it is used.
    fn named(&self, name: &str) -> Result<Option<Found>, NotRunnable> {
        let mut known = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let program = if let Some(program) = known.get(name) {
            program.clone()
        } else {
            let program = self.find(name)?;
            known.insert(name.to_owned(), program.clone());
            program
        };
        Ok(program.map(Program::found).or_else(|| self.image(name)))
    }

    fn module(&self, path: &str, bytes: Vec<u8>) -> Result<Found, NotRunnable> {
        let module = Module::from_bytes(path, bytes);
        let program = module.and_then(|module| self.program(&module));
        program.map(Program::found).map_err(|error| NotRunnable(error.to_string()))
    }
}
