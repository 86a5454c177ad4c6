//! The directories of belljar: compiled code, sandboxes, journals.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use etcetera::BaseStrategy;

use super::args::values::size;
use super::exit::Usage;
use crate::InstalledToolchains;
use crate::base::own::{OtherUsers, expect_own_folder};
use crate::base::{ambient, disk};
use crate::engine::CACHE_BYTES_MAX;
use crate::kernel::vfs::{JournalError, Journals};

/// The directory for compiled code: `BELLJAR_CACHE_DIR`, or the platform's.
pub fn cache_dir() -> Result<PathBuf> {
    if let Some(dir) = ambient::setting("BELLJAR_CACHE_DIR") {
        return Ok(dir.into());
    }
    let base = etcetera::choose_base_strategy()
        .context("cannot find the home directory for the cache; set BELLJAR_CACHE_DIR")?;
    absolute(&base.cache_dir(), "BELLJAR_CACHE_DIR")
}

/// Bytes of compiled code that are kept: `BELLJAR_CACHE_MAX_SIZE`, or [`CACHE_BYTES_MAX`].
///
/// # Errors
/// It is not a size.
pub fn cache_bytes_max() -> Result<u64> {
    let Some(text) = ambient::setting("BELLJAR_CACHE_MAX_SIZE") else { return Ok(CACHE_BYTES_MAX) };
    let bytes = size(&text.to_string_lossy());
    Ok(bytes.map_err(|error| Usage(format!("BELLJAR_CACHE_MAX_SIZE: {error}")))?)
}

/// The directory for sandboxes: `BELLJAR_HOME`, or the platform's.
pub fn home_dir() -> Result<PathBuf> {
    if let Some(dir) = ambient::setting("BELLJAR_HOME") {
        return Ok(dir.into());
    }
    let base = etcetera::choose_base_strategy()
        .context("cannot find the home directory for sandboxes; set BELLJAR_HOME")?;
    absolute(&base.data_dir(), "BELLJAR_HOME")
}

/// Belljar's directory in the directory `base` of the platform. A relative one would depend on the current
/// directory, and programs could reach it.
fn absolute(base: &Path, variable: &str) -> Result<PathBuf> {
    if !base.is_absolute() {
        let base = base.display();
        let message = format!(
            "{base} is not an absolute path: set HOME to one, or {variable} to a directory"
        );
        return Err(Usage(message).into());
    }
    Ok(base.join("belljar"))
}

/// The folder `name` of the home directory, for what belljar obeys.
///
/// # Errors
/// There is no home directory, or others can write to it or to the folder.
pub fn own_folder(name: &str) -> Result<PathBuf> {
    let home = home_dir()?;
    let folder = home.join(name);
    // A command that needs nothing of the home works in any.
    if disk::symlink_metadata(&folder).is_ok() {
        expect_own_folder(&home, OtherUsers::MayAddFiles)?;
    }
    expect_own_folder(&folder, OtherUsers::Excluded)?;
    Ok(folder)
}

/// The toolchains that this user has installed.
///
/// # Errors
/// There is no home directory, or others can write to it or to the folder of toolchains.
pub fn installed_toolchains() -> Result<InstalledToolchains> {
    Ok(InstalledToolchains::new(own_folder("toolchains")?))
}

/// The directory of journals.
pub fn journals_dir() -> Result<PathBuf> {
    Ok(home_dir()?.join("journals"))
}

/// The journals of this user, to write one.
pub fn journals() -> Result<Journals> {
    Journals::open(&journals_dir()?).map_err(|error| {
        let remedy = match error {
            // The error itself says what to do.
            JournalError::Exposed(_) => "",
            _ => "; set BELLJAR_HOME to a directory that you can write to",
        };
        let what = format!("cannot write a journal of the changes{remedy}");
        anyhow::Error::from(error).context(what)
    })
}
