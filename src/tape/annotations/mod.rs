//! Annotations: remarks on the records of a tape, in a file next to it. `docs/annotations.md` has
//! the format.

mod annotation;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use self::annotation::{
    Annotation, AnnotationKind, Author, AuthorKind, HypothesisStatus, Span,
};
use super::file::TapeReader;
use super::header::Version;
use super::lines::{LINE_BYTES_MAX, LineError, Lines, line_of};
use super::recorder::TapeError;
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};

const SCHEMA: Version = Version { major: 1, minor: 0 };

/// Size limit of a file, which is read into memory.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Annotations cannot be read or written.
#[derive(thiserror::Error)]
pub enum AnnotationError {
    /// A line is invalid.
    #[error("{}, line {line}: {message}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// What is wrong, and what to do.
        message: String,
    },
    /// The file has another major version of the format.
    #[error("{} has schema version {found}, and this belljar reads {SCHEMA}; use a newer belljar", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: Version,
    },
    /// The file would be too long to be read.
    #[error("{} would exceed {FILE_BYTES_MAX} bytes; begin another file", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// An annotation cannot be added.
    #[error("cannot add annotation {id:?}: {message}")]
    Invalid {
        /// The annotation.
        id: String,
        /// All problems.
        message: String,
    },
    /// The tape cannot be read.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// The file cannot be accessed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

crate::base::readable::readable!(AnnotationError);

/// Line 1 of a file of annotations.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AnnotationHeader {
    /// The version of the format.
    pub schema_version: Version,
    /// The file name of the tape, which is in the same directory.
    pub tape_path: String,
    /// The digest of the tape when the file was created.
    pub tape_content_hash: Digest,
}

/// A problem of a file of annotations.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Problem {
    /// From 1.
    pub line: u64,
    /// The annotation, if the problem is with one.
    pub annotation_id: Option<String>,
    /// What is wrong.
    pub message: String,
}

/// The path of the annotations of `tape`.
pub fn annotations_path(tape: &Path) -> PathBuf {
    let mut name = tape.as_os_str().to_owned();
    name.push(".annotations.jsonl");
    name.into()
}

/// A file of annotations.
#[derive(Debug)]
pub struct AnnotationFile {
    path: PathBuf,
    header: AnnotationHeader,
    /// With their lines.
    annotations: Vec<(u64, Annotation)>,
    bytes: u64,
    /// Whether the last line ends with a newline.
    ended: bool,
    cut_off: bool,
}

impl AnnotationFile {
    /// Creates the annotations of the tape at `tape`, at [`annotations_path`].
    ///
    /// # Errors
    /// [`AnnotationError::Disk`] if the tape cannot be read, the file cannot be written, or it
    /// exists.
    pub fn create(tape: &Path) -> Result<Self, AnnotationError> {
        let path = annotations_path(tape);
        let header = AnnotationHeader {
            schema_version: SCHEMA,
            tape_path: tape.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            tape_content_hash: digest_of(tape)?,
        };
        let folder = disk::folder_of(&path);
        let mut file = tempfile::Builder::new()
            .prefix(".belljar-")
            .tempfile_in(folder)
            .map_err(DiskError::new("create a temporary file for", &path))?;
        let line = line_of(&header);
        file.write_all(&line).map_err(DiskError::new("write", &path))?;
        // The file appears with its header, or not at all.
        file.persist_noclobber(&path)
            .map_err(|error| DiskError::new("create", &path)(error.error))?;
        Ok(Self::new(path, header, line.len() as u64))
    }

    fn new(path: PathBuf, header: AnnotationHeader, bytes: u64) -> Self {
        Self { path, header, annotations: Vec::new(), bytes, ended: true, cut_off: false }
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`AnnotationError`]: `Disk`, `Line`, `Version`, `TooLong`.
    pub fn load(path: &Path) -> Result<Self, AnnotationError> {
        let file = disk::open(path)?;
        // Waits for a line that is being written. Without file locks, such a line looks incomplete.
        let _ = file.lock_shared();
        Self::read(path, &file)
    }

