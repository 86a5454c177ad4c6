//! The packages `belljar:process` and `belljar:host`, whose WIT is beside this crate's sources.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Component, Path};

use serde_json::Value;
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, ErrorCode as FileError, OpenFlags, PathFlags,
};
use wasip2::io::poll::poll;
use wasip2::io::streams::{InputStream, OutputStream};

use super::{Given, Open, Request, Status, text};
use crate::host::CallError;

mod bindings {
    wit_bindgen::generate!({
        inline: "
            package belljar:guest;

            world guest {
                import belljar:process/processes@0.1.0;
                import belljar:host/calls@0.1.0;
            }
        ",
        path: ["wit/process", "wit/host"],
        with: {
            "wasi:filesystem/types@0.2.0": wasip2::filesystem::types,
            "wasi:io/poll@0.2.0": wasip2::io::poll,
            "wasi:io/streams@0.2.0": wasip2::io::streams,
        },
        generate_all,
    });
}

use bindings::belljar::host::calls;
use bindings::belljar::process::processes::{self, ErrorCode, ExitStatus, Stdio};

fn error(code: ErrorCode) -> io::Error {
    let kind = match code {
        ErrorCode::Access | ErrorCode::NotPermitted => io::ErrorKind::PermissionDenied,
        ErrorCode::ArgumentListTooLong => io::ErrorKind::ArgumentListTooLong,
        ErrorCode::InsufficientMemory => io::ErrorKind::OutOfMemory,
        ErrorCode::Invalid => io::ErrorKind::InvalidInput,
        ErrorCode::NameTooLong => io::ErrorKind::InvalidFilename,
        ErrorCode::NoEntry => io::ErrorKind::NotFound,
        ErrorCode::NotDirectory => io::ErrorKind::NotADirectory,
        ErrorCode::ProcessLimit => io::ErrorKind::WouldBlock,
        ErrorCode::Unsupported => io::ErrorKind::Unsupported,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, code)
}

/// What is given to a child.
pub(crate) enum Handed {
    Input(InputStream),
    Output(OutputStream),
}

impl fmt::Debug for Handed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input(_) => "input",
            Self::Output(_) => "output",
        })
    }
}

impl From<Reader> for Handed {
    fn from(reader: Reader) -> Self {
        Self::Input(reader.0)
    }
}

impl From<Writer> for Handed {
    fn from(writer: Writer) -> Self {
        Self::Output(writer.0)
    }
}

#[derive(Debug)]
pub(crate) struct Reader(InputStream);

#[derive(Debug)]
pub(crate) struct Writer(OutputStream);

impl Read for Reader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        io::Read::read(&mut self.0, bytes)
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The only error of writing to a pipe.
        io::Write::write(&mut self.0, bytes)
            .map_err(|error| io::Error::new(io::ErrorKind::BrokenPipe, error))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::Write::flush(&mut self.0)
            .map_err(|error| io::Error::new(io::ErrorKind::BrokenPipe, error))
    }
}

pub(crate) fn open(path: &Path, how: Open) -> io::Result<Handed> {
    let path = text(path.as_os_str())?;
    let (dir, path) = beneath(path)?;
    let (open, flags) = match how {
        Open::Read => (OpenFlags::empty(), DescriptorFlags::READ),
        Open::Create => (OpenFlags::CREATE | OpenFlags::TRUNCATE, DescriptorFlags::WRITE),
    };
    let file = dir.open_at(PathFlags::SYMLINK_FOLLOW, &path, open, flags).map_err(file_error)?;
    Ok(match how {
        Open::Read => Handed::Input(file.read_via_stream(0).map_err(file_error)?),
        Open::Create => Handed::Output(file.write_via_stream(0).map_err(file_error)?),
    })
}

/// The directory of this program that `path` is beneath, and the path from there.
fn beneath(path: &str) -> io::Result<(Descriptor, String)> {
    let is_absolute = path.starts_with('/');
    let components = |path: &Path| -> Vec<String> {
        let normal = path.components().filter(|it| *it != Component::RootDir);
        normal.map(|it| it.as_os_str().to_string_lossy().into_owned()).collect()
    };
    let wanted = components(Path::new(path));
    let (mut found, mut length) = (None, 0);
    for (dir, name) in get_directories() {
        if !is_absolute {
            if name == "." {
                return Ok((dir, path.to_owned()));
            }
            continue;
        }
        let parts = components(Path::new(&name));
        let is_longer = found.is_none() || parts.len() > length;
        if name.starts_with('/') && is_longer && wanted.starts_with(&parts) {
            length = parts.len();
            found = Some(dir);
        }
    }
    let found = found.ok_or(io::ErrorKind::NotFound)?;
    let rest = wanted[length..].join("/");
    Ok((found, if rest.is_empty() { ".".to_owned() } else { rest }))
}

