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
use crate::process::ShellImage;
use crate::tape::lines::line_of;
use crate::tape::{MemoryTape, Recorder, Redaction};
use crate::testbench::record_changes;
use crate::{
    Command, Digest, Engine, EngineConfig, HostDir, Machine, Mtimes, Output, ToolchainPrograms,
    Toolchains,
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
    script: String,
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
    /// The records of its tape, with its changes.
    tape: Digest,
}

/// What a run gave.
struct Found {
    digests: Digests,
    output: Output,
    /// The lines of its tape, without the header.
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
    for (name, text) in &row.files {
        write(folder.path(), name, text.as_bytes())?;
    }
    for (name, text) in &row.modules {
        write(folder.path(), &format!("{name}.wasm"), &wat::parse_str(text)?)?;
    }
    let tape = MemoryTape::default();
    let recorder = Recorder::new(tape.clone(), Redaction::default());
    let programs =
        ToolchainPrograms::new(engine, toolchains.clone()).with(SHELL, ShellImage::maker());
    // Times of files are an input that differs here and there.
    let mut machine = Machine::builder()
        .worktree(HostDir::open(folder.path())?)
        .mtimes(Mtimes::Content)
        .programs(Arc::new(programs))
        .tape(recorder.clone())
        .build()?;
    let output = Command::shell(&row.script).output(&mut machine)?;
    record_changes(&mut machine, &recorder)?;
    recorder.finish()?;
    let records: Vec<u8> = tape.records().iter().flat_map(line_of).collect();
    let status = output.status.code().map_or_else(|| "none".to_owned(), |code| code.to_string());
    let streams = [status.as_bytes(), b"\0", &output.stdout, b"\0", &output.stderr].concat();
    let digests = Digests { output: Digest::of(&streams), tape: Digest::of(&records) };
    Ok(Found { digests, output, records })
}
