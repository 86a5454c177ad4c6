//! Pipes: bytes from one process to another, in order.

use std::collections::VecDeque;
use std::io::Read;

use crate::base::errno::Errno;
use crate::kernel::pid::Pid;

/// Bytes that a pipe holds until somebody reads them, as on Linux.
pub const PIPE_BYTES: usize = 64 << 10;

/// Bytes that are written to a pipe in one piece or not at all (POSIX `PIPE_BUF`).
pub const PIPE_BUF: usize = 4096;

/// Which of a machine's pipes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PipeId(u32);

impl PipeId {
    /// Its number, for messages and tapes.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// One end of a pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The one that is read.
    Reader,
    /// The one that is written.
    Writer,
}

#[derive(Debug, Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    readers: Side,
    writers: Side,
}

#[derive(Debug, Default)]
struct Side {
    is_closed: bool,
    waiting: Vec<Pid>,
}

/// The pipes of a machine. Numbers are not used again, so that a tape tells pipes apart.
#[derive(Debug, Default)]
pub struct Pipes {
    open: std::collections::BTreeMap<u32, Pipe>,
    next: u32,
}

impl Pipes {
    /// The number of pipes of which an end is open.
    pub fn count(&self) -> usize {
        self.open.len()
    }

    /// A new pipe, both of whose ends are open.
    pub fn create(&mut self) -> PipeId {
        let id = self.next;
        self.next = id.wrapping_add(1);
        self.open.insert(id, Pipe::default());
        PipeId(id)
    }

    fn pipe(&mut self, id: PipeId) -> &mut Pipe {
        self.open.get_mut(&id.0).expect("a description keeps its pipe")
    }

    /// Takes up to `buf.len()` bytes, and says whom that may let write on. `None` if there are
    /// none yet; 0 if there will be none.
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

    /// Adds as many of `bytes` as there is room for, and says how many and who waits for them.
    /// `None` if there is no room.
    ///
    /// # Errors
    /// `EPIPE` if nobody can read any more.
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

    /// Puts `bytes` back that were read last, beyond what a pipe holds if need be; answers who waits
    /// to read.
    pub fn give_back(&mut self, id: PipeId, bytes: &[u8]) -> Vec<Pid> {
        let pipe = self.pipe(id);
        for byte in bytes.iter().rev() {
            pipe.bytes.push_front(*byte);
        }
        std::mem::take(&mut pipe.readers.waiting)
    }

    /// Bytes that can be read at once, and whether there will be no more.
    pub fn readable(&self, id: PipeId) -> (u64, bool) {
        let pipe = self.open.get(&id.0);
        pipe.map_or((0, true), |pipe| (pipe.bytes.len() as u64, pipe.writers.is_closed))
    }

    /// Bytes that can be written at once, and whether nobody will read them.
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

    /// Closes `end`; answers who waits at the other one.
    pub fn close(&mut self, id: PipeId, end: End) -> Vec<Pid> {
        let pipe = self.pipe(id);
        pipe.side(end).is_closed = true;
        if pipe.readers.is_closed {
            pipe.bytes = VecDeque::new();
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
    fn bytes_come_out_in_order_and_wake_who_waits() {
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
    fn a_pipe_takes_what_it_has_room_for() {
        let mut pipes = Pipes::default();
        let id = pipes.create();
        let long = vec![1; PIPE_BYTES - 10];
        assert_eq!(pipes.write(id, &long), Ok(Some((PIPE_BYTES - 10, vec![]))));
        assert_eq!(pipes.writable(id), (10, false));
        assert_eq!(pipes.write(id, &[2; 11]), Ok(Some((10, vec![]))));
        assert_eq!(pipes.write(id, &[2; 1]), Ok(None));
    }

    #[test]
    fn what_is_given_back_is_read_first_and_may_fill_a_pipe() {
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
    fn closed_ends_are_end_of_file_and_broken_pipe() {
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
