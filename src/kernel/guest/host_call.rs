//! Host calls, and the questions and records that belong to them.

use std::sync::Arc;

use super::{Fault, Guest, SpawnRequest};
use crate::base::errno::Errno;
use crate::kernel::host::{HostCall, HostReply, Start};
use crate::kernel::machine::limits::Limit;
use crate::kernel::pid::Pid;
use crate::kernel::process::programs::Found;
use crate::kernel::process::{Signal, Wait, WaitStatus};
use crate::kernel::vfs::{FileType, Follow};
use crate::tape::Kind;

use super::Reach;

/// A host call under way: a hidden child process makes it.
pub(super) struct Asked {
    pid: Pid,
    reply: HostReply,
}

/// A host call, for the tape.
pub struct HostRecord<'a> {
    /// The operation: `CAPABILITY.OPERATION`.
    pub name: &'a str,
    /// The parameters.
    pub params: &'a [u8],
    /// The parameters after a hook of the policy changed them, if it did.
    pub done_as: Option<&'a [u8]>,
    /// The answer.
    pub answer: &'a str,
    /// What answered: `policy`, `mock`, `bridge`, `host`, `builtin`.
    pub answered_by: &'a str,
    /// Whether a hook of the policy changed the answer.
    pub amended: bool,
}

impl Guest {
    /// Returns whether the host can answer `name`: a capability, or `CAPABILITY.OPERATION`.
    ///
    /// # Errors
    /// `ENOSYS` if the machine has no host.
    pub fn host_has(&mut self, name: &str) -> Result<bool, Errno> {
        let host = self.machine.host.clone().ok_or(Errno::Nosys)?;
        let has = host.has(self.pid, name);
        let params = serde_json::json!({ "name": name }).to_string();
        self.tape_host_call(&HostRecord {
            name: "host.has",
            params: params.as_bytes(),
            done_as: None,
            answer: &serde_json::json!({ "ok": has }).to_string(),
            answered_by: "host",
            amended: false,
        });
        Ok(has)
    }

    /// Calls the host operation `name` with the JSON `params`; returns the length of the answer, which
    /// [`Guest::host_reply`] has until the next call. A failed operation answers `{"error": …}`.
    ///
    /// # Errors
    /// `ENOSYS` if the machine has no host; `E2BIG` for more than
    /// [`Limits::host_call_bytes_max`](crate::Limits::host_call_bytes_max); `EAGAIN` at the limit of
    /// processes; `ENOMEM` if there is no memory for the answer. [`Fault::Wait`].
    pub fn host_call(&mut self, name: &str, params: &[u8]) -> Result<usize, Fault> {
        let Some(asked) = self.progress.take().and_then(|progress| progress.asked) else {
            return Err(self.ask(name, params)?);
        };
        match self.machine.run.processes.reap_hidden(self.pid, asked.pid) {
            Some(status) => {
                let reply = asked.reply.take().unwrap_or_else(|| ended(status));
                let mut charge = self.machine.run.memory.charge();
                if charge.grow(reply.len() as u64).is_err() {
                    self.machine.note_limit(Limit::Memory);
                    return Err(Errno::Nomem.into());
                }
                self.host_reply = Some((reply, charge));
                Ok(self.host_reply().len())
            }
            None => Err(self.wait_for_answer(asked)),
        }
    }

    fn ask(&mut self, name: &str, params: &[u8]) -> Result<Fault, Errno> {
        let host = self.machine.host.clone().ok_or(Errno::Nosys)?;
        self.host_reply = None;
        if params.len() as u64 > self.machine.limits.host_call_bytes_max {
            self.machine.note_limit(Limit::HostCall);
            return Err(Errno::Toobig);
        }
        let depth = self.host_depth;
        let call = HostCall { name: name.to_owned(), params: Arc::from(params), depth };
        let (image, reply) = host.call(call);
        let request = SpawnRequest {
            program: name.to_owned(),
            args: vec![name.as_bytes().to_vec()],
            environ: self.environ.clone(),
            ..SpawnRequest::default()
        };
        self.host_depth += 1;
        // Commands of the host begin as those of a shell do, whatever the process does about pipes.
        let ignores_sigpipe = self.ignores_sigpipe;
        self.ignores_sigpipe &= !self.knows_version_10();
        let spawned = self.spawn(Found::built_in(image), request);
        self.ignores_sigpipe = ignores_sigpipe;
        self.host_depth = depth;
        let pid = spawned?;
        self.machine.run.processes.hide(pid);
        Ok(self.wait_for_answer(Asked { pid, reply }))
    }

    fn wait_for_answer(&mut self, asked: Asked) -> Fault {
        let pid = asked.pid;
        self.progress.get_or_insert_default().asked = Some(asked);
        self.wait(Wait::Child(Some(pid)), None)
    }

    /// The answer of the last [`Guest::host_call`].
    pub fn host_reply(&self) -> &[u8] {
        self.host_reply.as_ref().map_or(&[], |(reply, _)| reply.as_bytes())
    }

    /// Kills a host call that is still under way.
    pub(super) fn give_up_host_call(&mut self) {
        if let Some(asked) = self.progress.take().and_then(|progress| progress.asked) {
            // Cannot fail: only this process reaps it.
            let _ = self.machine.run.processes.kill(asked.pid, Some(Signal::KILL));
        }
    }

