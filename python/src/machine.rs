//! Single runs of programs, in machines of their own, recorded or not.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use belljar::kernel::Programs;
use belljar::sandbox::{FilesystemAccess, MountSource, SandboxSpec};
use belljar::tape::{FileTape, Header, Recorder, Redaction};
use belljar::testbench::record_changes;
use belljar::{
    ClockConfig, Command, HostDir, Input, Machine, Module, Output, Program, RunError, Source,
    Stdio, WORKTREE,
};
use pyo3::prelude::*;
use tempfile::TempDir;

use crate::changes::Change;
use crate::engine;
use crate::errors;
use crate::job::{Failure, Finished, Running, output_streams};
use crate::run_state::RunState;
use crate::settings::Settings;

/// Limit of the bytes of a tape.
const TAPE_BYTES_MAX: u64 = 1 << 30;

/// What is run. `Request` of `_native.pyi` says what each field is.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Request {
    program: PathBuf,
    args: Vec<String>,
    stdin: Vec<u8>,
    cwd: Option<String>,
    files: BTreeMap<String, Vec<u8>>,
    worktree: Option<PathBuf>,
    apply: bool,
    tape: Option<PathBuf>,
    embed: bool,
}

/// Starts a program in a machine of its own, recorded on a tape if one is named.
///
/// # Errors
/// `InvalidArgument`.
#[pyfunction]
#[pyo3(signature = (request, settings, *, on_output=None, done=None))]
pub fn start_run(
    py: Python<'_>,
    request: Request,
    settings: Settings,
    on_output: Option<Py<PyAny>>,
    done: Option<Py<PyAny>>,
) -> PyResult<Running> {
    let spec = settings.spec(py)?;
    let dirs = settings.toolchains.clone();
    let make_host = settings.into_host(py)?;
    let run = Arc::new(RunState::default());
    let [stdout, stderr] = output_streams(on_output, &run);
    let input = Input::Bytes(std::io::Cursor::new(request.stdin.clone()));
    let streams = Stdio { stdin: input, stdout, stderr };
    let interrupter = run.interrupter.clone();
    let work = Box::new(move || {
        let begun = Begun::new(&request, &spec, &dirs)?;
        let host = make_host(&spec).network_policy(spec.network_policy.clone()).build();
        let (mut machine, command, recorder) = begun.machine(&request, &spec, host)?;
        machine.set_interrupter(Some(interrupter));
        let output = command.output_on(&mut machine, streams);
        machine.set_interrupter(None);
        let finished = finish(&request, &spec, machine, recorder, output);
        // The folder of its files is removed now.
        drop(begun);
        finished
    });
    Running::start(py, run, done, work)
}

fn fail(message: impl Into<String>) -> Failure {
    let message = message.into();
    Box::new(move |py| errors::raise(py, "Error", (message,)))
}

fn refuse(message: impl Into<String>) -> Failure {
    let message = message.into();
    Box::new(move |py| errors::invalid(py, message))
}

fn not_found(message: String, program: &Path) -> Failure {
    let program = program.display().to_string();
    Box::new(move |py| errors::raise(py, "ProgramNotFound", (message, program)))
}

/// What a run needs before its machine is made.
struct Begun {
    program: Started,
    /// The folder with the files of the request.
    folder: Option<TempDir>,
    dirs: Vec<PathBuf>,
}

/// The program of a run.
enum Started {
    /// A module of the host.
    Module(Box<Program>, Module),
    /// A name that the machine looks up.
    Named(String),
}

impl Begun {
    fn new(request: &Request, spec: &SandboxSpec, dirs: &[PathBuf]) -> Result<Self, Failure> {
        let fuel = spec.limits.fuel.is_some();
        let program = match module_at(&request.program) {
            None => Started::Named(request.program.display().to_string()),
            Some(path) => {
                let module = match belljar::Resolved::at(path.to_owned()) {
                    Ok(resolved) => resolved.module().map_err(|error| format!("{error:?}")),
                    Err(error) => Err(format!("{error:?}")),
                };
                let module = module.map_err(|error| {
                    if path.exists() { fail(error) } else { not_found(error, path) }
                })?;
                let programs = engine::programs(dirs, fuel).map_err(fail)?;
                let program = programs.program(&module);
                let program = program.map_err(|error| fail(format!("{error:?}")))?;
                Started::Module(Box::new(program), module)
            }
        };
        Ok(Self { program, folder: folder_of(request)?, dirs: dirs.to_vec() })
    }

    /// The machine, the command to run in it, and the recorder of the tape.
    fn machine(
        &self,
        request: &Request,
        spec: &SandboxSpec,
        host: belljar::host::SessionHost,
    ) -> Result<(Machine, Command, Option<Recorder>), Failure> {
        let recorder = recorder(request, spec.clock)?;
        let fuel = spec.limits.fuel.is_some();
        let embeds = recorder.as_ref().filter(|_| request.embed);
        let programs: Arc<dyn Programs> = match embeds {
            None => engine::programs(&self.dirs, fuel).map_err(fail)?,
            Some(recorder) => {
                let programs = engine::new_programs(&self.dirs, fuel).map_err(fail)?;
                Arc::new(programs.embed_in(recorder.clone()))
            }
        };
        let mut builder = Machine::builder()
            .clock(spec.clock)
            .mtimes(spec.mtimes)
            .seed(spec.seed)
            .limits(spec.limits)
            .programs(programs)
            .host(host);
        if let Some(path) = self.folder.as_ref().map(TempDir::path).or(request.worktree.as_deref())
        {
            builder = builder.worktree(open(path)?);
        }
        for mount in &spec.mounts {
            let source = match &mount.source {
                MountSource::Memory => Source::Memory,
                MountSource::Host(path) => Source::Host(Arc::new(open(path)?)),
            };
            builder = match mount.access {
                FilesystemAccess::ReadOnly => builder.mount_read_only(&mount.target, source),
                FilesystemAccess::ReadWrite => builder.mount(&mount.target, source),
            };
        }
        if let Some(recorder) = &recorder {
            builder = builder.tape(recorder.clone());
        }
        let machine = builder.build().map_err(|error| refuse(format!("{error:?}")))?;
        let mut command = match &self.program {
            Started::Module(program, _) => Command::new(program),
            Started::Named(name) => Command::named(name),
        };
        command.args(&request.args).current_dir(request.cwd.as_deref().unwrap_or(WORKTREE));
        for (key, value) in &spec.env {
            command.env(key, value);
        }
        if let (Some(recorder), Started::Module(_, module)) = (embeds, &self.program) {
            embed(recorder, module)?;
        }
        Ok((machine, command, recorder))
    }
}

