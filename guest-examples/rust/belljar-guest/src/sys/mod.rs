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
use std::io::{self, Read as _};
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
    if let Some(given) = given(stdio, default) {
        return Ok((given, None));
    }
    let (reader, writer) = pipe()?;
    Ok((Given::Stream(reader.into()), Some(writer)))
}

/// A standard output of a child, and its other end if it is a pipe.
///
/// # Errors
/// Errors of making a pipe.
pub(crate) fn child_output(
    stdio: Option<Stdio>,
    default: Default,
) -> io::Result<(Given, Option<Reader>)> {
    if let Some(given) = given(stdio, default) {
        return Ok((given, None));
    }
    let (reader, writer) = pipe()?;
    Ok((Given::Stream(writer.into()), Some(reader)))
}

/// What a child is given; `None` for an end of a pipe that is to be made.
fn given(stdio: Option<Stdio>, default: Default) -> Option<Given> {
    match (stdio.map(|Stdio(kind)| kind), default) {
        (Some(Kind::Inherit), _) | (None, Default::Inherit) => Some(Given::Inherit),
        (Some(Kind::Null), _) | (None, Default::Null) => Some(Given::Null),
        (Some(Kind::Stream(stream)), _) => Some(Given::Stream(stream)),
        (Some(Kind::Piped), _) | (None, Default::Piped) => None,
    }
}

/// Reads the streams to their ends, each as it comes, so that no writer waits for the other's reader.
///
/// # Errors
/// Errors of reading.
pub(crate) fn read_all(mut streams: [Option<Reader>; 2]) -> io::Result<[Vec<u8>; 2]> {
    let mut read = [Vec::new(), Vec::new()];
    let mut piece = vec![0; 1 << 16];
    loop {
        let index = match streams {
            [None, None] => return Ok(read),
            [Some(_), None] => 0,
            [None, Some(_)] => 1,
            [Some(_), Some(_)] => first_ready(&streams)?,
        };
        let Some(stream) = &mut streams[index] else { continue };
        let count = stream.read(&mut piece)?;
        read[index].extend_from_slice(&piece[..count]);
        if count == 0 {
            streams[index] = None;
        }
    }
}
