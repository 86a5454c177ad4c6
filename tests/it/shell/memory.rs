//! The state of a shell counts as memory of the machine.

use belljar::{Command, Limit, Limits, Outcome};

use super::machine;

/// The output and standard error of `script` within 8 MiB, its exit code, and the limits that it
/// reached.
fn run(script: &str) -> (String, String, Option<u32>, Vec<Limit>) {
    let limits = Limits { memory_bytes_max: 8 << 20, ..Limits::default() };
    let mut machine = machine().limits(limits).build().unwrap();
    let output = Command::shell(script).output(&mut machine).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(matches!(output.status.outcome(), Outcome::Exited(_)), "{script}: {:?}", output.status);
    (text(&output.stdout), text(&output.stderr), output.status.code(), machine.limits_hit())
}

#[test]
fn all_memory_of_a_shell_counts_towards_the_limit() {
    let megabyte = "x=0123456789abcdef; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; \
                    do x=$x$x; done; ";
    for script in [
        "while :; do x=$x$x; done",
        "i=0; while :; do i=$((i+1)); eval v$i=\\$x; eval v$i=\"\\$v$i.\"; done",
        "i=0; while :; do i=$((i+1)); export n$i; done",
        "set -- a; while :; do set -- \"$@\" \"$@\"; done",
        "f() { f \"$@\" \"$x\"; }; f",
        "f() { local x=$x.; f; }; f",
        "i=0; while :; do i=$((i+1)); eval \"f$i() { :; }\"; done",
        "eval \"f() { : '$x$x$x'; }\"; y=$x$x$x$x$x",
        "y=$x$x$x; for i in \"$y$y\" \"$y$y\"; do :; done",
        "y=$(printf %s \"$x$x$x$x$x$x$x$x\")",
        "trap \": $x$x$x\" EXIT INT TERM; trap; y=$x$x$x$x",
        "while :; do printf %s \"$x\"; done | read y",
        "f() { cat; }; f <<E | sleep 1\n$x$x$x$x$x$x$x$x\nE\n",
        "echo \"$x$x$x$x\" | sleep 1",
        "IFS=e; set -- $x$x$x; IFS=0123456789abcdef; set -- $x",
        "case a in $x) ;; esac",
        "f() { { { { { { { { f; }; }; }; }; }; }; }; }; f",
        "cd /tmp; mkdir 0 1 2 3 4 5 6 7 8 9; echo */../*/../*/../*/../*/../*/../*/../*",
        "eval \"$(i=0; while [ $i -lt 9000 ]; do i=$((i+1)); echo :; done)\"",
    ] {
        let (stdout, stderr, status, limits) = run(&format!("{megabyte}{script}\necho no"));
        assert!(
            stderr.contains("out of memory: all processes together may have 8388608 bytes"),
            "{script}: {stderr}"
        );
        assert_eq!(limits, [Limit::Memory], "{script}");
        assert!(status == Some(2) || stdout == "no\n", "{script}: {status:?} {stdout}");
    }
}

/// A subshell shares its initial state, as a process does after `fork`.
#[test]
fn memory_shared_with_a_subshell_is_counted_once() {
    let script = "x=$(i=0; while [ $i -lt 4096 ]; do i=$((i+1)); printf %256s; done); \
                  f() { : \"$x\"; }; i=0; while [ $i -lt 100 ]; do i=$((i+1)); \
                  { read y; echo ${#x}; } & done; wait";
    let (stdout, stderr, _, limits) = run(&format!("x=; exec 3<&0; {script}"));
    assert_eq!((stdout, stderr), ("1048576\n".repeat(100), String::new()));
    assert_eq!(limits, []);
}

#[test]
fn freed_shell_memory_can_be_used_again() {
    let script = "x=0123456789abcdef; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; \
                  do x=$x$x; done; i=0; while [ $i -lt 100 ]; do i=$((i+1)); \
                  y=$x$x; set -- \"$x\" \"$x\"; y=; shift; trap \": $x\" EXIT; trap - EXIT; unset y; \
                  f() { local y=$x$x; }; f; eval \": '$x'; g() { :; }\"; z=$(echo \"$x\"); cat <<E >/dev/null\n\
                  $x\nE\nset --; done; echo ${#x} ${#z} $i";
    let (stdout, stderr, ..) = run(script);
    assert_eq!((stdout.as_str(), stderr.as_str()), ("524288 524288 100\n", ""));
}

#[test]
fn arguments_of_processes_take_memory() {
    let script = "x=0123456789abcdef; while [ ${#x} -lt 500000 ]; do x=$x$x; done; \
                  for i in 1 2 3 4 5 6 7 8 9; do sleep 1 $x & done; wait; wc -c \"$x\" </dev/null";
    let (_, stderr, _, limits) = run(script);
    let said = "sleep: Not enough space (nomem)";
    assert!(stderr.contains(said) || stderr.contains("out of memory"), "{stderr}");
    assert_eq!(limits, [Limit::Memory]);
}

#[test]
fn arguments_are_limited_with_e2big() {
    let script = "x=0123456789abcdef; while [ ${#x} -lt 5000000 ]; do x=$x$x; done; \
                  true \"$x\" && wc \"$x\"; echo $?; export x; wc; echo $?";
    let mut machine = machine().build().unwrap();
    let output = Command::shell(script).output(&mut machine).unwrap();
    assert_eq!(output.stdout, b"126\n126\n");
    let said = "sh: 1: wc: Argument list too long (E2BIG)\n".repeat(2);
    assert_eq!(String::from_utf8_lossy(&output.stderr), said);
}
