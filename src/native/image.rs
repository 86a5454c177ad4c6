//! A native program as a process of a machine.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::children::NativeChildren;
use super::not_started::NotStarted;
use super::polled_child::{ChildEnd, ChildEvent, Connected, PolledChild};
use super::streams::lock;
use crate::base::digest::Digest;
use crate::base::errno::Errno;
use crate::kernel::guest::{Buffers, Fault, FdAction, Guest, InputState, Range, SpawnRequest};
use crate::kernel::io::host_stdin::Watch;
use crate::kernel::io::pipe::OnHangUp;
use crate::kernel::machine::limits::Stop;
use crate::kernel::process::Pid;
use crate::kernel::process::Signal;
use crate::kernel::process::outcome::{Outcome, RunError};
use crate::kernel::process::programs::{Found, MakeImage};
use crate::kernel::process::schedule::{Ended, Image, Mode, Running};
use crate::kernel::process::wakeup::HostBell;
use crate::process::Command;
use crate::tape::{NativeEvent, TapeStore};

/// Bytes given to a program at once: the capacity of a pipe.
const PIECE_BYTES: usize = 64 << 10;

/// Bytes given last that are kept, as the program may not read them: one piece on its way and the
/// largest pipe that Linux allows (`pipe(7)`).
const UNREAD_BYTES_MAX: usize = PIECE_BYTES + (1 << 20);

/// A native program to run as a process, with the process's standard streams; or its record on a
/// tape.
pub struct NativeImage {
    program: String,
    profile: Option<String>,
    runs: Runs,
}

enum Runs {
    Live(Arc<NativeChildren>),
    Taped(Arc<TapedChildren>),
    /// The processes that a program left behind.
    Left(Child),
}

impl NativeImage {
    pub(super) fn live(
        program: &str,
        profile: Option<String>,
        children: Arc<NativeChildren>,
    ) -> Self {
        Self { program: program.to_owned(), profile, runs: Runs::Live(children) }
    }

    /// The program as recorded in `children`, confined by `profile`.
    pub fn taped(program: &str, profile: Option<String>, children: Arc<TapedChildren>) -> Self {
        Self { program: program.to_owned(), profile, runs: Runs::Taped(children) }
    }

    /// The image as the result of a search for a program.
    pub fn found(self) -> Found {
        Found::built_in(Box::new(self))
    }
}

impl Command {
    /// A process that runs the native program `name` as `children` says.
    pub fn native(children: &Arc<NativeChildren>, name: &str) -> Self {
        let (children, program) = (Arc::clone(children), name.to_owned());
        let make: MakeImage = Arc::new(move || Box::new(children.image(&program)));
        Self::of_image(make, name)
    }

    /// A process that replays the native program `name`.
    pub(crate) fn taped_native(
        children: &Arc<TapedChildren>,
        name: &str,
        profile: Option<String>,
    ) -> Self {
        let (children, program) = (Arc::clone(children), name.to_owned());
        let image = move || NativeImage::taped(&program, profile.clone(), Arc::clone(&children));
        let make: MakeImage = Arc::new(move || Box::new(image()));
        Self::of_image(make, name)
    }
}

impl Image for NativeImage {
    fn name(&self) -> &str {
        &self.program
    }

    fn mode(&self) -> Mode {
        Mode::Native { profile: self.profile.clone() }
    }

    fn start(self: Box<Self>, guest: Guest) -> Running {
        Box::pin(process(*self, guest))
    }
}

/// The recorded events of native programs.
pub struct TapedChildren {
    events: Mutex<VecDeque<(Pid, NativeEvent)>>,
    contents: TapeStore,
}

impl TapedChildren {
    /// `events` by process, in tape order; `contents` is the store of the tape.
    pub fn new(events: Vec<(Pid, NativeEvent)>, contents: TapeStore) -> Self {
        Self { events: Mutex::new(events.into()), contents }
    }

    /// The recorded rings; `times_out` if real time ended the run.
    pub fn bell(&self, times_out: bool) -> HostBell {
        let events = lock(&self.events);
        let of_host = events.iter().filter(|(_, event)| event.is_of_host());
        let rings = of_host.map(|(pid, event)| match event {
            NativeEvent::ClockMoved => Pid::MACHINE,
            _ => *pid,
        });
        HostBell::taped(rings, times_out)
    }

