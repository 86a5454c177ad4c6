//! Real tools, in the sequences in which users run them.

use super::{MAKEFILE, Place, Session};
use crate::support::stdout;

const NOTHING: &str = "minimake: Nothing to be done for 'all'.\n";

fn importing(name: &str) -> String {
    format!("python-3.12.0 -c 'import {name}; print({name}.X)'")
}

/// Regression: a `.pyc` names the second and length of its source, and was used for the edited file.
#[test]
fn python_sees_an_edit_in_one_script() {
    let test = "file_times::tools::python_sees_an_edit_in_one_script";
    let Some(place) = Place::with_python(test) else { return };
    let import = importing("mod");
    let script = format!(
        "echo X=1 > mod.py; {import}; {import}; echo X=2 > mod.py; {import}
        echo X=3 > new; mv new mod.py; {import}; rm mod.py; echo X=4 > mod.py; {import}
        echo X=5 > a.py; echo X=6 > b.py; cp a.py mod.py; {import}; cp b.py mod.py; {import}
        ls __pycache__"
    );
    assert_eq!(place.printed(&script), "1\n1\n2\n3\n4\n5\n6\nmod.cpython-312.pyc\n");
}

#[test]
fn python_sees_an_edit_in_another_exec_of_a_session() {
    let test = "file_times::tools::python_sees_an_edit_in_another_exec_of_a_session";
    let Some(place) = Place::with_python(test) else { return };
    place.edit("mod.py", "X=0\n", 0);
    let session = place.session();
    let import = importing("mod");
    assert_eq!(session.exec(&import), "0\n");
    assert_eq!(session.exec(&format!("echo X=1 > mod.py; {import}")), "1\n");
    // Regression: the result of this command was stale.
    assert_eq!(session.exec(&format!("echo X=2 > mod.py; {import}")), "2\n");
    session.exec("echo X=3 > mod.py");
    assert_eq!(session.exec(&import), "3\n");
}

#[test]
fn python_sees_an_edit_on_the_disk_between_two_runs() {
    let test = "file_times::tools::python_sees_an_edit_on_the_disk_between_two_runs";
    let Some(place) = Place::with_python(test) else { return };
    let import = importing("mod");
    place.edit("mod.py", "X=1\n", 0);
    assert_eq!(place.applied(&import), "1\n");
    let compiled = place.modified("__pycache__/mod.cpython-312.pyc");
    assert_eq!(place.applied(&import), "1\n");
    assert_eq!(place.modified("__pycache__/mod.cpython-312.pyc"), compiled, "it was valid");
    place.edit("mod.py", "X=2\n", 100);
    assert_eq!(place.applied(&import), "2\n");
    // Checking out an older version is an edit, whatever its time is.
    place.edit("mod.py", "X=1\n", 50);
    assert_eq!(place.applied(&import), "1\n");
    // A file of which only the time changed is compiled again, as on the host.
    place.touch("mod.py", 200);
    assert_eq!(place.applied(&import), "1\n");
    assert_ne!(place.modified("__pycache__/mod.cpython-312.pyc"), compiled);
}

#[test]
fn no_file_is_later_than_the_clock() {
    let test = "file_times::tools::no_file_is_later_than_the_clock";
    let Some(place) = Place::with_python(test) else { return };
    place.edit("below", "text", 0);
    place.edit("tomorrow", "text", 100 * 365 * 86_400);
    let program = "import os, time\n\
        for name in 'ab': open(name, 'w').write('text')\n\
        open('a', 'a').write('more')\n\
        now = time.time()\n\
        for name in sorted(os.listdir('.')): print(name, os.stat(name).st_mtime <= now)\n";
    place.edit("check.py", program, 0);
    let names = ["a", "b", "below", "c", "check.py", "d", "tomorrow"];
    let expected = names.map(|name| format!("{name} True\n")).concat();
    for script in [
        "echo > c; echo > d; python-3.12.0 check.py",
        "echo > c; cat c; echo x > c; mv c d; echo > c; python-3.12.0 check.py",
    ] {
        let printed = place.printed(script);
        assert!(printed.ends_with(&expected), "{script}: {printed}");
    }
}

