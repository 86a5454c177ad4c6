//! Toolchains that are installed: their files in a content-addressed store of this user.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::file_list::{self, FileList, StoredFile};
use super::manifest::{FileEntry, Manifest, ManifestError};
use crate::base::atomic_file;
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};
use crate::store::{Cas, Removed, StoreError};

/// Longest record, in bytes.
pub(super) const RECORD_BYTES_MAX: u64 = 64 << 20;

/// Longest list of files, in bytes.
const LIST_BYTES_MAX: u64 = 1 << 30;

/// The file that runs hold while they may need contents.
const USE: &str = "use";

/// Extension of a record.
pub(super) const RECORD: &str = "json";

/// The store of installed toolchains cannot be read or written.
#[derive(thiserror::Error)]
pub enum InstallError {
    /// A file operation failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A content cannot be stored or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The manifest is wrong.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A file of the toolchain is missing, or is not what the manifest says.
    #[error("{path}: {message}")]
    File {
        /// The file, relative to the toolchain.
        path: String,
        /// What is wrong.
        message: String,
    },
    /// The record of an installed toolchain is damaged.
    #[error("{} is damaged ({message}): remove it, and install the toolchain again", path.display())]
    Record {
        /// The record.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A project needs a version that is not installed.
    #[error(
        "{name} {version} is not installed with the digest {digest}: run `belljar install` in the project"
    )]
    VersionMissing {
        /// The name.
        name: String,
        /// The version.
        version: String,
        /// The digest of its manifest.
        digest: Digest,
    },
    /// No toolchain of this name is installed.
    #[error("no toolchain {name:?} is installed{}", known(names))]
    NotInstalled {
        /// The name.
        name: String,
        /// The installed ones.
        names: Vec<String>,
    },
}

crate::base::readable::readable!(InstallError);

fn known(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("; there are: {}", names.join(", ")) }
}

/// The store of installed toolchains: a directory with a record for each, and the contents of their files. Several
/// processes can use it at once.
#[derive(Clone, Debug)]
pub struct InstalledToolchains {
    dir: PathBuf,
    cas: Cas,
}

/// An installed toolchain, as its record has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    /// The manifest without its files.
    pub manifest: Manifest,
    /// The digest of the whole manifest.
    pub digest: Digest,
    /// The list of files.
    list: Digest,
    /// The contents of modules.
    pub modules: BTreeMap<String, Digest>,
    /// The signature of the whole manifest, in the format of minisign, which is not checked here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// The manifest of an installed toolchain, and its signature.
pub struct SignedManifest {
    /// The text of the manifest, whose digest was checked.
    pub text: Vec<u8>,
    /// The signature, which was not checked.
    pub signature: Option<String>,
}

/// The files of an installed toolchain, which are read when they are first needed.
#[derive(Debug)]
pub(super) struct StoredFiles {
    cas: Cas,
    list: Digest,
    read: OnceLock<Result<FileList, String>>,
}

impl InstalledToolchains {
    /// The store in the directory `dir`, which is created with the first toolchain.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        Self { cas: Cas::new(dir.join("files")), dir }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The names of the installed toolchains, sorted.
    ///
    /// # Errors
    /// The directory cannot be read. A missing one is empty.
    pub fn names(&self) -> Result<Vec<String>, DiskError> {
        let files = disk::list_if_there(&self.dir)?;
        let name = |path: &PathBuf| {
            let is_record = path.extension().is_some_and(|extension| extension == RECORD);
            Some(path.file_stem()?.to_str()?.to_owned()).filter(|_| is_record)
        };
        Ok(files.iter().filter_map(name).collect())
    }

