//! Streams of bytes that a component writes.

use std::pin::Pin;
use std::task::{Context, Poll};

use wasmtime::component::{
    FutureReader, Lift, Lower, Resource, Source, StreamConsumer, StreamReader, StreamResult,
};
use wasmtime::{AsContextMut, StoreContextMut};

use super::ending::{Ended, Ending};
use super::reading;
use super::waits::{Gone, Wait};
use crate::abi::preview2::call::{Halt, call};
use crate::abi::preview2::errors::Failure;
use crate::abi::preview2::output::{OutputStream, room_now, write};
use crate::abi::{Process, trace};
use crate::base::errno::Errno;
use crate::kernel::guest::{Fault, Guest};

/// A call `name` that writes `data` to what `open` opens; returns the future that shows how that ends.
///
/// # Errors
/// [`crate::kernel::machine::limits::Stop`], if it ends the process; the table of the store is full.
pub(super) fn stream<C: From<Errno> + Lift + Lower + Send + Sync + 'static>(
    mut store: StoreContextMut<'_, Process>,
    name: &'static str,
    mut data: StreamReader<u8>,
    open: impl FnOnce(&mut Process) -> Result<Result<OutputStream, Fault>, Halt>,
) -> wasmtime::Result<FutureReader<Ended<C>>> {
    let opened = reading::open(&mut store, name, open)?;
    let (mut ending, ended) = Ending::new(store.as_context_mut())?;
    match ending.or_fail(opened) {
        Some(stream) => {
            let wait = store.data_mut().waits.wait();
            data.pipe(store, Writing { stream, wait, ending })?;
        }
        None => data.close(store)?,
    }
    Ok(ended)
}

/// What a component writes to.
struct Writing {
    stream: Resource<OutputStream>,
    wait: Wait,
    ending: Ending,
}

impl Writing {
    /// Writes what `source` has, at most `room` bytes; returns whether that succeeded.
    fn write(
        &mut self,
        mut store: StoreContextMut<'_, Process>,
        source: Source<'_, u8>,
        room: u64,
    ) -> wasmtime::Result<bool> {
        let mut source = source.as_direct(store.as_context_mut());
        let there = source.remaining();
        let bytes = there[..there.len().min(usize::try_from(room).unwrap_or(usize::MAX))].to_vec();
        source.mark_read(bytes.len());
        let written = call(store, "stream.write", Guest::begin_call, |process| {
            let of = *process.resource(&self.stream)?;
            trace!(process.guest, "{of}, len={}", bytes.len());
            match write(process, &self.stream, &bytes) {
                Ok(()) => Ok(Ok(())),
                Err(Failure::Closed) => Ok(Err(Errno::Badf)),
                Err(Failure::Error(error)) => process.answer(Err::<(), _>(error.errno)),
                Err(Failure::Halt(halt)) => Err(halt),
            }
        })?;
        Ok(self.ending.or_fail(written).is_some())
    }
}

impl StreamConsumer<Process> for Writing {
    type Item = u8;

    fn poll_consume(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut store: StoreContextMut<'_, Process>,
        source: Source<'_, u8>,
        finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let room = loop {
            let process = store.data_mut();
            let room = match room_now(process, &self.stream) {
                Ok(room) => room,
                Err(Failure::Halt(halt)) => return Poll::Ready(Err(halt.into_error())),
                Err(Failure::Closed | Failure::Error(_)) => {
                    return Poll::Ready(Ok(StreamResult::Dropped));
                }
            };
            if room > 0 {
                self.wait.give_up();
                break room;
            }
            if finish {
                self.wait.give_up();
                return Poll::Ready(Ok(StreamResult::Cancelled));
            }
            let condition = process.resource(&self.stream).map(|stream| stream.readiness());
            let condition = condition.map_err(Halt::into_error)?;
            if self.wait.poll(condition, cx).is_pending() {
                return Poll::Pending;
            }
        };
        if source.remaining(store.as_context_mut()) == 0 {
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        let is_open = self.write(store, source, room)?;
        Poll::Ready(Ok(if is_open { StreamResult::Completed } else { StreamResult::Dropped }))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let stream = Resource::new_own(self.stream.rep());
        self.wait.waits().leave(Gone::Output(stream));
    }
}
