//! The table of `docs/determinism.md`, "Times of files": what tools decide in each scenario and mode. The tools are CPython and
//! `minimake` inside; with the mode `host`, native `make` decides beside them.

use super::{MAKEFILE, Place};
use crate::support::{skipped, stdout};

const IMPORT: &str = "python-3.12.0 -c 'import mod; print(mod.X)'";
const COMPILED: &str = "__pycache__/mod.cpython-312.pyc";

/// Something that a user does between two runs.
#[derive(Clone, Copy, Debug)]
enum Scenario {
    Nothing,
    /// Edits `a` and `mod.py`, without changing their lengths.
    Edit,
    Touch,
    /// Writes the same bytes again, what was made before its inputs.
    CheckOut,
    /// Writes other bytes of the same length, with times before all others.
    OlderVersion,
}

use Scenario::{CheckOut, Edit, Nothing, OlderVersion, Touch};

/// A folder in which a first run has made everything, and applied it.
fn made(mtimes: &str, has_python: bool, test: &str) -> Option<Place> {
    let place = if has_python { Place::with_python(test)? } else { Place::new() };
    for (name, text) in [("Makefile", MAKEFILE), ("a", "1\n"), ("b", "1\n"), ("mod.py", "X=1\n")] {
        place.edit(name, text, 0);
    }
    run(&place, mtimes, if has_python { IMPORT } else { "minimake" });
    Some(place)
}

fn run(place: &Place, mtimes: &str, script: &str) -> String {
    stdout(&place.output(&["sh -q --apply", "--mtimes", mtimes, "-c", script]))
}

/// The files that a user has, in the order of a checkout.
const OWN: [&str; 4] = ["Makefile", "a", "b", "mod.py"];

impl Scenario {
    fn happen(self, place: &Place) {
        // Later than what was applied, in another second than the source that Python noted.
        let now = std::time::SystemTime::now() + std::time::Duration::from_secs(2);
        let write = |name: &str, text: &str| {
            let path = place.tree().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::File::options().write(true).open(path).unwrap().set_modified(now).unwrap();
        };
        let read = |name: &str| std::fs::read_to_string(place.tree().join(name)).unwrap();
        match self {
            Nothing => {}
            Edit => {
                write("a", "2\n");
                write("mod.py", "X=2\n");
            }
            Touch => OWN.iter().for_each(|name| write(name, &read(name))),
            CheckOut => {
                // A fresh checkout has what was committed, in its own time.
                for (number, name) in ["out", "mid"].into_iter().chain(OWN).enumerate() {
                    if place.tree().join(name).exists() {
                        let text = read(name);
                        place.edit(name, &text, 1000 + number as u64);
                    }
                }
            }
            OlderVersion => {
                place.edit("a", "0\n", 0);
                place.edit("mod.py", "X=0\n", 7);
            }
        }
    }
}

/// What native make says in a copy of the tree that has its times.
#[cfg(unix)]
fn native_make(tree: &std::path::Path) -> String {
    let copy = tempfile::tempdir().unwrap();
    let mut copies = std::process::Command::new("cp");
    copies.arg("-a").arg(tree).arg(copy.path().join("t"));
    assert!(copies.status().unwrap().success());
    let mut make = std::process::Command::new("make");
    let output = make.current_dir(copy.path().join("t")).env_remove("MAKEFLAGS").output().unwrap();
    assert!(output.status.success());
    stdout(&output).replace("make: ", "minimake: ")
}

/// Make compares which of two files is later: only the times of the host tell.
#[cfg(unix)]
#[test]
fn make_decides_as_the_table_says() {
    const MADE: &str = "mid\nout\n";
    const NOTHING: &str = "minimake: Nothing to be done for 'all'.\n";
    let test = "file_times::table::make_decides_as_the_table_says";
    if std::process::Command::new("make").arg("--version").output().is_err() {
        return skipped(test, "no make");
    }
    for (scenario, by_host) in [
        (Nothing, NOTHING),
        (Edit, MADE),
        (Touch, MADE),
        (CheckOut, MADE),
        // As on the host: what is older than its results is not made again.
        (OlderVersion, NOTHING),
    ] {
        let place = made("host", false, test).unwrap();
        scenario.happen(&place);
        assert_eq!(native_make(&place.tree()), by_host, "{scenario:?}, native make");
        assert_eq!(run(&place, "host", "minimake"), by_host, "{scenario:?}");
        // All files have one time: everything is up to date.
        let place = made("fixed", false, test).unwrap();
        scenario.happen(&place);
        assert_eq!(run(&place, "fixed", "minimake"), NOTHING, "{scenario:?}");
    }
    // By content, the time of an input says nothing of when it was written: both answers occur.
    let answers: std::collections::BTreeSet<_> = (0..8)
        .map(|number| {
            let place = made("content", false, test).unwrap();
            place.edit("a", &format!("{number}\n"), 2000);
            run(&place, "content", "minimake")
        })
        .collect();
    assert!(answers.len() > 1, "{answers:?}");
}

