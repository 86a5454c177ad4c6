//! The class `Sandbox`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use belljar::Digest;
use belljar::kernel::vfs::{ApplyError, FileType, Follow};
use belljar::sandbox::{ExecRequest, FilesystemAccess, MountSource, SandboxMount, SnapshotStore};
use belljar::{Errno, Input, Overlay, Stdio};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::changes::Change;
use crate::engine;
use crate::errors;
use crate::job::{Finished, Running, output_streams};
use crate::json;
use crate::memory;
use crate::run_state::RunState;
use crate::settings::{Settings, egress_policy, seconds};
use crate::slot::Slot;

/// A sandbox.
#[pyclass(frozen, module = "belljar._native")]
pub struct Sandbox {
    slot: Arc<Slot>,
}

impl Sandbox {
    fn of(sandbox: belljar::sandbox::Sandbox) -> Self {
        Self { slot: Arc::new(Slot::new(sandbox)) }
    }
}

#[pymethods]
impl Sandbox {
    #[new]
    fn new(py: Python<'_>, settings: Settings) -> PyResult<Self> {
        let spec = settings.spec(py)?;
        let dirs = settings.toolchains.clone();
        let make_host = settings.into_host(py)?;
        let fuel = spec.limits.fuel.is_some();
        let programs = py.detach(|| engine::programs(&dirs, fuel));
        let programs = programs.map_err(|error| errors::raise(py, "Error", (error,)))?;
        let made = py.detach(|| {
            let made = belljar::sandbox::Sandbox::provision_with(programs, spec, make_host);
            if let (Ok(sandbox), Ok(journals)) = (&made, belljar::cli::journals_dir()) {
                sandbox.machine().vfs().hide_temporaries(&journals);
            }
            made
        });
        Ok(Self::of(made.map_err(|error| errors::of_sandbox(py, &error))?))
    }

    /// Resumes the snapshot `id` in the directory `dir`.
    #[staticmethod]
    fn resume(py: Python<'_>, dir: PathBuf, id: &str, settings: Settings) -> PyResult<Self> {
        let Some(id) = Digest::from_hex(id) else {
            return Err(errors::invalid(py, format!("{id:?} is not the id of a snapshot")));
        };
        let dirs = settings.toolchains.clone();
        let make_host = settings.into_host(py)?;
        let resumed = py.detach(|| {
            SnapshotStore::new(dir).resume_with(id, |spec| {
                let programs = engine::programs(&dirs, spec.limits.fuel.is_some());
                programs.map(|programs| programs as Arc<_>).map_err(|message| {
                    belljar::sandbox::SandboxError::InvalidRequest {
                        field: "toolchains".to_owned(),
                        message,
                    }
                })
            })
        });
        let mut sandbox = resumed.map_err(|error| errors::other(py, &error))?;
        sandbox.set_host(make_host);
        Ok(Self::of(sandbox))
    }

