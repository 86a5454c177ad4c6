//! Whether a native program waits for input, as far as the system can tell.
//!
//! A wrong `false` only costs time. After a wrong `true` the clock moves too early, and what is no deadlock may be told as
//! one. Not seen are timers of `alarm` and `setitimer` whose signal is not caught, or is caught with those of all limits, and
//! processes that are to wake it and no longer belong to it.

/// Whether every thread of process group `leader` and its descendants is blocked until something is
/// written to the pipe `stdin`, which one of them reads. `false` if unknown.
#[cfg(target_os = "linux")]
pub(super) fn waits_to_read(leader: u32, stdin: u64) -> bool {
    // A thread that was blocked in both looks, and was not switched to in between, was blocked
    // throughout; so all were at once.
    let before = linux::waiting(leader, stdin);
    before.is_some() && before == linux::waiting(leader, stdin)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn waits_to_read(_leader: u32, _stdin: u64) -> bool {
    false
}

/// Whether process group `leader` has members, or descendants elsewhere, that have not ended. `false` if unknown.
#[cfg(target_os = "linux")]
pub(super) fn has_live_group(leader: u32) -> bool {
    linux::processes(leader).is_some_and(|live| !live.is_empty())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn has_live_group(_leader: u32) -> bool {
    false
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use crate::base::disk;

    /// What a thread waits for that depends on another process or thread.
    enum Blocked {
        /// Reading this pipe.
        Pipe(PathBuf),
        /// Another thread or process.
        Other,
    }

    /// A thread and its numbers of context switches.
    type Thread = (PathBuf, String);

    /// All threads, if each waits for another of them or for the pipe `stdin`, and at least one
    /// reads `stdin`.
    pub(super) fn waiting(leader: u32, stdin: u64) -> Option<Vec<Thread>> {
        let stdin = PathBuf::from(format!("pipe:[{stdin}]"));
        let mut threads = Vec::new();
        let mut is_read = false;
        // Checked first: it is the most likely to run, and listing all processes is slow.
        let leader_itself = PathBuf::from(format!("/proc/{leader}"));
        waits_for(&leader_itself, &leader_itself)?;
        for process in processes(leader)? {
            if may_be_woken(&process)? {
                return None;
            }
            for thread in disk::list(&process.join("task")).ok()? {
                if let Blocked::Pipe(pipe) = waits_for(&process, &thread)? {
                    is_read |= pipe == stdin;
                }
                let switches = text(&thread.join("status"))?;
                let switches = switches.lines().filter(|line| line.contains("ctxt_switches"));
                threads.push((thread, switches.collect()));
            }
        }
        is_read.then_some(threads)
    }

    /// Whether `process` has timers, or catches the signal of `alarm`.
    fn may_be_woken(process: &Path) -> Option<bool> {
        let status = text(&process.join("status"))?;
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
        // Not every system has this file.
        let timers = text(&process.join("timers")).unwrap_or_default();
        let is_caught = |signal: libc::c_int| caught & 1 << (signal - 1) != 0;
        // Who catches the signals of all limits does so to clean up, as `sort` does.
        let cleans_up = [libc::SIGVTALRM, libc::SIGPROF, libc::SIGXCPU, libc::SIGXFSZ]
            .into_iter()
            .all(is_caught);
        Some(is_caught(libc::SIGALRM) && !cleans_up || !timers.trim().is_empty())
    }

    fn text(path: &Path) -> Option<String> {
        String::from_utf8(disk::read(path).ok()?).ok()
    }

    /// The live processes of group `leader` and their descendants.
    pub(super) fn processes(leader: u32) -> Option<Vec<PathBuf>> {
        let mut all = Vec::new();
        for process in disk::list(Path::new("/proc")).ok()? {
            let id = process.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
            // Ended meanwhile.
            let (Some(id), Some(stat)) = (id, text(&process.join("stat"))) else { continue };
            // The name may hold spaces and parentheses.
            let mut fields = stat.rsplit_once(") ")?.1.split(' ');
            let (state, mut numbers) =
                (fields.next()?, fields.map(|field| field.parse::<u32>().ok()));
            let (parent, group) = (numbers.next()??, numbers.next()??);
            all.push((id, parent, group, state != "Z" && state != "X", process));
        }
        let mut members: BTreeSet<u32> =
            all.iter().filter(|(_, _, group, ..)| *group == leader).map(|(id, ..)| *id).collect();
        loop {
            let count = members.len();
            let is_child =
                |(_, parent, ..): &&(u32, u32, u32, bool, PathBuf)| members.contains(parent);
            let children: Vec<u32> = all.iter().filter(is_child).map(|(id, ..)| *id).collect();
            members.extend(children);
            if members.len() == count {
                break;
            }
        }
        let is_there =
            |(id, _, _, lives, _): &(u32, u32, u32, bool, PathBuf)| *lives && members.contains(id);
        Some(all.into_iter().filter(is_there).map(|(.., path)| path).collect())
    }

    /// What `thread` waits for; `None` if it may continue by itself.
    fn waits_for(process: &Path, thread: &Path) -> Option<Blocked> {
        let call = text(&thread.join("syscall"))?;
        let mut numbers = call.split_whitespace();
        // A running thread, or one stopped outside a system call, has no number here.
        let number: libc::c_long = numbers.next()?.parse().ok()?;
        let number_of = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
        let arguments: Vec<u64> = numbers.map_while(number_of).collect();
        let argument = |at: usize| arguments.get(at).copied();
        match number {
            libc::SYS_read | libc::SYS_readv | libc::SYS_splice => {
                let pipe =
                    disk::read_link(&process.join("fd").join(argument(0)?.to_string())).ok()?;
                pipe.to_str()?.starts_with("pipe:").then_some(Blocked::Pipe(pipe))
            }
            libc::SYS_wait4 | libc::SYS_waitid => Some(Blocked::Other),
            // No time limit.
            libc::SYS_futex if argument(3)? == 0 => Some(Blocked::Other),
            _ => None,
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Write;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use super::super::pipe_state::Gauge;
    use super::*;
    use crate::base::ambient;

    #[allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "the test runs programs")]
    fn start(script: &str) -> (Child, std::io::PipeWriter, u64) {
        let (reader, writer) = std::io::pipe().unwrap();
        let inode = Gauge::of(&reader).unwrap().inode().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(reader).stdout(Stdio::null()).process_group(0);
        (command.spawn().unwrap(), writer, inode)
    }

    #[test]
    fn programs_blocked_on_stdin_are_detected() {
        for script in ["exec cat", "cat; exit 3", "cat | cat | cat", "(cat; exit 1)", "exec sort"] {
            let (mut child, mut writer, inode) = start(script);
            while !waits_to_read(child.id(), inode) {
                ambient::sleep(Duration::from_millis(1));
            }
            writer.write_all(b"x").unwrap();
            drop(writer);
            child.wait().unwrap();
        }
    }

    #[test]
    fn sleeping_or_busy_program_does_not_count_as_waiting() {
        for script in [
            "exec sleep 1000",
            "while :; do :; done",
            "sleep 1000 | cat",
            "cat | sleep 1000",
            "exec python3 -c 'import signal as s; s.signal(s.SIGALRM, print); s.alarm(9); input()'",
        ] {
            let (mut child, writer, inode) = start(script);
            for _ in 0..20 {
                assert!(!waits_to_read(child.id(), inode), "{script}");
                ambient::sleep(Duration::from_millis(2));
            }
            let group = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
            child.wait().unwrap();
            drop(writer);
        }
    }
}
