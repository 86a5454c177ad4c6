//! Times of files on the disk after changes were applied.

use std::time::SystemTime;

use super::{Place, at};
use crate::support::{belljar, stderr};

/// Regression: the times of applied files followed the order of their names.
#[test]
fn applied_files_keep_the_order_of_their_writes() {
    let place = Place::new();
    let before = SystemTime::now();
    place.applied("echo > z; echo > m; echo > a; sleep 3600; echo > k; echo more >> m");
    let after = SystemTime::now();
    let times = ["z", "a", "k", "m"].map(|name| place.modified(name));
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
    assert!(
        times.iter().all(|time| (before..=after).contains(time)),
        "{before:?} {times:?} {after:?}"
    );
}

#[test]
fn rewrite_with_equal_content_sets_the_time_and_is_reported() {
    let place = Place::new();
    place.edit("same", "text\n", 0);
    place.edit("touched", "text\n", 0);
    place.edit("read", "text\n", 0);
    let script = "echo text > same; touch touched; cat read";
    let output = place.output(&["sh", "-c", script]);
    let told = "2 changes (same times, touched times)";
    assert!(stderr(&output).contains(told), "{}", stderr(&output));
    place.applied(script);
    assert!(place.modified("same") < place.modified("touched"));
    assert!(place.modified("same") > at(1000));
    assert_eq!(place.modified("read"), at(0));
    assert_eq!(std::fs::read_to_string(place.tree().join("same")).unwrap(), "text\n");
}

/// `touch -r` and `cp -p` copy times of other files, which the machine shows on its own clock.
#[test]
fn copied_times_are_times_of_the_disk() {
    let place = Place::new();
    place.edit("old", "text", 5);
    place.applied(
        "cp -p old copy; echo > new; touch -r new twin; touch -d 2001-02-03T04:05:06Z fixed",
    );
    assert_eq!(place.modified("copy"), at(5));
    assert_eq!(place.modified("twin"), place.modified("new"));
    assert!(place.modified("new") <= SystemTime::now());
    let fixed = place.modified("fixed").duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(fixed.as_secs(), 981_173_106);
}

/// Regression: a session's `cp -p`, after a refresh, made an output of the disk newer than its input, which it was not,
/// so make kept it. `tar` and `touch -d` copy whole seconds.
#[test]
fn time_copied_in_a_session_after_an_apply_keeps_its_order() {
    let by_second = "touch -d @$(stat -c %Y out) bak";
    let copies =
        ["cp -p out bak", "cp out bak; touch -r out bak", &format!("cp out bak; {by_second}")];
    for (copy, refreshes) in copies.into_iter().flat_map(|copy| [(copy, true), (copy, false)]) {
        let place = Place::new();
        place.edit("older", "1", 0);
        let session = place.session();
        session.exec("echo > first; sleep 3; echo 1 > out; sleep 5; echo > src");
        session.apply();
        assert!(place.modified("out") < place.modified("src"));
        if refreshes {
            session.refresh();
        }
        session.exec(&format!("{copy}; mv bak out"));
        if refreshes {
            session.refresh();
        }
        session.exec("echo > new");
        session.apply();
        let [first, out, src, new] = ["first", "out", "src", "new"].map(|it| place.modified(it));
        assert!(first < out && out < src && src < new, "{copy}: {:?}", [first, out, src, new]);
    }
}

/// If the clock starts earlier, the machine shows file times earlier by as much; on the disk they are
/// unchanged.
#[test]
fn a_clock_that_starts_earlier_shows_older_files() {
    let place = Place::new();
    place.edit("older", "text", 0);
    place.edit("old", "text", 10);
    let start = ["sh -q --apply --start-at 2020-01-01T00:00:00Z"];
    let script =
        "[ old -nt older ] && echo later; echo > new; [ new -nt old ] && echo new; cp -p old copy";
    let printed = place.output(&[&start[..], &["-c", script]].concat());
    assert_eq!(crate::support::stdout(&printed), "later\nnew\n");
    assert_eq!(place.modified("copy"), at(10));
}

#[test]
fn hard_link_of_a_file_rewritten_with_equal_content_keeps_its_time() {
    let place = Place::new();
    place.edit("a", "text\n", 0);
    std::fs::hard_link(place.tree().join("a"), place.folder.path().join("other")).unwrap();
    place.applied("echo text > a");
    let other = std::fs::metadata(place.folder.path().join("other")).unwrap();
    assert_eq!(other.modified().unwrap(), at(0));
}

