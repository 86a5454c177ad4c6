//! Runs on threads of their own, which their callers wait for and can interrupt.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use belljar::{Interrupter, Limit, Limits, Outcome, OutputStream, process};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::changes::Change;
use crate::errors;
use crate::run_state::RunState;
use crate::slot::LOOK_EVERY;

/// What a run gives: the exception is made where the interpreter is at hand.
pub type Work = Box<dyn FnOnce() -> Result<Finished, Failure> + Send>;

/// Makes the exception of a run that failed.
pub type Failure = Box<dyn FnOnce(Python<'_>) -> PyErr + Send>;

/// A run that came to its end.
pub struct Finished {
    /// How it ended, and what it wrote.
    pub output: process::Output,
    /// What it changed, if that was asked for.
    pub changes: Vec<Change>,
    /// Its limits.
    pub limits: Limits,
    /// Records of its tape.
    pub records: Option<u64>,
}

/// How a run ended, with its output.
#[pyclass(frozen, get_all, module = "belljar._native")]
pub struct Ended {
    /// `exited`, `trapped`, `signalled`, `deadlock`, `tape`, or the name of a limit.
    outcome: String,
    /// The exit code; what a shell would show if it did not exit.
    exit_code: i64,
    /// Standard output.
    stdout: Py<PyBytes>,
    /// Standard error.
    stderr: Py<PyBytes>,
    /// How it ended, unless it exited.
    message: Option<String>,
    /// The active functions of a trap, innermost first.
    backtrace: Vec<String>,
    /// The limit that ended it, and its value in its unit; `None` if it is not a number.
    limit: Option<(String, Option<f64>)>,
    /// Fuel used, if it was counted.
    fuel_used: Option<u64>,
    /// What it changed, if that was asked for.
    changes: Vec<Change>,
    /// Records of its tape.
    records: Option<u64>,
}

impl Ended {
    fn new(py: Python<'_>, finished: Finished) -> Self {
        let Finished { output, changes, limits, records } = finished;
        let outcome = output.status.outcome();
        let (message, backtrace) = match outcome {
            Outcome::Exited(_) => (None, Vec::new()),
            Outcome::Trapped(trap) => (Some(trap.message.clone()), trap.backtrace.clone()),
            Outcome::Deadlock(waits) => (Some(waits.clone()), Vec::new()),
            Outcome::Signalled(signal) => {
                (Some(format!("killed by signal {}", signal.number())), Vec::new())
            }
            Outcome::Limit(limit) => (Some(format!("reached the {limit}")), Vec::new()),
            Outcome::Tape => (Some("its tape failed".to_owned()), Vec::new()),
        };
        let limit = match outcome {
            Outcome::Limit(limit) => Some((limit.name().to_owned(), value_of(*limit, &limits))),
            _ => None,
        };
        Self {
            outcome: outcome.name().to_owned(),
            exit_code: i64::from(outcome.code()),
            stdout: PyBytes::new(py, &output.stdout).unbind(),
            stderr: PyBytes::new(py, &output.stderr).unbind(),
            message,
            backtrace,
            limit,
            fuel_used: output.status.fuel_used(),
            changes,
            records,
        }
    }
}

/// The value of `limit`: seconds, bytes, or a count.
#[expect(clippy::cast_precision_loss, reason = "a value for messages")]
fn value_of(limit: Limit, limits: &Limits) -> Option<f64> {
    match limit {
        Limit::Memory => Some(limits.memory_bytes_max as f64),
        Limit::Fuel => limits.fuel.map(|fuel| fuel as f64),
        Limit::Timeout => limits.timeout.map(|timeout| timeout.as_secs_f64()),
        Limit::VirtualTimeout => limits.virtual_timeout.map(|timeout| timeout.as_secs_f64()),
        Limit::OpenFiles => Some(f64::from(limits.open_files_max)),
        Limit::Processes => Some(f64::from(limits.processes_max)),
        Limit::Pipes => Some(f64::from(limits.pipes_max)),
        Limit::Output => Some(limits.output_bytes_max as f64),
        Limit::Trace => Some(limits.trace_bytes_max as f64),
        Limit::HostCall => Some(limits.host_call_bytes_max as f64),
        Limit::Upper => Some(limits.vfs.upper_bytes_max as f64),
        Limit::FileSize => Some(limits.vfs.file_bytes_max as f64),
        _ => None,
    }
}

/// A run in progress.
#[pyclass(frozen, module = "belljar._native")]
pub struct Running {
    run: Arc<RunState>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    result: Mutex<Progress>,
    ended: Condvar,
}

#[derive(Default)]
enum Progress {
    #[default]
    Running,
    Ended(Box<Result<Finished, Failure>>),
    Taken,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        // Each access is a single step, so a panic leaves it whole.
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, result: Result<Finished, Failure>) {
        *self.lock() = Progress::Ended(Box::new(result));
        self.ended.notify_all();
    }
}

