//! Records events on a tape.

use std::collections::HashMap;
use std::error::Error;
use std::hash::Hasher;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::desync::Desync;
use super::pack::PACKED_BYTES_MAX;
use super::payload::{INLINE_BYTES_MAX, Payload};
use super::record::{Kind, Phase, Record};
use super::redact::Redaction;
use super::store::Content;
use crate::base::digest::{Digest, DigestHasher};
use crate::base::disk::DiskError;
use crate::base::json_texts::change_texts;
use crate::store::StoreError;

/// A tape cannot be written or read.
#[derive(thiserror::Error)]
pub enum TapeError {
    /// A line is invalid.
    #[error("{tape}, line {line}: {message}")]
    Line {
        /// The tape.
        tape: String,
        /// From 1.
        line: u64,
        /// What is wrong, and what is expected.
        message: String,
    },
    /// The tape has another major version of the format.
    #[error("{tape} has version {found}, and this belljar reads {known}; use a newer belljar")]
    Version {
        /// The tape.
        tape: String,
        /// Its version.
        found: super::header::Version,
        /// The version that can be read.
        known: super::header::Version,
    },
    /// The next record or content exceeds the size limit.
    #[error("the tape is full: the next record does not fit in {limit_bytes} bytes")]
    Full {
        /// The limit.
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
    /// A content changed between the two readings of a recording.
    #[error("{path} changed while it was recorded; do not change the files of a recorded run")]
    Changed {
        /// The file.
        path: String,
    },
    /// The run diverges from the tape.
    #[error(transparent)]
    Desync(Box<Desync>),
    /// Text of a process that is not UTF-8.
    #[error("cannot record {what}: it is not UTF-8")]
    NotText {
        /// What is not UTF-8.
        what: &'static str,
    },
    /// A module contains a secret, and cannot be stored.
    #[error(
        "cannot store the module {name} with the tape: the redaction rule {rule} matches a secret in it"
    )]
    ModuleWithheld {
        /// The program's name.
        name: String,
        /// The rule.
        rule: String,
    },
    /// The session ended without finishing the tape.
    #[error("the tape was abandoned: its session ended without being finalized")]
    Abandoned,
    /// The store next to the tape failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file cannot be accessed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

crate::base::readable::readable!(TapeError);

/// Reads a content at an offset; returns 0 at its end.
pub type ReadAt<'a> = &'a mut dyn FnMut(u64, &mut [u8]) -> io::Result<usize>;

/// Bytes of a content held in memory.
const PIECE_BYTES: usize = 256 << 10;

/// Bytes read at first: most files are not longer.
const FIRST_BYTES: usize = 8 << 10;

/// Bytes before a piece that are searched again, as a secret may span two pieces.
const OVERLAP_BYTES: usize = 4 << 10;

/// The target of records: memory, a file, or a player that compares them with an older tape.
pub trait TapeSink: Send {
    /// Writes the next record.
    ///
    /// # Errors
    /// [`TapeError`]: `Full`, `Disk`; `Desync` from a player.
    fn push(&mut self, record: Record) -> Result<(), TapeError>;

    /// Stores `bytes`, which have `digest`.
    ///
    /// # Errors
    /// [`TapeError`]: `Full`, `Store`, `Disk`.
    fn keep_bytes(&mut self, digest: Digest, bytes: &[u8]) -> Result<(), TapeError> {
        let _ = (digest, bytes);
        Ok(())
    }

    /// Stores a content in pieces; `digest` and `len_bytes` are those of the whole.
    ///
    /// # Errors
    /// [`TapeError`]: `Full`, `Store`.
    fn keep(&mut self, digest: Digest, len_bytes: u64, read: ReadAt<'_>) -> Result<(), TapeError> {
        let _ = (digest, len_bytes, read);
        Ok(())
    }

    /// Opens the stored content with `digest`, if it is stored.
    ///
    /// # Errors
    /// [`TapeError`]: `Disk`, `Store`.
    fn kept(&self, digest: Digest) -> Result<Option<Content>, TapeError> {
        let _ = digest;
        Ok(None)
    }

    /// Completes the tape.
    ///
    /// # Errors
    /// [`TapeError`]: `Disk`; `Desync` from a player that expected more.
    fn finish(&mut self) -> Result<(), TapeError>;
}

/// A content as a record names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapedContent {
    /// The digest of the whole content.
    pub content_hash: Digest,
    /// Its length.
    pub len_bytes: u64,
    /// The rule that withheld it.
    pub withheld_by: Option<String>,
}

