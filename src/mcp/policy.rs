//! What a client gets.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::base::disk::DiskError;
use crate::host::{CommandPolicy, PolicyError as CommandPolicyError};
use crate::net::EgressPolicy;

use super::bounds::Bounds;

/// What clients of a server get. The default: the built-in programs and those of installed toolchains, in sandboxes in
/// memory; no directory of the host, no network, no native programs, nothing to install, nothing to apply.
#[derive(Clone, Default)]
pub struct Policy {
    /// The directories of the host that a client may mount.
    pub folders: Vec<Folder>,
    /// The installed toolchains whose programs a client may run. `None`: all.
    pub toolchains: Option<Vec<String>>,
    /// The toolchains that a client may install.
    pub install: Vec<String>,
    /// What programs may request with `net.http`.
    pub network: EgressPolicy,
    /// Which commands programs may start.
    pub commands: CommandPolicy,
    /// Origins of web pages that may send requests over HTTP, such as `http://localhost:6274`.
    pub allow_origins: Vec<String>,
    /// The limits.
    pub bounds: Bounds,
    /// The texts of the files that it came from, for a tape.
    pub(super) texts: PolicyTexts,
}

/// The texts of a policy file, and of the command policy that it names.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct PolicyTexts {
    pub policy: Option<String>,
    pub commands: Option<String>,
}

/// A directory of the host that a client may mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Folder {
    /// The name by which clients know it.
    pub name: String,
    /// Its path on the host.
    pub path: PathBuf,
    /// Whether programs may change their view of it.
    pub is_writable: bool,
    /// Whether changes may be written to it, after the user has agreed.
    pub may_apply: bool,
}

/// A policy file cannot be used.
#[derive(thiserror::Error)]
pub enum PolicyError {
    /// The file cannot be read.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The file is not a valid policy.
    #[error("{file}, line {line}: {problem}")]
    Line {
        /// The file.
        file: String,
        /// From 1.
        line: usize,
        /// What is wrong, and what is expected.
        problem: String,
    },
    /// The file is too long, or what it says cannot hold.
    #[error("{file}: {problem}")]
    File {
        /// The file.
        file: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The command policy that it names cannot be used.
    #[error(transparent)]
    Commands(#[from] CommandPolicyError),
}

crate::base::readable::readable!(PolicyError);
