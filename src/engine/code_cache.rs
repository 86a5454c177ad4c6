//! A cache of compiled code on disk.
//!
//! Whoever can write here can run code as the user. So the directory must be private to the user, code
//! is stored under its digest, and the digest is checked before use. Layout, below a directory named
//! for its version:
//!
//! ```text
//! keys/<key>            64 hex digits: the digest of the code for <key>
//! code/<digest>.cwasm   the code
//! locks/<module>-<…>    locked while a process compiles that module
//! ```
//!
//! The key is the digest of the module and of all that the output of the code generator depends on
//! (version, settings, CPU features). Files are written whole and renamed, code before key, so any
//! number of processes can share a cache; they are not synced. The time of a key's file is that of its last
//! use, to the hour: beyond its size limit, the cache loses what was used least recently.
#![allow(unsafe_code, reason = "the compiler cannot check compiled code")]

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use wasmtime::component::Component;

use super::config::{CACHE_BYTES_MAX, EngineConfig};
use super::module::Encoding;
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};
use crate::base::own::{self, Exposure};
use crate::base::{atomic_file, last_use};

const LAYOUT: &str = "code-1";

/// Code that wasmtime has loaded.
pub(super) enum Code {
    Module(wasmtime::Module),
    Component(Component),
}

/// A directory of compiled code.
#[derive(Clone, Debug)]
pub struct CodeCache {
    root: PathBuf,
    bytes_max: u64,
}

/// The cache cannot be used. Programs still run, compiled anew.
#[derive(thiserror::Error)]
pub enum CacheError {
    /// A file operation failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Other users could put code there.
    #[error(
        "the code in the cache directory {} is not safe to run, because {exposure}: {}, or set BELLJAR_CACHE_DIR",
        path.display(), remedy(path, exposure)
    )]
    NotPrivate {
        /// The directory.
        path: PathBuf,
        /// Why.
        exposure: Exposure,
    },
    /// The disk is full.
    #[error(
        "the disk has no room for code in the cache directory {}: `belljar cache clear` makes some, or set \
         BELLJAR_CACHE_DIR",
        path.display()
    )]
    Full {
        /// The directory.
        path: PathBuf,
    },
    /// A file or a link is in its place.
    #[error("the cache directory {} is a file or a link: remove it, or set BELLJAR_CACHE_DIR", path.display())]
    NotADirectory {
        /// The file or link.
        path: PathBuf,
    },
}

crate::base::readable::readable!(CacheError);

