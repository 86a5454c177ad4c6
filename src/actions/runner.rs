//! An action: what is asked for, and its execution.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;
use bazel_remote_apis::google::protobuf;
use prost::Message;

use super::ActionError;
use super::beside::Beside;
use super::duration::{from_proto, to_proto};
use super::ended::{Ended, ended, limit_of_worker, run_ended};
use super::error::fetch;
use super::input_root::{Fetched, InputRoot};
use super::outputs::{Forms, Outputs};
use super::run_end::{END, RunEnd};
use super::spec::{MOUNTS, PROGRAM, ProgramSpec, STDIN, Spec, ToolchainSpec, WORDS};
use crate::base::ambient;
use crate::base::errno::Errno;
use crate::engine::{Module, Program, ProgramError};
use crate::kernel::machine::limits::Limits;
use crate::kernel::machine::{ClockConfig, Machine, WORKTREE};
use crate::kernel::process::programs::Programs;
use crate::kernel::vfs::{DiffEntry, Mtimes, Overlay, Source, VPath};
use crate::process::Command;
use crate::remote::{CONTENT_BYTES_MAX, Connection, is_digest};
use crate::results::Results;
use crate::toolchain::ToolchainPrograms;

/// Largest command, in bytes.
const COMMAND_BYTES_MAX: u64 = 16 << 20;

/// Largest description of the root directory, in bytes.
const ROOT_BYTES_MAX: u64 = 64 << 20;

/// The platform property with the name of a toolchain: `NAME`, or `NAME@DIGEST` with the digest of its manifest.
const TOOLCHAIN: &str = "belljar-toolchain";

/// What an action did.
pub struct Executed {
    /// Its `ActionResult`, encoded.
    pub result: Vec<u8>,
    /// The exit code in it.
    pub exit_code: i32,
    /// What the program wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error, and why it did not end by itself.
    pub stderr: Vec<u8>,
    /// What was fetched for it.
    pub fetched: Fetched,
    /// The name of its program.
    pub program: String,
}

/// An action that can be executed.
pub struct Runner {
    server: Arc<Connection>,
    action: api::Action,
    command: api::Command,
    inputs: InputRoot,
    /// The machine, if it is a run of belljar.
    spec: Option<Spec>,
    /// Whether the output streams are part of the result.
    pub captures: bool,
    started_ns: u64,
}

/// What executes an action.
pub struct Worker {
    /// The programs that it can start.
    pub programs: Arc<ToolchainPrograms>,
    /// The limits, which an action can only tighten.
    pub limits: Limits,
    /// The toolchains that the action asks for, that are not here, and that it may not need.
    pub absent: Vec<String>,
    /// Gets why a program could not be compiled, if that was a reason of this machine.
    pub not_compiled: Arc<OnceLock<String>>,
    /// What processes are answered from, and added to.
    pub results: Option<Arc<Results>>,
}

/// A toolchain that an action asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// The digest of its manifest; `None` stands for the version that is installed.
    pub digest: Option<String>,
    /// Whether it needs it.
    pub needed: bool,
}

impl Runner {
    /// The encoded `action`, whose command is fetched from `server`.
    ///
    /// # Errors
    /// [`ActionError`]: it is malformed, or its command is not there.
    pub fn new(server: Arc<Connection>, action: &[u8]) -> Result<Self, ActionError> {
        let started_ns = ambient::wall_now_ns();
        let action = api::Action::decode(action)
            .map_err(|error| ActionError::invalid("the action", error.to_string()))?;
        let digest = digest_in(action.command_digest.as_ref(), "command", COMMAND_BYTES_MAX)?;
        let bytes = fetch(&server, &digest, || "the command".to_owned())?;
        let command = api::Command::decode(&*bytes)
            .map_err(|error| ActionError::invalid("the command", error.to_string()))?;
        let root = digest_in(action.input_root_digest.as_ref(), "input root", ROOT_BYTES_MAX)?;
        let inputs = InputRoot::new(server.clone(), root)?;
        let spec = if command.arguments.get(..WORDS.len()).is_some_and(|words| words == WORDS) {
            Some(Spec::read(&inputs)?)
        } else {
            None
        };
        Ok(Self { server, action, command, inputs, spec, captures: true, started_ns })
    }

    /// Whether it names all toolchains that it may use, though that may be none.
    pub fn names_toolchains(&self) -> bool {
        self.spec.is_some() || self.properties().next().is_some()
    }

