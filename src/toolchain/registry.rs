//! Finds the module of a program by name.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::demo;
use super::described::{Code, Described, Toolchain};
use super::installed::{InstallError, InstalledToolchains};
use super::manifest::ManifestError;
use super::names;
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};
use crate::engine::{Module, ProgramError};
use crate::store::FileDigests;

/// A program could not be found.
#[derive(thiserror::Error)]
pub enum ResolveError {
    /// The name is not valid for a program.
    #[error("{name:?} cannot be the name of a program: {why}")]
    BadName {
        /// The name.
        name: String,
        /// The reason.
        why: &'static str,
    },
    /// No directory has it.
    #[error("no program {name:?}: looked {}{}", places(name, searched), meant(similar))]
    NotFound {
        /// The name.
        name: String,
        /// The directories searched, in order, before the built-in programs.
        searched: Vec<PathBuf>,
        /// Known names, the most similar first; see [`similar`].
        similar: Vec<String>,
    },
    /// Only a precompiled file has the name.
    #[error(
        "{} is precompiled machine code, which cannot be checked: run the .wasm that it was made from",
        path.display()
    )]
    Precompiled {
        /// The file.
        path: PathBuf,
    },
    /// The path of a module is a directory.
    #[error(
        "{path} is a directory, not a module; to run one of its programs by name: --toolchain {path}",
        path = path.display()
    )]
    IsFolder {
        /// The directory.
        path: PathBuf,
    },
    /// A directory cannot be searched.
    #[error(transparent)]
    Folder(#[from] DiskError),
    /// The manifest of a toolchain is wrong.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// An installed toolchain cannot be read.
    #[error(transparent)]
    Installed(Arc<InstallError>),
}

crate::base::readable::readable!(ResolveError);

fn places(name: &str, searched: &[PathBuf]) -> String {
    let dirs: Vec<String> = searched.iter().map(|dir| dir.display().to_string()).collect();
    if dirs.is_empty() {
        return "among the built-in programs".to_owned();
    }
    format!("for {name}.wasm in {}, then among the built-in programs", dirs.join(", then "))
}

/// The end of a message about a name that is unknown, with those that are `similar`.
pub fn meant(similar: &[String]) -> String {
    if similar.is_empty() {
        String::new()
    } else {
        format!("; did you mean {}?", similar.join(", "))
    }
}

/// Returns at most three of `known` that `word` may be a misspelling of, the most similar first: it is the
/// beginning of them, or one letter in three is wrong, missing, added or swapped with its neighbour.
pub fn similar(word: &str, known: &[String]) -> Vec<String> {
    let edits_max = (word.chars().count() / 3).max(1);
    let distance = |name: &&String| strsim::damerau_levenshtein(word, name);
    let is_similar = |name: &&String| distance(name) <= edits_max || name.starts_with(word);
    let mut found: Vec<&String> = known.iter().filter(is_similar).collect();
    found.sort_by_key(distance);
    found.into_iter().take(3).cloned().collect()
}

/// The location of a program's module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resolved {
    /// In a file.
    File(PathBuf),
    /// Built in.
    BuiltIn {
        /// The program's name.
        name: &'static str,
        /// The module.
        bytes: &'static [u8],
    },
    /// In a toolchain with a manifest.
    Described(Described),
}

