//! What new users meet first: `--check`, paths of the host, pipes, messages of wrong usage.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::cli::{guest_arg, run, scratch};
use crate::support::{belljar, stderr, stdout};

fn sh(folder: &Path, args: &[&str]) -> Output {
    belljar(folder).arg("sh").args(args).output().unwrap()
}

#[test]
fn a_check_fails_where_something_would_change_and_writes_nothing() {
    let folder = scratch();
    let dir = folder.path();
    let exit = guest_arg("exit");
    let cases: &[(&[&str], i32)] = &[
        (&["--check", "replace", "one", "1", "note.txt"], 122),
        (&["--check", "wc", "note.txt"], 0),
        (&["--check", "cp", "note.txt", "note.txt.copy"], 122),
        // Rewriting a file with equal content changes only its time, which `--check` does not count.
        (&["--check", "sh", "-c", "cat note.txt > n; cp n note.txt; rm n"], 0),
        (&["--check", &exit, "7"], 7),
        (&["--check", "--apply", "wc", "note.txt"], 2),
        (&["--check", "--timeout", "50ms", &guest_arg("loop")], 124),
    ];
    for (args, code) in cases {
        let output = run(dir, args);
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {}", stderr(&output));
    }
    let output = run(dir, &["--check", "--json", "replace", "one", "1", "note.txt"]);
    let report: Value = serde_json::from_str(stdout(&output).lines().last().unwrap()).unwrap();
    assert_eq!((&report["status"], &report["exit_code"]), (&"exited".into(), &122.into()));
    assert_eq!(report["guest_exit_code"], 0);
    assert!(stderr(&output).contains("1 change (note.txt modified), not written"));
    assert_eq!(sh(dir, &["--check", "-c", "echo x > made"]).status.code(), Some(122));
    assert_eq!(sh(dir, &["--check", "-c", "echo x > made; exit 3"]).status.code(), Some(3));
    assert_eq!(sh(dir, &["--check", "-c", "cat note.txt"]).status.code(), Some(0));
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 1);
    assert_eq!(std::fs::read_to_string(dir.join("note.txt")).unwrap(), "one\ntwo\n");
}

#[test]
fn apply_reports_its_changes_in_one_line() {
    let folder = scratch();
    let script = "rm note.txt; for i in 1 2 3 4 5; do echo $i > f$i; done";
    let output = sh(folder.path(), &["--apply", "-c", script]);
    let expected =
        "belljar: 6 changes (f1 added, f2 added, f3 added, 3 more), written to the disk\n";
    assert_eq!(stderr(&output), expected);
    let quiet = sh(folder.path(), &["--apply", "--quiet", "-c", "rm f1"]);
    assert_eq!(stderr(&quiet), "");
    let nothing = sh(folder.path(), &["--apply", "-c", "cat f2"]);
    assert_eq!(stderr(&nothing), "");
}

/// Regression: the warning named only the directory, and "1 more".
#[test]
fn warning_names_changed_hooks_with_full_path() {
    let folder = scratch();
    let script = "mkdir -p .git/hooks .vscode; echo x > .git/hooks/pre-commit; echo x > .git/config; \
                  for i in $(seq 40); do echo x > .vscode/$i; done";
    let output = sh(folder.path(), &["-c", script]);
    let message = stderr(&output);
    let warning = message.lines().find(|line| line.contains("warning:")).unwrap();
    let begins = "belljar: warning: the program changed .git/hooks/pre-commit, .git/config, ";
    assert!(warning.starts_with(begins), "{warning}");
    assert!(warning.contains(" and 22 more, which other tools may run or obey"), "{warning}");
}

