//! Ways out of a sandbox profile that need more than a shell: each is shown to succeed without a profile, and to fail
//! with one.
//!
//! If an attack does not work on this machine at all, its test says so and checks nothing.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use belljar::native::{NativeCommand, SandboxProfile};
use belljar::testbench::Testbench;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::support::{belljar, stdout};

const CONFINED: [SandboxProfile; 2] = [SandboxProfile::Worktree, SandboxProfile::OsHardened];

/// The `profiles` that this machine can enforce.
fn given(profiles: &[SandboxProfile]) -> Vec<SandboxProfile> {
    profiles.iter().copied().filter(|profile| profile.check().is_ok()).collect()
}

/// Each attack is prepared by `launch`, before `belljar` is started.
const ATTACKS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static char secret[] = "hunter2";

/* Starts the rest of the arguments with a terminal of its own, and says what was typed into it. */
static int with_terminal(char **argv) {
    int outer = posix_openpt(O_RDWR | O_NOCTTY);
    if (outer < 0 || grantpt(outer) || unlockpt(outer)) return 9;
    int inner = open(ptsname(outer), O_RDWR | O_NOCTTY | O_NONBLOCK);
    struct termios raw;
    tcgetattr(inner, &raw);
    cfmakeraw(&raw);
    tcsetattr(inner, TCSANOW, &raw);
    pid_t child = fork();
    if (child == 0) {
        setsid();
        int own = open(ptsname(outer), O_RDWR);
        ioctl(own, TIOCSCTTY, 0);
        dup2(own, 0);
        execvp(argv[0], argv);
        _exit(9);
    }
    int status;
    waitpid(child, &status, 0);
    char typed = 0;
    if (read(inner, &typed, 1) == 1) printf("typed %c\n", typed);
    return 0;
}

/* Makes files and folders with set-user-id and set-group-id bits in each way that there is, from
   "made-0" on, and says of each what came of it. The low bits alone are set everywhere. */
