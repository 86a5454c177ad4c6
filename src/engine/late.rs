//! Programs that are loaded when their code has to run.

use std::sync::{Arc, OnceLock};

use super::config::MODULES_MAX;
use super::image::process;
use super::known::Knowable;
use super::module::Encoding;
use super::program::{Program, argv0_of};
use super::{Engine, Module, ProgramError};
use crate::base::digest::Digest;
use crate::kernel::guest::Guest;
use crate::kernel::process::outcome::RunError;
use crate::kernel::process::programs::Found;
use crate::kernel::process::schedule::{Image, Mode, Running};

/// A program that is loaded when its code has to run. A process whose results are known needs no code: see
/// [`crate::results`].
#[derive(Clone)]
pub struct LateProgram(Arc<Late>);

struct Late {
    engine: Engine,
    name: String,
    digest: Digest,
    encoding: Encoding,
    load: Load,
    loaded: OnceLock<Result<Program, String>>,
}

type Load = Box<dyn Fn() -> Result<Program, ProgramError> + Send + Sync>;

impl LateProgram {
    /// The program of `module`, for processes of `engine`; `load` loads it, and is called at most once.
    pub fn new(
        engine: &Engine,
        module: &Module,
        load: impl Fn() -> Result<Program, ProgramError> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Late {
            engine: engine.clone(),
            name: module.name().to_owned(),
            digest: module.digest(),
            encoding: module.encoding(),
            load: Box::new(load),
            loaded: OnceLock::new(),
        }))
    }

    /// The digest of the module's binary form.
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// As [`Program::default_argv0`].
    pub fn default_argv0(&self) -> String {
        argv0_of(&self.0.name)
    }

    /// Returns the program as the result of a lookup.
    pub fn found(self) -> Found {
        let digest = Some(self.digest());
        Found { digest, ..Found::built_in(Box::new(self)) }
    }
}

impl Knowable for LateProgram {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn digest(&self) -> Digest {
        self.0.digest
    }

    fn encoding(&self) -> Encoding {
        self.0.encoding
    }

    fn engine(&self) -> &Engine {
        &self.0.engine
    }

    fn load(&self) -> Result<Program, RunError> {
        let late = &self.0;
        let loaded = late.loaded.get_or_init(|| (late.load)().map_err(|error| error.to_string()));
        loaded.clone().map_err(|message| {
            let program = late.name.clone();
            RunError::Instantiate { program, message }
        })
    }
}

impl Image for LateProgram {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn mode(&self) -> Mode {
        Mode::Module
    }

    fn live_max(&self) -> Option<u32> {
        Some(MODULES_MAX)
    }

    fn start(self: Box<Self>, guest: Guest) -> Running {
        Box::pin(process(*self, guest))
    }
}
