//! Trees of processes that include programs of the host: the clock advances, and no tree hangs.
#![cfg(unix)]

use std::path::Path;
use std::process::{Command as HostCommand, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[cfg(target_os = "linux")]
use belljar::kernel::guest::{FdAction, Guest, SpawnRequest, Startup};
#[cfg(target_os = "linux")]
use belljar::kernel::schedule::{Ended, Image, Mode, Running, run};
use belljar::native::{NativeChildren, NativePrograms};
use belljar::{Command, HostDir, Limits, Machine, Outcome, ToolchainPrograms, Toolchains};
#[cfg(target_os = "linux")]
use belljar::{Preopen, Reach, WORKTREE};

use crate::support::{belljar, engine, skipped, stderr, stdout};

/// Timeout of a tree, which takes at most a second if it does not hang.
const WATCHDOG: Duration = Duration::from_mins(2);

fn machine(worktree: &Path) -> Machine {
    let children = Arc::new(NativeChildren::new(worktree));
    let programs = ToolchainPrograms::new(engine(), Toolchains::default());
    let programs = NativePrograms::new(Arc::new(programs), children);
    let limits = Limits { timeout: Some(WATCHDOG), ..Limits::default() };
    let builder = Machine::builder().worktree(HostDir::open(worktree).unwrap()).limits(limits);
    builder.programs(Arc::new(programs)).build().unwrap()
}

fn has_dash(test: &str) -> bool {
    let has = HostCommand::new("dash").args(["-c", ":"]).status().is_ok();
    if !has {
        assert!(std::env::var_os("BELLJAR_REQUIRE_DASH").is_none(), "dash is not installed");
        skipped(test, "dash is not installed");
    }
    has
}

/// Records `script`, and replays it without programs of the host.
fn replayed(script: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let tape = folder.path().join("run.tape").display().to_string();
    let worktree = folder.path().join("worktree");
    std::fs::create_dir(&worktree).unwrap();
    let timeout = format!("{}s", WATCHDOG.as_secs());
    let options = ["record", "--quiet", "--on-missing", "native", "--timeout", &timeout];
    let recorded = belljar(&worktree)
        .args(options)
        .args(["--tape", &tape, "--", "sh", "-c", script])
        .output()
        .unwrap();
    let replayed = belljar(&worktree).args(["replay", &tape]).env("PATH", "").output().unwrap();
    assert!(stderr(&replayed).contains("the run is the same"), "{script}: {}", stderr(&replayed));
    assert_eq!(replayed.status.code(), recorded.status.code(), "{script}");
    assert_eq!(stdout(&replayed), stdout(&recorded), "{script}");
    recorded
}

/// Regression: the guest waited for time, the clock for the program, and the program for the guest.
#[test]
fn native_program_that_waits_for_input_does_not_stop_the_clock() {
    let output = replayed("(sleep 1; echo a) | nice sed s/a/b/; date +%s");
    assert_eq!(stdout(&output), "b\n2114380801\n", "{}", stderr(&output));
    let script = "(echo a; sleep 1; echo b) | nice sed -u s/^/x/ | while read -r line; do
        echo $line; date +%s
    done";
    assert_eq!(stdout(&replayed(script)), "xa\n2114380800\nxb\n2114380801\n");
}

/// On systems that show that a program waits, an hour of virtual time takes no real time.
#[cfg(target_os = "linux")]
#[test]
fn virtual_time_jumps_while_a_native_program_waits_for_input() {
    let script = "(sleep 3600; echo a) | nice sed s/a/b/ | (read -r x; sleep 3600; echo $x) | nice sed p; date +%s";
    assert_eq!(stdout(&replayed(script)), "b\nb\n2114388000\n");
}

/// Regression: a program whose output had no room counted as one that waits, whatever else it did: time passed at once.
#[cfg(target_os = "linux")]
#[test]
fn clock_stands_still_while_a_program_works_whose_output_has_no_room() {
    let works = "nice sh -c 'seq 100000 & sleep 0.2; echo built > built'";
    let output =
        replayed(&format!("{works} | {{ sleep 3; cat built; tail -n 1; }}; rm -f built; date +%s"));
    assert_eq!(stdout(&output), "built\n100000\n2114380803\n", "{}", stderr(&output));
}

/// It ends by itself as soon as its output is read.
#[cfg(target_os = "linux")]
#[test]
fn virtual_time_jumps_while_a_native_program_waits_for_its_reader() {
    for program in
        ["nice seq 200000", "nice sh -c 'seq 200000; exit 0'", "nice seq 200000 | nice cat"]
    {
        let script = format!("{program} | {{ sleep 3600; tail -n 1; }}; date +%s");
        assert_eq!(stdout(&replayed(&script)), "200000\n2114384400\n", "{program}");
    }
    // What comes meanwhile is not lost: the other output, and the end.
    let both =
        "nice sh -c 'seq 200000 & for i in 1 2 3; do sleep 0.1; echo $i >&2; done; wait; exit 7'";
    let script = format!("{{ {both}; echo $? >&2; }} 2>said | {{ sleep 2; tail -n 1; }}; cat said");
    assert_eq!(stdout(&replayed(&script)), "200000\n1\n2\n3\n7\n");
}

#[test]
fn native_program_that_never_ends_does_not_stop_the_clock() {
    let endless = "nice sleep 1000";
    let output = replayed(&format!("{endless} & sleep 0.2; kill $!; wait $!; echo $?; date +%s"));
    assert_eq!(stdout(&output), "143\n2114380800\n");
    // The same on the host's clock.
    let folder = tempfile::tempdir().unwrap();
    let tape = folder.path().join("run.tape").display().to_string();
    let record = ["record", "--quiet", "--clock", "real", "--on-missing", "native", "--tape"];
    let script = format!("{endless} & sleep 0.2; kill $!; wait $!; echo $?");
    let mut record_command = belljar(folder.path());
    let recorded = record_command.args(record).args([&tape, "--", "sh", "-c", &script]).output();
    assert_eq!(stdout(&recorded.unwrap()), "143\n");
    let replayed = belljar(folder.path()).args(["replay", &tape]).env("PATH", "").output().unwrap();
    assert!(stderr(&replayed).contains("the run is the same"), "{}", stderr(&replayed));
}

/// As in any shell, the detached process continues to write, and the script continues.
#[test]
fn detached_process_that_keeps_the_streams_does_not_block_the_script() {
    if !has_dash("detached_process_that_keeps_the_streams_does_not_block_the_script") {
        return;
    }
    for daemon in ["sleep 1000 &", "(sleep 1000; echo late) &", "exec 2>&1; sleep 1000 & echo now;"]
    {
        let printed = if daemon.contains("now") { "now\n" } else { "" };
        let output = replayed(&format!("dash -c '{daemon} exit 3'; echo $?"));
        assert_eq!(stdout(&output), format!("{printed}3\n"), "{}", stderr(&output));
    }
    if HostCommand::new("setsid").arg("true").status().is_ok() {
        let output = replayed("dash -c 'setsid sleep 3 & exit 3'; echo $?");
        assert_eq!(stdout(&output), "3\n");
    }
    let later = "dash -c '(sleep 0.3; echo late) & echo now'";
    for (script, printed) in [
        (format!("{later}; sleep 1; echo end"), "now\nlate\nend\n"),
        (format!("{later} | cat; echo end"), "now\nlate\nend\n"),
        (format!("x=$({later}); echo $x"), "now late\n"),
        (format!("{later} > made; sleep 1; cat made"), "now\nlate\n"),
        (format!("{later} | head -n 1"), "now\n"),
    ] {
        assert_eq!(stdout(&replayed(&script)), printed, "{script}");
    }
    // All output of the process itself is received, in any amount.
    let script = "dash -c 'sleep 1000 & dd if=/dev/zero bs=65536 count=40 2> /dev/null' > made; wc -c < made";
    assert_eq!(stdout(&replayed(script)).trim(), "2621440");
}

/// A detached process ends with the run, unless it has left the process group.
#[test]
fn detached_process_ends_with_the_run() {
    for script in [
        "nice sh -c 'sleep 1000 & echo $! > pid'; echo end",
        // The pipe has no reader when the program ends.
        #[cfg(target_os = "linux")]
        "nice sh -c 'sleep 1000 & echo $! > pid; echo a; sleep 0.3' | { read -r a; echo end; }",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let output = Command::shell(script).output(&mut machine(folder.path())).unwrap();
        assert_eq!(output.stdout, b"end\n");
        let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
        let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        let is_there = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            rustix::process::test_kill_process(pid).is_ok() && !stat.contains(") Z ")
        };
        while is_there() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Regression: whether it went on depended on which thread was faster.
#[test]
fn detached_process_without_an_output_goes_on_after_the_run() {
    let script = "nice sh -c 'sleep 1000 >/dev/null 2>&1 & echo $!'; echo end";
    for number in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let output = Command::shell(script).output(&mut machine(folder.path())).unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let pid = printed.strip_suffix("\nend\n").unwrap().parse().unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let killed = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        assert!(killed.is_ok(), "run {number}: {killed:?}");
    }
}

/// Starts `nice sed` with a pipe as input that it never writes to, and waits for it to end.
#[cfg(target_os = "linux")]
struct Forgetful;

#[cfg(target_os = "linux")]
impl Image for Forgetful {
    fn name(&self) -> &'static str {
        "forgetful"
    }

    fn mode(&self) -> Mode {
        Mode::BuiltIn
    }

    fn start(self: Box<Self>, mut guest: Guest) -> Running {
        Box::pin(async move {
            guest.begin().unwrap();
            let (reader, _writer) = guest.pipe(true).unwrap();
            let child = guest.proc_spawn(SpawnRequest {
                program: "nice".into(),
                args: vec!["nice".into(), "sed".into(), "p".into()],
                inherit: true,
                actions: vec![FdAction::Inherit { from: reader, to: 0 }],
                ..SpawnRequest::default()
            });
            let child = child.unwrap();
            let waited = guest.call("proc_wait", |guest| guest.proc_wait(Some(child), true)).await;
            let outcome = match waited {
                Ok(_) => Outcome::Exited(0),
                Err(stop) => stop.into(),
            };
            Ended { guest, outcome: Ok(outcome) }
        })
    }
}

