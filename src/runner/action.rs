//! An action: what is asked for, and its execution.

use std::sync::Arc;
use std::time::Duration;

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;
use bazel_remote_apis::google::protobuf;
use prost::Message;

use super::RunnerError;
use super::input_root::{Fetched, InputRoot};
use super::outputs::{Forms, Outputs};
use crate::base::ambient;
use crate::base::errno::Errno;
use crate::engine::{Outcome, RunError};
use crate::kernel::machine::limits::Limits;
use crate::kernel::machine::{ClockConfig, Machine, WORKTREE};
use crate::kernel::process::programs::Programs;
use crate::kernel::vfs::{Mtimes, Source, VPath};
use crate::process::{Command, Output};
use crate::remote::{Connection, is_digest};

/// Largest command, in bytes.
const COMMAND_BYTES_MAX: u64 = 16 << 20;

/// Most bytes of an output stream that are part of the result itself.
const INLINE_BYTES_MAX: usize = 1 << 10;

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
}

/// An action that can be executed.
pub struct Runner {
    server: Arc<Connection>,
    action: api::Action,
    command: api::Command,
    /// Whether the output streams are part of the result.
    pub captures: bool,
    started_ns: u64,
}

impl Runner {
    /// The encoded `action`, whose command is fetched from `server`.
    ///
    /// # Errors
    /// [`RunnerError`]: it is malformed, or its command is not there.
    pub fn new(server: Arc<Connection>, action: &[u8]) -> Result<Self, RunnerError> {
        let started_ns = ambient::wall_now_ns();
        let action = api::Action::decode(action)
            .map_err(|error| RunnerError::invalid("the action", error.to_string()))?;
        let digest = digest_in(action.command_digest.as_ref(), "command", COMMAND_BYTES_MAX)?;
        let bytes = server.read(&digest)?.ok_or_else(|| RunnerError::Missing {
            what: "the command".to_owned(),
            hash: digest.hash.clone(),
            len: digest.size_bytes,
        })?;
        let command = api::Command::decode(&*bytes)
            .map_err(|error| RunnerError::invalid("the command", error.to_string()))?;
        Ok(Self { server, action, command, captures: true, started_ns })
    }

    /// The toolchains that it asks for: names, with digests of manifests if it has them.
    pub fn toolchains(&self) -> Vec<(&str, Option<&str>)> {
        #[expect(deprecated, reason = "clients of version 2.1 and older have this one alone")]
        let of_command = self.command.platform.as_ref();
        let platform = self.action.platform.as_ref().or(of_command);
        let properties = platform.map_or(&[][..], |platform| &platform.properties);
        let values = properties.iter().filter(|property| property.name == TOOLCHAIN);
        values
            .map(|property| match property.value.split_once('@') {
                Some((name, digest)) => (name, Some(digest)),
                None => (&*property.value, None),
            })
            .collect()
    }

    /// Executes it: with `programs`, and `limits`, which the action can only tighten.
    ///
    /// # Errors
    /// [`RunnerError`]. A program that fails is no error.
    pub fn run(
        &self,
        programs: Arc<dyn Programs>,
        limits: Limits,
    ) -> Result<Executed, RunnerError> {
        let root = digest_in(self.action.input_root_digest.as_ref(), "input root", 64 << 20)?;
        let inputs = Arc::new(InputRoot::new(self.server.clone(), root)?);
        let executed = self.run_on(&inputs, programs, limits);
        // Whatever came after it: the program did not see the inputs.
        match inputs.take_failure() {
            Some(failure) => Err(failure),
            None => executed,
        }
    }