#[test]
fn make_remakes_what_changed_in_one_script() {
    let place = Place::to_make();
    let script = "minimake; minimake; echo 2 > a; minimake; minimake; touch b; minimake; minimake
        echo 3 > new; mv new a; minimake; minimake; rm b; echo 4 > b; minimake; rm mid; minimake; minimake";
    let (made, only_twice) = ("mid\nout\n", format!("mid\nout\n{NOTHING}"));
    assert_eq!(place.printed(script), format!("{}{made}{only_twice}", only_twice.repeat(4)));
}

#[test]
fn make_remakes_what_changed_from_exec_to_exec() {
    let place = Place::to_make();
    let session = place.session();
    assert_eq!(session.exec("minimake"), "mid\nout\n");
    assert_eq!(session.exec("minimake"), NOTHING);
    for change in ["echo 2 > a", "touch b", "echo 3 > new; mv new a", "rm b; echo 4 > b"] {
        session.exec(change);
        assert_eq!(session.exec("minimake"), "mid\nout\n", "{change}");
        assert_eq!(session.exec("minimake"), NOTHING, "{change}");
    }
}

/// Regression: make had nothing to do although its input had changed.
#[test]
fn make_remakes_what_changed_on_the_disk_between_two_runs() {
    let place = Place::to_make();
    let later = || std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(place.applied("minimake"), "mid\nout\n");
    assert_eq!(place.applied("minimake"), NOTHING);
    later();
    std::fs::write(place.tree().join("a"), "2\n").unwrap();
    assert_eq!(place.applied("minimake"), "mid\nout\n");
    assert_eq!(std::fs::read_to_string(place.tree().join("out")).unwrap(), "2\n1\n");
    assert_eq!(place.applied("minimake"), NOTHING);
    // Only a time changes.
    later();
    let now = std::time::SystemTime::now();
    std::fs::File::options()
        .write(true)
        .open(place.tree().join("b"))
        .unwrap()
        .set_modified(now)
        .unwrap();
    assert_eq!(place.applied("minimake"), "mid\nout\n");
    assert_eq!(place.applied("minimake"), NOTHING, "what was made again as it was is as new");
    // The change is read by runs without `--apply`.
    later();
    std::fs::write(place.tree().join("a"), "3\n").unwrap();
    assert_eq!(place.printed("minimake"), "mid\nout\n");
    assert_eq!(place.printed("minimake"), "mid\nout\n");
}

/// Native make continues what make in the machine built, and the other way round.
#[cfg(unix)]
#[test]
fn native_make_and_guest_make_agree() {
    let place = Place::new();
    let native = || {
        let mut make = std::process::Command::new("make");
        make.current_dir(place.tree()).env_remove("MAKEFLAGS");
        make.output().ok().map(|output| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            (text(&output.stdout), text(&output.stderr))
        })
    };
    let Some(_) = native() else {
        return crate::support::skipped(
            "file_times::tools::native_make_and_guest_make_agree",
            "no make",
        );
    };
    place.edit("Makefile", MAKEFILE, 0);
    place.edit("a", "1\n", 0);
    place.edit("b", "1\n", 0);
    let up_to_date = ("make: Nothing to be done for 'all'.\n".to_owned(), String::new());
    assert_eq!(place.applied("minimake"), "mid\nout\n");
    assert_eq!(native().unwrap(), up_to_date, "no remark about the clock either");
    std::thread::sleep(std::time::Duration::from_millis(20));
    std::fs::write(place.tree().join("a"), "2\n").unwrap();
    assert_eq!(native().unwrap().0, "mid\nout\n");
    assert_eq!(place.applied("minimake"), NOTHING);
    place.applied("cp b a");
    assert_eq!(native().unwrap().0, "mid\nout\n");
    assert_eq!(place.applied("minimake"), NOTHING);
}

