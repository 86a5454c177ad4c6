//! Preview1 as guests see it: every function, every errno that it documents, and the memory that it
//! writes, byte for byte.
//!
//! A test writes a [`script::Script`] of calls, states the answer to each, and runs it in a
//! [`world::World`]. Two things always hold: memory that the test did not reserve stays unchanged,
//! and a call that fails writes nothing.

mod flags;
mod functions;
mod interpreter;
mod script;
mod tree;
mod world;

mod args_environ;
mod clock_random;
mod executable;
mod fd;
mod fd_io;
mod fd_kinds;
mod fuzz;
mod host;
mod path;
mod path_open;
mod pointers;
mod poll;
mod reach;
mod readdir;
mod rename;
mod sock_proc;
mod streams;
mod unstable;

use std::collections::BTreeSet;

use crate::support;

/// The functions that guests can import, from the source that links them: whether it is the one of `wasi_unstable` alone,
/// and the name.
fn defined() -> Vec<(bool, String)> {
    let path = support::package().join("src/abi/preview1/mod.rs");
    let source = std::fs::read_to_string(path).unwrap();
    let mut found = Vec::new();
    for line in source.lines() {
        let Some((pattern, bound)) = line.trim_start().split_once(" => ") else { continue };
        let bound = bound.trim_start_matches("binding.");
        if !["is(", "waits("].iter().any(|how| bound.starts_with(how)) {
            continue;
        }
        let name = pattern.split('"').nth(1).unwrap();
        let function = format!("::{name}");
        assert!(bound.contains(&function), "{name} is another function: {bound}");
        found.push((pattern.contains("MODULE_UNSTABLE"), name.to_owned()));
    }
    found
}

/// The text of the tests in `file`, or in all files that make calls.
fn tests(file: Option<&str>) -> String {
    let folder = support::package().join("tests/it/abi");
    let machinery = ["functions.rs", "interpreter.rs", "script.rs", "world.rs", "mod.rs"];
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if file.map_or(!machinery.contains(&name), |file| file == name) {
            text += &std::fs::read_to_string(&path).unwrap();
        }
    }
    text
}

#[test]
fn every_function_that_guests_can_import_is_exercised() {
    let defined = defined();
    let names: BTreeSet<&str> = defined.iter().map(|(_, name)| name.as_str()).collect();
    let listed: BTreeSet<&str> = functions::FUNCTIONS.iter().map(|(name, _)| *name).collect();
    assert_eq!(listed, names, "functions.rs lists other functions than the linker defines");
    assert_eq!(names.len(), 46);
    // The functions that `wasi_unstable` has of its own are called under its name.
    let (all, unstable) = (tests(None), tests(Some("unstable.rs")));
    for (is_unstable, name) in &defined {
        let text = if *is_unstable { &unstable } else { &all };
        assert!(
            text.contains(&format!(".{name}(")),
            "no test calls {name}, unstable: {is_unstable}"
        );
    }
}
