//! The records of a process on its machine's tape.

use super::path::absolute;
use super::{Fault, Guest, Preopen, Reach};
use crate::base::digest::Digest;
use crate::base::errno::Errno;
use crate::kernel::io::fd::{Description, TapedFile};
use crate::kernel::io::pipe::PipeId;
use crate::kernel::io::stdio::Input;
use crate::kernel::machine::Machine;
use crate::kernel::machine::clock::ClockId;
use crate::kernel::machine::limits::{Limit, Stop};
use crate::kernel::machine::timeout::is_over;
use crate::kernel::pid::Pid;
use crate::kernel::process::WaitStatus;
use crate::kernel::process::outcome::Outcome;
use crate::kernel::process::schedule::Mode;
use crate::tape::{
    Kind, LaunchTree, NativeEvent, Payload, Phase, Preopened, Recorder, TapeError, TapedContent,
};

/// Where a process comes from, for the tape.
pub(super) struct Origin {
    /// The requested name; `None` if that is its first argument.
    pub program: Option<String>,
    /// The file of the namespace that was loaded.
    pub path: Option<String>,
    /// The digest of its module.
    pub module_hash: Option<Digest>,
    /// How it runs.
    pub mode: Mode,
    /// The trees that were mounted with it.
    pub trees: Vec<LaunchTree>,
    /// The call that it makes in place of its start function.
    pub invoke: Option<String>,
}

impl Guest {
    /// Checks that the tape has not failed.
    ///
    /// # Errors
    /// [`Stop::Tape`] if it has: nothing may happen unrecorded.
    #[inline]
    pub fn check_tape(&self) -> Result<(), Fault> {
        match &self.machine.tape {
            Some(tape) if tape.failed() => Err(Fault::Stop(Stop::Tape)),
            _ => Ok(()),
        }
    }

    /// Notes on the tape that a turn of the process begins, or ends.
    pub(super) fn tape_turn(&self, begins: bool) {
        if let Some(tape) = &self.machine.tape {
            tape.set_turn(begins.then_some(self.pid.0));
        }
    }

    /// Reads the clock `id`. Readings of the host's clock are recorded, whatever needs them.
    pub(super) fn read_clock(&mut self, id: ClockId) -> u64 {
        if id == ClockId::Realtime {
            self.machine.catch_up();
        }
        let value_ns = self.machine.clock.read(id);
        if let Some(tape) = &self.machine.tape
            && !self.machine.clock.is_virtual()
        {
            match id {
                ClockId::Realtime => tape.set_realtime(value_ns),
                _ => tape.set_monotonic(value_ns),
            }
            tape.push(clock_read(id, value_ns));
        }
        value_ns
    }

    /// Records that the guest read a clock, unless [`Guest::read_clock`] did.
    pub(super) fn tape_clock_read(&self, id: ClockId, value_ns: u64) {
        if let Some(tape) = &self.machine.tape
            && self.machine.clock.is_virtual()
        {
            tape.push(clock_read(id, value_ns));
        }
    }

    /// Records that time moves until the monotonic clock shows `t`, or to the virtual timeout.
    pub(super) fn tape_sleep(&mut self, t: u64) {
        let Machine { tape, clock, limits, .. } = &mut *self.machine;
        let Some(tape) = tape else { return };
        let t = limits.virtual_timeout_ns().map_or(t, |stop_at| stop_at.min(t));
        if !clock.is_virtual() {
            return tape.push(Kind::ClockSleep { duration_ns: 0 });
        }
        let now = clock.now(ClockId::Monotonic);
        tape.push(Kind::ClockSleep { duration_ns: t.saturating_sub(now) });
    }

    /// Records random bytes that were handed out.
    pub(super) fn tape_random(&self, bytes: &[u8]) {
        let Some(tape) = &self.machine.tape else { return };
        tape.push(Kind::Random { content_hash: Digest::of(bytes), len_bytes: bytes.len() as u64 });
    }

    /// Records the result of a read from standard input.
    pub(super) fn tape_stdin(&self, answer: Result<&[u8], Errno>) {
        if self.machine.run.stdio.stdin.is_stream() {
            self.tape_stream(0, answer, |bytes| Kind::StreamRead { pid: self.pid.0, bytes });
        }
    }