    fn read(path: &Path, file: &File) -> Result<Self, AnnotationError> {
        let file = BufReader::new(file.take(FILE_BYTES_MAX + 1));
        let mut lines = Lines::of(file);
        let bad = |line, message| AnnotationError::Line { path: path.to_owned(), line, message };
        let next = |lines: &mut Lines<_>| {
            let next = lines.next().map_err(|error| match error {
                LineError::Read(error) => DiskError::new("read", path)(error).into(),
                LineError::Malformed(why) => bad(lines.number, why),
            });
            if lines.bytes > FILE_BYTES_MAX {
                return Err(AnnotationError::TooLong { path: path.to_owned() });
            }
            next
        };
        let Some(text) = next(&mut lines)? else {
            return Err(bad(1, "the file is empty; expected a header".to_owned()));
        };
        let no_header =
            |error: serde_json::Error| bad(1, format!("invalid header of annotations: {error}"));
        // Checked first, as other versions may have other fields.
        let Versioned { schema_version } = serde_json::from_slice(&text).map_err(no_header)?;
        if schema_version.major != SCHEMA.major {
            return Err(AnnotationError::Version { path: path.to_owned(), found: schema_version });
        }
        let header = serde_json::from_slice(&text).map_err(no_header)?;
        let mut this = Self::new(path.to_owned(), header, 0);
        while let Some(text) = next(&mut lines)? {
            match serde_json::from_slice(&text) {
                Ok(annotation) => this.annotations.push((lines.number, annotation)),
                Err(_) if !lines.is_ended => this.cut_off = true,
                Err(error) => {
                    return Err(bad(lines.number, format!("invalid annotation: {error}")));
                }
            }
        }
        (this.bytes, this.ended) = (lines.bytes, lines.is_ended);
        Ok(this)
    }

    /// Line 1.
    pub fn header(&self) -> &AnnotationHeader {
        &self.header
    }

    /// The annotations, in the order of the file.
    pub fn annotations(&self) -> impl ExactSizeIterator<Item = &Annotation> {
        self.annotations.iter().map(|(_, annotation)| annotation)
    }

    /// Whether an incomplete last line was skipped.
    pub fn is_cut_off(&self) -> bool {
        self.cut_off
    }

    /// Appends `annotation` in one write, after reading what others have added. Waits for other
    /// writers.
    ///
    /// # Errors
    /// [`AnnotationError`]: `Invalid` if [`AnnotationFile::validate`] would report it, apart from
    /// the tape; `Line` if the last line of the file is incomplete; those of
    /// [`AnnotationFile::load`]. Then nothing is written.
    pub fn append(&mut self, annotation: Annotation) -> Result<(), AnnotationError> {
        let mut file = disk::open_append(&self.path)?;
        file.lock().map_err(DiskError::new("take for writing", &self.path))?;
        *self = Self::read(&self.path, &file)?;
        if self.cut_off {
            let line = self.next_line();
            let message = "the line is incomplete; complete or remove it first".to_owned();
            return Err(AnnotationError::Line { path: self.path.clone(), line, message });
        }
        let mut faults = annotation.faults();
        faults.extend(self.unknown_names(&annotation));
        if self.annotations().any(|other| other.id == annotation.id) {
            faults.push("its id is already in use".to_owned());
        }
        let mut line = line_of(&annotation);
        if line.len() > LINE_BYTES_MAX {
            faults.push(format!("it has {} bytes, and the limit is {LINE_BYTES_MAX}", line.len()));
        }
        if !faults.is_empty() {
            return Err(AnnotationError::Invalid { id: annotation.id, message: faults.join("; ") });
        }
        if !self.ended {
            // An editor has removed the last newline.
            line.insert(0, b'\n');
        }
        let bytes = self.bytes.saturating_add(line.len() as u64);
        if bytes > FILE_BYTES_MAX {
            return Err(AnnotationError::TooLong { path: self.path.clone() });
        }
        file.write_all(&line).map_err(DiskError::new("write", &self.path))?;
        (self.bytes, self.ended) = (bytes, true);
        self.annotations.push((self.next_line(), annotation));
        Ok(())
    }