/// Natively this waits forever. Only Linux shows what a process waits for.
#[cfg(target_os = "linux")]
#[test]
fn deadlock_with_a_native_program_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let preopen =
        Preopen { path: WORKTREE.to_owned(), name: ".".to_owned(), reach: Reach::NamespaceOrRoot };
    let startup = Startup { preopens: vec![preopen], ..Startup::default() };
    let outcome = run(Box::new(Forgetful), machine(folder.path()), startup).outcome.unwrap();
    let Outcome::Deadlock(waits) = outcome else { panic!("{outcome:?}") };
    assert!(waits.contains("process 1 () waits for process 2 to end"), "{waits}");
    assert!(
        waits.contains("process 2 (nice) is a native program, and waits to read pipe 0"),
        "{waits}"
    );
}

/// Regression: a program with a timer of its own was taken for a part of a deadlock, and killed.
#[cfg(target_os = "linux")]
#[test]
fn native_program_that_ends_its_wait_by_itself_is_no_deadlock() {
    let python =
        |code: &str| format!("nice python3 -c 'import signal, sys; {code}; sys.stdin.read()'");
    let handler = "signal.signal(signal.SIGALRM, lambda *_: sys.exit(3)); signal.alarm(1)";
    // The reader has its own writer, as the shell keeps both ends.
    for (code, status) in [("signal.alarm(1)", 142), (handler, 3)] {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("{}; echo $?", python(code));
        let program = folder.path().join("held.sh");
        std::fs::write(&program, script).unwrap();
        // Nobody writes, and nobody closes.
        let module = crate::support::package().join("tests/guests/holds_with_libbelljar.wasm");
        let output = belljar(folder.path())
            .args(["run", "-q", "--on-missing", "native", "--timeout", "60s", "--"])
            .arg(module)
            .args(["sh", "held.sh"])
            .output()
            .unwrap();
        assert_eq!(stdout(&output), format!("{status}\n"), "{code}: {}", stderr(&output));
    }
    // Its signal is caught: the hour does not pass at once.
    let script = format!("(sleep 3600; echo a) | ({}; echo $?)", python(handler));
    assert_eq!(stdout(&replayed(&script)), "3\n");
}

