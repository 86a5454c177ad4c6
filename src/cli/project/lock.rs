//! `belljar.lock`: the exact toolchains of a project.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::current::Project;
use crate::base::atomic_file;
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};
use crate::cli::exit::Usage;
use crate::{Manifest, Toolchain};

/// The name of the file, beside `belljar.toml`.
pub const LOCK_FILE: &str = "belljar.lock";

/// Longest lock file, in bytes.
const LOCK_BYTES_MAX: u64 = 1 << 20;

/// The format that this version writes.
const FORMAT: &str = "1.0";

/// The toolchains that a project uses.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    format: String,
    /// Sorted by name.
    #[serde(default, rename = "toolchain", skip_serializing_if = "Vec::is_empty")]
    pub toolchains: Vec<Locked>,
}

/// A toolchain that a project uses.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locked {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The digest of its manifest, which has the digests of all its files.
    pub digest: Digest,
}

impl Locked {
    /// Locks `toolchain`.
    pub fn of(toolchain: &Toolchain) -> Self {
        let Manifest { name, version, .. } = toolchain.manifest();
        Self { name: name.clone(), version: version.clone(), digest: toolchain.digest() }
    }
}

impl Lock {
    /// Locks `toolchains`.
    pub fn new(mut toolchains: Vec<Locked>) -> Self {
        toolchains.sort();
        Self { format: FORMAT.to_owned(), toolchains }
    }

    /// The path of the lock file of `project`.
    pub fn path(project: &Project) -> PathBuf {
        project.dir.join(LOCK_FILE)
    }

    /// The lock file of `project`, if it has one.
    ///
    /// # Errors
    /// [`Usage`] if it cannot be read, or is wrong.
    pub fn read(project: &Project) -> Result<Option<Self>> {
        let path = Self::path(project);
        if disk::symlink_metadata(&path).is_err() {
            return Ok(None);
        }
        let text = disk::read_at_most(&path, LOCK_BYTES_MAX).map_err(Usage::because)?;
        let wrong = |what: String| {
            let path = path.display();
            Usage(format!("{path}: {what}; remove it, and `belljar install` writes a new one"))
        };
        let text =
            text.ok_or_else(|| wrong(format!("it is longer than {LOCK_BYTES_MAX} bytes")))?;
        let text = String::from_utf8(text).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
        let lock: Self =
            toml::from_str(&text).map_err(|error| wrong(error.message().to_owned()))?;
        if lock.format != FORMAT {
            return Err(wrong(format!("it has the format {}, not {FORMAT}", lock.format)).into());
        }
        Ok(Some(lock))
    }

    /// What is locked of the toolchain `name`.
    pub fn find(&self, name: &str) -> Option<&Locked> {
        self.toolchains.iter().find(|locked| locked.name == name)
    }

    /// Writes it as the lock file of `project`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, project: &Project) -> Result<()> {
        let text = toml::to_string(self)?;
        let text = format!("# `belljar install` writes this file; commit it.\n{text}");
        let path = Self::path(project);
        atomic_file::write_shared_with(&path, |file| {
            file.write_all(text.as_bytes()).map_err(DiskError::new("write", &path))
        })?;
        Ok(())
    }
}
