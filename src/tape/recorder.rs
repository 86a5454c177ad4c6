//! Puts records on a tape.

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::hash::Hasher;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::desync::Desync;
use super::payload::{INLINE_BYTES_MAX, Payload};
use super::record::{Kind, Phase, Record};
use super::redact::Redaction;
use crate::base::digest::{Digest, DigestHasher};
use crate::base::disk::DiskError;
use crate::store::{StoreError, read_slice};

/// A tape could not be written or read.
#[derive(thiserror::Error)]
pub enum TapeError {
    /// A line is not what the format says.
    #[error("{tape}, line {line}: {message}")]
    Line {
        /// The tape.
        tape: String,
        /// The line, from 1.
        line: u64,
        /// What is wrong, and what was expected.
        message: String,
    },
    /// A tape of a format that this version does not know.
    #[error("{tape} has version {found}; this belljar reads {known}: use a newer one")]
    Version {
        /// The tape.
        tape: String,
        /// Its version.
        found: super::header::Version,
        /// What can be read.
        known: super::header::Version,
    },
    /// The tape is full.
    #[error("the tape is full: what comes takes more than {limit_bytes} bytes")]
    Full {
        /// What it can take.
        limit_bytes: u64,
    },
    /// A record is longer than a line that can be read.
    #[error(
        "cannot record a call with so much text: its record exceeds the limit of {limit_bytes} bytes"
    )]
    LongRecord {
        /// The limit.
        limit_bytes: usize,
    },
    /// A content was not the same when it was read again to be kept.
    #[error("{path} changed while it was recorded: keep the files of a recorded run still")]
    Changed {
        /// The file.
        path: String,
    },
    /// What happens is not what the tape says.
    #[error(transparent)]
    Desync(Box<Desync>),
    /// A process that no tape can describe.
    #[error("cannot record {what}: it is not UTF-8")]
    NotText {
        /// What is not text.
        what: &'static str,
    },
    /// A module was to be kept that holds a secret.
    #[error(
        "the module {name} is not put on the tape: it holds what the rule {rule} takes for a secret"
    )]
    ModuleWithheld {
        /// The program's name.
        name: String,
        /// The rule.
        rule: String,
    },
    /// Whoever wrote the tape has given it up.
    #[error("the tape was given up: its session ended without being finalized")]
    Abandoned,
    /// The store beside the tape.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

crate::base::readable::readable!(TapeError);

/// Reads a content at an offset; answers 0 at its end.
pub type ReadAt<'a> = &'a mut dyn FnMut(u64, &mut [u8]) -> io::Result<usize>;

/// Bytes of a content that are in memory at a time.
const PIECE_BYTES: usize = 256 << 10;

/// Bytes before a piece that rules for secrets look at again: one may lie across two pieces.
const OVERLAP_BYTES: usize = 4 << 10;

/// Where records go: memory, a file, or a player that compares them with an older tape.
pub trait TapeSink: Send {
    /// Takes the next record.
    ///
    /// # Errors
    /// [`TapeError`]: `Full`, `Disk`; `Desync` from a player.
    fn push(&mut self, record: Record) -> Result<(), TapeError>;

    /// Keeps `bytes`; answers their digest.
    ///
    /// # Errors
    /// [`TapeError`]: `Full`, `Store`.
    fn blob(&mut self, bytes: &[u8]) -> Result<Digest, TapeError> {
        let digest = Digest::of(bytes);
        self.keep(digest, bytes.len() as u64, &mut read_slice(bytes))?;
        Ok(digest)
    }

    /// Keeps the content with `digest`, which is `len_bytes` long and comes piece by piece.
    ///
    /// # Errors
    /// [`TapeError`]: `Full`, `Store`.
    fn keep(&mut self, digest: Digest, len_bytes: u64, read: ReadAt<'_>) -> Result<(), TapeError> {
        let _ = (digest, len_bytes, read);
        Ok(())
    }

    /// The content with `digest`, if it is kept here, to read.
    ///
    /// # Errors
    /// [`TapeError::Disk`].
    fn kept(&self, digest: Digest) -> Result<Option<File>, TapeError> {
        let _ = digest;
        Ok(None)
    }