/// How `path` becomes private again.
fn remedy(path: &Path, exposure: &Exposure) -> String {
    match exposure {
        #[cfg(not(windows))]
        Exposure::Owner(_) => {
            format!("make it yours with `chown -R`, or remove {}", path.display())
        }
        #[cfg(windows)]
        Exposure::Owner(_) => format!("remove {}", path.display()),
        #[cfg(unix)]
        Exposure::Mode(_) => format!("run `chmod -R go-w {}`", path.display()),
        #[cfg(windows)]
        Exposure::Account(_) => format!("run `{}`", own::make_private(path)),
    }
}

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
        Self { root: dir.join(LAYOUT), bytes_max: CACHE_BYTES_MAX }
    }

    /// Sets the bytes of code that it keeps. Default: [`CACHE_BYTES_MAX`].
    #[must_use]
    pub fn bytes_max(mut self, bytes_max: u64) -> Self {
        self.bytes_max = bytes_max;
        self
    }

    /// Waits until no other process compiles the module with the digest `module` for an engine of `config`, and lets
    /// none do so until the returned file is dropped; calls `waits` if one does. `None` if there can be no lock: modules are
    /// then compiled twice.
    pub fn lock(
        &self,
        module: Digest,
        config: &EngineConfig,
        waits: impl FnOnce(),
    ) -> Option<File> {
        let folder = self.root.join("locks");
        disk::create_private_dir_all(&folder).ok()?;
        let fuel = if config.fuel { "-fuel" } else { "" };
        let file = disk::open_lock(&folder.join(format!("{module}-{}{fuel}", config.tier))).ok()?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                waits();
                file.lock().ok()?;
            }
            Err(TryLockError::Error(_)) => return None,
        }
        Some(file)
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
        // A pipe or a link in its place stops each new file, so it is removed below.
        let is_other = || disk::symlink_metadata(&key_path).is_ok_and(|found| !found.is_file());
        let text = match disk::read(&key_path) {
            Ok(text) => text,
            Err(_) if is_other() => Vec::new(),
            Err(_) => return Ok(None),
        };
        self.expect_private()?;
        let digest = std::str::from_utf8(&text).ok().and_then(Digest::from_hex);
        let Some(digest) = digest else {
            disk::remove_file(&key_path)?;
            return Ok(None);
        };
        let code_path = self.code_path(digest);
        if let Some(code) = VerifiedCode::open(&code_path, digest) {
            let used_at =
                disk::metadata(&key_path).map_or(SystemTime::UNIX_EPOCH, |it| last_use::of(&it));
            last_use::note(&key_path, used_at);
            return Ok(Some(code));
        }
        disk::remove_file(&key_path)?;
        disk::remove_file(&code_path)?;
        Ok(None)
    }

    /// Whether code of `bytes` can be stored: compiling takes long, and would be for nothing. Only Linux tells whether the
    /// disk has room.
    ///
    /// # Errors
    /// [`CacheError`].
    pub fn expect_room(&self, bytes: u64) -> Result<(), CacheError> {
        for folder in ["keys", "code"] {
            disk::create_private_dir_all(&self.root.join(folder))?;
        }
        self.expect_private()?;
        let code = self.root.join("code");
        let file = tempfile::tempfile_in(&code);
        let file = file.map_err(DiskError::new("create a temporary file in", &code))?;
        if bytes > 0 && !disk::has_room(&file, bytes) {
            return Err(CacheError::Full { path: code });
        }
        Ok(())
    }

    /// Stores `code` for `key`. It stays even if it is larger than the cache may be: a program waits for it.
    ///
    /// # Errors
    /// [`CacheError`]; the cache is then unchanged.
    pub(super) fn store(&self, key: Digest, code: &[u8]) -> Result<(), CacheError> {
        for folder in ["keys", "code"] {
            disk::create_private_dir_all(&self.root.join(folder))?;
        }
        self.expect_private()?;
        let digest = Digest::of_large(code);
        let code_path = self.code_path(digest);
        // What a power cut damages is found, and compiled again.
        atomic_file::write_unsynced(&code_path, &[code])?;
        atomic_file::write_unsynced(&self.key_path(key), &[digest.to_string().as_bytes()])?;
        self.trim_except(self.bytes_max, Some(&code_path))?;
        Ok(())
    }

    /// Removes the code that was used least recently until at most `bytes_max` bytes are left; returns what was
    /// removed.
    ///
    /// # Errors
    /// [`CacheError::Disk`] if something cannot be removed.
    pub fn trim(&self, bytes_max: u64) -> Result<CacheInfo, CacheError> {
        self.trim_except(bytes_max, None)
    }

    /// As [`CodeCache::trim`]; the code in the file `kept` stays.
    fn trim_except(&self, bytes_max: u64, kept: Option<&Path>) -> Result<CacheInfo, CacheError> {
        let mut removed = CacheInfo { path: self.root.clone(), entries: 0, bytes: 0 };
        let mut entries = self.entries()?;
        entries.sort_by_key(|entry| entry.used_at);
        let mut bytes: u64 = entries.iter().map(|entry| entry.bytes).sum();
        for entry in entries {
            if bytes <= bytes_max {
                break;
            }
            if kept == Some(&entry.code) {
                continue;
            }
            for path in entry.keys.iter().chain([&entry.code]) {
                disk::remove_file(path)?;
            }
            bytes -= entry.bytes;
            removed.bytes += entry.bytes;
            removed.entries += entry.keys.len() as u64;
        }
        Ok(removed)
    }

    fn entries(&self) -> Result<Vec<Entry>, CacheError> {
        let mut entries = HashMap::new();
        for code in self.files("code")? {
            // Another process may have removed it.
            let Ok(metadata) = disk::metadata(&code) else { continue };
            let (keys, used_at, bytes) = (Vec::new(), last_use::of(&metadata), metadata.len());
            entries.insert(code.clone(), Entry { code, keys, used_at, bytes });
        }
        for key in self.files("keys")? {
            let (Ok(text), Ok(metadata)) = (disk::read(&key), disk::metadata(&key)) else {
                continue;
            };
            let digest = std::str::from_utf8(&text).ok().and_then(Digest::from_hex);
            let code = digest.map(|digest| self.code_path(digest));
            if let Some(entry) = code.and_then(|code| entries.get_mut(&code)) {
                entry.used_at = entry.used_at.max(last_use::of(&metadata));
                entry.keys.push(key);
            }
        }
        Ok(entries.into_values().collect())
    }

    /// Returns the size of the cache.
    ///
    /// # Errors
    /// [`CacheError::Disk`] if its directories cannot be read.
    pub fn info(&self) -> Result<CacheInfo, CacheError> {
        let mut info = CacheInfo { path: self.root.clone(), entries: 0, bytes: 0 };
        for path in self.files("code")? {
            // Another process may have renamed or removed it.
            info.bytes += disk::metadata(&path).map_or(0, |metadata| metadata.len());
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
        for folder in ["keys", "code", "locks"] {
            for path in self.files(folder)? {
                disk::remove_file(&path)?;
            }
        }
        Ok(info)
    }

    fn files(&self, folder: &str) -> Result<Vec<PathBuf>, CacheError> {
        Ok(disk::list_if_there(&self.root.join(folder))?)
    }

    /// Checks that the directories, as far as they exist, belong to this user, and that no other can write there.
    ///
    /// # Errors
    /// [`CacheError`]; `NotPrivate`, `NotADirectory`.
    pub fn expect_private(&self) -> Result<(), CacheError> {
        for path in [self.root.clone(), self.root.join("keys"), self.root.join("code")] {
            let metadata = match disk::symlink_metadata(&path) {
                Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => continue,
                metadata => metadata?,
            };
            if !metadata.is_dir() {
                return Err(CacheError::NotADirectory { path });
            }
            if let Some(exposure) = exposure(&path, &metadata)? {
                return Err(CacheError::NotPrivate { path, exposure });
            }
        }
        Ok(())
    }
}

