//! What the two versions of WASI do differently.

#[cfg(target_env = "p1")]
mod preview1;
#[cfg(target_env = "p2")]
mod preview2;

#[cfg(target_env = "p1")]
pub(crate) use preview1::*;
#[cfg(target_env = "p2")]
pub(crate) use preview2::*;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use crate::process::{Default, Kind, Stdio};

/// A process to start.
pub(crate) struct Request<'a> {
    pub program: &'a OsStr,
    pub args: &'a [OsString],
    pub environ: Vec<(OsString, OsString)>,
    pub current_dir: Option<&'a Path>,
    pub stdio: [Given; 3],
}

/// A stream for a child.
pub(crate) enum Given {
    Inherit,
    Null,
    Stream(Handed),
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Exited(u32),
    Signalled(u32),
}

/// How a file is opened for a child.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Open {
    Read,
    Create,
}

/// `text`, which is UTF-8.
///
/// # Errors
/// `InvalidInput` if it is not.
pub(crate) fn text(text: &OsStr) -> io::Result<&str> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "the text is not UTF-8");
    text.to_str().ok_or_else(invalid)
}

/// The standard input of a child, and its other end if it is a pipe.
///
/// # Errors
/// Errors of making a pipe.
pub(crate) fn child_input(
    stdio: Option<Stdio>,
    default: Default,
) -> io::Result<(Given, Option<Writer>)> {
    Ok(match kind(stdio, default) {
        Kind::Inherit => (Given::Inherit, None),
        Kind::Null => (Given::Null, None),
        Kind::Stream(stream) => (Given::Stream(stream), None),
        Kind::Piped => {
            let (reader, writer) = pipe()?;
            (Given::Stream(reader.into()), Some(writer))
        }
    })
}

/// A standard output of a child, and its other end if it is a pipe.
///
/// # Errors
/// Errors of making a pipe.
pub(crate) fn child_output(
    stdio: Option<Stdio>,
    default: Default,
) -> io::Result<(Given, Option<Reader>)> {
    Ok(match kind(stdio, default) {
        Kind::Inherit => (Given::Inherit, None),
        Kind::Null => (Given::Null, None),
        Kind::Stream(stream) => (Given::Stream(stream), None),
        Kind::Piped => {
            let (reader, writer) = pipe()?;
            (Given::Stream(writer.into()), Some(reader))
        }
    })
}

fn kind(stdio: Option<Stdio>, default: Default) -> Kind {
    match stdio {
        Some(Stdio(kind)) => kind,
        None => match default {
            Default::Inherit => Kind::Inherit,
            Default::Null => Kind::Null,
            Default::Piped => Kind::Piped,
        },
    }
}