    /// Starts a program. `on_output` gets what it writes, if given; `done` is called at its end. Both are called on
    /// other threads.
    #[pyo3(signature = (command, args, *, stdin, cwd, env, timeout, virtual_timeout, on_output=None, done=None))]
    fn start(
        &self,
        py: Python<'_>,
        command: String,
        args: Vec<String>,
        stdin: Vec<u8>,
        cwd: Option<String>,
        env: BTreeMap<String, String>,
        timeout: Option<f64>,
        virtual_timeout: Option<f64>,
        on_output: Option<Py<PyAny>>,
        done: Option<Py<PyAny>>,
    ) -> PyResult<Running> {
        let duration = |name: &str, value: Option<f64>| {
            value.map(|value| seconds(py, name, value)).transpose()
        };
        let request = ExecRequest {
            command,
            args,
            cwd,
            env,
            stdin: Vec::new(),
            timeout: duration("timeout", timeout)?,
            virtual_timeout: duration("virtual_timeout", virtual_timeout)?,
        };
        let run = Arc::new(RunState::default());
        let [stdout, stderr] = output_streams(on_output, &run);
        let input = Input::Bytes(std::io::Cursor::new(stdin));
        let streams = Stdio { stdin: input, stdout, stderr };
        let mut sandbox = self.slot.take(py)?;
        let (slot, running) = (self.slot.clone(), run.clone());
        let work = Box::new(move || {
            slot.pass_on(&running);
            let lost = LoseOnPanic(&slot);
            let mut limits = *sandbox.machine().limits();
            limits.timeout = limits.timeout.into_iter().chain(request.timeout).min();
            let asked = request.virtual_timeout.or(request.timeout);
            limits.virtual_timeout = limits.virtual_timeout.into_iter().chain(asked).min();
            sandbox.set_interrupter(Some(running.interrupter.clone()));
            let output = sandbox.output_on(&request, streams);
            sandbox.set_interrupter(None);
            std::mem::forget(lost);
            slot.put(sandbox);
            match output {
                Ok(output) => Ok(Finished { output, changes: Vec::new(), limits, records: None }),
                Err(error) => {
                    // Another process may install it.
                    engine::forget_programs();
                    Err(Box::new(move |py: Python<'_>| errors::of_sandbox(py, &error)) as _)
                }
            }
        });
        Running::start(py, run, done, work)
    }

    /// The content of a file.
    fn read(&self, py: Python<'_>, path: &str) -> PyResult<Py<PyBytes>> {
        let read = self.slot.with(py, |sandbox| sandbox.files().read(path))?;
        let bytes = read.map_err(|errno| errors::of_path(py, "read", path, errno))?;
        Ok(PyBytes::new(py, &bytes).unbind())
    }

    /// Writes a file; with `parents`, creates its directories. If it fails, nothing is changed.
    fn write(
        &self,
        py: Python<'_>,
        path: &str,
        bytes: &[u8],
        parents: bool,
        executable: bool,
    ) -> PyResult<()> {
        let written = self.slot.with(py, |sandbox| {
            let (mut before, now) = (sandbox.fork()?, sandbox.now_ns());
            let written = write(sandbox.files(), path, bytes, (parents, executable), now);
            if written.is_err() {
                std::mem::swap(sandbox.files(), before.files());
            }
            Ok(written)
        })?;
        let written = written.map_err(|error| errors::of_sandbox(py, &error))?;
        written.map_err(|errno| errors::of_path(py, "write", path, errno))
    }

    /// Removes a file, a link, or an empty directory.
    fn remove(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        let removed = self.slot.with(py, |sandbox| {
            let now = sandbox.now_ns();
            let (files, relative) = (sandbox.files(), path.trim_start_matches('/'));
            let base = files.host_base();
            match files.stat(base, relative, Follow::No)?.file_type {
                FileType::Directory => files.remove_dir(base, relative, now),
                _ => files.unlink(base, relative, now),
            }
        })?;
        removed.map_err(|errno| errors::of_path(py, "remove", path, errno))
    }

    /// The entries of a directory: name, type, size.
    fn list(&self, py: Python<'_>, path: &str) -> PyResult<Vec<(String, &'static str, u64)>> {
        let listed = self.slot.with(py, |sandbox| sandbox.list(path))?;
        let listed = listed.map_err(|error| errors::of_copy(py, &error))?;
        let entry = |entry: belljar::sandbox::Listed| {
            let file_type = match entry.file_type {
                FileType::Directory => "directory",
                FileType::RegularFile => "file",
                FileType::SymbolicLink => "symlink",
                _ => "special",
            };
            (entry.name, file_type, entry.size)
        };
        Ok(listed.into_iter().map(entry).collect())
    }

    /// An independent copy.
    fn fork(&self, py: Python<'_>) -> PyResult<Self> {
        let fork = self.slot.with(py, |sandbox| sandbox.fork())?;
        Ok(Self::of(fork.map_err(|error| errors::of_sandbox(py, &error))?))
    }

    /// Saves a snapshot to the directory `dir`; returns its id.
    fn save(&self, py: Python<'_>, dir: PathBuf) -> PyResult<String> {
        let saved = self.slot.with(py, |sandbox| SnapshotStore::new(dir).save(sandbox))?;
        Ok(saved.map_err(|error| errors::other(py, &error))?.to_string())
    }

    /// What programs changed.
    fn diff(&self, py: Python<'_>) -> PyResult<Vec<Change>> {
        let changes = self.slot.with(py, |sandbox| Change::all(sandbox.files()))?;
        changes.map_err(|error| errors::other(py, &error))
    }

    /// The changes that turn `before`, a relative, into this sandbox.
    fn diff_since(&self, py: Python<'_>, before: &Self) -> PyResult<Vec<Change>> {
        if Arc::ptr_eq(&self.slot, &before.slot) {
            return Ok(Vec::new());
        }
        // A fork of each: so no two calls wait for each other.
        let fork = |sandbox: &Self| {
            let fork = sandbox.slot.with(py, |sandbox| sandbox.fork())?;
            fork.map_err(|error| errors::of_sandbox(py, &error))
        };
        let (mut before, mut after) = (fork(before)?, fork(self)?);
        let (in_mounts, in_memory) = py.detach(|| {
            let in_mounts = Change::since(before.files(), after.files());
            (in_mounts, memory::changes(&mut before, &mut after))
        });
        let mut changes = in_mounts.map_err(|error| errors::other(py, &error))?;
        let in_memory =
            in_memory.map_err(|(path, errno)| errors::of_path(py, "compare", &path, errno))?;
        changes.extend(in_memory);
        Ok(changes)
    }

    /// What programs changed, as a patch.
    fn patch(&self, py: Python<'_>) -> PyResult<String> {
        let patch = self.slot.with(py, |sandbox| Change::patch(sandbox.files()))?;
        patch.map_err(|error| errors::other(py, &error))
    }

    /// Writes what programs changed to the host's directories; returns how many files were written and removed, and
    /// directories created and removed.
    fn apply(&self, py: Python<'_>) -> PyResult<(usize, usize, usize, usize)> {
        let applied = self.slot.with(py, |sandbox| {
            let journals = belljar::cli::journals().map_err(|error| format!("{error:#}"))?;
            Ok::<_, String>(sandbox.files().apply_journaled(&journals, &()))
        })?;
        let applied = applied.map_err(|error| errors::raise(py, "Error", (error,)))?;
        let applied = applied.map_err(|error: ApplyError| errors::of_apply(py, &error))?;
        Ok((applied.written, applied.removed, applied.dirs_created, applied.dirs_removed))
    }

    /// Takes in the state of the host's directories; with `discard`, gives up what programs changed.
    fn refresh(&self, py: Python<'_>, discard: bool) -> PyResult<()> {
        let refreshed = self.slot.with(py, |sandbox| {
            if discard {
                sandbox.discard_and_refresh().map_err(|errno| errno.to_string())
            } else {
                sandbox.refresh().map(drop).map_err(|error| format!("{error:?}"))
            }
        })?;
        refreshed.map_err(|error| errors::raise(py, "Error", (error,)))
    }

    /// Copies a file or tree of the host into the sandbox.
    fn copy_in(&self, py: Python<'_>, from: PathBuf, to: &str) -> PyResult<usize> {
        let copied = self.slot.with(py, |sandbox| sandbox.copy_in(&from, to))?;
        Ok(copied.map_err(|error| errors::of_copy(py, &error))?.files)
    }

    /// Copies a file or tree of the sandbox to the host.
    fn copy_out(&self, py: Python<'_>, from: &str, to: PathBuf) -> PyResult<usize> {
        let copied = self.slot.with(py, |sandbox| {
            let journals = belljar::cli::journals().map_err(|error| format!("{error:#}"))?;
            Ok::<_, String>(sandbox.copy_out_journaled(from, &to, &journals, &()))
        })?;
        let copied = copied.map_err(|error| errors::raise(py, "Error", (error,)))?;
        Ok(copied.map_err(|error| errors::of_copy(py, &error))?.files)
    }

    /// Adds a mount.
    fn mount(
        &self,
        py: Python<'_>,
        target: String,
        host: Option<PathBuf>,
        read_only: bool,
    ) -> PyResult<()> {
        let source = host.map_or(MountSource::Memory, MountSource::Host);
        let access =
            if read_only { FilesystemAccess::ReadOnly } else { FilesystemAccess::ReadWrite };
        let mount = SandboxMount { target, source, access };
        let mounted = self.slot.with(py, |sandbox| sandbox.attach_filesystem(mount))?;
        mounted.map_err(|error| errors::of_sandbox(py, &error))
    }

    /// Sets the egress policy.
    fn set_network(
        &self,
        py: Python<'_>,
        allow: Option<Vec<String>>,
        deny: Vec<String>,
    ) -> PyResult<()> {
        let policy = egress_policy(py, allow.as_deref(), &deny)?;
        self.slot.with(py, |sandbox| sandbox.apply_network_policy(policy))
    }

    /// Makes a host call, as a program would.
    fn host_call<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        params: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let params = json::from_python(params)?;
        let run = Arc::new(RunState::default());
        let answer = self.slot.with(py, |sandbox| {
            sandbox.set_interrupter(Some(run.interrupter.clone()));
            let answer = run.enter(|| sandbox.host_call(name, &params));
            sandbox.set_interrupter(None);
            answer
        })?;
        if let Some(error) = run.take_failure() {
            return Err(error);
        }
        match answer {
            Ok(value) => json::to_python(py, &value),
            Err(error) => {
                Err(errors::raise(py, "HostCallError", (error.to_string(), name, error.kind())))
            }
        }
    }

    /// The value that a program set with `runtime.set_result`.
    fn host_result<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let result = self.slot.with(py, |sandbox| sandbox.host().result())?;
        result.map(|value| json::to_python(py, &value)).transpose()
    }

