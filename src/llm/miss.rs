//! A request without an answer in the fixture.

use std::fmt;
use std::path::PathBuf;

use crate::base::digest::Digest;

/// A field in which two requests differ. Values are shortened around the difference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The field, as a JSON pointer: `/messages/0/content`.
    pub field: String,
    /// The recorded value as JSON; `None` if missing.
    pub recorded: Option<String>,
    /// The requested value as JSON; `None` if missing.
    pub asked: Option<String>,
}

/// The recorded request with the fewest differing fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nearest {
    /// Its line in the fixture.
    pub line: usize,
    /// Number of differing fields; 0 if the requests are equal, and the answer has been used.
    pub differing: usize,
    /// The first differing fields.
    pub differences: Vec<Difference>,
}

/// A fixture has no answer left for a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Miss {
    /// The fixture.
    pub fixture: PathBuf,
    /// The digest of the request.
    pub request_hash: Digest,
    /// The most similar recorded request, if there are any.
    pub nearest: Option<Nearest>,
}

impl std::error::Error for Miss {}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fixture, request_hash, nearest } = self;
        write!(f, "{} has no answer for request {request_hash}", fixture.display())?;
        match nearest {
            None => write!(f, ": it has no calls")?,
            Some(Nearest { line, differing: 0, .. }) => {
                write!(f, ": all answers to this request are used, the last on line {line}")?;
            }
            Some(Nearest { line, differing, differences }) => {
                write!(f, "; the most similar request, on line {line}, differs in:")?;
                for Difference { field, recorded, asked } in differences {
                    let shown = |value: &Option<String>| value.clone().unwrap_or("nothing".into());
                    write!(f, "\n  {field}: recorded {}, now {}", shown(recorded), shown(asked))?;
                }
                if *differing > differences.len() {
                    write!(f, "\n  and {} more fields", differing - differences.len())?;
                }
            }
        }
        write!(f, "\nif the request is correct, record the fixture again")
    }
}
