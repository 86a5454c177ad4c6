//! Streams of the entries of directories.

use std::pin::Pin;
use std::task::{Context, Poll};

use wasmtime::component::{
    Destination, Resource, StreamProducer, StreamReader, StreamResult, VecBuffer,
};
use wasmtime::{AsContextMut, StoreContextMut};

use super::ending::Ending;
use super::reading::Stream;
use super::types::{DirectoryEntry, ErrorCode};
use super::waits::{Gone, Waits};
use crate::abi::preview2::call::{Halt, call};
use crate::abi::preview2::filesystem::{DirectoryEntryStream, next_entries};
use crate::abi::{Process, trace};
use crate::base::errno::Errno;
use crate::kernel::guest::Guest;

/// Most entries of one read by another stream of the host.
const CHUNK_ENTRIES: usize = 1024;

/// The stream that `opened` is, or an empty one with its error.
///
/// # Errors
/// The table of the store is full.
pub(super) fn stream(
    mut store: StoreContextMut<'_, Process>,
    opened: Result<Resource<DirectoryEntryStream>, Errno>,
) -> wasmtime::Result<Stream<DirectoryEntry, ErrorCode>> {
    let (mut ending, ended) = Ending::new(store.as_context_mut())?;
    let reader = match ending.or_fail(opened) {
        Some(stream) => {
            let waits = store.data_mut().waits.clone();
            StreamReader::new(store, Listing { stream: Some(stream), waits, ending })?
        }
        None => StreamReader::new(store, std::iter::empty())?,
    };
    Ok((reader, ended))
}

/// A directory that a component lists.
struct Listing {
    /// None once it has ended.
    stream: Option<Resource<DirectoryEntryStream>>,
    waits: Waits,
    ending: Ending,
}

impl StreamProducer<Process> for Listing {
    type Item = DirectoryEntry;
    type Buffer = VecBuffer<DirectoryEntry>;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut store: StoreContextMut<'a, Process>,
        mut destination: Destination<'a, DirectoryEntry, VecBuffer<DirectoryEntry>>,
        _: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let Some(stream) = &self.stream else {
            return Poll::Ready(Ok(StreamResult::Dropped));
        };
        let room = destination.remaining(store.as_context_mut()).unwrap_or(CHUNK_ENTRIES);
        if room == 0 {
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        let listed = call(store.as_context_mut(), "stream.read", Guest::begin_call, |process| {
            trace!(process.guest, "nentries={room}");
            let listed = next_entries(process, stream, room)?;
            process.answer::<_, Errno>(listed)
        })?;
        let entries = self.ending.or_fail(listed).unwrap_or_default();
        if entries.is_empty() {
            self.ending.succeed();
            if let Some(stream) = self.stream.take() {
                store.data_mut().take(&stream).map_err(Halt::into_error)?;
            }
            return Poll::Ready(Ok(StreamResult::Dropped));
        }
        let entries = entries.into_iter();
        let entries =
            entries.map(|(file_type, name)| DirectoryEntry { file_type: file_type.into(), name });
        destination.set_buffer(VecBuffer::from(entries.collect::<Vec<_>>()));
        Poll::Ready(Ok(StreamResult::Completed))
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.waits.leave(Gone::Listing(stream));
        }
    }
}
