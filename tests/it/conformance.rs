//! Runs the official suite, or any folder of programs in its format: `NAME.wasm` with an optional
//! `NAME.json` beside it (`args`, `env`, `root`, `dirs`, `exit_code`, `stdout`, `stderr`, or a list
//! of `operations`).
//!
//! The suite is not part of this repository. `BELLJAR_WASI_TESTSUITE` names the folder of its
//! tests for WASI preview1 and 0.3; the default is `wasi-testsuite/tests` beside `Cargo.toml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belljar::{Command, HostDir, Machine, Module, Preopen, Program, Reach, Source};
use serde::Deserialize;

use crate::support;

#[derive(Deserialize, Default)]
struct Manifest {
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    root: Option<String>,
    #[serde(default)]
    dirs: Vec<String>,
    #[serde(default)]
    exit_code: u32,
    stdout: Option<String>,
    stderr: Option<String>,
    #[serde(default)]
    operations: Vec<Operation>,
}

#[derive(Deserialize)]
struct Operation {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    id: Option<String>,
    payload: Option<String>,
    #[serde(default)]
    exit_code: u32,
}

/// Programs of WASI 0.3 that are not run, by the beginnings of their names, and why not.
const NOT_RUN: [(&str, &str); 2] =
    [("http-", "`wasi:http` is there in 0.2 alone"), ("sockets-", "creating a socket is denied")];

/// All programs beneath `folder` that are run.
fn programs(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            programs(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "wasm") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_of_0_3 = path.parent().is_some_and(|folder| folder.ends_with("wasm32-wasip3"));
            if !is_of_0_3 || NOT_RUN.iter().all(|(beginning, _)| !name.starts_with(beginning)) {
                found.push(path);
            }
        }
    }
    found.sort();
}

/// Runs `path`; the error names what differs from its manifest.
fn run(path: &Path) -> Result<(), String> {
    let manifest = match std::fs::read_to_string(path.with_extension("json")) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| error.to_string())?,
        Err(_) => Manifest::default(),
    };
    let folder = path.parent().unwrap();
    let mut builder = Machine::builder().tmp(false);
    let mut preopens = Vec::new();
    let dirs = manifest.dirs.iter().map(|dir| (dir, format!("/{dir}")));
    for (dir, at) in manifest.root.iter().map(|root| (root, "/".to_owned())).chain(dirs) {
        let source = HostDir::open(&folder.join(dir)).map_err(|error| format!("{dir}: {error}"))?;
        builder = builder.mount(at.clone(), Source::Host(Arc::new(source)));
        preopens.push(Preopen { path: at.clone(), name: at, reach: Reach::Confined });
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let module = Module::read(path).map_err(|error| error.to_string())?;
    let program = Program::new(support::engine(), &module).map_err(|error| error.to_string())?;
    let mut command = Command::new(&program);
    command.argv0(name.into_bytes()).args(&manifest.args).preopens(preopens);
    for (key, value) in &manifest.env {
        command.env(key, value);
    }
    let mut expected = (manifest.exit_code, manifest.stdout, manifest.stderr);
    let mut stdin = Vec::new();
    for operation in manifest.operations {
        let payload = operation.payload.unwrap_or_default();
        match (operation.kind.as_str(), operation.id.as_deref()) {
            ("run", _) => {
                command.args(&operation.args);
                for (key, value) in &operation.env {
                    command.env(key, value);
                }
            }
            ("write", Some("stdin")) => stdin.extend(payload.into_bytes()),
            ("read", Some("stdout")) => expected.1 = Some(payload),
            ("read", Some("stderr")) => expected.2 = Some(payload),
            ("wait", _) => expected.0 = operation.exit_code,
            (kind, _) => return Err(format!("unknown operation {kind:?}")),
        }
    }
    let (_, output) = support::replays::output_with(builder, command.stdin(stdin), &[module]);
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    let code_is_right = output.status.code() == Some(expected.0);
    let stdout_is_right = expected.1.is_none_or(|expected| expected == stdout);
    let stderr_is_right = expected.2.is_none_or(|expected| expected == stderr);
    if code_is_right && stdout_is_right && stderr_is_right {
        return Ok(());
    }
    Err(format!("{:?}, expected code {}\n{stdout}{stderr}", output.status, expected.0))
}

#[test]
fn official_suite() {
    let folder = std::env::var_os("BELLJAR_WASI_TESTSUITE")
        .map_or_else(|| crate::support::package().join("wasi-testsuite/tests"), PathBuf::from);
    if !folder.is_dir() {
        support::skipped("conformance::official_suite", "no folder wasi-testsuite/tests");
        return;
    }
    let mut found = Vec::new();
    programs(&folder, &mut found);
    let failed: Vec<String> = found
        .iter()
        .filter_map(|path| Some(format!("{}: {}", path.display(), run(path).err()?)))
        .collect();
    println!("{} of {} programs pass", found.len() - failed.len(), found.len());
    assert!(!found.is_empty(), "{} holds no programs", folder.display());
    assert!(failed.is_empty(), "{} of {} fail:\n{}", failed.len(), found.len(), failed.join("\n"));
}
