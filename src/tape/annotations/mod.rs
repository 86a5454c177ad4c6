//! What people and programs say of a tape, in a file beside it. The format is described in
//! `docs/annotations.md`.

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

/// The version of the format.
const SCHEMA: Version = Version { major: 1, minor: 0 };

/// Longest file that is read, in bytes: it is held in memory.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Annotations could not be read or written.
#[derive(thiserror::Error)]
pub enum AnnotationError {
    /// A line is not what the format says.
    #[error("{}, line {line}: {message}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong, and what to do.
        message: String,
    },
    /// A file of a format that this version does not know.
    #[error("{} has schema version {found}; this belljar reads {SCHEMA}: use a newer one", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: Version,
    },
    /// The file would be longer than can be read.
    #[error("{} would be longer than {FILE_BYTES_MAX} bytes: begin another file", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// An annotation that must not be added.
    #[error("the annotation {id:?} cannot be added: {message}")]
    Invalid {
        /// The annotation.
        id: String,
        /// All that is wrong with it.
        message: String,
    },
    /// The tape that is annotated.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// The disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

crate::base::readable::readable!(AnnotationError);

/// The first line of a file of annotations.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AnnotationHeader {
    /// The version of the format.
    pub schema_version: Version,
    /// The file name of the tape, which lies in the same folder.
    pub tape_path: String,
    /// The digest of the tape's bytes when the file was created.
    pub tape_content_hash: Digest,
}

/// Something that is wrong with a file of annotations.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Problem {
    /// The line, from 1.
    pub line: u64,
    /// The annotation, if it is one's.
    pub annotation_id: Option<String>,
    /// What is wrong.
    pub message: String,
}

/// Where the annotations of the tape `tape` are.
pub fn annotations_path(tape: &Path) -> PathBuf {
    let mut name = tape.as_os_str().to_owned();
    name.push(".annotations.jsonl");
    name.into()
}

/// The annotations of a tape, and the file that they are in.
#[derive(Debug)]
pub struct AnnotationFile {
    path: PathBuf,
    header: AnnotationHeader,
    /// Each with its line.
    annotations: Vec<(u64, Annotation)>,
    /// Its length.
    bytes: u64,
    /// Whether its last line has an end.
    ended: bool,
    cut_off: bool,
}

impl AnnotationFile {
    /// Begins the annotations of the tape at `tape`, at [`annotations_path`].
    ///
    /// # Errors
    /// [`AnnotationError::Disk`] if the tape cannot be read, the file cannot be written, or there
    /// already is one.
    pub fn create(tape: &Path) -> Result<Self, AnnotationError> {
        let path = annotations_path(tape);
        let header = AnnotationHeader {
            schema_version: SCHEMA,
            tape_path: tape.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            tape_content_hash: digest_of(tape)?,
        };
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new()
            .prefix(".belljar-")
            .tempfile_in(folder)
            .map_err(DiskError::new("create a temporary file for", &path))?;
        let line = line_of(&header);
        file.write_all(&line).map_err(DiskError::new("write", &path))?;
        // It appears with its header, or not at all.
        file.persist_noclobber(&path)
            .map_err(|error| DiskError::new("create", &path)(error.error))?;
        Ok(Self::new(path, header, line.len() as u64))
    }

    fn new(path: PathBuf, header: AnnotationHeader, bytes: u64) -> Self {
        Self { path, header, annotations: Vec::new(), bytes, ended: true, cut_off: false }
    }

