//! Sandbox profiles of host programs, attacked by such programs.
//!
//! Where the kernel cannot enforce a profile, its tests say so and check that the profile is refused.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use belljar::native::{
    NativeCommand, ProfileError, SandboxProfile, SubprocessError, SubprocessOutput,
};
use belljar::testbench::{Testbench, TestbenchError};

const CONFINED: [SandboxProfile; 2] = [SandboxProfile::Worktree, SandboxProfile::OsHardened];

/// Whether this machine can enforce `profile`; prints the reason if not.
fn is_given(profile: SandboxProfile) -> bool {
    match profile.check() {
        Ok(()) => true,
        Err(error) => {
            eprintln!("skipped: {error}");
            let refused = Testbench::builder().sandbox_profile(profile).build().activate();
            assert!(matches!(
                refused.map(|_| ()),
                Err(TestbenchError::Subprocess(SubprocessError::Profile(_)))
            ));
            false
        }
    }
}

/// A folder to work in, and one to which programs have no access.
struct Folders {
    root: tempfile::TempDir,
    outside: tempfile::TempDir,
}

impl Folders {
    fn new() -> Self {
        // In a folder that no profile opens, wherever temporary files are.
        let folder = || tempfile::Builder::new().tempdir().unwrap();
        let folders = Self { root: folder(), outside: folder() };
        fs::write(folders.secret(), "hunter2").unwrap();
        folders
    }

    fn secret(&self) -> PathBuf {
        self.outside.path().join("secret")
    }

    fn run(&self, profile: SandboxProfile, program: &str, args: &[&str]) -> SubprocessOutput {
        let bench = Testbench::builder().fs_overlay(self.root.path()).sandbox_profile(profile);
        let mut session = bench.build().activate().unwrap();
        let mut command = session.command(program);
        command.args(args).current_dir(".").env("OUTSIDE", self.outside.path());
        command.timeout(std::time::Duration::from_mins(1)).output().unwrap()
    }

    fn sh(&self, profile: SandboxProfile, script: &str) -> SubprocessOutput {
        self.run(profile, "sh", &["-c", script])
    }

    /// The names and the content of the outside folder are unchanged.
    fn assert_untouched(&self, after: &str) {
        let names: Vec<_> = fs::read_dir(self.outside.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "{after}: {names:?}");
        assert_eq!(fs::read(self.secret()).unwrap(), b"hunter2", "{after}");
    }
}

