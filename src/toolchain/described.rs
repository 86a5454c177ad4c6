//! Toolchains with a manifest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::folder::expect_no_link;
use super::installed::{InstallError, InstalledToolchains, Record, StoredFiles};
use super::manifest::{MANIFEST, Manifest, ManifestError, is_below};
use super::names::at;
use super::trees::{FolderTree, StoredTree};
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};
use crate::kernel::machine::TOOLCHAINS_ROOT;
use crate::kernel::process::programs::NeededTree;
use crate::kernel::vfs::{HostDir, Layer};
use crate::tape::Launch;

/// A toolchain that its manifest describes, in a folder or installed.
#[derive(Clone, Debug)]
pub struct Toolchain {
    place: Place,
    manifest: Manifest,
    /// Of the manifest.
    digest: Digest,
}

#[derive(Clone, Debug)]
enum Place {
    Folder(PathBuf),
    Installed {
        store: InstalledToolchains,
        modules: BTreeMap<String, Digest>,
        files: Arc<StoredFiles>,
    },
}

impl PartialEq for Toolchain {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest && self.dir() == other.dir()
    }
}

impl Eq for Toolchain {}

/// A program of a [`Toolchain`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// What runs it.
    pub code: Code,
    /// What it is started with.
    pub launch: Launch,
    /// Its toolchain.
    pub toolchain: Arc<Toolchain>,
}

impl Described {
    /// Checks that its module is not reached by a link.
    ///
    /// # Errors
    /// It is, or cannot be examined.
    pub(super) fn expect_no_link(&self) -> Result<(), DiskError> {
        let entry = self.toolchain.manifest.programs.get(&self.name);
        match (&self.toolchain.place, entry.and_then(|entry| entry.module.as_ref())) {
            (Place::Folder(dir), Some(module)) => expect_no_link(dir, module),
            _ => Ok(()),
        }
    }

    /// The trees of its toolchain, which it needs read-only, and where.
    ///
    /// # Errors
    /// A folder cannot be opened.
    pub fn trees(&self) -> Result<Vec<NeededTree>, DiskError> {
        self.toolchain.trees()
    }
}

/// What runs a program of a toolchain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Code {
    /// A module, in a file; with its digest, if it is known.
    Module(PathBuf, Option<Digest>),
    /// The shell; the script is its first argument.
    Script,
}

impl Toolchain {
    /// Opens the toolchain in the folder `dir`, if that has a manifest.
    ///
    /// # Errors
    /// [`ManifestError`].
    pub fn open(dir: &Path) -> Result<Option<Self>, ManifestError> {
        let path = dir.join(MANIFEST);
        if disk::symlink_metadata(&path).is_err() {
            return Ok(None);
        }
        let (manifest, digest) = Manifest::read(&path)?;
        Ok(Some(Self { place: Place::Folder(dir.to_owned()), manifest, digest }))
    }

    /// The toolchain `name`, which is installed in `store`.
    ///
    /// # Errors
    /// [`InstallError`].
    pub fn installed(store: &InstalledToolchains, name: &str) -> Result<Self, InstallError> {
        Ok(Self::of_record(store, store.record(name)?))
    }

    /// The toolchain `name` whose manifest has the digest `digest`, if it is installed in `store`.
    ///
    /// # Errors
    /// [`InstallError`].
    pub fn version(
        store: &InstalledToolchains,
        name: &str,
        digest: Digest,
    ) -> Result<Option<Self>, InstallError> {
        Ok(store.version(name, digest)?.map(|record| Self::of_record(store, record)))
    }

    fn of_record(store: &InstalledToolchains, record: Record) -> Self {
        let files = store.files(&record);
        let Record { manifest, digest, modules, .. } = record;
        Self { place: Place::Installed { store: store.clone(), modules, files }, manifest, digest }
    }

    /// Whether it is installed.
    pub fn is_installed(&self) -> bool {
        matches!(self.place, Place::Installed { .. })
    }

    /// The folder, or the directory of installed toolchains.
    pub fn dir(&self) -> &Path {
        match &self.place {
            Place::Folder(dir) => dir,
            Place::Installed { store, .. } => store.dir(),
        }
    }

    /// The digest of its manifest.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Its description.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Its directory in the namespace. It depends on the digest of the manifest, so that two versions have two.
    pub fn root(&self) -> String {
        format!("{TOOLCHAINS_ROOT}/{}", self.id())
    }

    /// Its directory below [`TOOLCHAINS_ROOT`].
    pub(super) fn id(&self) -> String {
        let digest = self.digest.to_string();
        format!("{}-{}", self.manifest.name, &digest[..12])
    }

