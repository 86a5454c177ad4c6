//! A run that a cluster executes.

use std::path::PathBuf;
use std::sync::Arc;

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;
use prost::Message as _;

use super::ActionError;
use super::beside::{At, TimesOf};
use super::changes::Changes;
use super::duration::{from_proto, to_proto};
use super::error::fetch;
use super::known_inputs::KnownInputs;
use super::moves::{ChangedMount, Moves, absolute};
use super::outputs::{Forms, Outputs};
use super::run_end::{END, END_BYTES_MAX, RunEnd};
use super::spec::{FILE, MOUNTS, PROGRAM, STDIN, Spec, WORDS};
use super::trees::Trees;
use crate::kernel::machine::Machine;
use crate::kernel::machine::limits::Limit;
use crate::kernel::vfs::Times;
use crate::remote::code::DEADLINE_EXCEEDED;
use crate::remote::{Connection, RemoteError, Stage, is_digest};

/// Most bytes of an output stream of a run.
const STREAM_BYTES_MAX: u64 = 1 << 30;

/// What becomes of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Its inputs are uploaded.
    Uploading,
    /// The server has taken it.
    Taken,
    /// It waits for a worker.
    Queued,
    /// A worker executes it.
    Executing,
    /// What it changed is fetched.
    Fetching,
}

/// A run for a cluster.
pub struct Request {
    /// The server.
    pub server: Arc<Connection>,
    /// The machine.
    pub spec: Spec,
    /// The name under which the program runs; empty for its own.
    pub argv0: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The module, unless the worker has it.
    pub module: Option<Vec<u8>>,
    /// Standard input.
    pub stdin: Option<Vec<u8>>,
    /// Whether it is executed although its result is known.
    pub anew: bool,
    /// Whether the contents of what it changed are needed, or only what that is.
    pub needs_contents: bool,
    /// A directory that keeps digests of files, which are not read again as long as they have not changed.
    pub digests: Option<PathBuf>,
}

/// What a run did elsewhere. Its changes are made in the machine.
pub struct RemoteRun {
    /// How it ended.
    pub end: RunEnd,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
    /// Whether the server knew the result.
    pub known: bool,
}

impl Request {
    /// Has it executed on what the mounts of `machine` have, and makes its changes there; `told` gets what becomes of it. Once
    /// `stopped` says so, it is cancelled.
    ///
    /// # Errors
    /// [`ActionError`]. A program that fails is no error.
    pub fn run(
        &self,
        machine: &mut Machine,
        stopped: &dyn Fn() -> bool,
        mut told: impl FnMut(Progress),
    ) -> Result<RemoteRun, ActionError> {
        told(Progress::Uploading);
        let (action, mounts, mut trees) = self.upload(machine)?;
        let executed = self.server.execute(action, self.anew, stopped, |stage| {
            told(match stage {
                Stage::Taken => Progress::Taken,
                Stage::Queued => Progress::Queued,
                Stage::Executing => Progress::Executing,
            });
        });
        let response = match executed {
            // The timeout that the run asks for: as here, it shows nothing of what it did.
            Err(RemoteError::Refused { code: DEADLINE_EXCEEDED, .. })
                if self.spec.limits.timeout.is_some() =>
            {
                let end = RunEnd::limit(Limit::Timeout);
                return Ok(RemoteRun { end, stdout: Vec::new(), stderr: Vec::new(), known: false });
            }
            response => response?,
        };
        told(Progress::Fetching);
        let known = response.cached_result;
        let lacks = |what: &str| ActionError::invalid("the result", format!("it lacks {what}"));
        let result = response.result.ok_or_else(|| lacks("everything"))?;
        let end = result.output_files.iter().find(|file| file.path == END);
        let end = end.and_then(|file| file.digest.as_ref()).ok_or_else(|| lacks(END))?;
        let end = RunEnd::read(&self.fetch(end, END, END_BYTES_MAX)?)?;
        if let Some(virtual_duration) = result
            .execution_metadata
            .as_ref()
            .and_then(|metadata| metadata.virtual_execution_duration.as_ref())
            .and_then(from_proto)
        {
            machine.advance(virtual_duration);
        }
        let mut changed = Vec::new();
        for (number, before) in mounts.into_iter().enumerate() {
            let mount = &self.spec.mounts[number];
            if mount.read_only {
                continue;
            }
            let output = format!("{MOUNTS}/{number}");
            let found = result.output_directories.iter().find(|it| it.path == output);
            let after = found.and_then(|output| output.root_directory_digest.clone());
            let (path, after) = (mount.path.clone(), after.ok_or_else(|| lacks(&output))?);
            changed.push(ChangedMount { number, path, before, after });
        }
        self.make(&changed, &end, machine, &mut trees)?;
        let stream = |raw: Vec<u8>, digest: Option<&api::Digest>, what| match digest {
            Some(digest) if raw.is_empty() => self.fetch(digest, what, STREAM_BYTES_MAX),
            _ => Ok(raw),
        };
        Ok(RemoteRun {
            end,
            stdout: stream(result.stdout_raw, result.stdout_digest.as_ref(), "standard output")?,
            stderr: stream(result.stderr_raw, result.stderr_digest.as_ref(), "standard error")?,
            known,
        })
    }