    /// Seconds since the start of the sandbox, on its clock.
    fn elapsed(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.slot.with(py, belljar::sandbox::Sandbox::elapsed)?.as_secs_f64())
    }

    /// The mounts: path, directory of the host, whether it is read-only.
    fn mounts(&self, py: Python<'_>) -> PyResult<Vec<(String, Option<PathBuf>, bool)>> {
        self.slot.with(py, |sandbox| {
            let mount = |mount: &SandboxMount| {
                let host = match &mount.source {
                    MountSource::Host(path) => Some(path.clone()),
                    MountSource::Memory => None,
                };
                (mount.target.clone(), host, mount.access == FilesystemAccess::ReadOnly)
            };
            sandbox.mounts().iter().map(mount).collect()
        })
    }

    /// Ends it.
    fn close(&self, py: Python<'_>) {
        self.slot.close(py);
    }

    /// Whether it is closed.
    fn is_closed(&self) -> bool {
        self.slot.is_closed()
    }
}

/// Says that a sandbox is lost if a panic passes.
struct LoseOnPanic<'a>(&'a Slot);

impl Drop for LoseOnPanic<'_> {
    fn drop(&mut self) {
        self.0.lose();
    }
}

/// Writes a file. `parents`: its directories are created; `executable`: its owner may execute it.
fn write(
    files: &mut Overlay,
    path: &str,
    bytes: &[u8],
    (parents, executable): (bool, bool),
    now: u64,
) -> Result<(), Errno> {
    let (base, relative) = (files.host_base(), path.trim_start_matches('/'));
    if parents {
        for (at, _) in relative.match_indices('/') {
            match files.create_dir(base, &relative[..at], now) {
                Ok(_) | Err(Errno::Exist) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    files.write(path, bytes, now)?;
    if executable {
        files.set_executable_at(base, relative, Follow::Yes, true, now)?;
    }
    Ok(())
}
