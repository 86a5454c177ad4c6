//! The one test binary. A file per concern.
#![allow(clippy::disallowed_methods, reason = "tests look at the disk from outside")]

mod conformance;
mod hostile;
mod support;
mod tidy;
mod toolchains;
