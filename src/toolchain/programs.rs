//! The programs that processes of a machine can start.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::described::{Code, Described};
use super::manifest::{Manifest, is_below};
use super::registry::{ResolveError, Resolved, Toolchains};
use crate::base::digest::Digest;
use crate::engine::{
    Engine, EngineConfig, EngineError, LateProgram, Module, Program, ProgramError, UnknownImports,
};
use crate::kernel::process::programs::{
    Found, MakeImage, NeededTree, NotRunnable, Programs, uncounted,
};
use crate::results::Results;
use crate::store::{FileDigests, read_slice};
use crate::tape::{Launch, Recorder, TapeError};

/// Compiles a module whose code is not in the cache.
pub type Compile =
    Arc<dyn Fn(&Engine, &Module, UnknownImports) -> Result<Program, ProgramError> + Send + Sync>;

/// Is called with each program that was loaded, its module, and whether its code came from the cache.
pub type Loaded = Arc<dyn Fn(&Program, &Module, bool) + Send + Sync>;

/// The program that runs the scripts of toolchains.
const SHELL: &str = "sh";

/// A program of a toolchain, ready to start.
#[derive(Clone)]
enum Prepared {
    Module(Program, Launch, Vec<NeededTree>),
    Late(LateProgram, Launch, Vec<NeededTree>),
    Script(Launch, Vec<NeededTree>),
}

/// The programs of toolchains and the modules of a machine's namespace, compiled when first started. For
/// [`crate::MachineBuilder::programs`].
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
    /// The tape that the modules are put on.
    tape: Option<Recorder>,
    /// Programs that are not modules, by name.
    images: HashMap<String, MakeImage>,
    by_name: Mutex<HashMap<String, Option<Prepared>>>,
    results: Option<Arc<Results>>,
    digests: Option<FileDigests>,
    loader: Loader,
}

/// Loads each module once. Clones share what they loaded.
#[derive(Clone, Default)]
struct Loader {
    unknown_imports: UnknownImports,
    compile: Option<Compile>,
    loaded: Option<Loaded>,
    by_digest: Arc<Mutex<HashMap<Digest, Program>>>,
}

impl Loader {
    /// The program of `module`.
    ///
    /// # Errors
    /// As [`Program::compile`].
    fn program(&self, engine: &Engine, module: &Module) -> Result<Program, ProgramError> {
        let mut known = self.by_digest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = known.get(&module.digest()) {
            return Ok(program.clone());
        }
        let unknown = self.unknown_imports;
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
            loaded(&program, module, is_cached);
        }
        known.insert(module.digest(), program.clone());
        Ok(program)
    }
}

impl ToolchainPrograms {
    /// Creates the programs of `toolchains`.
    pub fn new(engine: &Engine, toolchains: Toolchains) -> Self {
        Self {
            engine: OnceLock::from(engine.clone()),
            ..Self::with_engine_config(engine.config().clone(), toolchains)
        }
    }

    /// Creates the programs of `toolchains`, on an engine that is created when it is first needed.
    pub fn with_engine_config(engine_config: EngineConfig, toolchains: Toolchains) -> Self {
        Self {
            engine_config,
            engine: OnceLock::new(),
            toolchains,
            tape: None,
            images: HashMap::new(),
            by_name: Mutex::default(),
            results: None,
            digests: None,
            loader: Loader::default(),
        }
    }

    /// Sets what to do about imported functions that are not defined.
    #[must_use]
    pub fn unknown_imports(mut self, unknown: UnknownImports) -> Self {
        self.loader.unknown_imports = unknown;
        self
    }

    /// Puts the modules of programs found by name on `tape`, so that a replay needs no toolchain. A module
    /// with a secret makes the tape fail.
    #[must_use]
    pub fn embed_in(mut self, tape: Recorder) -> Self {
        self.tape = Some(tape);
        self
    }

    /// Sets a replacement of [`Program::compile`] for programs whose code is not in the cache, for example
    /// to show progress or to compile in another process. Timeouts do not count its time.
    #[must_use]
    pub fn compiler(mut self, compile: Compile) -> Self {
        self.loader.compile = Some(compile);
        self
    }

    /// Sets what is called with each program when it is first started.
    #[must_use]
    pub fn on_load(mut self, loaded: Loaded) -> Self {
        self.loader.loaded = Some(loaded);
        self
    }

