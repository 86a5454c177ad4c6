//! Tapes as files: one JSON object per line, and a store next to the file for longer contents.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use super::header::{Header, Version};
use super::lines::{LINE_BYTES_MAX, LineError, Lines, expect_readable, line_of};
use super::pack::{self, PACKED_BYTES_MAX, PackWriter};
use super::payload::Payload;
use super::record::Record;
use super::recorder::{ReadAt, TapeError, TapeSink};
use super::store::{Content, PARTIAL, TapeStore, cas_dir};
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};
use crate::store::{Cas, StoreError, read_slice};

/// The path of a tape until it is finished.
fn partial_path(path: &Path) -> PathBuf {
    path.with_added_extension(PARTIAL)
}

/// Expects at `path` nothing, or what a tape may replace: a tape of any version, even an incomplete
/// one, or an empty file.
///
/// # Errors
/// Something else is there, or it cannot be read.
fn expect_tape(path: &Path) -> Result<(), DiskError> {
    if disk::metadata(path).is_err() {
        return Ok(());
    }
    disk::expect_replaceable(path)?;
    let mut line = Vec::new();
    let mut start = BufReader::new(disk::open(path)?.take(LINE_BYTES_MAX as u64));
    start.read_until(b'\n', &mut line).map_err(DiskError::new("read", path))?;
    let is_cut_off = !line.ends_with(b"\n") && begins_header(&line);
    if line.is_empty() || is_cut_off || serde_json::from_slice::<Marks>(&line).is_ok() {
        return Ok(());
    }
    let why = "it is not a tape; name another file, or remove this one first";
    Err(DiskError::new("replace", path)(std::io::Error::other(why)))
}

/// Checks that the tape `path` would not have the name of another tape's files: the two would remove each other's.
///
/// # Errors
/// It would.
fn expect_name(path: &Path) -> Result<(), DiskError> {
    if path.extension().is_none_or(|it| it != "partial" && it != "cas") {
        return Ok(());
    }
    let why = "NAME.partial and NAME.cas belong to the tape NAME; name another file";
    Err(DiskError::new("create a tape at", path)(std::io::Error::other(why)))
}

/// Removes what a killed recorder has left at `partial`.
///
/// # Errors
/// It is being written, or is not a tape: a program whose changes were applied may have put a link
/// there.
fn remove_stale(partial: &Path) -> Result<(), DiskError> {
    let Ok(metadata) = disk::symlink_metadata(partial) else { return Ok(()) };
    let refuse = |why: &str| DiskError::new("replace", partial)(std::io::Error::other(why));
    if !metadata.is_file() {
        return Err(refuse("it is not a regular file; remove it"));
    }
    let file = disk::open(partial)?;
    if disk::is_taken(&file, partial) {
        return Err(refuse("another recorder is writing it"));
    }
    expect_tape(partial)?;
    // Windows removes a file once nobody has it open.
    #[cfg(windows)]
    drop(file);
    disk::remove_file(partial)
}

/// Writes a tape.
///
/// Until [`TapeSink::finish`], it is at `<tape>.partial`, where it can be read; then it replaces
/// `<tape>` atomically. Dropping it before removes it. A killed process leaves the `.partial`,
/// which can be read to its last complete line.
pub struct FileTape {
    path: PathBuf,
    /// `None` once finished.
    file: Option<BufWriter<File>>,
    cas: Cas,
    /// The contents that the tape names, and their lengths.
    kept: HashMap<Digest, u64>,
    /// Files that were not in the store before.
    added: Vec<Digest>,
    /// The pack of this recording, once there is a short content.
    pack: Option<PackWriter>,
    /// To read short contents again.
    store: TapeStore,
    bytes: u64,
    bytes_max: u64,
}

impl FileTape {
    /// Creates the tape of `path`, with its header. Lines and contents together have at most
    /// `bytes_max` bytes.
    ///
    /// # Errors
    /// [`TapeError::Disk`] if it cannot be created, the existing file is neither a tape nor empty,
    /// or another recorder is writing it.
    pub fn create(path: &Path, header: &Header, bytes_max: u64) -> Result<Self, TapeError> {
        expect_name(path)?;
        expect_tape(path)?;
        let cas = Cas::new(cas_dir(path));
        cas.expect_folder()?;
        let partial = partial_path(path);
        remove_stale(&partial)?;
        let file = disk::create_new_exclusive(&partial)?;
        let mut tape = Self {
            path: path.to_owned(),
            file: Some(BufWriter::with_capacity(64 << 10, file)),
            cas,
            kept: HashMap::new(),
            added: Vec::new(),
            pack: None,
            store: TapeStore::of(path),
            bytes: 0,
            bytes_max,
        };
        tape.line(header)?;
        Ok(tape)
    }

