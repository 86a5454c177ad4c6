//! From errors of the library to exceptions.

use std::fmt::Debug;

use belljar::Errno;
use belljar::kernel::vfs::ApplyError;
use belljar::sandbox::{CopyError, SandboxError};
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;

/// An exception: `class` of `belljar._errors`, made from `args`.
pub fn raise<'py>(py: Python<'py>, class: &str, args: impl PyCallArgs<'py>) -> PyErr {
    let made = py.import("belljar._errors").and_then(|errors| errors.getattr(class)?.call1(args));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// `belljar.Error` with the message and the causes of `error`.
pub fn other(py: Python<'_>, error: &impl Debug) -> PyErr {
    raise(py, "Error", (format!("{error:?}"),))
}

/// `belljar.InvalidArgument`.
pub fn invalid(py: Python<'_>, message: impl Into<String>) -> PyErr {
    raise(py, "InvalidArgument", (message.into(),))
}

/// `belljar.PathError`: `operation` on `path` failed.
pub fn of_path(py: Python<'_>, operation: &str, path: &str, errno: Errno) -> PyErr {
    raise(py, "path_error", (operation, path, errno.name(), errno.to_string()))
}

/// The exception for `error`.
pub fn of_sandbox(py: Python<'_>, error: &SandboxError) -> PyErr {
    match error {
        SandboxError::Exec { command, is_found: false, .. } => {
            raise(py, "ProgramNotFound", (format!("{error:?}"), command))
        }
        SandboxError::InvalidRequest { .. } => invalid(py, format!("{error:?}")),
        error => other(py, error),
    }
}

/// The exception for `error`.
pub fn of_copy(py: Python<'_>, error: &CopyError) -> PyErr {
    match error {
        CopyError::Path { operation, path, errno } => of_path(py, operation, path, *errno),
        error => other(py, error),
    }
}

/// The exception for `error`.
pub fn of_apply(py: Python<'_>, error: &ApplyError) -> PyErr {
    match error {
        ApplyError::Conflicts(conflicts) => {
            let paths: Vec<String> = conflicts.iter().map(ToString::to_string).collect();
            raise(py, "Conflict", (format!("{error:?}"), paths))
        }
        error => other(py, error),
    }
}