#[test]
fn note_distinguishes_host_paths_from_missing_paths() {
    let folder = scratch();
    let tree = folder.path().join("tree");
    let other = folder.path().join("other");
    for dir in [&tree, &other] {
        std::fs::create_dir(dir).unwrap();
        std::fs::write(dir.join("file"), "text\n").unwrap();
    }
    let real = |path: &Path| crate::support::canonical(path).display().to_string();
    let (inside, outside) = (real(&tree.join("file")), real(&other.join("file")));
    let outside_dir = real(&other);
    let note = |args: &[&str]| {
        let output = run(&tree, args);
        assert!(!output.status.success(), "{args:?}");
        let message = stderr(&output);
        message.lines().find(|line| line.contains("note:")).unwrap_or_default().to_owned()
    };
    if cfg!(unix) {
        let said = note(&["cat", &inside]);
        assert!(said.contains("is a path of the host; the program sees"), "{said}");
        assert!(said.ends_with(" as /worktree, and this as /worktree/file"), "{said}");
        let said = note(&["cat", &outside]);
        let expected = format!("does not see; `--dir {outside_dir}` shows it");
        assert!(said.ends_with(&expected), "{said}");
        let option = note(&["cat", &format!("--in={outside}")]);
        assert!(option.ends_with(&expected), "{option}");
        // The suggested option works.
        let output = run(&tree, &["--dir", &outside_dir, "cat", &outside]);
        assert_eq!(stdout(&output), "text\n", "{}", stderr(&output));
    }
    let said = note(&["cat", "../other/file"]);
    assert!(said.contains("leads out of the worktree"), "{said}");
    assert!(said.ends_with("`--dir ../other` shows it"), "{said}");
    let output = run(&tree, &["--dir", "../other", "cat", "../other/file"]);
    assert_eq!(stdout(&output), "text\n", "{}", stderr(&output));
    std::fs::write(folder.path().join("above"), "above\n").unwrap();
    let said = note(&["cat", "../above"]);
    assert!(said.ends_with("`--dir ..::/above` shows it as /above/above"), "{said}");
    let output = run(&tree, &["--dir", "..::/above", "cat", "/above/above"]);
    assert_eq!(stdout(&output), "above\n", "{}", stderr(&output));
    for unknown in ["gone", "../gone", "/gone/file"] {
        assert_eq!(note(&["cat", unknown]), "", "{unknown}");
    }
    // Every process has these devices, so no failure gets a note about them.
    for device in ["/dev/null", "/dev/urandom", "/dev/fd/0", "/dev/stdin"] {
        assert_eq!(note(&["sh", "-c", &format!("head -c 4 {device}; exit 1")]), "", "{device}");
    }
    assert_eq!(note(&["--quiet", "cat", "../above"]), "");
}

/// Regression: `ls -la ..` asked for the root's parent, and failed.
#[test]
fn the_parent_of_the_worktree_can_be_listed() {
    let folder = scratch();
    for command in [&["run", "ls", "-la", ".."][..], &["sh", "-c", "cd ..; ls -la"]] {
        let output = belljar(folder.path()).args(command).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let listed = stdout(&output);
        let names: Vec<_> = listed.lines().filter_map(|line| line.split(' ').next_back()).collect();
        assert_eq!(names, ["0", ".", "..", "tmp", "worktree"], "{listed}");
    }
}

/// Regression: `seq` reported a broken pipe, which it does not do natively.
#[cfg(unix)]
#[test]
fn writer_whose_reader_exits_ends_silently() {
    let folder = scratch();
    for command in ["run seq 1000000", "sh -c 'seq 1000000'", "sh -c 'while :; do echo x; done'"] {
        let script = format!("\"$0\" {command} | head -n 1 >/dev/null; echo ${{PIPESTATUS[0]}}");
        let output = crate::support::bash(folder.path(), &script);
        assert_eq!(
            (stdout(&output), stderr(&output)),
            ("141\n".into(), String::new()),
            "{command}"
        );
    }
}

#[test]
fn a_shell_without_arguments_reads_its_standard_input() {
    let folder = scratch();
    for args in [&["sh"][..], &["sh", "--quiet"], &["sh", "-e"], &["run", "sh"]] {
        let mut child = belljar(folder.path())
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"read x < note.txt\necho \"$x $0\"\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(stdout(&output), "one sh\n", "{args:?}");
    }
}

