//! System calls that host calls make, as any process does.

use super::error::HostError;
use super::shells::HERMETIC;
use crate::base::errno::Errno;
use crate::kernel::guest::{
    Buffers, Event, EventKind, Guest, Range, SpawnRequest, Subscription, SubscriptionKind,
};
use crate::kernel::io::fd::FdFlags;
use crate::kernel::machine::clock::{BUSY_NS, ClockId};
use crate::kernel::machine::limits::Stop;
use crate::kernel::process::Pid;
use crate::kernel::process::{Signal, WaitStatus};
use crate::process::ShellImage;

/// Bytes read or written at once.
const PIECE_BYTES: usize = 64 << 10;

/// Instructions charged for one poll of the streams.
const LOOK_FUEL: u64 = 1000;

/// Why a call ends early.
pub enum Halt {
    /// The process ends.
    Stop(Stop),
    /// The call fails.
    Failed(HostError),
}

impl From<Stop> for Halt {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

impl From<HostError> for Halt {
    fn from(error: HostError) -> Self {
        Self::Failed(error)
    }
}

pub type Done<T> = Result<T, Halt>;

/// The time of clock `id` in nanoseconds.
pub async fn now(guest: &mut Guest, id: ClockId) -> Result<u64, Stop> {
    Ok(guest.call("clock_time_get", |guest| guest.clock_time_get(id)).await?.unwrap_or(0))
}

/// Output of a command.
#[derive(Default)]
pub struct Written {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Both, in the order in which they came.
    pub combined: Vec<u8>,
    /// Whether output was dropped.
    pub truncated: bool,
}

/// The result of a command.
pub struct Ran {
    pub pid: Pid,
    pub status: WaitStatus,
    pub timed_out: bool,
    pub written: Written,
}

/// A running command, connected by pipes.
struct Piped {
    pid: Pid,
    stdin: Option<u32>,
    /// Input not written yet.
    input: Vec<u8>,
    stdout: Option<u32>,
    stderr: Option<u32>,
    kept_bytes_max: usize,
    written: Written,
    /// The rests of busy processes for which time has passed.
    rests: u64,
}

/// Runs `request` to its end, or until `timeout_ns` have passed. `began` gets the process ID before
/// the process runs.
///
/// # Errors
/// [`Stop`]: then all processes of the command are killed as well. The inner error says why it
/// could not be started.
pub async fn run(
    guest: &mut Guest,
    request: SpawnRequest,
    input: Vec<u8>,
    timeout_ns: Option<u64>,
    kept_bytes_max: usize,
    began: impl FnOnce(Pid),
) -> Result<Result<Ran, String>, Stop> {
    let mut piped = match start(guest, request, input, kept_bytes_max) {
        Ok(piped) => piped,
        Err(why) => return Ok(Err(why)),
    };
    let pid = piped.pid;
    guest.proc_lead_group(pid);
    began(pid);
    let ended = piped.finish(guest, timeout_ns).await;
    // Kills what it left running.
    guest.proc_kill_group(pid);
    close_all(guest, [piped.stdin, piped.stdout, piped.stderr].into_iter().flatten());
    let (status, timed_out) = ended?;
    Ok(Ok(Ran { pid, status, timed_out, written: piped.written }))
}

fn start(
    guest: &mut Guest,
    mut request: SpawnRequest,
    input: Vec<u8>,
    kept_bytes_max: usize,
) -> Result<Piped, String> {
    use crate::kernel::guest::FdAction::Inherit;

    let mut opened = Vec::new();
    let mut pipe = |guest: &mut Guest| -> Result<(u32, u32), String> {
        let (reader, writer) = guest.pipe(true).map_err(|errno| errno.to_string())?;
        opened.extend([reader, writer]);
        Ok((reader, writer))
    };
    let pipes = [pipe(guest), pipe(guest), pipe(guest)];
    let [Ok(stdin), Ok(stdout), Ok(stderr)] = &pipes else {
        close_all(guest, opened);
        let why = pipes.into_iter().find_map(Result::err);
        return Err(why.unwrap_or_default());
    };
    request.actions = vec![
        Inherit { from: stdin.0, to: 0 },
        Inherit { from: stdout.1, to: 1 },
        Inherit { from: stderr.1, to: 2 },
    ];
    guest.begin_call("proc_spawn");
    let started = if request.program == HERMETIC && !guest.has_program(HERMETIC) {
        guest.spawn(ShellImage::new().found(), request).map_err(|errno| errno.to_string())
    } else {
        guest.proc_spawn_unasked(request).map_err(|error| error.to_string())
    };
    match started {
        Err(why) => {
            close_all(guest, opened);
            Err(why)
        }
        Ok(pid) => {
            close_all(guest, [stdin.0, stdout.1, stderr.1]);
            // The command need not read all its input.
            guest.ignore_sigpipe(true);
            let nonblock = guest.fd_fdstat_set_flags(stdin.1, FdFlags::NONBLOCK);
            debug_assert!(nonblock.is_ok(), "a pipe can be non-blocking");
            Ok(Piped {
                pid,
                stdin: Some(stdin.1),
                input,
                stdout: Some(stdout.0),
                stderr: Some(stderr.0),
                kept_bytes_max,
                written: Written::default(),
                rests: guest.timeless_rests(),
            })
        }
    }
}

fn close(guest: &mut Guest, fd: u32) {
    // It was opened here, so it is open.
    let _ = guest.fd_close(fd);
}

fn close_all(guest: &mut Guest, fds: impl IntoIterator<Item = u32>) {
    for fd in fds {
        close(guest, fd);
    }
}

/// The status of a command that cannot be waited for.
const GONE: WaitStatus = WaitStatus::Signalled(Signal::KILL);

const STDIN: u64 = 0;
const STDOUT: u64 = 1;
const STDERR: u64 = 2;
const TIMER: u64 = 3;
const CHILD: u64 = 4;

impl Piped {
    async fn finish(
        &mut self,
        guest: &mut Guest,
        timeout_ns: Option<u64>,
    ) -> Result<(WaitStatus, bool), Stop> {
        let mut due = match timeout_ns {
            Some(timeout) => Some(now(guest, ClockId::Monotonic).await?.saturating_add(timeout)),
            None => None,
        };
        let end = due;
        if let Some(end) = end {
            guest.proc_end_group_at(self.pid, end);
        }
        let mut timed_out = false;
        if self.input.is_empty() {
            self.end_input(guest);
        }
        let mut status = None;
        while self.stdout.is_some() || self.stderr.is_some() {
            guest.spend(LOOK_FUEL)?;
            self.let_work_take_time(guest, due).await?;
            for event in self.poll(guest, due, status.is_none()).await? {
                match event.userdata {
                    STDIN => self.feed(guest).await?,
                    // See below.
                    CHILD => {}
                    TIMER => {
                        timed_out = true;
                        due = None;
                        guest.proc_kill_group(self.pid);
                    }
                    stream => self.collect(guest, stream == STDERR).await?,
                }
            }
            if status.is_none() && guest.has_ended(self.pid) {
                status = Some(self.wait(guest, None).await?.unwrap_or(GONE));
                // The command has ended: kill what it left running.
                due = None;
                self.end_input(guest);
                guest.proc_kill_group(self.pid);
            }
        }
        let ended = |guest: &mut Guest, status| {
            // It may have ended itself then: see `proc_end_group_at`.
            let now = guest.virtual_now_ns().filter(|_| status == GONE);
            let is_over = end.zip(now).is_some_and(|(end, now)| now >= end);
            Ok((status, timed_out || is_over))
        };
        if let Some(status) = status {
            return ended(guest, status);
        }
        if let Ok(status) = self.wait(guest, due).await? {
            return ended(guest, status);
        }
        guest.proc_kill_group(self.pid);
        Ok((self.wait(guest, None).await?.unwrap_or(GONE), true))
    }

