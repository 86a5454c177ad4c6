//! From a program's name to its module.

use std::path::{Path, PathBuf};

use super::demo;
use crate::base::disk::{self, DiskError};
use crate::engine::{Module, ProgramError};

/// A program was not found.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The name cannot be one of a program.
    #[error("{name:?} cannot be the name of a program: {why}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No folder has it.
    #[error("no program {name:?} in {}", list(searched))]
    NotFound {
        /// The name.
        name: String,
        /// The folders that were searched; none if only the built-in programs were.
        searched: Vec<PathBuf>,
    },
    /// A folder cannot be searched.
    #[error("toolchain folder")]
    Folder(#[from] DiskError),
}

fn list(searched: &[PathBuf]) -> String {
    let mut places: Vec<String> = searched.iter().map(|dir| dir.display().to_string()).collect();
    places.push("the built-in programs".to_owned());
    places.join(", ")
}

/// Where the module of a program is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resolved {
    /// In a file.
    File(PathBuf),
    /// In belljar itself.
    BuiltIn {
        /// The program's name.
        name: &'static str,
        /// The module.
        bytes: &'static [u8],
    },
}

impl Resolved {
    /// The module.
    ///
    /// # Errors
    /// As [`Module::read`].
    pub fn module(&self) -> Result<Module, ProgramError> {
        match self {
            Self::File(path) => Module::read(path),
            Self::BuiltIn { name, bytes } => Module::from_bytes(*name, bytes.to_vec()),
        }
    }
}

/// Folders of modules in which `<name>.wasm` is the program `name`, and the built-in programs,
/// which come last.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Toolchains {
    dirs: Vec<PathBuf>,
}

impl Toolchains {
    /// The folders `dirs`, searched in this order.
    ///
    /// # Errors
    /// [`ResolveError::Folder`] if one is missing or no folder.
    pub fn new(dirs: Vec<PathBuf>) -> Result<Self, ResolveError> {
        for dir in &dirs {
            disk::list(dir)?;
        }
        Ok(Self { dirs })
    }

    /// The module of the program `name`. Compiled code (`.cwasm`) is never looked for.
    ///
    /// # Errors
    /// [`ResolveError`]: `BadName` for an empty name, one with a separator, a drive letter or NUL,
    /// `.` and `..`; `NotFound`.
    pub fn resolve(&self, name: &str) -> Result<Resolved, ResolveError> {
        check_name(name)?;
        let file = |dir: &PathBuf| dir.join(format!("{name}.wasm"));
        let is_file = |path: &Path| disk::metadata(path).is_ok_and(|metadata| metadata.is_file());
        if let Some(path) = self.dirs.iter().map(file).find(|path| is_file(path)) {
            return Ok(Resolved::File(path));
        }
        match demo::PROGRAMS.iter().find(|(known, _)| *known == name) {
            Some((name, bytes)) => Ok(Resolved::BuiltIn { name, bytes }),
            None => {
                Err(ResolveError::NotFound { name: name.to_owned(), searched: self.dirs.clone() })
            }
        }
    }

    /// The names of all programs, sorted, each once.
    ///
    /// # Errors
    /// [`ResolveError::Folder`] if a folder cannot be read.
    pub fn names(&self) -> Result<Vec<String>, ResolveError> {
        let mut names: Vec<String> =
            demo::PROGRAMS.iter().map(|(name, _)| (*name).into()).collect();
        for dir in &self.dirs {
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

fn check_name(name: &str) -> Result<(), ResolveError> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name == "." || name == ".." {
        "it is a directory"
    } else if name.contains(['/', '\\']) {
        "it holds a path separator"
    } else if name.contains(':') {
        "it holds a drive letter"
    } else if name.contains('\0') {
        "it holds NUL"
    } else {
        return Ok(());
    };
    Err(ResolveError::BadName { name: name.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_lead_elsewhere_are_refused() {
        let toolchains = Toolchains::default();
        for name in ["", ".", "..", "a/b", "..\\x", "C:x", "a\0b"] {
            assert!(
                matches!(toolchains.resolve(name), Err(ResolveError::BadName { .. })),
                "{name:?}"
            );
        }
    }

    #[test]
    fn compiled_code_in_a_toolchain_folder_is_not_a_program() {
        let dir = tempfile::tempdir().unwrap();
        crate::base::disk::create(&dir.path().join("x.cwasm")).unwrap();
        let toolchains = Toolchains::new(vec![dir.path().to_owned()]).unwrap();
        assert!(matches!(toolchains.resolve("x"), Err(ResolveError::NotFound { .. })));
        assert!(!toolchains.names().unwrap().contains(&"x".to_owned()));
    }
}
