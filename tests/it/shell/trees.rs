//! Trees of C programs and shells: each ends in a defined way, whatever its processes do to each
//! other.

use belljar::{
    Command, Engine, EngineConfig, Limit, Limits, Machine, Outcome, Output, ToolchainPrograms,
    Toolchains,
};
use std::sync::{Arc, OnceLock};

use crate::support::{belljar, cache_dir, package, replays, stderr, stdout};

/// Without a pool, as on the command line: a thousand modules would fill one.
fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let cache_dir = Some(cache_dir());
        Engine::new(EngineConfig { pool_slots: 0, cache_dir, ..EngineConfig::default() }).unwrap()
    })
}

/// The result of `script`, which can start `procs`, and the limits that it reached.
fn run_within(engine: &Engine, limits: Limits, script: &str) -> (Output, Vec<Limit>) {
    let toolchains = Toolchains::new(vec![package().join("guest-examples")]).unwrap();
    let programs = ToolchainPrograms::new(engine, toolchains)
        .with("sh", belljar::process::ShellImage::maker());
    let machine = Machine::builder().limits(limits).programs(Arc::new(programs));
    let (machine, output) = replays::output(machine, &Command::shell(script));
    (output, machine.limits_hit())
}

fn run(script: &str) -> Output {
    run_within(engine(), Limits::default(), script).0
}

fn printed(script: &str) -> String {
    String::from_utf8(run(script).stdout).unwrap()
}

fn processes(processes_max: u32) -> Limits {
    Limits { processes_max, ..Limits::default() }
}

