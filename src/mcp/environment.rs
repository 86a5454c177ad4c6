//! What a server needs of the program that runs it.

use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::call::Call;
use crate::Overlay;
use crate::kernel::process::programs::Programs;
use crate::kernel::vfs::Applied;

/// A program that sandboxes can run by name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ProgramInfo {
    /// Its name
    pub name: String,
    /// The toolchain that has it, with its version; none for a built-in program
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toolchain: Option<String>,
}

/// The programs of sandboxes.
#[derive(Clone)]
pub struct Loaded {
    /// Finds and loads them.
    pub programs: Arc<dyn Programs>,
    /// Their names, sorted.
    pub list: Vec<ProgramInfo>,
}

/// What a server needs of the program that runs it: its toolchains, its caches, and its way to write to the disk.
pub trait Environment: Send + Sync {
    /// The programs of sandboxes: the built-in ones, and those of the installed toolchains, or of `toolchains` alone.
    ///
    /// # Errors
    /// A message that says what cannot be read.
    fn load(&self, toolchains: Option<&[String]>) -> Result<Loaded, String>;

    /// Prepares the directory `folder` of the host, which is about to be mounted at `at`; returns paths of the sandbox to
    /// hide, as programs must not read them. Default: nothing.
    ///
    /// # Errors
    /// Why it must not be mounted.
    fn before_mount(&self, folder: &Path, at: &str) -> Result<Vec<String>, String> {
        let _ = (folder, at);
        Ok(Vec::new())
    }

    /// Prepares the files of a new sandbox. Default: nothing.
    fn prepare(&self, files: &Overlay) {
        let _ = files;
    }

    /// Writes the changes of `files` to the directories of the host, all or nothing.
    ///
    /// # Errors
    /// A message that says why nothing was written.
    fn apply(&self, files: &mut Overlay) -> Result<Applied, String>;

    /// Installs the toolchain `name`, until `call` is cancelled; returns what it printed. Default: nothing can be installed.
    ///
    /// # Errors
    /// A message that says what failed.
    fn install(&self, name: &str, call: &Call) -> Result<String, String> {
        let _ = call;
        Err(format!("cannot install {name}: this server installs nothing"))
    }
}
