//! Runs every command of the documentation and compares its output, as [`crate::support::console`] describes.
//!
//! The commands of one file run in order in a scratch copy of this package's sources, where `cargo run … --` runs the binary
//! under test. A document that needs a real toolchain is skipped if it is absent; otherwise the toolchain is in `real/`.
#![cfg(unix)]

use std::collections::BTreeSet;
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

/// Documents that leave a clone unchanged, and can be followed in one clone one after the other.
const CLEAN: &[&str] = &["README.md", "docs/avr.md"];

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
    let shared = tempfile::tempdir().unwrap();
    for (document, toolchain) in DOCUMENTS {
        let toolchain = match toolchain.map(|name| (name, support::real(name, document))) {
            Some((_, None)) => continue,
            Some((name, Some(folder))) => Some((name, folder)),
            None => None,
        };
        let text = std::fs::read_to_string(package().join(document)).unwrap();
        let own = tempfile::tempdir().unwrap();
        let scratch = if CLEAN.contains(document) { &shared } else { &own };
        let folder = scratch.path().join("belljar");
        if !folder.exists() {
            std::fs::create_dir(&folder).unwrap();
            copy_package(&folder);
        }
        if let Some((name, toolchain)) = toolchain {
            std::fs::create_dir(folder.join("real")).unwrap();
            std::os::unix::fs::symlink(toolchain, folder.join("real").join(name)).unwrap();
        }
        let before = CLEAN.contains(document).then(|| support::tree(&folder));
        for example in examples(&text) {
            count += 1;
            let home = scratch.path().join("home");
            wrong.extend(example.mistake(document, &folder, &home, &[]));
        }
        if let Some(before) = before {
            let after = support::tree(&folder);
            let names = before.keys().chain(after.keys()).collect::<BTreeSet<_>>();
            let changed: Vec<_> =
                names.into_iter().filter(|name| before.get(*name) != after.get(*name)).collect();
            if !changed.is_empty() {
                wrong.push(format!("{document} leaves changes behind: {changed:?}"));
            }
        }
    }
    assert!(count > 10, "the documentation has only {count} examples");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