    /// The annotations in the file at `path`.
    ///
    /// # Errors
    /// [`AnnotationError`]: `Disk`, `Line`, `Version`, `TooLong`.
    pub fn load(path: &Path) -> Result<Self, AnnotationError> {
        let file = disk::open(path)?;
        // Waits for a line that is being written. Where files cannot be locked, such a line is
        // taken for one that is cut off.
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
            return Err(bad(1, "the file is empty: expected a header".to_owned()));
        };
        let no_header =
            |error: serde_json::Error| bad(1, format!("this is no header of annotations: {error}"));
        // First of all: what follows may be unknown to this version.
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
                    return Err(bad(lines.number, format!("this is no annotation: {error}")));
                }
            }
        }
        (this.bytes, this.ended) = (lines.bytes, lines.is_ended);
        Ok(this)
    }

    /// Its first line.
    pub fn header(&self) -> &AnnotationHeader {
        &self.header
    }

    /// The annotations, in the order of the file.
    pub fn annotations(&self) -> impl ExactSizeIterator<Item = &Annotation> {
        self.annotations.iter().map(|(_, annotation)| annotation)
    }

    /// Whether the last line was cut off, and left out.
    pub fn is_cut_off(&self) -> bool {
        self.cut_off
    }

    /// Adds `annotation` at the end of the file, in one write, and takes in what others have added
    /// since. Waits while another writer does the same.
    ///
    /// # Errors
    /// [`AnnotationError`]: `Invalid` if [`AnnotationFile::validate`] would have something to say
    /// of it, the tape aside; `Line` if the last line of the file is cut off; those of
    /// [`AnnotationFile::load`]. Nothing is written then.
    pub fn append(&mut self, annotation: Annotation) -> Result<(), AnnotationError> {
        let mut file = disk::open_append(&self.path)?;
        file.lock().map_err(DiskError::new("take for writing", &self.path))?;
        *self = Self::read(&self.path, &file)?;
        if self.cut_off {
            let line = self.next_line();
            let message = "the line is cut off: complete or remove it, then add others".to_owned();
            return Err(AnnotationError::Line { path: self.path.clone(), line, message });
        }
        let mut faults = annotation.faults();
        faults.extend(self.unknown_names(&annotation));
        if self.annotations().any(|other| other.id == annotation.id) {
            faults.push("there already is one of that id".to_owned());
        }
        let mut line = line_of(&annotation);
        if line.len() > LINE_BYTES_MAX {
            faults.push(format!("it takes {} bytes, more than {LINE_BYTES_MAX}", line.len()));
        }
        if !faults.is_empty() {
            return Err(AnnotationError::Invalid { id: annotation.id, message: faults.join("; ") });
        }
        if !self.ended {
            // An editor left the last line without its end.
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

    /// All that is wrong with the annotations of the tape at `tape`, by line: the tape is not the
    /// one that was annotated; a record is not on it; an `id` occurs twice; a name is unknown
    /// although the file is of a known version; a timestamp is not RFC 3339; a span ends before it
    /// starts, or does not hold the annotation's record; a hypothesis has no status, or something
    /// else has one; a friction is of no kind; the last line is cut off.
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
                wrong.push(format!("its id is that of line {first}"));
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
            report(self.next_line(), None, "the line is cut off".to_owned());
        }
        Ok(problems)
    }

    /// The names in `annotation` that should be known in a file of this version.
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

    /// The annotations of these kinds, in the order of the file; all if there are none given.
    pub fn export(&self, kinds: &[AnnotationKind]) -> Vec<&Annotation> {
        let is_meant =
            |annotation: &&Annotation| kinds.is_empty() || kinds.contains(&annotation.kind);
        self.annotations().filter(is_meant).collect()
    }

    /// The annotations of the record `seq`, and of stretches that it lies in.
    pub fn for_event(&self, seq: u64) -> Vec<&Annotation> {
        self.annotations().filter(|annotation| annotation.covers(seq)).collect()
    }
}

fn digest_of(tape: &Path) -> Result<Digest, DiskError> {
    let (digest, _) = Digest::of_reader(disk::open(tape)?).map_err(DiskError::new("read", tape))?;
    Ok(digest)
}

/// What must be known of a header before the rest of it is looked at.
#[derive(Deserialize)]
struct Versioned {
    schema_version: Version,
}
