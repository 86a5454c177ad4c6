//! The class `Session`: native programs, recorded and replayed, for the plugin of pytest.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use belljar::kernel::vfs::WORKTREE;
use belljar::native::{
    Mismatch, SubprocessError, SubprocessFiles, SubprocessRequest, SubprocessStatus, TapeEntry,
    TapedState, Unmade,
};
use belljar::testbench::{Testbench, TestbenchError, TestbenchSession};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;
use crate::settings::seconds;

/// A session whose subprocesses are recorded on a process tape, or replayed from one.
#[pyclass(frozen, module = "belljar._native")]
pub struct Session {
    session: Mutex<Option<Box<TestbenchSession>>>,
}

#[pymethods]
impl Session {
    /// Begins a session in the directory `root`. `paused_at_ms` is the time at which its clock stands, in milliseconds
    /// since the Unix epoch. A replay makes files on the disk if `on_disk`, else in the overlay; what `ignored` names is
    /// not recorded.
    #[new]
    #[pyo3(signature = (root, tape, *, replay, paused_at_ms=None, on_disk=false, ignored=Vec::new()))]
    fn new(
        py: Python<'_>,
        root: PathBuf,
        tape: PathBuf,
        replay: bool,
        paused_at_ms: Option<i64>,
        on_disk: bool,
        ignored: Vec<String>,
    ) -> PyResult<Self> {
        let files =
            if on_disk { SubprocessFiles::on_disk() } else { SubprocessFiles::in_overlay() };
        let files = ignored.into_iter().fold(files, SubprocessFiles::ignore);
        let mut bench = Testbench::builder().fs_overlay(root).subprocess_files(files);
        bench =
            if replay { bench.replay_subprocesses(tape) } else { bench.record_subprocesses(tape) };
        if let Some(at_ms) = paused_at_ms {
            bench = bench.paused_clock_at_ms(at_ms);
        }
        let session = py.detach(|| bench.build().activate());
        let session = session.map_err(|error| of_testbench(py, &error))?;
        Ok(Self { session: Mutex::new(Some(Box::new(session))) })
    }

    /// Runs a program to its end; returns its exit code, which is negative for a signal, standard output, standard error,
    /// and whether its timeout ended it.
    #[pyo3(signature = (program, args, *, cwd, env, env_clear, stdin, timeout))]
    fn run(
        &self,
        py: Python<'_>,
        program: PathBuf,
        args: Vec<PathBuf>,
        cwd: Option<PathBuf>,
        env: Vec<(PathBuf, Option<PathBuf>)>,
        env_clear: bool,
        stdin: Vec<u8>,
        timeout: Option<f64>,
    ) -> PyResult<(i32, Py<PyBytes>, Py<PyBytes>, bool)> {
        let mut request = SubprocessRequest::new(&program);
        request.args(&args).stdin(stdin);
        if env_clear {
            request.env_clear();
        }
        for (key, value) in &env {
            match value {
                Some(value) => request.env(key, value),
                None => request.env_remove(key),
            };
        }
        if let Some(cwd) = &cwd {
            request.current_dir(cwd);
        }
        if let Some(timeout) = timeout {
            request.timeout(seconds(py, "timeout", timeout)?);
        }
        let output = py.detach(|| {
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            session.as_mut().map(|session| session.output(&request))
        });
        let Some(output) = output else { return Err(ended(py)) };
        let output = output.map_err(|error| of_testbench(py, &error))?;
        let (code, timed_out) = match &output.status {
            SubprocessStatus::Exited(code) => (*code, false),
            SubprocessStatus::Signalled(signal) => (-signal, false),
            status @ SubprocessStatus::Stopped(_) => (124, status.timed_out()),
        };
        let bytes = |bytes: &[u8]| PyBytes::new(py, bytes).unbind();
        Ok((code, bytes(&output.stdout), bytes(&output.stderr), timed_out))
    }

    /// The time of its clock, in milliseconds since the Unix epoch.
    fn now_ms(&self, py: Python<'_>) -> PyResult<i64> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.as_ref().map(|session| session.clock().now_ms()).ok_or_else(|| ended(py))
    }