    fn next_line(&self) -> u64 {
        self.annotations.last().map_or(1, |(line, _)| *line) + 1
    }

    /// Reports all problems, by line: the digest of the tape differs from the header's; a record is
    /// not on the tape; a duplicate or empty `id`; an unknown name in a file of a known version; an
    /// invalid timestamp; a span that ends before it starts, or does not contain the annotation's
    /// record; a hypothesis without status, or a status on another kind; a friction without kind;
    /// an incomplete last line.
    ///
    /// # Errors
    /// [`AnnotationError`]: `Tape`, `Disk` if the tape cannot be read.
    pub fn validate(&self, tape: &Path) -> Result<Vec<Problem>, AnnotationError> {
        let mut problems = Vec::new();
        let mut report = |line: u64, annotation: Option<&Annotation>, message: String| {
            let annotation_id = annotation.map(|annotation| annotation.id.clone());
            problems.push(Problem { line, annotation_id, message });
        };
        let (expected, found) = (self.header.tape_content_hash, digest_of(tape)?);
        if expected != found {
            let tape = tape.display();
            report(
                1,
                None,
                format!(
                    "{tape} has changed since it was annotated: its digest was {expected} and is {found}"
                ),
            );
        }
        let unknown = self.events_not_on(tape)?;
        let mut lines = BTreeMap::new();
        for (line, annotation) in &self.annotations {
            let mut wrong = annotation.faults();
            if let Some(first) = lines.get(annotation.id.as_str()) {
                wrong.push(format!("its id is already on line {first}"));
            } else {
                lines.insert(annotation.id.as_str(), *line);
            }
            wrong.extend(self.unknown_names(annotation));
            for (event, what) in annotation.events().filter(|(event, _)| unknown.contains(event)) {
                wrong.push(format!("{what} record {event}, which the tape does not have"));
            }
            for message in wrong {
                report(*line, Some(annotation), message);
            }
        }
        if self.cut_off {
            report(self.next_line(), None, "the line is incomplete".to_owned());
        }
        Ok(problems)
    }

    /// The names in `annotation` that a file of this version cannot have.
    fn unknown_names(&self, annotation: &Annotation) -> Vec<String> {
        let is_known = self.header.schema_version <= SCHEMA;
        if is_known { annotation.unknown_names() } else { Vec::new() }
    }

    /// The records that annotations name and the tape does not have.
    fn events_not_on(&self, tape: &Path) -> Result<BTreeSet<u64>, AnnotationError> {
        let mut events: BTreeSet<u64> = self
            .annotations()
            .flat_map(|annotation| annotation.events().map(|(event, _)| event))
            .collect();
        for record in TapeReader::open(tape)? {
            events.remove(&record?.seq);
        }
        Ok(events)
    }

    /// The annotations of `kinds`, or all if it is empty, in the order of the file.
    pub fn export(&self, kinds: &[AnnotationKind]) -> Vec<&Annotation> {
        let is_meant =
            |annotation: &&Annotation| kinds.is_empty() || kinds.contains(&annotation.kind);
        self.annotations().filter(is_meant).collect()
    }

    /// The annotations of the record `seq`, and of ranges with it.
    pub fn for_event(&self, seq: u64) -> Vec<&Annotation> {
        self.annotations().filter(|annotation| annotation.covers(seq)).collect()
    }
}

fn digest_of(tape: &Path) -> Result<Digest, DiskError> {
    let (digest, _) = Digest::of_reader(disk::open(tape)?).map_err(DiskError::new("read", tape))?;
    Ok(digest)
}

/// Read before the rest of a header.
#[derive(Deserialize)]
struct Versioned {
    schema_version: Version,
}
