//! Modules and programs.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use wasmtime::{Caller, ExternType, InstancePre, Linker, UnknownImportError, Val};

use super::compile_cost::CompileCost;
use super::{Backend, CacheError, Engine, EngineConfig, EngineError, code_cache, inspect};
use crate::abi::Process;
use crate::base::digest::{Digest, DigestHasher};
use crate::base::disk::{self, DiskError};
use crate::kernel::process::programs::{Found, uncounted};

/// Most unknown imports that get a stub, as linking takes time for each.
const UNKNOWN_IMPORTS_MAX: usize = 1000;

/// Largest module in a file, in bytes.
const MODULE_BYTES_MAX: u64 = 1 << 30;

/// A module could not be loaded, compiled or linked.
#[derive(thiserror::Error)]
pub enum ProgramError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] DiskError),
    /// The file changed while it was loaded.
    #[error("{name} changed while it was loaded; run it again when it is complete")]
    Changed {
        /// The module.
        name: String,
    },
    /// The bytes are neither a binary nor a text module.
    #[error("{name} is not a WebAssembly module: it begins with {found}")]
    NotWasm {
        /// The module.
        name: String,
        /// Its first bytes.
        found: String,
    },
    /// The bytes are a component.
    #[error(
        "{name} is a WebAssembly component, which belljar cannot run yet; \
         build it for wasm32-wasip1 to get a module"
    )]
    Component {
        /// The module.
        name: String,
    },
    /// The text is not a module.
    #[error("{name} is not valid WebAssembly text: {message}")]
    Text {
        /// The module.
        name: String,
        /// The problem and its place.
        message: String,
    },
    /// The bytes are not a valid module.
    #[error("{name} is not a valid WebAssembly module: {message}")]
    Invalid {
        /// The module.
        name: String,
        /// The problem and its place.
        message: String,
    },
    /// An import has another type than the function of this name.
    #[error("{name} does not match WASI preview1: {message}")]
    Mismatch {
        /// The module.
        name: String,
        /// The import, and how it differs.
        message: String,
    },
    /// An import other than a function is not defined.
    #[error("{name} imports {import}, which belljar does not define")]
    Import {
        /// The module.
        name: String,
        /// Module, name and kind of the import.
        import: String,
    },
    /// It has a shared memory, which is for threads.
    #[error(
        "{name} has a shared memory, but belljar has no threads: build it for wasm32-wasip1, not \
         wasm32-wasip1-threads"
    )]
    SharedMemory {
        /// The module.
        name: String,
    },
    /// Too many imported functions are not defined.
    #[error("{name} imports too many unknown functions (limit {UNKNOWN_IMPORTS_MAX})")]
    TooManyUnknownImports {
        /// The module.
        name: String,
    },
    /// It is too large.
    #[error("{name} is too large for a module (limit {MODULE_BYTES_MAX} bytes)")]
    TooLong {
        /// The module.
        name: String,
    },
    /// Compiling it may take too much memory.
    #[error(
        "compiling {name} may take {bytes} bytes of memory, more than the limit of {limit_bytes}: \
         raise EngineConfig::compile_memory_bytes_max"
    )]
    CompileMemory {
        /// The module.
        name: String,
        /// The upper bound, on one thread.
        bytes: u64,
        /// See [`super::EngineConfig::compile_memory_bytes_max`].
        limit_bytes: u64,
    },
    /// Compiling it took too much time or memory.
    #[error("{name} cannot be compiled: {message}")]
    Compile {
        /// The module.
        name: String,
        /// The limit that it exceeded.
        message: String,
    },
    /// The process that compiled it found that it cannot run.
    #[error("{0}")]
    Refused(String),
    /// The engine for modules and processes beyond the pool could not be created.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

crate::base::readable::readable!(ProgramError);

/// What to do about imported functions that are not defined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UnknownImports {
    /// Run the module; a call of such a function is a trap that names it.
    #[default]
    Trap,
    /// Refuse the module.
    Deny,
}

/// A module whose header was checked.
#[derive(Clone)]
pub struct Module {
    name: String,
    source: Source,
    digest: Digest,
    size: u64,
}

#[derive(Clone)]
enum Source {
    Bytes(Vec<u8>),
    /// A binary module in a file, read only to compile it: for cached code its digest is enough.
    File(PathBuf),
}

