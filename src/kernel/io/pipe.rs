//! Pipes.

use std::collections::VecDeque;
use std::fmt;
use std::io::Read;
use std::sync::Weak;

use crate::base::errno::Errno;
use crate::kernel::pid::Pid;

/// Capacity of a pipe in bytes, as on Linux.
pub const PIPE_BYTES: usize = 64 << 10;

/// Largest write to a pipe that is atomic, in bytes (POSIX `PIPE_BUF`).
pub const PIPE_BUF: usize = 4096;

/// The number of a pipe of a machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PipeId(u32);

impl PipeId {
    /// The number, for messages and tapes.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// One end of a pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The read end.
    Reader,
    /// The write end.
    Writer,
}

/// Called when a pipe has no reader any more.
pub type OnHangUp = dyn Fn() + Send + Sync;

#[derive(Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    readers: Side,
    writers: Side,
    on_hang_up: Vec<Weak<OnHangUp>>,
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Pipe");
        shown.field("bytes", &self.bytes).field("readers", &self.readers);
        shown.field("writers", &self.writers).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Side {
    is_closed: bool,
    waiting: Vec<Pid>,
}

/// The pipes of a machine. Numbers are not used again, so that they are unique on a tape.
#[derive(Debug, Default)]
pub struct Pipes {
    open: std::collections::BTreeMap<u32, Pipe>,
    next: u32,
}

impl Pipes {
    /// The number of pipes with an open end.
    pub fn count(&self) -> usize {
        self.open.len()
    }

    /// Creates a pipe with both ends open.
    pub fn create(&mut self) -> PipeId {
        let id = self.next;
        self.next = id.wrapping_add(1);
        self.open.insert(id, Pipe::default());
        PipeId(id)
    }

    fn pipe(&mut self, id: PipeId) -> &mut Pipe {
        self.open.get_mut(&id.0).expect("a description keeps its pipe")
    }

    /// Takes up to `buf.len()` bytes; returns the number and the writers to wake. `None` if it is empty;
    /// 0 bytes at the end.
    pub fn read(&mut self, id: PipeId, buf: &mut [u8]) -> Option<(usize, Vec<Pid>)> {
        let pipe = self.pipe(id);
        if pipe.bytes.is_empty() {
            return pipe.writers.is_closed.then(|| (0, Vec::new()));
        }
        let mut count = 0;
        while count < buf.len() {
            match pipe.bytes.read(&mut buf[count..]) {
                Ok(0) | Err(_) => break,
                Ok(more) => count += more,
            }
        }
        Some((count, std::mem::take(&mut pipe.writers.waiting)))
    }

    /// Adds as many of `bytes` as there is room for; returns the number and the readers to wake. `None` if
    /// it is full.
    ///
    /// # Errors
    /// `EPIPE` if the read end is closed.
    pub fn write(&mut self, id: PipeId, bytes: &[u8]) -> Result<Option<(usize, Vec<Pid>)>, Errno> {
        let pipe = self.pipe(id);
        if pipe.readers.is_closed {
            return Err(Errno::Pipe);
        }
        let room = pipe.room();
        if room == 0 {
            return Ok(None);
        }
        let count = bytes.len().min(room);
        pipe.bytes.extend(&bytes[..count]);
        Ok(Some((count, std::mem::take(&mut pipe.readers.waiting))))
    }

    /// Puts `bytes`, which were read last, back, even beyond the capacity; returns the readers to wake.
    pub fn give_back(&mut self, id: PipeId, bytes: &[u8]) -> Vec<Pid> {
        let pipe = self.pipe(id);
        for byte in bytes.iter().rev() {
            pipe.bytes.push_front(*byte);
        }
        std::mem::take(&mut pipe.readers.waiting)
    }

    /// Bytes that can be read at once, and whether the write end is closed.
    pub fn readable(&self, id: PipeId) -> (u64, bool) {
        let pipe = self.open.get(&id.0);
        pipe.map_or((0, true), |pipe| (pipe.bytes.len() as u64, pipe.writers.is_closed))
    }

    /// Bytes that can be written at once, and whether the read end is closed.
    pub fn writable(&self, id: PipeId) -> (u64, bool) {
        let room = |pipe: &Pipe| (pipe.room() as u64, pipe.readers.is_closed);
        self.open.get(&id.0).map_or((0, true), room)
    }

    /// Notes that `pid` waits at `end`.
    pub fn wait(&mut self, id: PipeId, end: End, pid: Pid) {
        let waiting = &mut self.pipe(id).side(end).waiting;
        if !waiting.contains(&pid) {
            waiting.push(pid);
        }
    }

