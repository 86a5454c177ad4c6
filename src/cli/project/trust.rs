//! Which projects may set what reaches beyond them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::base::atomic_file;
use crate::base::digest::Digest;
use crate::base::disk;
use crate::cli::home::own_folder;

/// Longest record, in bytes.
const RECORD_BYTES_MAX: u64 = 64 << 10;

/// A project that the user trusts, as it was when they said so.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trusted {
    /// The folder of the project.
    pub dir: PathBuf,
    /// The digest of what was trusted.
    pub digest: Digest,
    /// What it may set: settings as they were shown, with the paths to which they led.
    pub grants: Vec<String>,
}

fn trust_dir() -> Result<PathBuf> {
    own_folder("trust")
}

fn record_path(project: &Path) -> Result<PathBuf> {
    let name = Digest::of(project.as_os_str().as_encoded_bytes());
    Ok(trust_dir()?.join(format!("{name}.json")))
}

/// What the user trusts of the project in the folder `project`, an absolute path without links.
pub fn trusted(project: &Path) -> Result<Option<Trusted>> {
    let path = record_path(project)?;
    if disk::symlink_metadata(&path).is_err() {
        return Ok(None);
    }
    let text = disk::read_at_most(&path, RECORD_BYTES_MAX)?.unwrap_or_default();
    let record: Trusted = serde_json::from_slice(&text).with_context(|| {
        format!("{} is damaged: remove it, and trust the project again", path.display())
    })?;
    Ok(Some(record).filter(|record| record.dir == project))
}

/// Notes that the user trusts `what`.
pub fn trust(what: &Trusted) -> Result<()> {
    let path = record_path(&what.dir)?;
    disk::create_private_dir_all(disk::folder_of(&path))?;
    let text = serde_json::to_vec(what).context("the path of the project is not UTF-8")?;
    atomic_file::write(&path, &[&text])?;
    Ok(())
}

/// Ends the trust in the project in the folder `project`; returns whether there was any.
pub fn revoke(project: &Path) -> Result<bool> {
    let path = record_path(project)?;
    if disk::symlink_metadata(&path).is_err() {
        return Ok(false);
    }
    disk::remove_file(&path)?;
    Ok(true)
}