impl Module {
    /// Reads the module, binary or text, in the file `path`.
    ///
    /// # Errors
    /// [`ProgramError`]: `Read`, also if it is not a regular file; `TooLong`, `NotWasm`, `Component`, `Text`.
    pub fn read(path: &Path) -> Result<Self, ProgramError> {
        let name = path.display().to_string();
        let file = disk::open(path)?;
        if file.metadata().map_err(DiskError::new("examine", path))?.len() > MODULE_BYTES_MAX {
            return Err(ProgramError::TooLong { name });
        }
        let mut head = Vec::with_capacity(8);
        let read = (&file).take(8).read_to_end(&mut head);
        read.map_err(DiskError::new("read", path))?;
        if !is_binary_module(&head) {
            return Self::from_bytes(name, disk::read(path)?);
        }
        let whole = Digest::of_reader(head.as_slice().chain(&file));
        let (digest, size) = whole.map_err(DiskError::new("read", path))?;
        Ok(Self { name, source: Source::File(path.to_owned()), digest, size })
    }

    /// Takes the module in `bytes`, binary or text. `name` is for messages.
    ///
    /// # Errors
    /// [`ProgramError`]: `NotWasm`, `Component`, `Text`.
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Result<Self, ProgramError> {
        let name = name.into();
        let bytes = match bytes.get(..8) {
            Some(head) if is_binary_module(head) => bytes,
            Some([0, b'a', b's', b'm', _, _, 1, 0]) => {
                return Err(ProgramError::Component { name });
            }
            _ => text_to_binary(&name, &bytes)?,
        };
        let (digest, size) = (Digest::of(&bytes), bytes.len() as u64);
        Ok(Self { name, source: Source::Bytes(bytes), digest, size })
    }

    /// The binary form.
    ///
    /// # Errors
    /// [`ProgramError`]: `Read`; `Changed` if the file is not as it was.
    pub fn bytes(&self) -> Result<Cow<'_, [u8]>, ProgramError> {
        match &self.source {
            Source::Bytes(bytes) => Ok(Cow::Borrowed(bytes)),
            Source::File(path) => {
                let bytes = disk::read(path)?;
                if Digest::of(&bytes) != self.digest {
                    return Err(ProgramError::Changed { name: self.name.clone() });
                }
                Ok(Cow::Owned(bytes))
            }
        }
    }

    /// The name for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The digest of the binary form.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Size of the binary form in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Upper bound of the memory for compiling it on one thread, in bytes; see
    /// [`super::EngineConfig::compile_memory_bytes_max`].
    ///
    /// # Errors
    /// [`ProgramError`]: `Read`, `Changed`.
    pub fn compile_bytes_max(&self) -> Result<u64, ProgramError> {
        Ok(CompileCost::of(&self.bytes()?).on_threads(1))
    }
}

fn is_binary_module(head: &[u8]) -> bool {
    matches!(head, [0, b'a', b's', b'm', _, _, 0, 0])
}

fn text_to_binary(name: &str, bytes: &[u8]) -> Result<Vec<u8>, ProgramError> {
    let not_wasm = || {
        let head = &bytes[..bytes.len().min(8)];
        let found =
            if head.is_empty() { "nothing".to_owned() } else { head.escape_ascii().to_string() };
        ProgramError::NotWasm { name: name.to_owned(), found: format!("`{found}`") }
    };
    let text = std::str::from_utf8(bytes).map_err(|_| not_wasm())?;
    let start = text.trim_start();
    if !start.starts_with('(') && !start.starts_with(";;") {
        return Err(not_wasm());
    }
    let binary = wat::parse_str(text).map_err(|error| ProgramError::Text {
        name: name.to_owned(),
        message: error.to_string(),
    })?;
    if binary.get(6) == Some(&1) {
        return Err(ProgramError::Component { name: name.to_owned() });
    }
    Ok(binary)
}

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

/// A compiled and linked module: run it any number of times, on any number of threads.
#[derive(Clone)]
pub struct Program {
    pub(super) engine: Engine,
    pub(super) pre: InstancePre<Process>,
    /// The same for processes beyond the pool, once needed.
    beyond_pool: Arc<OnceLock<Result<InstancePre<Process>, String>>>,
    name: String,
    digest: Digest,
    unknown_imports: Vec<String>,
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

