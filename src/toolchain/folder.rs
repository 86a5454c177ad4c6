//! Toolchains in folders: their files, to install or pack them.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::digests;
use super::installed::{InstallError, InstalledToolchains};
use super::manifest::{FileEntry, MANIFEST, Manifest, SIGNATURE, SIGNATURE_BYTES_MAX};
use super::names::at;
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};
use crate::engine::Module;

/// Most files of a toolchain.
const FILES_MAX: usize = 1_000_000;

/// Most folders on the way to a file.
const DEPTH_MAX: usize = 64;

/// A toolchain in a folder, with all its files.
#[derive(Clone, Debug)]
pub struct ToolchainFolder {
    dir: PathBuf,
    manifest: Manifest,
    /// The digests of all files.
    contents: BTreeMap<String, Digest>,
    signature: Option<String>,
}

impl ToolchainFolder {
    /// Reads the manifest in the folder `dir`, and its signature if there is one, and examines the files that it names.
    ///
    /// # Errors
    /// [`InstallError`]: `Manifest`; `File` for one that is missing, a link, or neither a file nor a folder, or that
    /// does not have the digest in the manifest.
    pub fn open(dir: &Path) -> Result<Self, InstallError> {
        let (manifest, _) = Manifest::read(&dir.join(MANIFEST))?;
        Ok(Self::of(dir, manifest)?.with_signature(signature_in(dir)?))
    }

    /// As [`ToolchainFolder::open`], with another manifest.
    ///
    /// # Errors
    /// As [`ToolchainFolder::open`].
    pub fn of(dir: &Path, mut manifest: Manifest) -> Result<Self, InstallError> {
        let (mut files, mut contents) = (BTreeMap::new(), BTreeMap::new());
        let modules = manifest.programs.values().filter_map(|program| program.module.as_deref());
        for path in modules.chain(manifest.trees.values().map(String::as_str)) {
            expect_no_link(dir, path).map_err(|error| InstallError::File {
                path: path.to_owned(),
                message: error.source.to_string(),
            })?;
            collect(dir, path, 0, &mut files, &mut contents)?;
        }
        for (path, stated) in &manifest.files {
            match files.get_mut(path) {
                Some(found) if found.sha256 == stated.sha256 => {
                    // Where files have no such permission, the manifest stays the one that was signed.
                    if !cfg!(unix) {
                        found.executable = stated.executable;
                    }
                }
                Some(found) => {
                    let message = format!(
                        "its SHA-256 is {}, not the {} of the manifest",
                        found.sha256, stated.sha256
                    );
                    return Err(InstallError::File { path: path.clone(), message });
                }
                None => {
                    let message =
                        "the manifest names it, but no program and no tree has it".to_owned();
                    return Err(InstallError::File { path: path.clone(), message });
                }
            }
        }
        if let Some(path) = files
            .keys()
            .find(|path| !manifest.files.is_empty() && !manifest.files.contains_key(*path))
        {
            let message = "it is not among the `files` of the manifest".to_owned();
            return Err(InstallError::File { path: path.clone(), message });
        }
        for module in manifest.programs.values().filter_map(|program| program.module.as_ref()) {
            Module::read(&at(dir, module)).map_err(|error| {
                let message = error.to_string().replace(&*at(dir, module).to_string_lossy(), "it");
                InstallError::File { path: module.clone(), message }
            })?;
        }
        for (name, program) in &manifest.programs {
            let Some(script) = &program.script else { continue };
            let file = manifest.trees.iter().find_map(|(guest, folder)| {
                let rest = script.strip_prefix(&**guest)?.strip_prefix('/')?;
                Some(if folder == "." { rest.to_owned() } else { format!("{folder}/{rest}") })
            });
            if !file.as_ref().is_some_and(|file| files.contains_key(file)) {
                let message = format!("the script of the program {name} is missing");
                return Err(InstallError::File {
                    path: file.unwrap_or_else(|| script.clone()),
                    message,
                });
            }
        }
        manifest.files = files;
        Ok(Self { dir: dir.to_owned(), manifest, contents, signature: None })
    }

    /// Sets the signature of its manifest, in the format of minisign, which is not checked here.
    #[must_use]
    pub fn with_signature(mut self, signature: Option<String>) -> Self {
        self.signature = signature;
        self
    }

    /// The signature of its manifest, which was not checked.
    pub fn signature(&self) -> Option<&str> {
        self.signature.as_deref()
    }

    /// The manifest, with all files.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The modules, each once, with the name of a program that it is.
    pub fn modules(&self) -> impl Iterator<Item = (&str, PathBuf)> {
        let programs = self.manifest.programs.iter();
        let mut seen = HashSet::new();
        let modules =
            programs.filter_map(|(name, program)| Some((name, program.module.as_deref()?)));
        let new = modules.filter(move |(_, module)| seen.insert(*module));
        new.map(|(name, module)| (name.as_str(), at(&self.dir, module)))
    }

