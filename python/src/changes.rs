//! What programs changed.

use std::sync::Arc;

use belljar::Errno;
use belljar::kernel::vfs::{
    CompareError, DiffEntry, DiffError, DiffKind, FileType, FileVersion, Overlay, VPath,
    diff_overlays, render_unified_diff,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;

/// A change of a file, a directory or a link.
#[pyclass(frozen, module = "belljar._native")]
#[derive(Clone)]
pub struct Change {
    /// The absolute path, as programs see it.
    #[pyo3(get)]
    path: String,
    /// The path below the mount point.
    #[pyo3(get)]
    relative: String,
    /// `added`, `modified` or `deleted`.
    #[pyo3(get)]
    kind: &'static str,
    /// `file`, `directory`, `symlink` or `special`.
    #[pyo3(get)]
    file_type: &'static str,
    /// The absolute path from which it was moved.
    #[pyo3(get)]
    renamed_from: Option<String>,
    before: Version,
    after: Version,
}

/// One side of a change.
#[derive(Clone)]
pub enum Version {
    /// Nothing, or something without content.
    Missing,
    /// A file, whose content is read when it is asked for.
    File(FileVersion),
    /// The content of a file, and whether its owner may execute it.
    Loaded(Arc<[u8]>, bool),
    /// The text of a symbolic link.
    Link(Box<[u8]>),
}

/// Of versions that are read.
impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Missing, Self::Missing) => true,
            (Self::Loaded(a, was), Self::Loaded(b, is)) => a == b && was == is,
            (Self::Link(a), Self::Link(b)) => a == b,
            _ => false,
        }
    }
}

impl Version {
    fn read(&self, py: Python<'_>, path: &str) -> PyResult<Option<Py<PyBytes>>> {
        let bytes = match self {
            Self::Missing => return Ok(None),
            Self::Link(target) => return Ok(Some(PyBytes::new(py, target).unbind())),
            Self::Loaded(bytes, _) => return Ok(Some(PyBytes::new(py, bytes).unbind())),
            Self::File(file) => {
                let read = py.detach(|| file.read());
                read.map_err(|errno| errors::of_path(py, "read", path, errno))?
            }
        };
        Ok(Some(PyBytes::new(py, &bytes).unbind()))
    }

    fn is_executable(&self) -> bool {
        match self {
            Self::File(file) => file.executable,
            Self::Loaded(_, is_executable) => *is_executable,
            Self::Missing | Self::Link(_) => false,
        }
    }

    fn load(&mut self) -> Result<(), Errno> {
        if let Self::File(file) = self {
            *self = Self::Loaded(file.read()?.into(), file.executable);
        }
        Ok(())
    }
}

impl Change {
    /// Describes `entry`, a change in a mount at `mount`.
    pub fn new(entry: DiffEntry, mount: &str) -> Self {
        let (kind, file_type, before, after) = match entry.kind {
            DiffKind::Added { content } => {
                ("added", "file", Version::Missing, Version::File(content))
            }
            DiffKind::Modified { before, content } => {
                ("modified", "file", Version::File(before), Version::File(content))
            }
            DiffKind::Deleted { before } => {
                ("deleted", "file", Version::File(before), Version::Missing)
            }
            DiffKind::DirAdded => ("added", "directory", Version::Missing, Version::Missing),
            DiffKind::DirDeleted => ("deleted", "directory", Version::Missing, Version::Missing),
            DiffKind::SymlinkAdded { target } => {
                ("added", "symlink", Version::Missing, Version::Link(target))
            }
            DiffKind::SymlinkModified { before, target } => {
                ("modified", "symlink", Version::Link(before), Version::Link(target))
            }
            DiffKind::SymlinkDeleted { before } => {
                ("deleted", "symlink", Version::Link(before), Version::Missing)
            }
            DiffKind::SpecialAdded { .. } => {
                ("added", "special", Version::Missing, Version::Missing)
            }
            DiffKind::SpecialDeleted { .. } => {
                ("deleted", "special", Version::Missing, Version::Missing)
            }
        };
        Self {
            path: entry.path.absolute(mount),
            relative: entry.path.as_str().to_owned(),
            kind,
            file_type,
            renamed_from: entry.renamed_from.map(|from| from.absolute(mount)),
            before,
            after,
        }
    }

    /// A change of `path` in memory, with what was there and what is.
    pub fn in_memory(
        path: &str,
        file_type: FileType,
        kind: &'static str,
        [before, after]: [Version; 2],
    ) -> Self {
        let file_type = match file_type {
            FileType::RegularFile => "file",
            FileType::Directory => "directory",
            FileType::SymbolicLink => "symlink",
            _ => "special",
        };
        let (path, relative) = (path.to_owned(), path.trim_start_matches('/').to_owned());
        Self { path, relative, kind, file_type, renamed_from: None, before, after }
    }

    /// The absolute path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Reads both sides, as what they are read from will be gone.
    ///
    /// # Errors
    /// As [`FileVersion::read`].
    pub fn load(&mut self) -> Result<(), Errno> {
        self.before.load()?;
        self.after.load()
    }

    /// All changes in `overlay`.
    ///
    /// # Errors
    /// As [`Overlay::diff`].
    pub fn all(overlay: &mut Overlay) -> Result<Vec<Self>, DiffError> {
        let entries = overlay.diff()?;
        Ok(Self::in_mounts(entries, overlay))
    }

    /// The changes that turn `before` into `after`.
    ///
    /// # Errors
    /// As [`diff_overlays`].
    pub fn since(before: &mut Overlay, after: &mut Overlay) -> Result<Vec<Self>, CompareError> {
        let entries = diff_overlays(before, after)?;
        Ok(Self::in_mounts(entries, after))
    }

    fn in_mounts(entries: Vec<DiffEntry>, overlay: &Overlay) -> Vec<Self> {
        let mounts = overlay.mounts();
        let change = |entry: DiffEntry| {
            let mount = mounts[entry.mount.index()].path();
            Self::new(entry, &mount)
        };
        entries.into_iter().map(change).collect()
    }

    /// All changes in `overlay` as a patch for `git apply`, with paths below `/`.
    ///
    /// # Errors
    /// As [`Overlay::diff`], and [`render_unified_diff`].
    pub fn patch(overlay: &mut Overlay) -> Result<String, DiffError> {
        let entries = overlay.diff()?;
        let mut text = String::new();
        for (at, mount) in overlay.mounts().iter().enumerate() {
            let of_mount = entries.iter().filter(|entry| entry.mount.index() == at);
            let prefix = VPath::parse(&mount.path()).unwrap_or_else(|_| VPath::root());
            text.push_str(&render_unified_diff(of_mount, &prefix)?);
        }
        Ok(text)
    }
}

#[pymethods]
impl Change {
    /// The content before, or the text of a link; `None` if there was nothing, or a directory.
    #[getter]
    fn before(&self, py: Python<'_>) -> PyResult<Option<Py<PyBytes>>> {
        self.before.read(py, &self.path)
    }

    /// The content now, or the text of a link; `None` if there is nothing, or a directory.
    #[getter]
    fn after(&self, py: Python<'_>) -> PyResult<Option<Py<PyBytes>>> {
        self.after.read(py, &self.path)
    }

    /// Whether it is now a file that its owner may execute.
    #[getter]
    fn executable(&self) -> bool {
        self.after.is_executable()
    }

    fn __repr__(&self) -> String {
        format!("<Change {} {} {:?}>", self.kind, self.file_type, self.path)
    }
}
