//! The project of the current directory.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};

use super::file::{PROJECT_FILE, ProjectFile};
use super::trust;
use crate::base::ambient;
use crate::base::digest::Digest;
use crate::base::disk;
use crate::cli::exit::Usage;

/// Longest `belljar.toml`, and longest file that it names, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A folder with a `belljar.toml`.
#[derive(Debug)]
pub struct Project {
    /// The folder: an absolute path without links.
    pub dir: PathBuf,
    /// What the file says.
    pub file: ProjectFile,
    text: Vec<u8>,
    is_trusted: OnceCell<bool>,
}

/// The project that the variable `BELLJAR_PROJECT` names, or that the current directory or one above it is. `none` is no
/// project.
///
/// # Errors
/// [`Usage`] if `belljar.toml` is wrong.
pub fn current() -> Result<Option<Project>> {
    if let Some(dir) = ambient::setting("BELLJAR_PROJECT") {
        if dir == "none" {
            return Ok(None);
        }
        let found = Project::in_dir(Path::new(&dir))?;
        let none = || Usage(format!("BELLJAR_PROJECT: {} has no {PROJECT_FILE}", dir.display()));
        return Ok(Some(found.ok_or_else(none)?));
    }
    // A directory that was removed is in no project.
    let Ok(dir) = disk::current_dir() else { return Ok(None) };
    for dir in dir.ancestors() {
        if let Some(project) = Project::in_dir(dir)? {
            return Ok(Some(project));
        }
    }
    Ok(None)
}

impl Project {
    /// The project in the folder `dir`, if that has a `belljar.toml`.
    ///
    /// # Errors
    /// [`Usage`] if that cannot be read, or is wrong.
    pub fn in_dir(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(PROJECT_FILE);
        if disk::metadata(&path).is_err() {
            return Ok(None);
        }
        let text = disk::read_at_most(&path, FILE_BYTES_MAX).map_err(Usage::because)?;
        let wrong = |what| Usage(format!("{}: {what}", path.display()));
        let text =
            text.ok_or_else(|| wrong(format!("it is longer than {FILE_BYTES_MAX} bytes")))?;
        let utf8 = std::str::from_utf8(&text).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
        let file = ProjectFile::parse(utf8, &path)?;
        Ok(Some(Self { dir: disk::canonical(dir)?, file, text, is_trusted: OnceCell::new() }))
    }

    /// The path of its `belljar.toml`.
    pub fn path(&self) -> PathBuf {
        self.dir.join(PROJECT_FILE)
    }

    /// The file or folder `path`, relative to the project; or `None` if it is, by links or by `..`, outside of it.
    pub fn path_within(&self, path: &Path) -> Option<PathBuf> {
        let found = disk::canonical(&self.dir.join(path)).ok()?;
        found.starts_with(&self.dir).then_some(found)
    }

    /// What trust in it covers: `belljar.toml`, and the command policy that this names.
    ///
    /// # Errors
    /// The policy is too long, or cannot be read.
    pub fn digest(&self) -> Result<Digest> {
        let mut covered = self.text.clone();
        if let Some(policy) = self.file.run.get("host-policy").and_then(toml::Value::as_str) {
            let path = self.dir.join(policy);
            let text = disk::read_at_most(&path, FILE_BYTES_MAX)?;
            let text = text.ok_or_else(|| anyhow!("{} is too long", path.display()))?;
            // The lengths tell where one ends and the other begins.
            covered.extend_from_slice(&(self.text.len() as u64).to_le_bytes());
            covered.extend_from_slice(&text);
        }
        Ok(Digest::of(&covered))
    }

    /// The project as it is without trust.
    #[must_use]
    pub fn not_trusted(mut self) -> Self {
        self.is_trusted = OnceCell::from(false);
        self
    }

    /// Whether the user trusts it as it is now.
    ///
    /// # Errors
    /// `BELLJAR_HOME` cannot be read, or others can write to it.
    pub fn is_trusted(&self) -> Result<bool> {
        if let Some(known) = self.is_trusted.get() {
            return Ok(*known);
        }
        let trusted = match trust::trusted(&self.dir)? {
            None => false,
            Some(trusted) => trusted.digest == self.digest()?,
        };
        Ok(*self.is_trusted.get_or_init(|| trusted))
    }
}
