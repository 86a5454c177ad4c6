//! `wasi:io/streams`, `wasi:io/error`.

use wasmtime::component::Resource;

use super::call::{Halt, interface};
use super::errors::{Answer, Failure, IoError, Origin};
use super::input::{self, InputStream};
use super::output::{self, OutputStream};
use super::poll::Pollable;
use crate::abi::{Process, trace};

/// Most bytes of `blocking-write-and-flush` and `blocking-write-zeroes-and-flush`.
const BLOCKING_WRITE_BYTES_MAX: u64 = 4096;

interface! {
    /// `wasi:io/error`
    error:
    "[method]error.to-debug-string" => is(to_debug_string),
}

interface! {
    /// `wasi:io/streams`
    streams:
    "[method]input-stream.blocking-read" => waits(blocking_read),
    "[method]input-stream.blocking-skip" => waits(blocking_skip),
    "[method]input-stream.read" => waits(read),
    "[method]input-stream.skip" => waits(skip),
    "[method]input-stream.subscribe" => is(subscribe_input),
    "[method]output-stream.blocking-flush" => is(flush),
    "[method]output-stream.blocking-splice" => waits(blocking_splice),
    "[method]output-stream.blocking-write-and-flush" => waits(blocking_write_and_flush),
    "[method]output-stream.blocking-write-zeroes-and-flush" => waits(blocking_write_zeroes_and_flush),
    "[method]output-stream.check-write" => waits(check_write),
    "[method]output-stream.flush" => is(flush),
    "[method]output-stream.splice" => waits(splice),
    "[method]output-stream.subscribe" => is(subscribe_output),
    "[method]output-stream.write" => waits(write),
    "[method]output-stream.write-zeroes" => waits(write_zeroes),
}

type Input = Resource<InputStream>;
type Output = Resource<OutputStream>;

fn to_debug_string(process: &mut Process, (error,): (Resource<IoError>,)) -> Result<String, Halt> {
    trace!(process.guest, "");
    let IoError { errno, origin } = process.resource(&error)?;
    Ok(match origin {
        Origin::Http(code) => format!("{code:?}"),
        Origin::File | Origin::Stream => errno.to_string(),
    })
}

fn read_as(process: &mut Process, stream: &Input, len: u64, waits: bool) -> Answer<Vec<u8>> {
    let of = *process.resource(stream)?;
    trace!(process.guest, "{of}, len={len}");
    let answer = input::read(process, stream, len, waits);
    process.stream_answer(answer)
}

fn read(process: &mut Process, (stream, len): &(Input, u64)) -> Answer<Vec<u8>> {
    read_as(process, stream, *len, false)
}

fn blocking_read(process: &mut Process, (stream, len): &(Input, u64)) -> Answer<Vec<u8>> {
    read_as(process, stream, *len, true)
}

fn skip_as(process: &mut Process, stream: &Input, len: u64, waits: bool) -> Answer<u64> {
    let of = *process.resource(stream)?;
    trace!(process.guest, "{of}, len={len}");
    let answer = input::skip(process, stream, len, waits);
    process.stream_answer(answer)
}

fn skip(process: &mut Process, (stream, len): &(Input, u64)) -> Answer<u64> {
    skip_as(process, stream, *len, false)
}

fn blocking_skip(process: &mut Process, (stream, len): &(Input, u64)) -> Answer<u64> {
    skip_as(process, stream, *len, true)
}

fn subscribe_input(process: &mut Process, (stream,): (Input,)) -> Result<Resource<Pollable>, Halt> {
    let input = *process.resource(&stream)?;
    trace!(process.guest, "{input}");
    process.add_child(Pollable(input.readiness()), &stream)
}

fn subscribe_output(
    process: &mut Process,
    (stream,): (Output,),
) -> Result<Resource<Pollable>, Halt> {
    let output = *process.resource(&stream)?;
    trace!(process.guest, "{output}");
    process.add_child(Pollable(output.readiness()), &stream)
}

fn check_write(process: &mut Process, (stream,): &(Output,)) -> Answer<u64> {
    let of = *process.resource(stream)?;
    trace!(process.guest, "{of}");
    let answer = output::check_write(process, stream);
    process.stream_answer(answer)
}

/// What is written is not kept back.
fn flush(process: &mut Process, (stream,): (Output,)) -> Answer<()> {
    let of = *process.resource(&stream)?;
    trace!(process.guest, "{of}");
    let answer = output::check_open(process, &stream);
    process.stream_answer(answer)
}

fn write(process: &mut Process, (stream, bytes): &(Output, Vec<u8>)) -> Answer<()> {
    let of = *process.resource(stream)?;
    trace!(process.guest, "{of}, len={}", bytes.len());
    let answer = output::write_permitted(process, stream, bytes);
    process.stream_answer(answer)
}

fn write_zeroes(process: &mut Process, (stream, len): &(Output, u64)) -> Answer<()> {
    let of = *process.resource(stream)?;
    trace!(process.guest, "{of}, len={len}");
    let answer = output::zeroes(process, stream, *len)
        .and_then(|zeroes| output::write_permitted(process, stream, &zeroes));
    process.stream_answer(answer)
}

fn blocking_write_and_flush(
    process: &mut Process,
    (stream, bytes): &(Output, Vec<u8>),
) -> Answer<()> {
    let of = *process.resource(stream)?;
    trace!(process.guest, "{of}, len={}", bytes.len());
    let answer = begin_blocking(process, bytes.len() as u64)
        .and_then(|()| output::write(process, stream, bytes));
    process.stream_answer(answer)
}

fn blocking_write_zeroes_and_flush(
    process: &mut Process,
    (stream, len): &(Output, u64),
) -> Answer<()> {
    let of = *process.resource(stream)?;
    trace!(process.guest, "{of}, len={len}");
    let answer = begin_blocking(process, *len)
        .and_then(|()| output::write(process, stream, &vec![0; *len as usize]));
    process.stream_answer(answer)
}

fn begin_blocking(process: &mut Process, len: u64) -> Result<(), Failure> {
    if len > BLOCKING_WRITE_BYTES_MAX {
        return Err(Halt::Trap("a blocking write has more than 4096 bytes").into());
    }
    Ok(process.guest.rest_if_busy()?)
}

fn splice(process: &mut Process, (to, from, len): &(Output, Input, u64)) -> Answer<u64> {
    splice_as(process, to, from, *len, false)
}

fn blocking_splice(process: &mut Process, (to, from, len): &(Output, Input, u64)) -> Answer<u64> {
    splice_as(process, to, from, *len, true)
}

fn splice_as(
    process: &mut Process,
    to: &Output,
    from: &Input,
    len: u64,
    waits: bool,
) -> Answer<u64> {
    let (sink, source) = (*process.resource(to)?, *process.resource(from)?);
    trace!(process.guest, "{sink}, {source}, len={len}");
    let answer = spliced(process, to, from, len, waits);
    process.stream_answer(answer)
}

fn spliced(
    process: &mut Process,
    to: &Output,
    from: &Input,
    len: u64,
    waits: bool,
) -> Result<u64, Failure> {
    // Bytes that were read must find room at once: they cannot be given back.
    let room = output::room(process, to, waits)?;
    let bytes = input::read(process, from, len.min(room), waits)?;
    output::write(process, to, &bytes)?;
    Ok(bytes.len() as u64)
}