/// Python compares a time and a length for equality.
#[test]
fn python_decides_as_the_table_says() {
    let test = "file_times::table::python_decides_as_the_table_says";
    for mtimes in ["host", "content", "fixed"] {
        for scenario in [Nothing, Edit, Touch, CheckOut, OlderVersion] {
            let Some(place) = made(mtimes, true, test) else { return };
            let compiled = || std::fs::read(place.tree().join(COMPILED)).unwrap();
            let before = compiled();
            scenario.happen(&place);
            let printed = run(&place, mtimes, IMPORT);
            let (is_edited, value) = match scenario {
                Edit => (true, "2\n"),
                OlderVersion => (true, "0\n"),
                _ => (false, "1\n"),
            };
            // With one time for all files, the compiled code of the old text is valid.
            let value = if mtimes == "fixed" { "1\n" } else { value };
            assert_eq!(printed, value, "{mtimes} {scenario:?}");
            let is_touched = matches!(scenario, Touch | CheckOut);
            let is_compiled_again = match mtimes {
                "host" => is_edited || is_touched,
                "content" => is_edited,
                _ => false,
            };
            assert_eq!(compiled() != before, is_compiled_again, "{mtimes} {scenario:?}");
        }
    }
}

/// Git notes the time and length of a file in its index, natively; so a file that `--apply` wrote must have another time.
#[test]
fn native_git_sees_what_was_applied() {
    let test = "file_times::table::native_git_sees_what_was_applied";
    let place = Place::new();
    let at = place.tree();
    let call = |program: &str, args: &[&str]| {
        let output = std::process::Command::new(program).args(args).current_dir(&at).output();
        output.ok().filter(|output| output.status.success()).map(|output| stdout(&output))
    };
    if call("git", &["init", "-q"]).is_none() {
        return skipped(test, "no git");
    }
    for number in 0..5 {
        place.applied(&format!("echo {number} > a; echo {number} > b; mv b c"));
        let status = call("git", &["status", "--porcelain"]).unwrap();
        let expected = if number == 0 { "?? a\n?? c\n" } else { " M a\n M c\n" };
        assert_eq!(status, expected, "{number}");
        call("git", &["add", "a", "c"]).unwrap();
        call("git", &["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x"]).unwrap();
        assert_eq!(call("git", &["status", "--porcelain"]).unwrap(), "");
    }
}

/// As natively, ninja makes what is older than its inputs, and rsync copies what has another time, whatever `--apply`
/// wrote in between.
#[test]
fn native_ninja_and_rsync_see_what_was_applied() {
    let test = "file_times::table::native_ninja_and_rsync_see_what_was_applied";
    let place = Place::new();
    let (at, copy) = (place.tree(), place.folder.path().join("copy"));
    let call = |program: &str, args: &[&str]| {
        let output = std::process::Command::new(program).args(args).current_dir(&at).output();
        output.ok().filter(|output| output.status.success()).map(|output| stdout(&output))
    };
    let [has_ninja, has_rsync] =
        ["ninja", "rsync"].map(|program| call(program, &["--version"]).is_some());
    for (program, is_there) in [("ninja", has_ninja), ("rsync", has_rsync)] {
        if !is_there {
            skipped(test, &format!("no {program}"));
        }
    }
    let rules = "rule copy\n  command = cp $in $out\nbuild out: copy in\n";
    std::fs::write(at.join("build.ninja"), rules).unwrap();
    let session = place.session();
    let changes: [&dyn Fn(); 6] = [
        &|| drop(place.applied("echo 0 > in")),
        &|| drop(place.applied("echo 1 > in")),
        &|| drop(place.applied("touch in")),
        &|| drop(place.applied("echo 2 > new; mv new in")),
        &|| drop(place.applied("echo 3 > other; echo 4 > in; echo 5 > later")),
        &|| {
            session.refresh();
            session.exec("echo 6 > in");
            session.apply();
        },
    ];
    for (number, change) in changes.iter().enumerate() {
        change();
        let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap();
        if has_ninja {
            assert!(!call("ninja", &[]).unwrap().contains("no work to do"), "{number}");
            assert_eq!(read(at.join("out")), read(at.join("in")), "{number}");
            assert!(call("ninja", &[]).unwrap().contains("no work to do"), "{number}");
        }
        if has_rsync {
            // It compares whole seconds unless it is told otherwise; the runs are closer together.
            call("rsync", &["-a", "--modify-window=-1", "./", copy.to_str().unwrap()]).unwrap();
            assert_eq!(read(copy.join("in")), read(at.join("in")), "{number}");
        }
    }
}