    /// Moves a clock that stands.
    fn advance(&self, py: Python<'_>, duration: f64) -> PyResult<()> {
        let duration = seconds(py, "seconds", duration)?;
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let session = session.as_ref().ok_or_else(|| ended(py))?;
        let advanced = session.clock().advance(duration);
        advanced.map_err(|error| errors::raise(py, "Error", (error.to_string(),)))
    }

    /// The content of the file `path`, relative to the root, as the programs left it; `None` if there is none.
    fn read(&self, py: Python<'_>, path: &str) -> PyResult<Option<Py<PyBytes>>> {
        let bytes = py.detach(|| {
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            let session = session.as_mut()?;
            Some(session.overlay().and_then(|vfs| vfs.read(&format!("{WORKTREE}/{path}")).ok()))
        });
        let bytes = bytes.ok_or_else(|| ended(py))?;
        Ok(bytes.map(|bytes| PyBytes::new(py, &bytes).unbind()))
    }

    /// The files that the programs of a replay changed when they were recorded, and that it has not made, with the
    /// reasons.
    fn unmade(&self, py: Python<'_>) -> PyResult<Vec<(String, &'static str)>> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let session = session.as_ref().ok_or_else(|| ended(py))?;
        let why = |why| match why {
            Unmade::Nowhere => "the session makes no files",
            Unmade::Sensitive => "other tools may run or obey it",
            Unmade::Special => "it is no file, directory or link",
        };
        Ok(session.unmade_files().into_iter().map(|file| (file.path, why(file.why))).collect())
    }

    /// Ends it, and writes its tape; returns the files of a recording whose contents are not on the tape, as they hold
    /// secrets, with the rules.
    fn finish(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).take();
        let session = session.ok_or_else(|| ended(py))?;
        let finalized = py.detach(|| session.finalize());
        let finalized = finalized.map_err(|error| of_testbench(py, &error))?;
        Ok(withheld(&finalized.recorded_subprocesses))
    }

    /// Ends it without writing anything.
    fn discard(&self, py: Python<'_>) {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(session));
    }
}

fn withheld(entries: &[TapeEntry]) -> Vec<(String, String)> {
    let changes = entries.iter().flat_map(|entry| &entry.changes);
    let withheld = changes.filter_map(|change| match &change.after {
        Some(TapedState::File { withheld_by: Some(rule), .. }) => {
            Some((change.path.clone(), rule.clone()))
        }
        _ => None,
    });
    withheld.collect()
}

fn ended(py: Python<'_>) -> PyErr {
    errors::raise(py, "Error", ("the session has ended",))
}

fn of_testbench(py: Python<'_>, error: &TestbenchError) -> PyErr {
    let TestbenchError::Subprocess(error) = error else { return errors::other(py, error) };
    match error {
        SubprocessError::Mismatch(mismatch) => of_mismatch(py, mismatch),
        SubprocessError::Exhausted { tape, .. }
        | SubprocessError::Unconsumed { tape, .. }
        | SubprocessError::OffTape { tape, .. } => {
            let none: Vec<(String, String, String)> = Vec::new();
            errors::raise(py, "TapeMismatch", (error.to_string(), tape.clone(), none))
        }
        SubprocessError::Tape(_) | SubprocessError::Files { .. } => {
            errors::raise(py, "TapeError", (format!("{error:?}"),))
        }
        SubprocessError::NotFound { program, .. } => {
            errors::raise(py, "ProgramNotFound", (format!("{error:?}"), program))
        }
        error => errors::other(py, error),
    }
}

fn of_mismatch(py: Python<'_>, mismatch: &Mismatch) -> PyErr {
    let differences: Vec<(String, String, String)> = mismatch
        .differences
        .iter()
        .map(|it| (it.field.clone(), it.tape.clone(), it.asked.clone()))
        .collect();
    errors::raise(py, "TapeMismatch", (mismatch.to_string(), mismatch.tape.clone(), differences))
}