    /// The program `name`, if it has one.
    pub fn program(self: &Arc<Self>, name: &str) -> Option<Described> {
        let entry = self.manifest.programs.get(name)?;
        let root = self.root();
        let mut launch = Launch {
            argv0: entry.argv0.clone(),
            args: entry.args_in(&root).collect(),
            env: entry.env_in(&root).collect(),
            trees: Vec::new(),
        };
        let code = match (&entry.module, &entry.script) {
            (Some(module), _) => self.module(module),
            (None, script) => {
                let script = script.as_deref().unwrap_or_default();
                launch.args.insert(0, format!("{root}/{script}"));
                Code::Script
            }
        };
        Some(Described { name: name.to_owned(), code, launch, toolchain: self.clone() })
    }

    fn module(&self, path: &str) -> Code {
        match &self.place {
            Place::Folder(dir) => Code::Module(at(dir, path), None),
            Place::Installed { store, modules, .. } => match modules.get(path) {
                Some(content) => Code::Module(store.content_path(*content), Some(*content)),
                // Damaged: the error will name it.
                None => Code::Module(store.dir().join(path), None),
            },
        }
    }

    /// The number of files in the folder `folder` of it, and their bytes.
    ///
    /// # Errors
    /// A folder cannot be read; the list of an installed toolchain's files is damaged.
    pub fn size_of(&self, folder: &str) -> Result<(usize, u64), DiskError> {
        match &self.place {
            Place::Folder(dir) => disk::size_of(&at(dir, folder)),
            Place::Installed { files, .. } => {
                let below = |path: &str| folder == "." || is_below(path, folder);
                let list = files.list().map_err(|reason| self.unreadable(reason))?;
                let sizes = list.iter().filter(|file| below(file.path)).map(|file| file.len_bytes);
                Ok(sizes.fold((0, 0), |(files, bytes), len_bytes| (files + 1, bytes + len_bytes)))
            }
        }
    }

    fn unreadable(&self, reason: &str) -> DiskError {
        let message = format!("{reason}: install the toolchain {} again", self.manifest.name);
        let cause = std::io::Error::other(message);
        DiskError::new("read the files of a toolchain in", self.dir())(cause)
    }

    /// Its trees, and where they are in the namespace.
    ///
    /// # Errors
    /// A folder cannot be opened; the list of an installed toolchain's files is damaged.
    pub fn trees(&self) -> Result<Vec<NeededTree>, DiskError> {
        let root = self.root();
        let tree = |(guest, folder): (&String, &String)| {
            let layer: Arc<dyn Layer> = match &self.place {
                Place::Folder(dir) => {
                    expect_no_link(dir, folder)?;
                    let folder = at(dir, folder);
                    let dir = HostDir::open(&folder).map_err(DiskError::new("open", &folder))?;
                    Arc::new(FolderTree(dir))
                }
                Place::Installed { files, .. } => {
                    files.list().map_err(|reason| self.unreadable(reason))?;
                    Arc::new(StoredTree::new(files.clone(), folder))
                }
            };
            Ok(NeededTree { at: format!("{root}/{guest}"), layer })
        };
        self.manifest.trees.iter().map(tree).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toolchain(manifest: &str) -> (tempfile::TempDir, Arc<Toolchain>) {
        let folder = tempfile::tempdir().unwrap();
        let mut file = disk::create(&folder.path().join(MANIFEST)).unwrap();
        std::io::Write::write_all(&mut file, manifest.as_bytes()).unwrap();
        let toolchain = Arc::new(Toolchain::open(folder.path()).unwrap().unwrap());
        (folder, toolchain)
    }

    #[test]
    fn programs_know_where_their_toolchain_is() {
        let (folder, toolchain) = toolchain(
            r#"{
                "format": "1.0", "name": "cc", "version": "2",
                "programs": {
                    "cc1": {
                        "module": "wasm/cc1.wasm", "argv0": "cc", "args": ["-I{toolchain}/include"],
                        "env": {"ROOT": "{toolchain}"}
                    },
                    "gcc": {"script": "bin/gcc.sh", "args": ["-O"]}
                },
                "trees": {"bin": "scripts", "include": "include"}
            }"#,
        );
        let root = toolchain.root();
        assert!(root.starts_with("/.belljar/cc-"), "{root}");
        let cc1 = toolchain.program("cc1").unwrap();
        assert_eq!(cc1.code, Code::Module(folder.path().join("wasm").join("cc1.wasm"), None));
        let launch = Launch {
            argv0: Some("cc".to_owned()),
            args: vec![format!("-I{root}/include")],
            env: vec![format!("ROOT={root}")],
            trees: Vec::new(),
        };
        assert_eq!(cc1.launch, launch);
        let gcc = toolchain.program("gcc").unwrap();
        assert_eq!(
            (gcc.code, gcc.launch.args),
            (Code::Script, vec![format!("{root}/bin/gcc.sh"), "-O".to_owned()])
        );
        assert_eq!(toolchain.program("ld"), None);
    }
}