#[test]
fn a_confined_program_works_in_its_root_and_in_its_own_temporary_folder() {
    for profile in CONFINED.into_iter().filter(|profile| is_given(*profile)) {
        let folders = Folders::new();
        let script = "set -e
            mkdir sub; echo made > sub/a; mv sub/a b; ln b c; ln -s b d; cat d; rm c
            echo temporary > \"$TMPDIR/t\"; cat \"$TMPDIR/t\"; echo \"$TMPDIR\"
            echo lost > /dev/null; chmod 600 b; ls sub";
        let output = folders.sh(profile, script);
        assert!(output.status.success(), "{profile}: {output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["made", "temporary"], "{profile}");
        assert!(!Path::new(lines[2]).exists(), "the folder goes with the session");
        assert_eq!(fs::read(folders.root.path().join("b")).unwrap(), b"made\n");
        folders.assert_untouched(profile.name());
    }
}

#[test]
fn nothing_is_written_outside() {
    let attacks = [
        "echo x > \"$OUTSIDE/new\"",
        "echo x > \"$OUTSIDE/secret\"",
        "echo x >> \"$OUTSIDE/secret\"",
        "truncate -s 0 \"$OUTSIDE/secret\"",
        "rm \"$OUTSIDE/secret\"",
        "mkdir \"$OUTSIDE/dir\"",
        "mv \"$OUTSIDE/secret\" taken",
        "mv mine \"$OUTSIDE/given\"",
        "ln \"$OUTSIDE/secret\" linked && echo x > linked",
        "ln -s \"$OUTSIDE/secret\" link && echo x > link",
        "ln -s \"$OUTSIDE\" dir && echo x > dir/new",
        "echo x > \"../${OUTSIDE##*/}/new\"",
        "mkfifo \"$OUTSIDE/fifo\"",
        "(setsid sh -c 'echo x > \"$OUTSIDE/new\"')",
    ];
    // These succeed only for root, and are not tried without a profile.
    let attacks_of_root = ["mount --bind . \"$OUTSIDE\"", "mknod disk b 7 0 || mknod memory c 1 1"];
    for attack in attacks {
        let folders = Folders::new();
        fs::write(folders.root.path().join("mine"), "mine").unwrap();
        let output = folders.sh(SandboxProfile::Unrestricted, attack);
        assert!(output.status.success(), "without a profile it is done: {attack}: {output:?}");
    }
    for profile in CONFINED.into_iter().filter(|profile| is_given(*profile)) {
        for attack in attacks.into_iter().chain(attacks_of_root) {
            let folders = Folders::new();
            fs::write(folders.root.path().join("mine"), "mine").unwrap();
            let output = folders.sh(profile, attack);
            assert!(!output.status.success(), "{profile}: {attack}: {output:?}");
            folders.assert_untouched(&format!("{profile}: {attack}"));
        }
    }
}

/// The session's second program is confined to the original root directory, not to the link that the first program put
/// in its place.
#[test]
fn root_replaced_by_a_link_grants_no_access_to_its_target() {
    if !is_given(SandboxProfile::Worktree) {
        return;
    }
    let folders = Folders::new();
    let inner = folders.root.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let bench = Testbench::builder()
        .fs_overlay(folders.root.path())
        .sandbox_profile(SandboxProfile::Worktree)
        .sandbox_roots([folders.root.path(), &inner])
        .build();
    let mut session = bench.activate().unwrap();
    let mut sh = |script: &str| {
        let mut command = session.command("sh");
        command.args(["-c", script]).current_dir(".").env("OUTSIDE", folders.outside.path());
        command.status().unwrap().success()
    };
    assert!(sh("rmdir inner && ln -s \"$OUTSIDE\" inner"));
    assert!(!sh("echo x > inner/new"));
    folders.assert_untouched("a link in place of a root");
}

#[test]
fn a_hardened_program_reads_no_secret() {
    if !is_given(SandboxProfile::OsHardened) {
        return;
    }
    let folders = Folders::new();
    let parent = format!("cat /proc/{}/environ", std::process::id());
    let attacks = [
        "cat \"$OUTSIDE/secret\"",
        "ls \"$OUTSIDE\"",
        "ln -s \"$OUTSIDE/secret\" link && cat link",
        "ln \"$OUTSIDE/secret\" linked && cat linked",
        "cd \"$OUTSIDE\" && cat secret",
        "cat /etc/passwd",
        "ls /",
        "ls \"$HOME\"",
        "cat /proc/1/environ",
        "cat /proc/self/environ",
        &parent,
        "head -c 1 /dev/mem",
        "dd if=/dev/kmsg count=1",
    ];
    for attack in &attacks[..6] {
        let output = folders.sh(SandboxProfile::Unrestricted, attack);
        assert!(output.status.success(), "without a profile it is done: {attack}: {output:?}");
        let _ = fs::remove_file(folders.root.path().join("link"));
        let _ = fs::remove_file(folders.root.path().join("linked"));
    }
    for attack in attacks {
        let output = folders.sh(SandboxProfile::OsHardened, attack);
        assert!(!output.status.success() && output.stdout.is_empty(), "{attack}: {output:?}");
    }
    if is_given(SandboxProfile::Worktree) {
        let output = folders.sh(SandboxProfile::Worktree, "cat \"$OUTSIDE/secret\"");
        assert_eq!(output.stdout, b"hunter2", "the profile `worktree` reads everywhere");
    }
}

#[test]
fn hardened_program_cannot_signal_other_processes() {
    if !is_given(SandboxProfile::OsHardened) {
        return;
    }
    let folders = Folders::new();
    let mut stranger = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let attack = format!("kill -9 {0} || kill -s 0 {0}", stranger.id());
    let output = folders.sh(SandboxProfile::OsHardened, &attack);
    let is_alive = stranger.try_wait().unwrap().is_none();
    let unconfined = folders.sh(SandboxProfile::Unrestricted, &attack);
    let end = stranger.wait().unwrap();
    assert!(is_alive && !output.status.success(), "{output:?}");
    assert!(unconfined.status.success(), "without a profile it is done: {unconfined:?}");
    assert_eq!(end.signal(), Some(9), "without a profile it is done");
    let output = folders.sh(SandboxProfile::OsHardened, "sleep 60 & kill -9 $!; wait $!; echo $?");
    assert_eq!(output.stdout, b"137\n", "one of its own it may: {output:?}");
}

/// Prints for each attack the errno with which it failed, or 0.
const SYSTEM_CALLS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <pthread.h>
#include <unistd.h>

static void say(const char *name, long result) { printf("%s %d\n", name, result < 0 ? errno : 0); }
static void *nothing(void *argument) { return argument; }

int main(int argc, char **argv) {
    int stranger = atoi(argv[1]);
    char byte = 0;
    struct iovec here = {&byte, 1}, there = {&byte, 1};
    int pair[2], pipes[2];
    pthread_t thread;
    say("inet", socket(AF_INET, SOCK_STREAM, 0));
    say("inet6", socket(AF_INET6, SOCK_DGRAM, 0));
    say("unix", socket(AF_UNIX, SOCK_STREAM, 0));
    say("netlink", socket(AF_NETLINK, SOCK_RAW, 0));
    say("datagram_pair", socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    say("raw_pair", socketpair(AF_UNIX, SOCK_RAW | SOCK_CLOEXEC, 0, pair));
    say("kill", kill(stranger, 0));
    int pidfd = syscall(SYS_pidfd_open, stranger, 0);
    say("pidfd_signal", syscall(SYS_pidfd_send_signal, pidfd, 0, 0, 0));
    struct rlimit none = {0, 0};
    say("prlimit", prlimit(stranger, RLIMIT_CPU, &none, 0));
    int shared = shmget(IPC_PRIVATE, 1, IPC_CREAT);
    say("shmget", shared);
    if (shared >= 0) shmctl(shared, IPC_RMID, 0);
    say("own_prlimit", getrlimit(RLIMIT_CPU, &none));
    // Traced by this process, and not by whoever waits for it.
    pid_t traced = fork();
    if (traced == 0) _exit(ptrace(PTRACE_TRACEME, 0, 0, 0) < 0 ? errno : 0);
    int ended;
    waitpid(traced, &ended, 0);
    printf("traceme %d\n", WEXITSTATUS(ended));
    // What follows harms whoever is not confined, takes the rights of root, or fails for other reasons.
    if (argc > 2) return 0;
    say("packet", socket(AF_PACKET, SOCK_RAW, 0));
    say("ptrace", ptrace(PTRACE_SEIZE, stranger, 0, 0));
    say("vm_readv", process_vm_readv(stranger, &here, 1, &there, 1, 0));
    say("vm_writev", process_vm_writev(stranger, &here, 1, &there, 1, 0));
    say("pidfd_getfd", syscall(SYS_pidfd_getfd, pidfd, 0, 0));
    say("mq_open", syscall(SYS_mq_open, "q", 0, 0, 0));
    say("mount", mount("none", ".", "tmpfs", 0, 0));
    say("open_tree", syscall(SYS_open_tree, -100, ".", 0));
    say("open_by_handle", syscall(SYS_open_by_handle_at, -1, 0, 0));
    say("tiocsti", ioctl(0, TIOCSTI, &byte));
    say("tiocsti_high", syscall(SYS_ioctl, 0, TIOCSTI | 1L << 32, &byte));
    say("unshare", unshare(CLONE_NEWUSER));
    long cloned = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (cloned == 0) _exit(0);
    say("clone_user", cloned);
    say("keyctl", syscall(SYS_keyctl, 0, -3, 0));
    say("bpf", syscall(SYS_bpf, 0, 0, 0));
    say("perf", syscall(SYS_perf_event_open, 0, 0, -1, -1, 0));
    say("userfaultfd", syscall(SYS_userfaultfd, 0));
    say("io_uring", syscall(SYS_io_uring_setup, 1, 0));
    say("kexec", syscall(SYS_kexec_load, 0, 0, 0, 0));
    say("clone3", syscall(SYS_clone3, 0, 0));
#ifdef __x86_64__
    say("x32_socket", syscall(0x40000000 | 41, AF_INET, SOCK_STREAM, 0));
#endif
    say("own_stream_pair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    say("own_pipe", pipe(pipes));
    int failed = pthread_create(&thread, 0, nothing, 0);
    printf("own_thread %d\n", failed);
    pid_t child = fork();
    if (child == 0) _exit(0);
    say("own_fork", waitpid(child, 0, 0));
    return 0;
}
"#;

#[test]
fn a_hardened_program_makes_no_dangerous_system_call() {
    if !is_given(SandboxProfile::OsHardened) {
        return;
    }
    let folders = Folders::new();
    let source = folders.root.path().join("attack.c");
    fs::write(&source, SYSTEM_CALLS).unwrap();
    let attack = folders.root.path().join("attack");
    let built = Command::new("cc").arg("-pthread").arg("-o").arg(&attack).arg(&source).output();
    let Some(built) = built.ok().filter(|built| built.status.success()) else {
        eprintln!("skipped: no C compiler builds the attack");
        return;
    };
    drop(built);
    let mut stranger = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let id = stranger.id().to_string();
    let run = |profile, args: &[&str]| {
        let output = folders.run(profile, attack.to_str().unwrap(), args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = run(SandboxProfile::OsHardened, &[&id]);
    let control = run(SandboxProfile::Unrestricted, &[&id, "harmless"]);
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert!(control.lines().count() >= 12, "{control}");
    for line in control.lines() {
        assert!(line.ends_with(" 0"), "without a profile it is done: {line}");
    }
    let answers: Vec<(&str, i32)> = text
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, errno)| (name, errno.parse().unwrap()))
        .collect();
    let (eperm, enosys) = (1, 38);
    for (name, errno) in &answers {
        let expected = match *name {
            "clone3" | "x32_socket" => enosys,
            own if own.starts_with("own_") => 0,
            _ => eperm,
        };
        assert_eq!(*errno, expected, "{name}: {text}");
    }
    assert!(answers.len() >= 36, "{text}");
}

/// Includes the shell's own network redirections, if it has them.
#[test]
fn hardened_program_cannot_connect() {
    if !is_given(SandboxProfile::OsHardened) {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}", listener.local_addr().unwrap().port());
    let Ok(unconfined) = Command::new("bash").args(["-c", &script]).status() else {
        eprintln!("skipped: no bash");
        return;
    };
    assert!(unconfined.success(), "without a profile it connects");
    listener.accept().unwrap();
    let output = Folders::new().run(SandboxProfile::OsHardened, "bash", &["-c", &script]);
    assert!(!output.status.success(), "{output:?}");
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err());
}

/// An inherited descriptor without close-on-exec would give access to files outside of every root.
#[test]
fn inherited_descriptors_are_not_passed_on() {
    for profile in CONFINED.into_iter().filter(|profile| is_given(*profile)) {
        let folders = Folders::new();
        let secret = fs::File::options().append(true).open(folders.secret()).unwrap();
        rustix::io::fcntl_setfd(&secret, rustix::io::FdFlags::empty()).unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&secret);
        let output = folders.sh(profile, &format!("echo x >&{fd}"));
        rustix::io::fcntl_setfd(&secret, rustix::io::FdFlags::CLOEXEC).unwrap();
        assert!(!output.status.success(), "{profile}: {output:?}");
        folders.assert_untouched(profile.name());
    }
}

#[test]
fn a_hardened_program_runs_without_the_rights_of_root() {
    if !is_given(SandboxProfile::OsHardened) {
        return;
    }
    let folders = Folders::new();
    let output = folders.sh(SandboxProfile::OsHardened, "chown 12345 . || chroot . /bin/true");
    assert!(!output.status.success(), "{output:?}");
}

#[test]
fn missing_root_is_named() {
    if !is_given(SandboxProfile::Worktree) {
        return;
    }
    let bench = Testbench::builder()
        .sandbox_profile(SandboxProfile::Worktree)
        .sandbox_roots(["/no/such/root"])
        .build();
    let mut session = bench.activate().unwrap();
    match session.command("true").output() {
        Err(TestbenchError::Subprocess(SubprocessError::Profile(error))) => {
            assert!(matches!(error, ProfileError::Root { .. }), "{error:?}");
            assert!(error.to_string().contains("/no/such/root"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn profile_is_on_the_process_tape_and_required_by_replay() {
    if !is_given(SandboxProfile::Worktree) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tape = folder.path().join("processes.jsonl");
    let run = |bench: belljar::testbench::TestbenchBuilder, profile| {
        let mut session = bench.sandbox_profile(profile).build().activate().unwrap();
        let done = session.command("sh").args(["-c", "echo $$"]).output();
        done.map(|output| (output, session.finalize().unwrap()))
    };
    let record = Testbench::builder().fs_overlay(folder.path()).record_subprocesses(&tape);
    let (output, end) = run(record, SandboxProfile::Worktree).unwrap();
    assert_eq!(end.recorded_subprocesses[0].profile, Some(SandboxProfile::Worktree));
    let replay = || Testbench::builder().replay_subprocesses(&tape);
    assert_eq!(run(replay(), SandboxProfile::Worktree).unwrap().0, output);
    let error = run(replay(), SandboxProfile::Unrestricted).unwrap_err().to_string();
    assert!(error.contains("profile: tape worktree, now unrestricted"), "{error}");
}

#[test]
fn native_program_of_the_command_line_is_confined() {
    for profile in CONFINED.into_iter().filter(|profile| is_given(*profile)) {
        let folders = Folders::new();
        let command = |script: &str| NativeCommand {
            program: "sh".to_owned(),
            args: ["-c".into(), script.into()].to_vec(),
            env: vec![("OUTSIDE".into(), folders.outside.path().into())],
            current_dir: folders.root.path().to_owned(),
            profile,
        };
        assert_eq!(command("echo x > inside").status().unwrap(), 0);
        assert_ne!(command("echo x > \"$OUTSIDE/new\" 2> /dev/null").status().unwrap(), 0);
        folders.assert_untouched(profile.name());
    }
}