    /// Takes the next event, if it is of `pid` and `is_it`.
    fn next_if(&self, pid: Pid, is_it: impl Fn(&NativeEvent) -> bool) -> Option<NativeEvent> {
        let mut events = lock(&self.events);
        let is_of_machine = |event: &NativeEvent| {
            matches!(event, NativeEvent::Input { .. } | NativeEvent::ClockMoved)
        };
        while events.pop_front_if(|(_, event)| is_of_machine(event)).is_some() {}
        events.pop_front_if(|(of, event)| *of == pid && is_it(event)).map(|(_, event)| event)
    }

    /// Whether events of `pid` are left.
    fn has_more(&self, pid: Pid) -> bool {
        lock(&self.events).iter().any(|(of, _)| *of == pid)
    }

    fn next(&self, pid: Pid) -> Option<(ChildEvent, bool)> {
        let mut is_charged = false;
        let event = match self.next_if(pid, |_| true)? {
            NativeEvent::Failed { message } => ChildEvent::Failed(message),
            NativeEvent::Taken => ChildEvent::Taken,
            NativeEvent::Readable => ChildEvent::Readable,
            NativeEvent::Output { fd, bytes } => {
                // A withheld content makes the replay diverge here.
                let bytes = bytes.bytes(&self.contents).unwrap_or_default();
                ChildEvent::Output { fd, bytes }
            }
            NativeEvent::Ended {
                exit_code,
                signal,
                duration_ns,
                charged,
                unread_bytes,
                left_open,
            } => {
                is_charged = charged;
                let end = ChildEnd { exit_code, signal, duration_ns, unread_bytes, left_open };
                ChildEvent::Ended(end)
            }
            NativeEvent::Closed => ChildEvent::Closed,
            NativeEvent::Lacking { .. } | NativeEvent::Input { .. } | NativeEvent::ClockMoved => {
                return None;
            }
        };
        Some((event, is_charged))
    }
}

/// The program of a process.
enum Child {
    Live(LiveChild),
    Taped(Arc<TapedChildren>),
}

/// A running program, and the bell that rings for its events.
struct LiveChild {
    child: PolledChild,
    charges_time: bool,
    bell: HostBell,
    pid: Arc<AtomicU32>,
    /// For standard output and standard error: pipes hold weak references to these.
    hang_ups: [Arc<OnHangUp>; 2],
}

impl LiveChild {
    /// Has its outputs closed when the pipes that `guest` writes to have no reader any more: as natively, its next
    /// write fails, not the one after.
    fn follow_readers(&self, guest: &mut Guest) {
        for (fd, hang_up) in (1..).zip(&self.hang_ups) {
            if guest.has_lost_reader(fd) {
                self.child.hang_up(fd);
            }
            guest.on_hang_up(fd, &Arc::downgrade(hang_up));
        }
    }

    /// Rings for `pid` from now on, and once for each queued event.
    fn ring_for(&self, pid: Pid) {
        self.pid.store(pid.0, Ordering::SeqCst);
        for _ in 0..self.child.events() {
            self.bell.ring(pid);
        }
    }
}

impl Drop for LiveChild {
    fn drop(&mut self) {
        self.bell.forget(Pid(self.pid.load(Ordering::SeqCst)));
    }
}

impl Child {
    /// Starts the program of `image` for `guest`.
    fn start(
        image: &NativeImage,
        guest: &mut Guest,
        connected: Connected,
    ) -> Result<Self, NotStarted> {
        match &image.runs {
            Runs::Live(children) => {
                let command = children.command(&image.program, guest)?;
                let (bell, pid) = (guest.bell(), Arc::new(AtomicU32::new(guest.pid().0)));
                let ring = {
                    let (bell, pid) = (bell.clone(), Arc::clone(&pid));
                    move || bell.ring(Pid(pid.load(Ordering::SeqCst)))
                };
                let child = PolledChild::spawn(command, connected, ring)?;
                bell.attend(guest.pid(), Box::new(child.is_idle()));
                let charges_time = children.charges_time();
                let hang_ups = [1, 2].map(|fd| Arc::new(child.on_hang_up(fd)) as Arc<OnHangUp>);
                let live = LiveChild { child, charges_time, bell, pid, hang_ups };
                live.follow_readers(guest);
                Ok(Self::Live(live))
            }
            Runs::Left(_) => Err("it has ended".to_owned().into()),
            Runs::Taped(children) => {
                let is_failure = |event: &NativeEvent| matches!(event, NativeEvent::Failed { .. });
                match children.next_if(guest.pid(), is_failure) {
                    Some(NativeEvent::Failed { message }) => Err(message.into()),
                    _ => Ok(Self::Taped(Arc::clone(children))),
                }
            }
        }
    }