    /// Its variables, as `NAME=VALUE`.
    pub fn environment(&self) -> impl Iterator<Item = String> {
        self.variables().into_iter().map(|(name, value)| format!("{name}={value}"))
    }

    /// The program and the arguments of a run of belljar; `None` for other actions.
    pub fn command_of_run(&self) -> Option<Vec<String>> {
        self.spec.as_ref()?;
        let args = self.command.arguments.get(WORDS.len() + 1..).unwrap_or_default();
        Some([&[self.program()], args].concat())
    }

    /// The values of the property by which it names toolchains.
    fn properties(&self) -> impl Iterator<Item = &str> {
        #[expect(deprecated, reason = "clients of version 2.1 and older have this one alone")]
        let of_command = self.command.platform.as_ref();
        let platform = self.action.platform.as_ref().or(of_command);
        let properties = platform.map_or(&[][..], |platform| &platform.properties);
        properties.iter().filter(|it| it.name == TOOLCHAIN).map(|it| &*it.value)
    }

    /// The toolchains that it asks for.
    pub fn toolchains(&self) -> Vec<Wanted> {
        if let Some(spec) = &self.spec {
            let wanted = |toolchain: &ToolchainSpec| Wanted {
                name: toolchain.name.clone(),
                digest: Some(toolchain.digest.to_string()),
                needed: toolchain.needed,
            };
            return spec.toolchains.iter().map(wanted).collect();
        }
        let wanted = |value: &str| {
            let (name, digest) = value.split_once('@').unzip();
            let digest = digest.map(str::to_owned);
            Wanted { name: name.unwrap_or(value).to_owned(), digest, needed: true }
        };
        // An empty one stands for none.
        self.properties().filter(|value| !value.is_empty()).map(wanted).collect()
    }

    /// Executes it on `worker`.
    ///
    /// # Errors
    /// [`ActionError`]. A program that fails is not an error.
    pub fn run(&self, worker: &Worker) -> Result<Executed, ActionError> {
        let executed = self.run_on(worker);
        // Whatever came after it: the program did not see the inputs.
        match self.inputs.take_failure() {
            Some(failure) => Err(failure),
            None => executed,
        }
    }

    fn run_on(&self, worker: &Worker) -> Result<Executed, ActionError> {
        let Worker { programs, limits, absent, not_compiled, results } = worker;
        let (mut machine, inputs) = self.machine(programs.clone(), *limits)?;
        machine.set_results(results.clone());
        self.inputs.end_on_failure(&mut machine);
        let from = self.directory(&mut machine)?;
        let paths = self.output_paths()?;
        // That output is made after the run, and is in no mount.
        let is_of_mounts = |path: &&String| self.spec.is_none() || *path != END;
        let paths: Vec<_> = paths.iter().filter(is_of_mounts).collect();
        let full = |path: &&String| self.full(&from, path);
        let full = paths.iter().map(full).collect::<Result<Vec<_>, _>>()?;
        if self.spec.is_none() {
            for full in &full {
                make_parents(&mut machine, full);
            }
        }
        let command = self.process(programs, &from)?;

        let execution_started_ns = ambient::wall_now_ns();
        let output = command.output(&mut machine);
        if let Some(failure) = self.inputs.take_failure() {
            return Err(failure);
        }
        if let Some(why) = not_compiled.get() {
            return Err(ActionError::OfThisWorker(why.clone()));
        }
        // The limits of a run that asks for them are part of it.
        let asked = self.spec.as_ref().map(|spec| &spec.limits);
        let ended = match asked {
            None => ended(output, &self.program())?,
            Some(asked) => run_ended(output, &machine, asked)?,
        };
        if let Some(limit) = limit_of_worker(&machine, asked) {
            return Err(ActionError::OfThisWorker(format!("it ran into the {limit}")));
        }
        let execution_ended_ns = ambient::wall_now_ns();
        self.expect_found(machine.missing_programs(), absent)?;

        let Ended { exit_code, stdout, stderr, mut end } = ended;
        let mut result = api::ActionResult { exit_code, ..api::ActionResult::default() };
        let virtual_duration = machine.elapsed();
        let vfs = machine.vfs_mut();
        let entries = vfs.diff().map_err(|error| ActionError::Machine(error.to_string()))?;
        if let (Some(end), Some(spec)) = (&mut end, &self.spec) {
            tell_beside(end, spec, vfs, &entries);
        }
        let mut outputs = Outputs::new(vfs, &inputs, &entries, &self.server, self.forms());
        for (full, path) in full.iter().zip(&paths) {
            outputs.add(full, path, &mut result)?;
        }
        if let Some(end) = end {
            let (path, digest) = (END.to_owned(), Some(outputs.upload(end.to_bytes()?)?));
            result.output_files.push(api::OutputFile { path, digest, ..Default::default() });
        }
        if self.captures {
            (result.stdout_raw, result.stdout_digest) = outputs.stream(&stdout)?;
            (result.stderr_raw, result.stderr_digest) = outputs.stream(&stderr)?;
        }
        outputs.finish()?;
        self.add_older_fields(&mut result);
        let execution = (execution_started_ns, execution_ended_ns);
        result.execution_metadata = Some(self.metadata(execution, virtual_duration));
        let fetched = self.inputs.fetched();
        let program = self.program();
        Ok(Executed { result: result.encode_to_vec(), exit_code, stdout, stderr, fetched, program })
    }