    async fn wait(
        &self,
        guest: &mut Guest,
        until: Option<u64>,
    ) -> Result<Result<WaitStatus, Errno>, Stop> {
        guest.call("proc_wait", |guest| guest.proc_wait_until(self.pid, until)).await
    }

    /// Waits for events of the streams, or the end of the command if it `is_going_on`.
    async fn poll(
        &self,
        guest: &mut Guest,
        due: Option<u64>,
        is_going_on: bool,
    ) -> Result<Vec<Event>, Stop> {
        let mut all = Vec::new();
        let mut add = |userdata, kind| all.push(Subscription { userdata, kind });
        if let Some(fd) = self.stdin {
            add(STDIN, SubscriptionKind::FdWrite(fd));
        }
        for (userdata, fd) in [(STDOUT, self.stdout), (STDERR, self.stderr)] {
            if let Some(fd) = fd {
                add(userdata, SubscriptionKind::FdRead(fd));
            }
        }
        if let Some(timeout) = due {
            let id = ClockId::Monotonic;
            add(TIMER, SubscriptionKind::Clock { id, timeout, absolute: true });
        }
        if is_going_on {
            add(CHILD, SubscriptionKind::Child(self.pid));
        }
        let events = guest.call("poll_oneoff", |guest| guest.poll_oneoff(&all));
        let mut events = events.await?.unwrap_or_default();
        // Output that came in time precedes the timeout.
        events.sort_by_key(|event| event.kind == EventKind::Clock);
        Ok(events)
    }

