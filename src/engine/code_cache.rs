//! Compiled code on disk, so that a module is compiled once.
//!
//! Compiled code is executable code: whoever can write here runs as the user. So the folder belongs
//! to the user alone, code is stored under its own digest, and the digest is checked before a byte
//! is used. Layout, below a folder named for the version of this layout:
//!
//! ```text
//! keys/<key>            64 hex digits: the digest of the code for <key>
//! code/<digest>.cwasm   the code
//! ```
//!
//! The key is the digest of the module, of everything that the code generator's output depends on
//! (version, settings, CPU features) and nothing else. Files are written whole and renamed into
//! place, code before key, so that any number of processes can share a cache.
#![allow(unsafe_code, reason = "loading compiled code cannot be checked")]

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::base::atomic_file;
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};

const LAYOUT: &str = "code-1";

/// A folder of compiled code.
#[derive(Clone, Debug)]
pub struct CodeCache {
    root: PathBuf,
}

/// The cache cannot be used. Programs run all the same, compiled anew.
#[derive(thiserror::Error)]
pub enum CacheError {
    /// The disk refused something.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Somebody else could put code there.
    #[error(
        "cache folder {} can be written by others, or is not yours; \
         code in it would not be safe to run (set BELLJAR_CACHE_DIR, or `chmod go-w` it)",
        path.display()
    )]
    NotPrivate {
        /// The folder.
        path: PathBuf,
    },
}

crate::base::readable::readable!(CacheError);

/// What a cache holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheInfo {
    /// Its folder.
    pub path: PathBuf,
    /// Modules with compiled code.
    pub entries: u64,
    /// Bytes of compiled code.
    pub bytes: u64,
}

impl CodeCache {
    /// The cache in the folder `dir`, which is created when something is stored.
    pub fn new(dir: &Path) -> Self {
        Self { root: dir.join(LAYOUT) }
    }

    fn key_path(&self, key: Digest) -> PathBuf {
        self.root.join("keys").join(key.to_string())
    }

    fn code_path(&self, digest: Digest) -> PathBuf {
        self.root.join("code").join(format!("{digest}.cwasm"))
    }

    /// The code for `key`; `None` if there is none, or it is damaged, in which case it is removed.
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

    /// Keeps `code` for `key`.
    ///
    /// # Errors
    /// [`CacheError`]; the cache is then as it was.
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

    /// What it holds.
    ///
    /// # Errors
    /// [`CacheError::Disk`] if its folders cannot be read.
    pub fn info(&self) -> Result<CacheInfo, CacheError> {
        let mut info = CacheInfo { path: self.root.clone(), entries: 0, bytes: 0 };
        for path in self.files("code")? {
            info.bytes += disk::metadata(&path)?.len();
        }
        info.entries = self.files("keys")?.len() as u64;
        Ok(info)
    }

    /// Removes everything it holds; answers what that was.
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
    /// [`CacheError::NotPrivate`] unless the folders belong to this user, who alone can write there.
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

/// Elsewhere the folder stands in the user's own profile, which the system keeps private.
#[cfg(not(unix))]
fn is_private(_path: &Path) -> Result<bool, DiskError> {
    Ok(true)
}

/// The code of `module` for another engine, which takes the same code.
pub(super) fn copy(
    module: &wasmtime::Module,
    engine: &wasmtime::Engine,
) -> wasmtime::Result<wasmtime::Module> {
    let code = module.serialize()?;
    // SAFETY: the code generator has made it, and it was not out of our hands since.
    unsafe { wasmtime::Module::deserialize(engine, code) }
}

/// Compiled code in the cache that has the digest under which it was stored.
pub(super) struct VerifiedCode(File);

impl VerifiedCode {
    fn open(path: &Path, digest: Digest) -> Option<Self> {
        let file = disk::open(path).ok()?;
        // Read, not mapped: a fault a page would cost more than the copy.
        (Digest::of_reader(&file).ok()?.0 == digest).then_some(Self(file))
    }

    /// The module, for `engine`; `None` if that does not take it, as a pool that has no room for so
    /// large a module.
    pub fn load(&self, engine: &wasmtime::Engine) -> Option<wasmtime::Module> {
        let file = self.0.try_clone().ok()?;
        // SAFETY: these bytes, through this very file handle, have the digest under which this user
        // stored what the code generator made.
        unsafe { wasmtime::Module::deserialize_open_file(engine, file) }.ok()
    }
}
