//! Toolchains in folders: their files, to install or pack them.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::digests;
use super::installed::{InstallError, InstalledToolchains};
use super::manifest::{self, FileEntry, MANIFEST, Manifest, Problem, SIGNATURE};
use super::names::{self, at};
use crate::base::SIGNATURE_BYTES_MAX;
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};
use crate::engine::Module;

/// Most files of a toolchain.
const FILES_MAX: usize = 1_000_000;

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
    pub fn of(dir: &Path, manifest: Manifest) -> Result<Self, InstallError> {
        let (toolchain, problems) = Self::examine(dir, manifest)?;
        match problems.into_iter().next() {
            None => Ok(toolchain),
            Some(FileProblem { path, message, .. }) => Err(InstallError::File { path, message }),
        }
    }

    /// As [`ToolchainFolder::open`], but tells all that is wrong with the manifest and with the files that it names.
    ///
    /// # Errors
    /// [`InstallError`]: `Manifest`, `Disk`.
    pub fn check(dir: &Path) -> Result<(Self, Vec<Problem>), InstallError> {
        let (manifest, mut problems) = Manifest::read_to_check(&dir.join(MANIFEST))?;
        let (toolchain, others) = Self::examine(dir, manifest)?;
        for FileProblem { pointer, path, message } in others {
            // What the manifest alone tells is said once.
            if !problems.iter().any(|known| known.pointer == pointer) {
                problems.push(Problem { pointer, message: format!("{path}: {message}") });
            }
        }
        Ok((toolchain, problems))
    }

    fn examine(
        dir: &Path,
        mut manifest: Manifest,
    ) -> Result<(Self, Vec<FileProblem>), InstallError> {
        let mut found = Collected::default();
        let mut problems = Problems::default();
        for (pointer, path) in manifest.files_named() {
            let collected = expect_no_link(dir, path)
                .map_err(|error| file_error(path, error.source.to_string()))
                .and_then(|()| found.collect(dir, path));
            problems.take(&pointer, collected)?;
        }
        if !manifest.files.is_empty() {
            problems.differences(&manifest.files, &mut found.files);
        }
        let mut read = HashSet::new();
        for (name, program) in &manifest.programs {
            if let Some(module) = &program.module
                && found.files.contains_key(module)
                && read.insert(module)
                && let Err(error) = Module::read(&at(dir, module))
            {
                let message = error.to_string().replace(&*at(dir, module).to_string_lossy(), "it");
                problems.add(&["programs", name, "module"], module, message);
            }
            let Some(script) = &program.script else { continue };
            let file = manifest.file_of(script);
            if !file.as_ref().is_some_and(|file| found.files.contains_key(file)) {
                let message = format!("the script of the program {name} is missing");
                let file = file.unwrap_or_else(|| script.clone());
                problems.add(&["programs", name, "script"], &file, message);
            }
        }
        let Collected { files, contents, .. } = found;
        manifest.files = files;
        let toolchain = Self { dir: dir.to_owned(), manifest, contents, signature: None };
        Ok((toolchain, problems.0))
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
        self.install_if(store, || Ok(()))
    }

    /// As [`ToolchainFolder::install`], if `check` agrees, while which no other process changes the store.
    ///
    /// # Errors
    /// As [`ToolchainFolder::install`]; that of `check`.
    pub(crate) fn install_if<E: From<InstallError>>(
        &self,
        store: &InstalledToolchains,
        check: impl FnOnce() -> Result<(), E>,
    ) -> Result<Digest, E> {
        let open = |path: &str| self.open_file(path);
        let lock = store.lock().map_err(InstallError::from)?;
        check()?;
        let manifest = self.manifest.clone();
        let digest =
            store.install(&lock, manifest, self.signature(), &self.contents, &open, false)?;
        drop(lock);
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
        let lock = store.lock()?;
        store.install(&lock, self.manifest.clone(), self.signature(), &self.contents, &open, true)
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

/// Something is wrong with a file.
struct FileProblem {
    /// Where in the manifest it is named.
    pointer: String,
    /// The file, relative to the toolchain.
    path: String,
    message: String,
}

#[derive(Default)]
struct Problems(Vec<FileProblem>);

impl Problems {
    fn add(&mut self, pointer: &[&str], path: &str, message: String) {
        let (pointer, path) = (manifest::pointer(pointer), path.to_owned());
        self.0.push(FileProblem { pointer, path, message });
    }

    /// Adds what is wrong with a file.
    ///
    /// # Errors
    /// Any other error.
    fn take(&mut self, pointer: &str, done: Result<(), InstallError>) -> Result<(), InstallError> {
        match done {
            Err(InstallError::File { path, message }) => {
                self.0.push(FileProblem { pointer: pointer.to_owned(), path, message });
                Ok(())
            }
            done => done,
        }
    }

    /// Adds how the files `found` differ from those that the manifest states.
    fn differences(&mut self, stated: &Files, found: &mut Files) {
        for (path, stated) in stated {
            let message = match found.get_mut(path) {
                Some(found)
                    if found.sha256 == stated.sha256 && found.len_bytes != stated.len_bytes =>
                {
                    format!(
                        "it has {} bytes, not the {} of the manifest",
                        found.len_bytes, stated.len_bytes
                    )
                }
                Some(found) if found.sha256 == stated.sha256 => {
                    // Where files have no such permission, the manifest stays the one that was signed.
                    if !cfg!(unix) {
                        found.executable = stated.executable;
                    }
                    continue;
                }
                Some(found) => format!(
                    "its SHA-256 is {}, not the {} of the manifest",
                    found.sha256, stated.sha256
                ),
                None => "the manifest names it, but no program and no tree has it".to_owned(),
            };
            self.add(&["files", path], path, message);
        }
        for path in found.keys().filter(|path| !stated.contains_key(*path)) {
            let message = "it is not among the `files` of the manifest".to_owned();
            self.add(&["files"], path, message);
        }
    }
}

type Files = BTreeMap<String, FileEntry>;

/// Files of a folder, and the digests of their contents.
#[derive(Default)]
struct Collected {
    /// The folders that are complete.
    folders: HashSet<String>,
    files: Files,
    contents: BTreeMap<String, Digest>,
}

fn file_error(path: &str, message: String) -> InstallError {
    InstallError::File { path: path.to_owned(), message }
}

impl Collected {
    /// Adds the file `path` of the folder `dir`, or all files of the folder `path`.
    fn collect(&mut self, dir: &Path, path: &str) -> Result<(), InstallError> {
        let wrong = |message: String| file_error(path, message);
        if path != "." && !names::is_below_a_folder(path) {
            return Err(wrong(format!(
                "a toolchain cannot have this path: {}",
                names::path_rule()
            )));
        }
        let on_disk = at(dir, path);
        let metadata =
            disk::symlink_metadata(&on_disk).map_err(|error| wrong(error.source.to_string()))?;
        if metadata.is_file() {
            if self.files.contains_key(path) {
                return Ok(());
            }
            if self.files.len() == FILES_MAX {
                return Err(wrong(format!("a toolchain has at most {FILES_MAX} files")));
            }
            let (sha256, content, len_bytes) = digests::of_reader(&mut disk::open(&on_disk)?)
                .map_err(DiskError::new("read", &on_disk))?;
            self.contents.insert(path.to_owned(), content);
            let executable = cfg!(unix) && disk::is_executable(&on_disk);
            self.files.insert(path.to_owned(), FileEntry { sha256, len_bytes, executable });
            return Ok(());
        }
        if !metadata.is_dir() {
            return Err(wrong(
                "expected a regular file or a folder, not a link or a device".to_owned(),
            ));
        }
        if !self.folders.insert(path.to_owned()) {
            return Ok(());
        }
        for entry in disk::list(&on_disk)? {
            let name = entry.file_name().and_then(|name| name.to_str());
            let name = name.ok_or_else(|| wrong(format!("{} is not UTF-8", entry.display())))?;
            let below = if path == "." { name.to_owned() } else { format!("{path}/{name}") };
            if below != MANIFEST && below != SIGNATURE {
                self.collect(dir, &below)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests use the disk")]
mod tests {
    use super::*;

    /// What is checked before the store is locked may have changed by then.
    #[test]
    fn check_under_the_lock_keeps_a_toolchain_out() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("t");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("t.wasm"), b"\0asm\x01\0\0\0").unwrap();
        let manifest = r#"{"format": "1.0", "name": "t", "version": "1", "programs": {"t": {"module": "t.wasm"}}}"#;
        std::fs::write(folder.join(MANIFEST), manifest).unwrap();
        let toolchain = ToolchainFolder::open(&folder).unwrap();
        let store = InstalledToolchains::new(dir.path().join("store"));
        let refused = toolchain.install_if(&store, || {
            let error = InstallError::File { path: "t".to_owned(), message: "refused".to_owned() };
            Err(error)
        });
        assert!(refused.unwrap_err().to_string().contains("refused"));
        assert!(!store.has("t").unwrap());
        toolchain.install(&store).unwrap();
        assert!(store.has("t").unwrap());
    }

    /// They could be packed, and the bundle not be unpacked.
    #[test]
    fn paths_that_a_bundle_cannot_have_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let manifest = r#"{"format": "1.0", "name": "t", "version": "1", "programs": {"t": {"module": "t.wasm"}},
            "trees": {"lib": "lib"}}"#;
        std::fs::write(dir.path().join("t.wasm"), b"\0asm\x01\0\0\0").unwrap();
        std::fs::write(dir.path().join(MANIFEST), manifest).unwrap();
        let with = |names: usize| {
            let folder = dir.path().join(format!("lib{}", "/d".repeat(names - 2)));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("f"), "").unwrap();
            ToolchainFolder::open(dir.path())
        };
        with(names::PATH_NAMES_MAX).unwrap();
        let refused = with(names::PATH_NAMES_MAX + 1).unwrap_err().to_string();
        assert!(refused.contains("at most 64 names"), "{refused}");
    }
}
