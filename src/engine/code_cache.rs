//! A cache of compiled code on disk.
//!
//! Whoever can write here can run code as the user. So the directory must be private to the user, code
//! is stored under its digest, and the digest is checked before use. Layout, below a directory named
//! for its version:
//!
//! ```text
//! keys/<key>            64 hex digits: the digest of the code for <key>
//! code/<digest>.cwasm   the code
//! ```
//!
//! The key is the digest of the module and of all that the output of the code generator depends on
//! (version, settings, CPU features). Files are written whole and renamed, code before key, so any
//! number of processes can share a cache.
#![allow(unsafe_code, reason = "the compiler cannot check compiled code")]

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::base::atomic_file;
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};

const LAYOUT: &str = "code-1";

/// A directory of compiled code.
#[derive(Clone, Debug)]
pub struct CodeCache {
    root: PathBuf,
}

/// The cache cannot be used. Programs still run, compiled anew.
#[derive(thiserror::Error)]
pub enum CacheError {
    /// A file operation failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Other users could put code there.
    #[error(
        "cache directory {} is not yours, or others can write to it, so its code is not safe to run: \
         set BELLJAR_CACHE_DIR, or run `chmod go-w` on it",
        path.display()
    )]
    NotPrivate {
        /// The directory.
        path: PathBuf,
    },
}

crate::base::readable::readable!(CacheError);

/// The size of a cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheInfo {
    /// Its directory.
    pub path: PathBuf,
    /// Modules with compiled code.
    pub entries: u64,
    /// Bytes of compiled code.
    pub bytes: u64,
}

impl CodeCache {
    /// Creates a cache in the directory `dir`, which is created with the first entry.
    pub fn new(dir: &Path) -> Self {
        Self { root: dir.join(LAYOUT) }
    }

    fn key_path(&self, key: Digest) -> PathBuf {
        self.root.join("keys").join(key.to_string())
    }

    fn code_path(&self, digest: Digest) -> PathBuf {
        self.root.join("code").join(format!("{digest}.cwasm"))
    }

    /// Returns the code for `key`; `None` if there is none, or it is damaged and was removed.
    ///
    /// # Errors
    /// [`CacheError::NotPrivate`].
    pub(super) fn find(&self, key: Digest) -> Result<Option<VerifiedCode>, CacheError> {
        let key_path = self.key_path(key);
        let Ok(text) = disk::read(&key_path) else { return Ok(None) };
        self.check_private()?;
        let digest = std::str::from_utf8(&text).ok().and_then(Digest::from_hex);
        let Some(digest) = digest else {
            disk::remove_file(&key_path)?;
            return Ok(None);
        };
        let code_path = self.code_path(digest);
        if let Some(code) = VerifiedCode::open(&code_path, digest) {
            return Ok(Some(code));
        }
        disk::remove_file(&key_path)?;
        disk::remove_file(&code_path)?;
        Ok(None)
    }

    /// Stores `code` for `key`.
    ///
    /// # Errors
    /// [`CacheError`]; the cache is then unchanged.
    pub(super) fn store(&self, key: Digest, code: &[u8]) -> Result<(), CacheError> {
        for folder in ["keys", "code"] {
            disk::create_private_dir_all(&self.root.join(folder))?;
        }
        self.check_private()?;
        let digest = Digest::of(code);
        atomic_file::write(&self.code_path(digest), &[code])?;
        atomic_file::write(&self.key_path(key), &[digest.to_string().as_bytes()])?;
        Ok(())
    }

    /// Returns the size of the cache.
    ///
    /// # Errors
    /// [`CacheError::Disk`] if its directories cannot be read.
    pub fn info(&self) -> Result<CacheInfo, CacheError> {
        let mut info = CacheInfo { path: self.root.clone(), entries: 0, bytes: 0 };
        for path in self.files("code")? {
            info.bytes += disk::metadata(&path)?.len();
        }
        info.entries = self.files("keys")?.len() as u64;
        Ok(info)
    }

    /// Removes all entries; returns their size.
    ///
    /// # Errors
    /// [`CacheError::Disk`] if something cannot be removed.
    pub fn clear(&self) -> Result<CacheInfo, CacheError> {
        let info = self.info()?;
        for folder in ["keys", "code"] {
            for path in self.files(folder)? {
                disk::remove_file(&path)?;
            }
        }
        Ok(info)
    }

    fn files(&self, folder: &str) -> Result<Vec<PathBuf>, CacheError> {
        match disk::list(&self.root.join(folder)) {
            Ok(files) => Ok(files),
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// # Errors
    /// [`CacheError::NotPrivate`] unless the directories belong to this user, and no other can write there.
    fn check_private(&self) -> Result<(), CacheError> {
        for path in [&self.root, &self.root.join("keys"), &self.root.join("code")] {
            if !is_private(path)? {
                return Err(CacheError::NotPrivate { path: path.clone() });
            }
        }
        Ok(())
    }
}

#[cfg(unix)]
fn is_private(path: &Path) -> Result<bool, DiskError> {
    use std::os::unix::fs::MetadataExt;

    let metadata = disk::symlink_metadata(path)?;
    let owner = rustix::process::geteuid().as_raw();
    Ok(metadata.is_dir() && metadata.uid() == owner && metadata.mode() & 0o022 == 0)
}

/// The directory is in the user's profile, which the system keeps private.
#[cfg(not(unix))]
fn is_private(_path: &Path) -> Result<bool, DiskError> {
    Ok(true)
}

/// Copies the code of `module` to another engine, which must accept the same code.
pub(super) fn copy(
    module: &wasmtime::Module,
    engine: &wasmtime::Engine,
) -> wasmtime::Result<wasmtime::Module> {
    let code = module.serialize()?;
    // SAFETY: the code generator made it, and nothing else had access to it.
    unsafe { wasmtime::Module::deserialize(engine, code) }
}

/// Compiled code whose digest was checked.
pub(super) struct VerifiedCode(File);

impl VerifiedCode {
    fn open(path: &Path, digest: Digest) -> Option<Self> {
        let file = disk::open(path).ok()?;
        // Read, not mapped: a page fault per page costs more than the copy.
        (Digest::of_reader(&file).ok()?.0 == digest).then_some(Self(file))
    }

    /// Loads the module; `None` if `engine` refuses it, for example because it is too large for the pool.
    pub fn load(&self, engine: &wasmtime::Engine) -> Option<wasmtime::Module> {
        let file = self.0.try_clone().ok()?;
        // SAFETY: the bytes behind this file handle have the digest under which this user stored what
        // the code generator made.
        unsafe { wasmtime::Module::deserialize_open_file(engine, file) }.ok()
    }
}
