//! Where belljar keeps what it keeps: compiled code, sandboxes, journals.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use etcetera::BaseStrategy;

use super::exit::Usage;
use crate::base::ambient;
use crate::kernel::vfs::{JournalError, Journals};

/// The folder for compiled code: `BELLJAR_CACHE_DIR`, or the platform's.
pub fn cache_dir() -> Result<PathBuf> {
    if let Some(dir) = ambient::setting("BELLJAR_CACHE_DIR") {
        return Ok(dir.into());
    }
    let base = etcetera::choose_base_strategy()
        .context("cannot find the home folder for the cache; set BELLJAR_CACHE_DIR")?;
    absolute(&base.cache_dir(), "BELLJAR_CACHE_DIR")
}

/// The folder for sandboxes: `BELLJAR_HOME`, or the platform's.
pub fn home_dir() -> Result<PathBuf> {
    if let Some(dir) = ambient::setting("BELLJAR_HOME") {
        return Ok(dir.into());
    }
    let base = etcetera::choose_base_strategy()
        .context("cannot find the home folder for sandboxes; set BELLJAR_HOME")?;
    absolute(&base.data_dir(), "BELLJAR_HOME")
}

/// Belljar's folder in the folder `base` of the platform. A relative one would be another in each current
/// directory, and in the reach of programs.
fn absolute(base: &Path, variable: &str) -> Result<PathBuf> {
    if !base.is_absolute() {
        let base = base.display();
        let message =
            format!("{base} is no absolute path: set HOME to one, or {variable} to a folder");
        return Err(Usage(message).into());
    }
    Ok(base.join("belljar"))
}

/// The folder of journals: what is being written to the disk.
pub fn journals_dir() -> Result<PathBuf> {
    Ok(home_dir()?.join("journals"))
}

/// The journals of this user, to write one.
pub fn journals() -> Result<Journals> {
    Journals::open(&journals_dir()?).map_err(|error| {
        let remedy = match error {
            // It says what to do.
            JournalError::Exposed(_) => "",
            _ => "; set BELLJAR_HOME to a folder that you can write to",
        };
        let what = format!("cannot note what is about to be written to the disk{remedy}");
        anyhow::Error::from(error).context(what)
    })
}