static int set_id(void) {
    static const int bits[] = {04000, 02000, 06000};
    int number = 0;
    for (int i = 0; i < 3; i++) {
        int mode = 0755 | bits[i];
        struct { unsigned long long flags, mode, resolve; } how = {O_CREAT | O_RDWR, mode, 0};
        for (int way = 0; way < 18; way++) {
            char name[32];
            snprintf(name, sizeof name, "made-%d", number++);
            long done = -1;
            int file = -1;
            errno = 0;
            if (way < 7) file = open(name, O_CREAT | O_RDWR, 0755);
            if (way == 0) done = chmod(name, mode);
            if (way == 1) done = fchmod(file, mode);
            if (way == 2) done = fchmodat(AT_FDCWD, name, mode, 0);
            if (way == 3) done = syscall(452, AT_FDCWD, name, mode, 0);
            if (way == 4) done = syscall(452, file, "", mode, AT_EMPTY_PATH);
            if (way == 5) {
                char path[64];
                snprintf(path, sizeof path, "/proc/self/fd/%d", file);
                done = chmod(path, mode);
            }
            if (way == 6) done = syscall(SYS_fchmodat, AT_FDCWD, name, mode);
            if (way == 7) done = open(name, O_CREAT | O_RDWR, mode);
            if (way == 8) done = openat(AT_FDCWD, name, O_CREAT | O_WRONLY | O_EXCL, mode);
            if (way == 9) done = creat(name, mode);
            if (way == 10) done = syscall(SYS_openat2, AT_FDCWD, name, &how, sizeof how);
            if (way == 11) {
                done = file = open(".", O_TMPFILE | O_RDWR, mode);
                if (file >= 0) {
                    char path[64];
                    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
                    linkat(AT_FDCWD, path, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
                }
            }
            if (way == 12) done = mknod(name, S_IFREG | mode, 0);
            if (way == 13) done = mknodat(AT_FDCWD, name, S_IFREG | mode, 0);
            if (way == 14) done = mknod(name, S_IFIFO | mode, 0);
            if (way == 15) done = mkdir(name, mode);
            if (way == 16) {
                mkdir(name, 0755);
                done = chmod(name, mode);
            }
            if (way == 17) {
                mkdir(name, 0755);
                done = fchmod(open(name, O_RDONLY | O_DIRECTORY), mode);
            }
            printf("%d %d\n", way, done < 0 ? errno : 0);
        }
    }
    int plain = open("plain", O_CREAT | O_RDWR, 0755);
    /* A mode that makes nothing is none. */
    int again = syscall(SYS_openat, AT_FDCWD, "plain", O_RDONLY, 06755);
    return plain < 0 || again < 0 || chmod("plain", 01700) || mkdir("folder", 01755) ? 8 : 0;
}

int main(int argc, char **argv) {
    const char *what = argv[1];
    if (!strcmp(what, "hold")) {
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
        printf("%d %lu\n", getpid(), (unsigned long)secret);
        fflush(stdout);
        pause();
    } else if (!strcmp(what, "read")) {
        char found[8] = "";
        struct iovec here = {found, 7}, there = {(void *)strtoul(argv[3], 0, 10), 7};
        if (process_vm_readv(atoi(argv[2]), &here, 1, &there, 1, 0) != 7) {
            char path[64];
            snprintf(path, sizeof path, "/proc/%s/mem", argv[2]);
            int memory = open(path, O_RDONLY);
            if (memory < 0 || pread(memory, found, 7, strtoul(argv[3], 0, 10)) != 7) return 1;
        }
        printf("%s", found);
    } else if (!strcmp(what, "launch")) {
        int family = !strcmp(argv[2], "inet") ? AF_INET : AF_UNIX;
        if (!strcmp(argv[2], "terminal")) return with_terminal(argv + 3);
        dup2(socket(family, SOCK_STREAM, 0), 0);
        execvp(argv[3], argv + 3);
        return 9;
    } else if (!strcmp(what, "inet")) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return connect(0, (struct sockaddr *)&to, sizeof to) ? errno : 0;
    } else if (!strcmp(what, "unix")) {
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        strcpy(to.sun_path + 1, argv[2]);
        socklen_t size = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(argv[2]);
        return connect(0, (struct sockaddr *)&to, size) ? errno : 0;
    } else if (!strcmp(what, "set-id")) {
        return set_id();
    } else if (!strcmp(what, "type")) {
        return ioctl(0, TIOCSTI, "x") ? errno : 0;
    } else if (!strcmp(what, "foreign")) {
#ifdef __x86_64__
        long number = 20;
        __asm__ volatile("int $0x80" : "+a"(number) : : "r8", "r9", "r10", "r11", "memory");
        printf("%d\n", number == getpid());
#endif
    }
    return 0;
}
"#;

/// A folder with the compiled attacks.
struct Attacks(tempfile::TempDir);