fn file_error(code: FileError) -> io::Error {
    let kind = match code {
        FileError::Access | FileError::NotPermitted => io::ErrorKind::PermissionDenied,
        FileError::IsDirectory => io::ErrorKind::IsADirectory,
        FileError::NoEntry => io::ErrorKind::NotFound,
        FileError::NotDirectory => io::ErrorKind::NotADirectory,
        FileError::ReadOnly => io::ErrorKind::ReadOnlyFilesystem,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, code)
}

pub(crate) fn pipe() -> io::Result<(Reader, Writer)> {
    let (reader, writer) = processes::pipe().map_err(error)?;
    Ok((Reader(reader), Writer(writer)))
}

pub(crate) fn ignore_sigpipe(ignores: bool) {
    processes::ignore_sigpipe(ignores);
}

/// A process that was started.
#[derive(Debug)]
pub(crate) struct Process(processes::Child);

pub(crate) fn spawn(request: Request<'_>) -> io::Result<Process> {
    let Request { program, args, environ, current_dir, stdio } = request;
    let owned = |it: &OsStr| text(it).map(str::to_owned);
    let args = std::iter::once(program).chain(args.iter().map(OsString::as_os_str));
    let variable = |(name, value): (OsString, OsString)| Ok((owned(&name)?, owned(&value)?));
    let [stdin, stdout, stderr] = stdio.map(|given| match given {
        Given::Inherit => Stdio::Inherit,
        Given::Null => Stdio::Null,
        Given::Stream(Handed::Input(stream)) => Stdio::Input(stream),
        Given::Stream(Handed::Output(stream)) => Stdio::Output(stream),
    });
    let command = processes::Command {
        program: owned(program)?,
        arguments: args.map(owned).collect::<io::Result<_>>()?,
        environment: Some(environ.into_iter().map(variable).collect::<io::Result<_>>()?),
        current_dir: current_dir.map(|dir| owned(dir.as_os_str())).transpose()?,
        stdin,
        stdout,
        stderr,
        descriptors: Vec::new(),
    };
    processes::spawn(command).map(Process).map_err(error)
}

impl From<ExitStatus> for Status {
    fn from(status: ExitStatus) -> Self {
        match status {
            ExitStatus::Exited(code) => Self::Exited(code),
            ExitStatus::Signalled(signal) => Self::Signalled(signal),
        }
    }
}

impl Process {
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn kill(&mut self, signal: u32) -> io::Result<()> {
        match self.0.kill(signal) {
            Err(ErrorCode::NoSuchProcess) => Ok(()),
            killed => killed.map_err(error),
        }
    }

    pub fn wait(&mut self) -> io::Result<Status> {
        self.0.wait().map(Status::from).map_err(error)
    }

    pub fn try_wait(&mut self) -> io::Result<Option<Status>> {
        Ok(self.0.try_wait().map_err(error)?.map(Status::from))
    }
}

/// The index of the first stream that has bytes, or is at its end.
pub(crate) fn first_ready(streams: &[Option<Reader>; 2]) -> io::Result<usize> {
    let open: Vec<usize> = (0..2).filter(|index| streams[*index].is_some()).collect();
    let pollables: Vec<_> = streams.iter().flatten().map(|it| it.0.subscribe()).collect();
    let ready = poll(&pollables.iter().collect::<Vec<_>>());
    Ok(open[ready[0] as usize])
}

pub(crate) fn current_dir() -> io::Result<String> {
    processes::current_dir().map_err(error)
}

pub(crate) fn set_current_dir(path: &str) -> io::Result<()> {
    processes::set_current_dir(path).map_err(error)
}

pub(crate) fn host_has(name: &str) -> bool {
    calls::has(name)
}

pub(crate) fn host_call(operation: &str, params: &str) -> Result<Value, CallError> {
    let failed = |it: calls::Error| {
        let calls::Error { kind, message, code } = it;
        CallError { kind, message, code }
    };
    let result = calls::call(operation, params).map_err(failed)?;
    serde_json::from_str(&result).map_err(|error| CallError::new("failed", error.to_string()))
}