    /// The next event, and whether its duration moves the clock.
    fn next(&self, pid: Pid) -> Option<(ChildEvent, bool)> {
        match self {
            Self::Live(live) => Some((live.child.next()?, live.charges_time)),
            Self::Taped(children) => children.next(pid),
        }
    }

    fn give(&self, bytes: Vec<u8>) {
        match self {
            Self::Live(live) if bytes.is_empty() => live.child.close_input(),
            Self::Live(live) => live.child.give(bytes),
            Self::Taped(_) => {}
        }
    }

    fn watch_stdin(&self, guest: &Guest) -> Option<Watch> {
        match self {
            Self::Live(live) => guest.watch_stdin(live.child.on_readable()),
            Self::Taped(_) => None,
        }
    }

    /// Rings for `guest` from now on.
    fn hand_to(&self, guest: &Guest) {
        if let Self::Live(live) = self {
            live.ring_for(guest.pid());
        }
    }
}

/// A process that stands for a native program, or for the processes that one left behind.
struct Bridge {
    guest: Guest,
    program: String,
    profile: Option<String>,
    /// `None` once handed to another process.
    child: Option<Child>,
    /// If the clock is virtual.
    started_ns: Option<u64>,
    /// Whether the program can be given more input.
    wants_input: bool,
    stdin: Stdin,
    /// The last bytes that it was given.
    given: VecDeque<u8>,
    /// Whether it was told that its output cannot be written.
    has_lost_output: bool,
}

/// State of the run's standard input, if the program reads that.
enum Stdin {
    Unknown,
    /// Waiting for it to become readable.
    Watched {
        _watch: Option<Watch>,
    },
    Readable,
}

/// Why the loop ends.
enum Leave {
    Stop(Stop),
    Error(String),
}

impl From<Stop> for Leave {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

async fn process(image: NativeImage, mut guest: Guest) -> Ended {
    if let Err(stop) = guest.begin() {
        return Ended { guest, outcome: Ok(stop.into()) };
    }
    if let Some(outcome) = guest.repeat_lack() {
        return Ended { guest, outcome: Ok(outcome) };
    }
    // A broken pipe raises `SIGPIPE` in the program, not here.
    guest.ignore_sigpipe(true);
    if guest.machine().kernel_version() >= 11 {
        guest.acts_outside();
    }
    let started_ns = guest.virtual_now_ns();
    let is_left = matches!(image.runs, Runs::Left(_));
    let has_input = !is_left && guest.input_state(0).is_some();
    let connected = Connected { has_input, is_merged: guest.is_same_output(1, 2) };
    let started = match image.runs {
        Runs::Left(child) => {
            child.hand_to(&guest);
            Ok(child)
        }
        _ => Child::start(&image, &mut guest, connected),
    };
    let NativeImage { program, profile, .. } = image;
    let child = match started {
        Ok(child) => child,
        Err(NotStarted { message, exhausted }) => {
            if exhausted {
                let outcome = Ok(guest.end_for_lack(&RunError::Host { program, message }));
                return Ended { guest, outcome };
            }
            guest.tape_native(|_| NativeEvent::Failed { message: message.clone() });
            return Ended { guest, outcome: Err(RunError::Host { program, message }) };
        }
    };
    let mut bridge = Bridge {
        guest,
        program,
        profile,
        child: Some(child),
        started_ns,
        wants_input: has_input,
        stdin: Stdin::Unknown,
        given: VecDeque::new(),
        has_lost_output: false,
    };
    let outcome = match bridge.live().await {
        Ok(outcome) => Ok(outcome),
        Err(Leave::Stop(stop)) => {
            bridge.ask_to_end(stop);
            Ok(stop.into())
        }
        Err(Leave::Error(message)) => Err(RunError::Host { program: bridge.program, message }),
    };
    Ended { guest: bridge.guest, outcome }
}

impl Bridge {
    async fn live(&mut self) -> Result<Outcome, Leave> {
        loop {
            let pipe = self.feed().await?;
            if let Err(Fault::Stop(stop)) = self.guest.check_tape() {
                return Err(stop.into());
            }
            if let Fault::Stop(stop) = self.guest.wait_for_host(pipe) {
                return Err(stop.into());
            }
            self.guest.pause().await?;
            if !self.guest.was_rung() {
                continue;
            }
            let next = self.child.as_ref().and_then(|child| child.next(self.guest.pid()));
            let Some((event, is_charged)) = next else { continue };
            match event {
                ChildEvent::Taken => {
                    self.guest.tape_native(|_| NativeEvent::Taken);
                    self.wants_input = true;
                }
                ChildEvent::Readable => {
                    self.guest.tape_native(|_| NativeEvent::Readable);
                    self.stdin = Stdin::Readable;
                }
                ChildEvent::Output { fd, bytes } => self.write(fd, bytes).await?,
                ChildEvent::Ended(end) => return self.end(&end, is_charged),
                ChildEvent::Closed => {
                    self.guest.tape_native(|_| NativeEvent::Closed);
                    return Ok(Outcome::Exited(0));
                }
                ChildEvent::Failed(message) => {
                    self.guest.tape_native(|_| NativeEvent::Failed { message: message.clone() });
                    return Err(Leave::Error(message));
                }
            }
        }
    }

