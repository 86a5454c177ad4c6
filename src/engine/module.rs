//! Modules, and why they cannot be programs.

use std::borrow::Cow;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::EngineError;
use super::compile_cost::CompileCost;
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};
use crate::store::{FileDigests, FileState};

/// Most unknown imports that get a stub, as linking takes time for each.
pub(super) const UNKNOWN_IMPORTS_MAX: usize = 1000;

/// Largest module in a file, in bytes.
const MODULE_BYTES_MAX: u64 = 1 << 30;

/// Smallest file whose digest is remembered, in bytes: a smaller one is read as fast.
const KNOWN_BYTES_MIN: u64 = 256 << 10;

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
    /// The file of an installed module has another content.
    #[error("{} is damaged or missing: install the toolchain {toolchain} again", path.display())]
    Damaged {
        /// The toolchain.
        toolchain: String,
        /// The file.
        path: PathBuf,
    },
    /// It is a script of the shell, not a module.
    #[error("{name} is a script of the shell, not a module")]
    Script {
        /// The program.
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
    #[error("{name} does not match WASI: {message}")]
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
    /// Its code cannot be kept.
    #[error("cannot keep the compiled code of {name} in the cache: {message}")]
    Cache {
        /// The module.
        name: String,
        /// Why, or what to do.
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

/// What a WebAssembly binary is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    /// A module: WASI preview1.
    Module,
    /// A component: WASI 0.2 or 0.3.
    Component,
}

impl Encoding {
    /// That of a binary that begins with `head`; `None` if it is no binary.
    fn of(head: &[u8]) -> Option<Self> {
        match head {
            [0, b'a', b's', b'm', _, _, 0, 0] => Some(Self::Module),
            [0, b'a', b's', b'm', _, _, 1, 0] => Some(Self::Component),
            _ => None,
        }
    }
}

/// A module, or a component, whose header was checked.
#[derive(Clone)]
pub struct Module {
    name: String,
    encoding: Encoding,
    source: Source,
    digest: Digest,
    size: u64,
}

#[derive(Clone)]
enum Source {
    Bytes(Vec<u8>),
    /// A binary module in a file, read only to compile it: for cached code its digest is enough.
    File {
        path: PathBuf,
        /// What knew its digest, if the file was not read.
        known_by: Option<FileDigests>,
    },
}

impl Module {
    /// Reads the module, binary or text, in the file `path`.
    ///
    /// # Errors
    /// [`ProgramError`]: `Read`, also if it is not a regular file; `TooLong`, `NotWasm`, `Text`.
    pub fn read(path: &Path) -> Result<Self, ProgramError> {
        Self::read_known(path, None)
    }

    /// As [`Module::read`]; a large file is not read if `digests` have its digest, and they get it otherwise.
    ///
    /// # Errors
    /// As [`Module::read`].
    pub fn read_known(path: &Path, digests: Option<&FileDigests>) -> Result<Self, ProgramError> {
        let name = path.display().to_string();
        let file = disk::open(path)?;
        let metadata = file.metadata().map_err(DiskError::new("examine", path))?;
        if metadata.len() > MODULE_BYTES_MAX {
            return Err(ProgramError::TooLong { name });
        }
        let digests = digests.filter(|_| metadata.len() >= KNOWN_BYTES_MIN);
        // Before the first byte is read.
        let before = digests.and_then(|_| FileState::of(&file));
        let mut head = Vec::with_capacity(8);
        let read = (&file).take(8).read_to_end(&mut head);
        read.map_err(DiskError::new("read", path))?;
        let Some(encoding) = Encoding::of(&head) else {
            return Self::from_bytes(name, disk::read(path)?);
        };
        if let Some(digest) = digests.and_then(|digests| digests.get(path, &file)) {
            let source = Source::File { path: path.to_owned(), known_by: digests.cloned() };
            return Ok(Self { name, encoding, source, digest, size: metadata.len() });
        }
        let whole = Digest::of_reader(head.as_slice().chain(&file));
        let (digest, size) = whole.map_err(DiskError::new("read", path))?;
        if let Some(digests) = digests {
            digests.put(path, &file, before, digest);
        }
        let source = Source::File { path: path.to_owned(), known_by: None };
        Ok(Self { name, encoding, source, digest, size })
    }

    /// The same module, called `name` in messages.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// Takes the module in `bytes`, binary or text. `name` is for messages.
    ///
    /// # Errors
    /// [`ProgramError`]: `NotWasm`, `Text`.
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Result<Self, ProgramError> {
        let name = name.into();
        let (encoding, bytes) = match bytes.get(..8).and_then(Encoding::of) {
            Some(encoding) => (encoding, bytes),
            None => text_to_binary(&name, &bytes)?,
        };
        let (digest, size) = (Digest::of(&bytes), bytes.len() as u64);
        Ok(Self { name, encoding, source: Source::Bytes(bytes), digest, size })
    }

    /// The binary form.
    ///
    /// # Errors
    /// [`ProgramError`]: `Read`; `Changed` if the file is not as it was.
    pub fn bytes(&self) -> Result<Cow<'_, [u8]>, ProgramError> {
        match &self.source {
            Source::Bytes(bytes) => Ok(Cow::Borrowed(bytes)),
            Source::File { path, known_by } => {
                let bytes = disk::read(path)?;
                if Digest::of(&bytes) != self.digest {
                    if let Some(digests) = known_by {
                        digests.forget(path);
                    }
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

    /// Its file, unless it was made of bytes, or of text.
    pub fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::File { path, .. } => Some(path),
            Source::Bytes(_) => None,
        }
    }

    /// What it is.
    pub fn encoding(&self) -> Encoding {
        self.encoding
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

fn text_to_binary(name: &str, bytes: &[u8]) -> Result<(Encoding, Vec<u8>), ProgramError> {
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
    let encoding = binary.get(..8).and_then(Encoding::of).ok_or_else(not_wasm)?;
    Ok((encoding, binary))
}
