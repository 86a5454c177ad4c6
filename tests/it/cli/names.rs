//! Names that not every system can have: reported everywhere, refused where they cannot exist, never taken for another.

use serde_json::{Value, json};

use crate::cli::{run, scratch};
use crate::support::{stderr, stdout};

fn report(folder: &std::path::Path, script: &str) -> Value {
    let output = run(folder, &["--json", "--quiet", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let printed = stdout(&output);
    serde_json::from_str(printed.lines().last().unwrap()).unwrap()
}

#[test]
fn report_names_files_that_not_every_system_can_have() {
    let folder = scratch();
    let script = "echo > aux.c; echo > a:b; mkdir 'd '; echo > 'd /x'; echo > Makefile; echo > makefile; \
                  echo > fine; mv note.txt 'end.'";
    let of_device = "on Windows, AUX is the name of a device";
    let colon = "Windows allows no ':' in the name of a file";
    let same = "Windows and macOS take it for the same name as Makefile";
    assert_eq!(
        report(folder.path(), script)["not_portable"],
        json!([
            { "path": "a:b", "why": colon },
            { "path": "aux.c", "why": of_device },
            { "path": "d ", "why": "Windows drops a space at the end of a name" },
            { "path": "end.", "why": "Windows drops a dot at the end of a name" },
            { "path": "makefile", "why": same },
        ])
    );
    assert_eq!(report(folder.path(), "rm note.txt; echo > new")["not_portable"], json!([]));
    let script = r"echo > $(printf 'caf\303\251'); echo > $(printf 'cafe\314\201')";
    let why = "macOS takes it for the same name as cafe\u{301}";
    let named = json!([{ "path": "caf\u{e9}", "why": why }]);
    assert_eq!(report(folder.path(), script)["not_portable"], named);
}

/// Inside, names are bytes on every system, and a file is found by its own name only.
#[test]
fn names_are_bytes_in_a_run_on_every_system() {
    let folder = scratch();
    std::fs::create_dir(folder.path().join("Dir")).unwrap();
    std::fs::write(folder.path().join("Dir/File"), "text\n").unwrap();
    let script = "cat Dir/File; for name in NOTE.TXT dir/File Dir/file DIR; do [ -e $name ] || echo no $name; done; \
                  echo 1 > note.TXT; cat note.txt note.TXT; ls; echo > a:b; ls a*";
    let output = run(folder.path(), &["--quiet", "sh", "-c", script]);
    let expected = "text\nno NOTE.TXT\nno dir/File\nno Dir/file\nno DIR\none\ntwo\n1\n\
                    Dir\nnote.TXT\nnote.txt\na:b\n";
    assert_eq!((stdout(&output), stderr(&output)), (expected.to_owned(), String::new()));
}

/// Regression: these were "appeared on the disk in the meantime" and "Invalid argument".
#[cfg(any(windows, target_vendor = "apple"))]
#[test]
fn names_that_fold_on_the_disk_are_refused_by_name() {
    let folder = scratch();
    let disk = || crate::support::tree(folder.path());
    let before = disk();
    for (script, path, other) in [
        ("echo > Case; echo > case", "case", "Case"),
        ("echo > NOTE.txt", "NOTE.txt", "note.txt"),
        ("mkdir Note.Txt", "Note.Txt", "note.txt"),
    ] {
        let output = run(folder.path(), &["--apply", "--quiet", "sh", "-c", script]);
        let why = format!(
            "nothing was written, because cannot create {path}: this disk takes it for the same name as {other}"
        );
        assert!(stderr(&output).contains(&why), "{script}: {}", stderr(&output));
        assert_eq!(output.status.code(), Some(125), "{script}");
        assert_eq!(disk(), before, "{script}");
    }
}

#[cfg(any(windows, target_vendor = "apple"))]
#[test]
fn file_can_be_renamed_to_its_name_in_another_case() {
    let folder = scratch();
    let output = run(folder.path(), &["--apply", "--quiet", "sh", "-c", "mv note.txt Note.TXT"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    let names: Vec<_> = crate::support::tree(folder.path()).into_keys().collect();
    assert_eq!(names, ["Note.TXT"]);
}

#[cfg(windows)]
#[test]
fn names_that_windows_reserves_are_refused_by_name() {
    let folder = scratch();
    let before = crate::support::tree(folder.path());
    for (name, why) in [
        ("a:b", "Windows allows no ':' in the name of a file"),
        ("nul", "on Windows, NUL is the name of a device"),
        ("aux.c", "on Windows, AUX is the name of a device"),
        ("end.", "Windows drops a dot at the end of a name"),
        ("end ", "Windows drops a space at the end of a name"),
        ("a\\b", "Windows allows no '\\\\' in the name of a file"),
    ] {
        let script = format!("echo > fine; echo > '{name}'; cat '{name}'");
        let output = run(folder.path(), &["--apply", "--quiet", "sh", "-c", &script]);
        let said = format!("nothing was written, because cannot create {name}: {why}");
        assert!(stderr(&output).contains(&said), "{name}: {}", stderr(&output));
        assert_eq!(output.status.code(), Some(125), "{name}");
        assert_eq!(crate::support::tree(folder.path()), before, "{name}");
    }
}

#[cfg(windows)]
#[test]
fn file_that_another_program_holds_open_stops_an_apply_and_nothing_is_written() {
    use std::os::windows::fs::OpenOptionsExt;
    let folder = scratch();
    let mut options = std::fs::File::options();
    let held = options.read(true).share_mode(1).open(folder.path().join("note.txt")).unwrap();
    let script = "echo 1 > a; echo more >> note.txt; echo 2 > z";
    let output = run(folder.path(), &["--apply", "--quiet", "sh", "-c", script]);
    let said = stderr(&output);
    assert!(said.contains("cannot replace or remove note.txt: another program has it open; close that program; nothing was written"), "{said}");
    assert_eq!(output.status.code(), Some(125), "{said}");
    drop(held);
    let names: Vec<_> = crate::support::tree(folder.path()).into_keys().collect();
    assert_eq!(names, ["note.txt"]);
}