impl Attacks {
    /// `None` if no C compiler can build them.
    fn build() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("attack.c");
        fs::write(&source, ATTACKS).unwrap();
        let built =
            Command::new("cc").arg("-o").arg(folder.path().join("attack")).arg(&source).output();
        if built.is_ok_and(|built| built.status.success()) {
            return Some(Self(folder));
        }
        eprintln!("skipped: no C compiler builds the attacks");
        None
    }

    fn program(&self) -> PathBuf {
        self.0.path().join("attack")
    }

    fn run(&self, profile: SandboxProfile, args: &[&str]) -> belljar::native::SubprocessOutput {
        let bench = Testbench::builder().fs_overlay(self.0.path()).sandbox_profile(profile);
        let mut session = bench.build().activate().unwrap();
        let mut command = session.command(self.program().to_str().unwrap());
        command.args(args).timeout(Duration::from_mins(1)).output().unwrap()
    }

    /// Runs an attack as `belljar run` does for a terminal, with a standard input that `launch` makes.
    fn launched(&self, profile: SandboxProfile, input: &str, attack: &[&str]) -> Output {
        let mut belljar = belljar(self.0.path());
        let belljar = belljar.command();
        let path = format!("{}:{}", self.0.path().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(self.program());
        command.args(["launch", input]).arg(belljar.get_program()).env("PATH", path);
        command.envs(belljar.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.args(["run", "--on-missing", "native", "--profile", profile.name(), "attack"]);
        command.args(attack).current_dir(self.0.path()).stdin(Stdio::null()).output().unwrap()
    }
}

#[test]
fn confined_program_cannot_read_memory_of_other_processes() {
    let Some(attacks) = Attacks::build() else { return };
    let mut stranger = Command::new(attacks.program());
    let mut stranger = stranger.arg("hold").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(stranger.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (id, place) = line.trim().split_once(' ').unwrap();
    let read = |profile| attacks.run(profile, &["read", id, place]);
    let control = read(SandboxProfile::Unrestricted);
    let confined: Vec<_> = given(&CONFINED).into_iter().map(|one| (one, read(one))).collect();
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    if control.stdout != b"hunter2" {
        eprintln!("skipped: nobody reads the memory of others here");
        return;
    }
    for (profile, output) in confined {
        assert!(!output.status.success() && output.stdout.is_empty(), "{profile}: {output:?}");
    }
}

/// The program cannot create sockets, but standard input can be one.
#[test]
fn hardened_program_cannot_connect_an_inherited_socket() {
    let Some(attacks) = Attacks::build() else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let name = format!("belljar-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    for (family, to) in [("inet", &port), ("unix", &name)] {
        let launched = |profile| attacks.launched(profile, family, &[family, to]);
        let output = launched(SandboxProfile::Unrestricted);
        assert!(output.status.success(), "without a profile it connects: {family}: {output:?}");
        for profile in given(&[SandboxProfile::OsHardened]) {
            let output = launched(profile);
            // `EACCES` for TCP, `EPERM` for Unix sockets: the connection was attempted.
            let errno = if family == "inet" { 13 } else { 1 };
            assert_eq!(output.status.code(), Some(errno), "{family}: {output:?}");
        }
    }
}

#[test]
fn hardened_program_cannot_inject_terminal_input() {
    let Some(attacks) = Attacks::build() else { return };
    let typed = |profile| stdout(&attacks.launched(profile, "terminal", &["type"]));
    if !typed(SandboxProfile::Unrestricted).ends_with("typed x\n") {
        eprintln!("skipped: nobody types into a terminal here");
        return;
    }
    for profile in given(&[SandboxProfile::OsHardened]) {
        let typed = typed(profile);
        assert!(!typed.contains("typed"), "{typed}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn hardened_program_with_foreign_architecture_calls_is_killed() {
    let Some(attacks) = Attacks::build() else { return };
    if attacks.run(SandboxProfile::Unrestricted, &["foreign"]).stdout != b"1\n" {
        eprintln!("skipped: the kernel knows no calls of another architecture");
        return;
    }
    for profile in given(&[SandboxProfile::OsHardened]) {
        let output = attacks.run(profile, &["foreign"]);
        assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    }
}

/// Only root can create a set-user-id program of another user, and only root can test its effect.
#[test]
fn confined_program_does_not_gain_set_user_id_rights() {
    const NOBODY: u32 = 65534;
    let folder = tempfile::tempdir().unwrap();
    let id = folder.path().join("id");
    let found = Command::new("sh").args(["-c", "command -v id"]).output().unwrap();
    fs::copy(stdout(&found).trim(), &id).unwrap();
    if chown(&id, Some(NOBODY), None).is_err() {
        eprintln!("skipped: it takes root to make a program of another user");
        return;
    }
    fs::set_permissions(&id, fs::Permissions::from_mode(0o4755)).unwrap();
    let user = |profile| {
        let bench = Testbench::builder().fs_overlay(folder.path()).sandbox_profile(profile);
        let mut session = bench.build().activate().unwrap();
        let output = session.command(id.to_str().unwrap()).args(["-u"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    if user(SandboxProfile::Unrestricted) != format!("{NOBODY}\n") {
        eprintln!("skipped: set-user-id programs change nothing here");
        return;
    }
    for profile in given(&CONFINED) {
        assert_eq!(user(profile), "0\n", "{profile}");
    }
}

/// A set-user-id file gives the rights of its owner, perhaps root, to anyone who runs it.
#[test]
fn a_confined_program_makes_no_file_with_set_user_id_or_set_group_id() {
    let made = |profile| {
        let attacks = Attacks::build()?;
        let output = attacks.run(profile, &["set-id"]);
        assert!(output.status.success(), "{profile}: {output:?}");
        let mode = |entry: std::io::Result<fs::DirEntry>| {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode();
            (mode & 0o6000 != 0).then(|| (entry.file_name(), mode))
        };
        let modes: Vec<_> = fs::read_dir(attacks.0.path()).unwrap().filter_map(mode).collect();
        Some((modes, String::from_utf8(output.stdout).unwrap()))
    };
    let Some((control, _)) = made(SandboxProfile::Unrestricted) else { return };
    assert!(control.len() >= 30, "without a profile it makes them: {control:?}");
    for profile in given(&CONFINED) {
        let (modes, said) = made(profile).unwrap();
        assert!(modes.is_empty(), "{profile}: {modes:?}\n{said}");
        let errnos: Vec<(&str, &str)> =
            said.lines().map(|line| line.split_once(' ').unwrap()).collect();
        assert_eq!(errnos.len(), 54);
        for (way, errno) in errnos {
            let unknown = libc::ENOSYS.to_string();
            let denied = libc::EPERM.to_string();
            let expected = if way == "10" { unknown } else { denied };
            assert_eq!(errno, expected, "{profile}: way {way}");
        }
    }
}

#[test]
fn a_hardened_program_has_a_network_of_its_own() {
    let may = Command::new("unshare").args(["-n", "true"]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: this process may make no network namespace");
        return;
    }
    let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).unwrap();
    let seen = |profile| {
        let folder = tempfile::tempdir().unwrap();
        let (id, done) = (folder.path().join("id"), folder.path().join("done"));
        let bench = Testbench::builder().fs_overlay(folder.path()).sandbox_profile(profile);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut session = bench.build().activate().unwrap();
                let wait = "echo $$ > new; mv new id; until [ -e done ]; do sleep 0.02; done";
                let mut command = session.command("sh");
                command.args(["-c", wait]).current_dir(".").timeout(Duration::from_mins(1));
                assert!(command.output().unwrap().status.success());
            });
            let process = (0..4000).find_map(|_| {
                std::thread::sleep(Duration::from_millis(5));
                fs::read_to_string(&id).ok()
            });
            let process = process.expect("the program has started");
            let network = network(process.trim());
            fs::write(done, "").unwrap();
            network
        })
    };
    assert_eq!(seen(SandboxProfile::Unrestricted), network("self"));
    for profile in given(&[SandboxProfile::OsHardened]) {
        assert_ne!(seen(profile), network("self"));
    }
}

/// A seccomp filter on this thread simulates kernels that lack one of the calls of a profile.
#[test]
fn profile_that_the_kernel_lacks_runs_nothing() {
    let refused = |call: i64, profile| {
        let folder = tempfile::tempdir().unwrap();
        let command = NativeCommand {
            program: "sh".to_owned(),
            args: vec!["-c".into(), "echo x > ran".into()],
            env: Vec::new(),
            current_dir: folder.path().to_owned(),
            profile,
        };
        let ran = std::thread::scope(|scope| {
            let run = || {
                let answer = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
                let machine = std::env::consts::ARCH.try_into().unwrap();
                let calls = [(call, Vec::new())].into();
                let filter = SeccompFilter::new(calls, SeccompAction::Allow, answer, machine);
                let filter: BpfProgram = filter.unwrap().try_into().unwrap();
                seccompiler::apply_filter(&filter).unwrap();
                command.status()
            };
            scope.spawn(run).join().unwrap()
        });
        let wrote = folder.path().join("ran").exists();
        assert_eq!(ran.is_ok(), wrote, "{call}, {profile}: {ran:?}");
        !wrote
    };
    let landlock = [
        libc::SYS_landlock_create_ruleset,
        libc::SYS_landlock_add_rule,
        libc::SYS_landlock_restrict_self,
        libc::SYS_close_range,
    ];
    for call in landlock {
        assert!(!refused(call, SandboxProfile::Unrestricted), "{call}: without a profile it runs");
        for profile in given(&CONFINED) {
            assert!(refused(call, profile), "{call}: it runs without the profile {profile}");
        }
    }
    let of_profile = |profile| match profile {
        SandboxProfile::OsHardened => vec![libc::SYS_seccomp, libc::SYS_capset],
        _ => vec![libc::SYS_seccomp],
    };
    for profile in given(&CONFINED) {
        for call in of_profile(profile) {
            assert!(refused(call, profile), "{call}: it runs without the profile {profile}");
        }
    }
}
