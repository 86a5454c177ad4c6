//! Hints for almost correct usage: options in the wrong place, misspelt names, paths of the host in scripts.

use std::path::Path;
use std::process::Output;

use crate::cli::{guest_arg, run, scratch};
use crate::support::{belljar, guest, stderr, stdout};

fn call(folder: &Path, args: &[&str]) -> Output {
    let home = folder.join(".home");
    belljar(folder).args(args).env("BELLJAR_HOME", home).output().unwrap()
}

/// Runs each case, and checks its exit code and words on its standard error.
fn says(folder: &Path, cases: &[(&[&str], i32, &str)]) {
    for (args, code, words) in cases {
        let output = call(folder, args);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {message}");
        assert!(message.contains(words), "{args:?}: no {words:?} in: {message}");
    }
}

/// Regression: `--apply success wc` ran a program called `success`, or reported that it does not exist.
#[test]
fn apply_value_without_equals_sign_gets_a_hint() {
    let folder = scratch();
    let dir = folder.path();
    std::fs::write(dir.join("success"), "echo ran\n").unwrap();
    let hint = "--apply takes its value after `=`: --apply=always, or --apply=success";
    says(
        dir,
        &[
            (&["run", "--apply", "success", "wc"], 127, hint),
            (&["run", "--apply", "always", "wc"], 127, hint),
            (&["record", "--tape", "t", "--apply", "no", "wc"], 127, hint),
            (&["run", "--apply", "true", "wc"], 0, &format!("runs the program true; {hint}")),
            (&["sh", "--apply", "success"], 0, &format!("success is taken for a script; {hint}")),
        ],
    );
    for args in [
        &["run", "--apply", "--quiet", "true"][..],
        &["run", "--apply", "--", "true"],
        &["run", "--apply=success", "true"],
        &["run", "true", "--apply", "success"],
    ] {
        assert!(!stderr(&call(dir, args)).contains("takes its value"), "{args:?}");
    }
}

#[test]
fn an_option_of_another_command_names_the_command() {
    let folder = scratch();
    let dir = folder.path();
    call(dir, &["sandbox", "create", "--id", "box"]);
    let create = "there is no option --max-memory; `belljar sandbox create` takes it";
    says(
        dir,
        &[
            (&["sandbox", "exec", "--max-memory", "1G", "box", "wc"], 2, create),
            (&["sandbox", "exec", "box", "--max-memory", "1G", "--", "wc"], 2, create),
            (&["sandbox", "exec", "box", "--apply", "wc"], 2, "--apply; `belljar run` takes it"),
            (&["run", "--tape", "t", "wc"], 2, "--tape; `belljar record` takes it"),
            (&["replay", "--apply", "t"], 2, "--apply; `belljar run` takes it"),
            (&["sh", "--aply", "s"], 2, "did you mean --apply? (`belljar sh --help` lists them"),
            (&["host", "call", "--frob"], 2, "no option --frob (see `belljar host call --help`)"),
            (
                &["sh", "-c", "wc gone", "x", "--json"],
                1,
                "--json after the script went to the script",
            ),
            (&["sandbox", "exec", "box", "wc", "--json"], 1, "--json after PROGRAM went to the"),
        ],
    );
}

#[test]
fn misspelt_names_of_a_session_and_its_programs_are_recognised() {
    let folder = scratch();
    let dir = folder.path();
    std::fs::create_dir(dir.join("tools")).unwrap();
    std::fs::copy(guest("hello"), dir.join("tools/greeter.wasm")).unwrap();
    call(dir, &["sandbox", "create", "--id", "box", "--toolchain", "tools"]);
    let other = tempfile::tempdir().unwrap();
    let outside = crate::support::canonical(other.path()).join("x.wasm");
    std::fs::write(&outside, "").unwrap();
    let outside = outside.display().to_string();
    says(
        dir,
        &[
            (&["sandbox", "exec", "bxo", "wc"], 2, "did you mean box?"),
            (&["sandbox", "ls", "boxx"], 2, "did you mean box?"),
            (&["sandbox", "rm", "bax"], 2, "did you mean box?"),
            (&["sandbox", "exec", "box", "gretter"], 127, "did you mean greeter?"),
            (&["sandbox", "exec", "box", "hs"], 127, "did you mean ls, sh?"),
            (&["sandbox", "exec", "box", "nothing"], 127, "`belljar sandbox show box`"),
            (&["sandbox", "exec", "box", "./gone"], 127, "`belljar sandbox ls box`"),
        ],
    );
    if cfg!(unix) {
        says(dir, &[(&["sandbox", "exec", "box", &outside], 127, "is a path of the host")]);
    }
    let note = "there is no program gcc: `belljar sandbox create --toolchain` adds directories";
    says(dir, &[(&["sandbox", "exec", "box", "sh", "-c", "gcc x.c"], 127, note)]);
}