    /// Fails if one of the programs `missing`, which were looked for in vain, may be on another worker; the toolchains `absent` are not
    /// on this one.
    fn expect_found(&self, missing: &[String], absent: &[String]) -> Result<(), ActionError> {
        // What has a slash is looked for among the inputs.
        let missing = missing.iter().find(|name| !name.contains('/'));
        if let Some(missing) = missing.filter(|_| !self.names_toolchains()) {
            return Err(ActionError::NotInstalled(format!(
                "{missing}: program not found, on this worker; `belljar install` adds toolchains, and an action that names its \
                 toolchains with the property {TOOLCHAIN}, which may be empty, can have such a result"
            )));
        }
        if let (Some(missing), Some(toolchain)) = (missing, absent.first()) {
            let message = format!(
                "the program {missing} was not found, and the toolchain {toolchain}, which may have it, is not installed on \
                 the worker"
            );
            return Err(ActionError::NotInstalled(message));
        }
        Ok(())
    }

    /// When what was done; `execution` is when the program began and ended.
    fn metadata(
        &self,
        execution: (u64, u64),
        virtual_duration: Duration,
    ) -> api::ExecutedActionMetadata {
        let (began, ended) = (Some(timestamp(execution.0)), Some(timestamp(execution.1)));
        let (started, now) = (timestamp(self.started_ns), timestamp(ambient::wall_now_ns()));
        api::ExecutedActionMetadata {
            worker_start_timestamp: Some(started),
            input_fetch_start_timestamp: Some(started),
            input_fetch_completed_timestamp: began,
            execution_start_timestamp: began,
            execution_completed_timestamp: ended,
            virtual_execution_duration: Some(to_proto(virtual_duration)),
            output_upload_start_timestamp: ended,
            output_upload_completed_timestamp: Some(now),
            worker_completed_timestamp: Some(now),
            ..api::ExecutedActionMetadata::default()
        }
    }

    /// The machine, and what is below its mounts.
    fn machine(
        &self,
        programs: Arc<dyn Programs>,
        mut limits: Limits,
    ) -> Result<(Machine, Vec<(String, InputRoot)>), ActionError> {
        let mut builder = Machine::builder().programs(programs);
        let mut inputs = Vec::new();
        match &self.spec {
            None => {
                inputs.push((WORKTREE.to_owned(), self.inputs.clone()));
                let source = Source::Layers(vec![Arc::new(self.inputs.clone())]);
                // The inputs have no times: those of all machines that start at the same time are the same.
                builder = builder.mount(WORKTREE, source).mtimes(Mtimes::Fixed(start_ns()));
            }
            Some(spec) => {
                limits = spec.limits.within(&limits);
                let clock = ClockConfig::Paused { start_ns: spec.start_ns };
                builder = builder.clock(clock).mtimes(spec.mtimes).seed(spec.seed);
                for (number, mount) in spec.mounts.iter().enumerate() {
                    let root = self.inputs.directory_at(&format!("{MOUNTS}/{number}"))?;
                    inputs.push((mount.path.clone(), root.clone()));
                    let source = Source::Layers(vec![Arc::new(root)]);
                    builder = if mount.read_only {
                        builder.mount_read_only(&mount.path, source)
                    } else {
                        builder.mount(&mount.path, source)
                    };
                }
            }
        }
        let asked = self.action.timeout.as_ref().map(timeout_of).transpose()?.flatten();
        if let (Some(asked), Some(most)) = (asked, limits.timeout)
            && asked > most
            && self.spec.is_none()
        {
            let reason = format!("its timeout of {asked:?} is longer than {most:?}, the worker's");
            return Err(ActionError::invalid("the action", reason));
        }
        limits = Limits { timeout: asked.or(limits.timeout), ..limits }.within(&limits);
        let machine = builder.limits(limits).build();
        Ok((machine.map_err(|error| ActionError::Machine(error.to_string()))?, inputs))
    }

