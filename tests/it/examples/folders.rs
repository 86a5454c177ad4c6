//! The folders of `examples/`: each is copied to a temporary place, where the commands of its README print what it shows.
//!
//! A test whose tools are missing prints that it was skipped. `BELLJAR_REQUIRE_EXAMPLES=1` makes that a failure.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::console::examples;
use crate::support::{copy_tree, package, skipped};

/// Folders that have a test here.
const TESTED: [&str; 7] =
    ["agent", "cargo-test", "formatter-in-ci", "make", "ninja", "pytest", "ship-a-toolchain"];

/// Carries out the README of the example `name`. Commands get `variables`.
fn carry_out(name: &str, variables: &[(&str, OsString)]) {
    assert!(TESTED.contains(&name), "name {name} in TESTED");
    let scratch = tempfile::tempdir().unwrap();
    let (folder, home) = (scratch.path().join(name), scratch.path().join("home"));
    copy_tree(&package().join("examples").join(name), &folder);
    let document = format!("examples/{name}/README.md");
    let text = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let commands = examples(&text);
    assert!(!commands.is_empty(), "{document} has no commands");
    for command in commands {
        // What follows depends on what went before.
        if let Some(mistake) = command.mistake(&document, &folder, &home, variables) {
            panic!("{mistake}");
        }
    }
}

/// Whether the example `name` can run: nothing that it needs is `missing`.
fn can_run(name: &str, missing: Option<String>) -> bool {
    let Some(missing) = missing else { return true };
    let required = std::env::var_os("BELLJAR_REQUIRE_EXAMPLES").is_some();
    assert!(!required, "the example {name} needs {missing}");
    skipped(&format!("the example {name}"), &format!("no {missing}"));
    false
}

/// The first of `programs` that this system does not have.
fn missing_program(programs: &[&str]) -> Option<String> {
    let is_here = |program: &&&str| Command::new(program).arg("--version").output().is_ok();
    programs.iter().find(|program| !is_here(program)).map(|program| (*program).to_owned())
}

#[test]
fn each_example_has_a_test_and_a_line_in_the_list() {
    let folder = package().join("examples");
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let found: BTreeSet<String> = entries
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(found, TESTED.map(str::to_owned).into());
    let list = std::fs::read_to_string(folder.join("README.md")).unwrap();
    for name in TESTED {
        assert!(
            list.contains(&format!("| [{name}]({name}/README.md) |")),
            "{name} is not in the list"
        );
    }
}

#[test]
fn formatter_in_ci() {
    carry_out("formatter-in-ci", &[]);
}

#[test]
fn code_generator_in_a_makefile() {
    if can_run("make", missing_program(&["make", "cc"])) {
        carry_out("make", &[]);
    }
}

#[test]
fn cargo_test_of_code_that_calls_git() {
    // `cargo test` of this package has set variables that would be on the way.
    let target = tempfile::tempdir().unwrap();
    carry_out("cargo-test", &[("CARGO_TARGET_DIR", target.path().into())]);
}

#[cfg(feature = "import")]
#[test]
fn firmware_with_ninja() {
    let package = crate::support::real("avr", "the example ninja").is_none();
    let missing = package.then(|| "AVR GCC: run toolchains/fetch.sh real avr".to_owned());
    if can_run("ninja", missing.or_else(|| missing_program(&["ninja"]))) {
        carry_out("ninja", &[]);
    }
}

#[cfg(feature = "import")]
#[test]
fn toolchain_shipped_as_a_bundle() {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    let sysroot = PathBuf::from(String::from_utf8(sysroot.stdout).unwrap().trim_end());
    let target = !sysroot.join("lib/rustlib/wasm32-wasip1/lib").is_dir();
    let missing = target.then(|| "target: run rustup target add wasm32-wasip1".to_owned());
    if can_run("ship-a-toolchain", missing) {
        carry_out("ship-a-toolchain", &[]);
    }
}

/// The newest wheel of the Python package, which `python/build.sh` builds.
fn wheel() -> Option<PathBuf> {
    let wheels = std::fs::read_dir(package().join("target/wheels")).ok()?;
    let wheels = wheels.map(|entry| entry.unwrap().path());
    let age = |path: &PathBuf| std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
    wheels.filter(|path| path.extension().is_some_and(|end| end == "whl")).max_by_key(age)
}

#[test]
fn pytest_of_code_that_calls_cc() {
    let wheel = wheel();
    let missing = wheel.is_none().then(|| "wheel: run python/build.sh --dev".to_owned());
    if !can_run("pytest", missing.or_else(|| missing_program(&["python3"]))) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let run = |program: &Path, args: &[&str]| {
        let done = Command::new(program).args(args).current_dir(scratch.path()).output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", crate::support::stderr(&done));
    };
    run(Path::new("python3"), &["-m", "venv", "venv"]);
    let bin = scratch.path().join("venv/bin");
    let wheel = format!("{}[pytest]", wheel.unwrap().display());
    run(&bin.join("pip"), &["install", "--quiet", "--disable-pip-version-check", &wheel]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path)));
    carry_out("pytest", &[("PATH", path.unwrap())]);
}

#[cfg(feature = "mcp")]
#[test]
fn agent_that_runs_python_from_a_model() {
    let client = package().join("target/mcp");
    let missing = (!client.is_dir()).then(|| {
        "client of MCP: run python3 -m pip install --target target/mcp mcp==2.3.0".to_owned()
    });
    let python = crate::support::real("python", "the example agent").is_none();
    let missing = missing
        .or_else(|| python.then(|| "CPython: run toolchains/fetch.sh real python".to_owned()));
    if can_run("agent", missing.or_else(|| missing_program(&["python3"]))) {
        carry_out("agent", &[("PYTHONPATH", client.into())]);
    }
}

#[test]
fn agent_of_the_example_is_that_of_the_documentation() {
    let text = std::fs::read_to_string(package().join("docs/agents.md")).unwrap();
    for (language, name) in [("python", "agent.py"), ("json", "policy.json")] {
        let block = text.split(&format!("```{language}\n")).nth(1).unwrap();
        let block = block.split("```").next().unwrap();
        let file = std::fs::read_to_string(package().join("examples/agent").join(name)).unwrap();
        assert!(file == block, "examples/agent/{name} differs from docs/agents.md");
    }
}