    /// Has `call` called once the read end is closed, at once if it is; for what is outside of the machine, as it wakes
    /// no process.
    pub fn on_hang_up(&mut self, id: PipeId, call: &Weak<OnHangUp>) {
        let pipe = self.pipe(id);
        if pipe.readers.is_closed {
            if let Some(call) = call.upgrade() {
                call();
            }
            return;
        }
        // One pipe may have any number of writers, one after the other.
        pipe.on_hang_up.retain(|other| other.strong_count() > 0);
        pipe.on_hang_up.push(Weak::clone(call));
    }

    /// Closes `end`; returns the processes that wait at the other end.
    pub fn close(&mut self, id: PipeId, end: End) -> Vec<Pid> {
        let pipe = self.pipe(id);
        pipe.side(end).is_closed = true;
        if pipe.readers.is_closed {
            pipe.bytes = VecDeque::new();
            let calls = std::mem::take(&mut pipe.on_hang_up);
            for call in calls.iter().filter_map(Weak::upgrade) {
                call();
            }
        }
        let other = match end {
            End::Reader => End::Writer,
            End::Writer => End::Reader,
        };
        let waiting = std::mem::take(&mut pipe.side(other).waiting);
        if pipe.readers.is_closed && pipe.writers.is_closed {
            self.open.remove(&id.0);
        }
        waiting
    }
}

impl Pipe {
    fn room(&self) -> usize {
        PIPE_BYTES.saturating_sub(self.bytes.len())
    }

    fn side(&mut self, end: End) -> &mut Side {
        match end {
            End::Reader => &mut self.readers,
            End::Writer => &mut self.writers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_their_order_and_wake_waiting_processes() {
        let mut pipes = Pipes::default();
        let id = pipes.create();
        let mut buf = [0; 8];
        assert_eq!(pipes.read(id, &mut buf), None);
        pipes.wait(id, End::Reader, Pid(7));
        assert_eq!(pipes.write(id, b"hello"), Ok(Some((5, vec![Pid(7)]))));
        assert_eq!(pipes.readable(id), (5, false));
        assert_eq!(pipes.read(id, &mut buf[..2]), Some((2, vec![])));
        assert_eq!(pipes.read(id, &mut buf[2..]), Some((3, vec![])));
        assert_eq!(&buf[..5], b"hello");
    }

    #[test]
    fn write_takes_as_many_bytes_as_fit() {
        let mut pipes = Pipes::default();
        let id = pipes.create();
        let long = vec![1; PIPE_BYTES - 10];
        assert_eq!(pipes.write(id, &long), Ok(Some((PIPE_BYTES - 10, vec![]))));
        assert_eq!(pipes.writable(id), (10, false));
        assert_eq!(pipes.write(id, &[2; 11]), Ok(Some((10, vec![]))));
        assert_eq!(pipes.write(id, &[2; 1]), Ok(None));
    }

    #[test]
    fn bytes_given_back_are_read_first_and_may_exceed_capacity() {
        let mut pipes = Pipes::default();
        let id = pipes.create();
        pipes.write(id, &vec![2; PIPE_BYTES]).unwrap();
        pipes.wait(id, End::Reader, Pid(4));
        assert_eq!(pipes.give_back(id, &[0, 1]), [Pid(4)]);
        assert_eq!((pipes.writable(id), pipes.write(id, &[3])), ((0, false), Ok(None)));
        let mut buf = [9; 3];
        assert_eq!(pipes.read(id, &mut buf), Some((3, vec![])));
        assert_eq!(buf, [0, 1, 2]);
    }

    #[test]
    fn closed_ends_give_end_of_file_and_broken_pipe() {
        let mut pipes = Pipes::default();
        let id = pipes.create();
        pipes.write(id, b"x").unwrap();
        assert_eq!(pipes.close(id, End::Writer), []);
        let mut buf = [0; 2];
        assert_eq!(pipes.read(id, &mut buf), Some((1, vec![])));
        assert_eq!(pipes.read(id, &mut buf), Some((0, vec![])));
        pipes.close(id, End::Reader);
        assert_eq!(pipes.count(), 0);
        let id = pipes.create();
        pipes.wait(id, End::Writer, Pid(3));
        assert_eq!(pipes.close(id, End::Reader), [Pid(3)]);
        assert_eq!(pipes.write(id, b"x"), Err(Errno::Pipe));
    }
}
