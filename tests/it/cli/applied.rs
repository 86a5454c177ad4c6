//! Tapes whose changes are already on the disk, and tapes without their contents directory.

use std::path::Path;

use crate::cli::scratch;
use crate::cli::tape::{call, succeed};
use crate::support::{belljar, file_number, has_links, stderr};

/// A folder with `tree`, and the tape of a run of `script` over it.
fn recorded(script: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    std::fs::rename(scratch().keep(), &tree).unwrap();
    std::fs::create_dir(tree.join("old")).unwrap();
    std::fs::write(tree.join("old/part"), "part\n").unwrap();
    let args = ["record", "-q", "--tape", "run.tape", "--worktree", "tree", "--", "sh", "-c"];
    succeed(folder.path(), &[&args[..], &[script]].concat());
    folder
}

const SCRIPT: &str = "echo 3 >> note.txt; mkdir new; mv old/part new/part; rmdir old; echo x > new/x; \
                      touch -d 2001-01-01T00:00:00Z new/x";

/// Regression: a second apply was refused, because the disk was no longer in the state that the run had found.
#[test]
fn changes_already_on_the_disk_are_no_conflict() {
    let folder = recorded(SCRIPT);
    let dir = folder.path();
    let apply = ["apply", "run.tape", "--worktree", "tree"];
    let first = call(dir, &apply);
    assert!(stderr(&first).ends_with(" written to the disk\n"), "{}", stderr(&first));
    let before = crate::support::tree(&dir.join("tree"));
    for _ in 0..2 {
        let again = call(dir, &apply);
        assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
        assert_eq!(stderr(&again), "belljar: already applied: nothing to do\n");
    }
    assert_eq!(crate::support::tree(&dir.join("tree")), before);
    let quiet = call(dir, &[&apply[..], &["--quiet"]].concat());
    assert_eq!((quiet.status.code(), stderr(&quiet)), (Some(0), String::new()));
}

/// An edit of a tree.
type Change<'a> = &'a dyn Fn(&Path);

#[test]
fn partly_applied_changes_are_a_conflict() {
    let differences: [(&str, Change); 5] = [
        ("another content", &|tree| std::fs::write(tree.join("note.txt"), "other\n").unwrap()),
        ("something is missing", &|tree| std::fs::remove_file(tree.join("new/x")).unwrap()),
        ("what was removed is there", &|tree| std::fs::create_dir(tree.join("old")).unwrap()),
        ("a folder in place of a file", &|tree| {
            std::fs::remove_file(tree.join("new/x")).unwrap();
            std::fs::create_dir(tree.join("new/x")).unwrap();
        }),
        ("the first state of one file", &|tree| {
            std::fs::write(tree.join("note.txt"), "one\ntwo\n").unwrap();
        }),
    ];
    for (what, change) in differences {
        let folder = recorded(SCRIPT);
        let dir = folder.path();
        let apply = ["apply", "run.tape", "--worktree", "tree"];
        succeed(dir, &apply);
        change(&dir.join("tree"));
        let before = crate::support::tree(&dir.join("tree"));
        let output = call(dir, &apply);
        assert_eq!(output.status.code(), Some(125), "{what}: {}", stderr(&output));
        assert!(stderr(&output).contains("nothing is written to the disk"), "{what}");
        assert_eq!(crate::support::tree(&dir.join("tree")), before, "{what}");
    }
}

/// Regression: the message named all of 800 files, and no next step.
#[test]
fn long_lists_of_conflicts_are_cut() {
    let folder = recorded("for i in $(seq 100); do echo $i > f$i; done");
    let dir = folder.path();
    let apply = ["apply", "run.tape", "--worktree", "tree"];
    succeed(dir, &apply);
    std::fs::remove_file(dir.join("tree/f7")).unwrap();
    let output = call(dir, &apply);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("it already has the state after the run; and 89 more"), "{said}");
    assert!(said.contains("`belljar diff run.tape` shows what the run changed"), "{said}");
    assert!(said.len() < 2000, "{said}");
}