/// Regression: a program that opened the terminal was stopped, and the script waited for ever.
#[cfg(target_os = "linux")]
#[test]
fn native_program_has_no_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let inner = "(: < /dev/tty) 2>/dev/null && echo terminal || echo none";
    let script = format!("nice sh -c '{inner}'; echo end");
    // `script` gives belljar a terminal.
    let mut command = HostCommand::new("script");
    command.args(["-qec"]).arg(format!(
        "exec {} sh -q --timeout 60s --on-missing native -c \"{script}\"",
        env!("CARGO_BIN_EXE_belljar")
    ));
    command.arg("/dev/null").current_dir(&folder).stdin(Stdio::null());
    command.env("BELLJAR_HOME", crate::support::home_dir());
    let Ok(output) = command.output() else {
        return skipped("native_program_has_no_terminal", "install `script`");
    };
    assert_eq!(stdout(&output).replace('\r', ""), "none\nend\n", "{}", stderr(&output));
}

/// The leaves of trees. `dash` and `nice` are programs of the host, the others are not.
const LEAVES: [&str; 7] = [
    "(sleep 0.1; echo s)",
    "echo e",
    "nice sed -u s/^/x/",
    "dash -c :",
    "dash -c 'sleep 0.4; echo h'",
    "head -n 1",
    "cat",
];

