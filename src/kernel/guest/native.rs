//! What a process needs that stands for a program of the host: to wait for the host, and to know
//! what it can read and write without waiting.

use super::{Fault, Guest};
use crate::kernel::io::fd::{Description, OpenFile, OpenPipe};
use crate::kernel::io::host_stdin::Watch;
use crate::kernel::io::stdio::Input;
use crate::kernel::machine::clock::ClockId;
use crate::kernel::process::Wait;
use crate::kernel::process::wakeup::HostBell;

/// What there is to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputState {
    /// Something, or the end.
    Ready,
    /// Nothing until a pipe has something.
    Pipe,
    /// Whatever the host has, which may take its time.
    Host,
}

impl Guest {
    /// What rings for the process.
    pub fn bell(&self) -> HostBell {
        self.machine.run.bell.clone()
    }

    /// Has the process wait until the bell rings for it, or, if `reads` is the end of a pipe, until
    /// that can be read. To be followed by [`Guest::pause`].
    ///
    /// # Errors
    /// [`Fault::Wait`], always; [`Fault::Stop`] if the process was ended.
    pub fn wait_for_host(&mut self, reads: Option<u32>) -> Fault {
        let pipe = match reads.map(|fd| self.description(fd)) {
            Some(Ok(Description::PipeReader(OpenPipe { pipe, .. }))) => Some(*pipe),
            _ => None,
        };
        self.wait(Wait::Host(pipe), None)
    }

    /// Whether it was the bell that ended the last wait.
    pub fn was_rung(&self) -> bool {
        self.machine.run.processes.was_rung(self.pid)
    }

    /// What there is to read from `fd`; `None` if it is nothing to read from.
    pub fn input_state(&self, fd: u32) -> Option<InputState> {
        match self.description(fd).ok()? {
            Description::Stdin => Some(
                if self.machine.run.stdin_given_back.is_empty()
                    && self.machine.run.stdio.stdin.is_stream()
                {
                    InputState::Host
                } else {
                    InputState::Ready
                },
            ),
            Description::PipeReader(OpenPipe { pipe, .. }) => {
                let is_empty = self.machine.run.pipes.readable(*pipe) == (0, false);
                Some(if is_empty { InputState::Pipe } else { InputState::Ready })
            }
            Description::File(OpenFile { read: true, .. }) | Description::Device(_) => {
                Some(InputState::Ready)
            }
            _ => None,
        }
    }

    /// Whether what is written to `fd` reaches anybody.
    pub fn is_output(&self, fd: u32) -> bool {
        match self.description(fd) {
            Ok(Description::Stdout | Description::Stderr | Description::PipeWriter(_)) => true,
            Ok(Description::File(file)) => file.write,
            _ => false,
        }
    }

    /// Whether `one` and `other` lead to the same place, which somebody reads.
    pub fn is_same_output(&self, one: u32, other: u32) -> bool {
        let place = |fd| match self.description(fd).ok()? {
            Description::PipeWriter(end) => Some((Some(end.pipe), None)),
            _ => Some((None, Some(self.fds.get(fd).ok()?.description))),
        };
        self.is_output(one) && self.is_output(other) && place(one) == place(other)
    }

    /// Has `then` called once the run's standard input can be read, as long as what is answered is
    /// kept. Where nobody can tell, that is at once: a read waits instead.
    pub fn watch_stdin(&self, then: impl Fn() + Clone + Send + 'static) -> Option<Watch> {
        match self.machine.run.stdio.stdin {
            // A tape says itself when.
            Input::Taped(_) => None,
            Input::Host => Some(Watch::begin(then)),
            Input::Empty | Input::Bytes(_) | Input::Reader(_) => {
                then();
                None
            }
        }
    }

    /// Gives back `bytes`, the last that were read from `fd`, for whoever reads next.
    pub fn give_back(&mut self, fd: u32, bytes: &[u8]) {
        let machine = &mut *self.machine;
        let Ok(descriptor) = self.fds.get(fd) else { return };
        match machine.run.descriptions.get_mut(descriptor.description) {
            Description::Stdin => {
                for byte in bytes.iter().rev() {
                    machine.run.stdin_given_back.push_front(*byte);
                }
            }
            Description::PipeReader(OpenPipe { pipe, .. }) => {
                let readers = machine.run.pipes.give_back(*pipe, bytes);
                machine.run.processes.wake_all(readers);
            }
            Description::File(file) => file.offset = file.offset.saturating_sub(bytes.len() as u64),
            _ => {}
        }
    }

    /// What the monotonic clock shows, in nanoseconds, if it is a virtual one. Nobody is told.
    pub fn virtual_now_ns(&mut self) -> Option<u64> {
        let clock = &mut self.machine.clock;
        clock.is_virtual().then(|| clock.now(ClockId::Monotonic))
    }
}