    /// Asks the host whether a program may start. `is_watched`: whether programs that it starts in turn
    /// can be seen.
    ///
    /// # Errors
    /// The reason of a refusal. The process group is then killed, unless it is that of the first process.
    pub(super) fn check_start(
        &mut self,
        request: &SpawnRequest,
        is_watched: bool,
    ) -> Result<(), String> {
        let Some(host) = self.machine.host.clone().filter(|host| host.checks_starts()) else {
            return Ok(());
        };
        let current_dir = self.real_dir(request.current_dir.as_deref().unwrap_or("."));
        let (group, number) = (self.machine.run.processes.group(self.pid), self.starts);
        self.starts = number.wrapping_add(1);
        let SpawnRequest { program, args, .. } = request;
        let current_dir = current_dir.as_str();
        let start = Start { pid: self.pid, group, number, program, args, current_dir, is_watched };
        let Err(why) = host.may_start(&start) else { return Ok(()) };
        let argv: Vec<_> = args.iter().map(|arg| String::from_utf8_lossy(arg)).collect();
        let params = serde_json::json!({
            "number": number, "program": program, "argv": argv, "cwd": current_dir,
        });
        self.tape_host_call(&HostRecord {
            name: "process.start",
            params: params.to_string().as_bytes(),
            done_as: None,
            answer: &serde_json::json!({ "error": { "kind": "blocked", "message": why } })
                .to_string(),
            answered_by: "policy",
            amended: false,
        });
        if group != Pid::FIRST {
            self.machine.run.processes.kill_group(group);
        }
        Err(why)
    }

    /// Makes `child`, which has not begun, the leader of a new process group (POSIX `setpgid`).
    pub fn proc_lead_group(&mut self, child: Pid) {
        self.machine.run.processes.lead_group(child);
    }

    /// Ends the processes of the group that `child` leads once the monotonic clock shows `until`, where they cannot be killed
    /// then: while one of them only reads a virtual clock, no other process has a turn.
    pub fn proc_end_group_at(&mut self, child: Pid, until: u64) {
        if self.knows_version_11() {
            self.machine.run.processes.end_group_at(child, until);
        }
    }

    /// Kills all processes of `group` (POSIX `killpg`).
    pub fn proc_kill_group(&mut self, group: Pid) {
        self.machine.run.processes.kill_group(group);
    }

    /// Returns whether `child` has ended and has not been waited for.
    pub fn has_ended(&self, child: Pid) -> bool {
        self.machine.run.processes.has_ended(child)
    }

    /// Waits for `child` as [`Guest::proc_wait`], until the monotonic clock shows `until` at most.
    ///
    /// # Errors
    /// `ECHILD`; `ETIMEDOUT` if the time comes first. [`Fault::Wait`].
    pub fn proc_wait_until(&mut self, child: Pid, until: Option<u64>) -> Result<WaitStatus, Fault> {
        let waited = self.progress.take().is_some_and(|progress| progress.yielded);
        if let Some((pid, status)) = self.machine.run.processes.reap(self.pid, Some(child))? {
            self.tape_wait(pid, status);
            return Ok(status);
        }
        if waited && self.machine.run.processes.timed_out(self.pid) {
            return Err(Errno::Timedout.into());
        }
        self.progress.get_or_insert_default().yielded = true;
        let fault = self.wait(Wait::Child(Some(child)), until);
        self.machine.run.processes.goes_on_waiting(self.pid, until);
        Err(fault)
    }

    /// Reads the file `path`, from the current directory; returns its absolute path and its content.
    ///
    /// # Errors
    /// `EACCES` if it is not a regular file; `EFBIG` above `bytes_max` bytes; `ENOENT` if it does not
    /// exist or the process is confined; errors of reading.
    pub fn read_file(&mut self, path: &str, bytes_max: u64) -> Result<(String, Vec<u8>), Errno> {
        if self.preopens.iter().any(|preopen| preopen.reach == Reach::Confined) {
            // A confined process must not run files that it cannot open.
            return Err(Errno::Noent);
        }
        let path = self.absolute_file(path)?;
        let base = self.machine.vfs.host_base();
        let vfs = &mut self.machine.vfs;
        let relative = if path == "/" { "." } else { &path[1..] };
        let metadata = vfs.stat(base, relative, Follow::Yes)?;
        if metadata.file_type != FileType::RegularFile {
            return Err(Errno::Acces);
        }
        if metadata.size > bytes_max {
            return Err(Errno::Fbig);
        }
        let bytes = vfs.read(&path)?;
        Ok((path, bytes))
    }

    /// Records `kind` again, from the tape that is replayed.
    pub fn tape_again(&self, kind: &Kind) {
        if let Some(tape) = &self.machine.tape {
            tape.push(kind.clone());
        }
    }

    /// Records an answered host call.
    pub fn tape_host_call(&self, record: &HostRecord<'_>) {
        let Some(tape) = &self.machine.tape else { return };
        // A name that ends in its first dot has no operation, and keeps the dot.
        let parts = record.name.split_once('.').filter(|(_, operation)| !operation.is_empty());
        let (capability, operation) = parts.unwrap_or((record.name, ""));
        tape.push(Kind::HostCall {
            pid: Some(self.pid.0),
            capability: capability.to_owned(),
            operation: operation.to_owned(),
            params: tape.payload(record.params),
            done_as: record.done_as.map(|params| tape.payload(params)),
            result: tape.payload(record.answer.as_bytes()),
            answered_by: Some(record.answered_by.to_owned()),
            amended: record.amended,
        });
    }
}

fn ended(status: WaitStatus) -> String {
    let how = match status {
        WaitStatus::Exited(code) => format!("ended with code {code}"),
        WaitStatus::Signalled(signal) => format!("was ended by {signal}"),
    };
    let message = format!("the call {how} before it was answered");
    serde_json::json!({ "error": { "kind": "ended", "message": message } }).to_string()
}