    fn line(&mut self, value: &impl serde::Serialize) -> Result<(), TapeError> {
        let line = line_of(value);
        expect_readable(&line)?;
        self.charge(line.len() as u64)?;
        let write = |file: &mut BufWriter<File>| file.write_all(&line);
        self.file.as_mut().map_or(Ok(()), write).map_err(DiskError::new("write", &self.path))?;
        Ok(())
    }

    fn charge(&mut self, bytes: u64) -> Result<(), TapeError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.bytes_max {
            return Err(TapeError::Full { limit_bytes: self.bytes_max });
        }
        Ok(())
    }

    /// Removes contents that only an older tape of this name used. What cannot be removed only costs space.
    fn sweep(&self) {
        let is_file = |len_bytes: &u64| *len_bytes > PACKED_BYTES_MAX as u64;
        for digest in self.cas.digests().unwrap_or_default() {
            if !self.kept.get(&digest).is_some_and(is_file) {
                let _ = disk::remove_file(&self.cas.path_of(digest));
            }
        }
        let own = self.pack.as_ref().map(PackWriter::path);
        for (_, path) in pack::numbered(self.cas.dir()).unwrap_or_default() {
            if own != Some(&path) {
                let _ = disk::remove_file(&path);
            }
        }
    }
}

impl TapeSink for FileTape {
    fn push(&mut self, record: Record) -> Result<(), TapeError> {
        self.line(&record)
    }

    fn keep(&mut self, digest: Digest, len_bytes: u64, read: ReadAt<'_>) -> Result<(), TapeError> {
        if self.kept.contains_key(&digest) {
            return Ok(());
        }
        self.charge(len_bytes)?;
        // Contents of an older tape are used if they match their digest.
        if self.cas.open(digest, len_bytes).is_err() {
            self.cas.put(digest, read)?;
            self.added.push(digest);
        }
        self.kept.insert(digest, len_bytes);
        Ok(())
    }

    fn keep_bytes(&mut self, digest: Digest, bytes: &[u8]) -> Result<(), TapeError> {
        let len_bytes = bytes.len() as u64;
        if bytes.len() > PACKED_BYTES_MAX {
            return self.keep(digest, len_bytes, &mut read_slice(bytes));
        }
        if self.kept.contains_key(&digest) {
            return Ok(());
        }
        self.charge(len_bytes)?;
        let pack = match &mut self.pack {
            Some(pack) => pack,
            none => {
                self.cas.expect_folder()?;
                none.insert(PackWriter::create(self.cas.dir())?)
            }
        };
        pack.push(digest, bytes)?;
        self.kept.insert(digest, len_bytes);
        Ok(())
    }

    fn kept(&self, digest: Digest) -> Result<Option<Content>, TapeError> {
        match self.kept.get(&digest) {
            None => Ok(None),
            Some(len_bytes) if *len_bytes > PACKED_BYTES_MAX as u64 => {
                Ok(Some(Content::File(disk::open(&self.cas.path_of(digest))?)))
            }
            Some(len_bytes) => Ok(Some(self.store.open(digest, *len_bytes)?)),
        }
    }

    fn finish(&mut self) -> Result<(), TapeError> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let partial = partial_path(&self.path);
        let fail = |error: std::io::Error| DiskError::new("finish", &partial)(error);
        let file = file.into_inner().map_err(|error| fail(error.into_error()))?;
        file.sync_data().map_err(fail)?;
        if !disk::is_at(&file, &partial) {
            return Err(fail(std::io::Error::other("it was replaced by another file")).into());
        }
        // Windows cannot rename an open file. Elsewhere the lock is held until the rename is done.
        #[cfg(windows)]
        drop(file);
        disk::rename(&partial, &self.path)?;
        self.sweep();
        Ok(())
    }
}

impl Drop for FileTape {
    fn drop(&mut self) {
        if self.file.take().is_none() {
            return;
        }
        let _ = disk::remove_file(&partial_path(&self.path));
        for digest in &self.added {
            let _ = disk::remove_file(&self.cas.path_of(*digest));
        }
        if let Some(pack) = self.pack.take() {
            let path = pack.path().to_owned();
            // Windows keeps the name of an open file until it is closed.
            drop((pack, std::mem::replace(&mut self.store, TapeStore::of(&self.path))));
            let _ = disk::remove_file(&path);
        }
        // Fails if others have contents in it.
        let _ = disk::remove_empty_dir(self.cas.dir());
    }
}

/// The start of a header as a recorder writes it.
const HEADER_START: &[u8] = b"{\"version\":\"";

/// Whether `line` is a prefix of such a header, or has it up to what distinguishes it from other
/// JSON.
fn begins_header(line: &[u8]) -> bool {
    const NEXT: &[u8] = b"\",\"belljar_version\":";
    let Some(version) = line.strip_prefix(HEADER_START) else { return false };
    let end = version.iter().position(|byte| *byte == b'"').unwrap_or(version.len());
    let after = &version[end..];
    after.starts_with(NEXT) || NEXT.starts_with(after)
}