    /// Lets time pass for work of processes while none of them waits for a time: a command that goes on printing would
    /// never reach `due` else, as this process does not wait for it meanwhile.
    async fn let_work_take_time(
        &mut self,
        guest: &mut Guest,
        due: Option<u64>,
    ) -> Result<(), Stop> {
        let so_far = guest.timeless_rests();
        let rests = so_far - std::mem::replace(&mut self.rests, so_far);
        let Some(due) = due.filter(|_| rests > 0) else { return Ok(()) };
        if let Some(now) = guest.virtual_now_ns() {
            let timeout = due.min(now.saturating_add(rests.saturating_mul(BUSY_NS)));
            let kind = SubscriptionKind::Clock { id: ClockId::Monotonic, timeout, absolute: true };
            let rest = [Subscription { userdata: TIMER, kind }];
            // It has a subscription, so that it cannot fail.
            let _ = guest.call("poll_oneoff", |guest| guest.poll_oneoff(&rest)).await?;
        }
        Ok(())
    }

    fn end_input(&mut self, guest: &mut Guest) {
        self.input = Vec::new();
        close_all(guest, self.stdin.take());
    }

    /// Writes as much input as the pipe takes.
    async fn feed(&mut self, guest: &mut Guest) -> Result<(), Stop> {
        let Some(fd) = self.stdin else { return Ok(()) };
        let range = Range { start: 0, len: self.input.len().min(PIECE_BYTES) };
        let input = &mut self.input;
        let count = guest.call("fd_write", |guest| {
            guest.fd_write(fd, &Buffers::new(input, [range].into_iter().collect()))
        });
        match count.await? {
            Ok(count) => {
                self.input.drain(..count as usize);
            }
            Err(Errno::Again) => return Ok(()),
            // It reads no more.
            Err(_) => self.input.clear(),
        }
        if self.input.is_empty() {
            self.end_input(guest);
        }
        Ok(())
    }

    /// Reads available output.
    async fn collect(&mut self, guest: &mut Guest, is_stderr: bool) -> Result<(), Stop> {
        let fd = if is_stderr { self.stderr } else { self.stdout };
        let Some(fd) = fd else { return Ok(()) };
        let mut piece = vec![0; PIECE_BYTES];
        let range = Range { start: 0, len: PIECE_BYTES };
        let count = guest.call("fd_read", |guest| {
            guest.fd_read(fd, &mut Buffers::new(&mut piece, [range].into_iter().collect()))
        });
        let count = count.await?.unwrap_or(0) as usize;
        if count == 0 {
            close(guest, fd);
            let stream = if is_stderr { &mut self.stderr } else { &mut self.stdout };
            *stream = None;
            return Ok(());
        }
        let Written { stdout, stderr, combined, truncated } = &mut self.written;
        let kept = count.min(self.kept_bytes_max - combined.len());
        *truncated |= kept < count;
        combined.extend_from_slice(&piece[..kept]);
        let stream = if is_stderr { stderr } else { stdout };
        stream.extend_from_slice(&piece[..kept]);
        Ok(())
    }
}
