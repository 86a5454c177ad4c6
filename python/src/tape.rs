//! Tapes: replayed and compared.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use belljar::tape::{Desync, FidelityMode, Tape, TapeError, TapeStore};
use belljar::testbench::{ReplayError, Replayed};
use belljar::{Digest, Limits, Module, Output, RunError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::engine;
use crate::errors;
use crate::settings::seconds;
use crate::slot::LOOK_EVERY;

/// Longest module on a tape, in bytes.
const MODULE_BYTES_MAX: u64 = 1 << 30;

/// Of each process of a replayed run: exit code, standard output, standard error, or why it did not start.
type Outputs = Vec<(i64, Py<PyBytes>, Py<PyBytes>, Option<String>)>;

/// Replays the run on the tape at `path`; returns the number of records, and the outputs.
///
/// # Errors
/// `TapeMismatch` at the first difference; `TapeError`.
#[pyfunction]
pub fn replay(
    py: Python<'_>,
    path: PathBuf,
    modules: Vec<PathBuf>,
    toolchains: Vec<PathBuf>,
    timeout: f64,
) -> PyResult<(u64, Outputs)> {
    let bounds = Limits { timeout: Some(seconds(py, "timeout", timeout)?), ..Limits::default() };
    let result = Arc::new((Mutex::new(None), Condvar::new()));
    let (ended, tape) = (result.clone(), path.clone());
    // On a thread of its own: a signal does not end a replay, but its caller does not wait for it then.
    let started = std::thread::Builder::new().name("belljar".to_owned()).spawn(move || {
        let done = replayed(&tape, &modules, &toolchains, &bounds);
        *ended.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
        ended.1.notify_all();
    });
    started.map_err(|error| errors::raise(py, "Error", (error.to_string(),)))?;
    let done = loop {
        let done = py.detach(|| {
            let waiting = result.0.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = result.1.wait_timeout_while(waiting, LOOK_EVERY, |done| done.is_none());
            waited.unwrap_or_else(PoisonError::into_inner).0.take()
        });
        match done {
            Some(done) => break done,
            None => py.check_signals()?,
        }
    };
    match done {
        Ok((records, outputs)) => {
            let outputs = outputs.into_iter().map(|output| output_of(py, output)).collect();
            Ok((records, outputs))
        }
        Err(Failed::Message(message)) => Err(errors::raise(py, "TapeError", (message,))),
        Err(Failed::Replay(ReplayError::Tape(TapeError::Desync(desync)))) => {
            Err(mismatch(py, &path, &desync))
        }
        Err(Failed::Replay(error)) => Err(errors::raise(
            py,
            "TapeError",
            (format!("cannot replay {}: {error:?}", path.display()),),
        )),
    }
}

enum Failed {
    Message(String),
    Replay(ReplayError),
}

fn replayed(
    path: &Path,
    modules: &[PathBuf],
    dirs: &[PathBuf],
    bounds: &Limits,
) -> Result<(u64, Vec<Result<Output, RunError>>), Failed> {
    let engine = engine::engine(false).map_err(Failed::Message)?;
    let toolchains = engine::toolchains(dirs).map_err(Failed::Message)?;
    let load = |name: &str, digest: Option<Digest>| {
        let is_it = |module: &Module| digest.is_none_or(|digest| module.digest() == digest);
        for path in modules {
            let module = Module::read(path).map_err(|error| format!("{error:?}"))?;
            if is_it(&module) {
                return Ok(module);
            }
        }
        let embedded = digest.and_then(|digest| {
            let bytes = TapeStore::of(path).get(digest, MODULE_BYTES_MAX).ok()?;
            Module::from_bytes(name, bytes).ok()
        });
        let by_name = || {
            let all = toolchains.all(name).into_iter();
            all.filter_map(|resolved| resolved.module().ok()).find(is_it)
        };
        embedded.filter(is_it).or_else(by_name).ok_or_else(|| {
            "the recorded module is not on the tape and not in a toolchain; name it with modules=[…], or record with \
             embed=True"
                .to_owned()
        })
    };
    let replayed = belljar::testbench::replay(&engine, path, bounds, load);
    let Replayed { outputs, records, .. } = replayed.map_err(Failed::Replay)?;
    Ok((records, outputs))
}

fn output_of(
    py: Python<'_>,
    output: Result<Output, RunError>,
) -> (i64, Py<PyBytes>, Py<PyBytes>, Option<String>) {
    let bytes = |bytes: &[u8]| PyBytes::new(py, bytes).unbind();
    match output {
        Ok(output) => {
            let code = i64::from(output.status.outcome().code());
            (code, bytes(&output.stdout), bytes(&output.stderr), None)
        }
        Err(error) => (127, bytes(b""), bytes(b""), Some(error.to_string())),
    }
}

fn mismatch(py: Python<'_>, path: &Path, desync: &Desync) -> PyErr {
    let differences: Vec<(String, String, String)> = desync
        .differences()
        .into_iter()
        .map(|(field, tape, run)| (field, tape.to_string(), run.to_string()))
        .collect();
    errors::raise(py, "TapeMismatch", (desync.to_string(), path.to_path_buf(), differences))
}

/// Compares two tapes; returns whether they are equal in `mode`, the score, the text, and the report as JSON.
///
/// # Errors
/// `TapeError`.
#[pyfunction]
pub fn compare(
    py: Python<'_>,
    recorded: PathBuf,
    replayed: PathBuf,
    mode: &str,
) -> PyResult<(bool, f64, String, String)> {
    let mode: FidelityMode = mode.parse().map_err(|error: String| errors::invalid(py, error))?;
    let compared = py.detach(|| {
        // Both have to be tapes, whatever is compared.
        Tape::load(&recorded).map_err(|error| format!("{error:?}"))?;
        Tape::load(&replayed).map_err(|error| format!("{error:?}"))?;
        belljar::tape::compare(recorded.as_path(), replayed.as_path(), mode)
            .map_err(|error| format!("{error:?}"))
    });
    let report = compared.map_err(|error| errors::raise(py, "TapeError", (error,)))?;
    let json = serde_json::to_string(&report)
        .map_err(|error| errors::raise(py, "TapeError", (error.to_string(),)))?;
    Ok((report.is_faithful(), report.score, report.render(), json))
}