/// Distinguishes the header of a tape, of any version, from other JSON.
#[derive(serde::Deserialize)]
struct Marks {
    #[serde(rename = "version")]
    _version: Version,
    #[serde(rename = "belljar_version")]
    _belljar_version: String,
}

/// Read before the rest of a header.
#[derive(serde::Deserialize)]
struct Versioned {
    version: Version,
}

/// Reads a tape record by record, holding one line in memory.
pub struct TapeReader {
    path: PathBuf,
    header: Header,
    lines: Lines<BufReader<File>>,
    cut_off: bool,
    done: bool,
}

impl TapeReader {
    /// Opens the tape at `path`.
    ///
    /// # Errors
    /// [`TapeError`]: `Disk` if it cannot be read; `Line` if its first line is not a header;
    /// `Version` for another major version of the format.
    pub fn open(path: &Path) -> Result<Self, TapeError> {
        let file = disk::open(path)?;
        let header = Header::new(0);
        let lines = Lines::of(BufReader::with_capacity(64 << 10, file));
        let mut reader = Self { path: path.to_owned(), header, lines, cut_off: false, done: false };
        let Some(line) = reader.next_line()? else {
            reader.lines.number = 1;
            return Err(reader.bad("the tape is empty; expected a header"));
        };
        let no_header = |reader: &Self, error: serde_json::Error| {
            reader.bad(format!(
                "not a header of a tape ({error}); name a file that `belljar record --tape` wrote; \
                 `belljar native` replays process tapes"
            ))
        };
        // Checked first, as other versions may have other fields.
        let Versioned { version } =
            serde_json::from_slice(&line).map_err(|error| no_header(&reader, error))?;
        if version.major != Version::CURRENT.major {
            let tape = path.display().to_string();
            return Err(TapeError::Version { tape, found: version, known: Version::CURRENT });
        }
        reader.header = serde_json::from_slice(&line).map_err(|error| no_header(&reader, error))?;
        Ok(reader)
    }

    /// Line 1.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The line of the last record, from 1.
    pub fn line(&self) -> u64 {
        self.lines.number
    }

    /// Whether an incomplete last line was skipped.
    pub fn is_cut_off(&self) -> bool {
        self.cut_off
    }

    fn bad(&self, message: impl Into<String>) -> TapeError {
        let tape = self.path.display().to_string();
        TapeError::Line { tape, line: self.lines.number, message: message.into() }
    }

    fn next_line(&mut self) -> Result<Option<Vec<u8>>, TapeError> {
        self.lines.next().map_err(|error| match error {
            LineError::Read(error) => DiskError::new("read", &self.path)(error).into(),
            LineError::Malformed(why) => self.bad(why),
        })
    }

    fn next_record(&mut self) -> Result<Option<Record>, TapeError> {
        let Some(line) = self.next_line()? else { return Ok(None) };
        match serde_json::from_slice(&line) {
            Ok(record) => Ok(Some(record)),
            Err(_) if !self.lines.is_ended => {
                self.cut_off = true;
                Ok(None)
            }
            Err(error) => Err(self.bad(format!("invalid record: {error}"))),
        }
    }
}

impl Iterator for TapeReader {
    type Item = Result<Record, TapeError>;

    /// The next record. There is none after an error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.next_record().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}

/// A tape in memory, with the store next to it.
pub struct Tape {
    /// Line 1.
    pub header: Header,
    /// The other lines.
    pub records: Vec<Record>,
    /// Whether an incomplete last line was skipped.
    pub cut_off: bool,
    store: TapeStore,
}

impl Tape {
    /// Reads the tape at `path`.
    ///
    /// # Errors
    /// [`TapeError`], with the line.
    pub fn load(path: &Path) -> Result<Self, TapeError> {
        let mut reader = TapeReader::open(path)?;
        let records = reader.by_ref().collect::<Result<_, _>>()?;
        let cut_off = reader.is_cut_off();
        Ok(Self { header: reader.header, records, cut_off, store: TapeStore::of(path) })
    }

    /// The store next to it.
    pub fn store(&self) -> &TapeStore {
        &self.store
    }

    /// The bytes of a payload.
    ///
    /// # Errors
    /// [`StoreError`] if the store does not have them, or has damaged ones.
    pub fn payload(&self, payload: &Payload) -> Result<Vec<u8>, StoreError> {
        payload.bytes(&self.store)
    }

    /// The content with a digest and a length of `len_bytes`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn content(&self, content_hash: Digest, len_bytes: u64) -> Result<Vec<u8>, StoreError> {
        self.store.get(content_hash, len_bytes)
    }
}
