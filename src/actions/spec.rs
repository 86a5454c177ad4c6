//! A run of belljar as an action: the machine that the command line does not say.
//!
//! The input root of such an action has this file as [`FILE`], the mounts as `mounts/0`, `mounts/1` and so on, the module of the
//! program, if it is no program of the worker, as [`PROGRAM`], and standard input as [`STDIN`]. The first arguments of the
//! command are [`WORDS`]; the name under which the program runs, and its arguments, follow. Its outputs are the mounts that can be
//! written, and how it ended ([`super::run_end`]).

use serde::{Deserialize, Serialize};

use super::ActionError;
use super::input_root::InputRoot;
use crate::base::digest::Digest;
use crate::kernel::machine::config::KERNEL_VERSION;
use crate::kernel::machine::limits::Limits;
use crate::kernel::vfs::Mtimes;

/// The name of the description in the input root.
pub const FILE: &str = "belljar.json";

/// The name of the program's module in the input root.
pub const PROGRAM: &str = "program.wasm";

/// The name of standard input in the input root.
pub const STDIN: &str = "stdin";

/// The name of the directory with the mounts in the input root.
pub const MOUNTS: &str = "mounts";

/// What the arguments of the command begin with.
pub const WORDS: [&str; 5] = ["belljar", "run", "--spec", FILE, "--"];

/// Largest description, in bytes.
pub const BYTES_MAX: u64 = 16 << 20;

/// The machine of a run, and its program.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The version of belljar that made it. Another one has other built-in programs.
    pub belljar: String,
    /// The version of the kernel's answers.
    pub kernel_version: u32,
    /// The first time of the clock, in nanoseconds since the Unix epoch.
    pub start_ns: u64,
    /// The times of files below.
    pub mtimes: Mtimes,
    /// The seed of random numbers.
    pub seed: u64,
    /// The limits; those of the worker hold, too.
    pub limits: Limits,
    /// The mounts, in the order of mounting.
    pub mounts: Vec<MountSpec>,
    /// The absolute path of the current directory.
    pub current_dir: String,
    /// The variables, in the order in which the program sees them; those of the command are sorted.
    pub env: Vec<(String, String)>,
    /// The program.
    pub program: ProgramSpec,
    /// The toolchains whose programs it can start.
    pub toolchains: Vec<ToolchainSpec>,
}

impl Spec {
    /// The description in `inputs`.
    ///
    /// # Errors
    /// [`ActionError`]: it is not there, malformed, or of another belljar.
    pub fn read(inputs: &InputRoot) -> Result<Self, ActionError> {
        let wrong = |reason: String| ActionError::invalid(FILE, reason);
        let bytes = inputs.read(FILE, BYTES_MAX)?;
        let bytes = bytes.ok_or_else(|| wrong("it is not in the input root".to_owned()))?;
        let spec: Self =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        let (here, kernel) = (env!("CARGO_PKG_VERSION"), KERNEL_VERSION);
        if spec.belljar != here || spec.kernel_version != kernel {
            let Self { belljar, kernel_version, .. } = spec;
            return Err(ActionError::NotInstalled(format!(
                "the run is one of belljar {belljar} (kernel {kernel_version}), and the worker has {here} (kernel {kernel})"
            )));
        }
        Ok(spec)
    }
}

/// A mount.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountSpec {
    /// The absolute path of the mount point.
    pub path: String,
    /// Whether writes are `EROFS`.
    pub read_only: bool,
}

/// The program of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum ProgramSpec {
    /// The module [`PROGRAM`].
    Module {
        /// Its name.
        name: String,
    },
    /// A program of a toolchain, or the shell.
    Named(String),
}

/// A toolchain that is installed on the worker.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolchainSpec {
    /// Its name.
    pub name: String,
    /// The digest of its manifest.
    pub digest: Digest,
    /// Whether the run needs it. Another one that is not there is an error only if the run looks for a program in vain.
    pub needed: bool,
}
