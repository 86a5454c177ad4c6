//! Folders that appear when they are complete.

use std::path::Path;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::base::atomic_file::TEMPORARY_PREFIX;
use crate::base::disk;
use crate::cli::exit::Usage;
use crate::cli::planted_links::check_here;

/// A temporary folder beside `dir`, to be renamed to it.
///
/// # Errors
/// It cannot be created; [`Usage`] if a link leads to it.
pub fn beside(dir: &Path) -> Result<TempDir> {
    check_here("DIR", dir)?;
    let beside = disk::folder_of(dir);
    let made = tempfile::Builder::new().prefix(TEMPORARY_PREFIX).tempdir_in(beside);
    made.with_context(|| format!("cannot create a folder in {}", beside.display()))
}

/// Checks that nothing is at `dir`.
///
/// # Errors
/// [`Usage`] if something is.
pub fn expect_none(dir: &Path) -> Result<(), Usage> {
    if disk::symlink_metadata(dir).is_err() {
        return Ok(());
    }
    Err(Usage(format!("{} exists; name a new one", dir.display())))
}
