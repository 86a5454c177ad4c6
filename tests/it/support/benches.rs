//! Testbenches with the programs of `guest-examples`.

use std::path::{Path, PathBuf};

use belljar::native::OnMissing;
use belljar::testbench::{Testbench, TestbenchBuilder};

use super::{engine, guest};

/// The folder of `guest-examples`.
pub fn toolchain() -> PathBuf {
    guest("hello").parent().unwrap().to_owned()
}

/// A paused clock, an overlay over `worktree`, and no programs of the host.
pub fn hermetic(worktree: &Path) -> TestbenchBuilder {
    Testbench::builder()
        .paused_clock_at_ms(1_000_000)
        .fs_overlay(worktree)
        .wasi_toolchain(toolchain())
        .on_missing(OnMissing::Deny)
        .engine(engine())
}

#[cfg(feature = "llm")]
/// A folder with one file.
pub fn worktree() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("note.txt"), "below\n").unwrap();
    folder
}
