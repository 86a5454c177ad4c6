//! `belljar doctor --self-test`: runs whose bytes are the same on every system, compared with those of the belljar that
//! was published.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::args::values::SHELL;
use super::home::cache_dir;
use super::setup::toolchains;
use crate::base::disk::{self, DiskError};
use crate::kernel::Programs;
use crate::kernel::vfs::{VPath, render_unified_diff};
use crate::process::ShellImage;
use crate::sandbox::{
    ExecRequest, FilesystemAccess, MountSource, Sandbox, SandboxMount, SandboxSpec, SnapshotStore,
};
use crate::tape::lines::line_of;
use crate::tape::{MemoryTape, Recorder, Redaction};
use crate::testbench::record_changes;
use crate::{
    Command, Digest, Engine, EngineConfig, HostDir, Machine, MachineBuilder, Mtimes, Output,
    ToolchainPrograms, Toolchains, WORKTREE,
};

/// What is run. The file says what its fields mean.
const RUNS: &str = include_str!("../../tests/corpus/runs.toml");

/// What the runs should give, by name.
const DIGESTS: &str = include_str!("../../tests/corpus/digests.json");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Corpus {
    run: Vec<Row>,
}

/// One run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    #[serde(default)]
    script: String,
    #[serde(default)]
    steps: Vec<String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    modules: BTreeMap<String, String>,
    #[serde(default)]
    needs: Vec<String>,
}

/// What a run gave, or should give.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Digests {
    /// Exit code, standard output and standard error.
    output: Digest,
    /// The records of its tape, with its changes; of a session its changes.
    tape: Digest,
}

/// What a run gave.
struct Found {
    digests: Digests,
    output: Output,
    /// The lines of its tape, without the header; of a session its changes.
    records: Vec<u8>,
}

/// The result of a row.
#[derive(Serialize)]
pub struct RowResult {
    name: String,
    /// `equal`, `differs`, `failed`, or `left_out` if a program that it needs is not there.
    result: &'static str,
    /// What differs, why it failed, or what it lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<Digests>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<Digests>,
    /// Where the output and the records of a row that differs are, to compare them with those of another machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<PathBuf>,
}

impl RowResult {
    /// Whether it is equal, or was left out.
    pub fn is_good(&self) -> bool {
        matches!(self.result, "equal" | "left_out")
    }

    /// In a line, as the other checks of `doctor`.
    pub fn line(&self) -> String {
        let word = match self.result {
            "equal" => "ok",
            "left_out" => "-",
            _ => "FAILED",
        };
        let why = self.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let kept = self.kept.as_ref().map(|dir| format!("; see {}", dir.display()));
        format!("{word:6}  {}{why}{}", self.name, kept.unwrap_or_default())
    }
}

/// Runs all rows whose programs are built in, installed, or in the toolchains `dirs`; calls `tell` after each. The
/// directory `keep` gets a directory for each row that differs.
///
/// # Errors
/// A toolchain cannot be read; this machine can run no engine.
pub fn run(
    dirs: &[PathBuf],
    keep: Option<&Path>,
    mut tell: impl FnMut(&RowResult),
) -> Result<Vec<RowResult>> {
    let corpus: Corpus = toml::from_str(RUNS).context("the rows of the self-test")?;
    let expected: BTreeMap<String, Digests> =
        serde_json::from_str(DIGESTS).context("the digests of the self-test")?;
    let (built_in, toolchains) = (Toolchains::default(), toolchains(dirs)?);
    let config = EngineConfig {
        pool_slots: 0,
        cache_dir: cache_dir().ok(),
        optimize_in_background: false,
        ..EngineConfig::default()
    };
    let engine = Engine::new(config)?;
    let mut results = Vec::new();
    for row in corpus.run {
        // Programs of toolchains would precede the built-in ones of the same name.
        let own = if row.needs.is_empty() { &built_in } else { &toolchains };
        let result = result(&row, &engine, own, expected.get(&row.name), keep);
        tell(&result);
        results.push(result);
    }
    Ok(results)
}

fn result(
    row: &Row,
    engine: &Engine,
    toolchains: &Toolchains,
    expected: Option<&Digests>,
    keep: Option<&Path>,
) -> RowResult {
    let ended = |result, why| RowResult {
        name: row.name.clone(),
        result,
        why,
        found: None,
        expected: None,
        kept: None,
    };
    let is_missing = |name: &&String| toolchains.resolve(name).is_err();
    if let Some(missing) = row.needs.iter().find(is_missing) {
        let why = format!("no {missing}; install its toolchain, or name it with --toolchain DIR");
        return ended("left_out", Some(why));
    }
    let found = match found(row, engine, toolchains) {
        Ok(found) if Some(&found.digests) == expected => return ended("equal", None),
        Ok(found) => found,
        Err(error) => {
            let failed = ended("failed", Some(format!("{error:#}")));
            return RowResult { expected: expected.cloned(), ..failed };
        }
    };
    let is_output = expected.is_none_or(|expected| expected.output != found.digests.output);
    let what = if is_output { "the output differs" } else { "the tape differs" };
    RowResult {
        kept: keep.and_then(|dir| found.keep(&dir.join(&row.name)).ok()),
        found: Some(found.digests),
        expected: expected.cloned(),
        ..ended("differs", Some(what.to_owned()))
    }
}