/// Stamps events and hands them to a [`TapeSink`]. Clones write to the same tape.
///
/// Recording does not fail: the first error is kept, and nothing is written after it. See
/// [`Recorder::failed`] and [`Recorder::finish`].
#[derive(Clone)]
pub struct Recorder(Arc<Mutex<State>>);

struct State {
    sink: Box<dyn TapeSink>,
    redaction: Redaction,
    /// The last bytes of each stream, by process and descriptor.
    stream_ends: HashMap<(u32, u32), Vec<u8>>,
    seq: u64,
    phase: Phase,
    virtual_time_ns: u64,
    monotonic_ns: u64,
    turn: Option<u32>,
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
    /// A recorder that writes to `sink`.
    pub fn new(sink: impl TapeSink + 'static, redaction: Redaction) -> Self {
        Self(Arc::new(Mutex::new(State {
            sink: Box::new(sink),
            redaction,
            stream_ends: HashMap::new(),
            seq: 0,
            phase: Phase::Setup,
            virtual_time_ns: 0,
            monotonic_ns: 0,
            turn: None,
            error: None,
            failed: false,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // State is consistent between statements, also after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the session's clocks: nanoseconds since the Unix epoch, and monotonic nanoseconds.
    pub fn set_time(&self, virtual_time_ns: u64, monotonic_ns: u64) {
        let mut state = self.lock();
        (state.virtual_time_ns, state.monotonic_ns) = (virtual_time_ns, monotonic_ns);
    }

    /// Sets the phase of the session.
    pub fn set_phase(&self, phase: Phase) {
        self.lock().phase = phase;
    }

    /// Sets the process whose turn it is; `None` between turns.
    pub fn set_turn(&self, pid: Option<u32>) {
        self.lock().turn = pid;
    }

    /// Records `kind` with the current time and phase, and redacts its texts.
    pub fn push(&self, mut kind: Kind) {
        let mut state = self.lock();
        if state.failed {
            return;
        }
        kind.withhold(&state.redaction);
        let record = Record {
            seq: state.seq,
            phase: state.phase,
            // `u64` nanoseconds are less than `i64` milliseconds.
            virtual_time_ms: (state.virtual_time_ns / 1_000_000).cast_signed(),
            monotonic_ms: state.monotonic_ns / 1_000_000,
            turn: state.turn.filter(|_| state.phase == Phase::Run && kind.pid().is_none()),
            kind,
        };
        state.seq += 1;
        let done = state.sink.push(record);
        state.attempt(done);
    }

    /// Sets the session's wall clock, in nanoseconds since the Unix epoch.
    pub fn set_realtime(&self, virtual_time_ns: u64) {
        self.lock().virtual_time_ns = virtual_time_ns;
    }

    /// The session's monotonic clock, in milliseconds.
    pub fn monotonic_ms(&self) -> u64 {
        self.lock().monotonic_ns / 1_000_000
    }

    /// Sets the session's monotonic clock, and moves the wall clock with it.
    pub fn set_monotonic(&self, monotonic_ns: u64) {
        let mut state = self.lock();
        let passed = monotonic_ns.saturating_sub(state.monotonic_ns);
        state.virtual_time_ns = state.virtual_time_ns.saturating_add(passed);
        state.monotonic_ns = monotonic_ns;
    }

    /// Fails the tape with `error`.
    pub fn fail(&self, error: TapeError) {
        self.lock().attempt(Err::<(), _>(error));
    }

    /// `bytes` as a payload: short text inline and redacted; other bytes in the store, or withheld
    /// if they contain a secret.
    pub fn payload(&self, bytes: &[u8]) -> Payload {
        Self::payload_after(&mut self.lock(), &[], bytes)
    }

    /// `value` as a payload of JSON text. Each string in it is redacted on its own, so that a secret takes nothing else
    /// with it.
    pub fn json_payload(&self, mut value: Value) -> Payload {
        let mut state = self.lock();
        change_texts(&mut value, &mut |text| state.redaction.withhold(text));
        let text = value.to_string();
        if text.len() <= INLINE_BYTES_MAX {
            return Payload::Inline { text };
        }
        Self::stored(&mut state, text.as_bytes())
    }

    /// Like [`Recorder::payload`], for bytes of the stream `fd` of the native program `pid`, or of the run if that is 0, where
    /// a secret may come in pieces. The pieces before it was recognized are on the tape, later ones
    /// are not.
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
        Self::stored(state, bytes)
    }

    /// `bytes`, which hold no secret, as a payload in the store.
    fn stored(state: &mut State, bytes: &[u8]) -> Payload {
        let content_hash = Digest::of(bytes);
        Self::keep(state, content_hash, bytes);
        Payload::Stored { content_hash, len_bytes: bytes.len() as u64, withheld_by: None }
    }

    /// Stores the content of the file `path` unless it contains a secret. A content that is too long for a
    /// pack is read twice; if it changed in between, the tape fails. The first reading may itself be recorded.
    ///
    /// # Errors
    /// Those of `read`, which reads at an offset and returns 0 at the end.
    pub fn content_from<E: Into<Box<dyn Error + Send + Sync>>>(
        &self,
        path: &str,
        read: impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
    ) -> Result<TapedContent, E> {
        self.read_content(path, read).map(|(content, _)| content)
    }

    /// As [`Recorder::content_from`]; and the bytes, if they are few enough for a pack.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn read_content<E: Into<Box<dyn Error + Send + Sync>>>(
        &self,
        path: &str,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
    ) -> Result<(TapedContent, Option<Vec<u8>>), E> {
        let mut bytes = vec![0; FIRST_BYTES];
        let mut filled = 0;
        // Without the lock, as opening the file is recorded, too.
        loop {
            if filled == FIRST_BYTES {
                bytes.resize(PACKED_BYTES_MAX + 1, 0);
            }
            if filled == bytes.len() {
                break;
            }
            match read(filled as u64, &mut bytes[filled..])? {
                0 => {
                    bytes.truncate(filled);
                    return Ok((self.short_content(&bytes), Some(bytes)));
                }
                count => filled += count,
            }
        }
        Ok((self.long_content(path, bytes, read)?, None))
    }

    fn short_content(&self, bytes: &[u8]) -> TapedContent {
        let content_hash = Digest::of(bytes);
        let mut state = self.lock();
        let withheld_by = state.redaction.find(bytes).map(str::to_owned);
        if withheld_by.is_none() {
            Self::keep(&mut state, content_hash, bytes);
        }
        TapedContent { content_hash, len_bytes: bytes.len() as u64, withheld_by }
    }

    /// As [`Recorder::content_from`], for a content that begins with `start` and is longer.
    fn long_content<E: Into<Box<dyn Error + Send + Sync>>>(
        &self,
        path: &str,
        start: Vec<u8>,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
    ) -> Result<TapedContent, E> {
        let mut hasher = DigestHasher::default();
        hasher.write(&start);
        let mut window = vec![0; OVERLAP_BYTES + PIECE_BYTES];
        window[..OVERLAP_BYTES].copy_from_slice(&start[start.len() - OVERLAP_BYTES..]);
        let (mut len_bytes, mut overlap) = (start.len() as u64, OVERLAP_BYTES);
        let mut withheld_by = self.lock().redaction.find(&start).map(str::to_owned);
        drop(start);
        loop {
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
            // A file may have grown since the first reading.
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

    /// The content with `digest`, if it is in the tape's store.
    pub fn kept(&self, digest: Digest) -> Option<Content> {
        let mut state = self.lock();
        let kept = state.sink.kept(digest);
        state.attempt(kept).flatten()
    }

    fn keep(state: &mut State, digest: Digest, bytes: &[u8]) {
        if !state.failed {
            let kept = state.sink.keep_bytes(digest, bytes);
            state.attempt(kept);
        }
    }

    /// Whether the values of variables with this name are secret.
    pub fn is_secret_name(&self, name: &str) -> bool {
        self.lock().redaction.is_secret_name(name)
    }

    /// The variable `NAME=value`, redacted.
    pub fn redact_variable(&self, variable: &str) -> String {
        self.lock().redaction.redact_variable(variable)
    }

    /// `text`, redacted.
    pub fn redact(&self, text: &str) -> String {
        self.lock().redaction.redact(text)
    }

    /// The number of records.
    pub fn records(&self) -> u64 {
        self.lock().seq
    }

    /// Whether the tape has failed: then the run must end.
    pub fn failed(&self) -> bool {
        self.lock().failed
    }

    /// Abandons the tape for all clones: what was written is removed, and nothing more is recorded.
    /// A finished tape is kept.
    pub fn abandon(&self) {
        let mut state = self.lock();
        state.attempt(Err::<(), _>(TapeError::Abandoned));
        // Never written to: the tape has failed.
        state.sink = Box::new(MemoryTape::default());
    }

    /// Completes the tape; returns its number of records.
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
    /// The records so far.
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
    fn payloads_are_inline_stored_or_withheld() {
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