/// Regression: only a shell that exited with 127 printed the note.
#[test]
fn program_missing_in_a_makefile_is_named() {
    let folder = scratch();
    let dir = folder.path();
    std::fs::write(dir.join("Makefile"), "all:\n\tgcc -c x.c\n").unwrap();
    let make = guest_arg("minimake");
    let note =
        "there is no program gcc: --toolchain adds a directory of modules, and --on-missing native";
    says(dir, &[(&["run", &make], 2, note), (&["sh", "-c", "gcc x.c; exit 1"], 1, note)]);
    let both = "there are no programs gcc, ld: --toolchain";
    says(dir, &[(&["sh", "-c", "gcc x.c; ld x.o; gcc y.c"], 127, both)]);
    // No note if the script handles the failure, only looks the program up, or names it by path.
    for script in ["gcc x.c || true", "command -v gcc; exit 3", "./gcc; exit 3"] {
        let message = stderr(&call(dir, &["sh", "-c", script]));
        assert!(!message.contains("--toolchain"), "{script}: {message}");
    }
    assert!(!stderr(&run(dir, &["--quiet", &make])).contains("--toolchain"));
}

#[test]
fn program_of_a_recipe_names_the_toolchain_to_install() {
    let folder = tempfile::tempdir().unwrap();
    says(
        folder.path(),
        &[
            (&["run", "yosys"], 127, "`belljar install yosys` installs a toolchain that has it"),
            (&["run", "avr-g++"], 127, "`belljar install avr-gcc` installs"),
        ],
    );
}

/// Regression: only paths in arguments of programs got the note.
#[cfg(unix)]
#[test]
fn host_path_in_a_script_gets_a_note() {
    let folder = scratch();
    let dir = folder.path();
    let other = tempfile::tempdir().unwrap();
    let outside = crate::support::canonical(other.path());
    std::fs::write(outside.join("file"), "text\n").unwrap();
    let path = outside.join("file").display().to_string();
    let show = |how: &str| format!("does not see; `{how} {}` shows it", outside.display());
    std::fs::write(dir.join("script"), format!("echo begun\ncat '{path}' || exit 4\n")).unwrap();
    let text = format!("x=1; if true; then cat {path}; fi");
    call(dir, &["sandbox", "create", "--id", "box"]);
    says(
        dir,
        &[
            (&["sh", "-c", &text], 1, &show("--dir")),
            (&["sh", "-eu", "-o", "pipefail", "-c", &text], 1, &show("--dir")),
            (&["run", "sh", "-ec", &text], 1, &show("--dir")),
            (&["sh", "script"], 4, &show("--dir")),
            (
                &["sandbox", "exec", "box", "sh", "-c", &text],
                1,
                &show("belljar sandbox create --dir"),
            ),
        ],
    );
    // No note for a path that is only printed, or for one that is not a path of the host.
    for script in [format!("echo {path}"), "cat /gone/x".to_owned(), format!("x={path}; cat $x$x")]
    {
        let message = stderr(&call(dir, &["sh", "-c", &script]));
        assert!(!message.contains("path of the host"), "{script}: {message}");
    }
}

#[test]
fn almost_valid_option_values_get_a_suggestion() {
    let folder = scratch();
    let dir = folder.path();
    says(
        dir,
        &[
            (&["run", "--max-files", "lots", "wc"], 2, "use digits, such as 1000000, 1000k or 1M"),
            (&["run", "--max-processes", "5G", "wc"], 2, "use at most 4294967295"),
            (&["run", "--start-at", "1600000000", "wc"], 2, "@1600000000 (which is 2020-09-13T"),
            (&["run", "--worktree", ".:ro", "wc"], 2, "did you mean --worktree .::ro?"),
            (&["run", "--worktree", ".::/x", "wc"], 2, "did you mean --dir .::/x?"),
            (&["sandbox", "create", "--worktree", ".:ro"], 2, "did you mean --worktree .::ro?"),
            (&["tape", "run.tape"], 2, "belljar tape show run.tape"),
            (&["replay", "note.txt"], 2, "name a file that `belljar record --tape` wrote"),
            (&["apply", "note.txt"], 2, "name a file that `belljar record --tape` wrote"),
            (&["replay", "gone"], 2, "`belljar record --tape gone -- PROGRAM` records one"),
            (&["diff", "gone"], 2, "`belljar record --tape gone -- PROGRAM` records one"),
        ],
    );
    std::fs::write(dir.join("cut.partial"), "").unwrap();
    says(dir, &[(&["replay", "cut"], 2, "cut.partial is left from a recording that was killed")]);
    let output = run(dir, &["--max-files", "1k", "--start-at", "2024-05-01", "date"]);
    assert_eq!(stdout(&output), "Wed May  1 00:00:00 UTC 2024\n", "{}", stderr(&output));
}

#[test]
fn library_error_says_how_to_call_an_export() {
    let folder = scratch();
    std::fs::write(folder.path().join("lib.wat"), r#"(module (func (export "greet")))"#).unwrap();
    std::fs::write(folder.path().join("empty.wat"), "(module)").unwrap();
    let run = |module: &str| {
        let output = belljar(folder.path()).args(["run", module]).output().unwrap();
        assert_eq!(output.status.code(), Some(126), "{}", stderr(&output));
        stderr(&output)
    };
    let said = run("./lib.wat");
    assert!(
        said.contains(r#"; --invoke (Command::invoke) calls what it exports: "greet""#),
        "{said}"
    );
    let said = run("./empty.wat");
    assert!(said.contains("it exports no function") && !said.contains("--invoke"), "{said}");
}
