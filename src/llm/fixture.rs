//! The fixture format: JSON lines, first a header, then one line per call.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::provider::{LlmDelta, LlmFailure, LlmResponse};
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};
use crate::tape::Version;
use crate::tape::lines::line_of;

/// Size limit of a fixture, in bytes.
pub const FIXTURE_BYTES_MAX: u64 = 256 << 20;

const FORMAT: &str = "belljar-llm-fixture";

const VERSION: Version = Version { major: 1, minor: 0 };

/// A fixture cannot be read or written.
#[derive(thiserror::Error)]
pub enum FixtureError {
    /// A line is invalid.
    #[error("{}, line {line}: {message}", path.display())]
    Line {
        /// The fixture.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong, and what is expected.
        message: String,
    },
    /// The fixture has another major version of the format.
    #[error(
        "{} has version {found}, and this belljar reads {VERSION}; use a newer belljar or record it again",
        path.display()
    )]
    Version {
        /// The fixture.
        path: PathBuf,
        /// Its version.
        found: Version,
    },
    /// The fixture is too long.
    #[error(
        "{} exceeds {FIXTURE_BYTES_MAX} bytes; record fewer calls in one fixture",
        path.display()
    )]
    TooLong {
        /// The fixture.
        path: PathBuf,
    },
    /// The file cannot be accessed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

crate::base::readable::readable!(FixtureError);

/// Line 1.
#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    version: Version,
    #[serde(default)]
    belljar_version: String,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The digest of the original request; if missing, that of `request`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_hash: Option<Digest>,
    /// Without secrets.
    pub request: Value,
    /// The pieces of a streamed answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deltas: Option<Vec<LlmDelta>>,
    /// An answer that was not streamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<LlmResponse>,
    /// Why there is no answer, or no end of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<LlmFailure>,
}

impl Entry {
    /// The digest that identifies the request.
    pub(super) fn digest(&self) -> Digest {
        self.request_hash.unwrap_or_else(|| {
            let mut request = self.request.clone();
            request.sort_all_objects();
            Digest::of(request.to_string().as_bytes())
        })
    }

    fn check(&self) -> Result<(), &'static str> {
        if !self.request.is_object() {
            return Err("`request` must be an object");
        }
        let has = (self.deltas.is_some(), self.response.is_some(), self.error.is_some());
        match has {
            (true, false, _) | (false, true, false) | (false, false, true) => Ok(()),
            _ => Err("expected `response`, `error`, `deltas`, or `deltas` and `error`"),
        }
    }
}

pub(super) fn header_line() -> Vec<u8> {
    let belljar_version = env!("CARGO_PKG_VERSION").to_owned();
    line_of(&Header { format: FORMAT.to_owned(), version: VERSION, belljar_version })
}

/// Reads the calls of the fixture at `path`, with their lines.
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
        .map_err(|error| bad(1, format!("invalid header of a fixture: {error}")))?;
    if header.format != FORMAT {
        return Err(bad(1, format!("invalid format {:?}; expected {FORMAT:?}", header.format)));
    }
    if header.version.major != VERSION.major {
        return Err(FixtureError::Version { path: path.to_owned(), found: header.version });
    }
    let entry = |(text, line): (&[u8], usize)| {
        let entry: Entry = serde_json::from_slice(text)
            .map_err(|error| bad(line, format!("invalid call: {error}")))?;
        entry.check().map_err(|problem| bad(line, problem.to_owned()))?;
        Ok((line, entry))
    };
    lines.filter(|(text, _)| !text.trim_ascii().is_empty()).map(entry).collect()
}