/// Completes the tape of a run that has ended, and takes what it changed.
fn finish(
    request: &Request,
    spec: &SandboxSpec,
    mut machine: Machine,
    recorder: Option<Recorder>,
    output: Result<Output, RunError>,
) -> Result<Finished, Failure> {
    let broken = |error: &dyn std::fmt::Debug| fail(format!("{error:?}"));
    let mut records = None;
    if let Some(recorder) = recorder {
        record_changes(&mut machine, &recorder).map_err(|error| broken(&error))?;
        let finished = recorder.finish();
        records = Some(finished.map_err(|error| {
            let message = format!("cannot write the tape: {error:?}");
            Box::new(move |py: Python<'_>| errors::raise(py, "TapeError", (message,))) as Failure
        })?);
    }
    let output = output.map_err(|error| match &error {
        RunError::Spawn(spawn) if spawn.errno == belljar::Errno::Noent => {
            engine::forget_programs();
            not_found(format!("{error:?}"), &request.program)
        }
        error => broken(error),
    })?;
    let mut changes = Change::all(machine.vfs_mut()).map_err(|error| broken(&error))?;
    // Contents that were not read are in a folder that will be removed, or in one that changes.
    for change in &mut changes {
        change.load().map_err(|errno| fail(format!("cannot read a changed file: {errno}")))?;
    }
    if request.apply {
        let journals = belljar::cli::journals().map_err(|error| fail(format!("{error:#}")))?;
        let applied = machine.vfs_mut().apply_journaled(&journals, &());
        applied.map_err(|error| {
            Box::new(move |py: Python<'_>| errors::of_apply(py, &error)) as Failure
        })?;
    }
    Ok(Finished { output, changes, limits: spec.limits, records })
}

/// The path of a module, if `program` is one rather than a name.
fn module_at(program: &Path) -> Option<&Path> {
    let is_module = ["wasm", "wat", "cwasm"]
        .iter()
        .any(|known| program.extension().and_then(OsStr::to_str) == Some(known));
    (is_module || program.components().count() > 1).then_some(program)
}

fn open(path: &Path) -> Result<HostDir, Failure> {
    HostDir::open(path)
        .map_err(|error| fail(format!("cannot open the directory {}: {error}", path.display())))
}

/// A folder with the files of `request`, unless that names a worktree. Changes are those to a folder of the host, so that
/// there has to be one.
fn folder_of(request: &Request) -> Result<Option<TempDir>, Failure> {
    if request.worktree.is_some() {
        return Ok(None);
    }
    let broken = |error: std::io::Error| fail(format!("cannot write the files of a run: {error}"));
    let folder = tempfile::Builder::new().prefix("belljar-").tempdir().map_err(broken)?;
    for (name, bytes) in &request.files {
        let is_normal = |part: Component<'_>| matches!(part, Component::Normal(_));
        if name.is_empty() || !Path::new(name).components().all(is_normal) {
            let message = format!("files: {name:?} is not a relative path without \"..\"");
            return Err(refuse(message));
        }
        let path = folder.path().join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(broken)?;
        }
        std::fs::write(&path, bytes).map_err(broken)?;
    }
    Ok(Some(folder))
}

/// The recorder of the tape of `request`, if it names one.
fn recorder(request: &Request, clock: ClockConfig) -> Result<Option<Recorder>, Failure> {
    let Some(path) = &request.tape else { return Ok(None) };
    let start_ms = match clock {
        ClockConfig::Paused { start_ns } => start_ns / 1_000_000,
        ClockConfig::Host => {
            let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
            u64::try_from(now.as_millis()).unwrap_or(0)
        }
    };
    let mut header = Header::new(start_ms.cast_signed());
    header.argv = std::iter::once(request.program.display().to_string())
        .chain(request.args.iter().cloned())
        .collect();
    let redaction = Redaction::default();
    let header = header.without_secrets(&redaction);
    let tape = FileTape::create(path, &header, TAPE_BYTES_MAX).map_err(|error| {
        let message = format!("{error:?}");
        Box::new(move |py: Python<'_>| errors::raise(py, "TapeError", (message,))) as Failure
    })?;
    Ok(Some(Recorder::new(tape, redaction)))
}

/// Puts `module` on the tape.
fn embed(recorder: &Recorder, module: &Module) -> Result<(), Failure> {
    let bytes = module.bytes().map_err(|error| fail(format!("{error:?}")))?;
    let embedded = recorder.content_from(module.name(), |offset, buf: &mut [u8]| {
        let rest = &bytes[usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len())..];
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        Ok::<_, std::io::Error>(count)
    });
    let withheld = embedded.map_err(|error| fail(format!("{error:?}")))?.withheld_by;
    match withheld {
        None => Ok(()),
        Some(rule) => Err(fail(format!(
            "the rule {rule} finds a secret in {}: record with embed=False",
            module.name()
        ))),
    }
}