#[test]
fn tape_apply_keeps_the_order_of_writes() {
    let place = Place::new();
    place.edit("same", "text\n", 0);
    let script = "echo > z; echo text > same; echo > a";
    let tape = place.folder.path().join("t.tape").display().to_string();
    place.output(&["record -q", "--tape", &tape, "--", "sh", "-c", script]);
    let apply = belljar(&place.tree()).args(["apply", "-q", &tape]).output().unwrap();
    assert!(apply.status.success(), "{}", stderr(&apply));
    let times = ["z", "same", "a"].map(|name| place.modified(name));
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
    assert!(times[2] <= SystemTime::now(), "{times:?}");
}

/// A time shortly before the clock's start is a time of that clock; regression: on the disk it was in 2036.
#[test]
fn time_set_slightly_back_is_not_in_the_future() {
    let Some(place) =
        Place::with_python("file_times::applied::time_set_slightly_back_is_not_in_the_future")
    else {
        return;
    };
    let program = "import os, time; t = time.time() - 10; os.utime('out', (t, t))";
    place.applied(&format!("echo > out; python-3.12.0 -c \"{program}\""));
    let age = SystemTime::now().duration_since(place.modified("out")).unwrap();
    assert!((9..600).contains(&age.as_secs()), "{age:?}");
}

/// Regression: the time was lost with the move, so make considered files built from it up to date.
#[test]
fn file_written_and_moved_has_the_time_of_the_write() {
    for script in [
        "touch b; mv b g",
        "mv b g; touch g",
        "rm g; mv b g; touch g",
        "touch b; ln -f b g; rm b",
        "mv b g; cp g t; cat t > g; rm t",
    ] {
        for session in [false, true] {
            let place = Place::new();
            place.edit("b", "new", 0);
            place.edit("g", "old", 0);
            if session {
                let session = place.session();
                session.exec(script);
                session.apply();
            } else {
                place.applied(script);
            }
            assert!(place.modified("g") > at(1000), "{script}: {:?}", place.modified("g"));
            assert_eq!(std::fs::read_to_string(place.tree().join("g")).unwrap(), "new");
        }
        // A file that was only moved keeps its time.
        let place = Place::new();
        place.edit("b", "new", 0);
        place.applied("mv b g");
        assert_eq!(place.modified("g"), at(0));
    }
}

/// Regression: the dates were taken for times of files on the disk, and were in the future; or for times of the virtual
/// clock, and depended on the time of the apply.
#[test]
fn dates_that_a_program_sets_are_kept_under_an_earlier_clock() {
    for (start, date, seconds) in [
        ("2024-02-29T00:00:00Z", "2018-06-01T00:00:00Z", 1_527_811_200),
        ("2024-02-29T00:00:00Z", "2021-06-01T00:00:00Z", 1_622_505_600),
        ("2024-02-29T00:00:00Z", "2023-06-01T00:00:00Z", 1_685_577_600),
        ("2037-01-01T00:00:00Z", "2019-06-01T00:00:00Z", 1_559_347_200),
    ] {
        let place = Place::new();
        let script = format!("echo > dated; touch -d {date} dated");
        place.output(&["sh -q --apply", "--start-at", start, "-c", &script]);
        let dated = place.modified("dated").duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(dated.as_secs(), seconds, "{start} {date}");
    }
    // A date that is in the future on the disk becomes as long ago as it is for the program.
    let place = Place::new();
    place.applied("echo > dated; touch -d 2036-12-31T00:00:00Z dated");
    let ago = SystemTime::now().duration_since(place.modified("dated")).unwrap().as_secs();
    assert!((86_400..86_400 + 3600).contains(&ago), "{ago}");
}

/// Regression: the moved file was written as a copy with the current time.
#[test]
fn a_moved_file_keeps_its_time_where_an_equal_one_took_its_name() {
    for script in ["mv out bak; echo 1 > out", "mv out bak; cp bak out"] {
        let place = Place::new();
        place.edit("out", "1\n", 5);
        place.applied(script);
        assert_eq!(place.modified("bak"), at(5), "{script}");
        assert!(place.modified("out") > at(5), "{script}");
    }
    let place = Place::new();
    place.edit("out", "1\n", 5);
    place.applied("mv out bak; cp -p bak out");
    assert_eq!(["bak", "out"].map(|name| place.modified(name)), [at(5); 2]);
}