    /// Loads `module` from the cache; `None` if it is not there.
    ///
    /// # Errors
    /// [`ProgramError::Import`].
    pub fn from_cache(
        engine: &Engine,
        module: &Module,
        unknown: UnknownImports,
    ) -> Result<Option<Self>, ProgramError> {
        let Some(cache) = engine.cache() else { return Ok(None) };
        let main = &engine.0.main;
        let key = key(&main.engine, module);
        // A cache that cannot be read is reported when code is to be stored.
        let Ok(Some(code)) = cache.find(key) else { return Ok(None) };
        if let Some(code) = code.load(&main.engine) {
            return Self::new_linked(engine, main, &code, module, unknown).map(Some);
        }
        if engine.config().pool_slots == 0 {
            return Ok(None);
        }
        let backend = engine.on_demand()?;
        let code = code.load(&backend.engine);
        code.map(|code| Self::new_linked(engine, backend, &code, module, unknown)).transpose()
    }

    /// Compiles `module`, and stores its code in the cache if there is one.
    ///
    /// # Errors
    /// [`ProgramError`]: `Invalid`, `Import`, `SharedMemory`, `CompileMemory`.
    pub fn compile(
        engine: &Engine,
        module: &Module,
        unknown: UnknownImports,
    ) -> Result<(Self, CacheUse), ProgramError> {
        uncounted(|| Self::compile_now(engine, module, unknown))
    }

    fn compile_now(
        engine: &Engine,
        module: &Module,
        unknown: UnknownImports,
    ) -> Result<(Self, CacheUse), ProgramError> {
        let invalid = |error: wasmtime::Error| ProgramError::Invalid {
            name: module.name.clone(),
            message: format!("{error:#}"),
        };
        let main = &engine.0.main;
        let bytes = module.bytes()?;
        if inspect::has_shared_memory(&bytes) {
            return Err(ProgramError::SharedMemory { name: module.name.clone() });
        }
        // Compiling a large module takes minutes, refusing it a moment.
        wasmtime::Module::validate(&main.engine, &bytes).map_err(invalid)?;
        let threads = threads(engine.config(), module, &CompileCost::of(&bytes))?;
        let fits_pool = on_threads(threads, || wasmtime::Module::new(&main.engine, &bytes));
        let (backend, code) = match fits_pool {
            Ok(code) => (main, code),
            Err(error) if engine.config().pool_slots > 0 => {
                let backend = engine.on_demand()?;
                // If the module is at fault, not the pool, the error is the same.
                let code = on_threads(threads, || wasmtime::Module::new(&backend.engine, &bytes));
                (backend, code.map_err(|_| invalid(error))?)
            }
            Err(error) => return Err(invalid(error)),
        };
        let cache_use = match engine.cache() {
            None => CacheUse::Off,
            Some(cache) => {
                let image = code.serialize().map_err(invalid)?;
                match cache.store(key(&main.engine, module), &image) {
                    Ok(()) => CacheUse::Stored,
                    Err(error) => CacheUse::Failed(error),
                }
            }
        };
        Ok((Self::new_linked(engine, backend, &code, module, unknown)?, cache_use))
    }

    fn new_linked(
        engine: &Engine,
        backend: &Backend,
        code: &wasmtime::Module,
        module: &Module,
        unknown: UnknownImports,
    ) -> Result<Self, ProgramError> {
        let (pre, unknown_imports) = Self::link(backend, code, &module.name, unknown)?;
        let (engine, name, digest) = (engine.clone(), module.name.clone(), module.digest);
        let beyond_pool = Arc::default();
        Ok(Self { engine, pre, beyond_pool, name, digest, unknown_imports })
    }

    /// The program for processes beyond the pool, or why there is none.
    pub(super) fn beyond_pool(&self) -> Result<&InstancePre<Process>, &str> {
        let pre = self.beyond_pool.get_or_init(|| {
            let backend = self.engine.on_demand().map_err(|error| error.to_string())?;
            let code = code_cache::copy(self.pre.module(), &backend.engine)
                .map_err(|error| format!("{error:#}"))?;
            // Denied imports were refused when it was first linked.
            let linked = Self::link(backend, &code, &self.name, UnknownImports::Trap);
            linked.map(|(pre, _)| pre).map_err(|error| error.to_string())
        });
        pre.as_ref().map_err(String::as_str)
    }