    /// Makes the changes of the mounts `changed` in `machine`; `end` says what the trees do not.
    fn make(
        &self,
        changed: &[ChangedMount],
        end: &RunEnd,
        machine: &mut Machine,
        trees: &mut Trees<'_>,
    ) -> Result<(), ActionError> {
        let (now, vfs) = (machine.now_ns(), machine.vfs_mut());
        let absolute = |at: &At| Some(absolute(changed, at)?.1);
        let written = end.beside.times.iter().filter(|times| !times.was_set);
        let written = written.filter_map(|times| Some((absolute(&times.at)?, times.modified_ns)));
        let written = written.collect();
        let mut moves = Moves::begin(vfs, trees, changed, &end.beside, now)?;
        let mut making = Changes { vfs, trees, now, written, fetches: self.needs_contents };
        for mount in changed {
            making.make(mount, &mut moves)?;
        }
        making.finish(moves)?;
        for TimesOf { at, accessed_ns, modified_ns, changed_ns, was_set } in &end.beside.times {
            let times = Times { atim: *accessed_ns, mtim: *modified_ns, ctim: *changed_ns };
            if let Some(path) = absolute(at) {
                let base = vfs.host_base();
                // Of what is not there, nothing is told.
                let _ = vfs.restore_times_at(base, &path[1..], times, *was_set);
            }
        }
        Ok(())
    }

    fn fetch(&self, digest: &api::Digest, what: &str, max: u64) -> Result<Vec<u8>, ActionError> {
        if !is_digest(digest, max) {
            let reason = format!("{what} has {} bytes", digest.size_bytes);
            return Err(ActionError::invalid("the result", reason));
        }
        fetch(&self.server, digest, || what.to_owned())
    }

    /// Uploads the action and what it needs; returns its digest, those of the mounts, and their directories.
    fn upload(
        &self,
        machine: &mut Machine,
    ) -> Result<(api::Digest, Vec<api::Digest>, Trees<'_>), ActionError> {
        let forms = Forms { tree: false, directories: true };
        let known = self.digests.as_ref().map(|dir| KnownInputs::of(dir, machine.vfs().mounts()));
        let outputs = Outputs::new(machine.vfs_mut(), &[], &[], &self.server, forms);
        let mut outputs = outputs.with_known(known);
        let mut mounts = Vec::new();
        for mount in &self.spec.mounts {
            let directory = outputs.directory(&mount.path, &mount.path).map_err(of_input)?;
            // Its form asks for it.
            mounts.push(directory.root_directory_digest.unwrap_or_default());
        }
        let nodes = mounts.iter().enumerate().map(|(number, digest)| api::DirectoryNode {
            name: number.to_string(),
            digest: Some(digest.clone()),
        });
        let mut directories: Vec<_> = nodes.collect();
        // Bytewise, as the API says: `10` is before `2`.
        directories.sort_by(|a, b| a.name.cmp(&b.name));
        let message = api::Directory { directories, ..api::Directory::default() };
        let all = outputs.upload(message.encode_to_vec())?;
        let spec = serde_json::to_vec(&self.spec)
            .map_err(|error| ActionError::Machine(error.to_string()))?;
        let mut files = vec![(FILE, outputs.upload(spec)?)];
        if let Some(module) = &self.module {
            files.push((PROGRAM, outputs.upload(module.clone())?));
        }
        if let Some(stdin) = &self.stdin {
            files.push((STDIN, outputs.upload(stdin.clone())?));
        }
        let file = |(name, digest): (&str, api::Digest)| api::FileNode {
            name: name.to_owned(),
            digest: Some(digest),
            ..api::FileNode::default()
        };
        let root = api::Directory {
            files: files.into_iter().map(file).collect(),
            directories: vec![api::DirectoryNode { name: MOUNTS.to_owned(), digest: Some(all) }],
            ..api::Directory::default()
        };
        let action = api::Action {
            command_digest: Some(outputs.upload(self.command().encode_to_vec())?),
            input_root_digest: Some(outputs.upload(root.encode_to_vec())?),
            timeout: self.spec.limits.timeout.map(to_proto),
            ..api::Action::default()
        };
        let action = outputs.upload(action.encode_to_vec())?;
        Ok((action, mounts, Trees::new(outputs.finish()?, &self.server)?))
    }

    fn command(&self) -> api::Command {
        let words = WORDS.iter().map(|word| (*word).to_owned());
        let arguments = words.chain([self.argv0.clone()]).chain(self.args.iter().cloned());
        let mounts = self.spec.mounts.iter().enumerate().filter(|(_, mount)| !mount.read_only);
        let mut output_paths: Vec<_> = mounts.map(|(at, _)| format!("{MOUNTS}/{at}")).collect();
        output_paths.push(END.to_owned());
        output_paths.sort();
        // What is as it was needs no description then.
        let output_directory_format = api::command::OutputDirectoryFormat::DirectoryOnly.into();
        let arguments = arguments.collect();
        api::Command { arguments, output_paths, output_directory_format, ..Default::default() }
    }
}

/// `error` for an input, which was read as outputs are.
fn of_input(error: ActionError) -> ActionError {
    match error {
        ActionError::Output { path, errno } => ActionError::Input { path, errno },
        other => other,
    }
}
