//! Standard streams that answer as on a tape.

use std::collections::VecDeque;

use super::capture::capture;
use crate::base::errno::Errno;
use crate::tape::{Payload, TapeStore};

/// Standard input, as a sequence of reads.
pub struct TapedInput {
    reads: VecDeque<Result<Payload, Errno>>,
    polls: VecDeque<bool>,
    store: TapeStore,
    /// The rest of the last read: the program may be another one.
    left: Vec<u8>,
}

impl TapedInput {
    /// Creates an input without records; contents are in `store`.
    pub fn new(store: TapeStore) -> Self {
        Self { reads: VecDeque::new(), polls: VecDeque::new(), store, left: Vec::new() }
    }

    /// Appends the answer of a read.
    pub fn learn_read(&mut self, answer: Result<Payload, Errno>) {
        self.reads.push_back(answer);
    }

    /// Appends the answer of a poll.
    pub fn learn_poll(&mut self, ready: bool) {
        self.polls.push_back(ready);
    }

    pub(super) fn may_block(&self) -> bool {
        !self.polls.is_empty()
    }

    pub(super) fn wait(&mut self) -> bool {
        self.polls.pop_front().unwrap_or(true)
    }

    /// # Errors
    /// As recorded; `EIO` for bytes that the tape does not have.
    pub(super) fn read(&mut self, buf: &mut [u8]) -> Result<usize, Errno> {
        if self.left.is_empty() {
            let Some(answer) = self.reads.pop_front() else { return Ok(0) };
            self.left = answer?.bytes(&self.store).map_err(|_| Errno::Io)?;
        }
        let count = self.left.len().min(buf.len());
        buf[..count].copy_from_slice(&self.left[..count]);
        self.left.drain(..count);
        Ok(count)
    }
}

/// Standard output or error.
#[derive(Default)]
pub struct TapedOutput {
    /// Writes that failed, by their number in the stream.
    failures: VecDeque<(u64, Errno)>,
    learned_writes: u64,
    writes: u64,
    captured: Vec<u8>,
}

impl TapedOutput {
    /// Appends the answer of a write.
    pub fn learn_write(&mut self, answer: Result<(), Errno>) {
        if let Err(errno) = answer {
            self.failures.push_back((self.learned_writes, errno));
        }
        self.learned_writes += 1;
    }

    /// # Errors
    /// As recorded; `ENOMEM` if the host has no memory left.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        let write = self.writes;
        self.writes += 1;
        if let Some((_, errno)) = self.failures.pop_front_if(|(failed, _)| *failed == write) {
            return Err(errno);
        }
        capture(&mut self.captured, bytes)
    }

    pub(super) fn into_captured(self) -> Vec<u8> {
        self.captured
    }
}
