//! Programs of the host among the processes of a machine.
#![cfg(unix)]

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use belljar::native::{NativeChildren, NativePrograms, OnMissing, SandboxProfile};
use belljar::tape::{Kind, MemoryTape, NativeEvent, Recorder, Redaction};
use belljar::{
    ClockConfig, HostDir, Limit, Limits, Machine, MachineBuilder, Outcome, ToolchainPrograms,
    Toolchains,
};

use crate::support::benches::hermetic;
use crate::support::replays::Belljar;
use crate::support::{belljar, engine, skipped, stderr, stdout};

/// A worktree, and a folder of native programs: `host-NAME` is the host's `NAME`.
pub struct Place {
    pub worktree: tempfile::TempDir,
    scratch: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let (worktree, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(worktree.path().join("note.txt"), "one\ntwo\nthree\n").unwrap();
        let bin = scratch.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        for name in ["cat", "head", "sh", "sleep", "sort", "true"] {
            let path = bin.join(format!("host-{name}"));
            std::fs::write(&path, format!("#!/bin/sh\nexec {name} \"$@\"\n")).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        Self { worktree, scratch }
    }

    pub fn tape(&self) -> PathBuf {
        self.scratch.path().join("run.tape")
    }

    pub fn command(&self, args: &[&str]) -> Belljar {
        let mut dirs = vec![self.scratch.path().join("bin")];
        dirs.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
        let mut command = belljar(self.worktree.path());
        command.args(args).env("PATH", std::env::join_paths(dirs).unwrap());
        command
    }

    fn call(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a script with these options; it can start programs of the host.
    fn sh(&self, options: &[&str], script: &str) -> Output {
        self.call(&[&["sh", "--on-missing", "native"], options, &["-c", script]].concat())
    }

    pub fn printed(&self, script: &str) -> String {
        let output = self.sh(&["--quiet"], script);
        assert_eq!(stderr(&output), "", "{script}");
        stdout(&output)
    }

    /// Records a run of `words`, and replays it without programs of the host; returns its output, which the replay must
    /// repeat, and its tape.
    pub fn replayed(&self, options: &[&str], words: &[&str], stdin: Stdio) -> (Output, String) {
        let tape = self.tape().display().to_string();
        let record = ["record", "--quiet", "--on-missing", "native", "--tape", &tape];
        let mut record = self.command(&[&record, options, &["--"], words].concat());
        let recorded = record.stdin(stdin).output().unwrap();
        std::fs::remove_file(self.worktree.path().join("note.txt")).unwrap();
        let replayed = self.command(&["replay", &tape]).env("PATH", "").output().unwrap();
        assert!(stderr(&replayed).contains("the run is the same"), "{}", stderr(&replayed));
        assert_eq!(replayed.status.code(), recorded.status.code());
        assert_eq!(stdout(&replayed), stdout(&recorded));
        (recorded, stderr(&replayed))
    }
}

#[test]
fn native_program_works_in_a_pipeline_between_modules() {
    let place = Place::new();
    assert_eq!(place.printed("seq 800000 | host-cat | wc -c"), "5488895\n");
    assert_eq!(place.printed("seq 800000 | host-sort -rn | head -n 1"), "800000\n");
    assert_eq!(place.printed("cat note.txt | host-cat | host-cat | sort"), "one\nthree\ntwo\n");
    assert_eq!(place.printed("host-cat < note.txt > made; wc -l made; host-true"), "3 made\n");
    assert!(!place.worktree.path().join("made").exists());
}

#[test]
fn endless_writer_ends_when_its_reader_exits() {
    let place = Place::new();
    assert_eq!(place.printed("yes | host-head -n 1; echo $?"), "y\n0\n");
    assert_eq!(place.printed("host-sh -c 'exec yes' | head -n 2"), "y\ny\n");
}

/// A native program leads its own process group, which does not receive Ctrl-C.
#[cfg(target_os = "linux")]
#[test]
fn native_program_ends_when_belljar_is_killed() {
    use std::io::Read;

    let place = Place::new();
    let args = ["sh", "--on-missing", "native", "-c", "host-sh -c 'echo begun; exec sleep 1000'"];
    let mut belljar = place.command(&args).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = belljar.stdout.take().unwrap();
    let mut begun = [0; 6];
    stdout.read_exact(&mut begun).unwrap();
    let children = || {
        let path = format!("/proc/{0}/task/{0}/children", belljar.id());
        std::fs::read_to_string(path).unwrap().split_whitespace().map(str::to_owned).collect()
    };
    let children: Vec<String> = children();
    assert_eq!((&begun, children.len()), (b"begun\n", 1));
    belljar.kill().unwrap();
    belljar.wait().unwrap();
    let command = format!("/proc/{}/cmdline", children[0]);
    while std::fs::read(&command).is_ok_and(|line| line.starts_with(b"sleep\0")) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn native_exit_codes_and_signals_become_the_processs_status() {
    let place = Place::new();
    assert_eq!(place.printed("host-sh -c 'exit 7'; echo $?"), "7\n");
    assert_eq!(place.printed("host-sh -c 'kill -9 $$'; echo $?"), "137\n");
    assert_eq!(place.printed("host-sleep 1000 & kill $!; wait $!; echo $?"), "143\n");
    let output = place.sh(&["--quiet"], "host-sh -c 'echo out; echo err >&2; exit 4'");
    assert_eq!((stdout(&output), stderr(&output)), ("out\n".into(), "err\n".into()));
    assert_eq!(output.status.code(), Some(4));
}

#[test]
fn both_streams_in_one_pipe_keep_their_order() {
    let place = Place::new();
    let script = "host-sh -c 'echo 1; echo 2 >&2; echo 3; echo 4 >&2' 2>&1 | cat";
    assert_eq!(place.printed(script), "1\n2\n3\n4\n");
}

/// Regression: a program that reads nothing consumed the input that it shared with other programs.
#[test]
fn input_that_a_native_program_left_is_read_by_others() {
    let place = Place::new();
    let said = "one\ntwo\nthree\n";
    let loops = "while read -r line; do host-sh -c \"echo $line\"; done";
    assert_eq!(place.printed(&format!("{loops} < note.txt")), said);
    assert_eq!(place.printed(&format!("cat note.txt | {loops}")), said);
    let script = "host-sh -c 'read -r x; echo \"got $x\"'; cat";
    let child = place
        .command(&["sh", "--quiet", "--on-missing", "native", "-c", script])
        .stdin(std::fs::File::open(place.worktree.path().join("note.txt")).unwrap())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(stdout(&output), "got one\ntwo\nthree\n");
    assert_eq!(place.printed("{ host-cat; echo end; } < note.txt | wc -l"), "4\n");
}

/// Regression: when a program ended, 64 KiB of input that filled its pipe were lost, and recorded as read.
#[test]
fn long_input_that_a_native_program_left_is_read_by_others() {
    let place = Place::new();
    let lines: Vec<String> = (1..=60_000).map(|number: u32| number.to_string()).collect();
    std::fs::write(place.worktree.path().join("list"), lines.join("\n") + "\n").unwrap();
    for (script, said) in [
        ("{ host-sh -c 'read -r x; echo $x'; wc -l; } < list", "1\n59999\n"),
        ("cat list | { host-true; wc -l; }", "60000\n"),
        (
            "n=0; while read -r x; do n=$((n+1)); [ $((n % 5000)) = 1 ] && host-true; done < list; echo $n",
            "60000\n",
        ),
    ] {
        for _ in 0..3 {
            assert_eq!(place.printed(script), said, "{script}");
        }
    }
    let script = "cat list | { host-true; wc -l; }";
    let (recorded, _) = place.replayed(&[], &["sh", "-c", script], Stdio::null());
    assert_eq!(stdout(&recorded), "60000\n");
}

/// Regression: a shell loop that runs belljar on each line ended after the first line.
#[test]
fn unread_file_input_is_available_after_the_run() {
    let place = Place::new();
    for (script, rest) in [
        ("host-true", "one\ntwo\nthree\n"),
        ("host-sh -c 'read -r x'", "two\nthree\n"),
        ("read -r x; host-true; host-sh -c 'read -r x'", "three\n"),
        ("host-cat", ""),
    ] {
        let mut input = std::fs::File::open(place.worktree.path().join("note.txt")).unwrap();
        let mut command = place.command(&["sh", "--quiet", "--on-missing", "native", "-c", script]);
        let output = command.stdin(input.try_clone().unwrap()).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let mut left = String::new();
        input.read_to_string(&mut left).unwrap();
        assert_eq!(left, rest, "{script}");
    }
}

/// Standard input stays open without data: the program ends without waiting for it.
#[test]
fn program_that_does_not_read_does_not_wait_for_stdin() {
    let place = Place::new();
    let mut command = place.command(&["sh", "--quiet", "--on-missing", "native", "-c"]);
    command.arg("host-sh -c 'echo done'").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let open = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(open);
    assert_eq!(stdout(&output), "done\n");
}

#[test]
fn timeout_leaves_no_native_program_running() {
    let place = Place::new();
    let pids = place.worktree.path().join("pids");
    let script = "host-sh -c 'echo $$ > pids; sleep 1000 & echo $! >> pids; wait' | host-cat";
    let output = place.sh(&["--timeout", "1s"], script);
    assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
    let pids = std::fs::read_to_string(pids).unwrap();
    assert_eq!(pids.lines().count(), 2);
    for pid in pids.lines() {
        let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        // A process killed with its group may be a zombie until it is reaped.
        let is_there = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            rustix::process::test_kill_process(pid).is_ok() && !stat.contains(") Z ")
        };
        while is_there() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Regression: a tape without events of native programs was taken for a tape of the library's subprocesses.
#[test]
fn timeout_of_a_silent_native_program_is_replayed() {
    let place = Place::new();
    let open = std::io::pipe().unwrap();
    let args = ["host-sh", "-c", "sleep 1000"];
    let (output, _) = place.replayed(&["--timeout", "200ms"], &args, open.0.into());
    assert_eq!(output.status.code(), Some(124));
    drop(open.1);
}

#[test]
fn virtual_clock_does_not_jump_while_a_native_program_runs() {
    let place = Place::new();
    let script = "sleep 3600 & host-sleep 0.2; date +%s; wait; date +%s";
    assert_eq!(place.printed(script), "2114380800\n2114384400\n");
}

#[test]
fn native_time_charged_advances_the_virtual_clock() {
    let place = Place::new();
    let script = "host-sleep 0.2 & host-sleep 1 & wait; test $(date +%s) -ge 2114380801; echo $?";
    let (output, _) =
        place.replayed(&["--native-time", "charged"], &["sh", "-c", script], Stdio::null());
    assert_eq!(stdout(&output), "0\n");
}

#[test]
fn missing_program_error_names_on_missing_native() {
    let place = Place::new();
    let output = place.call(&["sh", "-c", "host-cat note.txt"]);
    assert_eq!(output.status.code(), Some(127));
    let message = stderr(&output);
    assert!(message.contains("host-cat: not found"), "{message}");
    assert!(message.contains("--on-missing native"), "{message}");
    let quiet = place.call(&["sh", "--quiet", "-c", "host-cat note.txt"]);
    assert_eq!(stderr(&quiet), "sh: 1: host-cat: not found\n");
}

#[test]
fn command_v_finds_native_programs() {
    let place = Place::new();
    let script = "command -v host-cat; command -v no-such-program; echo $?; type host-cat";
    assert_eq!(place.printed(script), "host-cat\n127\nhost-cat is host-cat\n");
    let output = place.call(&["sh", "-c", "command -v host-cat"]);
    assert_eq!(output.status.code(), Some(127));
}

/// Paths, and interpreters of scripts at such paths, are looked up in the namespace.
#[test]
fn program_path_with_a_slash_is_never_native() {
    let place = Place::new();
    std::fs::write(place.worktree.path().join("script"), "#!/bin/host-sh\necho no\n").unwrap();
    for program in ["/bin/dd", "../../bin/dd", "./script"] {
        let output = place.sh(&[], program);
        assert_eq!(output.status.code(), Some(127), "{program}: {}", stderr(&output));
    }
}

#[test]
fn native_program_runs_in_the_directory_on_the_disk() {
    let place = Place::new();
    std::fs::create_dir(place.worktree.path().join("sub")).unwrap();
    std::os::unix::fs::symlink("../..", place.worktree.path().join("sub/out")).unwrap();
    let script = "cd sub; X=1 host-sh -c 'echo $X$PWD'; host-sh -c 'echo there > made'; cat made";
    let printed = place.printed(script);
    assert!(printed.starts_with("1/") && printed.ends_with("/sub\nthere\n"), "{printed}");
    for (dir, why) in [
        ("/tmp", "/tmp is not in the worktree"),
        ("new", "the disk has no directory /worktree/new"),
        ("sub/out", "/ is not in the worktree"),
    ] {
        let output = place.sh(&["--quiet"], &format!("mkdir new; cd {dir}; host-true; echo $?"));
        assert_eq!(stdout(&output), "126\n");
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}

#[test]
fn a_profile_holds_for_every_program_of_a_tree() {
    let place = Place::new();
    let outside = place.scratch.path().join("outside");
    let script = format!("host-sh -c 'echo x > inside; echo y > {}'", outside.display());
    if SandboxProfile::Worktree.check().is_ok() {
        let output = place.sh(&["--profile", "worktree"], &script);
        assert_ne!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(!outside.exists());
        assert!(place.worktree.path().join("inside").exists());
    } else {
        skipped("a_profile_holds_for_every_program_of_a_tree", "this kernel has no Landlock");
    }
    let output = place.sh(&["--profile", "wasi"], "host-true");
    assert_eq!(output.status.code(), Some(126));
    assert!(
        stderr(&output).contains("host-true: the sandbox profile `wasi` runs no native program")
    );
}

#[test]
fn tree_with_native_programs_is_replayed_without_them() {
    let place = Place::new();
    let script = "seq 100000 | host-cat | host-sort -n | wc -c
        host-sh -c 'echo err >&2; exit 3'; echo $?
        host-sleep 0.1 & host-sh -c 'kill -9 $$'; echo $?; wait
        while read -r line; do host-sh -c \"echo $line\"; done < note.txt
        cd /tmp; host-true; echo $?";
    let (output, said) = place.replayed(&[], &["sh", "-c", script], Stdio::null());
    assert_eq!(stdout(&output), "588895\n3\n137\none\ntwo\nthree\n126\n");
    let ran = "not hermetic: 9 native programs ran: host-cat, host-sort, host-sh, host-sleep";
    assert!(said.contains(ran), "{said}");
    let tape = place.tape().display().to_string();
    assert!(stdout(&place.call(&["tape", "stat", &tape])).contains(ran));
    assert!(stdout(&place.call(&["fidelity", &tape, &tape])).contains(ran));
}

#[test]
fn single_native_program_is_replayed_with_its_input() {
    let place = Place::new();
    let stdin = std::fs::File::open(place.worktree.path().join("note.txt")).unwrap();
    let (output, _) = place.replayed(&[], &["host-cat"], stdin.into());
    assert_eq!(stdout(&output), "one\ntwo\nthree\n");
    let place = Place::new();
    let (output, _) = place.replayed(&[], &["host-sh", "-c", "kill -15 $$"], Stdio::null());
    assert_eq!(output.status.code(), Some(143));
}

/// The input of a native program is compared: a replay with other input must not succeed.
#[test]
fn replay_that_gives_a_native_program_other_input_diverges() {
    let place = Place::new();
    place.replayed(&[], &["sh", "-c", "echo in | host-cat"], Stdio::null());
    let tape = std::fs::read_to_string(place.tape()).unwrap();
    assert!(tape.contains("echo in | host-cat"));
    std::fs::write(place.tape(), tape.replace("echo in |", "echo on |")).unwrap();
    let output = place.call(&["replay", &place.tape().display().to_string()]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let message = stderr(&output);
    assert!(message.contains("the tape has native, the run has native"), "{message}");
    assert!(message.contains("content_hash"), "{message}");
}

#[test]
fn verify_names_native_programs() {
    let place = Place::new();
    let args = ["verify", "-n", "2", "--on-missing", "native", "--", "sh", "-c", "host-true"];
    let output = place.call(&args);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = stdout(&output);
    assert!(said.contains("not hermetic: 1 native program ran: host-true"), "{said}");
}

/// `nice` is not built in, so it runs natively.
const ENDLESS: &str = "nice sleep 1000";

fn programs(worktree: &Path) -> (Arc<NativeChildren>, MachineBuilder) {
    let children = Arc::new(NativeChildren::new(worktree));
    let programs = ToolchainPrograms::new(engine(), Toolchains::default());
    let programs = NativePrograms::new(Arc::new(programs), Arc::clone(&children));
    let builder = Machine::builder().worktree(HostDir::open(worktree).unwrap());
    (children, builder.programs(Arc::new(programs)))
}

#[test]
fn library_machine_starts_native_programs() {
    let place = Place::new();
    let (children, builder) = programs(place.worktree.path());
    let tape = MemoryTape::default();
    let recorder = Recorder::new(tape.clone(), Redaction::default());
    let mut machine = builder.tape(recorder).build().unwrap();
    let script = "printf 'b\\na\\n' | nice sed s/a/A/ | sort; nice sed q note.txt";
    let output = belljar::Command::shell(script).output(&mut machine).unwrap();
    assert_eq!(output.stdout, b"A\nb\none\n");
    assert_eq!(children.started(), ["nice", "nice"]);
    let records = tape.records();
    // A concurrent fork in another test holds the ends of pipes for an instant. Another process would wait for what it
    // might still write, so only children of process 1 are compared.
    let spawns = records.iter().filter_map(|record| match &record.kind {
        Kind::ProcessSpawn { program, mode, parent: Some(1), .. } if program == "nice" => {
            Some(mode.as_str())
        }
        _ => None,
    });
    assert_eq!(spawns.collect::<Vec<_>>(), ["native"; 2]);
    let given = records.iter().filter_map(|record| match &record.kind {
        Kind::Native { event: NativeEvent::Input { len_bytes, .. }, .. } => Some(*len_bytes),
        _ => None,
    });
    assert_eq!(given.sum::<u64>(), 4);
}

/// A module finds native programs only if they are enabled.
#[test]
fn machine_has_no_native_programs_by_default() {
    let place = Place::new();
    let worktree = HostDir::open(place.worktree.path()).unwrap();
    let programs = Arc::new(ToolchainPrograms::new(engine(), Toolchains::default()));
    let mut machine = Machine::builder().worktree(worktree).programs(programs).build().unwrap();
    let output = belljar::Command::shell("nice sed q note.txt").output(&mut machine).unwrap();
    assert_eq!(output.status.code(), Some(127));
}

/// On a virtual clock, the sleeper would sleep until the native program ends, which never happens.
#[test]
fn on_the_real_clock_sleepers_wake_while_a_native_program_runs() {
    let place = Place::new();
    let (_, builder) = programs(place.worktree.path());
    let mut machine = builder.clock(ClockConfig::Host).build().unwrap();
    let script = format!("{ENDLESS} & sleep 0.1; kill $!; wait $!; echo $?");
    let output = belljar::Command::shell(script).output(&mut machine).unwrap();
    assert_eq!(output.stdout, b"143\n");
}

#[test]
fn tree_that_waits_for_a_native_program_ends_at_its_timeout() {
    let place = Place::new();
    let (_, builder) = programs(place.worktree.path());
    let limits = Limits { timeout: Some(Duration::from_millis(200)), ..Limits::default() };
    let mut machine = builder.limits(limits).build().unwrap();
    let output = belljar::Command::shell(ENDLESS).output(&mut machine).unwrap();
    assert_eq!(*output.status.outcome(), Outcome::Limit(Limit::Timeout));
}

#[test]
fn modules_of_a_session_start_native_programs_if_allowed() {
    let place = Place::new();
    std::fs::write(place.worktree.path().join("Makefile"), "all:\n\tnice sed q note.txt\n")
        .unwrap();
    for (on_missing, is_found) in [(OnMissing::Deny, false), (OnMissing::Native, true)] {
        let bench = hermetic(place.worktree.path()).on_missing(on_missing).build();
        let mut session = bench.activate().unwrap();
        let output = session.command("minimake").output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed.contains("one"), is_found, "{printed}");
        assert_eq!(output.status.success(), is_found);
    }
}

/// Regression: the native program received no input, and exited with 0.
#[test]
fn native_program_reads_a_device() {
    let place = Place::new();
    let script = "nice od -An -N4 -tx1 < /dev/zero; nice od -An -N4 -tx1 < /dev/null; \
                  nice od -An -N4 -tx1 < /dev/urandom | wc -w; echo $?";
    let output = place.sh(&[], script);
    assert_eq!(
        stdout(&output).split_whitespace().collect::<Vec<_>>(),
        ["00", "00", "00", "00", "4", "0"]
    );
}

/// Regression: native programs ran in the directory that later had the worktree's old name.
#[test]
fn native_programs_follow_a_moved_worktree() {
    use std::io::Write;

    let folder = tempfile::tempdir().unwrap();
    let dir = |name: &str| folder.path().join(name);
    let ran = |worktree: &str, switch: &dyn Fn()| {
        let script = "echo begun; read _; dd if=f; dd if=/dev/null of=made";
        let args =
            ["sh", "--quiet", "--on-missing", "native", "--worktree", worktree, "-c", script];
        let mut command = belljar(folder.path());
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut belljar = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut begun = [0; 6];
        belljar.stdout.as_mut().unwrap().read_exact(&mut begun).unwrap();
        switch();
        belljar.stdin.take().unwrap().write_all(b"go\n").unwrap();
        belljar.wait_with_output().unwrap()
    };
    let new = |name: &str, text: &str| {
        std::fs::create_dir(dir(name)).unwrap();
        std::fs::write(dir(name).join("f"), text).unwrap();
    };
    new("one", "one\n");
    let output = ran("one", &|| {
        std::fs::rename(dir("one"), dir("moved")).unwrap();
        new("one", "another\n");
    });
    assert_eq!(stdout(&output), "one\n", "{}", stderr(&output));
    assert!(dir("moved/made").exists() && !dir("one/made").exists());
    std::os::unix::fs::symlink("moved", dir("current")).unwrap();
    let output = ran("current", &|| {
        std::fs::remove_file(dir("current")).unwrap();
        std::os::unix::fs::symlink("one", dir("current")).unwrap();
    });
    assert_eq!(stdout(&output), "one\n", "{}", stderr(&output));
    assert!(!dir("one/made").exists());
    new("gone", "gone\n");
    let output = ran("gone", &|| std::fs::remove_dir_all(dir("gone")).unwrap());
    let message = stderr(&output);
    assert!(message.contains("the run's directory is no longer at"), "{message}");
}

/// Regression: if `PATH` was not set, a file of the same name in the current directory was run instead.
#[test]
fn file_in_the_current_directory_does_not_shadow_a_native_program() {
    let place = Place::new();
    std::fs::write(place.worktree.path().join("host-true"), "notes").unwrap();
    assert_eq!(place.printed("host-true; echo $?; command -v host-true"), "0\nhost-true\n");
    let output = place.sh(&["--env", "PATH=/nowhere:"], "host-true");
    assert_eq!(output.status.code(), Some(126), "{}", stderr(&output));
}