    /// Gives the program more input, if it can take it. Returns the descriptor of a pipe to wait
    /// for.
    async fn feed(&mut self) -> Result<Option<u32>, Leave> {
        if !self.wants_input {
            return Ok(None);
        }
        match self.guest.input_state(0) {
            Some(InputState::Pipe) => return Ok(Some(0)),
            Some(InputState::Host) => match self.stdin {
                Stdin::Readable => self.stdin = Stdin::Unknown,
                Stdin::Watched { .. } => return Ok(None),
                Stdin::Unknown => {
                    let watch = self.child.as_ref().and_then(|it| it.watch_stdin(&self.guest));
                    self.stdin = Stdin::Watched { _watch: watch };
                    return Ok(None);
                }
            },
            _ => {}
        }
        self.wants_input = false;
        let mut bytes = vec![0; PIECE_BYTES];
        let range = Range { start: 0, len: bytes.len() };
        let count = self.guest.call("fd_read", |guest| {
            guest.fd_read(0, &mut Buffers::new(&mut bytes, [range].into_iter().collect()))
        });
        match count.await? {
            Ok(count) => bytes.truncate(count as usize),
            Err(errno) => {
                return Err(Leave::Error(format!("cannot read its input: {errno}")));
            }
        }
        let (content_hash, len_bytes) = (Digest::of(&bytes), bytes.len() as u64);
        self.guest.tape_native(|_| NativeEvent::Input { content_hash, len_bytes });
        self.given.extend(&bytes);
        self.given.drain(..self.given.len().saturating_sub(UNREAD_BYTES_MAX));
        if let Some(child) = &self.child {
            child.give(bytes);
        }
        Ok(None)
    }

    /// Writes output of the program to the process's descriptor `fd`.
    async fn write(&mut self, fd: u32, mut bytes: Vec<u8>) -> Result<(), Leave> {
        let pid = self.guest.pid().0;
        self.guest.tape_native(|tape| NativeEvent::Output {
            fd,
            bytes: tape.stream_payload(pid, fd, &bytes),
        });
        let mut done = 0;
        while done < bytes.len() {
            let range = Range { start: done, len: bytes.len() - done };
            let count = self.guest.call("fd_write", |guest| {
                guest.fd_write(fd, &Buffers::new(&mut bytes, [range].into_iter().collect()))
            });
            match count.await? {
                Ok(count) if count > 0 => done += count as usize,
                Err(Errno::Pipe) => return self.hang_up(fd),
                Ok(_) => return Err(Leave::Error("its output is not accepted".to_owned())),
                Err(errno) => return self.lose_output(fd, errno).await,
            }
        }
        Ok(())
    }