/// Regression: the files got the time of the apply, later than files written after them.
#[test]
fn copied_times_of_a_session_survive_refresh_and_apply() {
    let place = Place::new();
    place.edit("a", "1\n", 0);
    let session = place.session();
    std::fs::write(place.tree().join("a"), "2\n").unwrap();
    std::fs::write(place.tree().join("b"), "3\n").unwrap();
    session.refresh();
    session.exec("cp -p a c; touch -r b d");
    session.apply();
    assert_eq!(
        ["c", "d"].map(|name| place.modified(name)),
        ["a", "b"].map(|name| place.modified(name))
    );
    session.exec("echo 4 > e; echo 5 > f");
    session.apply();
    session.exec("cp -p e g");
    session.apply();
    assert_eq!(place.modified("g"), place.modified("e"));
}

/// Regression: a time that the session's clock had shown before a refresh became the time of the apply, so that make
/// took the output for newer than the source that the user had edited.
#[test]
fn time_copied_from_before_a_refresh_stays_older_than_the_edit() {
    for copy in [
        "cp -p /tmp/out out",
        "cp /tmp/out out; touch -r /tmp/out out",
        "tar xf /tmp/out.tar",
        "cp /tmp/out out; touch -d @$(cat /tmp/when) out",
    ] {
        let place = Place::new();
        place.edit("old", "1", 0);
        let session = place.session();
        session.exec(
            "echo o > out; cp -p out /tmp/out; tar cf /tmp/out.tar out; stat -c %Y out > /tmp/when; \
             rm out; sleep 5",
        );
        std::fs::write(place.tree().join("src"), "edit").unwrap();
        session.refresh();
        let decision = "test out -ot src && test out -nt old";
        session.exec(&format!("{copy}; {decision}; echo > new"));
        session.apply();
        let [old, out, src, new] = ["old", "out", "src", "new"].map(|name| place.modified(name));
        assert!(old < out && out < src && src < new, "{copy}: {:?}", [old, out, src, new]);
        // A second apply does not move it.
        session.exec(&format!("{copy}; echo > newer"));
        session.apply();
        assert!(old < place.modified("out") && place.modified("out") < src, "{copy}");
    }
}

/// Regression: the time was computed from the one that the run was shown, which a clock of 2000 rounds.
#[test]
fn copied_time_of_a_recorded_run_is_that_of_the_original_under_an_early_clock() {
    for start in ["2024-02-29T00:00:00Z", "2000-06-01T00:00:00Z", "1995-01-01T00:00:00Z"] {
        let place = Place::new();
        place.edit("a", "1", 0);
        let exact = at(0) + std::time::Duration::from_nanos(123_456_789);
        let file = std::fs::File::options().write(true).open(place.tree().join("a")).unwrap();
        file.set_modified(exact).unwrap();
        let tape = place.folder.path().join("t.tape").display().to_string();
        let record = ["record -q", "--tape", &tape, "--start-at", start, "--", "sh", "-c"];
        place.output(&[&record[..], &["cp -p a c"]].concat());
        for _ in 0..2 {
            let apply = belljar(&place.tree()).args(["apply", "-q", &tape]).output().unwrap();
            assert!(apply.status.success(), "{}", stderr(&apply));
            assert_eq!(place.modified("c"), exact, "{start}");
        }
    }
}

/// Regression: a refresh put the time that was set before it behind that of an older output, so that make on the disk took
/// the output for new.
#[test]
fn time_set_in_a_session_stays_later_than_its_earlier_writes_after_a_refresh() {
    for set in ["echo new > k; cp -p k in; rm k", "echo new > in; touch -r /tmp/now in"] {
        let place = Place::new();
        place.edit("in", "x\n", 0);
        let session = place.session();
        session.exec("cp in out; sleep 1; echo > /tmp/now");
        session.exec(set);
        session.refresh();
        session.exec("test in -nt out");
        session.apply();
        assert!(place.modified("in") > place.modified("out"), "{set}");
    }
}

/// Regression: it was reported as written, and the disk kept the old time.
#[test]
fn touched_file_with_another_name_on_the_disk_gets_its_time() {
    let place = Place::new();
    place.edit("in", "x\n", 0);
    std::fs::hard_link(place.tree().join("in"), place.folder.path().join("other")).unwrap();
    place.applied("cp in out");
    place.applied("touch in");
    assert!(place.modified("in") > place.modified("out"));
    let other = std::fs::metadata(place.folder.path().join("other")).unwrap();
    assert_eq!(other.modified().unwrap(), at(0));
    std::fs::hard_link(place.tree().join("in"), place.tree().join("second")).unwrap();
    place.applied("touch second");
    assert!(place.modified("second") > place.modified("in"));
}