/// Regression: clap's messages had a different form from belljar's own.
#[test]
fn every_message_of_wrong_usage_has_one_form() {
    let folder = scratch();
    let cases: &[(&[&str], &str)] = &[
        (
            &["verify", "--embed-program", "wc"],
            "there is no option --embed-program; `belljar record` takes it (",
        ),
        (
            &["record", "--tape", "t", "--", "--seed", "wc"],
            "--seed is after --, where the program begins: put it before",
        ),
        (&["run", "--aply", "wc"], "there is no option --aply; did you mean --apply? (`"),
        (&["replay", "--jsn", "x"], "there is no option --jsn; did you mean --json? (see `"),
        (
            &["run", "--clock", "x", "wc"],
            "invalid value 'x' for '--clock <WHICH>' [possible values",
        ),
        (
            &["run", "--max-memory", "256", "wc"],
            "\"256\" has no unit: use one, such as 256MiB or 256B",
        ),
        (&["run"], "the following required arguments were not provided: <PROGRAM>"),
        (&["sandbox", "exec"], "(see `belljar sandbox exec --help`)"),
        (&["tape", "shw"], "there is no command tape shw; did you mean show?"),
        (&["rnu"], "there is no command rnu; did you mean run?"),
        (&["run", "--env", "=x", "wc"], "--env =x: a variable needs a name"),
        (&["run", "--check", "--apply", "wc"], "cannot be used with"),
    ];
    for (args, words) in cases {
        let output = belljar(folder.path()).args(*args).output().unwrap();
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.starts_with("belljar: ") && message.contains(words), "{args:?}: {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(!message.contains("Usage:") && !message.contains('\u{1b}'), "{message}");
    }
}

/// Regression: the worktree's mount point was visible as a name in the worktree, so this emptied the
/// worktree.
#[test]
fn removing_a_folder_named_worktree_removes_no_worktree() {
    let folder = scratch();
    let dir = folder.path();
    let script = "rm -rf worktree; mkdir worktree; echo made > worktree/a; cat worktree/a; ls";
    let output = sh(dir, &["-q", "--apply", "-c", script]);
    assert_eq!(stdout(&output), "made\nnote.txt\nworktree\n", "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(dir.join("worktree/a")).unwrap(), "made\n");
    assert_eq!(std::fs::read_to_string(dir.join("note.txt")).unwrap(), "one\ntwo\n");
    std::fs::remove_dir_all(dir.join("worktree")).unwrap();
    let overwrite = guest_arg("overwrite");
    let output =
        run(dir, &["-q", "--apply", &overwrite, "mkdir:worktree", "write:worktree/b:text"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(dir.join("worktree/b")).unwrap(), "text");
    assert_eq!(sh(dir, &["-c", "cd worktree && pwd"]).stdout, b"/worktree/worktree\n");
    std::fs::remove_dir_all(dir.join("worktree")).unwrap();
    assert_ne!(sh(dir, &["-q", "-c", "cd worktree"]).status.code(), Some(0));
}

/// Regression: the directory of sessions and journals was not checked.
#[cfg(unix)]
#[test]
fn doctor_checks_the_home_and_its_journals() {
    use std::os::unix::fs::PermissionsExt;
    let folder = scratch();
    let home = folder.path().join("home");
    let doctor = |home: &Path| -> (Option<i32>, Vec<Value>) {
        let mut command = belljar(folder.path());
        let output = command.args(["doctor", "--json"]).env("BELLJAR_HOME", home).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = ["home", "journals"].map(|name| {
            let checks = report["checks"].as_array().unwrap();
            checks.iter().find(|check| check["name"] == name).unwrap().clone()
        });
        (output.status.code(), checks.to_vec())
    };
    let (code, checks) = doctor(&home);
    assert_eq!(code, Some(0), "{checks:?}");
    assert!(checks[0]["found"].as_str().unwrap().starts_with("0 sessions in "), "{checks:?}");
    assert_eq!(std::fs::metadata(&home).unwrap().permissions().mode() & 0o777, 0o700);
    let sandbox = ["sandbox", "create", "--id", "box", "--no-worktree"];
    belljar(folder.path()).args(sandbox).env("BELLJAR_HOME", &home).output().unwrap();
    for (mode, code, words) in
        [(0o755, 0, "1 session in "), (0o755, 0, "chmod go-rwx"), (0o777, 125, "can write to")]
    {
        std::fs::set_permissions(&home, std::fs::Permissions::from_mode(mode)).unwrap();
        let (found, checks) = doctor(&home);
        assert_eq!(found, Some(code), "{checks:?}");
        assert!(checks[0].to_string().contains(words), "{words}: {checks:?}");
    }
    let (code, checks) = doctor(&folder.path().join("note.txt"));
    assert_eq!(code, Some(125), "{checks:?}");
    assert!(checks[0]["advice"].as_str().unwrap().contains("set BELLJAR_HOME"), "{checks:?}");
}
