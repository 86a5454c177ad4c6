//! `wasi:cli`.

use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, FutureReader, Lift, Lower, StreamReader};

use super::ending::Ended;
use super::reading::{self, Stream};
use super::writing;
use crate::abi::preview2::call::interface;
use crate::abi::preview2::cli::{get_arguments, get_environment, initial_cwd};
use crate::abi::preview2::input::InputStream;
use crate::abi::preview2::output::OutputStream;
use crate::abi::{Process, trace};
use crate::base::errno::Errno;

interface! {
    /// `wasi:cli/environment`
    environment:
    "get-arguments" => answers(get_arguments),
    "get-environment" => answers(get_environment),
    "get-initial-cwd" => answers(initial_cwd),
}

interface! {
    /// `wasi:cli/stdin`
    stdin:
    "read-via-stream" => streams(read_stdin),
}

interface! {
    /// `wasi:cli/stdout`
    stdout:
    "write-via-stream" => streams(write_stdout),
}

interface! {
    /// `wasi:cli/stderr`
    stderr:
    "write-via-stream" => streams(write_stderr),
}

/// `wasi:cli/types.error-code`
#[derive(Clone, Copy, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
enum ErrorCode {
    #[component(name = "io")]
    Io,
    #[component(name = "illegal-byte-sequence")]
    IllegalByteSequence,
    #[component(name = "pipe")]
    Pipe,
}

impl From<Errno> for ErrorCode {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::Ilseq => Self::IllegalByteSequence,
            Errno::Pipe => Self::Pipe,
            _ => Self::Io,
        }
    }
}

fn read_stdin(
    mut store: StoreContextMut<'_, Process>,
    (): (),
) -> wasmtime::Result<Stream<u8, ErrorCode>> {
    let opened = reading::open(&mut store, "read-via-stream", |process| {
        trace!(process.guest, "fd=0");
        Ok(Ok(InputStream::standard()))
    })?;
    reading::stream(store, opened)
}

fn write_stdout(
    store: StoreContextMut<'_, Process>,
    (data,): (StreamReader<u8>,),
) -> wasmtime::Result<FutureReader<Ended<ErrorCode>>> {
    write_standard(store, data, 1)
}

fn write_stderr(
    store: StoreContextMut<'_, Process>,
    (data,): (StreamReader<u8>,),
) -> wasmtime::Result<FutureReader<Ended<ErrorCode>>> {
    write_standard(store, data, 2)
}

fn write_standard(
    store: StoreContextMut<'_, Process>,
    data: StreamReader<u8>,
    fd: u32,
) -> wasmtime::Result<FutureReader<Ended<ErrorCode>>> {
    writing::stream(store, "write-via-stream", data, |process| {
        trace!(process.guest, "fd={fd}");
        Ok(Ok(OutputStream::standard(fd)))
    })
}