impl Resolved {
    /// Refers to the module in the file `path`, which need not exist.
    ///
    /// # Errors
    /// [`ResolveError`]: `Precompiled` for a name that ends in `.cwasm`, `IsFolder`.
    pub fn at(path: PathBuf) -> Result<Self, ResolveError> {
        if path.extension().is_some_and(|extension| extension == "cwasm") {
            return Err(ResolveError::Precompiled { path });
        }
        if disk::metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            return Err(ResolveError::IsFolder { path });
        }
        Ok(Self::File(path))
    }

    /// Reads the module.
    ///
    /// # Errors
    /// As [`Module::read`]; `Script` for a script.
    pub fn module(&self) -> Result<Module, ProgramError> {
        self.module_known(None)
    }

    /// As [`Resolved::module`], with [`Module::read_known`].
    ///
    /// # Errors
    /// As [`Resolved::module`].
    pub fn module_known(&self, digests: Option<&FileDigests>) -> Result<Module, ProgramError> {
        match self {
            Self::File(path) => Module::read_known(path, digests),
            Self::Described(
                described @ Described { name, code: Code::Module(path, digest), .. },
            ) => {
                described.expect_no_link()?;
                let toolchain = described.toolchain.manifest().name.clone();
                let damaged = || ProgramError::Damaged { toolchain, path: path.clone() };
                match (Module::read_known(path, digests), digest) {
                    (Ok(module), Some(digest)) if module.digest() != *digest => Err(damaged()),
                    (Err(ProgramError::Read(_)), Some(_)) => Err(damaged()),
                    (module, _) => Ok(module?.named(name)),
                }
            }
            Self::Described(Described { name, code: Code::Script, .. }) => {
                Err(ProgramError::Script { name: name.clone() })
            }
            Self::BuiltIn { name, bytes } => Module::from_bytes(*name, bytes.to_vec()),
        }
    }
}

/// Toolchains, searched one after the other, followed by the built-in programs. A toolchain is a directory with a
/// manifest, or one in which `<name>.wasm` is the program `name`.
#[derive(Clone, Debug, Default)]
pub struct Toolchains {
    places: Vec<Place>,
    /// Why an installed toolchain cannot be used. Programs of the others run.
    damaged: Option<Arc<InstallError>>,
    /// Keeps the contents of installed toolchains.
    hold: Option<Arc<File>>,
}

#[derive(Clone, Debug)]
enum Place {
    Plain(PathBuf),
    Described(Arc<Toolchain>),
}

impl Place {
    fn dir(&self) -> &Path {
        match self {
            Self::Plain(dir) => dir,
            Self::Described(toolchain) => toolchain.dir(),
        }
    }

    fn is_installed(&self) -> bool {
        matches!(self, Self::Described(toolchain) if toolchain.is_installed())
    }

    fn find(&self, name: &str) -> Option<Resolved> {
        match self {
            Self::Plain(dir) => {
                let path = dir.join(format!("{name}.wasm"));
                is_file(&path).then_some(Resolved::File(path))
            }
            Self::Described(toolchain) => toolchain.program(name).map(Resolved::Described),
        }
    }
}

impl Toolchains {
    /// Creates a list of the directories `dirs`, searched in this order.
    ///
    /// # Errors
    /// [`ResolveError`]: `Folder` if one does not exist or is not a directory; `Manifest`.
    pub fn new(dirs: Vec<PathBuf>) -> Result<Self, ResolveError> {
        let place = |dir: PathBuf| {
            if let Some(toolchain) = Toolchain::open(&dir)? {
                return Ok(Place::Described(Arc::new(toolchain)));
            }
            disk::list(&dir)?;
            Ok(Place::Plain(dir))
        };
        let places = dirs.into_iter().map(place).collect::<Result<_, ResolveError>>()?;
        Ok(Self { places, ..Self::default() })
    }

    /// Adds `others`, which are searched after these.
    #[must_use]
    pub fn then(mut self, others: Self) -> Self {
        self.places.extend(others.places);
        self.damaged = self.damaged.or(others.damaged);
        self.hold = self.hold.or(others.hold);
        self
    }

