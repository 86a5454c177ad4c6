//! `--mtimes`: the times that files of the host show.

use super::Place;
use crate::support::{stderr, stdout};

const IMPORT: &str = "python-3.12.0 -c 'import mod; print(mod.X)'";
const COMPILED: &str = "__pycache__/mod.cpython-312.pyc";

/// The two worktrees are checkouts of the same bytes.
#[test]
fn content_mode_makes_equal_bytes_whatever_the_file_times() {
    let test = "file_times::modes::content_mode_makes_equal_bytes_whatever_the_file_times";
    let (Some(one), Some(two)) = (Place::with_python(test), Place::with_python(test)) else {
        return;
    };
    one.edit("mod.py", "X=1\n", 0);
    two.edit("mod.py", "X=1\n", 12_345);
    let compiled = |place: &Place, mtimes: &str| {
        place.output(&["sh -q --apply", "--mtimes", mtimes, "-c", IMPORT]);
        std::fs::read(place.tree().join(COMPILED)).unwrap()
    };
    assert_eq!(compiled(&one, "content"), compiled(&two, "content"));
    let edited = place_with_edit(&one);
    assert_ne!(compiled(&one, "content"), compiled(&edited, "content"));
    assert_ne!(compiled(&one, "host"), compiled(&two, "host"));
    // `verify` names the option that makes the run independent of the times.
    let output = two.command(&["verify -n 2", "sh", "-c", IMPORT]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("use --mtimes content"), "{}", stdout(&output));
    two.output(&["verify -n 2", "--mtimes", "content", "sh", "-c", IMPORT]);
}

fn place_with_edit(of: &Place) -> Place {
    let mut place = Place::new();
    place.python.clone_from(&of.python);
    crate::support::copy_tree(&of.tree(), &place.tree());
    place.edit("mod.py", "X=2\n", 0);
    place
}

#[test]
fn with_content_python_sees_an_edit_at_the_same_time() {
    let test = "file_times::modes::with_content_python_sees_an_edit_at_the_same_time";
    let Some(place) = Place::with_python(test) else { return };
    for text in ["1", "2", "1"] {
        place.edit("mod.py", &format!("X={text}\n"), 0);
        let output = place.output(&["sh -q --apply --mtimes content", "-c", IMPORT]);
        assert_eq!(stdout(&output), format!("{text}\n"));
    }
}

#[test]
fn a_session_has_the_mode_that_it_was_made_with() {
    let place = Place::new();
    place.edit("note", "text", 0);
    let seconds = |mtimes: &str| -> u64 {
        let output = place.output(&["sandbox create", "--worktree", ".", "--mtimes", mtimes]);
        let session = super::Session { place: &place, id: stdout(&output).trim().to_owned() };
        let printed = session.exec("date -r note +%s");
        assert_eq!(session.exec("date -r note +%s"), printed);
        printed.trim().parse().unwrap()
    };
    assert_eq!(seconds("host"), 1_577_836_800);
    assert_eq!(seconds("fixed"), 2_114_380_800);
    let by_content = seconds("content");
    assert!((631_152_000..900_000_000).contains(&by_content), "{by_content}");
    place.touch("note", 100);
    assert_eq!(seconds("content"), by_content);
    place.edit("note", "Text", 0);
    assert_ne!(seconds("content"), by_content);
}

/// The times are on the tape: a replay needs neither the files nor their times.
#[test]
fn replay_shows_the_recorded_file_times() {
    for mtimes in ["host", "content", "fixed"] {
        let place = Place::new();
        place.edit("a", "1", 0);
        place.edit("b", "2", 100);
        let tape = place.folder.path().join("t.tape").display().to_string();
        let script = "date -r a +%s; date -r b +%s; [ b -nt a ] && echo later; true";
        let recorded =
            place.output(&["record -q", "--tape", &tape, "--mtimes", mtimes, "sh", "-c", script]);
        std::fs::remove_file(place.tree().join("a")).unwrap();
        place.touch("b", 7);
        let replayed = place.output(&["replay -q", &tape]);
        assert_eq!(stdout(&replayed), stdout(&recorded), "{mtimes}");
    }
}

#[test]
fn an_early_clock_shows_each_content_at_a_time_of_its_own() {
    let place = Place::new();
    for number in 0..8 {
        place.edit(&format!("f{number}"), &number.to_string(), 0);
    }
    for start in ["@315532800", "2000-01-01T00:00:00Z", "2010-01-01T00:00:00Z"] {
        let script = "for f in f*; do date -r $f +%s; done; date +%s";
        let words = ["sh -q --mtimes content", "--start-at", start, "-c", script];
        let printed = stdout(&place.output(&words));
        let seconds: Vec<u64> = printed.lines().map(|line| line.parse().unwrap()).collect();
        let (now, times) = seconds.split_last().unwrap();
        let different: std::collections::BTreeSet<_> = times.iter().collect();
        assert_eq!(different.len(), 8, "{start}: {printed}");
        assert!(times.iter().all(|time| time < now), "{start}: {printed}");
    }
}

/// Two edits showed the same second in silence, and Python ran the old code.
#[test]
fn clock_without_room_for_the_times_of_files_is_noted() {
    let place = Place::new();
    place.edit("a", "1", 0);
    let note = "there is no room for the times of files";
    for (start, mtimes, is_noted) in [
        ("1999-12-31T23:59:59Z", "host", true),
        ("2000-01-01T00:00:00Z", "host", false),
        ("@1", "content", true),
        ("1971-01-01T00:00:00Z", "content", false),
        ("@1", "fixed", false),
    ] {
        for command in ["sh -c true", "sandbox create"] {
            let words = [command, "--start-at", start, "--mtimes", mtimes];
            let words = if command == "sh -c true" {
                [&["sh"], &words[1..], &["-c", "true"]].concat()
            } else {
                words.to_vec()
            };
            let said = stderr(&place.output(&words));
            assert_eq!(said.contains(note), is_noted, "{words:?}: {said}");
        }
    }
}

#[test]
fn verify_varies_directory_times() {
    let place = Place::new();
    place.edit("Makefile", "d: a\n\techo making\n", 0);
    place.edit("a", "1", 0);
    std::fs::create_dir(place.tree().join("d")).unwrap();
    let output = place.command(&["verify", "minimake"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stdout(&output).contains("use --mtimes content"), "{}", stdout(&output));
}