    /// Records whether standard input was readable.
    pub(super) fn tape_stdin_poll(&self, ready: bool) {
        if let Some(tape) = &self.machine.tape {
            tape.push(Kind::StreamPoll { pid: self.pid.0, fd: 0, ready });
        }
    }

    /// Records the result of a write to standard output or error: the bytes, if they were written.
    pub(super) fn tape_output(&self, fd: u32, answer: Result<&[u8], Errno>) {
        self.tape_stream(fd, answer, |bytes| Kind::StreamWrite { pid: self.pid.0, fd, bytes });
    }

    fn tape_stream(
        &self,
        fd: u32,
        answer: Result<&[u8], Errno>,
        kind: impl FnOnce(Payload) -> Kind,
    ) {
        let Some(tape) = &self.machine.tape else { return };
        tape.push(match answer {
            // It is one stream, whichever process has a piece of it.
            Ok(bytes) => kind(tape.stream_payload(Pid::MACHINE.0, fd, bytes)),
            Err(errno) => Kind::StreamError { pid: self.pid.0, fd, errno: errno.name().to_owned() },
        });
    }

    /// Records a call on a socket, whatever its descriptor is.
    pub(super) fn tape_sock(&self) {
        let Some(tape) = &self.machine.tape else { return };
        tape.push(Kind::Egress {
            surface: "sock".to_owned(),
            url: String::new(),
            host: String::new(),
            port: None,
            allowed: false,
            reason: format!("{}: guests have no sockets", self.call),
        });
    }

    /// Returns the absolute path, for the tape, of `path` from the directory `fd`; `None` without a tape.
    /// Symbolic links are not resolved.
    pub(super) fn taped_path(&mut self, fd: u32, path: &str) -> Option<Box<str>> {
        self.machine.tape.as_ref()?;
        let is_absolute = path.starts_with('/') || self.starts_at_root(fd, path);
        let from = match self.open_dir(fd) {
            Ok(dir) if !is_absolute => dir.taped_path.as_deref(),
            _ => None,
        };
        Some(absolute(from.unwrap_or("/"), path).into())
    }

    /// Records the removal of a file.
    pub(super) fn tape_unlink(&self, path: Option<Box<str>>) {
        if let (Some(tape), Some(path)) = (&self.machine.tape, path) {
            tape.push(Kind::FileDelete { path: path.into(), content_hash: None, len_bytes: None });
        }
    }

    /// Records a rename.
    pub(super) fn tape_rename(&self, from: Option<Box<str>>, to: Option<Box<str>>) {
        if let (Some(tape), Some(from), Some(to)) = (&self.machine.tape, from, to) {
            tape.push(Kind::FileRename { from: from.into(), to: to.into() });
        }
    }

    /// Records the content of a file that is closed after writes.
    pub(super) fn tape_close(&mut self, description: &Description) {
        let Description::File(file) = description else { return };
        let Some(TapedFile { path, written: true }) = file.taped.as_deref() else { return };
        let Some(tape) = &self.machine.tape else { return };
        let (node, tape, deadline) = (file.node, tape.clone(), self.machine.deadline());
        let has_timed_out = self.machine.has_timed_out();
        let Machine { vfs, timeouts, .. } = &mut *self.machine;
        let (mut is_late, mut is_read) = (false, false);
        let read = |offset, buf: &mut [u8]| {
            // The guest chooses how much there is to read, so the first pass checks the deadline with
            // each piece; the second only stores. Reads of lower layers make records, so a replay can end
            // at any piece.
            let ends_here = || has_timed_out || timeouts.is_here(Some(tape.records()));
            is_late = !is_read && (ends_here() || is_over(deadline));
            if is_late {
                return Err(Errno::Timedout);
            }
            let count = vfs.read_at(node, offset, buf);
            is_read |= count == Ok(0);
            count
        };
        // If it cannot be read back, the next reader is told.
        if let Ok(content) = tape.content_from(path, read) {
            let TapedContent { content_hash, len_bytes, withheld_by } = content;
            let path = path.to_string();
            tape.push(Kind::FileWrite { path, content_hash, len_bytes, withheld_by });
        } else if is_late {
            self.machine.note_limit(Limit::Timeout);
        }
    }