    /// Adds the toolchain `name` of the version `version`, whose manifest has the digest `digest`, which is searched after
    /// the others.
    ///
    /// # Errors
    /// [`InstallError`]: `VersionMissing` if it is not installed in `store`; `Disk`, `Record`, `Manifest`.
    pub fn with_version(
        mut self,
        store: &InstalledToolchains,
        name: &str,
        version: &str,
        digest: Digest,
    ) -> Result<Self, InstallError> {
        self.hold = self.hold.or_else(|| store.hold().map(Arc::new));
        let found = Toolchain::version(store, name, digest)?;
        let toolchain = found.ok_or_else(|| InstallError::VersionMissing {
            name: name.to_owned(),
            version: version.to_owned(),
            digest,
        })?;
        self.places.push(Place::Described(Arc::new(toolchain)));
        Ok(self)
    }

    /// The directories of those that are not installed.
    pub fn dirs(&self) -> impl Iterator<Item = &Path> {
        self.places.iter().filter(|place| !place.is_installed()).map(Place::dir)
    }

    /// Adds the toolchains in `store`, sorted by name, which are searched after the others. One that is damaged is an
    /// error for names that no other has.
    ///
    /// # Errors
    /// [`ResolveError::Folder`] if the store cannot be read.
    pub fn with_installed(mut self, store: &InstalledToolchains) -> Result<Self, ResolveError> {
        self.hold = store.hold().map(Arc::new);
        for name in store.names()? {
            match Toolchain::installed(store, &name) {
                Ok(toolchain) => self.places.push(Place::Described(Arc::new(toolchain))),
                Err(error) => self.damaged = Some(Arc::new(error)),
            }
        }
        Ok(self)
    }

    /// Adds those of the toolchains `names` that are installed in `store`, as [`Toolchains::with_installed`] adds all.
    ///
    /// # Errors
    /// [`ResolveError`]: `Folder` if the store cannot be read; `Installed` if one is damaged.
    pub fn with_installed_of(
        mut self,
        store: &InstalledToolchains,
        names: &[String],
    ) -> Result<Self, ResolveError> {
        self.hold = store.hold().map(Arc::new);
        for name in names {
            if store.has(name)? {
                let toolchain = Toolchain::installed(store, name);
                let toolchain =
                    toolchain.map_err(|error| ResolveError::Installed(Arc::new(error)))?;
                self.places.push(Place::Described(Arc::new(toolchain)));
            }
        }
        Ok(self)
    }

    /// The toolchains with a manifest, in the order in which they are searched.
    pub fn described(&self) -> impl Iterator<Item = &Arc<Toolchain>> {
        self.places.iter().filter_map(|place| match place {
            Place::Plain(_) => None,
            Place::Described(toolchain) => Some(toolchain),
        })
    }

    /// Finds the module of the program `name`; `ID/NAME` is a program of the toolchain whose directory below
    /// `/.belljar` is `ID`. Compiled code (`.cwasm`) is not used.
    ///
    /// # Errors
    /// As [`Toolchains::find`]; [`ResolveError`]: `NotFound`, with similar names; `Folder` if a directory cannot be
    /// read to find those.
    pub fn resolve(&self, name: &str) -> Result<Resolved, ResolveError> {
        if let Some(found) = self.find(name)? {
            return Ok(found);
        }
        let similar = similar(name, &self.names()?);
        let searched = self.dirs().map(Path::to_owned).collect();
        Err(ResolveError::NotFound { name: name.to_owned(), searched, similar })
    }

    /// As [`Toolchains::resolve`], for callers that go on without the program: no similar names are searched for.
    ///
    /// # Errors
    /// [`ResolveError`]: `BadName` for an empty name, one with a separator, a drive letter or NUL, `.`
    /// and `..`; `Precompiled` if only that exists; `Installed` if an installed toolchain is damaged.
    pub fn find(&self, name: &str) -> Result<Option<Resolved>, ResolveError> {
        if let Some(found) = self.qualified(name) {
            return Ok(Some(found));
        }
        check_name(name)?;
        if let Some(found) = self.places.iter().find_map(|place| place.find(name)) {
            return Ok(Some(found));
        }
        if let Some((name, bytes)) = demo::find(name) {
            return Ok(Some(Resolved::BuiltIn { name, bytes }));
        }
        let compiled = self.places.iter().filter_map(|place| match place {
            Place::Plain(dir) => Some(dir.join(format!("{name}.cwasm"))),
            Place::Described(_) => None,
        });
        if let Some(path) = compiled.into_iter().find(|path| is_file(path)) {
            return Err(ResolveError::Precompiled { path });
        }
        match &self.damaged {
            Some(error) => Err(ResolveError::Installed(error.clone())),
            None => Ok(None),
        }
    }