    /// Output `fd` cannot be written, because the disk is full, for instance. A pipe cannot say so: for the program it is
    /// as if its reader had ended.
    async fn lose_output(&mut self, fd: u32, errno: Errno) -> Result<(), Leave> {
        if self.guest.machine().kernel_version() < 11 {
            return Err(Leave::Error(format!("cannot write its output: {errno}")));
        }
        if !std::mem::replace(&mut self.has_lost_output, true) && fd != 2 {
            let text = format!("belljar: cannot write the output of {}: {errno}\n", self.program);
            let mut bytes = text.into_bytes();
            let range = Range { start: 0, len: bytes.len() };
            let told = self.guest.call("fd_write", |guest| {
                guest.fd_write(2, &Buffers::new(&mut bytes, [range].into_iter().collect()))
            });
            // There is nowhere else to say it.
            let _ = told.await?;
        }
        self.hang_up(fd)
    }

    /// Output `fd` has no reader any more.
    fn hang_up(&self, fd: u32) -> Result<(), Leave> {
        match &self.child {
            Some(Child::Live(live)) => live.child.hang_up(fd),
            Some(Child::Taped(children))
                if self.guest.machine().kernel_version() < 4
                    && !children.has_more(self.guest.pid()) =>
            {
                return Err(Stop::Signalled(Signal::PIPE).into());
            }
            Some(Child::Taped(_)) | None => {}
        }
        Ok(())
    }

    fn end(&mut self, end: &ChildEnd, is_charged: bool) -> Result<Outcome, Leave> {
        let ChildEnd { exit_code, signal, duration_ns, unread_bytes, left_open } = *end;
        let started_ns = self.started_ns.filter(|_| is_charged);
        let charged = started_ns.is_some();
        self.guest.tape_native(|_| NativeEvent::Ended {
            exit_code,
            signal,
            duration_ns,
            charged,
            unread_bytes,
            left_open,
        });
        if left_open && let Some(child) = self.child.take() {
            self.leave(child);
        }
        let unread = usize::try_from(unread_bytes).unwrap_or(usize::MAX).min(self.given.len());
        let mut unread = self.given.split_off(self.given.len() - unread);
        self.guest.give_back(0, unread.make_contiguous());
        if let Some(started_ns) = started_ns
            && let Err(Fault::Stop(stop)) =
                self.guest.pass_time(started_ns.saturating_add(duration_ns))
        {
            return Err(stop.into());
        }
        Ok(outcome_of(exit_code, signal))
    }
}

impl Bridge {
    /// A signal, the end of the run or a limit lets the program clean up, but for `SIGKILL` of another process.
    fn ask_to_end(&self, stop: Stop) {
        let Some(Child::Live(live)) = &self.child else { return };
        let signal = match stop {
            _ if self.guest.machine().run_has_ended() => Signal::TERM,
            Stop::Signalled(Signal::KILL) => return,
            Stop::Signalled(signal) => signal,
            _ => Signal::TERM,
        };
        live.child.end_by(signal.number());
    }

    /// Starts a process that writes the output of processes left behind. At the limit of processes
    /// they are killed instead, with the group.
    fn leave(&mut self, child: Child) {
        let (program, profile) = (self.program.clone(), self.profile.clone());
        let request = SpawnRequest {
            args: vec![program.clone().into_bytes()],
            program: program.clone(),
            inherit: true,
            actions: vec![FdAction::Close(0)],
            ..SpawnRequest::default()
        };
        let image = NativeImage { program, profile, runs: Runs::Left(child) };
        // The limit has been noted.
        let _ = self.guest.spawn(image.found(), request);
    }
}

fn outcome_of(exit_code: Option<u32>, signal: Option<u32>) -> Outcome {
    match (exit_code, signal.and_then(Signal::from_number)) {
        (Some(code), _) => Outcome::Exited(code),
        (None, Some(signal)) => Outcome::Signalled(signal),
        // A signal unknown to the kernel: the code that a shell shows. A tape may hold any number.
        (None, None) => Outcome::Exited(128_u32.saturating_add(signal.unwrap_or(0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_signal_becomes_exit_code() {
        assert_eq!(outcome_of(None, Some(64)), Outcome::Exited(192));
        assert_eq!(outcome_of(None, Some(u32::MAX)), Outcome::Exited(u32::MAX));
        assert_eq!(outcome_of(None, Some(9)), Outcome::Signalled(Signal::KILL));
    }
}
