//! Runs every command of the documentation and compares its output, as [`crate::support::console`] describes.
//!
//! The commands of one file run in order in a scratch copy of this package's sources, where `cargo run … --` runs the binary
//! under test. A document that needs a real toolchain is skipped if it is absent; otherwise the toolchain is in `real/`.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::support::console::examples;
use crate::support::{self, package};

/// Each document, and the real toolchain that it needs.
const DOCUMENTS: &[(&str, Option<&str>)] = &[
    ("README.md", None),
    ("docs/index.md", None),
    ("docs/cli.md", None),
    ("docs/caching.md", None),
    ("docs/cluster.md", None),
    ("docs/components.md", None),
    ("docs/shell.md", None),
    ("docs/sandbox.md", None),
    ("docs/determinism.md", None),
    ("docs/platforms.md", None),
    ("docs/tape-format.md", None),
    ("docs/annotations.md", None),
    ("docs/guest-abi.md", None),
    ("docs/host.md", None),
    #[cfg(feature = "http")]
    ("docs/egress.md", None),
    ("docs/security.md", None),
    ("docs/process-tape.md", None),
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
            let home = scratch.path().join("home");
            wrong.extend(example.mistake(document, &folder, &home, &[]));
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