    /// Whether a toolchain is installed under `name`.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn has(&self, name: &str) -> Result<bool, DiskError> {
        Ok(self.names()?.iter().any(|known| known == name))
    }

    fn expect_installed(&self, name: &str) -> Result<(), InstallError> {
        if self.has(name)? {
            return Ok(());
        }
        Err(InstallError::NotInstalled { name: name.to_owned(), names: self.names()? })
    }

    fn record_path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.{RECORD}"))
    }

    pub(super) fn record(&self, name: &str) -> Result<Record, InstallError> {
        Self::read_record(&self.record_path(name), name)
    }

    /// The record of the toolchain `name` in the file `path`.
    pub(super) fn read_record(path: &Path, name: &str) -> Result<Record, InstallError> {
        let record = Self::read_any_record(path)?;
        if record.manifest.name == name {
            return Ok(record);
        }
        let message = format!("it describes {:?}", record.manifest.name);
        Err(InstallError::Record { path: path.to_owned(), message })
    }

    /// The record in the file `path`.
    pub(super) fn read_any_record(path: &Path) -> Result<Record, InstallError> {
        let damaged = |message| InstallError::Record { path: path.to_owned(), message };
        let Some(text) = disk::read_at_most(path, RECORD_BYTES_MAX)? else {
            return Err(damaged("it is too long".to_owned()));
        };
        let record: Record =
            serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        // What it says was checked when it was installed, and is checked again: others may write to the disk.
        record.manifest.expect_valid(path)?;
        Ok(record)
    }

    pub(super) fn files(&self, record: &Record) -> Arc<StoredFiles> {
        let (cas, list) = (self.cas.clone(), record.list);
        Arc::new(StoredFiles { cas, list, read: OnceLock::new() })
    }

    /// The path of a module.
    pub(super) fn content_path(&self, content: Digest) -> PathBuf {
        self.cas.path_of(content)
    }

    /// Waits until no other process changes the store.
    pub(super) fn lock(&self) -> Result<File, DiskError> {
        disk::create_private_dir_all(&self.dir)?;
        let path = self.dir.join("lock");
        let file = disk::open_lock(&path)?;
        file.lock().map_err(DiskError::new("lock", &path))?;
        Ok(file)
    }

    /// Installs the toolchain `manifest` in place of one of the same name, or as a version beside it: see
    /// [`InstalledToolchains::version`]. `contents` has the digest of each of its files, which `open` opens by its path.
    ///
    /// A killed process leaves the old toolchain or the new one, and at most contents that [`Self::gc`] removes. `_lock` is
    /// the store's.
    ///
    /// # Errors
    /// [`InstallError`]; nothing is then installed.
    pub(super) fn install(
        &self,
        _lock: &File,
        mut manifest: Manifest,
        signature: Option<&str>,
        contents: &BTreeMap<String, Digest>,
        open: &dyn Fn(&str) -> Result<File, DiskError>,
        as_version: bool,
    ) -> Result<Digest, InstallError> {
        let mut files = Vec::new();
        for (path, &content) in contents {
            let Some(&FileEntry { len_bytes, executable, .. }) = manifest.files.get(path) else {
                continue;
            };
            self.store(path, content, len_bytes, open)?;
            files.push(StoredFile { path, content, len_bytes, executable });
        }
        let list = file_list::encode(files.iter().copied());
        let (list, text) = (self.keep(&list)?, manifest.to_text());
        let too_long = |what: &str| InstallError::File {
            path: super::manifest::MANIFEST.to_owned(),
            message: format!("{what} has more than {RECORD_BYTES_MAX} bytes"),
        };
        if text.len() as u64 > RECORD_BYTES_MAX {
            return Err(too_long("it"));
        }
        let digest = self.keep(text.as_bytes())?;
        let is_module = |file: &&StoredFile| {
            manifest.programs.values().any(|program| program.module.as_deref() == Some(file.path))
        };
        let modules = files.iter().filter(is_module);
        let modules = modules.map(|file| (file.path.to_owned(), file.content)).collect();
        manifest.files.clear();
        let path = if as_version {
            disk::create_private_dir_all(&self.versions_dir())?;
            self.version_path(digest)
        } else {
            self.record_path(&manifest.name)
        };
        // Installing the same again from where it is not signed takes nothing away.
        let kept = || Self::read_record(&path, &manifest.name).ok();
        let kept = || kept().filter(|record| record.digest == digest)?.signature;
        let signature = signature.map(str::to_owned).or_else(kept);
        let record = Record { manifest, digest, list, modules, signature };
        let text = to_json(&record);
        // It could not be read again.
        if text.len() as u64 > RECORD_BYTES_MAX {
            return Err(too_long("the record of it"));
        }
        atomic_file::write(&path, &[&text])?;
        Ok(digest)
    }

    /// Stores the file `path` of a toolchain, with the digest `content`.
    fn store(
        &self,
        path: &str,
        content: Digest,
        len_bytes: u64,
        open: &dyn Fn(&str) -> Result<File, DiskError>,
    ) -> Result<(), InstallError> {
        // Installing again repairs what was damaged.
        if self.cas.open(content, len_bytes).is_ok() {
            return Ok(());
        }
        let mut file = open(path)?;
        // The contents are read in their order.
        let put = self.cas.put(content, &mut |_, piece| file.read(piece));
        put.map_err(|error| match error {
            StoreError::Damaged { .. } => InstallError::File {
                path: path.to_owned(),
                message: "it changed while it was installed".to_owned(),
            },
            error => error.into(),
        })
    }

    fn keep(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        let digest = Digest::of(bytes);
        if self.cas.open(digest, bytes.len() as u64).is_err() {
            self.cas.put(digest, &mut crate::store::read_slice(bytes))?;
        }
        Ok(digest)
    }

    /// The manifest of the toolchain `name`, with its signature; with a `digest`, of the version whose manifest has it.
    ///
    /// # Errors
    /// [`InstallError`]: `NotInstalled`; `Record` or `Store` if something is damaged; `Disk`.
    pub fn signed_manifest(
        &self,
        name: &str,
        digest: Option<Digest>,
    ) -> Result<SignedManifest, InstallError> {
        let _hold = self.hold();
        let none = || InstallError::NotInstalled { name: name.to_owned(), names: Vec::new() };
        let (record, path) = if let Some(digest) = digest {
            (self.version(name, digest)?.ok_or_else(none)?, self.version_path(digest))
        } else {
            self.expect_installed(name)?;
            (self.record(name)?, self.record_path(name))
        };
        let text = self.cas.get(record.digest, RECORD_BYTES_MAX)?;
        // The record says what runs.
        let mut manifest = Manifest::parse(&path, &text)?;
        manifest.files.clear();
        if manifest != record.manifest {
            let message = "it is not what the manifest says".to_owned();
            return Err(InstallError::Record { path, message });
        }
        Ok(SignedManifest { text, signature: record.signature })
    }

    /// Writes the files of the toolchain `name` to the empty folder `into`; returns its manifest, with all files, and its
    /// signature.
    ///
    /// # Errors
    /// [`InstallError`]: `NotInstalled`; `Record` or `Store` if something is damaged; `Disk`.
    #[cfg(feature = "import")]
    pub fn unpack(
        &self,
        name: &str,
        into: &Path,
    ) -> Result<(Manifest, Option<String>), InstallError> {
        self.expect_installed(name)?;
        let _hold = self.hold();
        let record = self.record(name)?;
        let text = self.cas.get(record.digest, RECORD_BYTES_MAX)?;
        let manifest = Manifest::parse(&self.record_path(name), &text)?;
        let files = self.files(&record);
        let files = files.list_of(&self.record_path(name))?;
        for file in files.iter() {
            let target = super::names::at(into, file.path);
            disk::create_private_dir_all(disk::folder_of(&target))?;
            let mut content = self.cas.open(file.content, file.len_bytes)?;
            let mut copy = disk::create_new_private(&target)?;
            std::io::copy(&mut content, &mut copy).map_err(DiskError::new("write", &target))?;
            if file.executable {
                disk::set_executable(&target)?;
            }
        }
        Ok((manifest, record.signature))
    }

    /// As [`InstalledToolchains::damaged_files`], of the version whose manifest has the digest `digest`.
    ///
    /// # Errors
    /// [`InstallError`]: `Disk`, `Record`, `Manifest`.
    pub fn damaged_files_of(
        &self,
        name: &str,
        digest: Digest,
    ) -> Result<Vec<String>, InstallError> {
        let _hold = self.hold();
        match self.version(name, digest)? {
            Some(record) => self.damaged(&record, &self.version_path(digest)),
            None => Ok(Vec::new()),
        }
    }

    /// Reads all files of the toolchain `name`, and returns those that are missing or damaged, by their paths.
    ///
    /// # Errors
    /// [`InstallError`]: `NotInstalled`, `Disk`, `Record`, `Manifest`.
    pub fn damaged_files(&self, name: &str) -> Result<Vec<String>, InstallError> {
        self.expect_installed(name)?;
        let _hold = self.hold();
        self.damaged(&self.record(name)?, &self.record_path(name))
    }

    fn damaged(&self, record: &Record, path: &Path) -> Result<Vec<String>, InstallError> {
        let files = self.files(record);
        let files = files.list_of(path)?;
        let is_damaged =
            |file: &StoredFile<'_>| self.cas.open(file.content, file.len_bytes).is_err();
        Ok(files.iter().filter(is_damaged).map(|file| file.path.to_owned()).collect())
    }

    /// Removes the toolchain `name`, and the contents that no other has, as [`Self::gc`] does.
    ///
    /// # Errors
    /// [`InstallError`].
    pub fn uninstall(&self, name: &str) -> Result<Option<Removed>, InstallError> {
        self.expect_installed(name)?;
        let lock = self.lock()?;
        disk::remove_file(&self.record_path(name))?;
        drop(lock);
        self.tidy()
    }

    /// Keeps all contents until the file is closed, for a run that may need them. `None` if nothing is installed, or
    /// the directory cannot be written to.
    pub(super) fn hold(&self) -> Option<File> {
        disk::symlink_metadata(&self.dir).ok()?;
        let file = disk::open_lock(&self.dir.join(USE)).ok()?;
        file.lock_shared().ok()?;
        Some(file)
    }

    /// Removes what killed processes left, the versions that no project needs any more, and the contents that no installed
    /// toolchain has. Returns `None`, and removes no contents, while a run may need them.
    ///
    /// # Errors
    /// [`InstallError`]; if a record is damaged, nothing is removed.
    pub fn gc(&self) -> Result<Option<Removed>, InstallError> {
        self.gc_but(false)
    }

    /// As [`InstalledToolchains::gc`], but all versions stay: projects may go back to them.
    pub(super) fn tidy(&self) -> Result<Option<Removed>, InstallError> {
        self.gc_but(true)
    }

    fn gc_but(&self, keeps_versions: bool) -> Result<Option<Removed>, InstallError> {
        if disk::symlink_metadata(&self.dir).is_err() {
            return Ok(Some(Removed::default()));
        }
        let _lock = self.lock()?;
        self.remove_abandoned()?;
        let in_use = disk::open_lock(&self.dir.join(USE))?;
        if in_use.try_lock().is_err() {
            return Ok(None);
        }
        let mut keep = HashSet::new();
        for name in self.names()? {
            self.keep_files(&self.record(&name)?, &self.record_path(&name), &mut keep)?;
        }
        for (path, record) in self.needed_versions(keeps_versions)? {
            self.keep_files(&record, &path, &mut keep)?;
        }
        Ok(Some(self.cas.retain(&keep)?))
    }

    /// Adds what the toolchain of `record`, which is in the file `path`, consists of to `keep`.
    fn keep_files(
        &self,
        record: &Record,
        path: &Path,
        keep: &mut HashSet<Digest>,
    ) -> Result<(), InstallError> {
        keep.extend([record.digest, record.list]);
        let files = self.files(record);
        let files = files.list_of(path)?;
        keep.extend(files.iter().map(|file| file.content));
        Ok(())
    }
}

pub(super) fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("keys are strings")
}

impl StoredFiles {
    /// The list of all files.
    ///
    /// # Errors
    /// It is missing or damaged.
    pub fn list(&self) -> Result<&FileList, &str> {
        let read = || {
            let list =
                self.cas.get(self.list, LIST_BYTES_MAX).map_err(|error| error.to_string())?;
            FileList::decode(list)
        };
        self.read.get_or_init(read).as_ref().map_err(String::as_str)
    }

    /// As [`StoredFiles::list`], for the toolchain whose record is the file `record`.
    ///
    /// # Errors
    /// [`InstallError::Record`].
    fn list_of(&self, record: &Path) -> Result<&FileList, InstallError> {
        self.list().map_err(|message| InstallError::Record {
            path: record.to_owned(),
            message: message.to_owned(),
        })
    }

    /// The store of the contents.
    pub fn cas(&self) -> &Cas {
        &self.cas
    }
}