    /// Links `code`; returns the imports that are not defined, too.
    fn link(
        backend: &Backend,
        code: &wasmtime::Module,
        name: &str,
        unknown: UnknownImports,
    ) -> Result<(InstancePre<Process>, Vec<String>), ProgramError> {
        let mut with_stubs: Option<Linker<Process>> = None;
        let mut unknown_imports = Vec::new();
        let pre = loop {
            let linker = with_stubs.as_ref().unwrap_or(&backend.linker);
            let error = match linker.instantiate_pre(code) {
                Ok(pre) => break pre,
                Err(error) => error,
            };
            let Some(import) = error.downcast_ref::<UnknownImportError>() else {
                let message = format!("{error:#}");
                return Err(ProgramError::Mismatch { name: name.to_owned(), message });
            };
            if unknown_imports.len() == UNKNOWN_IMPORTS_MAX {
                return Err(ProgramError::TooManyUnknownImports { name: name.to_owned() });
            }
            let spelled = format!("{}.{}", import.module(), import.name());
            let kind = match import.ty() {
                ExternType::Func(ty) if unknown == UnknownImports::Trap => {
                    let linker = with_stubs.get_or_insert_with(|| backend.linker.clone());
                    let call = UnknownImportCalled(spelled.clone());
                    let stub = move |_: Caller<'_, Process>, _: &[Val], _: &mut [Val]| {
                        Err(wasmtime::Error::new(call.clone()))
                    };
                    linker
                        .func_new(import.module(), import.name(), ty, stub)
                        .expect("the name was unknown just above");
                    unknown_imports.push(spelled);
                    continue;
                }
                ExternType::Func(_) => "function",
                ExternType::Memory(_) => "memory",
                ExternType::Global(_) => "global",
                ExternType::Table(_) => "table",
                ExternType::Tag(_) => "tag",
            };
            let import = format!("the {kind} {spelled}");
            return Err(ProgramError::Import { name: name.to_owned(), import });
        };
        Ok((pre, unknown_imports))
    }

    /// The engine that it was compiled for.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the program as the result of a lookup.
    pub fn found(self) -> Found {
        let digest = Some(self.digest);
        Found { image: Box::new(self), digest, path: None }
    }

    /// The name for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The digest of the module's binary form.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The imported functions that are not defined, as `module.name`.
    pub fn unknown_imports(&self) -> &[String] {
        &self.unknown_imports
    }

    /// The usual `argv[0]`: the file name without `.wasm` or `.wat`.
    pub fn default_argv0(&self) -> String {
        let path = PathBuf::from(&self.name);
        path.file_stem().map_or_else(|| self.name.clone(), |stem| stem.to_string_lossy().into())
    }
}

/// Returns how many threads compile `module`, which takes `cost`; `None` for all.
fn threads(
    config: &EngineConfig,
    module: &Module,
    cost: &CompileCost,
) -> Result<Option<usize>, ProgramError> {
    let limit_bytes = config.compile_memory_bytes_max;
    let all = rayon::current_num_threads();
    match cost.threads_within(limit_bytes, all) {
        Some(threads) => Ok(Some(threads).filter(|threads| *threads < all)),
        None => Err(ProgramError::CompileMemory {
            name: module.name.clone(),
            bytes: cost.on_threads(1),
            limit_bytes,
        }),
    }
}

/// Does `work`, which uses all threads, with `threads`.
fn on_threads<T: Send>(threads: Option<usize>, work: impl FnOnce() -> T + Send) -> T {
    let pool = threads.map(|threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build());
    match pool {
        Some(Ok(pool)) => pool.install(work),
        // Without a pool, this thread does it.
        Some(Err(_)) | None => work(),
    }
}

/// A stub for an import that is not defined was called.
#[derive(Clone, thiserror::Error)]
#[error("it called import {0}, which is not defined")]
pub(super) struct UnknownImportCalled(String);

crate::base::readable::readable!(UnknownImportCalled);

/// The key of a module's code in the cache.
fn key(engine: &wasmtime::Engine, module: &Module) -> Digest {
    let mut hasher = DigestHasher::default();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hasher.write(module.digest.as_bytes());
    hasher.digest()
}
