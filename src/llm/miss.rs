//! A request that a fixture has no answer to.

use std::fmt;
use std::path::PathBuf;

use crate::base::digest::Digest;

/// A field in which two requests differ. Values are shortened to where they do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The field, as a JSON pointer: `/messages/0/content`.
    pub field: String,
    /// What the fixture holds, as JSON; `None` if it has no such field.
    pub recorded: Option<String>,
    /// What was asked, as JSON; `None` if it has no such field.
    pub asked: Option<String>,
}

/// The recorded request that is most like the one that was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nearest {
    /// Its line in the fixture.
    pub line: usize,
    /// In how many fields it differs; 0 if it is the same, and its answer has been used.
    pub differing: usize,
    /// The first of these fields.
    pub differences: Vec<Difference>,
}

/// A fixture has no answer left for a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Miss {
    /// The fixture.
    pub fixture: PathBuf,
    /// The digest of the request.
    pub request_hash: Digest,
    /// The nearest of the recorded requests, if there are any.
    pub nearest: Option<Nearest>,
}

impl std::error::Error for Miss {}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fixture, request_hash, nearest } = self;
        write!(f, "{} has no answer for the request {request_hash}", fixture.display())?;
        match nearest {
            None => write!(f, ": it holds no calls")?,
            Some(Nearest { line, differing: 0, .. }) => {
                write!(f, ": all its answers to this request, the last on line {line}, are used")?;
            }
            Some(Nearest { line, differing, differences }) => {
                write!(f, "; the nearest, on line {line}, differs in:")?;
                for Difference { field, recorded, asked } in differences {
                    let shown = |value: &Option<String>| value.clone().unwrap_or("nothing".into());
                    write!(f, "\n  {field}: recorded {}, asked {}", shown(recorded), shown(asked))?;
                }
                if *differing > differences.len() {
                    write!(f, "\n  and {} more fields", differing - differences.len())?;
                }
            }
        }
        write!(f, "\nrecord the fixture again if the request is as it should be")
    }
}
