//! Streams of bytes that a component reads.

use std::pin::Pin;
use std::task::{Context, Poll};

use wasmtime::component::{
    Destination, FutureReader, Lift, Lower, Resource, StreamProducer, StreamReader, StreamResult,
    VecBuffer,
};
use wasmtime::{AsContextMut, StoreContextMut};

use super::ending::{Ended, Ending};
use super::waits::{Gone, Wait};
use crate::abi::preview2::call::{Halt, call};
use crate::abi::preview2::errors::Failure;
use crate::abi::preview2::input::{InputStream, read_here};
use crate::abi::preview2::resources::Kind;
use crate::abi::{Process, trace};
use crate::base::errno::Errno;
use crate::kernel::guest::{Fault, Guest};

/// Most bytes of one read by another stream of the host.
const CHUNK_BYTES: usize = 1 << 16;

/// A stream, and how it ends.
pub(super) type Stream<T, C> = (StreamReader<T>, FutureReader<Ended<C>>);

/// The stream that `opened` is, or an empty one with its error.
///
/// # Errors
/// The table of the store is full.
pub(super) fn stream<C: From<Errno> + Lift + Lower + Send + Sync + 'static>(
    mut store: StoreContextMut<'_, Process>,
    opened: Result<Resource<InputStream>, Errno>,
) -> wasmtime::Result<Stream<u8, C>> {
    let (mut ending, ended) = Ending::new(store.as_context_mut())?;
    let reader = match ending.or_fail(opened) {
        Some(stream) => {
            let wait = store.data_mut().waits.wait();
            StreamReader::new(store, Reading { stream: Some(stream), wait, ending })?
        }
        None => StreamReader::new(store, std::iter::empty())?,
    };
    Ok((reader, ended))
}

/// A call `name` that opens a stream.
///
/// # Errors
/// [`crate::kernel::machine::limits::Stop`], if it ends the process.
pub(super) fn open<T: Kind>(
    store: &mut StoreContextMut<'_, Process>,
    name: &'static str,
    open: impl FnOnce(&mut Process) -> Result<Result<T, Fault>, Halt>,
) -> wasmtime::Result<Result<Resource<T>, Errno>> {
    call(store.as_context_mut(), name, Guest::begin_call, |process| {
        process.close_gone()?;
        let opened = open(process)?;
        match process.answer::<_, Errno>(opened)? {
            Ok(stream) => process.add(stream).map(Ok),
            Err(errno) => Ok(Err(errno)),
        }
    })
}

/// What a component reads.
struct Reading {
    /// None once it has ended.
    stream: Option<Resource<InputStream>>,
    wait: Wait,
    ending: Ending,
}

impl Reading {
    /// Reads at most `len` bytes of `stream`, which is ready; none at its end, or after an error.
    fn read(
        &mut self,
        store: StoreContextMut<'_, Process>,
        stream: &Resource<InputStream>,
        len: usize,
    ) -> wasmtime::Result<Vec<u8>> {
        let read = call(store, "stream.read", Guest::begin_call, |process| {
            let of = *process.resource(stream)?;
            trace!(process.guest, "{of}, len={len}");
            match read_here(process, stream, len as u64) {
                Ok(bytes) => Ok(Ok(bytes)),
                Err(Failure::Closed) => Ok(Ok(Vec::new())),
                Err(Failure::Error(error)) => process.answer(Err::<_, Errno>(error.errno)),
                Err(Failure::Halt(halt)) => Err(halt),
            }
        })?;
        Ok(self.ending.or_fail(read).unwrap_or_default())
    }
}

impl StreamProducer<Process> for Reading {
    type Item = u8;
    type Buffer = VecBuffer<u8>;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut store: StoreContextMut<'a, Process>,
        mut destination: Destination<'a, u8, VecBuffer<u8>>,
        finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let Some(rep) = self.stream.as_ref().map(Resource::rep) else {
            return Poll::Ready(Ok(StreamResult::Dropped));
        };
        let stream = Resource::<InputStream>::new_borrow(rep);
        loop {
            let process = store.data_mut();
            let ready = process.resource(&stream).map(|stream| stream.readiness());
            let ready = ready.and_then(|condition| Ok((condition, condition.is_met(process)?)));
            let (condition, is_met) = match ready {
                Ok(ready) => ready,
                Err(halt) => return Poll::Ready(Err(halt.into_error())),
            };
            if is_met {
                self.wait.give_up();
                break;
            }
            if finish {
                self.wait.give_up();
                return Poll::Ready(Ok(StreamResult::Cancelled));
            }
            if self.wait.poll(condition, cx).is_pending() {
                return Poll::Pending;
            }
        }
        let room = destination.remaining(store.as_context_mut()).unwrap_or(CHUNK_BYTES);
        if room == 0 {
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        let bytes = self.read(store.as_context_mut(), &stream, room)?;
        if bytes.is_empty() {
            self.ending.succeed();
            self.stream = None;
            store.data_mut().take(&stream).map_err(Halt::into_error)?;
            return Poll::Ready(Ok(StreamResult::Dropped));
        }
        destination.set_buffer(VecBuffer::from(bytes));
        Poll::Ready(Ok(StreamResult::Completed))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.wait.waits().leave(Gone::Input(stream));
        }
    }
}