impl Running {
    /// Starts `work` on a new thread, as the run `run`; `done` is called there when it has ended.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(
        py: Python<'_>,
        run: Arc<RunState>,
        done: Option<Py<PyAny>>,
        work: Work,
    ) -> PyResult<Self> {
        let shared = Arc::new(Shared::default());
        let (running, ended) = (run.clone(), shared.clone());
        let thread = std::thread::Builder::new().name("belljar".to_owned());
        let started = thread.spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| running.enter(work)));
            ended.end(result.unwrap_or_else(|panic| Err(internal_error(panic.as_ref()))));
            if let Some(done) = done {
                // Not at the end of the interpreter: nobody waits then.
                Python::try_attach(|py| {
                    if let Err(error) = done.call0(py) {
                        error.write_unraisable(py, Some(done.bind(py)));
                    }
                });
            }
        });
        started.map_err(|error| {
            errors::raise(py, "Error", (format!("cannot start a thread for a program: {error}"),))
        })?;
        Ok(Self { run, shared })
    }

    fn wait_for_end_or_signal(&self, py: Python<'_>) -> PyResult<()> {
        loop {
            let has_ended = py.detach(|| {
                let progress = self.shared.lock();
                let is_running = |progress: &mut Progress| matches!(progress, Progress::Running);
                let waited = self.shared.ended.wait_timeout_while(progress, LOOK_EVERY, is_running);
                let (mut progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
                !is_running(&mut progress)
            });
            if has_ended {
                return Ok(());
            }
            py.check_signals()?;
        }
    }

    fn wait_for_end(&self, py: Python<'_>) {
        py.detach(|| {
            let mut progress = self.shared.lock();
            while matches!(*progress, Progress::Running) {
                let waited = self.shared.ended.wait(progress);
                progress = waited.unwrap_or_else(PoisonError::into_inner);
            }
        });
    }
}

/// The exception for a panic.
pub fn internal_error(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    Box::new(move |py| {
        errors::raise(
            py,
            "Error",
            (format!("internal error of belljar, please report it: {text}"),),
        )
    })
}

#[pymethods]
impl Running {
    /// Waits for its end. An exception of a signal, such as `KeyboardInterrupt`, ends it; that of a further signal is
    /// raised at once, as a callback or a compilation may take its time.
    fn wait(&self, py: Python<'_>) -> PyResult<Ended> {
        if let Err(signal) = self.wait_for_end_or_signal(py) {
            py.detach(|| self.run.interrupter.interrupt());
            self.wait_for_end_or_signal(py)?;
            return Err(signal);
        }
        if let Some(error) = self.run.take_failure() {
            return Err(error);
        }
        let ended = std::mem::replace(&mut *self.shared.lock(), Progress::Taken);
        match ended {
            Progress::Ended(ended) => match *ended {
                Ok(finished) => Ok(Ended::new(py, finished)),
                Err(failure) => Err(failure(py)),
            },
            Progress::Running | Progress::Taken => {
                Err(errors::raise(py, "Error", ("the result of this run was taken",)))
            }
        }
    }

    /// Ends it, and waits for its end.
    fn interrupt(&self, py: Python<'_>) {
        py.detach(|| self.run.interrupter.interrupt());
        self.wait_for_end(py);
    }

    /// Whether it has ended.
    fn has_ended(&self) -> bool {
        !matches!(*self.shared.lock(), Progress::Running)
    }
}

/// Nobody waits for it any more.
impl Drop for Running {
    fn drop(&mut self) {
        if !self.has_ended() {
            let interrupter: Interrupter = self.run.interrupter.clone();
            // Closing may have to be tried again, which this thread, attached to the interpreter, must not wait for.
            let _ = std::thread::Builder::new().spawn(move || interrupter.interrupt());
        }
    }
}

/// The two streams of a run: captured, or passed to `callback`, which takes the number of the stream and bytes.
pub fn output_streams(callback: Option<Py<PyAny>>, run: &Arc<RunState>) -> [OutputStream; 2] {
    let Some(callback) = callback else {
        return [OutputStream::Capture(Vec::new()), OutputStream::Capture(Vec::new())];
    };
    let callback = Arc::new(callback);
    [1, 2].map(|fd| {
        let (callback, run) = (callback.clone(), run.clone());
        OutputStream::Writer(Box::new(ToPython { fd, callback, run }))
    })
}

/// Passes what is written to a function of Python.
struct ToPython {
    fd: u32,
    callback: Arc<Py<PyAny>>,
    run: Arc<RunState>,
}

impl std::io::Write for ToPython {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let called = Python::try_attach(|py| {
            self.callback.call1(py, (self.fd, PyBytes::new(py, bytes))).map(drop)
        });
        match called {
            Some(Ok(())) => Ok(bytes.len()),
            Some(Err(error)) => {
                self.run.fail(error);
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            // The interpreter is at its end.
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
