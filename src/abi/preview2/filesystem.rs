//! `wasi:filesystem/types`.

use wasmtime::component::Resource;

use super::call::{Halt, interface};
use super::errors::{IoError, Origin};
use super::file_io::{read_at, write_at};
use super::input::InputStream;
use super::output::OutputStream;
use super::types::{
    Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, ErrorCode, FileTime,
    MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use crate::abi::{Process, trace};
use crate::base::errno::Errno;
use crate::kernel::guest::{Fault, FileStat, Guest, OFlags, rights};
use crate::kernel::io::fd::FdFlags;
use crate::kernel::vfs::{FileType, Follow};

interface! {
    /// `wasi:filesystem/types`
    types:
    "[method]descriptor.advise" => is(advise::<ErrorCode>),
    "[method]descriptor.append-via-stream" => is(append_via_stream),
    "[method]descriptor.create-directory-at" => is(create_directory_at::<ErrorCode>),
    "[method]descriptor.get-flags" => is(get_flags::<ErrorCode>),
    "[method]descriptor.get-type" => is(get_type::<DescriptorType, ErrorCode>),
    "[method]descriptor.is-same-object" => is(is_same_object),
    "[method]descriptor.link-at" => is(link_at::<ErrorCode>),
    "[method]descriptor.metadata-hash" => is(metadata_hash::<ErrorCode>),
    "[method]descriptor.metadata-hash-at" => is(metadata_hash_at::<ErrorCode>),
    "[method]descriptor.open-at" => is(open_at::<ErrorCode>),
    "[method]descriptor.read" => is(read),
    "[method]descriptor.read-directory" => is(read_directory),
    "[method]descriptor.read-via-stream" => is(read_via_stream),
    "[method]descriptor.readlink-at" => is(readlink_at::<ErrorCode>),
    "[method]descriptor.remove-directory-at" => is(remove_directory_at::<ErrorCode>),
    "[method]descriptor.rename-at" => is(rename_at::<ErrorCode>),
    "[method]descriptor.set-size" => is(set_size::<ErrorCode>),
    "[method]descriptor.set-times" => is(set_times::<NewTimestamp, ErrorCode>),
    "[method]descriptor.set-times-at" => is(set_times_at::<NewTimestamp, ErrorCode>),
    "[method]descriptor.stat" => is(stat::<DescriptorStat, ErrorCode>),
    "[method]descriptor.stat-at" => is(stat_at::<DescriptorStat, ErrorCode>),
    "[method]descriptor.symlink-at" => is(symlink_at::<ErrorCode>),
    "[method]descriptor.sync" => is(sync::<ErrorCode>),
    "[method]descriptor.sync-data" => is(sync::<ErrorCode>),
    "[method]descriptor.unlink-file-at" => is(unlink_file_at::<ErrorCode>),
    "[method]descriptor.write" => is(write),
    "[method]descriptor.write-via-stream" => is(write_via_stream),
    "[method]directory-entry-stream.read-directory-entry" => is(read_directory_entry),
    "filesystem-error-code" => is(filesystem_error_code),
}

/// `descriptor`
pub(in crate::abi) struct Descriptor {
    pub fd: u32,
    /// Whether it is closed with its last resource. Preopens stay open.
    pub is_kept: bool,
    /// Whether it was opened to change what is in the directory.
    pub mutates: bool,
}

/// `directory-entry-stream`
pub(in crate::abi) struct DirectoryEntryStream {
    pub fd: u32,
    /// Of the next entry.
    cookie: u64,
}

/// The cookie after `.` and `..`.
const FIRST_COOKIE: u64 = 2;

impl DirectoryEntryStream {
    /// The entries of the directory `fd`.
    ///
    /// # Errors
    /// Those of [`Guest::fd_open_listing`].
    pub fn of(process: &mut Process, fd: u32) -> Result<Self, Fault> {
        // A description of its own: another stream does not list it again.
        let fd = process.guest.fd_open_listing(fd)?;
        Ok(Self { fd, cookie: FIRST_COOKIE })
    }
}

pub(in crate::abi) type Handle = Resource<Descriptor>;

/// The answer of a call, for the component, whose errors are `C`: WASI 0.2 and 0.3 have codes of their own.
pub(in crate::abi) type Answer<T, C = ErrorCode> = Result<Result<T, C>, Halt>;

impl Process {
    /// `answer`, with its errno as an interface says it whose errors are `C`.
    pub(in crate::abi) fn answer<T, C: From<Errno>>(
        &mut self,
        answer: Result<T, impl Into<Halt>>,
    ) -> Result<Result<T, C>, Halt> {
        match answer.map_err(Into::into) {
            Ok(value) => Ok(Ok(value)),
            Err(Halt::Unsaid(errno)) => {
                self.resources.failed = Some(errno);
                Ok(Err(errno.into()))
            }
            Err(halt) => Err(halt),
        }
    }

    pub(in crate::abi) fn fd_of(&mut self, handle: &Handle) -> Result<u32, Halt> {
        Ok(self.resource(handle)?.fd)
    }

    /// Checks the length of a path.
    ///
    /// # Errors
    /// `ENAMETOOLONG`.
    pub(super) fn check_path(&self, path: &str) -> Result<(), Errno> {
        let is_short = path.len() <= self.guest.machine().limits().vfs.path_bytes_max;
        if is_short { Ok(()) } else { Err(Errno::Nametoolong) }
    }

    /// Calls `op` with the kernel and the descriptor.
    fn on_file<T, C: From<Errno>>(
        &mut self,
        handle: &Handle,
        op: impl FnOnce(&mut Guest, u32) -> Result<T, Errno>,
    ) -> Answer<T, C> {
        let fd = self.fd_of(handle)?;
        trace!(self.guest, "fd={fd}");
        let answer = op(&mut self.guest, fd);
        self.answer(answer)
    }

    /// Calls `op` with the descriptor and the kernel, if `path` is not too long.
    fn on_path<T, C: From<Errno>>(
        &mut self,
        handle: &Handle,
        path: &str,
        op: impl FnOnce(&mut Self, u32) -> Result<T, Fault>,
    ) -> Answer<T, C> {
        let fd = self.fd_of(handle)?;
        trace!(self.guest, "fd={fd}, {path:?}");
        let answer = self.check_path(path).map_err(Fault::from).and_then(|()| op(self, fd));
        self.answer(answer)
    }
}

fn follow(flags: PathFlags) -> Follow {
    if flags.contains(PathFlags::SYMLINK_FOLLOW) { Follow::Yes } else { Follow::No }
}

pub(in crate::abi) fn advise<C: From<Errno>>(
    process: &mut Process,
    (file, ..): (Handle, u64, u64, Advice),
) -> Answer<(), C> {
    process.on_file(&file, Guest::fd_advise)
}

pub(in crate::abi) fn sync<C: From<Errno>>(
    process: &mut Process,
    (file,): (Handle,),
) -> Answer<(), C> {
    process.on_file(&file, Guest::fd_sync)
}

pub(in crate::abi) fn get_flags<C: From<Errno>>(
    process: &mut Process,
    (file,): (Handle,),
) -> Answer<DescriptorFlags, C> {
    let Descriptor { fd, mutates, .. } = *process.resource(&file)?;
    trace!(process.guest, "fd={fd}");
    let answer = process.guest.fd_fdstat_get(fd).map(|stat| {
        let mut flags = DescriptorFlags::default();
        let is_dir = stat.file_type == FileType::Directory;
        for (has, flag) in [
            (is_dir || stat.rights_base & rights::FD_READ != 0, DescriptorFlags::READ),
            (!is_dir && stat.rights_base & rights::FD_WRITE != 0, DescriptorFlags::WRITE),
            (is_dir && mutates, DescriptorFlags::MUTATE_DIRECTORY),
            (stat.flags.contains(FdFlags::SYNC), DescriptorFlags::FILE_INTEGRITY_SYNC),
            (stat.flags.contains(FdFlags::DSYNC), DescriptorFlags::DATA_INTEGRITY_SYNC),
            (stat.flags.contains(FdFlags::RSYNC), DescriptorFlags::REQUESTED_WRITE_SYNC),
        ] {
            if has {
                flags |= flag;
            }
        }
        flags
    });
    process.answer(answer)
}

pub(in crate::abi) fn get_type<T: From<FileType>, C: From<Errno>>(
    process: &mut Process,
    (file,): (Handle,),
) -> Answer<T, C> {
    process.on_file(&file, |guest, fd| Ok(guest.fd_fdstat_get(fd)?.file_type.into()))
}

pub(in crate::abi) fn set_size<C: From<Errno>>(
    process: &mut Process,
    (file, size): (Handle, u64),
) -> Answer<(), C> {
    let fd = process.fd_of(&file)?;
    trace!(process.guest, "fd={fd}, size={size}");
    let answer = process.guest.fd_filestat_set_size(fd, size);
    process.answer(answer)
}

pub(in crate::abi) fn set_times<T: FileTime, C: From<Errno>>(
    process: &mut Process,
    (file, access, modification): (Handle, T, T),
) -> Answer<(), C> {
    let fd = process.fd_of(&file)?;
    trace!(process.guest, "fd={fd}, {access:?}, {modification:?}");
    let answer = access.set_time().and_then(|access| {
        process.guest.fd_filestat_set_times(fd, access, modification.set_time()?)
    });
    process.answer(answer)
}

fn read(process: &mut Process, (file, len, offset): (Handle, u64, u64)) -> Answer<(Vec<u8>, bool)> {
    let fd = process.fd_of(&file)?;
    trace!(process.guest, "fd={fd}, len={len}, offset={offset}");
    let answer = read_at(process, fd, len, offset).map(|bytes| {
        let is_end = bytes.is_empty() && len > 0;
        (bytes, is_end)
    });
    process.answer(answer)
}

fn write(process: &mut Process, (file, bytes, offset): (Handle, Vec<u8>, u64)) -> Answer<u64> {
    let fd = process.fd_of(&file)?;
    trace!(process.guest, "fd={fd}, len={}, offset={offset}", bytes.len());
    let answer = write_at(process, fd, bytes, offset);
    process.answer(answer)
}

fn read_via_stream(
    process: &mut Process,
    (file, offset): (Handle, u64),
) -> Answer<Resource<InputStream>> {
    let fd = process.fd_of(&file)?;
    trace!(process.guest, "fd={fd}, offset={offset}");
    let opened = InputStream::of_file(process, fd, offset);
    process.add_answer(opened)
}

fn write_via_stream(
    process: &mut Process,
    (file, offset): (Handle, u64),
) -> Answer<Resource<OutputStream>> {
    let fd = process.fd_of(&file)?;
    trace!(process.guest, "fd={fd}, offset={offset}");
    output_stream(process, fd, Some(offset))
}

fn append_via_stream(process: &mut Process, (file,): (Handle,)) -> Answer<Resource<OutputStream>> {
    let fd = process.fd_of(&file)?;
    trace!(process.guest, "fd={fd}");
    output_stream(process, fd, None)
}

/// A stream that writes to `fd` at `offset`, or at the end.
fn output_stream(
    process: &mut Process,
    fd: u32,
    offset: Option<u64>,
) -> Answer<Resource<OutputStream>> {
    let opened = OutputStream::of_file(process, fd, offset);
    process.add_answer(opened)
}

fn read_directory(
    process: &mut Process,
    (dir,): (Handle,),
) -> Answer<Resource<DirectoryEntryStream>> {
    let fd = process.fd_of(&dir)?;
    trace!(process.guest, "fd={fd}");
    let opened = DirectoryEntryStream::of(process, fd);
    process.add_answer(opened)
}

fn read_directory_entry(
    process: &mut Process,
    (stream,): (Resource<DirectoryEntryStream>,),
) -> Answer<Option<DirectoryEntry>> {
    let DirectoryEntryStream { fd, cookie } = *process.resource(&stream)?;
    trace!(process.guest, "fd={fd}, cookie={cookie}");
    let listed = next_entries(process, &stream, 1)?;
    let entry = listed.map(|entries| {
        let (file_type, name) = entries.into_iter().next()?;
        Some(DirectoryEntry { file_type: file_type.into(), name })
    });
    process.answer(entry)
}

/// At most `count` entries that `stream` has next, with their names; none at its end.
pub(in crate::abi) fn next_entries(
    process: &mut Process,
    stream: &Resource<DirectoryEntryStream>,
    count: usize,
) -> Result<Result<Vec<(FileType, String)>, Errno>, Halt> {
    let DirectoryEntryStream { fd, cookie } = *process.resource(stream)?;
    let first = usize::try_from(cookie - FIRST_COOKIE).unwrap_or(usize::MAX);
    let dir = match process.guest.fd_readdir(fd, cookie) {
        Ok(dir) => dir,
        Err(errno) => return Ok(Err(errno)),
    };
    let (mut entries, mut next) = (Vec::new(), cookie);
    for (index, entry) in dir.entries_from(first).take(count) {
        next = index as u64 + FIRST_COOKIE + 1;
        entries.push((entry.file_type, entry.name.to_string()));
    }
    process.resource(stream)?.cookie = next;
    Ok(Ok(entries))
}

pub(in crate::abi) fn create_directory_at<C: From<Errno>>(
    process: &mut Process,
    (dir, path): (Handle, String),
) -> Answer<(), C> {
    process
        .on_path(&dir, &path, |process, fd| Ok(process.guest.path_create_directory(fd, &path)?))
}

pub(in crate::abi) fn stat<S: From<FileStat>, C: From<Errno>>(
    process: &mut Process,
    (file,): (Handle,),
) -> Answer<S, C> {
    process.on_file(&file, |guest, fd| Ok(guest.fd_filestat_get(fd)?.into()))
}

pub(in crate::abi) fn stat_at<S: From<FileStat>, C: From<Errno>>(
    process: &mut Process,
    (dir, flags, path): (Handle, PathFlags, String),
) -> Answer<S, C> {
    process.on_path(&dir, &path, |process, fd| {
        Ok(process.guest.path_filestat_get(fd, follow(flags), &path)?.into())
    })
}

pub(in crate::abi) fn set_times_at<T: FileTime, C: From<Errno>>(
    process: &mut Process,
    (dir, flags, path, access, modification): (Handle, PathFlags, String, T, T),
) -> Answer<(), C> {
    process.on_path(&dir, &path, |process, fd| {
        let (access, modification) = (access.set_time()?, modification.set_time()?);
        let follow = follow(flags);
        Ok(process.guest.path_filestat_set_times(fd, follow, &path, access, modification)?)
    })
}

pub(in crate::abi) fn link_at<C: From<Errno>>(
    process: &mut Process,
    (old_dir, flags, old_path, new_dir, new_path): (Handle, PathFlags, String, Handle, String),
) -> Answer<(), C> {
    let to = process.fd_of(&new_dir)?;
    process.on_path(&old_dir, &old_path, |process, from| {
        process.check_path(&new_path)?;
        Ok(process.guest.path_link((from, &old_path), follow(flags), (to, &new_path))?)
    })
}

pub(in crate::abi) fn open_at<C: From<Errno>>(
    process: &mut Process,
    (dir, path_flags, path, open_flags, flags): (
        Handle,
        PathFlags,
        String,
        OpenFlags,
        DescriptorFlags,
    ),
) -> Answer<Handle, C> {
    let fd = process.on_path(&dir, &path, |process, fd| {
        let oflags = OFlags {
            creat: open_flags.contains(OpenFlags::CREATE),
            directory: open_flags.contains(OpenFlags::DIRECTORY),
            excl: open_flags.contains(OpenFlags::EXCLUSIVE),
            trunc: open_flags.contains(OpenFlags::TRUNCATE),
        };
        let (mut rights, mut fdflags) = (0, 0);
        for (flag, right, fdflag) in [
            (DescriptorFlags::READ, rights::FD_READ, 0),
            (DescriptorFlags::WRITE, rights::FD_WRITE, 0),
            (DescriptorFlags::FILE_INTEGRITY_SYNC, 0, FdFlags::SYNC.bits()),
            (DescriptorFlags::DATA_INTEGRITY_SYNC, 0, FdFlags::DSYNC.bits()),
            (DescriptorFlags::REQUESTED_WRITE_SYNC, 0, FdFlags::RSYNC.bits()),
        ] {
            if flags.contains(flag) {
                rights |= right;
                fdflags |= u32::from(fdflag);
            }
        }
        let fdflags = FdFlags::from_bits(fdflags).ok_or(Errno::Inval)?;
        Ok(process.guest.path_open(fd, follow(path_flags), &path, oflags, rights, fdflags)?)
    })?;
    match fd {
        Ok(fd) => {
            let mutates = flags.contains(DescriptorFlags::MUTATE_DIRECTORY);
            process.add(Descriptor { fd, is_kept: true, mutates }).map(Ok)
        }
        Err(code) => Ok(Err(code)),
    }
}

pub(in crate::abi) fn readlink_at<C: From<Errno>>(
    process: &mut Process,
    (dir, path): (Handle, String),
) -> Answer<String, C> {
    process
        .on_path(&dir, &path, |process, fd| Ok(process.guest.path_readlink(fd, &path)?.to_owned()))
}

pub(in crate::abi) fn remove_directory_at<C: From<Errno>>(
    process: &mut Process,
    (dir, path): (Handle, String),
) -> Answer<(), C> {
    process
        .on_path(&dir, &path, |process, fd| Ok(process.guest.path_remove_directory(fd, &path)?))
}

pub(in crate::abi) fn rename_at<C: From<Errno>>(
    process: &mut Process,
    (old_dir, old_path, new_dir, new_path): (Handle, String, Handle, String),
) -> Answer<(), C> {
    let to = process.fd_of(&new_dir)?;
    process.on_path(&old_dir, &old_path, |process, from| {
        process.check_path(&new_path)?;
        Ok(process.guest.path_rename((from, &old_path), (to, &new_path))?)
    })
}

pub(in crate::abi) fn symlink_at<C: From<Errno>>(
    process: &mut Process,
    (dir, text, path): (Handle, String, String),
) -> Answer<(), C> {
    process.on_path(&dir, &path, |process, fd| {
        process.check_path(&text)?;
        Ok(process.guest.path_symlink(&text, fd, &path)?)
    })
}

pub(in crate::abi) fn unlink_file_at<C: From<Errno>>(
    process: &mut Process,
    (dir, path): (Handle, String),
) -> Answer<(), C> {
    process.on_path(&dir, &path, |process, fd| Ok(process.guest.path_unlink_file(fd, &path)?))
}

pub(in crate::abi) fn is_same_object(
    process: &mut Process,
    (one, other): (Handle, Handle),
) -> Result<bool, Halt> {
    let fds = [process.fd_of(&one)?, process.fd_of(&other)?];
    trace!(process.guest, "fd={}, fd={}", fds[0], fds[1]);
    let [one, other] = fds.map(|fd| process.guest.fd_filestat_get(fd));
    let (one, other) = (one.map_err(Halt::Unsaid)?, other.map_err(Halt::Unsaid)?);
    Ok((one.dev, one.metadata.ino) == (other.dev, other.metadata.ino))
}

pub(in crate::abi) fn metadata_hash<C: From<Errno>>(
    process: &mut Process,
    (file,): (Handle,),
) -> Answer<MetadataHashValue, C> {
    process.on_file(&file, |guest, fd| Ok(hash_of(&guest.fd_filestat_get(fd)?)))
}

pub(in crate::abi) fn metadata_hash_at<C: From<Errno>>(
    process: &mut Process,
    (dir, flags, path): (Handle, PathFlags, String),
) -> Answer<MetadataHashValue, C> {
    process.on_path(&dir, &path, |process, fd| {
        Ok(hash_of(&process.guest.path_filestat_get(fd, follow(flags), &path)?))
    })
}

/// What is unique to a file: libraries show the lower half as its inode number.
fn hash_of(stat: &FileStat) -> MetadataHashValue {
    MetadataHashValue { lower: stat.metadata.ino, upper: stat.dev }
}

fn filesystem_error_code(
    process: &mut Process,
    (error,): (Resource<IoError>,),
) -> Result<Option<ErrorCode>, Halt> {
    let IoError { errno, origin } = process.resource(&error)?;
    let code = matches!(origin, Origin::File).then(|| ErrorCode::from(*errno));
    trace!(process.guest, "");
    Ok(code)
}