/// Number of the leaves that larger trees use.
const LARGE_LEAVES: usize = 6;

fn trees(size: usize, leaves: &[&str]) -> Vec<String> {
    if size == 1 {
        return leaves.iter().map(ToString::to_string).collect();
    }
    let mut all = Vec::new();
    for left in 1..size {
        for (one, other) in pairs(&trees(left, leaves), &trees(size - left, leaves)) {
            // Some shells read two opening parentheses as arithmetic.
            all.push(format!("{{ {one}; {other}; }}"));
            all.push(format!("{{ {one} | {other}; }}"));
            all.push(format!("( {one} & {other}; wait )"));
        }
    }
    all
}

fn pairs(left: &[String], right: &[String]) -> Vec<(String, String)> {
    let with = |one: &String| {
        let one = one.clone();
        right.iter().map(move |other| (one.clone(), other.clone()))
    };
    left.iter().flat_map(with).collect()
}

/// The lines that a tree prints, sorted if processes run in parallel, and its exit code.
type Shown = (Vec<String>, Option<i32>);

fn shown(script: &str, stdout: &[u8], code: Option<i32>) -> Shown {
    let mut lines: Vec<String> =
        String::from_utf8_lossy(stdout).lines().map(str::to_owned).collect();
    if script.contains('&') {
        lines.sort();
    }
    (lines, code)
}

fn ours(script: &str, folder: &Path) -> Shown {
    let output = Command::shell(script).output(&mut machine(folder)).unwrap();
    let outcome = output.status.outcome();
    assert!(matches!(outcome, Outcome::Exited(_)), "{script}: {outcome:?}");
    shown(script, &output.stdout, output.status.code().map(u32::cast_signed))
}

fn of_dash(script: &str, folder: &Path) -> Shown {
    let mut command = HostCommand::new("dash");
    command.args(["-c", script]).current_dir(folder).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().unwrap();
    shown(script, &output.stdout, output.status.code())
}

/// Tries a sample of the trees of three processes, or all of them if `BELLJAR_TEST_TREES` is `all`: about ten
/// minutes.
#[test]
fn no_tree_of_sleeps_pipes_and_native_programs_hangs() {
    if !has_dash("no_tree_of_sleeps_pipes_and_native_programs_hangs") {
        return;
    }
    let every = match std::env::var("BELLJAR_TEST_TREES") {
        Ok(all) if all == "all" => 1,
        Ok(every) => every.parse().unwrap(),
        Err(_) => 41,
    };
    let mut scripts = trees(1, &LEAVES);
    scripts.extend(trees(2, &LEAVES));
    scripts.extend(trees(3, &LEAVES[..LARGE_LEAVES]).into_iter().step_by(every));
    let folder = tempfile::tempdir().unwrap();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(script) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // If two processes race on the host, `dash` and belljar may each show either result.
                    let tries: Vec<_> = (0..6)
                        .scan(false, |same, _| {
                            let pair =
                                (ours(script, folder.path()), of_dash(script, folder.path()));
                            (!std::mem::replace(same, pair.0 == pair.1)).then_some(pair)
                        })
                        .collect();
                    let is_same = |(ours, dash): &(Shown, Shown)| ours == dash;
                    if !tries.last().is_some_and(is_same) {
                        wrong.lock().unwrap().push(format!("{script}: {tries:?}"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), scripts.len(), wrong.join("\n"));
    println!("{} trees", scripts.len());
}
