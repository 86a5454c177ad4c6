//! Values of JSON, in both languages.

use pyo3::prelude::*;
use serde_json::Value;

/// The value that the module `json` of Python encodes `object` as.
///
/// # Errors
/// `TypeError` or `ValueError` of that module.
pub fn from_python(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    let text = object.py().import("json")?.call_method1("dumps", (object,))?;
    let text: String = text.extract()?;
    belljar::host::parse_json(text.as_bytes())
        .map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))
}

/// `value` as an object of Python.
///
/// # Errors
/// Those of the module `json` of Python.
pub fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (value.to_string(),))
}