    /// The absolute path of the output `path`.
    fn full(&self, from: &str, path: &str) -> Result<String, ActionError> {
        let Some(spec) = &self.spec else {
            // Relative to where it runs, and within the inputs.
            let from = from.strip_prefix(WORKTREE).unwrap_or(from);
            return within("the path of an output", &format!("{from}/{path}"));
        };
        let number = path.strip_prefix(MOUNTS).and_then(|rest| rest.strip_prefix('/'));
        let mount = number.and_then(|number| spec.mounts.get(number.parse::<usize>().ok()?));
        mount.map(|mount| mount.path.clone()).ok_or_else(|| {
            ActionError::invalid("the path of an output", format!("{path:?} is no mount"))
        })
    }

    fn program(&self) -> String {
        match self.spec.as_ref().map(|spec| &spec.program) {
            None => self.command.arguments.first().cloned().unwrap_or_default(),
            Some(ProgramSpec::Module { name } | ProgramSpec::Named(name)) => name.clone(),
        }
    }

    /// The process that it asks for, in the directory `from`.
    fn process(&self, programs: &ToolchainPrograms, from: &str) -> Result<Command, ActionError> {
        let words = match &self.spec {
            None => &self.command.arguments[..],
            Some(_) => &self.command.arguments[WORDS.len()..],
        };
        let (name, args) = words
            .split_first()
            .ok_or_else(|| ActionError::invalid("the command", "it has no arguments"))?;
        let mut command = match &self.spec {
            None => Command::named(name),
            Some(spec) => {
                let mut command = match &spec.program {
                    ProgramSpec::Named(program) => Command::named(program),
                    ProgramSpec::Module { name } => Command::new(&self.module(programs, name)?),
                };
                if !name.is_empty() {
                    command.argv0(name);
                }
                if let Some(stdin) = self.inputs.read(STDIN, CONTENT_BYTES_MAX)? {
                    command.stdin(stdin);
                }
                command
            }
        };
        command.args(args).current_dir(from);
        let variables = self.variables();
        for (name, value) in &variables {
            if name.is_empty() || name.contains(['=', '\0']) {
                let reason = format!("{name:?} is no name of a variable");
                return Err(ActionError::invalid("the command", reason));
            }
            command.env(name, value);
        }
        let values = variables.iter().map(|(_, value)| value);
        if words.iter().chain(values).any(|word| word.contains('\0')) {
            let reason = "an argument or a variable contains NUL";
            return Err(ActionError::invalid("the command", reason));
        }
        Ok(command)
    }

    fn variables(&self) -> Vec<(String, String)> {
        if let Some(spec) = &self.spec {
            return spec.env.clone();
        }
        let variables = self.command.environment_variables.iter();
        variables.map(|variable| (variable.name.clone(), variable.value.clone())).collect()
    }

    /// The module among the inputs.
    fn module(&self, programs: &ToolchainPrograms, name: &str) -> Result<Program, ActionError> {
        let bytes = self.inputs.read(PROGRAM, CONTENT_BYTES_MAX)?.ok_or_else(|| {
            ActionError::invalid("the input root", format!("it has no file {PROGRAM}"))
        })?;
        let wrong = |error: ProgramError| ActionError::invalid("the program", error.to_string());
        let module = Module::from_bytes(name, bytes).map_err(wrong)?;
        programs.program(&module).map_err(wrong)
    }

    /// The absolute path of the directory in which it runs.
    fn directory(&self, machine: &mut Machine) -> Result<String, ActionError> {
        let path = &self.command.working_directory;
        let full = if let Some(spec) = &self.spec {
            spec.current_dir.clone()
        } else {
            check_path("the working directory", path)?;
            within("the working directory", path)?
        };
        let opened = machine.vfs_mut().open_dir(&full);
        let id = opened.map_err(|errno| {
            let reason = format!("the inputs have no directory {full:?}: {errno}");
            ActionError::invalid("the working directory", reason)
        })?;
        machine.vfs_mut().close(id);
        Ok(full)
    }