/// Regression: it was not applied, and a refresh forgot it, so that a rule such as `node_modules: package.json` with
/// `touch $@` ran each time.
#[cfg(unix)]
#[test]
fn touched_folder_gets_its_time() {
    let place = Place::new();
    let set_back = |folder: &str| {
        std::fs::File::open(place.tree().join(folder)).unwrap().set_modified(at(7)).unwrap();
    };
    place.applied("mkdir -p made/inner; echo > made/inner/file");
    for folder in ["made", "made/inner"] {
        let before = SystemTime::now();
        set_back(folder);
        let output = place.output(&["sh", "--diff", "--apply", "-c", &format!("touch {folder}")]);
        assert!(stderr(&output).contains(&format!("{folder} times")), "{}", stderr(&output));
        assert!((before..=SystemTime::now()).contains(&place.modified(folder)), "{folder}");
    }
    // In a session, before and after a refresh.
    for refreshes in [false, true] {
        set_back("made");
        let session = place.session();
        session.exec("echo > new; sleep 5; touch made; sleep 5; echo > newer");
        if refreshes {
            session.refresh();
        }
        session.exec("test made -nt new && test newer -nt made");
        session.apply();
        let [new, made, newer] = ["new", "made", "newer"].map(|name| place.modified(name));
        assert!(new < made && made < newer, "{refreshes}: {:?}", [new, made, newer]);
        session.refresh();
        session.exec("test made -nt new && test newer -nt made");
    }
}

/// Regression: a refresh gave it the time of the disk, that of the apply, so that it was newer than what a program wrote
/// after it.
#[test]
fn made_folder_keeps_its_order_in_a_refresh_after_an_apply() {
    let place = Place::new();
    let session = place.session();
    session.exec("mkdir made; echo > made/file; sleep 5; echo > later");
    session.apply();
    session.refresh();
    session.exec("test later -nt made");
    // An edit in it on the disk is later than both.
    std::fs::write(place.tree().join("made/edit"), "").unwrap();
    session.refresh();
    session.exec("test made -nt later");
}

/// Regression: the second one failed.
#[test]
fn tape_with_a_set_date_and_an_early_clock_is_applied_twice() {
    let place = Place::new();
    let tape = place.folder.path().join("t.tape").display().to_string();
    let start = ["record -q", "--start-at", "2024-05-01T00:00:00Z", "--tape", &tape];
    place.output(&[&start[..], &["--", "sh", "-c", "touch -d 2020-01-01 b"]].concat());
    for _ in 0..2 {
        let apply = belljar(&place.tree()).args(["apply", &tape]).output().unwrap();
        assert!(apply.status.success(), "{}", stderr(&apply));
        assert_eq!(place.modified("b"), at(0));
    }
}

/// Regression: `tar` took a file out of an archive of an earlier run, with a time that was later than the clock. So make kept
/// it when its input had changed, and on the disk it was from 2037.
#[test]
fn file_of_an_archive_of_an_earlier_run_is_older_than_a_later_edit() {
    for time in ["2037-01-01T00:00:02Z", "2037-12-11T03:00:00Z"] {
        let place = Place::to_make();
        let script = format!(
            "echo 1 > mid; echo 1 > out; touch -d {time} mid out; echo 2 > a; minimake; minimake"
        );
        let before = SystemTime::now();
        assert_eq!(
            place.applied(&script),
            "mid\nout\nminimake: Nothing to be done for 'all'.\n",
            "{time}"
        );
        let times = ["a", "mid", "out"].map(|name| place.modified(name));
        assert!(times.is_sorted() && times[2] <= SystemTime::now(), "{times:?}");
        assert!(times[0] >= before - std::time::Duration::from_mins(1), "{times:?}");
        let session = place.session();
        session.exec(&format!("touch -d {time} mid out; echo 3 > b"));
        assert_eq!(session.exec("minimake"), "mid\nout\n", "{time}");
        session.apply();
        assert!(place.modified("out") <= SystemTime::now());
        assert_eq!(std::fs::read_to_string(place.tree().join("out")).unwrap(), "2\n3\n");
    }
}
