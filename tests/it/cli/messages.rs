//! Messages and exit codes for mistyped or misunderstood usage.

use crate::cli::{guest_arg, run, scratch};
use crate::support::{
    NO_SUCH_FILE, NOT_A_DIRECTORY, belljar, guest, has_links, slashed, stderr, stdout,
};

#[test]
fn bad_input_says_what_where_and_what_to_do() {
    let folder = scratch();
    let dir = folder.path();
    let binary = std::fs::read(guest("cat")).unwrap();
    std::fs::write(dir.join("text.wasm"), "[package]").unwrap();
    std::fs::write(dir.join("empty.wasm"), "").unwrap();
    std::fs::write(dir.join("cut.wasm"), &binary[..binary.len() / 2]).unwrap();
    std::fs::write(dir.join("component.wasm"), b"\0asm\x0d\0\x01\0").unwrap();
    std::fs::write(dir.join("bad.wat"), "(module (bad))").unwrap();
    std::fs::write(dir.join("memory.wat"), r#"(module (import "env" "m" (memory 1)))"#).unwrap();
    std::fs::write(dir.join("library.wat"), r#"(module (func (export "f")))"#).unwrap();
    std::fs::create_dir(dir.join("folder.wasm")).unwrap();
    let cases: &[(&[&str], i32, &[&str])] = &[
        (&["nothing"], 127, &["nothing", "built-in", "--toolchain", "belljar programs"]),
        (&[""], 2, &["name of a program"]),
        (&["./nothing.wasm"], 127, &["./nothing.wasm", NO_SUCH_FILE]),
        (&["text.wasm"], 126, &["text.wasm", "not a WebAssembly module", "[package"]),
        (&["empty.wasm"], 126, &["empty.wasm", "nothing"]),
        (&["cut.wasm"], 126, &["cut.wasm", "offset"]),
        (&["component.wasm"], 126, &["component.wasm", "library", "wasi:cli/run"]),
        (&["bad.wat"], 126, &["bad.wat", "1:10"]),
        (&["memory.wat"], 126, &["memory env.m", "which belljar does not define"]),
        (&["library.wat"], 126, &["_start", "library"]),
        (&["folder.wasm"], 126, &["folder.wasm", "directory", "--toolchain"]),
        (&["compiled.cwasm"], 126, &["compiled.cwasm", "precompiled", ".wasm"]),
        (&["--worktree", "gone", "wc"], 2, &["--worktree", "gone", NO_SUCH_FILE]),
        (&["--worktree", "note.txt", "wc"], 2, &["--worktree", "note.txt", "directory"]),
        (&["--dir", "gone::/x", "wc"], 2, &["--dir gone::/x", NO_SUCH_FILE]),
        (&["--dir", "note.txt::/x", "wc"], 2, &["--dir note.txt::/x", NOT_A_DIRECTORY]),
        (
            &["--dir", ".::/worktree", "wc"],
            2,
            &["--dir .::/worktree", "worktree", "--no-worktree", "GUEST"],
        ),
        (
            &["--dir", ".::/x", "--dir", ".::/x/", "wc"],
            2,
            &["--dir .::/x/", "--dir .::/x", "GUEST"],
        ),
        (
            &["--dir", ".::/worktree/note.txt", "wc"],
            2,
            &["--dir .::/worktree/note.txt", "Not a directory"],
        ),
        (&["--dir", ".:/x", "wc"], 2, &["did you mean --dir .::/x?"]),
        (&["--dir", ".:/x:ro", "wc"], 2, &["did you mean --dir .::/x::ro?"]),
        (&["--dir", ".::../../x", "wc"], 2, &["--dir .::../../x", "root", "HOST::GUEST"]),
        (&["--dir", "::", "wc"], 2, &["HOST::GUEST"]),
        (&["--toolchain", "gone", "wc"], 2, &["--toolchain", "gone", NO_SUCH_FILE]),
        (&["--stdin", "gone", "wc"], 2, &["--stdin", "gone", NO_SUCH_FILE]),
        (&["--stdin", ".", "wc"], 2, &["--stdin", "directory"]),
        (&["--json=gone/r", "wc"], 2, &["--json", "gone/r", NO_SUCH_FILE]),
        (&["--trace=gone/t", "wc"], 2, &["--trace", "gone/t", NO_SUCH_FILE]),
        (&["--diff=gone/d", "wc"], 2, &["--diff", "gone/d", NO_SUCH_FILE]),
        (&["--diff=.", "wc"], 2, &["--diff", "directory"]),
        (&["--timeout", "10", "wc"], 2, &["10", "500ms"]),
        (&["--max-memory", "lots", "wc"], 2, &["lots", "512MiB"]),
        (&["--clock", "real", "--start-at", "0", "wc"], 2, &["--start-at", "--clock real"]),
        (&["--start-at", "noon", "wc"], 2, &["noon", "RFC 3339"]),
        (&["--seed", "x", "wc"], 2, &["--seed"]),
        (&["--env", "=x", "wc"], 2, &["--env", "name"]),
        (&["--cwd", "/gone", "wc"], 2, &["/gone", "--cwd"]),
        (&["--max-memory", "1K", "wc"], 126, &["1000 bytes", "--max-memory"]),
        (&["--no-such-option", "wc"], 2, &["--no-such-option", "--help"]),
        (&["--aply", "wc"], 2, &["--aply", "did you mean --apply?"]),
    ];
    for (args, code, words) in cases {
        let output = run(dir, args);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {message}");
        for word in *words {
            assert!(message.contains(word), "{args:?}: no {word:?} in: {message}");
        }
        assert!(!message.contains("panicked"), "{args:?}: {message}");
    }
}

#[test]
fn program_not_found_error_names_the_searched_places() {
    let folder = scratch();
    let dir = folder.path();
    for name in ["tools", "more", "folder"] {
        std::fs::create_dir(dir.join(name)).unwrap();
    }
    std::fs::copy(guest("hello"), dir.join("more/greeter.wasm")).unwrap();
    std::fs::copy(guest("hello"), dir.join("here.wasm")).unwrap();
    std::fs::write(dir.join("tools/made.cwasm"), "").unwrap();
    let cases: &[(&[&str], i32, &[&str])] = &[
        (&["gretter"], 127, &["gretter.wasm in tools, then more, then", "did you mean greeter?"]),
        (&["here"], 127, &["./here.wasm"]),
        (&["./here"], 127, &["cannot open ./here", "did you mean ./here.wasm?"]),
        (&["note.txt"], 127, &["./note.txt"]),
        (&["folder"], 127, &["--toolchain folder"]),
        (&["made"], 126, &["tools/made.cwasm", "precompiled"]),
        (&["--json", "r.json", "greeter"], 127, &["--json=r.json"]),
    ];
    for (args, code, words) in cases {
        let toolchains = ["--toolchain", "tools", "--toolchain", "more"];
        let output = run(dir, &[&toolchains[..], args].concat());
        let message = slashed(&stderr(&output));
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {message}");
        for word in *words {
            assert!(message.contains(word), "{args:?}: no {word:?} in: {message}");
        }
    }
}

#[test]
fn missing_toolchain_error_names_the_option_or_variable() {
    let folder = scratch();
    let output = belljar(folder.path())
        .args(["run", "wc"])
        .env("BELLJAR_TOOLCHAIN", "gone")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let message = stderr(&output);
    assert!(message.contains("BELLJAR_TOOLCHAIN") && message.contains("gone"), "{message}");
    assert!(!message.contains("--toolchain"), "{message}");
}

/// A program can leave a link in the place of a directory: a file that an option names must not be written
/// through it.
#[test]
fn options_do_not_follow_links_out_of_the_worktree() {
    if !has_links("options_do_not_follow_links_out_of_the_worktree") {
        return;
    }
    let folder = scratch();
    let tree = folder.path().join("tree");
    let victim = folder.path().join("victim");
    std::fs::create_dir_all(&tree).unwrap();
    std::fs::create_dir_all(&victim).unwrap();
    let overwrite = guest_arg("overwrite");
    let output = run(&tree, &["-q", "--apply", &overwrite, "symlink:../victim:out"]);
    assert!(output.status.success(), "{}", stderr(&output));
    for options in [
        &["run", "--json=out/r.json"][..],
        // Regression: the report of an invalid command line was written through the link.
        &["run", "--timeout=soon", "--json=out/r.json"],
        &["run", "--timeout=soon", "--worktree=../tree::ro", "--json=../tree/out/r.json"],
        &["run", "--diff=out/d"],
        &["run", "--trace=out/t"],
        &["run", "--dir", "out::/lib", "--apply"],
        &["record", "--tape", "out/t.tape"],
    ] {
        let args = [options, &["--", &overwrite, "write:/lib/pwned:x"]].concat();
        let output = belljar(&tree).args(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("by a symbolic link"), "{args:?}: {}", stderr(&output));
    }
    assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 0);
    // The target folder can be mounted under its own path.
    let dir = format!("{}::/lib", victim.display());
    let output = run(&tree, &["-q", "--dir", &dir, &overwrite, "write:/lib/meant:x"]);
    assert!(output.status.success(), "{}", stderr(&output));
}

/// Regression: only commands that run programs looked at links; `apply` wrote through one.
#[test]
fn other_commands_do_not_write_through_links_out_of_the_worktree() {
    if !has_links("other_commands_do_not_write_through_links_out_of_the_worktree") {
        return;
    }
    let folder = scratch();
    let tree = folder.path().join("tree");
    let victim = folder.path().join("victim");
    std::fs::create_dir_all(tree.join("out")).unwrap();
    std::fs::create_dir_all(&victim).unwrap();
    let overwrite = guest_arg("overwrite");
    let record = ["record", "-q", "--tape", "../t.tape", "--dir", "out::/lib", "--"];
    let recorded = belljar(&tree).args(record).args([&overwrite, "write:/lib/pwned:x"]).output();
    assert!(recorded.as_ref().unwrap().status.success(), "{}", stderr(&recorded.unwrap()));
    std::fs::remove_dir(tree.join("out")).unwrap();
    let output = run(&tree, &["-q", "--apply", &overwrite, "symlink:../victim:out"]);
    assert!(output.status.success(), "{}", stderr(&output));
    for args in [
        &["apply", "../t.tape", "--dir", "out::/lib"][..],
        &["apply", "../t.tape", "--worktree", "../tree/out", "--dir", "../tree::/lib"],
        &["verify", "--json=out/v.json", "true"],
        &["verify", "--cached", "--json=out/v.json", "true"],
        &["tape", "view", "../t.tape", "-o", "out/page.html"],
        #[cfg(unix)]
        &["tape", "view", "out/../t.tape"],
        &["man-pages", "out/man"],
        &["toolchain", "init", "out"],
        &["doctor", "--self-test", "--keep", "out/kept"],
        #[cfg(all(unix, feature = "annotations"))]
        &["annotate", "out/../t.tape", "--event", "1", "--author", "me"],
        #[cfg(feature = "import")]
        &["keys", "generate", "--no-password", "out/key"],
        #[cfg(feature = "import")]
        &["toolchain", "unpack", "none.belljar", "out/unpacked"],
        #[cfg(feature = "mcp")]
        &["mcp", "--tape", "out/calls.tape"],
        #[cfg(feature = "mcp")]
        &["mcp", "--http", "--token-file", "out/token"],
    ] {
        let output = belljar(&tree).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("by a symbolic link"), "{args:?}: {}", stderr(&output));
    }
    assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 0);
    let dir = format!("{}::/lib", victim.display());
    let output = belljar(&tree).args(["apply", "../t.tape", "--dir", &dir]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(std::fs::read(victim.join("pwned")).unwrap(), b"x");
}