#[cfg(unix)]
#[test]
fn differing_permissions_are_a_conflict() {
    use std::os::unix::fs::PermissionsExt;
    let folder = recorded("echo 3 >> note.txt; ln -s note.txt link");
    let dir = folder.path();
    let apply = ["apply", "run.tape", "--worktree", "tree"];
    succeed(dir, &apply);
    assert_eq!(call(dir, &apply).status.code(), Some(0));
    let note = dir.join("tree/note.txt");
    std::fs::set_permissions(&note, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(call(dir, &apply).status.code(), Some(125));
    std::fs::set_permissions(&note, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::remove_file(dir.join("tree/link")).unwrap();
    std::os::unix::fs::symlink("elsewhere", dir.join("tree/link")).unwrap();
    assert_eq!(call(dir, &apply).status.code(), Some(125));
}

#[test]
fn a_run_that_changed_nothing_says_so() {
    let folder = recorded("cat note.txt > /dev/null");
    let output = call(folder.path(), &["apply", "run.tape", "--worktree", "tree"]);
    assert_eq!(stderr(&output), "belljar: the run changed nothing: nothing to do\n");
    assert!(output.status.success());
}

/// Regression: the message named one content, and not the directory.
#[test]
fn tape_without_its_contents_directory_names_the_directory() {
    let folder = recorded(SCRIPT);
    let dir = folder.path();
    std::fs::rename(dir.join("run.tape"), dir.join("moved.tape")).unwrap();
    for args in [
        &["replay", "moved.tape"][..],
        &["diff", "moved.tape"],
        &["apply", "moved.tape", "--worktree", "tree"],
        &["tape", "cat", "moved.tape", "00"],
    ] {
        let output = call(dir, args);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{args:?}: {message}");
        assert!(message.contains("directory moved.tape.cas is missing"), "{args:?}: {message}");
        assert!(message.contains("renamed together with its directory"), "{args:?}: {message}");
    }
    std::fs::rename(dir.join("run.tape.cas"), dir.join("moved.tape.cas")).unwrap();
    succeed(dir, &["replay", "-q", "moved.tape"]);
}

/// Regression: the directory had the mode of the file, and could not be entered.
#[cfg(unix)]
#[test]
fn directory_replacing_a_file_has_its_own_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let folder = scratch();
    let script = "rm -rf note.txt; mkdir note.txt; echo > note.txt/today";
    let output = belljar(folder.path()).args(["sh", "--apply", "-c", script]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let mode = std::fs::metadata(folder.path().join("note.txt")).unwrap().permissions().mode();
    assert_eq!(mode & 0o700, 0o700, "{mode:o}");
}

/// Regression: the changes of a run that a limit ended were applied without a message.
#[test]
fn applying_a_tape_of_a_run_that_did_not_end_by_itself_says_so() {
    let folder = scratch();
    let script = "echo half > note.txt; while :; do :; done";
    let args = ["record", "--timeout", "300ms", "--tape", "../t.tape", "--", "sh", "-c", script];
    let tree = folder.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    let output = belljar(&tree).args(args).output().unwrap();
    assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
    let output = belljar(&tree).args(["apply", "../t.tape"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("the run did not end by itself (timeout)"), "{said}");
    assert_eq!(std::fs::read_to_string(tree.join("note.txt")).unwrap(), "half\n");
}

/// Regression: the copy of a file that was written in the run got a time of the virtual clock, so a second
/// apply found a conflict.
#[test]
fn copied_times_become_times_of_the_disk() {
    for script in ["echo 1 > conf; cp -p conf bak; echo 2 > conf", "mkdir new; touch -r new bak"] {
        let folder = recorded(script);
        let apply = ["apply", "run.tape", "--worktree", "tree"];
        succeed(folder.path(), &apply);
        let modified = folder.path().join("tree/bak").metadata().unwrap().modified().unwrap();
        let now = std::time::SystemTime::now();
        assert!(
            modified <= now && now.duration_since(modified).unwrap().as_secs() < 600,
            "{script}"
        );
        let again = call(folder.path(), &apply);
        assert_eq!(stderr(&again), "belljar: already applied: nothing to do\n", "{script}");
    }
}

/// The tape has two lookups of the path: one in the mounted directory, and one in the worktree, which has no
/// such entry.
#[test]
fn changes_in_a_mounted_directory_are_applied() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    for name in ["tree", "parts"] {
        std::fs::create_dir(dir.join(name)).unwrap();
    }
    std::fs::write(dir.join("tree/a"), "1\n").unwrap();
    let mounts = ["--worktree", "tree", "--dir", "parts::/worktree/out"];
    let script = "echo x > out/f; echo y > a";
    let record = ["record", "-q", "--tape", "run.tape"];
    succeed(dir, &[&record[..], &mounts, &["--", "sh", "-c", script]].concat());
    let diff = crate::support::stdout(&call(dir, &["diff", "run.tape"]));
    assert!(diff.contains("+y") && diff.contains("+x"), "{diff}");
    succeed(dir, &[&["apply", "run.tape"][..], &mounts].concat());
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    assert_eq!((read("tree/a").as_str(), read("parts/f").as_str()), ("y\n", "x\n"));
}

/// Regression: the new name became a copy, so what was written to one name was not read from the other.
#[test]
fn hard_link_with_a_set_time_stays_one_file() {
    let link = "ln note.txt other; touch -d 2011-06-22T00:00:00Z note.txt";
    for script in [link, "touch -d 2011-06-22T00:00:00Z note.txt; ln note.txt other"] {
        let folder = scratch();
        succeed(folder.path(), &["sh", "-q", "--apply", "-c", script]);
        let number = |name: &str| file_number(&folder.path().join(name));
        assert_eq!(number("note.txt"), number("other"), "{script}");
        let time = folder.path().join("other").metadata().unwrap().modified().unwrap();
        let since = time.duration_since(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(since.as_secs(), 1_308_700_800, "{script}");
    }
}

/// Regression: `mv` succeeded in the run, and its changes could not be applied.
#[cfg(unix)]
#[test]
fn named_pipe_cannot_be_moved_to_another_mount() {
    let folder = scratch();
    let parts = folder.path().join("parts");
    std::fs::create_dir(&parts).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(parts.join("p")).status().unwrap().success());
    let script = "mv /mm/p p; echo work > result";
    let output =
        call(folder.path(), &["sh", "--apply=always", "--dir", "parts::/mm", "-c", script]);
    assert!(stderr(&output).contains("mv: "), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(folder.path().join("result")).unwrap(), "work\n");
}

/// Regression: times of two clocks were compared, and a link to itself was an error.
#[test]
fn applied_changes_are_recognised_with_any_clock_and_link() {
    for (options, script) in [
        (&["--start-at", "2020-01-01T00:00:00Z"][..], "cp -p note.txt copy"),
        (&["--start-at", "2031-01-01T00:00:00Z"], "echo a > a; cp -pr old copied"),
        (&[], "rm -r old; ln -s old old"),
        (&[], "mv old old.v1; ln -s old.v1 old"),
    ] {
        let test = "applied_changes_are_recognised_with_any_clock_and_link";
        if script.contains("ln -s") && !has_links(test) {
            continue;
        }
        let folder = recorded("true");
        let record = ["record", "-q", "--tape", "run.tape", "--worktree", "tree"];
        let args = [&record[..], options, &["--", "sh", "-c", script]].concat();
        succeed(folder.path(), &args);
        let apply = ["apply", "run.tape", "--worktree", "tree"];
        succeed(folder.path(), &apply);
        let again = call(folder.path(), &apply);
        assert_eq!(again.status.code(), Some(0), "{script}: {}", stderr(&again));
        assert_eq!(stderr(&again), "belljar: already applied: nothing to do\n", "{script}");
    }
}