/// Writes the file `name` below the directory `dir`, which is made if it does not exist.
fn write(dir: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let path = dir.join(name);
    disk::create_private_dir_all(path.parent().unwrap_or(dir))?;
    disk::create(&path)?.write_all(bytes).map_err(DiskError::new("write", &path))?;
    Ok(())
}

impl Found {
    fn new(output: Output, records: Vec<u8>) -> Self {
        let status = output.status.code().map_or_else(|| "none".to_owned(), |it| it.to_string());
        let streams = [status.as_bytes(), b"\0", &output.stdout, b"\0", &output.stderr].concat();
        let digests = Digests { output: Digest::of(&streams), tape: Digest::of(&records) };
        Self { digests, output, records }
    }

    /// Writes what differs to the directory `dir`; returns it.
    fn keep(&self, dir: &Path) -> Result<PathBuf> {
        write(dir, "stdout", &self.output.stdout)?;
        write(dir, "stderr", &self.output.stderr)?;
        write(dir, "tape", &self.records)?;
        Ok(dir.to_owned())
    }
}

/// Runs `row` in a directory of its own.
fn found(row: &Row, engine: &Engine, toolchains: &Toolchains) -> Result<Found> {
    let folder = tempfile::tempdir().context("cannot make a temporary directory")?;
    let tree = folder.path().join("tree");
    disk::create_private_dir_all(&tree)?;
    for (name, text) in &row.files {
        write(&tree, name, text.as_bytes())?;
    }
    for (name, text) in &row.modules {
        write(&tree, &format!("{name}.wasm"), &wat::parse_str(text)?)?;
    }
    let programs =
        ToolchainPrograms::new(engine, toolchains.clone()).with(SHELL, ShellImage::maker());
    let programs: Arc<dyn Programs> = Arc::new(programs);
    if !row.steps.is_empty() {
        return found_in_session(&row.steps, folder.path(), &tree, &programs);
    }
    let tape = MemoryTape::default();
    let recorder = Recorder::new(tape.clone(), Redaction::default());
    let mut machine = over(&tree, &programs)?.tape(recorder.clone()).build()?;
    let output = Command::shell(&row.script).output(&mut machine)?;
    record_changes(&mut machine, &recorder)?;
    recorder.finish()?;
    let records: Vec<u8> = tape.records().iter().flat_map(line_of).collect();
    Ok(Found::new(output, records))
}

/// A machine over the directory `tree`. Times of files are an input that differs here and there.
fn over(tree: &Path, programs: &Arc<dyn Programs>) -> Result<MachineBuilder> {
    let builder = Machine::builder().worktree(HostDir::open(tree)?);
    Ok(builder.mtimes(Mtimes::Content).programs(programs.clone()))
}

/// Makes each of `steps` in a session over the directory `tree`, which is saved in `folder` and resumed before it, and in
/// a fork. Then applies the changes of the session, and lists the directory.
fn found_in_session(
    steps: &[String],
    folder: &Path,
    tree: &Path,
    programs: &Arc<dyn Programs>,
) -> Result<Found> {
    let worktree = SandboxMount {
        target: WORKTREE.to_owned(),
        source: MountSource::Host(tree.to_owned()),
        access: FilesystemAccess::ReadWrite,
    };
    let spec = SandboxSpec {
        session_id: "self-test".to_owned(),
        mounts: vec![worktree],
        mtimes: Mtimes::Content,
        ..SandboxSpec::default()
    };
    let store = SnapshotStore::new(folder.join("store"));
    let mut session = Sandbox::provision(programs.clone(), spec)?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    for step in steps {
        let saved = store.save(&mut session)?;
        session = store.resume(saved, programs.clone())?;
        let mut fork = session.fork()?;
        for session in [&mut fork, &mut session] {
            let in_worktree =
                ExecRequest { cwd: Some(WORKTREE.to_owned()), ..ExecRequest::shell(step) };
            let done = session.exec(&in_worktree)?;
            stdout.extend(done.stdout);
            stdout.extend(format!("exit code {}\n", done.exit_code).into_bytes());
            stderr.extend(done.stderr);
        }
    }
    let changes = render_unified_diff(&session.diff()?, &VPath::root())?;
    session.apply()?;
    let list = "find . | sort; find . -type f | sort | xargs sha256sum";
    let mut output = Command::shell(list).output(&mut over(tree, programs)?.build()?)?;
    stdout.extend(output.stdout);
    stderr.extend(output.stderr);
    (output.stdout, output.stderr) = (stdout, stderr);
    Ok(Found::new(output, changes.into_bytes()))
}
