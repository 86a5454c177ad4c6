//! The format of fixtures: JSON lines, a header first, then a line for each call.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::provider::{LlmDelta, LlmFailure, LlmResponse};
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};
use crate::tape::Version;
use crate::tape::lines::line_of;

/// Longest fixture that is written or read, in bytes.
pub const FIXTURE_BYTES_MAX: u64 = 256 << 20;

const FORMAT: &str = "belljar-llm-fixture";

const VERSION: Version = Version { major: 1, minor: 0 };

/// A fixture cannot be read or written.
#[derive(thiserror::Error)]
pub enum FixtureError {
    /// A line is not what the format says.
    #[error("{}, line {line}: {message}", path.display())]
    Line {
        /// The fixture.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what was expected.
        message: String,
    },
    /// A fixture of a format that this version does not know.
    #[error(
        "{} has version {found}; this belljar reads {VERSION}: use a newer one, or record it again",
        path.display()
    )]
    Version {
        /// The fixture.
        path: PathBuf,
        /// Its version.
        found: Version,
    },
    /// It would be too long.
    #[error(
        "{} takes more than {FIXTURE_BYTES_MAX} bytes: record fewer calls in one fixture",
        path.display()
    )]
    TooLong {
        /// The fixture.
        path: PathBuf,
    },
    /// The disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

crate::base::readable::readable!(FixtureError);

/// The first line.
#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    version: Version,
    #[serde(default)]
    belljar_version: String,
}

/// A call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Of the request as it was made. Without it, of the request that stands here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_hash: Option<Digest>,
    /// Without its secrets.
    pub request: Value,
    /// The pieces, if the answer was streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deltas: Option<Vec<LlmDelta>>,
    /// The answer, if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<LlmResponse>,
    /// Why there is none, or no end of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<LlmFailure>,
}

impl Entry {
    /// What the request is known by.
    pub(super) fn digest(&self) -> Digest {
        self.request_hash.unwrap_or_else(|| {
            let mut request = self.request.clone();
            request.sort_all_objects();
            Digest::of(request.to_string().as_bytes())
        })
    }

    fn check(&self) -> Result<(), &'static str> {
        if !self.request.is_object() {
            return Err("`request` is no object");
        }
        let has = (self.deltas.is_some(), self.response.is_some(), self.error.is_some());
        match has {
            (true, false, _) | (false, true, false) | (false, false, true) => Ok(()),
            _ => Err("expected `response`, `error`, `deltas`, or `deltas` and `error`"),
        }
    }
}

/// The first line of a fixture that is written now.
pub(super) fn header_line() -> Vec<u8> {
    let belljar_version = env!("CARGO_PKG_VERSION").to_owned();
    line_of(&Header { format: FORMAT.to_owned(), version: VERSION, belljar_version })
}

/// The calls of the fixture at `path`, each with its line.
pub(super) fn load(path: &Path) -> Result<Vec<(usize, Entry)>, FixtureError> {
    let mut bytes = Vec::new();
    let read = disk::open(path)?.take(FIXTURE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(DiskError::new("read", path))?;
    if bytes.len() as u64 > FIXTURE_BYTES_MAX {
        return Err(FixtureError::TooLong { path: path.to_owned() });
    }
    let bad = |line, message: String| FixtureError::Line { path: path.to_owned(), line, message };
    let mut lines = bytes.split(|byte| *byte == b'\n').zip(1..);
    let (first, _) = lines.next().unwrap_or_default();
    let header: Header = serde_json::from_slice(first)
        .map_err(|error| bad(1, format!("expected the header of a fixture: {error}")))?;
    if header.format != FORMAT {
        return Err(bad(1, format!("the format is {:?}, expected {FORMAT:?}", header.format)));
    }
    if header.version.major != VERSION.major {
        return Err(FixtureError::Version { path: path.to_owned(), found: header.version });
    }
    let entry = |(text, line): (&[u8], usize)| {
        let entry: Entry = serde_json::from_slice(text)
            .map_err(|error| bad(line, format!("expected a call: {error}")))?;
        entry.check().map_err(|problem| bad(line, problem.to_owned()))?;
        Ok((line, entry))
    };
    lines.filter(|(text, _)| !text.trim_ascii().is_empty()).map(entry).collect()
}
