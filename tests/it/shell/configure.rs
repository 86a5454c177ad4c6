//! A script that autoconf made runs to its end, with the built-in tools alone.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt;

use crate::support::{belljar, copy_tree, package, stderr, stdout};

#[test]
fn configure_of_autoconf_finds_its_tools_and_makes_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("sample");
    copy_tree(&package().join("tests/configure"), &dir);
    let script = "./configure --enable-extra --with-level=7 FLAVOUR=sweet";
    let run = |script: &str| {
        belljar(&dir).args(["sh", "--quiet", "--apply", "-c", script]).output().unwrap()
    };
    let output = run(script);
    assert!(output.status.success(), "{}\n{}", stdout(&output), stderr(&output));
    let said = stdout(&output);
    for line in [
        "checking for a sed that does not truncate output... /bin/sed",
        "checking for gawk... no",
        "checking for awk... awk",
        "checking for grep that handles long lines and -e... /bin/grep",
        "checking for a BSD-compatible install... /bin/install -c",
        "checking whether ln -s works... yes",
        "checking for sort... sort",
        "config.status: creating Makefile",
        "config.status: executing stamp commands",
    ] {
        assert!(said.contains(line), "{line}\n{said}\n{}", stderr(&output));
    }
    let read = |path: &str| std::fs::read_to_string(dir.join(path)).unwrap();
    let header = read("config.h");
    for line in ["#define WITH_EXTRA 1", "#define LEVEL 7", "#define FLAVOUR \"sweet\""] {
        assert!(header.contains(line), "{line}\n{header}");
    }
    assert!(read("stamp.txt").contains("stamp of sample"));
    assert!(read("config.log").contains("uname -m = wasm32"));
    assert!(dir.join("linked.txt").is_symlink());
    let mode = std::fs::metadata(dir.join("run.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111, "{mode:o}");
    let again = run("sh ./config.status --file=again.txt:data.txt.in && cat again.txt");
    assert!(again.status.success(), "{}", stderr(&again));
}

#[test]
fn programs_are_executable_files_of_bin() {
    let folder = tempfile::tempdir().unwrap();
    let run = |script: &str| {
        let output = belljar(folder.path()).args(["sh", "--quiet", "-c", script]).output().unwrap();
        stdout(&output)
    };
    let files = "for f in /bin/sed /bin/sh /bin/no-such /usr/bin/sed /bin; do
        test -f $f && test -x $f && echo $f; done; echo $PATH; /bin/echo runs; cat /bin/sed; echo $?";
    assert_eq!(run(files), "/bin/sed\n/bin/sh\n/bin\nruns\n1\n");
    // What the directory has hides them, and a path that is relative is one.
    let hidden = "test -e bin/sed; echo $?; mkdir bin; echo mine > bin/sed; cat bin/sed; test -x bin/sed; echo $?";
    assert_eq!(run(hidden), "1\nmine\n1\n");
    assert_eq!(
        run("PATH=; test -x /bin/sed && sed --version > /dev/null && echo found"),
        "found\n"
    );
}