    /// Adds the program `name`, which is not a module, such as [`crate::process::ShellImage`]. A program of
    /// a toolchain hides it.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, make: MakeImage) -> Self {
        self.images.insert(name.into(), make);
        self
    }

    /// Returns the program of `module`, compiled at most once.
    ///
    /// # Errors
    /// As [`Program::compile`].
    pub fn program(&self, module: &Module) -> Result<Program, ProgramError> {
        self.loader.program(self.engine()?, module)
    }

    /// A process of a module that has results in `results` may be answered from them: such a module is loaded when its
    /// code has to run. See [`crate::Machine::set_results`].
    #[must_use]
    pub fn answered_from(mut self, results: Option<Arc<Results>>) -> Self {
        self.results = results;
        self
    }

    /// Sets what remembers the digests of large modules. Default: each is read when it is first started.
    #[must_use]
    pub fn file_digests(mut self, digests: FileDigests) -> Self {
        self.digests = Some(digests);
        self
    }

    /// The program of `module`, to be loaded later, if it can be.
    ///
    /// # Errors
    /// The engine cannot be created.
    fn late(&self, module: &Module) -> Result<Option<LateProgram>, EngineError> {
        let is_known = |results: &Arc<Results>| results.knows(module.digest());
        // What it imports is known when it is loaded.
        let is_refusable = self.loader.unknown_imports == UnknownImports::Deny;
        if !self.results.as_ref().is_some_and(is_known) || self.tape.is_some() || is_refusable {
            return Ok(None);
        }
        let engine = self.engine()?;
        let (loader, on, module) = (self.loader.clone(), engine.clone(), module.clone());
        let load = {
            let module = module.clone();
            move || loader.program(&on, &module)
        };
        Ok(Some(LateProgram::new(engine, &module, load)))
    }

    fn engine(&self) -> Result<&Engine, EngineError> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        let engine = Engine::new(self.engine_config.clone())?;
        Ok(self.engine.get_or_init(|| engine))
    }

    fn image(&self, name: &str) -> Option<Found> {
        self.images.get(name).map(|make| Found::built_in(make()))
    }

    fn find(&self, name: &str) -> Result<Option<Prepared>, NotRunnable> {
        let not_runnable = |error: &dyn std::fmt::Display| NotRunnable(error.to_string());
        let resolved = match self.toolchains.find(name) {
            Ok(Some(resolved)) => resolved,
            Ok(None) | Err(ResolveError::BadName { .. }) => return Ok(None),
            Err(error) => return Err(not_runnable(&error)),
        };
        // Guests must not learn the host's path of the module.
        let not_runnable = |error: &dyn std::fmt::Display| match &resolved {
            Resolved::File(path)
            | Resolved::Described(Described { code: Code::Module(path, _), .. }) => {
                NotRunnable(error.to_string().replace(&*path.to_string_lossy(), name))
            }
            Resolved::BuiltIn { .. } | Resolved::Described(_) => not_runnable(error),
        };
        let (launch, trees) = match &resolved {
            Resolved::Described(described) => {
                let trees = described.trees().map_err(|_| {
                    let Manifest { name, version, .. } = described.toolchain.manifest();
                    not_runnable(&format!(
                        "a tree of its toolchain {name} {version} is missing or damaged"
                    ))
                })?;
                let taped = trees.iter().map(NeededTree::taped).collect();
                let launch = Launch { trees: taped, ..described.launch.clone() };
                if described.code == Code::Script {
                    return Ok(Some(Prepared::Script(launch, trees)));
                }
                (launch, trees)
            }
            Resolved::File(_) | Resolved::BuiltIn { .. } => (Launch::default(), Vec::new()),
        };
        let module =
            resolved.module_known(self.digests.as_ref()).map_err(|error| not_runnable(&error))?;
        if let Some(program) = self.late(&module).map_err(|error| not_runnable(&error))? {
            return Ok(Some(Prepared::Late(program, launch, trees)));
        }
        let program = self.program(&module).map_err(|error| not_runnable(&error))?;
        if let Some(tape) = &self.tape {
            let bytes = module.bytes().map_err(|error| not_runnable(&error))?;
            let embedded = tape.content_from(name, read_slice(&bytes));
            let embedded = embedded.map_err(|error| not_runnable(&error))?;
            if let Some(rule) = embedded.withheld_by {
                tape.fail(TapeError::ModuleWithheld { name: name.to_owned(), rule });
            }
        }
        Ok(Some(Prepared::Module(program, launch, trees)))
    }
}

impl Programs for ToolchainPrograms {
    /// Looks each name up in toolchains once: they should not change during use.
    fn named(&self, name: &str) -> Result<Option<Found>, NotRunnable> {
        let mut known = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let prepared = if let Some(prepared) = known.get(name) {
            prepared.clone()
        } else {
            let prepared = self.find(name)?;
            known.insert(name.to_owned(), prepared.clone());
            prepared
        };
        match prepared {
            None => Ok(self.image(name)),
            Some(Prepared::Module(program, launch, trees)) => {
                Ok(Some(Found { launch, trees, ..program.found() }))
            }
            Some(Prepared::Late(program, launch, trees)) => {
                Ok(Some(Found { launch, trees, ..program.found() }))
            }
            Some(Prepared::Script(launch, trees)) => match self.image(SHELL) {
                Some(shell) => Ok(Some(Found { launch, trees, ..shell })),
                None => {
                    Err(NotRunnable(format!("{name} is a script, and there is no program {SHELL}")))
                }
            },
        }
    }

    fn tree(&self, at: &str) -> Option<NeededTree> {
        let toolchain = self.toolchains.described().find(|it| is_below(at, &it.root()))?;
        toolchain.trees().ok()?.into_iter().find(|tree| tree.at == at)
    }

    fn module(&self, path: &str, bytes: Vec<u8>) -> Result<Found, NotRunnable> {
        let module = Module::from_bytes(path, bytes);
        let program = module.and_then(|module| self.program(&module));
        program.map(Program::found).map_err(|error| NotRunnable(error.to_string()))
    }
}
