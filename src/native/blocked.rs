//! Whether a native program waits for input, or until its output is read, as far as the system can tell.
//!
//! A wrong `false` only costs time. After a wrong `true` the clock moves too early, and what is no deadlock may be told as
//! one. Not seen are timers of `alarm` and `setitimer` whose signal is not caught, or is caught with those of all limits, and
//! processes that are to wake it and no longer belong to it.

/// Pipes of a program, by their inodes, that others have to act on before it can go on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Pipes {
    /// Its standard input, to which nobody writes meanwhile.
    pub(super) stdin: Option<u64>,
    /// Its outputs, which nobody reads meanwhile.
    pub(super) outputs: Vec<u64>,
}

/// Whether every thread of process group `leader` and its descendants is blocked, and one of them at one of `pipes`: it
/// reads standard input, or writes to an output. `false` if unknown.
#[cfg(target_os = "linux")]
pub(super) fn is_blocked(leader: u32, pipes: &Pipes) -> bool {
    // A thread that was blocked in both looks, and was not switched to in between, was blocked
    // throughout; so all were at once.
    let before = linux::waiting(leader, pipes);
    before.is_some() && before == linux::waiting(leader, pipes)
}

/// As far as is known elsewhere: an output that nobody reads blocks the program.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_blocked(_leader: u32, pipes: &Pipes) -> bool {
    !pipes.outputs.is_empty()
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

    use super::Pipes;
    use crate::base::disk;

    /// What a thread waits for that depends on another process or thread.
    enum Blocked {
        /// Reading this pipe.
        Reads(PathBuf),
        /// Writing to this pipe.
        Writes(PathBuf),
        /// Another thread or process.
        Other,
    }

    /// A thread and its numbers of context switches.
    type Thread = (PathBuf, String);

    /// All threads, if each waits for another of them or at one of `pipes`, and at least one does the latter.
    pub(super) fn waiting(leader: u32, pipes: &Pipes) -> Option<Vec<Thread>> {
        let path = |inode: &u64| PathBuf::from(format!("pipe:[{inode}]"));
        let stdin = pipes.stdin.as_ref().map(path);
        let outputs: Vec<_> = pipes.outputs.iter().map(path).collect();
        let mut threads = Vec::new();
        let mut is_at_pipe = false;
        // Checked first: it is the most likely to run, and listing all processes is slow.
        let leader_itself = PathBuf::from(format!("/proc/{leader}"));
        if !has_exited(&leader_itself) {
            waits_for(&leader_itself, &leader_itself)?;
        }
        for process in processes(leader)? {
            if may_be_woken(&process)? {
                return None;
            }
            for thread in disk::list(&process.join("task")).ok()? {
                is_at_pipe |= match waits_for(&process, &thread)? {
                    Blocked::Reads(pipe) => Some(pipe) == stdin,
                    Blocked::Writes(pipe) => outputs.contains(&pipe),
                    Blocked::Other => false,
                };
                let switches = text(&thread.join("status"))?;
                let switches = switches.lines().filter(|line| line.contains("ctxt_switches"));
                threads.push((thread, switches.collect()));
            }
        }
        is_at_pipe.then_some(threads)
    }

    /// Whether `process` is there only because nobody has waited for its end.
    fn has_exited(process: &Path) -> bool {
        let stat = text(&process.join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('Z'))
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
        let pipe = || {
            let pipe = disk::read_link(&process.join("fd").join(argument(0)?.to_string())).ok()?;
            pipe.to_str()?.starts_with("pipe:").then_some(pipe)
        };
        match number {
            libc::SYS_read | libc::SYS_readv | libc::SYS_splice => pipe().map(Blocked::Reads),
            libc::SYS_write | libc::SYS_writev => pipe().map(Blocked::Writes),
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
    fn start(script: &str) -> (Child, std::io::PipeWriter, Pipes) {
        let (reader, writer) = std::io::pipe().unwrap();
        let inode = Gauge::of(&reader).unwrap().inode();
        let pipes = Pipes { stdin: inode, ..Pipes::default() };
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(reader).stdout(Stdio::null()).process_group(0);
        (command.spawn().unwrap(), writer, pipes)
    }

    #[test]
    fn programs_blocked_on_stdin_are_detected() {
        for script in ["exec cat", "cat; exit 3", "cat | cat | cat", "(cat; exit 1)", "exec sort"] {
            let (mut child, mut writer, pipes) = start(script);
            while !is_blocked(child.id(), &pipes) {
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
            let (child, writer, pipes) = start(script);
            for _ in 0..20 {
                assert!(!is_blocked(child.id(), &pipes), "{script}");
                ambient::sleep(Duration::from_millis(2));
            }
            end(child);
            drop(writer);
        }
    }

    #[allow(clippy::unwrap_used, reason = "the test runs programs")]
    fn end(mut child: Child) {
        let group = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
        child.wait().unwrap();
    }

    #[allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "the test runs programs")]
    fn start_unread(script: &str) -> (Child, std::io::PipeReader, Pipes) {
        let (reader, writer) = std::io::pipe().unwrap();
        let inode = Gauge::of(&reader).unwrap().inode().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(writer).process_group(0);
        (command.spawn().unwrap(), reader, Pipes { stdin: None, outputs: vec![inode] })
    }

    #[test]
    fn programs_whose_output_nobody_reads_are_detected() {
        // The last one has ended but for a process that it left behind.
        for script in ["exec yes", "yes | cat", "(yes; exit 1)", "yes & exit 0"] {
            let (child, reader, pipes) = start_unread(script);
            while !is_blocked(child.id(), &pipes) {
                ambient::sleep(Duration::from_millis(1));
            }
            end(child);
            drop(reader);
        }
    }

    #[test]
    fn program_that_works_beside_its_output_does_not_count_as_blocked() {
        for script in ["yes & exec sleep 1000", "yes & while :; do :; done", "timeout 1000 yes"] {
            let (child, reader, pipes) = start_unread(script);
            for _ in 0..20 {
                assert!(!is_blocked(child.id(), &pipes), "{script}");
                ambient::sleep(Duration::from_millis(2));
            }
            end(child);
            drop(reader);
        }
    }
}
