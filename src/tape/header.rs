//! The first line of a tape.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A version of a format. A reader accepts every minor version of its own major version.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Version {
    /// Raised when older readers could misunderstand a tape.
    pub major: u32,
    /// Raised when something is added that older readers may skip.
    pub minor: u32,
}

impl Version {
    /// The version that this library writes.
    pub const CURRENT: Self = Self { major: 1, minor: 16 };
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('.').and_then(|(major, minor)| {
            Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
        });
        parts.ok_or_else(|| format!("invalid version {text:?}; expected MAJOR.MINOR"))
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// The first line of a tape.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// The version of the format.
    pub version: Version,
    /// The version of the library that wrote the tape.
    pub belljar_version: String,
    /// Start of the session on its own clock, in milliseconds since the Unix epoch.
    pub started_at_unix_ms: i64,
    /// The script, for a session that runs one.
    #[serde(default)]
    pub script_path: Option<String>,
    /// The command line.
    #[serde(default)]
    pub argv: Vec<String>,
}

impl Header {
    /// The header of a tape that begins at `started_at_unix_ms`.
    pub fn new(started_at_unix_ms: i64) -> Self {
        Self {
            version: Version::CURRENT,
            belljar_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at_unix_ms,
            script_path: None,
            argv: Vec::new(),
        }
    }
}
