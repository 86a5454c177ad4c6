//! The project of the current directory.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Result, anyhow};

use super::file::{PROJECT_FILE, ProjectFile};
use super::trust;
use crate::base::ambient;
use crate::base::digest::Digest;
use crate::base::{disk, own};
use crate::cli::exit::Usage;

/// Longest `belljar.toml`, and longest file that it names, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The setting that names the command policy.
pub const HOST_POLICY: &str = "host-policy";

/// A folder with a `belljar.toml`.
#[derive(Debug)]
pub struct Project {
    /// The folder: an absolute path without links.
    pub dir: PathBuf,
    /// What the file says.
    pub file: ProjectFile,
    text: Vec<u8>,
    /// What it may set, if the user trusts it as it is.
    grants: OnceLock<Option<Vec<String>>>,
}

/// The project that the variable `BELLJAR_PROJECT` names, or that the current directory or one above it is. `none` is no
/// project.
///
/// # Errors
/// [`Usage`] if `belljar.toml` is wrong.
pub fn current() -> Result<Option<&'static Project>> {
    // A run asks twice: for its options, and for its toolchains.
    static FOUND: OnceLock<Option<Project>> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(found.as_ref());
    }
    let found = find()?;
    Ok(FOUND.get_or_init(|| found).as_ref())
}

fn find() -> Result<Option<Project>> {
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
    for dir in dir.ancestors().filter(|dir| dir.join(PROJECT_FILE).exists()) {
        // In a folder such as /tmp anybody can make one.
        if is_of_another_user(dir) {
            continue;
        }
        if let Some(project) = Project::in_dir(dir)? {
            return Ok(Some(project));
        }
    }
    Ok(None)
}

/// Whether `dir` has a `belljar.toml` of another user.
fn is_of_another_user(dir: &Path) -> bool {
    let path = dir.join(PROJECT_FILE);
    // A link of theirs to a file of this user is theirs, too.
    [disk::metadata(&path), disk::symlink_metadata(&path)]
        .iter()
        .flatten()
        .any(|metadata| own::is_of_another_user(&path, metadata).unwrap_or(true))
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
        Ok(Some(Self { dir: disk::canonical(dir)?, file, text, grants: OnceLock::new() }))
    }

    /// The path of its `belljar.toml`.
    pub fn path(&self) -> PathBuf {
        self.dir.join(PROJECT_FILE)
    }

    /// The file or folder `path`, relative to the project; or `None` if it is, by links or by `..`, outside of it.
    pub fn path_within(&self, path: &Path) -> Option<PathBuf> {
        let found = disk::canonical(&self.dir.join(path)).ok()?;
        // Behind `::` an option has something else.
        let is_plain = !found.to_string_lossy().contains("::");
        (is_plain && found.starts_with(&self.dir)).then_some(found)
    }

    /// What trust in it covers: `belljar.toml`, and the command policy that this names.
    ///
    /// # Errors
    /// The policy is too long, or cannot be read.
    pub fn digest(&self) -> Result<Digest> {
        let mut covered = self.text.clone();
        if let Some(policy) = self.file.run.get(HOST_POLICY).and_then(toml::Value::as_str) {
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
        self.grants = OnceLock::from(None);
        self
    }

    /// Whether the user trusts it as it is now.
    ///
    /// # Errors
    /// `BELLJAR_HOME` cannot be read, or others can write to it.
    pub fn is_trusted(&self) -> Result<bool> {
        Ok(self.grants()?.is_some())
    }

    /// Whether the user trusts it as it is now, and was shown `grant` before.
    ///
    /// # Errors
    /// As [`Project::is_trusted`].
    pub fn is_granted(&self, grant: &str) -> Result<bool> {
        Ok(self.grants()?.is_some_and(|grants| grants.iter().any(|known| known == grant)))
    }

    fn grants(&self) -> Result<Option<&[String]>> {
        if self.grants.get().is_none() {
            let grants = match trust::trusted(&self.dir)? {
                Some(trusted) if trusted.digest == self.digest()? => Some(trusted.grants),
                _ => None,
            };
            let _ = self.grants.set(grants);
        }
        Ok(self.grants.get().and_then(Option::as_deref))
    }

    /// What a source of a toolchain that is not in the project is granted as.
    pub fn grant_of_source(&self, source: &str) -> String {
        let found = disk::canonical(&self.dir.join(source)).unwrap_or_default();
        format!("source {source} at {}", found.display())
    }
}
