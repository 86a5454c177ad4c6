//! Versions of toolchains that projects need, beside those that are installed by name.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::installed::{
    InstallError, InstalledToolchains, RECORD, RECORD_BYTES_MAX, Record, to_json,
};
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};
use crate::base::{ambient, atomic_file};

/// What a project needs.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Needs {
    /// Its lock file. When this is gone, the project needs nothing.
    lock_file: PathBuf,
    /// The digests of the toolchains.
    digests: Vec<Digest>,
    /// Whether they are being installed: the first time, the lock file follows.
    #[serde(default)]
    is_installing: bool,
}

/// How long a project may take that has no lock file yet.
const INSTALLING_MAX: Duration = Duration::from_hours(24);

impl InstalledToolchains {
    pub(super) fn versions_dir(&self) -> PathBuf {
        self.dir().join("versions")
    }

    pub(super) fn version_path(&self, digest: Digest) -> PathBuf {
        self.versions_dir().join(format!("{digest}.{RECORD}"))
    }

    pub(super) fn projects_dir(&self) -> PathBuf {
        self.dir().join("projects")
    }

    /// The record of the toolchain `name` whose manifest has the digest `digest`: a version, or what is installed under
    /// the name. `None` if there is neither.
    ///
    /// # Errors
    /// [`InstallError`]: `Disk`, `Record`, `Manifest`.
    pub(super) fn version(
        &self,
        name: &str,
        digest: Digest,
    ) -> Result<Option<Record>, InstallError> {
        let path = self.version_path(digest);
        if disk::symlink_metadata(&path).is_ok() {
            let record = Self::read_record(&path, name)?;
            if record.digest == digest {
                return Ok(Some(record));
            }
            let message = format!("it is of another version, {}", record.digest);
            return Err(InstallError::Record { path, message });
        }
        if !self.has(name)? {
            return Ok(None);
        }
        Ok(Some(self.record(name)?).filter(|record| record.digest == digest))
    }

    /// Whether the toolchain `name` whose manifest has the digest `digest` is installed.
    ///
    /// # Errors
    /// [`InstallError`]: `Disk`, `Record`, `Manifest`.
    pub fn has_version(&self, name: &str, digest: Digest) -> Result<bool, InstallError> {
        Ok(self.version(name, digest)?.is_some())
    }

    /// Keeps the toolchain that is installed under `name` as a version, if its manifest has the digest `digest`: it stays when
    /// another is installed under the name.
    ///
    /// # Errors
    /// [`InstallError`]: `Disk`, `Record`, `Manifest`.
    pub fn keep_version(&self, name: &str, digest: Digest) -> Result<(), InstallError> {
        let _lock = self.lock()?;
        let path = self.version_path(digest);
        if disk::symlink_metadata(&path).is_ok() {
            return Ok(());
        }
        if let Some(record) = self.version(name, digest)? {
            disk::create_private_dir_all(&self.versions_dir())?;
            atomic_file::write(&path, &[&to_json(&record)])?;
        }
        Ok(())
    }

    /// Notes that the project with the lock file `lock_file`, an absolute path, needs the toolchains `digests`:
    /// [`InstalledToolchains::gc`] keeps them as long as the file exists, or, if it `is_installing` them, for a day.
    ///
    /// # Errors
    /// [`InstallError::Disk`].
    pub fn note_needs(
        &self,
        lock_file: &Path,
        digests: &[Digest],
        is_installing: bool,
    ) -> Result<(), InstallError> {
        let _lock = self.lock()?;
        let dir = self.projects_dir();
        disk::create_private_dir_all(&dir)?;
        let name = Digest::of(lock_file.as_os_str().as_encoded_bytes());
        let digests = digests.to_vec();
        let needs = Needs { lock_file: lock_file.to_owned(), digests, is_installing };
        atomic_file::write(&dir.join(format!("{name}.{RECORD}")), &[&to_json(&needs)])?;
        Ok(())
    }

    /// The versions that projects need, with the files of their records. The records of others are removed; or, if it
    /// `keeps_all`, are among them.
    pub(super) fn needed_versions(
        &self,
        keeps_all: bool,
    ) -> Result<Vec<(PathBuf, Record)>, InstallError> {
        let mut needed = Vec::new();
        for path in records(&self.projects_dir())? {
            let text = disk::read_at_most(&path, RECORD_BYTES_MAX)?.unwrap_or_default();
            let needs: Needs = serde_json::from_slice(&text).map_err(|error| {
                InstallError::Record { path: path.clone(), message: error.to_string() }
            })?;
            let is_installing = needs.is_installing
                && disk::metadata(&path)?.modified().is_ok_and(|time| {
                    ambient::time_since(time).is_none_or(|age| age < INSTALLING_MAX)
                });
            match disk::metadata(&needs.lock_file) {
                Err(error)
                    if error.source.kind() == std::io::ErrorKind::NotFound && !is_installing =>
                {
                    disk::remove_file(&path)?;
                }
                _ => needed.extend(needs.digests),
            }
        }
        let mut kept = Vec::new();
        for path in records(&self.versions_dir())? {
            let is_needed = needed.iter().any(|digest| self.version_path(*digest) == path);
            if !is_needed && !keeps_all {
                disk::remove_file(&path)?;
                continue;
            }
            let record = Self::read_any_record(&path)?;
            kept.push((path, record));
        }
        Ok(kept)
    }

    /// The versions that projects need: name, version and digest, sorted.
    ///
    /// # Errors
    /// [`InstallError`]: `Disk`, `Record`, `Manifest`.
    pub fn versions(&self) -> Result<Vec<(String, String, Digest)>, InstallError> {
        let mut versions = Vec::new();
        for path in records(&self.versions_dir())? {
            let Record { manifest, digest, .. } = Self::read_any_record(&path)?;
            versions.push((manifest.name, manifest.version, digest));
        }
        versions.sort();
        Ok(versions)
    }
}

/// The records in the folder `dir`, if it exists.
fn records(dir: &Path) -> Result<Vec<PathBuf>, DiskError> {
    let mut files = disk::list_if_there(dir)?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == RECORD));
    Ok(files)
}