    /// Bytes that it can still take.
    fn room_bytes(&self) -> u64 {
        u64::MAX
    }

    /// Ends the tape and makes it last.
    ///
    /// # Errors
    /// [`TapeError`]: `Disk`; `Desync` from a player that expected more.
    fn finish(&mut self) -> Result<(), TapeError>;
}

/// A content as a tape has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapedContent {
    /// The digest of all of it.
    pub content_hash: Digest,
    /// How long it is.
    pub len_bytes: u64,
    /// The rule that kept it off the tape.
    pub withheld_by: Option<String>,
}

/// The pen: stamps what happens and hands it to a [`TapeSink`]. Clones write to the same tape.
///
/// Nothing that is recorded fails. The first error is kept, nothing is written after it, and
/// whoever runs the session asks for it: see [`Recorder::failed`].
#[derive(Clone)]
pub struct Recorder(Arc<Mutex<State>>);

struct State {
    sink: Box<dyn TapeSink>,
    redaction: Redaction,
    /// The end of what came on each stream of each process, by their numbers.
    stream_ends: HashMap<(u32, u32), Vec<u8>>,
    seq: u64,
    phase: Phase,
    virtual_time_ns: u64,
    monotonic_ns: u64,
    error: Option<TapeError>,
    failed: bool,
}

impl State {
    fn attempt<T>(&mut self, done: Result<T, TapeError>) -> Option<T> {
        done.map_err(|error| {
            self.failed = true;
            self.error.get_or_insert(error);
        })
        .ok()
    }
}

