//! Why a native program was not started.

use std::io;

use crate::base::exhausted::is_exhausted;

/// Why a program was not started.
pub(super) struct NotStarted {
    pub(super) message: String,
    /// The host has no process, descriptor or memory left.
    pub(super) exhausted: bool,
}

impl From<String> for NotStarted {
    /// A reason that stays.
    fn from(message: String) -> Self {
        Self { message, exhausted: false }
    }
}

impl From<io::Error> for NotStarted {
    fn from(error: io::Error) -> Self {
        Self { message: error.to_string(), exhausted: is_exhausted(&error) }
    }
}