    /// Records that the process starts.
    pub(super) fn tape_spawn(&mut self, origin: Origin) {
        let Some(tape) = self.machine.tape.clone() else { return };
        let tape = &tape;
        self.started_ms = tape.monotonic_ms();
        tape.set_phase(Phase::Run);
        match self.spawn_record(tape, origin) {
            Some(kind) => tape.push(kind),
            None => tape.fail(TapeError::NotText { what: "an argument or a variable" }),
        }
    }

    /// Records that the process ended.
    pub(super) fn tape_exit(&self, outcome: &Outcome) {
        let Some(tape) = &self.machine.tape else { return };
        tape.push(Kind::ProcessExit {
            pid: self.pid.0,
            status: outcome.name().to_owned(),
            exit_code: outcome.exit_code(),
            duration_ms: tape.monotonic_ms().saturating_sub(self.started_ms),
        });
    }

    /// Records the result of waiting for a child.
    pub(super) fn tape_wait(&self, child: Pid, status: WaitStatus) {
        let Some(tape) = &self.machine.tape else { return };
        let status = status.code().into();
        tape.push(Kind::ProcessWait { pid: self.pid.0, child: child.0, status });
    }

    /// Records a new pipe.
    pub(super) fn tape_pipe(&self, pipe: PipeId, reader: u32, writer: u32) {
        let Some(tape) = &self.machine.tape else { return };
        tape.push(Kind::Pipe { pid: self.pid.0, pipe: pipe.number(), reader, writer });
    }

    /// Records an event between the process and its native program.
    pub fn tape_native(&self, event: impl FnOnce(&Recorder) -> NativeEvent) {
        let Some(tape) = &self.machine.tape else { return };
        tape.push(Kind::Native { pid: self.pid.0, event: event(tape) });
    }

    fn spawn_record(&self, tape: &Recorder, origin: Origin) -> Option<Kind> {
        let text = |bytes: &Vec<u8>| Some(std::str::from_utf8(bytes).ok()?.to_owned());
        let mut args = self.args.iter();
        let argv0 = args.next().map_or(Some(String::new()), text)?;
        let program = origin.program.unwrap_or_else(|| argv0.clone());
        let (stdin, stdin_bytes): (_, Option<Payload>) = match &self.machine.run.stdio.stdin {
            Input::Empty => ("empty", None),
            Input::Bytes(bytes) => ("bytes", Some(tape.payload(bytes.get_ref()))),
            Input::Host | Input::Reader(_) | Input::Taped(_) => ("stream", None),
        };
        // A child reads what its parent has, or a pipe.
        let (stdin, stdin_bytes) =
            if self.pid == Pid::FIRST { (stdin, stdin_bytes) } else { ("inherited", None) };
        let preopened = |preopen: &Preopen| Preopened {
            path: preopen.path.clone(),
            name: preopen.name.clone(),
            reach: preopen.reach.name().to_owned(),
        };
        Some(Kind::ProcessSpawn {
            pid: self.pid.0,
            parent: Some(self.proc_parent().0).filter(|parent| *parent != 0),
            argv0: Some(argv0).filter(|argv0| *argv0 != program),
            program,
            path: origin.path,
            args: args.map(text).collect::<Option<_>>()?,
            env: self.environ.iter().map(text).collect::<Option<_>>()?,
            mode: origin.mode.name().to_owned(),
            profile: origin.mode.into_profile(),
            preopens: self.preopens.iter().map(preopened).collect(),
            stdin: stdin.to_owned(),
            stdin_bytes,
            module_hash: origin.module_hash,
            trees: origin.trees,
            invoke: origin.invoke,
        })
    }
}

impl Reach {
    /// Its name on a tape.
    pub fn name(self) -> &'static str {
        match self {
            Self::Confined => "confined",
            Self::Namespace => "namespace",
            Self::CurrentDir => "current_dir",
            Self::NamespaceOrRoot => "namespace_or_root",
        }
    }

    /// Returns the reach with this name on a tape.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [Self::Confined, Self::Namespace, Self::CurrentDir, Self::NamespaceOrRoot];
        all.into_iter().find(|reach| reach.name() == name)
    }
}

fn clock_read(id: ClockId, value_ns: u64) -> Kind {
    let clock = match id {
        ClockId::Realtime => "realtime",
        ClockId::Monotonic => "monotonic",
        ClockId::ProcessCputime => "process_cputime",
        ClockId::ThreadCputime => "thread_cputime",
    };
    Kind::ClockRead { clock: clock.to_owned(), value_ns }
}
