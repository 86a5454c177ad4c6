//! Errors of the system while belljar writes to the disk.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use super::{can_trace, killed_halfway};
use crate::support::{belljar, cache_dir, skipped, stderr, stdout, tree};

/// The id of a user who owns nothing.
const NOBODY: u32 = 65534;

/// Regression: the limit of `ulimit -f` ended belljar with a signal, in the middle of an apply.
#[test]
fn apply_beyond_the_file_size_limit_leaves_the_old_tree() {
    const SCRIPT: &str = "for i in $(seq 0 29); do echo new > f$i; done; seq 100000 > f20";
    let top = tempfile::tempdir().unwrap();
    let folder = top.path().join("tree");
    std::fs::create_dir(&folder).unwrap();
    for number in 0..30 {
        std::fs::write(folder.join(format!("f{number}")), "old").unwrap();
    }
    let before = tree(&folder);
    let run = |limit: &str, args: &[&str]| {
        let mut command = Command::new("bash");
        command.args(["-c", &format!("ulimit -f {limit}; exec \"$0\" \"$@\"")]);
        command.arg(env!("CARGO_BIN_EXE_belljar")).args(args).current_dir(&folder);
        command.env("BELLJAR_CACHE_DIR", cache_dir()).env("BELLJAR_HOME", top.path().join("home"));
        command.output().unwrap()
    };
    for args in [
        &["record", "--quiet", "--tape", "../t", "--", "sh", "-c", SCRIPT][..],
        &["sandbox", "create", "--id", "box"],
        &["sandbox", "exec", "box", "--", "sh", "-c", SCRIPT],
    ] {
        let output = run("unlimited", args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    }
    for args in [
        &["sh", "--apply", "-c", SCRIPT][..],
        &["apply", "../t"],
        &["sandbox", "apply", "box"],
        &["sandbox", "cp", "box:.", "."],
        &["sandbox", "cp", "box:.", "../copy"],
        &["sandbox", "cp", "box:f20", "f20"],
    ] {
        let output = run("64", args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{args:?}: {:?} {said}", output.status);
        assert!(said.contains("File too large (os error 27); nothing was written"), "{said}");
        assert_eq!(tree(&folder), before, "{args:?}");
        assert!(!top.path().join("copy").exists(), "{args:?}");
    }
    let output = run("unlimited", &["sandbox", "apply", "box"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(tree(&folder)["f7"], b"new\n");
}

/// Regression: a report that could not be written gave the exit code of a conflict, which says that nothing
/// was written.
#[test]
fn report_failure_after_apply_has_its_own_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    let text = "a line\n".repeat(200);
    let file = folder.path().join("f");
    let run = |limit: &str, args: &str| {
        std::fs::write(&file, &text).unwrap();
        Command::new("bash")
            .args(["-c", &format!("ulimit -f {limit}; exec \"$0\" {args}")])
            .arg(env!("CARGO_BIN_EXE_belljar"))
            .current_dir(folder.path())
            .env("BELLJAR_CACHE_DIR", cache_dir())
            .env("BELLJAR_HOME", home.path())
            .output()
            .unwrap()
    };
    let replace = "replace line word f";
    // Compiled and cached before: compiling takes a file in memory, which the limit counts as well.
    for args in ["run --quiet replace line word f", "sh --quiet -c 'cat f > g'"] {
        let output = run("unlimited", args);
        assert!(output.status.success(), "{args}: {}", stderr(&output));
    }
    for (limit, args, option) in [
        ("2", format!("run --quiet --apply --diff=../d.diff {replace}"), "--diff"),
        (
            "2",
            "sh --quiet --apply --trace=../t.log -c 'cat f f f f f f f f; echo a word > f'"
                .to_owned(),
            "--trace",
        ),
        ("unlimited", format!("run --quiet --apply --json {replace} > /dev/full"), "--json"),
    ] {
        let args = args.replace("../", &format!("{}/", home.path().display()));
        let output = run(limit, &args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(123), "{args}: {said}");
        assert!(said.contains(option) && said.contains("the changes are on the disk"), "{said}");
        assert!(std::fs::read_to_string(&file).unwrap().starts_with("a word"), "{args}");
    }
    // If nothing was written, the exit code is another one.
    let output = run("unlimited", &format!("run --quiet --json {replace} > /dev/full"));
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    let mut session = belljar(folder.path());
    session.env("BELLJAR_HOME", home.path()).args(["sandbox", "create", "--id", "box"]);
    assert!(session.output().unwrap().status.success());
    let output = run("unlimited", "sandbox refresh --json box");
    assert!(output.status.success(), "{}", stderr(&output));
    let mut session = belljar(folder.path());
    session.env("BELLJAR_HOME", home.path()).args(["sandbox", "exec", "box", "cat", "f"]);
    assert!(session.output().unwrap().status.success());
    let output = run("unlimited", "sandbox cp --json box:f copy > /dev/full");
    assert_eq!(output.status.code(), Some(123), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(folder.path().join("copy")).unwrap(), text);
}

/// Regression: when the changes were written and the session could not be saved, the exit code said that
/// nothing was written.
#[test]
fn session_save_failure_after_apply_has_its_own_exit_code() {
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for number in 0..200 {
        std::fs::write(folder.path().join(format!("f{number}")), "old").unwrap();
    }
    let run = |limit: &str, args: &str| {
        let script = format!("ulimit -f {limit}; exec \"$0\" sandbox {args}");
        let mut command = Command::new("bash");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_belljar")]).current_dir(folder.path());
        command.env("BELLJAR_CACHE_DIR", cache_dir()).env("BELLJAR_HOME", home.path());
        let output = command.output().unwrap();
        (output.status.code(), stderr(&output))
    };
    let succeed = |args: &str| {
        let (code, said) = run("unlimited", args);
        assert_eq!(code, Some(0), "{args}: {said}");
    };
    succeed("create --id box");
    succeed("exec box -- sh -c 'cat f* > /dev/null; echo new > f7; touch f8'");
    // The journal of one file is below the limit, and a session that has read 200 files is above it.
    let (code, said) = run("2", "apply box");
    assert_eq!(code, Some(123), "{said}");
    assert!(said.contains("the changes are on the disk"), "{said}");
    assert!(said.contains("run `belljar sandbox refresh box`"), "{said}");
    assert_eq!(std::fs::read(folder.path().join("f7")).unwrap(), b"new\n");
    // Without this, the file of which only the time was set would count as changed by others.
    succeed("refresh box");
    succeed("apply box");
    succeed("apply box");
    assert_eq!(std::fs::read(folder.path().join("f7")).unwrap(), b"new\n");
}

/// Regression: with a read-only home, a journal of any directory kept every directory from being opened, and
/// no message said what to do.
#[test]
fn read_only_home_stops_only_commands_that_write() {
    let test = "read_only_home_stops_only_commands_that_write";
    if !can_trace(test) {
        return;
    }
    let [folder, other, home, cache] = [(); 4].map(|()| tempfile::tempdir().unwrap());
    killed_halfway(other.path(), home.path());
    let journals = home.path().join("journals");
    let set = |path: &Path, mode| {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    for path in [folder.path(), cache.path()] {
        set(path, 0o777);
    }
    for entry in std::fs::read_dir(&journals).unwrap() {
        set(&entry.unwrap().path(), 0o444);
    }
    for path in [&journals, home.path(), other.path()] {
        set(path, 0o555);
    }
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let run = |folder: &Path, args: &[&str]| -> Output {
        let mut command = belljar(folder);
        command.env("BELLJAR_HOME", home.path()).env("BELLJAR_CACHE_DIR", cache.path()).args(args);
        let command = command.command();
        if is_root {
            command.uid(NOBODY);
        }
        command.output().unwrap()
    };
    if run(folder.path(), &["--version"]).status.code() != Some(0) {
        return skipped(test, "others may not read this package's folder");
    }
    let output = run(folder.path(), &["sh", "-c", "echo hello"]);
    assert_eq!((stdout(&output), stderr(&output)), ("hello\n".to_owned(), String::new()));
    assert!(run(folder.path(), &["recover"]).status.success());
    let refused = |folder: &Path, args: &[&str]| {
        let output = run(folder, args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{args:?}: {said}");
        assert!(said.contains("BELLJAR_HOME"), "{args:?}: {said}");
        assert_eq!(said.matches("the journal").count(), 1, "{args:?} says it once: {said}");
        said
    };
    let said = refused(folder.path(), &["sh", "--apply", "-c", "echo new > f"]);
    assert!(said.contains("nothing was written"), "{said}");
    assert_eq!(tree(folder.path()).len(), 0);
    // The directory of the journal must not be shown before it is recovered.
    refused(other.path(), &["sh", "-c", ":"]);
    set(&journals, if is_root { 0o700 } else { 0o000 });
    refused(folder.path(), &["sh", "-c", ":"]);
    for path in [&journals, home.path(), other.path()] {
        set(path, 0o700);
    }
}

/// Regression: the temporary name could be neither renamed nor removed, and blocked the directory.
#[test]
fn file_of_another_user_gets_no_name_in_a_sticky_directory() {
    let test = "file_of_another_user_gets_no_name_in_a_sticky_directory";
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return skipped(test, "only root can make files of two users");
    }
    for script in ["ln theirs made", "mv dir/theirs made"] {
        let [folder, home] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("dir")).unwrap();
        for (name, mode) in [("theirs", 0o666), ("dir/theirs", 0o666), ("dir", 0o777), ("", 0o1777)]
        {
            if mode == 0o666 {
                std::fs::write(at(name), "r").unwrap();
            }
            std::fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
        }
        std::os::unix::fs::chown(home.path(), Some(NOBODY), None).unwrap();
        let before = tree(folder.path());
        let run = |args: &[&str]| {
            let mut command = belljar(folder.path());
            command.env("BELLJAR_HOME", home.path()).args(args);
            let command = command.command();
            command.uid(NOBODY);
            command.output().unwrap()
        };
        let output = run(&["sh", "--apply", "-c", &format!("{script}; echo q > q")]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{script}: {said}");
        assert!(
            said.contains("its directory is sticky") && said.contains("nothing was written"),
            "{said}"
        );
        assert!(!said.contains("could not be put back"), "{said}");
        assert_eq!(tree(folder.path()), before, "{script}");
        assert_eq!(stdout(&run(&["recover"])), "nothing to recover in .\n");
    }
}

/// A rename of the directory natively does not write to it, and an apply does.
#[test]
fn moved_directory_that_is_read_only_is_named_with_a_next_step() {
    let [folder, home] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    std::fs::create_dir(folder.path().join("d")).unwrap();
    std::fs::write(folder.path().join("d/a"), "1").unwrap();
    std::fs::set_permissions(folder.path().join("d"), Permissions::from_mode(0o555)).unwrap();
    let before = tree(folder.path());
    let mut command = belljar(folder.path());
    command.env("BELLJAR_HOME", home.path()).args(["sh", "--apply", "-c", "mv d e"]);
    let command = command.command();
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        for path in [folder.path(), home.path(), &folder.path().join("d")] {
            std::os::unix::fs::chown(path, Some(NOBODY), None).unwrap();
        }
        command.uid(NOBODY);
    }
    let output = command.output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("Permission denied") && said.contains("`chmod u+w`"), "{said}");
    assert_eq!(tree(folder.path()), before);
    std::fs::set_permissions(folder.path().join("d"), Permissions::from_mode(0o755)).unwrap();
}

/// Another file system is mounted beneath the directory, and a file that has a further name was moved onto it. The
/// further name changed the time by which the copy was taken for the edit of another program.
#[test]
fn file_with_a_further_name_can_be_moved_to_another_file_system() {
    let mut mount = Command::new("unshare");
    mount.args(["-rm", "mount", "-t", "tmpfs", "none", "/mnt"]);
    if !mount.status().is_ok_and(|status| status.success()) {
        let test = "file_with_a_further_name_can_be_moved_to_another_file_system";
        return skipped(test, "allow `unshare -rm` to mount a tmpfs");
    }
    for moves in ["ln a h; mv a m/a", "mv a m/a; ln m/a h", "ln a h; mv a m/a; ln h i"] {
        let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(folder.path().join("m")).unwrap();
        std::fs::write(folder.path().join("a"), "text\n").unwrap();
        let script = "mount -t tmpfs none m && touch -d @1000000000 a && \
                      $BELLJAR sh --quiet --apply -c \"$0\" && cat m/a h && stat -c %Y m/a h";
        let mut command = Command::new("unshare");
        command.args(["-rm", "bash", "-c", script, moves]).current_dir(&folder);
        command.env("BELLJAR", env!("CARGO_BIN_EXE_belljar"));
        command.env("BELLJAR_HOME", home.path()).env("BELLJAR_CACHE_DIR", cache_dir());
        let output = command.output().unwrap();
        let printed = "text\ntext\n1000000000\n1000000000\n";
        assert_eq!(stdout(&output), printed, "{moves}: {}", stderr(&output));
        assert!(!folder.path().join("a").exists(), "{moves}");
    }
}

/// The disk of the directory, or that of the home, becomes full at any point.
#[test]
fn a_full_disk_leaves_the_old_tree_and_no_temporaries() {
    let test = "a_full_disk_leaves_the_old_tree_and_no_temporaries";
    let mut mount = Command::new("unshare");
    mount.args(["-rm", "mount", "-t", "tmpfs", "none", "/mnt"]);
    if !mount.status().is_ok_and(|status| status.success()) {
        return skipped(test, "allow `unshare -rm` to mount a tmpfs");
    }
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    for name in ["work", "home", "out"] {
        std::fs::create_dir(path(name)).unwrap();
    }
    // $1 is on a disk of $2 KiB. The resulting folder is copied to out.
    let script = "set -e; cd $TOP; mount -t tmpfs -o size=$2k none $1; cd work; \
                  for i in $(seq 20); do echo old > f$i; done; mkdir d; echo old > d/gone; \
                  mkdir -p ../home/journals; : > ../home/journals/lock; \
                  if [ $1 = home ]; then dd if=/dev/zero of=../home/fill bs=1k 2> /dev/null || true; \
                  truncate -s -$3k ../home/fill; fi; \
                  code=0; $BELLJAR sh --quiet --apply -c 'rm d/gone; rmdir d; mkdir e; for i in $(seq 20); do \
                  seq 2000 > f$i; echo new > e/f$i; done' || code=$?; \
                  rm -rf ../out; mkdir ../out; cp -r . ../out; ls -A ../home/journals > ../journals; exit $code";
    let on_disk = |mount: &str, kilobytes: usize, free: usize| -> Output {
        let mut command = Command::new("unshare");
        command.args(["-rm", "bash", "-c", script, "bash", mount]);
        command.args([kilobytes.to_string(), free.to_string()]);
        command.env("TOP", scratch.path()).env("BELLJAR", env!("CARGO_BIN_EXE_belljar"));
        command.env("BELLJAR_HOME", path("home")).env("BELLJAR_CACHE_DIR", cache_dir());
        let output = command.output().unwrap();
        std::fs::remove_dir_all(path("home")).unwrap();
        std::fs::create_dir(path("home")).unwrap();
        for entry in std::fs::read_dir(path("work")).unwrap() {
            let path = entry.unwrap().path();
            std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path)).unwrap();
        }
        output
    };
    let (mut old, mut new) = (0, 0);
    let sizes = [96, 120, 160, 200, 280, 340, 400].map(|size| ("work", size, 0));
    let frees = [0, 4, 8, 64].map(|free| ("home", 256, free));
    for (mount, size, free) in sizes.into_iter().chain(frees).chain([("work", 2000, 0)]) {
        let output = on_disk(mount, size, free);
        let when = format!("{mount} {size} {free}: {}", stderr(&output));
        let tree = tree(&path("out"));
        match output.status.code() {
            Some(0) => {
                new += 1;
                assert_eq!(
                    (tree.len(), tree["f7"].len(), &*tree["e/f7"]),
                    (41, 8893, &b"new\n"[..])
                );
            }
            Some(125) => {
                old += 1;
                assert!(when.contains("No space left on device"), "{when}");
                assert!(when.contains("nothing was written"), "{when}");
                assert_eq!(
                    (tree.len(), &*tree["f7"], &*tree["d/gone"]),
                    (22, &b"old\n"[..], &b"old\n"[..])
                );
            }
            _ => panic!("{when}"),
        }
        assert_eq!(std::fs::read_to_string(path("journals")).unwrap(), "lock\n", "{when}");
    }
    assert!(old > 4 && new > 1, "{old} {new}");
}