/// Regressions: a file edited by the user was older than all files of the session; an applied file got the time of the
/// refresh, and so was newer than files written after it.
#[test]
fn make_remakes_what_changed_before_an_empty_refresh() {
    let place = Place::new();
    place.edit("Makefile", "out: src\n\tcp src out\n", 0);
    place.edit("src", "one\n", 0);
    let session = place.session();
    assert_eq!(session.exec("minimake"), "cp src out\n");
    session.apply();
    session.exec("echo two > src");
    session.refresh();
    assert_eq!(session.exec("minimake; cat out"), "cp src out\ntwo\n");
    session.apply();
    session.refresh();
    assert_eq!(session.exec("minimake"), "minimake: 'out' is up to date.\n");
}

/// Regression: all files of one refresh got the same time.
#[test]
fn make_remakes_disk_changes_in_their_order_before_one_refresh() {
    for (edits, says) in
        [(["out", "src"], "cp src out\n"), (["src", "out"], "minimake: 'out' is up to date.\n")]
    {
        let place = Place::new();
        place.edit("Makefile", "out: src\n\tcp src out\n", 0);
        for name in ["src", "out"] {
            place.edit(name, "one\n", 0);
        }
        let session = place.session();
        session.exec("cat src out; echo > other");
        for name in edits {
            std::thread::sleep(std::time::Duration::from_millis(30));
            std::fs::write(place.tree().join(name), "two\n").unwrap();
        }
        session.refresh();
        assert_eq!(session.exec("minimake"), says);
        assert_eq!(session.exec("[ src -nt other ] && [ out -nt other ] && echo later"), "later\n");
        assert_eq!(
            session.exec("echo > new; [ new -nt src ] && [ new -nt out ] && echo later"),
            "later\n"
        );
    }
}

/// Regression: the directories were refreshed one after the other, and discarded changes got times of the
/// disk.
#[test]
fn make_remakes_disk_changes_in_two_directories() {
    let place = Place::new();
    let lib = place.folder.path().join("lib");
    std::fs::create_dir(&lib).unwrap();
    place.edit("src", "one\n", 0);
    std::fs::write(lib.join("out"), "one\n").unwrap();
    let output = place.output(&["sandbox create", "--worktree", ".", "--dir", "../lib::/lib"]);
    let session = Session { place: &place, id: stdout(&output).trim().to_owned() };
    session.exec("cat src /lib/out");
    for path in [&lib.join("out"), &place.tree().join("src")] {
        std::thread::sleep(std::time::Duration::from_millis(30));
        std::fs::write(path, "two\n").unwrap();
    }
    session.refresh();
    assert_eq!(session.exec("[ src -nt /lib/out ] && echo remade"), "remade\n");
    session.exec("echo > other");
    std::fs::write(place.tree().join("src"), "three\n").unwrap();
    session.call(&["refresh", "--discard"]);
    assert_eq!(session.exec("[ src -nt /lib/out ] && echo remade"), "remade\n");
}

#[test]
fn make_remakes_what_a_refresh_takes_in() {
    let place = Place::to_make();
    let session = place.session();
    assert_eq!(session.exec("minimake"), "mid\nout\n");
    for digit in ["2", "3"] {
        std::fs::write(place.tree().join("a"), format!("{digit}\n")).unwrap();
        session.refresh();
        // A second refresh keeps the time.
        session.refresh();
        assert_eq!(session.exec("minimake"), "mid\nout\n", "{digit}");
        assert_eq!(session.exec("minimake; cat out"), format!("{NOTHING}{digit}\n1\n"));
    }
}

/// Regression: a file that was moved away and back, or was older than what it replaced, became the newest of
/// all.
#[test]
fn moved_file_is_not_newer_than_later_writes() {
    for script in [
        "mv out o; echo 2 > a; mv o out",
        "cp out new; echo 2 > a; mv new out",
        "cp out bak; echo 2 > a; rm out; mv bak out",
    ] {
        let place = Place::new();
        place.edit("Makefile", "out: a\n\tcp a out\n", 0);
        place.edit("a", "1\n", 0);
        let printed = place.printed(&format!("minimake -s; {script}; minimake"));
        assert_eq!(printed, "cp a out\n", "{script}");
    }
}

