//! Code that is compiled on one machine for others of a platform.
#![allow(unsafe_code, reason = "the code generator is told which instructions a processor has")]

use std::fmt;
use std::hash::Hash;
use std::str::FromStr;

use super::code_cache::{self, CacheError};
use super::compile;
use super::config::EngineConfig;
use super::generator::Generator;
use super::module::Encoding;
use super::{CompileProgress, Engine, EngineError, Module, ProgramError, prepare};
use crate::base::digest::{Digest, DigestHasher};

/// A platform, by the name that it has in releases.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Platform {
    name: &'static str,
    arch: &'static str,
    triple: &'static str,
}

/// All platforms with releases.
const PLATFORMS: [Platform; 6] = [
    Platform { name: "aarch64-linux", arch: "aarch64", triple: "aarch64-unknown-linux-gnu" },
    Platform { name: "aarch64-macos", arch: "aarch64", triple: "aarch64-apple-darwin" },
    Platform { name: "aarch64-windows", arch: "aarch64", triple: "aarch64-pc-windows-msvc" },
    Platform { name: "x86_64-linux", arch: "x86_64", triple: "x86_64-unknown-linux-gnu" },
    Platform { name: "x86_64-macos", arch: "x86_64", triple: "x86_64-apple-darwin" },
    Platform { name: "x86_64-windows", arch: "x86_64", triple: "x86_64-pc-windows-msvc" },
];

/// What processors of x86-64 have since about 2013 (x86-64-v3). Others compile for themselves.
const X86_64_FEATURES: [&str; 12] = [
    "has_sse3",
    "has_ssse3",
    "has_sse41",
    "has_sse42",
    "has_popcnt",
    "has_cmpxchg16b",
    "has_avx",
    "has_avx2",
    "has_fma",
    "has_bmi1",
    "has_bmi2",
    "has_lzcnt",
];

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// No platform has this name.
#[derive(thiserror::Error, Clone, PartialEq, Eq)]
#[error("unknown target {0:?}: expected one of {all}", all = PLATFORMS.map(|it| it.name).join(", "))]
pub struct UnknownPlatform(String);

crate::base::readable::readable!(UnknownPlatform);

impl FromStr for Platform {
    type Err = UnknownPlatform;

    fn from_str(text: &str) -> Result<Self, UnknownPlatform> {
        let found = PLATFORMS.into_iter().find(|platform| platform.name == text);
        found.ok_or_else(|| UnknownPlatform(text.to_owned()))
    }
}

/// Code that was compiled elsewhere is not put into the cache.
#[derive(thiserror::Error)]
pub enum AdoptError {
    /// It does not fit this processor.
    #[error("it does not fit this processor: {0}")]
    Unfit(String),
    /// It cannot be stored.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// There is no engine for it.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

crate::base::readable::readable!(AdoptError);

impl Platform {
    /// That of this belljar, if there are releases for it.
    pub fn host() -> Option<Self> {
        let name = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
        name.parse().ok()
    }

    /// Whether this belljar can compile for it: its code generator knows one kind of processor.
    pub fn is_reachable(self) -> bool {
        self.arch == std::env::consts::ARCH
    }

    /// The engine that compiles code of `encoding` for it.
    fn engine(self, encoding: Encoding) -> Result<wasmtime::Engine, EngineError> {
        let fail = |error: wasmtime::Error| EngineError(format!("{error:#}"));
        let mut settings = Generator::Optimizing.settings(&EngineConfig::default(), encoding, 0);
        settings.native_unwind_info(self.triple.contains("windows"));
        settings.target(self.triple).map_err(fail)?;
        if self.arch == "x86_64" {
            for feature in X86_64_FEATURES {
                // SAFETY: these name instructions; where code with them is loaded, wasmtime compares them with the
                // processor.
                unsafe { settings.cranelift_flag_enable(feature) };
            }
        }
        wasmtime::Engine::new(&settings).map_err(fail)
    }

    /// A digest of all that the code for it depends on, but for the module: two belljars with the same one make the same
    /// code, and either can load it.
    ///
    /// # Errors
    /// The code generator does not know it.
    pub fn compatibility(self) -> Result<Digest, EngineError> {
        let mut hasher = DigestHasher::default();
        env!("CARGO_PKG_VERSION").hash(&mut hasher);
        for encoding in [Encoding::Module, Encoding::Component] {
            self.engine(encoding)?.precompile_compatibility_hash().hash(&mut hasher);
        }
        prepare::VERSION.hash(&mut hasher);
        Ok(hasher.digest())
    }

    /// Compiles `module` for it, as its cache would have it.
    ///
    /// # Errors
    /// As [`crate::Program::compile`].
    pub fn compile(
        self,
        module: &Module,
        progress: &CompileProgress,
    ) -> Result<Vec<u8>, ProgramError> {
        compile::optimized_on(
            &self.engine(module.encoding())?,
            &EngineConfig::default(),
            module,
            progress,
        )
    }
}

/// Puts `code`, which is that of `module`, into the cache of `engine`; returns whether it was
/// not there yet. Loading code is running it: only for code whose maker is trusted like the code generator.
///
/// # Errors
/// [`AdoptError`]; the cache is then unchanged.
pub fn adopt(engine: &Engine, module: &Module, code: &[u8]) -> Result<bool, AdoptError> {
    let (Some(cache), config) = (engine.cache(), engine.config()) else { return Ok(false) };
    let encoding = module.encoding();
    let backend = engine.0.backends.first(config, Generator::Optimizing, encoding)?;
    let key = backend.key(config, module.digest());
    if cache.find(key)?.is_some() {
        return Ok(false);
    }
    code_cache::load_trusted(&backend.engine, encoding, code)
        .map_err(|error| AdoptError::Unfit(format!("{error:#}")))?;
    cache.store(key, code)?;
    Ok(true)
}