#[test]
fn unknown_command_may_be_a_program() {
    let folder = scratch();
    std::fs::copy(guest("hello"), folder.path().join("hello.wasm")).unwrap();
    for (word, expected) in [
        ("wc", "belljar run wc"),
        ("hello.wasm", "belljar run hello.wasm"),
        ("rnu", "did you mean run?"),
        ("gone.wasm", "commands: run, sh, record, "),
        ("frobnicate", "commands: run, sh, record, "),
    ] {
        let output = belljar(folder.path()).args([word, "x"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{word}");
        assert!(stderr(&output).contains(expected), "{word}: {}", stderr(&output));
        assert!(!stderr(&output).contains("tip:"), "{}", stderr(&output));
    }
}

#[test]
fn options_after_a_failing_program_get_a_hint() {
    let folder = scratch();
    let writer = guest_arg("overwrite");
    let hint = "after PROGRAM went to the program";
    let cases: &[(&[&str], bool)] = &[
        (&["wc", "--apply"], true),
        (&["wc", "--json=r.json"], true),
        (&["replace", "one", "1", "note.txt", "--diff"], true),
        (&["wc", "--help"], false),
        (&["wc", "--frob"], false),
        (&["wc", "note.txt"], false),
        (&["--quiet", "wc", "--apply"], false),
        (&[&writer, "write:made:--apply"], false),
    ];
    for (args, is_hinted) in cases {
        let output = run(folder.path(), args);
        assert_eq!(stderr(&output).contains(hint), *is_hinted, "{args:?}: {}", stderr(&output));
    }
    // A program that takes the option and succeeds gets no hint.
    let output = run(folder.path(), &[&guest_arg("env"), "--apply"]);
    assert_eq!(stderr(&output), "");
}

#[test]
fn help_has_headings_and_names_nothing_that_is_not_installed() {
    let folder = scratch();
    let help = stdout(&belljar(folder.path()).args(["help", "run"]).output().unwrap());
    let headings =
        ["Program:", "Files:", "Time and chance:", "Limits:", "Changes:", "Reports:", "Examples:"];
    let places: Vec<usize> = headings
        .iter()
        .map(|heading| {
            help.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading}: {help}"))
        })
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(!help.contains("docs/"), "{help}");
    let top = stdout(&belljar(folder.path()).arg("--help").output().unwrap());
    assert!(top.contains("belljar help run"), "{top}");
}

#[test]
fn a_stack_overflow_has_a_short_backtrace() {
    let folder = scratch();
    let output = run(folder.path(), &[&guest_arg("deep"), "100000000"]);
    assert_eq!(output.status.code(), Some(134));
    let message = stderr(&output);
    assert!(message.contains("call stack exhausted") && message.contains("more calls of it"));
    assert!(message.lines().count() < 8, "{message}");
}

/// `script` gives the command a terminal.
#[cfg(target_os = "linux")]
#[test]
fn errors_are_coloured_on_a_terminal_unless_no_color_is_set() {
    use crate::support::{bash, has};
    if !has("script", "errors_are_coloured_on_a_terminal_unless_no_color_is_set") {
        return;
    }
    let folder = scratch();
    for (settings, is_coloured) in
        [("TERM=xterm", true), ("TERM=xterm NO_COLOR=1", false), ("TERM=dumb", false)]
    {
        let script = format!(
            "unset NO_COLOR; {settings} script -qec \"'$0' run ./nowhere.wasm\" /dev/null < /dev/null"
        );
        let shown = stdout(&bash(folder.path(), &script));
        assert!(shown.contains("nowhere.wasm"), "{settings}: {shown:?}");
        assert_eq!(shown.contains("\u{1b}["), is_coloured, "{settings}: {shown:?}");
    }
}

mod bytes {
    use std::ffi::OsString;

    use super::*;

    /// `text` and what is no character: on Unix a byte, on Windows half of a pair.
    fn odd(text: &str) -> OsString {
        #[cfg(unix)]
        let odd: OsString = std::os::unix::ffi::OsStringExt::from_vec(vec![0xff]);
        #[cfg(windows)]
        let odd: OsString = std::os::windows::ffi::OsStringExt::from_wide(&[0xd800]);
        let mut whole = OsString::from(text);
        whole.push(odd);
        whole
    }

    /// Names on the host need not be text; names in guests are UTF-8.
    #[test]
    fn arguments_need_not_be_unicode() {
        let folder = scratch();
        let dir = folder.path();
        let module = dir.join(odd("module")).with_extension("wasm");
        if std::fs::copy(guest("env"), &module).is_err() {
            return crate::support::skipped("bytes", "this file system takes no such names");
        }
        std::fs::create_dir(dir.join(odd("d"))).unwrap();
        std::fs::write(dir.join(odd("d")).join("f"), "text\n").unwrap();
        let mut mount = odd("d");
        mount.push("::/d");
        let mut report = OsString::from("--json=");
        report.push(odd("r"));
        let output = belljar(dir)
            .args(["run", "-e"])
            .arg(odd("A="))
            .arg(&report)
            .arg(module.file_name().unwrap())
            .arg(odd("x"))
            .output()
            .unwrap();
        let odd_bytes = if cfg!(windows) { "\u{fffd}".as_bytes() } else { b"\xff" };
        let expected = [
            "argv[0]=module\u{fffd}\nargv[1]=x".as_bytes(),
            odd_bytes,
            b"\nenviron[0]=PWD=/worktree\nenviron[1]=A=",
            odd_bytes,
            b"\n",
        ];
        assert_eq!(
            output.stdout.escape_ascii().to_string(),
            expected.concat().escape_ascii().to_string()
        );
        assert!(std::fs::read(dir.join(odd("r"))).unwrap().starts_with(b"{\"status\":\"exited\""));
        let output =
            belljar(dir).args(["run", "--dir"]).arg(&mount).args(["cat", "/d/f"]).output().unwrap();
        assert_eq!(stdout(&output), "text\n", "{}", stderr(&output));
        let worktree =
            belljar(dir).args(["run", "--worktree"]).arg(odd("d")).args(["cat", "f"]).output();
        assert_eq!(stdout(&worktree.unwrap()), "text\n");
    }

    #[test]
    fn non_utf8_value_that_must_be_utf8_is_an_error() {
        let folder = scratch();
        for (option, value) in [("--cwd", odd("")), ("--dir", odd("d"))] {
            let output = belljar(folder.path())
                .args(["run", option])
                .arg(value)
                .args(["cat", "note.txt"])
                .output()
                .unwrap();
            let message = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{option}: {message}");
            assert!(message.contains(option) && message.contains("UTF-8"), "{message}");
        }
        let output = belljar(folder.path()).arg("run").arg(odd("tool")).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("UTF-8"), "{}", stderr(&output));
    }
}