    /// Opens one of its files.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open_file(&self, path: &str) -> Result<File, DiskError> {
        disk::open(&at(&self.dir, path))
    }

    /// Installs it in `store`, and removes what a version that it replaces had alone; returns the digest of its manifest.
    ///
    /// # Errors
    /// [`InstallError`]; the old version is then still installed.
    pub fn install(&self, store: &InstalledToolchains) -> Result<Digest, InstallError> {
        let open = |path: &str| self.open_file(path);
        let manifest = self.manifest.clone();
        let digest = store.install(manifest, self.signature(), &self.contents, &open, false)?;
        // What cannot be removed now only costs space.
        let _ = store.tidy();
        Ok(digest)
    }

    /// Installs it in `store` as a version for projects, beside one of the same name; returns the digest of its manifest.
    ///
    /// # Errors
    /// [`InstallError`].
    pub fn install_version(&self, store: &InstalledToolchains) -> Result<Digest, InstallError> {
        let open = |path: &str| self.open_file(path);
        store.install(self.manifest.clone(), self.signature(), &self.contents, &open, true)
    }

    /// The digest of its manifest, by which it is known when it is installed.
    pub fn digest(&self) -> Digest {
        Digest::of(self.manifest.to_text().as_bytes())
    }
}

/// The signature in the folder `dir`, if there is one.
///
/// # Errors
/// [`InstallError::File`] if it is a link, too long, or no text.
pub(crate) fn signature_in(dir: &Path) -> Result<Option<String>, InstallError> {
    let path = dir.join(SIGNATURE);
    if disk::symlink_metadata(&path).is_err() {
        return Ok(None);
    }
    let wrong = |message: String| InstallError::File { path: SIGNATURE.to_owned(), message };
    expect_no_link(dir, SIGNATURE).map_err(|error| wrong(error.source.to_string()))?;
    let text = disk::read_at_most(&path, SIGNATURE_BYTES_MAX)?;
    let text =
        text.ok_or_else(|| wrong(format!("it has more than {SIGNATURE_BYTES_MAX} bytes")))?;
    let text = String::from_utf8(text).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
    Ok(Some(text))
}

/// Checks that neither `path`, which is relative to the folder `dir`, nor a folder on the way to it is a link: a toolchain
/// could show any file of the host.
///
/// # Errors
/// One is, or cannot be examined.
pub(super) fn expect_no_link(dir: &Path, path: &str) -> Result<(), DiskError> {
    let mut at = dir.to_owned();
    for name in path.split('/').filter(|name| *name != ".") {
        at.push(name);
        if disk::symlink_metadata(&at)?.is_symlink() {
            let why = "it is a link; a toolchain has regular files and folders only";
            return Err(DiskError::new("open", &at)(io::Error::other(why)));
        }
    }
    Ok(())
}

/// Adds the file `path`, or all files of the folder `path`, to `files`, and their digests to `contents`.
fn collect(
    dir: &Path,
    path: &str,
    depth: usize,
    files: &mut BTreeMap<String, FileEntry>,
    contents: &mut BTreeMap<String, Digest>,
) -> Result<(), InstallError> {
    let wrong = |message: String| InstallError::File { path: path.to_owned(), message };
    let on_disk = at(dir, path);
    let metadata =
        disk::symlink_metadata(&on_disk).map_err(|error| wrong(error.source.to_string()))?;
    if metadata.is_file() {
        if files.contains_key(path) {
            return Ok(());
        }
        if files.len() == FILES_MAX {
            return Err(wrong(format!("a toolchain has at most {FILES_MAX} files")));
        }
        let (sha256, content, len_bytes) = digests::of_reader(&mut disk::open(&on_disk)?)
            .map_err(DiskError::new("read", &on_disk))?;
        contents.insert(path.to_owned(), content);
        let executable = cfg!(unix) && disk::is_executable(&on_disk);
        files.insert(path.to_owned(), FileEntry { sha256, len_bytes, executable });
        return Ok(());
    }
    if !metadata.is_dir() {
        return Err(wrong(
            "expected a regular file or a folder, not a link or a device".to_owned(),
        ));
    }
    if depth == DEPTH_MAX {
        return Err(wrong(format!("it lies below more than {DEPTH_MAX} folders")));
    }
    for entry in disk::list(&on_disk)? {
        let name = entry.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| wrong(format!("{} is not UTF-8", entry.display())))?;
        let below = if path == "." { name.to_owned() } else { format!("{path}/{name}") };
        if below != MANIFEST && below != SIGNATURE {
            collect(dir, &below, depth + 1, files, contents)?;
        }
    }
    Ok(())
}