    /// The program `ID/NAME`.
    fn qualified(&self, name: &str) -> Option<Resolved> {
        let (id, program) = name.split_once('/')?;
        let toolchain = self.described().find(|toolchain| toolchain.id() == id)?;
        toolchain.program(program).map(Resolved::Described)
    }

    /// Finds all programs called `name`, or `ID/NAME` with any `ID`: first that of [`Toolchains::resolve`], then
    /// those that it hides.
    pub fn all(&self, name: &str) -> Vec<Resolved> {
        let name = name.rsplit('/').next().unwrap_or(name);
        if check_name(name).is_err() {
            return Vec::new();
        }
        let built_in = demo::find(name).map(|(name, bytes)| Resolved::BuiltIn { name, bytes });
        self.places.iter().filter_map(|place| place.find(name)).chain(built_in).collect()
    }

    /// The names of all programs, sorted, each once.
    ///
    /// # Errors
    /// [`ResolveError::Folder`] if a directory cannot be read.
    pub fn names(&self) -> Result<Vec<String>, ResolveError> {
        let mut names: Vec<String> = demo::names().map(Into::into).collect();
        for place in &self.places {
            let dir = match place {
                Place::Plain(dir) => dir,
                Place::Described(toolchain) => {
                    names.extend(toolchain.manifest().programs.keys().cloned());
                    continue;
                }
            };
            for path in disk::list(dir)? {
                if path.extension().is_some_and(|extension| extension == "wasm")
                    && let Some(stem) = path.file_stem().and_then(|stem| stem.to_str())
                {
                    names.push(stem.to_owned());
                }
            }
        }
        names.sort();
        names.dedup();
        Ok(names)
    }
}

fn is_file(path: &Path) -> bool {
    disk::metadata(path).is_ok_and(|metadata| metadata.is_file())
}

fn check_name(name: &str) -> Result<(), ResolveError> {
    match names::why_not(name) {
        Some(why) => Err(ResolveError::BadName { name: name.to_owned(), why }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_paths_are_refused() {
        let toolchains = Toolchains::default();
        for name in ["", ".", "..", "a/b", "..\\x", "C:x", "a\0b"] {
            assert!(
                matches!(toolchains.resolve(name), Err(ResolveError::BadName { .. })),
                "{name:?}"
            );
        }
    }

    #[test]
    fn precompiled_file_in_a_toolchain_is_not_a_program() {
        let dir = tempfile::tempdir().unwrap();
        crate::base::disk::create(&dir.path().join("x.cwasm")).unwrap();
        let toolchains = Toolchains::new(vec![dir.path().to_owned()]).unwrap();
        assert!(matches!(toolchains.resolve("x"), Err(ResolveError::Precompiled { .. })));
        assert!(matches!(toolchains.resolve("x.cwasm"), Err(ResolveError::NotFound { .. })));
        assert!(!toolchains.names().unwrap().contains(&"x".to_owned()));
    }

    #[test]
    fn similar_names_are_suggested_for_misspelt_programs_only() {
        let similar = |name: &str| match Toolchains::default().resolve(name) {
            Err(ResolveError::NotFound { similar, .. }) => similar,
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(similar("jsnofmt"), ["jsonfmt"]);
        assert_eq!(similar("sha256"), ["sha256sum"]);
        assert_eq!(similar("act"), ["cat"]);
        assert_eq!(similar("clang"), [] as [&str; 0]);
    }
}
