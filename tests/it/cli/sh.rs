//! `belljar sh`: which options belong to the shell, and how other commands show the shell.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use super::scratch;
use crate::support::{belljar, git_apply, guest, stderr, stdout};

fn sh(folder: &Path, args: &[&str]) -> Output {
    belljar(folder).arg("sh").args(args).output().unwrap()
}

/// `-e` is an option of the shell, not a short form of `--env`.
#[test]
fn shell_options_need_no_double_dash() {
    let folder = scratch();
    let dir = folder.path();
    std::fs::write(dir.join("script"), "echo \"$-\" \"$1\"; false; echo on").unwrap();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["script", "a"], 0, " a\non\n"),
        (&["-e", "script", "a"], 1, "e a\n"),
        (&["-eu", "script", "a"], 1, "eu a\n"),
        (&["-x", "+x", "-f", "script", "a"], 0, "f a\non\n"),
        (&["--quiet", "--env", "X=1", "-euo", "pipefail", "script", "a"], 1, "eu a\n"),
        (&["--", "-e", "script", "a"], 1, "e a\n"),
        (&["-ec", "echo $0 $1; false; echo on", "name", "b"], 1, "name b\n"),
        (&["-n", "script"], 0, ""),
    ];
    for (args, code, printed) in cases {
        let output = sh(dir, args);
        assert_eq!(stdout(&output), *printed, "{args:?}: {}", stderr(&output));
        assert_eq!(output.status.code(), Some(*code), "{args:?}");
    }
}

#[test]
fn shell_errors_name_what_failed() {
    let folder = scratch();
    std::fs::write(folder.path().join("broken"), "echo begun\nif true\n").unwrap();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["-c"], 2, "sh: 1: -c requires an argument"),
        (&["-n", "broken"], 2, "broken: 3: Syntax error: end of file unexpected"),
        (&["gone"], 2, "gone: 1: cannot open gone: No such file or directory"),
        (&["--aply", "script"], 2, "there is no option --aply; did you mean --apply?"),
        (&["-k", "script"], 2, "Illegal option -k"),
        (&["-c", "cd gone"], 2, "cd: can't cd to gone: No such file or directory"),
        (&["-c", "cd note.txt"], 2, "cd: can't cd to note.txt: Not a directory"),
        (&["-c", ": >gone/x"], 2, "cannot create gone/x: Directory nonexistent"),
        (&["-c", ": <gone"], 2, "cannot open gone: No such file"),
        (&["-c", ": >/worktree"], 2, "cannot create /worktree: Is a directory"),
        (&["--max-memory", "8MiB", "-c", "x=$(yes)"], 2, "raise it with --max-memory"),
    ];
    for (args, code, message) in cases {
        let output = sh(folder.path(), args);
        assert!(stderr(&output).contains(message), "{args:?}: {}", stderr(&output));
        assert_eq!(output.status.code(), Some(*code), "{args:?}");
        assert_eq!(stdout(&output), "", "{args:?}");
    }
}

#[test]
fn help_of_sh_is_about_scripts() {
    let help = stdout(&sh(&std::env::temp_dir(), &["--help"]));
    for text in
        ["[SCRIPT] [ARGS]...", "the text of a script", "belljar sh -eu build.sh", "      --env"]
    {
        assert!(help.contains(text), "no {text:?} in: {help}");
    }
    assert!(!help.contains("PROGRAM"), "{help}");
}