#[test]
fn deadlock_below_a_shell_is_reported_with_its_shells() {
    let output = run("procs deadlock; echo never");
    let Outcome::Deadlock(waits) = output.status.outcome() else { panic!("{:?}", output.status) };
    assert_eq!(
        waits,
        "process 1 (sh) waits for process 2 to end\n\
         process 2 (procs) waits to read pipe 1, which is empty\n\
         process 3 (procs) waits to read pipe 0, which is empty"
    );
    assert_eq!(output.stdout, b"");
    let folder = tempfile::tempdir().unwrap();
    let output = belljar(folder.path())
        .args(["sh", "--toolchain"])
        .arg(package().join("guest-examples"))
        .args(["-c", "procs deadlock | cat"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("its processes wait for each other"), "{}", stderr(&output));
}

#[test]
fn a_writer_whose_reader_is_gone_is_ended_by_sigpipe() {
    assert_eq!(printed("set -o pipefail; yes | head -1; echo $?"), "y\n141\n");
    assert_eq!(printed("set -o pipefail; procs child-pour 1000000 | :; echo $?"), "141\n");
    assert_eq!(printed("set -o pipefail; (yes; exit $?) | true; echo $?"), "141\n");
    let loops = "set -o pipefail; while :; do echo y; done | head -1; echo $?";
    assert_eq!(printed(loops), "y\n141\n");
    assert_eq!(printed("procs sigpipe; echo $?"), "ok sigpipe\n0\n");
}

#[test]
fn status_of_a_killed_child_is_128_plus_the_signal() {
    let killed = "procs child-sleep 3600000 & kill $!; wait $!; echo $?; \
                  procs child-sleep 3600000 & kill -9 $!; wait $!; echo $?; \
                  sh -c 'kill -HUP $$'; echo $?; procs child-trap; echo $?";
    assert_eq!(printed(killed), "143\n137\n129\n134\n");
    assert_eq!(printed("procs kill && procs status"), "ok kill\nok status\n");
}

#[test]
fn an_orphan_belongs_to_the_first_process() {
    let orphan = "procs child-leave-orphan; echo; sleep 1; wait; echo $?";
    assert_eq!(printed(orphan), "\nparent 10\n");
    // Processes that are never waited for leave nothing behind, in any number.
    let many = "i=0; while [ $i -lt 300 ]; do (: &); i=$((i+1)); done; echo $i";
    let (output, limits) = run_within(engine(), processes(20), many);
    assert_eq!((output.stdout, limits), (b"300\n".to_vec(), vec![]));
}

#[test]
fn fork_bombs_end_at_the_process_limit() {
    for script in [
        "procs child-bomb >/dev/null",
        "b() { b | b & }; b; wait; sleep 1",
        "b() { b | b; }; b",
        "while :; do sleep 1000 & done",
        "echo 'sh bomb | sh bomb' >bomb; sh bomb",
    ] {
        let (output, limits) = run_within(engine(), processes(60), script);
        assert_eq!(limits, [Limit::Processes], "{script}");
        assert!(matches!(output.status.outcome(), Outcome::Exited(_)), "{:?}", output.status);
    }
}

#[test]
fn zombies_count_towards_the_limit_until_they_are_waited_for() {
    let (output, limits) = run_within(engine(), processes(3000), "procs zombies; echo $?");
    assert_eq!(output.stdout, b"ok zombies\n0\n");
    assert_eq!(limits, [Limit::Processes]);
    let script = "i=0; while [ $i -lt 2000 ]; do : & i=$((i+1)); done; wait; echo $i";
    let (output, limits) = run_within(engine(), processes(3000), script);
    assert_eq!((output.stdout, limits), (b"2000\n".to_vec(), vec![]));
}

/// The peak memory of a process of the host, in KiB.
#[cfg(target_os = "linux")]
fn peak_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// `system` within `system`, each of which starts a shell and a module.
#[test]
fn system_nested_ten_thousand_deep_ends_at_a_limit() {
    let deep = |options: &[&str], depth: &str| {
        let folder = tempfile::tempdir().unwrap();
        let child = belljar(folder.path())
            .args(["sh", "--json", "--toolchain"])
            .arg(package().join("guest-examples"))
            .args(options)
            .args(["-c", &format!("procs child-system {depth}; echo $?")])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        #[cfg(target_os = "linux")]
        let watched = std::thread::spawn({
            let pid = child.id();
            let often = std::time::Duration::from_millis(10);
            let look = move || {
                std::thread::sleep(often);
                peak_kib(pid)
            };
            move || std::iter::from_fn(look).last().unwrap_or(0)
        });
        let output = child.wait_with_output().unwrap();
        #[cfg(target_os = "linux")]
        assert!(watched.join().unwrap() < 2 << 20, "more than 2 GiB of memory");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let said = stdout(&output);
        let (printed, report) = said.trim_end().rsplit_once('\n').unwrap();
        let report: serde_json::Value = serde_json::from_str(report).unwrap();
        (printed.to_owned(), report["limits_hit"].clone())
    };
    let raised = ["--max-processes", "100000"];
    assert_eq!(deep(&[], "200"), ("the deepest\n0".to_owned(), serde_json::json!([])));
    assert_eq!(deep(&[], "10000").1, serde_json::json!(["processes"]));
    assert_eq!(deep(&raised, "3000"), ("the deepest\n0".to_owned(), serde_json::json!([])));
    assert_eq!(deep(&raised, "10000").1, serde_json::json!(["modules"]));
}

/// A pool has a thousand slots: when all are used, starting a module fails with an error.
#[test]
fn full_pool_is_reported_as_a_limit() {
    let script = "procs child-system 10000; echo $?";
    let (output, limits) = run_within(crate::support::engine(), processes(100_000), script);
    assert_eq!(limits, [Limit::Modules]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("Cannot fork"));
    assert_eq!(*output.status.outcome(), Outcome::Exited(0));
}

#[test]
fn files_under_dev_refer_to_the_opening_process() {
    let output = run("printf abc | procs child-copy-byte /dev/stdin /dev/stdout; echo; \
                      printf abc | { procs child-copy-byte /dev/fd/0 /dev/stderr; cat; }; echo; \
                      procs child-copy-byte /dev/zero /dev/fd/1 | tr '\\000' z; echo; \
                      procs child-copy-byte /dev/null /dev/stdout; echo $?");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "a\nbc\nz\n1\n");
    assert_eq!(output.stderr, b"a");
    let random = "head -c 8 /dev/urandom | sha256sum; head -c 8 /dev/random | sha256sum";
    let once = printed(random);
    assert_eq!(once, printed(random), "the seed is the same");
    let lines: Vec<&str> = once.lines().collect();
    assert_ne!(lines[0], lines[1]);
}

#[test]
fn files_under_dev_are_there_for_a_shell() {
    let script = "echo a >/dev/stdout; echo b >/dev/stderr; read x </dev/stdin <<E\nc\nE\n\
                  echo $x; cat <<E | { read y; cat /dev/fd/0; echo $y; }\nd\ne\nE\n\
                  for f in stdin stdout fd/1 fd/9 zero urandom nothing; do \
                  [ -e /dev/$f ] && echo $f; done; [ -c /dev/zero ] && echo device; \
                  exec 7>file; echo seven >/dev/fd/7; cat file; cat </dev/fd/8";
    let output = run(script);
    let expected = "a\nc\ne\nd\nstdin\nstdout\nfd/1\nzero\nurandom\ndevice\nseven\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    assert_eq!(output.stderr, b"b\nsh: 8: cannot open /dev/fd/8: No such file\n");
}

/// Existing files take precedence over the built-in ones.
#[test]
fn directory_called_dev_hides_the_built_in_files() {
    let script = "mkdir dev; cd /; mkdir dev; echo mine >/dev/zero; cat /dev/zero; \
                  [ -c /dev/null ] && echo device";
    assert_eq!(printed(script), "mine\ndevice\n");
}
