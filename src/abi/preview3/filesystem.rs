//! `wasi:filesystem/types`.

use wasmtime::component::{FutureReader, StreamReader};
use wasmtime::{AsContextMut, StoreContextMut};

use super::directory;
use super::ending::Ended;
use super::reading::{self, Stream};
use super::types::{DescriptorStat, DescriptorType, DirectoryEntry, ErrorCode, NewTimestamp};
use super::writing;
use crate::abi::preview2::call::interface;
use crate::abi::preview2::filesystem::{
    Answer, DirectoryEntryStream, Handle, advise, create_directory_at, get_flags, get_type,
    is_same_object, link_at, metadata_hash, metadata_hash_at, open_at, readlink_at,
    remove_directory_at, rename_at, set_size, set_times, set_times_at, stat, stat_at, symlink_at,
    sync, unlink_file_at,
};
use crate::abi::preview2::input::InputStream;
use crate::abi::preview2::output::OutputStream;
use crate::abi::preview2::types::{Advice, DescriptorFlags, OpenFlags, PathFlags};
use crate::abi::{Process, trace};
use crate::base::errno::Errno;
use crate::kernel::vfs::FileType;

interface! {
    /// `wasi:filesystem/types`
    types:
    "[method]descriptor.advise" => is_async(advise_file),
    "[method]descriptor.append-via-stream" => streams(append_via_stream),
    "[method]descriptor.create-directory-at" => is_async(create_directory_at::<ErrorCode>),
    "[method]descriptor.get-flags" => is_async(get_flags::<ErrorCode>),
    "[method]descriptor.get-type" => is_async(get_type::<DescriptorType, ErrorCode>),
    "[method]descriptor.is-same-object" => is_async(is_same_object),
    "[method]descriptor.link-at" => is_async(link_at::<ErrorCode>),
    "[method]descriptor.metadata-hash" => is_async(metadata_hash::<ErrorCode>),
    "[method]descriptor.metadata-hash-at" => is_async(metadata_hash_at::<ErrorCode>),
    "[method]descriptor.open-at" => is_async(open_file),
    "[method]descriptor.read-directory" => streams(read_directory),
    "[method]descriptor.read-via-stream" => streams(read_via_stream),
    "[method]descriptor.readlink-at" => is_async(readlink_at::<ErrorCode>),
    "[method]descriptor.remove-directory-at" => is_async(remove_directory_at::<ErrorCode>),
    "[method]descriptor.rename-at" => is_async(rename_at::<ErrorCode>),
    "[method]descriptor.set-size" => is_async(set_size::<ErrorCode>),
    "[method]descriptor.set-times" => is_async(set_times::<NewTimestamp, ErrorCode>),
    "[method]descriptor.set-times-at" => is_async(set_times_at::<NewTimestamp, ErrorCode>),
    "[method]descriptor.stat" => is_async(stat::<DescriptorStat, ErrorCode>),
    "[method]descriptor.stat-at" => is_async(stat_at::<DescriptorStat, ErrorCode>),
    "[method]descriptor.symlink-at" => is_async(symlink_at::<ErrorCode>),
    "[method]descriptor.sync" => is_async(sync::<ErrorCode>),
    "[method]descriptor.sync-data" => is_async(sync::<ErrorCode>),
    "[method]descriptor.unlink-file-at" => is_async(unlink_file_at::<ErrorCode>),
    "[method]descriptor.write-via-stream" => streams(write_via_stream),
}

/// In WASI 0.3 what is opened neither to read nor to write is read, and what may be created is written, too.
fn open_file(
    process: &mut Process,
    (dir, path_flags, path, open_flags, mut flags): (
        Handle,
        PathFlags,
        String,
        OpenFlags,
        DescriptorFlags,
    ),
) -> Answer<Handle, ErrorCode> {
    if !flags.contains(DescriptorFlags::READ) && !flags.contains(DescriptorFlags::WRITE) {
        flags |= DescriptorFlags::READ;
    }
    if open_flags.contains(OpenFlags::CREATE) {
        flags |= DescriptorFlags::WRITE;
    }
    open_at(process, (dir, path_flags, path, open_flags, flags))
}

/// In WASI 0.3 a directory takes no advice.
fn advise_file(
    process: &mut Process,
    (file, offset, len, advice): (Handle, u64, u64, Advice),
) -> Answer<(), ErrorCode> {
    let fd = process.fd_of(&file)?;
    let is_dir = process.guest.fd_fdstat_get(fd)?.file_type == FileType::Directory;
    if is_dir {
        return process.answer(Err::<(), _>(Errno::Badf));
    }
    advise(process, (file, offset, len, advice))
}

fn read_via_stream(
    mut store: StoreContextMut<'_, Process>,
    (file, offset): (Handle, u64),
) -> wasmtime::Result<Stream<u8, ErrorCode>> {
    let opened = reading::open(&mut store, "[method]descriptor.read-via-stream", |process| {
        let fd = process.fd_of(&file)?;
        trace!(process.guest, "fd={fd}, offset={offset}");
        // As `pread` of POSIX, whose offsets have a sign.
        if i64::try_from(offset).is_err() {
            return Ok(Err(Errno::Inval.into()));
        }
        Ok(InputStream::of_file(process, fd, offset))
    })?;
    reading::stream(store, opened)
}

fn write_via_stream(
    store: StoreContextMut<'_, Process>,
    (file, data, offset): (Handle, StreamReader<u8>, u64),
) -> wasmtime::Result<FutureReader<Ended<ErrorCode>>> {
    writing::stream(store, "[method]descriptor.write-via-stream", data, |process| {
        let fd = process.fd_of(&file)?;
        trace!(process.guest, "fd={fd}, offset={offset}");
        Ok(OutputStream::of_file(process, fd, Some(offset)))
    })
}

fn append_via_stream(
    store: StoreContextMut<'_, Process>,
    (file, data): (Handle, StreamReader<u8>),
) -> wasmtime::Result<FutureReader<Ended<ErrorCode>>> {
    writing::stream(store, "[method]descriptor.append-via-stream", data, |process| {
        let fd = process.fd_of(&file)?;
        trace!(process.guest, "fd={fd}");
        Ok(OutputStream::of_file(process, fd, None))
    })
}

fn read_directory(
    mut store: StoreContextMut<'_, Process>,
    (dir,): (Handle,),
) -> wasmtime::Result<Stream<DirectoryEntry, ErrorCode>> {
    let opened = reading::open(&mut store, "[method]descriptor.read-directory", |process| {
        let fd = process.fd_of(&dir)?;
        trace!(process.guest, "fd={fd}");
        Ok(DirectoryEntryStream::of(process, fd))
    })?;
    directory::stream(store.as_context_mut(), opened)
}