impl Recorder {
    /// A recorder on `sink`.
    pub fn new(sink: impl TapeSink + 'static, redaction: Redaction) -> Self {
        Self(Arc::new(Mutex::new(State {
            sink: Box::new(sink),
            redaction,
            stream_ends: HashMap::new(),
            seq: 0,
            phase: Phase::Setup,
            virtual_time_ns: 0,
            monotonic_ns: 0,
            error: None,
            failed: false,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is whole between statements, whoever panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what the session's clocks show from now on: nanoseconds since the Unix epoch, and
    /// nanoseconds of its monotonic clock.
    pub fn set_time(&self, virtual_time_ns: u64, monotonic_ns: u64) {
        let mut state = self.lock();
        (state.virtual_time_ns, state.monotonic_ns) = (virtual_time_ns, monotonic_ns);
    }

    /// Sets the part of the session that has begun.
    pub fn set_phase(&self, phase: Phase) {
        self.lock().phase = phase;
    }

    /// Records `kind` as happening now. Its texts lose their secrets here, whoever made it.
    pub fn push(&self, mut kind: Kind) {
        let mut state = self.lock();
        if state.failed {
            return;
        }
        kind.withhold(&state.redaction);
        let record = Record {
            seq: state.seq,
            phase: state.phase,
            // Nanoseconds in 64 bits are fewer milliseconds than that.
            virtual_time_ms: (state.virtual_time_ns / 1_000_000).cast_signed(),
            monotonic_ms: state.monotonic_ns / 1_000_000,
            kind,
        };
        state.seq += 1;
        let done = state.sink.push(record);
        state.attempt(done);
    }

    /// Sets what the session's wall clock shows from now on, in nanoseconds since the Unix epoch.
    pub fn set_realtime(&self, virtual_time_ns: u64) {
        self.lock().virtual_time_ns = virtual_time_ns;
    }

    /// What the session's monotonic clock shows, in milliseconds.
    pub fn monotonic_ms(&self) -> u64 {
        self.lock().monotonic_ns / 1_000_000
    }

    /// Sets what the session's monotonic clock shows from now on, and moves the other with it.
    pub fn set_monotonic(&self, monotonic_ns: u64) {
        let mut state = self.lock();
        let passed = monotonic_ns.saturating_sub(state.monotonic_ns);
        state.virtual_time_ns = state.virtual_time_ns.saturating_add(passed);
        state.monotonic_ns = monotonic_ns;
    }

    /// Whether the tape could take another `bytes` bytes; if not, it has failed.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        let mut state = self.lock();
        let room = state.sink.room_bytes();
        if bytes > room {
            state.attempt(Err::<(), _>(TapeError::Full { limit_bytes: room }));
        }
        !state.failed
    }

    /// Notes that something cannot be recorded.
    pub fn fail(&self, error: TapeError) {
        self.lock().attempt(Err::<(), _>(error));
    }

    /// `bytes` as a record carries them: inline if they are short text, else in the store. Text
    /// loses its secrets; other bytes with a secret are named and not kept.
    pub fn payload(&self, bytes: &[u8]) -> Payload {
        Self::payload_after(&mut self.lock(), &[], bytes)
    }

    /// As [`Recorder::payload`], for bytes of the stream `fd` of the process `pid`: a secret may
    /// come in pieces. Of one that does, what came before anything could be seen of it is on the
    /// tape, and what follows is not.
    pub fn stream_payload(&self, pid: u32, fd: u32, bytes: &[u8]) -> Payload {
        let mut state = self.lock();
        let mut end = state.stream_ends.remove(&(pid, fd)).unwrap_or_default();
        let payload = Self::payload_after(&mut state, &end, bytes);
        end.extend_from_slice(&bytes[bytes.len().saturating_sub(OVERLAP_BYTES)..]);
        end.drain(..end.len().saturating_sub(OVERLAP_BYTES));
        state.stream_ends.insert((pid, fd), end);
        payload
    }

    fn payload_after(state: &mut State, before: &[u8], bytes: &[u8]) -> Payload {
        if bytes.len() <= INLINE_BYTES_MAX
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            return Payload::Inline { text: state.redaction.redact_after(before, text) };
        }
        let len_bytes = bytes.len() as u64;
        let across = &bytes[..bytes.len().min(OVERLAP_BYTES)];
        let found = state.redaction.find_across(before, across);
        if let Some(rule) = found.or_else(|| state.redaction.find(bytes)) {
            let withheld_by = Some(rule.to_owned());
            return Payload::Stored { content_hash: Digest::of(bytes), len_bytes, withheld_by };
        }
        let content_hash = Self::keep(state, bytes);
        Payload::Stored { content_hash, len_bytes, withheld_by: None }
    }

    /// Keeps the content of the file `path`, which is of any length and read twice, unless it holds
    /// a secret. If it is not the same the second time, the tape has failed. To read it the first time
    /// may be recorded as well.
    ///
    /// # Errors
    /// As `read` answers, which is at an offset, and 0 at the end.
    pub fn content_from<E: Into<Box<dyn Error + Send + Sync>>>(
        &self,
        path: &str,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
    ) -> Result<TapedContent, E> {
        let mut hasher = DigestHasher::default();
        let mut window = vec![0; OVERLAP_BYTES + PIECE_BYTES];
        let (mut len_bytes, mut overlap, mut withheld_by) = (0, 0, None);
        loop {
            // Not under the lock: that a file is opened to be read is recorded as well.
            let count = read(len_bytes, &mut window[overlap..overlap + PIECE_BYTES])?;
            if count == 0 {
                break;
            }
            hasher.write(&window[overlap..overlap + count]);
            len_bytes += count as u64;
            let end = overlap + count;
            if withheld_by.is_none() {
                withheld_by = self.lock().redaction.find(&window[..end]).map(str::to_owned);
            }
            overlap = end.min(OVERLAP_BYTES);
            window.copy_within(end - overlap..end, 0);
        }
        let content_hash = hasher.digest();
        let mut state = self.lock();
        if !state.failed && withheld_by.is_none() {
            // What a file has grown by in the meantime is no part of what was read.
            let mut again = |offset: u64, buf: &mut [u8]| {
                let left = usize::try_from(len_bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
                let piece = buf.len().min(left);
                if piece == 0 { Ok(0) } else { read(offset, &mut buf[..piece]) }
                    .map_err(io::Error::other)
            };
            let kept = state.sink.keep(content_hash, len_bytes, &mut again);
            let kept = kept.map_err(|error| match error {
                TapeError::Store(StoreError::Damaged { .. }) => {
                    TapeError::Changed { path: path.to_owned() }
                }
                error => error,
            });
            state.attempt(kept);
        }
        Ok(TapedContent { content_hash, len_bytes, withheld_by })
    }

    /// The content with `digest` from the store of the tape, if it has one and keeps it.
    pub fn kept(&self, digest: Digest) -> Option<File> {
        let mut state = self.lock();
        let kept = state.sink.kept(digest);
        state.attempt(kept).flatten()
    }

    fn keep(state: &mut State, bytes: &[u8]) -> Digest {
        if state.failed {
            return Digest::of(bytes);
        }
        let kept = state.sink.blob(bytes);
        state.attempt(kept).unwrap_or_else(|| Digest::of(bytes))
    }

    /// A variable `NAME=value` as it may stand on the tape.
    pub fn redact_variable(&self, variable: &str) -> String {
        self.lock().redaction.redact_variable(variable)
    }

    /// Text as it may stand on the tape.
    pub fn redact(&self, text: &str) -> String {
        self.lock().redaction.redact(text)
    }

    /// How many records there are.
    pub fn records(&self) -> u64 {
        self.lock().seq
    }

    /// Whether the tape has failed. What runs must then end.
    pub fn failed(&self) -> bool {
        self.lock().failed
    }

    /// Gives the tape up, for all clones: what was written of it is removed, and nothing more is
    /// recorded. One that is finished stays as it is.
    pub fn abandon(&self) {
        let mut state = self.lock();
        state.attempt(Err::<(), _>(TapeError::Abandoned));
        // Nothing reaches it: the tape has failed.
        state.sink = Box::new(MemoryTape::default());
    }

    /// Ends the tape and makes it last; answers how many records it has.
    ///
    /// # Errors
    /// [`TapeError`]: the first that occurred.
    pub fn finish(&self) -> Result<u64, TapeError> {
        let mut state = self.lock();
        if !state.failed {
            let done = state.sink.finish();
            state.attempt(done);
        }
        match state.error.take() {
            None => Ok(state.seq),
            Some(error) => Err(error),
        }
    }
}

/// A tape in memory.
#[derive(Clone, Default)]
pub struct MemoryTape(Arc<Mutex<Vec<Record>>>);

impl MemoryTape {
    /// What was recorded.
    pub fn records(&self) -> Vec<Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl TapeSink for MemoryTape {
    fn push(&mut self, record: Record) -> Result<(), TapeError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(record);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), TapeError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_stamped_and_numbered() {
        let tape = MemoryTape::default();
        let recorder = Recorder::new(tape.clone(), Redaction::default());
        recorder.set_time(5_000_000, 1_999_999);
        recorder.push(Kind::ClockSleep { duration_ns: 1 });
        recorder.set_phase(Phase::Run);
        recorder.push(Kind::ClockSleep { duration_ns: 2 });
        let records = tape.records();
        assert_eq!((records[0].seq, records[1].seq), (0, 1));
        assert_eq!((records[0].virtual_time_ms, records[0].monotonic_ms), (5, 1));
        assert_eq!((records[0].phase, records[1].phase), (Phase::Setup, Phase::Run));
        assert_eq!(recorder.finish().unwrap(), 2);
    }

    #[test]
    fn payloads_stand_inline_or_in_the_store_or_nowhere() {
        let recorder = Recorder::new(MemoryTape::default(), Redaction::default());
        assert_eq!(recorder.payload(b"hi"), Payload::Inline { text: "hi".into() });
        let long = vec![b'x'; INLINE_BYTES_MAX + 1];
        let content_hash = Digest::of(&long);
        let stored =
            Payload::Stored { content_hash, len_bytes: long.len() as u64, withheld_by: None };
        assert_eq!(recorder.payload(&long), stored);
        assert!(matches!(recorder.payload(b"\xff"), Payload::Stored { len_bytes: 1, .. }));
        let secret = recorder.payload(b"\xff sk-abcdefghijklmnopqrstuvwxyz");
        assert!(
            matches!(secret, Payload::Stored { withheld_by: Some(rule), .. } if rule == "api-key")
        );
    }
}
