//! Belljar is ended by a signal, or gets an error of the system, while it writes to the disk.
#![cfg(target_os = "linux")]

mod anywhere;
mod links;
mod recovery;
mod refusals;
mod sessions;
mod strangers;
mod together;

pub(crate) use self::anywhere::calls_from;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use crate::support::{cache_dir, skipped, stderr};

/// `strace` of programs with default signal actions, even if the process that started the tests
/// ignores signals.
pub(crate) fn traced() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,TERM", "strace", "-f", "-qq"]);
    command
}

/// Whether programs can be traced here; prints a message if not.
pub(crate) fn can_trace(test: &str) -> bool {
    let works = traced().args(["-o", "/dev/null", "true"]).output();
    let why = match works {
        Ok(output) if output.status.success() => return true,
        Ok(output) => stderr(&output),
        Err(error) => format!("strace does not run: {error}"),
    };
    let required = std::env::var_os("BELLJAR_REQUIRE_STRACE").is_some();
    assert!(!required, "{test} needs strace, and the right to trace programs: {why}");
    skipped(test, &format!("install strace, and allow ptrace: {}", why.trim()));
    false
}

/// Leaves `folder` as a belljar leaves it that is killed in the middle of an apply.
fn killed_halfway(folder: &Path, home: &Path) {
    for number in 0..40 {
        std::fs::write(folder.join(format!("f{number}")), "old").unwrap();
    }
    let script = "for i in $(seq 0 39); do echo new > f$i; done";
    killed_at(20, folder, home, &["sh", "--apply", "-c", script]);
}

/// Kills belljar at the call of `renameat2` with this number.
fn killed_at(rename: usize, folder: &Path, home: &Path, args: &[&str]) {
    let output = traced()
        .args(["-o", "/dev/null", "-e", "trace=renameat2", "-e"])
        .arg(format!("inject=renameat2:signal=SIGKILL:when={rename}"))
        .arg(env!("CARGO_BIN_EXE_belljar"))
        .args(args)
        .current_dir(folder)
        .env("BELLJAR_CACHE_DIR", cache_dir())
        .env("BELLJAR_HOME", home)
        .output()
        .unwrap();
    assert_eq!(output.status.signal(), Some(9), "{}", stderr(&output));
}