#[test]
fn shell_is_listed_and_replaceable_like_any_program() {
    let folder = scratch();
    let listed = belljar(folder.path()).args(["programs", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let names = |listed: &Value| -> Vec<String> {
        let programs = listed.as_array().unwrap().iter();
        programs.map(|program| program["name"].as_str().unwrap().to_owned()).collect()
    };
    let found = names(&listed);
    assert!(found.is_sorted() && found.contains(&"sh".to_owned()), "{found:?}");
    // A toolchain's `sh` replaces the built-in one in the list.
    std::fs::copy(crate::support::guest("hello"), folder.path().join("sh.wasm")).unwrap();
    let programs = ["programs", "--json", "--toolchain", "."];
    let listed = belljar(folder.path()).args(programs).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(names(&listed), found);
    let shell = listed.as_array().unwrap().iter().find(|program| program["name"] == "sh");
    assert!(shell.unwrap()["from"].as_str().unwrap().ends_with("sh.wasm"), "{listed}");
}

#[test]
fn a_trace_shows_the_calls_of_a_shell() {
    let folder = scratch();
    let output =
        sh(folder.path(), &["--trace=t.log", "-c", "cat <note.txt | { read x; cd gone; }"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let trace = std::fs::read_to_string(folder.path().join("t.log")).unwrap();
    for line in [
        "==> pipe(flags=1)\n<== errno=success\n",
        "==> proc_spawn(program=\"sh\", argc=1)\n<== pid=2, errno=success\n",
        "[2] ==> path_open(\"note.txt\", rights=0x2)\n[2] <== fd=3, errno=success\n",
        "[2] ==> proc_spawn(program=\"cat\", argc=1)\n",
        "[3] ==> fd_read(fd=0, len=1)\n",
        "[3] <== count=1, errno=success\n",
        "[3] ==> proc_chdir(path=\"/worktree/gone\")\n[3] <== errno=noent\n",
        "==> proc_wait(pid=3, flags=0)\n",
    ] {
        assert!(trace.contains(line), "no {line:?} in: {trace}");
    }
}

/// Regression: some programs took `worktree/c` for the file `c` of the mount `/worktree`, and `replace` changed it.
#[test]
fn built_in_programs_distinguish_relative_from_absolute_paths() {
    let folder = scratch();
    for dir in ["worktree", "sub"] {
        std::fs::create_dir(folder.path().join(dir)).unwrap();
    }
    std::fs::write(folder.path().join("c"), "top\n").unwrap();
    for command in ["cat", "head", "wc", "sha256sum", "jsonfmt", "replace top xop", "grep top"] {
        for dir in ["worktree", "sub"] {
            let script =
                format!("echo tmp > /tmp/n; cd {dir}; {command} worktree/c; {command} tmp/n");
            let output = sh(folder.path(), &["--apply", "-c", &script]);
            let said = stderr(&output);
            assert_eq!(stdout(&output), "", "{command} in {dir}");
            assert!(said.contains("worktree/c") && said.contains("tmp/n"), "{command}: {said}");
        }
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("c")).unwrap(), "top\n");
}

/// Regression: new directories, links and empty files were always out of date for make, because their
/// directory was newer.
#[test]
fn new_entries_are_not_older_than_their_directory() {
    let folder = scratch();
    let makefile = "all: build/obj\nbuild:\n\tmkdir build\nbuild/obj: build\n\tmkdir build/obj\n";
    std::fs::write(folder.path().join("Makefile"), makefile).unwrap();
    let tools = guest("minimake").parent().unwrap().display().to_string();
    let output = sh(folder.path(), &["--toolchain", &tools, "-c", "minimake; minimake"]);
    assert!(output.status.success(), "{}", stderr(&output));
    for made in ["mkdir o/s", ": > o/s", "ln -s q o/s"] {
        let script = format!("mkdir o; sleep 1; {made}; find o -maxdepth 0 -newer o/s");
        let output = sh(folder.path(), &["--quiet", "-c", &script]);
        assert_eq!((stdout(&output), stderr(&output)), (String::new(), String::new()), "{made}");
    }
}

#[test]
fn diff_names_the_files_it_omits() {
    let folder = scratch();
    let script = "mkdir .git; echo x > .git/config; mkdir s; echo y > s/.git";
    let said = "note: the diff leaves out .git/config, s/.git: git refuses such changes";
    let output = sh(folder.path(), &["--diff", "-c", script]);
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
    let record = ["record", "-q", "--tape", "run.tape", "--", "sh", "-c", script];
    belljar(folder.path()).args(record).output().unwrap();
    let output = belljar(folder.path()).args(["diff", "run.tape"]).output().unwrap();
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
}

/// Regression: the process that `exec` leaves behind was ended alone, and the program went on.
#[test]
fn program_that_another_one_became_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    for job in ["env", "env X=1 env"] {
        let script = format!(
            "{job} sh -c 'sleep 3; echo alive' & sleep 1; kill $!; wait $!; echo $?; sleep 5; date +%S"
        );
        let args = ["sh", "-q", "--start-at", "2030-01-01T00:00:00Z", "-c", &script];
        let output = belljar(folder.path()).args(args).output().unwrap();
        assert_eq!(stdout(&output), "143\n06\n", "{job}: {}", stderr(&output));
    }
}

/// Regression: the patch removed the old name, and had no new one, so that the file was nowhere.
#[test]
fn file_that_is_moved_to_what_the_diff_leaves_out_stays_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join(".git/hooks")).unwrap();
    for name in ["hook", "other", "linked"] {
        std::fs::write(folder.path().join(name), name).unwrap();
    }
    let script =
        "mv hook .git/hooks/pre-commit; mv other kept; ln linked .git/linked; mv linked new";
    let output = belljar(folder.path()).args(["sh", "--diff", "-c", script]).output().unwrap();
    let said = "note: the diff leaves out .git/hooks/pre-commit, .git/linked, hook: git refuses";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
    let applied = git_apply(folder.path(), &output.stdout);
    assert!(applied.status.success(), "{}", stderr(&applied));
    let read = |name| std::fs::read_to_string(folder.path().join(name)).ok();
    assert_eq!(read("hook").as_deref(), Some("hook"));
    assert_eq!((read("other"), read("kept").as_deref()), (None, Some("other")));
    assert_eq!((read("linked"), read("new").as_deref()), (None, Some("linked")));
}
