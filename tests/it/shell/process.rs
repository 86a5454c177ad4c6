//! The shell as a process: its arguments, its children, its limits, and what it refuses.

use std::time::Duration;

use belljar::{Command, HostDir, Limit, Limits, Outcome};

use super::{machine, printed, run, run_within, said};

#[test]
fn non_posix_syntax_is_refused_before_anything_runs() {
    let output = run("echo ran\n[[ a = a ]]");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(output.stdout, b"");
    let message = "sh: line 2: [[ … ]] is not supported: POSIX does not have it\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), message);
}

#[test]
fn a_script_is_a_file_of_the_namespace_and_has_arguments() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("script"), "#!/bin/sh\necho $0 $# \"$2\"\n").unwrap();
    let mut machine = machine().worktree(HostDir::open(folder.path()).unwrap()).build().unwrap();
    let output = Command::sh().args(["-e", "script", "a", "b c"]).output(&mut machine).unwrap();
    assert_eq!(output.stdout, b"script 2 b c\n");
    let output = Command::shell("./script x; sh script y z").output(&mut machine).unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "./script 1 \nscript 2 z\n");
    let output = Command::sh().arg("missing").output(&mut machine).unwrap();
    assert_eq!(output.status.code(), Some(2));
    let output = Command::sh().stdin("echo from input; exit 4").output(&mut machine).unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(4), b"from input\n".to_vec()));
}

#[test]
fn script_without_shebang_runs_in_the_shell() {
    let script = "echo 'echo $1' >s; ./s a; printf 'x\\000' >b; ./b; echo $?";
    assert_eq!(printed(script), "a\n126\n");
}

#[test]
fn programs_get_exported_variables_and_no_others() {
    let script = "hidden=1; export shown=2; once=3 sh -c 'echo \"[$hidden][$shown][$once]\"'";
    assert_eq!(printed(script), "[][2][3]\n");
}

#[test]
fn a_pipeline_runs_all_parts_at_once() {
    let script = "i=0; while [ $i -lt 3000 ]; do echo 0123456789012345678901234567890123456789; \
                  i=$((i+1)); done | cat | { read first; echo $first; cat | wc -c; }";
    assert_eq!(printed(script), format!("{}\n122959\n", "0123456789".repeat(4)));
}

/// In POSIX since 2024; not every `dash` has it.
#[test]
fn pipefail_reports_any_failing_part() {
    assert_eq!(printed("set -o pipefail; sh -c 'exit 3' | true; echo $?"), "3\n");
    assert_eq!(printed("set -eo pipefail; false | true; echo no"), "");
}

#[test]
fn absolute_paths_begin_at_the_root() {
    let script = "echo a >/tmp/x; cd /tmp; echo */x x; cat /tmp/x; echo /tmp/*; \
                  [ -d / ] && [ ! -e /x ] && [ -c /dev/null ] && echo yes";
    assert_eq!(printed(script), "*/x x\na\n/tmp/x\nyes\n");
}

#[test]
fn standard_program_paths_resolve_to_toolchains() {
    let script = "echo a >/tmp/x; /bin/cat /tmp/x; /usr/local/bin/wc -l </tmp/x; /opt/cat; echo $?";
    assert_eq!(printed(script), "a\n1\n127\n");
}

#[test]
fn long_here_document_does_not_deadlock() {
    let body = "0123456789\n".repeat(10_000);
    assert_eq!(printed(&format!("wc -c <<E\n{body}E\n")), "110000\n");
}

#[test]
fn a_loop_ends_at_the_timeout() {
    let limits = Limits { timeout: Some(Duration::from_millis(50)), ..Limits::default() };
    for script in ["while :; do :; done", "f() { f; }; while :; do (f) 2>/dev/null; done"] {
        let output = run_within(script, limits);
        assert_eq!(*output.status.outcome(), Outcome::Limit(Limit::Timeout), "{script}");
    }
}

/// A single command may run for hours.
#[test]
fn a_command_ends_at_the_timeout() {
    let limits = Limits { timeout: Some(Duration::from_millis(300)), ..Limits::default() };
    let repeated = |text| format!("x='{text}'; while [ ${{#x}} -lt 1000000 ]; do x=$x$x; done; ");
    for script in [
        "read x </dev/zero".to_owned(),
        format!("{}printf \"$x\" >/dev/null", repeated("%1048576d")),
        format!("{}case a in $x) ;; esac", repeated("[")),
        format!("{}: ${{x%%*a*b}}", repeated("a")),
    ] {
        let output = run_within(&script, limits);
        assert_eq!(*output.status.outcome(), Outcome::Limit(Limit::Timeout), "{script}");
    }
}

#[test]
fn field_splitting_with_a_million_separators_is_fast() {
    let script = "x=a; while [ ${#x} -lt 1000000 ]; do x=$x$x; done; IFS=${x}b; \
                  set -- $x; echo $#; echo \"$x\" | { read y z; echo \"${#y}${#z}\"; }";
    assert_eq!(printed(script), "1048576\n01048575\n");
}