/// Regression: with a `SOURCE_DATE_EPOCH` of 1980, where the times of zip begin, all files were from 1970.
#[test]
fn an_early_clock_keeps_the_order_of_files() {
    for start in ["@315532800", "2000-01-01T00:00:00Z", "2024-01-01T00:00:00Z"] {
        let place = Place::new();
        place.edit("Makefile", MAKEFILE, 0);
        place.edit("a", "1\n", 200_000_000);
        place.edit("b", "1\n", 0);
        place.edit("mid", "1\n1\n", 100_000_000);
        place.edit("out", "1\n1\n", 100_000_001);
        let run = |_: u32| {
            stdout(&place.output(&["sh -q --apply", "--start-at", start, "-c", "minimake"]))
        };
        assert_eq!([run(1), run(2)], ["mid\nout\n", NOTHING], "{start}");
    }
}

/// Regression: while the file was open for reading, all writes got times within one second.
#[test]
fn writes_to_a_file_open_for_reading_get_distinct_seconds() {
    let place = Place::new();
    let note = "note() { date -r n +%s; }; echo 1 > n; note; exec 3<n; ";
    let script = format!("{note} echo 2 > n; note; echo 3 > n; note; echo 4 > n; note");
    let printed = place.printed(&script);
    let seconds: std::collections::BTreeSet<&str> = printed.lines().collect();
    assert_eq!(seconds.len(), 4, "{printed}");
    // Repeated writes through one descriptor do not advance the clock.
    let script = "exec 3>log; for i in 1 2 3 4; do echo $i >&3; date -r log +%s; done";
    let printed = place.printed(script);
    let seconds: std::collections::BTreeSet<&str> = printed.lines().collect();
    assert_eq!(seconds.len(), 1, "{printed}");
}

/// Regression: the refresh gave the file the disk's time, which is earlier than that of files built from it.
#[test]
fn file_rewritten_with_equal_content_stays_new_after_a_refresh() {
    let place = Place::new();
    place.edit("Makefile", "out: a\n\tcp a out\n", 0);
    place.edit("a", "1\n", 0);
    let session = place.session();
    assert_eq!(session.exec("minimake"), "cp a out\n");
    session.apply();
    assert_eq!(session.exec("echo 2 > a; minimake"), "cp a out\n");
    session.exec("echo 1 > a");
    session.refresh();
    assert_eq!(session.exec("minimake; cat out"), "cp a out\n1\n");
    session.refresh();
    assert_eq!(session.exec("minimake"), "minimake: 'out' is up to date.\n");
}

/// Regression: Python used the compiled code of one content for another of the same length.
#[test]
fn refreshes_of_different_sessions_give_different_times() {
    let place = Place::new();
    place.edit("a", "0\n", 0);
    let mut seconds = std::collections::BTreeSet::new();
    for digit in ["1", "2", "3"] {
        let session = place.session();
        std::fs::write(place.tree().join("a"), format!("{digit}\n")).unwrap();
        session.refresh();
        seconds.insert(session.exec("date -r a +%s"));
        // Users take longer than one second between two sessions.
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    assert_eq!(seconds.len(), 3, "{seconds:?}");
}

/// Regression: a time of the future, as tests of Python set it so that a module is read again, put the clock there, and the
/// next write got the same second.
#[test]
fn python_sees_a_write_after_a_time_of_the_future_was_set() {
    let name = "python_sees_a_write_after_a_time_of_the_future_was_set";
    let Some(place) = Place::with_python(name) else { return };
    let program = "import os, sys, time, importlib; sys.path.insert(0, '.')\n\
        def write(v): open('mod.py', 'w').write(f'X = {v}\\n')\n\
        write(1); t = time.time() + 10; os.utime('mod.py', (t, t))\n\
        import mod; old = mod.X\n\
        write(2); importlib.reload(mod); print(old, mod.X)\n";
    place.edit("program.py", program, 0);
    for mtimes in ["host", "content"] {
        let options = format!("run -q --mtimes {mtimes}");
        let words = [options.as_str(), "python-3.12.0", "program.py"];
        assert_eq!(stdout(&place.output(&words)), "1 2\n", "{mtimes}");
    }
}
