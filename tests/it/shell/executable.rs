//! `test -x`: the execute permission of files, which starting a program does not need.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt;

use belljar::{Command, HostDir};

use super::machine;
use crate::support::replays;

/// What `script` prints in a folder with the scripts `plain` and `tool`, of which the second can be executed, a
/// directory and links.
fn printed(script: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    for (name, mode) in [("plain", 0o644), ("tool", 0o755)] {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\necho {name} runs\n")).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    std::fs::create_dir(folder.path().join("dir")).unwrap();
    for (name, text) in [("to-plain", "plain"), ("to-tool", "tool"), ("dangling", "gone")] {
        std::os::unix::fs::symlink(text, folder.path().join(name)).unwrap();
    }
    let machine = machine().worktree(HostDir::open(folder.path()).unwrap());
    let output = replays::output(machine, &Command::shell(script)).1;
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn test_tells_whether_a_file_may_be_executed() {
    let all =
        "for f in plain tool dir to-plain to-tool dangling gone '' . /dev/null tool/ tool/x; do";
    assert_eq!(
        printed(&format!("{all} test -x \"$f\" && echo $f; done")),
        "tool\ndir\nto-tool\n.\n"
    );
    assert_eq!(printed("[ -x tool -a ! -x plain ] && echo yes"), "yes\n");
    assert_eq!(printed("test -r plain -a -w plain && echo yes"), "yes\n");
}

#[test]
fn made_file_may_not_be_executed_and_a_rewritten_one_keeps_its_permission() {
    let script = "echo x > new; test -x new || echo new; echo x > tool; test -x tool && echo tool;
        mv tool moved; test -x moved && echo moved; cp plain new; mv new plain; test -x plain || echo plain";
    assert_eq!(printed(script), "new\ntool\nmoved\nplain\n");
}

/// A linker or compiler of the toolchains has no means to set the permission: what it makes runs all the same.
#[test]
fn script_without_the_permission_can_be_started() {
    assert_eq!(printed("./plain; PATH=. plain; ./tool"), "plain runs\nplain runs\ntool runs\n");
    assert_eq!(printed("PATH=.; command -v plain; command -v tool"), "./plain\n./tool\n");
}

/// Regression: `command -v` found the program, and starting it failed.
#[test]
fn path_that_a_script_sets_is_searched() {
    let all = "PATH=.; plain; (tool); echo $(tool); tool | while read line; do echo $line; done; exec tool";
    let expected = ["plain", "tool", "tool", "tool", "tool"].map(|name| format!("{name} runs\n"));
    assert_eq!(printed(all), expected.concat());
}