#[test]
fn a_loop_ends_when_its_fuel_does() {
    let limits = Limits { fuel: Some(1_000_000), ..Limits::default() };
    let output = run_within("trap 'echo never' EXIT; while :; do :; done", limits);
    assert_eq!(*output.status.outcome(), Outcome::Limit(Limit::Fuel));
    assert_eq!(output.stdout, b"");
}

#[test]
fn number_of_processes_is_limited() {
    let mut machine = machine().build().unwrap();
    let output = Command::shell("f() { f | f; }; f").output(&mut machine).unwrap();
    assert!(machine.limits_hit().contains(&Limit::Processes));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Cannot fork"));
    let output = Command::shell("b() { b | b & }; b").output(&mut machine).unwrap();
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn recursion_without_end_is_an_error() {
    assert!(said("f() { f; }; f").contains("Maximum function recursion depth (1000) reached"));
    let eval = "x='eval \"$x\"'; eval \"$x\"";
    assert!(said(eval).contains("Maximum function recursion depth"));
    let nested = "f() { if [ $1 -lt 900 ]; then while :; do case a in a) f $(($1+1)); \
                  return;; esac; done; fi; }; f 0; echo $?";
    assert_eq!(printed(nested), "0\n");
}

#[test]
fn commands_are_nested_as_deep_as_memory_allows() {
    let nested = |open: &str, close: &str| {
        format!("{}echo deep{}", open.repeat(10_000), close.repeat(10_000))
    };
    for (open, close) in [
        ("{ ", "; }"),
        ("case x in x) ", " ;; esac"),
        ("if ", "; then :; fi"),
        ("if :; then ", "; fi"),
        ("for x in y; do ", "; done"),
    ] {
        let script = nested(open, close);
        assert_eq!(printed(&script), "deep\n", "{open}");
        let limits = Limits { memory_bytes_max: 32 << 20, ..Limits::default() };
        let mut machine = machine().limits(limits).build().unwrap();
        let output = Command::shell(&script).output(&mut machine).unwrap();
        assert_eq!(output.status.code(), Some(2), "{open}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("out of memory"), "{open}");
    }
}

#[test]
fn words_and_variables_are_bounded() {
    let doubling = "x=0123456789abcdef; while :; do x=$x$x; done";
    assert!(said(doubling).contains("MiB"));
    assert_eq!(run("printf '%99999999999999d' 1").stdout.len(), 1 << 20);
}

#[test]
fn internal_descriptors_are_invisible_to_scripts() {
    let script = "{ echo leaked >&10; } 2>/dev/null >f; echo $?; sh -c 'echo x >&10' 2>/dev/null; \
                  echo $?";
    assert_eq!(printed(script), "2\n2\n");
}

#[test]
fn errors_name_the_line() {
    assert_eq!(said("\n\nnosuch"), "sh: 3: nosuch: not found\n");
    assert_eq!(said("echo ok\nif"), "sh: 2: Syntax error: end of file unexpected\n");
    assert_eq!(said("set -x\necho $((1+1))"), "+ echo 2\n");
}

#[test]
fn non_utf8_bytes_pass_through() {
    let mut machine = machine().build().unwrap();
    let script = b"x='\xff\xc3('; echo \"$x\" | cat; echo ${#x}";
    let output = Command::shell(script).output(&mut machine).unwrap();
    assert_eq!(output.stdout, b"\xff\xc3(\n3\n");
}

#[test]
fn invalid_scripts_are_errors_and_never_panic() {
    for script in [
        "99999999999>x",
        "echo ${",
        "echo $((",
        "echo `",
        "case",
        "for",
        "for x in",
        "f(",
        ")",
        "{",
        "}",
        "&&",
        "<<",
        "<<E",
        "cat <<$(x)",
        "$(",
        "echo \"$(",
        "!",
        ";;",
        "a=(",
        "\\",
        "echo ${x:",
        "echo ${99999999999999999999}",
        "esac",
        "case x in esac",
        "if; fi",
        "|",
        "echo $((9223372036854775808 * -1))",
        "kill -99 1",
        "shift 99999999999999999999",
        "exit 99999999999",
        "printf %",
        "test -a -o !",
        "[ ( ]",
        "getopts : x",
        "read",
        "case x in x) case y in esac;; esac",
        "umask 999",
        "trap x",
        "wait x",
        "fi",
        "do",
        "in",
    ] {
        let output = run(script);
        assert!(output.status.code().is_some(), "{script}: {:?}", output.status);
    }
}

/// Regression: the first part waited for ever for a reader, which was reported as a deadlock.
#[test]
fn pipeline_that_runs_out_of_descriptors_ends() {
    let limits = Limits { open_files_max: 5, ..Limits::default() };
    let output = run_within("yes | head -n 1 | cat; echo $?", limits);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.outcome(), Outcome::Exited(_)), "{:?} {said}", output.status);
    assert!(said.contains("Pipe call failed"), "{said}");
}
