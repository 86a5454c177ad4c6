//! Runs every command of the documentation and compares its output.
//!
//! In a block fenced as `console`, a line that begins with `$ ` is a command for bash. The lines up to the next command
//! are its standard output and standard error together. A line `...` matches any lines; `...` within a line matches any
//! text. The commands of one file run in order in a scratch copy of this package's sources, where `cargo run --` runs
//! the binary under test. Other blocks are not run. A document that needs a real toolchain is skipped if it is absent;
//! otherwise the toolchain is in `real/`.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::support::{self, package};

/// Each document, and the real toolchain that it needs.
const DOCUMENTS: &[(&str, Option<&str>)] = &[
    ("README.md", None),
    ("docs/cli.md", None),
    ("docs/caching.md", None),
    ("docs/components.md", None),
    ("docs/shell.md", None),
    ("docs/sandbox.md", None),
    ("docs/determinism.md", None),
    ("docs/platforms.md", None),
    ("docs/tape-format.md", None),
    ("docs/annotations.md", None),
    ("docs/guest-abi.md", None),
    ("docs/host.md", None),
    #[cfg(feature = "mcp")]
    ("docs/mcp.md", None),
    ("docs/avr.md", Some("avr")),
    ("docs/toolchains.md", None),
    ("docs/project.md", None),
    ("toolchains/README.md", None),
    ("guest-examples/README.md", None),
];

/// Documents that leave a clone unchanged.
const CLEAN: &[&str] = &["README.md", "docs/avr.md"];

/// The names in a folder.
fn files(folder: &Path) -> BTreeSet<OsString> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}

struct Example {
    line: usize,
    command: String,
    expected: Vec<String>,
}

fn examples(text: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let mut in_block = false;
    for (number, line) in text.lines().enumerate() {
        if let Some(language) = line.strip_prefix("```") {
            in_block = !in_block && language == "console";
        } else if in_block {
            if let Some(command) = line.strip_prefix("$ ") {
                let command = command.to_owned();
                found.push(Example { line: number + 1, command, expected: Vec::new() });
            } else if let Some(example) = found.last_mut() {
                example.expected.push(line.to_owned());
            }
        }
    }
    found
}

fn line_matches(pattern: &str, line: &str) -> bool {
    let mut rest = line;
    let parts: Vec<&str> = pattern.split("...").collect();
    for (index, part) in parts.iter().enumerate() {
        let is_last = index + 1 == parts.len();
        let at = match (index, is_last) {
            (0, _) => rest.starts_with(part).then_some(0),
            (_, true) => rest.ends_with(part).then(|| rest.len() - part.len()),
            _ => rest.find(part),
        };
        let Some(at) = at else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty()
}

fn matches(expected: &[String], printed: &[&str]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((first, others)) if first == "..." => {
            (0..=printed.len()).any(|skip| matches(others, &printed[skip..]))
        }
        Some((first, others)) => printed
            .split_first()
            .is_some_and(|(line, rest)| line_matches(first, line) && matches(others, rest)),
    }
}

/// Copies the files of this package that git knows, without their history, for the examples.
fn copy_package(to: &Path) {
    let listing = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(package())
        .output()
        .unwrap();
    assert!(listing.status.success(), "{}", support::stderr(&listing));
    for name in String::from_utf8(listing.stdout).unwrap().split_terminator('\0') {
        let (from, to) = (package().join(name), to.join(name));
        if from.is_file() {
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(from, to).unwrap();
        }
    }
}

#[test]
fn every_documented_command_prints_what_the_docs_show() {
    let binary = Path::new(env!("CARGO_BIN_EXE_belljar"));
    let path = std::env::join_paths(
        std::iter::once(binary.parent().unwrap().to_owned())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    )
    .unwrap();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (document, toolchain) in DOCUMENTS {
        let toolchain = match toolchain.map(|name| (name, support::real(name, document))) {
            Some((_, None)) => continue,
            Some((name, Some(folder))) => Some((name, folder)),
            None => None,
        };
        let text = std::fs::read_to_string(package().join(document)).unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("belljar");
        std::fs::create_dir(&folder).unwrap();
        copy_package(&folder);
        if let Some((name, toolchain)) = toolchain {
            std::fs::create_dir(folder.join("real")).unwrap();
            std::os::unix::fs::symlink(toolchain, folder.join("real").join(name)).unwrap();
        }
        let before = files(&folder);
        for example in examples(&text) {
            count += 1;
            let command = example.command.replace("cargo run --", "belljar");
            let output = Command::new("bash")
                .args(["-c", &format!("exec 2>&1; {command}")])
                .current_dir(&folder)
                .env("PATH", &path)
                .env("BELLJAR_CACHE_DIR", support::cache_dir())
                .env("BELLJAR_HOME", scratch.path().join("home"))
                .env_remove("BELLJAR_TOOLCHAIN")
                .stdin(std::process::Stdio::null())
                .output()
                .unwrap();
            let printed: String = support::stdout(&output)
                .split_inclusive('\n')
                // Whether a module must be compiled, and for how long, depends on the machine.
                .filter(|line| !line.starts_with("belljar: compiling "))
                .collect();
            let lines: Vec<&str> = printed.lines().collect();
            if !matches(&example.expected, &lines) {
                let expected = example.expected.join("\n");
                wrong.push(format!(
                    "{document}:{}: $ {}\n-- expected\n{expected}\n-- printed\n{printed}",
                    example.line, example.command
                ));
            }
        }
        if CLEAN.contains(document) {
            let left = files(&folder);
            let more: Vec<_> = left.difference(&before).collect();
            if !more.is_empty() {
                wrong.push(format!("{document} leaves behind {more:?}"));
            }
        }
    }
    assert!(count > 10, "the documentation has only {count} examples");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn ellipsis_matches_any_text() {
    assert!(line_matches("a ... c", "a b c"));
    assert!(line_matches("...", "anything"));
    assert!(!line_matches("a ... c", "a b d"));
    let expected: Vec<String> = ["a", "...", "z"].map(String::from).to_vec();
    assert!(matches(&expected, &["a", "b", "c", "z"]));
    assert!(!matches(&expected, &["a", "b"]));
}