    /// The paths of the outputs, relative to the directory in which it runs.
    fn output_paths(&self) -> Result<Vec<String>, ActionError> {
        let command = &self.command;
        let mut paths = command.output_paths.clone();
        if paths.is_empty() {
            #[expect(deprecated, reason = "clients of version 2.0 have these alone")]
            let older = command.output_files.iter().chain(&command.output_directories);
            paths.extend(older.cloned());
        }
        paths.sort();
        paths.dedup();
        for path in &paths {
            check_path("the path of an output", path)?;
        }
        Ok(paths)
    }

    fn forms(&self) -> Forms {
        use api::command::OutputDirectoryFormat as Format;
        let format = self.command.output_directory_format;
        Forms {
            tree: format != Format::DirectoryOnly as i32,
            directories: format == Format::DirectoryOnly as i32
                || format == Format::TreeAndDirectory as i32,
        }
    }

    /// Clients of version 2.0 look for symbolic links in other fields alone.
    fn add_older_fields(&self, result: &mut api::ActionResult) {
        if !self.command.output_paths.is_empty() {
            return;
        }
        #[expect(deprecated, reason = "clients of version 2.0 have these alone")]
        {
            let is_file = |path: &String| self.command.output_files.contains(path);
            for link in std::mem::take(&mut result.output_symlinks) {
                let links = if is_file(&link.path) {
                    &mut result.output_file_symlinks
                } else {
                    &mut result.output_directory_symlinks
                };
                links.push(link);
            }
        }
    }
}

/// Adds to `end` what was moved in `vfs`, whose changes are `entries`, and times.
fn tell_beside(end: &mut RunEnd, spec: &Spec, vfs: &Overlay, entries: &[DiffEntry]) {
    let paths: Vec<_> = spec.mounts.iter().map(|mount| &*mount.path).collect();
    end.beside = Beside::of(vfs, entries, &paths);
    end.upper_bytes = vfs.upper_bytes();
}

/// The digest of `what`, if it is one of contents with at most `bytes_max` bytes.
fn digest_in(
    digest: Option<&api::Digest>,
    what: &str,
    bytes_max: u64,
) -> Result<api::Digest, ActionError> {
    match digest {
        Some(digest) if is_digest(digest, bytes_max) => Ok(digest.clone()),
        _ => Err(ActionError::invalid("the action", format!("it has no digest of its {what}"))),
    }
}

/// Checks that `path` is relative.
fn check_path(what: &str, path: &str) -> Result<(), ActionError> {
    if path.starts_with('/') {
        return Err(ActionError::invalid(what, format!("{path:?} is not relative")));
    }
    Ok(())
}

/// The absolute path of `path`, which is relative to the input root, without `.` and `..`.
fn within(what: &str, path: &str) -> Result<String, ActionError> {
    let parsed = VPath::parse(path).map_err(|errno| {
        let reason = match errno {
            Errno::Perm => format!("{path:?} leads out of the input root"),
            errno => format!("{path:?} is no path: {errno}"),
        };
        ActionError::invalid(what, reason)
    })?;
    Ok(parsed.absolute(WORKTREE))
}

/// Makes the directories above the outputs, as far as that is possible: where a file is in the way, there is no output.
fn make_parents(machine: &mut Machine, full: &str) {
    let now = machine.now_ns();
    let vfs = machine.vfs_mut();
    for (end, _) in full.match_indices('/').skip(1) {
        let made = vfs.create_dir(vfs.host_base(), &full[1..end], now);
        if !matches!(made, Ok(_) | Err(Errno::Exist)) {
            return;
        }
    }
}

/// The timeout that `duration` is; `None` for 0, which stands for none.
fn timeout_of(duration: &protobuf::Duration) -> Result<Option<Duration>, ActionError> {
    let timeout = from_proto(duration)
        .ok_or_else(|| ActionError::invalid("the action", "its timeout is no duration"))?;
    Ok(Some(timeout).filter(|timeout| !timeout.is_zero()))
}

/// The time at which machines start.
fn start_ns() -> u64 {
    match ClockConfig::default() {
        ClockConfig::Paused { start_ns } => start_ns,
        ClockConfig::Host => 0,
    }
}

fn timestamp(ns: u64) -> protobuf::Timestamp {
    let seconds = i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX);
    protobuf::Timestamp { seconds, nanos: (ns % 1_000_000_000) as i32 }
}