    fn run_on(
        &self,
        inputs: &Arc<InputRoot>,
        programs: Arc<dyn Programs>,
        mut limits: Limits,
    ) -> Result<Executed, RunnerError> {
        let asked = self.action.timeout.as_ref().and_then(duration_of);
        limits.timeout = match (asked, limits.timeout) {
            (Some(asked), Some(most)) => Some(asked.min(most)),
            (asked, most) => asked.or(most),
        };
        let mut machine = Machine::builder()
            .mount(WORKTREE, Source::Layers(vec![inputs.clone()]))
            // The inputs have no times: those of all machines that start at the same time are the same.
            .mtimes(Mtimes::Fixed(start_ns()))
            .limits(limits)
            .programs(programs)
            .build()
            .map_err(|error| RunnerError::Machine(error.to_string()))?;
        let from = self.directory(&mut machine)?;
        let paths = self.output_paths()?;
        make_parents(&mut machine, &from, &paths)?;
        let command = self.process(&from)?;

        let execution_started_ns = ambient::wall_now_ns();
        let (exit_code, stdout, stderr) = ended(command.output(&mut machine), &self.program())?;
        let execution_ended_ns = ambient::wall_now_ns();
        if let Some(failure) = inputs.take_failure() {
            return Err(failure);
        }

        let mut result = api::ActionResult { exit_code, ..api::ActionResult::default() };
        let virtual_duration = machine.elapsed();
        let mut outputs = Outputs::new(machine.vfs_mut(), inputs, &self.server, self.forms())?;
        for path in &paths {
            outputs.add(&from, path, &mut result)?;
        }
        if self.captures {
            if stdout.len() <= INLINE_BYTES_MAX {
                result.stdout_raw.clone_from(&stdout);
            } else {
                result.stdout_digest = Some(outputs.upload(stdout.clone())?);
            }
            if stderr.len() <= INLINE_BYTES_MAX {
                result.stderr_raw.clone_from(&stderr);
            } else {
                result.stderr_digest = Some(outputs.upload(stderr.clone())?);
            }
        }
        outputs.finish()?;
        self.add_older_fields(&mut result);
        result.execution_metadata = Some(api::ExecutedActionMetadata {
            worker_start_timestamp: Some(timestamp(self.started_ns)),
            input_fetch_start_timestamp: Some(timestamp(self.started_ns)),
            input_fetch_completed_timestamp: Some(timestamp(execution_started_ns)),
            execution_start_timestamp: Some(timestamp(execution_started_ns)),
            execution_completed_timestamp: Some(timestamp(execution_ended_ns)),
            virtual_execution_duration: Some(to_duration(virtual_duration)),
            output_upload_start_timestamp: Some(timestamp(execution_ended_ns)),
            output_upload_completed_timestamp: Some(timestamp(ambient::wall_now_ns())),
            worker_completed_timestamp: Some(timestamp(ambient::wall_now_ns())),
            ..api::ExecutedActionMetadata::default()
        });
        let fetched = inputs.fetched();
        Ok(Executed { result: result.encode_to_vec(), exit_code, stdout, stderr, fetched })
    }

    fn program(&self) -> String {
        self.command.arguments.first().cloned().unwrap_or_default()
    }

    /// The process that it asks for, in the directory `from`.
    fn process(&self, from: &str) -> Result<Command, RunnerError> {
        let (program, args) = self
            .command
            .arguments
            .split_first()
            .ok_or_else(|| RunnerError::invalid("the command", "it has no arguments"))?;
        let mut command = Command::named(program);
        command.args(args).current_dir(from);
        for variable in &self.command.environment_variables {
            if variable.name.is_empty() || variable.name.contains(['=', '\0']) {
                let reason = format!("{:?} is no name of a variable", variable.name);
                return Err(RunnerError::invalid("the command", reason));
            }
            command.env(&variable.name, &variable.value);
        }
        let words = self.command.arguments.iter();
        let values = self.command.environment_variables.iter().map(|variable| &variable.value);
        if words.chain(values).any(|word| word.contains('\0')) {
            let reason = "an argument or a variable contains NUL";
            return Err(RunnerError::invalid("the command", reason));
        }
        Ok(command)
    }

    /// The absolute path of the directory in which it runs.
    fn directory(&self, machine: &mut Machine) -> Result<String, RunnerError> {
        let path = &self.command.working_directory;
        check_path("the working directory", path)?;
        if path.is_empty() {
            return Ok(WORKTREE.to_owned());
        }
        let full = format!("{WORKTREE}/{path}");
        let opened = machine.vfs_mut().open_dir(&full);
        let id = opened.map_err(|errno| {
            let reason = format!("the input root has no directory {path:?}: {errno}");
            RunnerError::invalid("the working directory", reason)
        })?;
        machine.vfs_mut().close(id);
        Ok(full)
    }