/// Code, and the keys that lead to it: none yet if it is being stored.
struct Entry {
    code: PathBuf,
    keys: Vec<PathBuf>,
    used_at: SystemTime,
    bytes: u64,
}

/// How other users could have put code into a directory with the attributes `metadata`. Unlike in [`own::exposure`], the
/// administrator is one of them.
#[cfg(unix)]
fn exposure(path: &Path, metadata: &std::fs::Metadata) -> Result<Option<Exposure>, DiskError> {
    use std::os::unix::fs::MetadataExt;

    let owner = metadata.uid();
    if owner == rustix::process::geteuid().as_raw() {
        own::exposure(path, metadata)
    } else {
        Ok(Some(Exposure::Owner(format!("user {owner}"))))
    }
}

/// On Windows, what an administrator makes may belong to all of them.
#[cfg(not(unix))]
fn exposure(path: &Path, metadata: &std::fs::Metadata) -> Result<Option<Exposure>, DiskError> {
    own::exposure(path, metadata)
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

/// Loads `code`, which a code generator of this process has just made.
///
/// # Errors
/// As [`VerifiedCode::load`].
pub(super) fn load_compiled(
    engine: &wasmtime::Engine,
    encoding: Encoding,
    code: &[u8],
) -> wasmtime::Result<Code> {
    // SAFETY: nothing but the code generator had access to it.
    unsafe { deserialize(engine, encoding, code) }
}

/// Loads the compiled code `code` of a binary of `encoding`.
///
/// # Safety
/// A code generator made it, which is trusted.
unsafe fn deserialize(
    engine: &wasmtime::Engine,
    encoding: Encoding,
    code: &[u8],
) -> wasmtime::Result<Code> {
    Ok(match encoding {
        // SAFETY: as this function requires.
        Encoding::Module => Code::Module(unsafe { wasmtime::Module::deserialize(engine, code) }?),
        // SAFETY: as this function requires.
        Encoding::Component => Code::Component(unsafe { Component::deserialize(engine, code) }?),
    })
}

/// Loads `code`, which someone else's code generator made, to see whether it fits.
///
/// # Errors
/// As [`VerifiedCode::load`].
#[cfg(feature = "import")]
pub(super) fn load_trusted(
    engine: &wasmtime::Engine,
    encoding: Encoding,
    code: &[u8],
) -> wasmtime::Result<Code> {
    // SAFETY: the caller has checked that someone signed it whom the user trusts as they trust belljar itself.
    unsafe { deserialize(engine, encoding, code) }
}

/// Compiled code whose digest was checked.
pub(super) struct VerifiedCode {
    file: File,
    digest: Digest,
}

/// Code from this length on is mapped, to compute its digest on all processors: the 51 MB of a compiler take 7 ms in place
/// of 17 on two of them. Below, a page fault for each page costs more than the copy.
const LARGE_CODE_BYTES: u64 = 4 << 20;

/// The digest of `file`, which is at its beginning.
fn digest_of(file: &File) -> std::io::Result<Digest> {
    if file.metadata()?.len() < LARGE_CODE_BYTES {
        return Ok(Digest::of_reader(file)?.0);
    }
    // SAFETY: only this user can write to the file, and what stores code replaces files and changes none. The code
    // is mapped again to be run.
    let code = unsafe { memmap2::Mmap::map(file)? };
    Ok(Digest::of_large(&code))
}

impl VerifiedCode {
    fn open(path: &Path, digest: Digest) -> Option<Self> {
        let file = disk::open_code(path).ok()?;
        (digest_of(&file).ok()? == digest).then_some(Self { file, digest })
    }

    /// Loads the code of a binary of `encoding`.
    ///
    /// # Errors
    /// `engine` refuses it, for example because it is too large for the pool.
    pub fn load(&self, engine: &wasmtime::Engine, encoding: Encoding) -> wasmtime::Result<Code> {
        match encoding {
            Encoding::Module => self.load_module(engine).map(Code::Module),
            Encoding::Component => self.load_component(engine).map(Code::Component),
        }
    }

    fn load_module(&self, engine: &wasmtime::Engine) -> wasmtime::Result<wasmtime::Module> {
        let file = self.file.try_clone()?;
        // SAFETY: the bytes behind this file handle have the digest under which this user stored what
        // the code generator made, here or where someone is whom they trust.
        let loaded = unsafe { wasmtime::Module::deserialize_open_file(engine, file) };
        #[cfg(windows)]
        let loaded = loaded.or_else(|error| self.load_copy(engine).ok_or(error));
        loaded
    }

    /// Components load from a path, which could lead to another file by now, or from memory.
    fn load_component(&self, engine: &wasmtime::Engine) -> wasmtime::Result<Component> {
        let (mut code, mut file) = (Vec::new(), &self.file);
        file.rewind()?;
        file.read_to_end(&mut code)?;
        if Digest::of(&code) != self.digest {
            return Err(wasmtime::Error::msg("the code changed while it was read"));
        }
        // SAFETY: as in `load_module`; these bytes themselves have the digest.
        unsafe { Component::deserialize(engine, code) }
    }

    /// Loads a copy in memory: Wine 8 cannot change the protection of a mapped file (`VirtualProtect` to
    /// `PAGE_WRITECOPY` fails).
    #[cfg(windows)]
    fn load_copy(&self, engine: &wasmtime::Engine) -> Option<wasmtime::Module> {
        let mut code = Vec::new();
        let mut file = &self.file;
        file.rewind().ok()?;
        file.read_to_end(&mut code).ok()?;
        // SAFETY: as in `load_module`: while this handle is open, nobody else can write to the file.
        unsafe { wasmtime::Module::deserialize(engine, code) }.ok()
    }
}