    /// The paths of the outputs, relative to the directory in which it runs.
    fn output_paths(&self) -> Result<Vec<String>, RunnerError> {
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

    /// Clients of version 2.0 look for symbolic links in other fields.
    fn add_older_fields(&self, result: &mut api::ActionResult) {
        if !self.command.output_paths.is_empty() {
            return;
        }
        #[expect(deprecated, reason = "clients of version 2.0 have these alone")]
        {
            let is_file = |path: &String| self.command.output_files.contains(path);
            for link in &result.output_symlinks {
                let links = if is_file(&link.path) {
                    &mut result.output_file_symlinks
                } else {
                    &mut result.output_directory_symlinks
                };
                links.push(link.clone());
            }
        }
    }
}

/// The digest of `what`, if it is one of contents with at most `bytes_max` bytes.
fn digest_in(
    digest: Option<&api::Digest>,
    what: &str,
    bytes_max: u64,
) -> Result<api::Digest, RunnerError> {
    match digest {
        Some(digest) if is_digest(digest, bytes_max) => Ok(digest.clone()),
        _ => Err(RunnerError::invalid("the action", format!("it has no digest of its {what}"))),
    }
}

/// Checks that `path` is relative, and has no `.`, `..` or empty names; empty stands for the directory itself.
fn check_path(what: &str, path: &str) -> Result<(), RunnerError> {
    let is_plain = |path: &str| VPath::parse(path).is_ok_and(|parsed| parsed.as_str() == path);
    if is_plain(path) {
        return Ok(());
    }
    let reason = format!("{path:?} is not relative, or has a name that is `.`, `..` or empty");
    Err(RunnerError::invalid(what, reason))
}

/// Makes the directories above the outputs.
fn make_parents(machine: &mut Machine, from: &str, paths: &[String]) -> Result<(), RunnerError> {
    let now = machine.now_ns();
    for path in paths {
        for (end, _) in path.match_indices('/') {
            let vfs = machine.vfs_mut();
            let directory = format!("{from}/{}", &path[..end]);
            match vfs.create_dir(vfs.host_base(), &directory[1..], now) {
                Ok(_) | Err(Errno::Exist) => {}
                Err(errno) => return Err(RunnerError::Output { path: path.clone(), errno }),
            }
        }
    }
    Ok(())
}

/// The exit code and the output of a process that ended, or why it has none that others may use.
fn ended(
    output: Result<Output, RunError>,
    program: &str,
) -> Result<(i32, Vec<u8>, Vec<u8>), RunnerError> {
    let Output { status, stdout, mut stderr } = match output {
        Ok(output) => output,
        // What the inputs have is the same on each worker; what is installed is not.
        Err(RunError::Spawn(error)) if program.contains('/') => {
            let code = if error.errno == Errno::Noent { 127 } else { 126 };
            return Ok((code, Vec::new(), format!("belljar: {error}\n").into_bytes()));
        }
        Err(RunError::Spawn(error)) => {
            let message = format!(
                "{error}; `belljar install` on the worker adds toolchains, and a path with a slash names a module of the \
                 inputs"
            );
            return Err(RunnerError::NotInstalled(message));
        }
        Err(error) => return Err(error.into()),
    };
    let outcome = status.outcome();
    let mut say = |message: String| stderr.extend(format!("belljar: {message}\n").into_bytes());
    match outcome {
        Outcome::Limit(limit) => {
            let (limit, of_time) = (limit.name(), outcome.is_of_time());
            return Err(RunnerError::Limit { limit, of_time });
        }
        Outcome::Trapped(trap) => say(format!("{program} trapped: {}", trap.message)),
        Outcome::Signalled(signal) => say(format!("{program} was ended by {signal}")),
        Outcome::Deadlock(waits) => {
            say(format!("{program} was ended: its processes wait for each other\n{waits}"));
        }
        Outcome::Exited(_) | Outcome::Tape => {}
    }
    // Codes above 255 are those of no system.
    let code = i32::try_from(outcome.code().min(255)).unwrap_or(255);
    Ok((code, stdout, stderr))
}

fn duration_of(duration: &protobuf::Duration) -> Option<Duration> {
    let seconds = u64::try_from(duration.seconds).ok()?;
    let duration = Duration::new(seconds, u32::try_from(duration.nanos).ok()?);
    // 0 stands for none.
    Some(duration).filter(|duration| !duration.is_zero())
}

/// The time at which machines start.
fn start_ns() -> u64 {
    match ClockConfig::default() {
        ClockConfig::Paused { start_ns } => start_ns,
        ClockConfig::Host => 0,
    }
}

fn to_duration(duration: Duration) -> protobuf::Duration {
    protobuf::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: duration.subsec_nanos().cast_signed(),
    }
}

fn timestamp(ns: u64) -> protobuf::Timestamp {
    let seconds = i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX);
    protobuf::Timestamp { seconds, nanos: (ns % 1_000_000_000) as i32 }
}
