//! Reading, writing and seeking.

use super::{Buffers, Fault, Guest};
use crate::base::errno::Errno;
use crate::kernel::io::fd::{Description, OpenFile};
use crate::kernel::vfs::NodeId;

/// `whence` of preview1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whence {
    /// From the beginning.
    Set,
    /// From the current offset.
    Cur,
    /// From the end.
    End,
}

impl Guest {
    /// `fd_read`: fills the buffers in order; returns the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// `EBADF` unless `fd` is a stream or file opened for reading; `EISDIR` for a directory; errors of
    /// the host. [`Fault::Stop`] if the run's timeout passes during a read of the host's standard input
    /// or of random bytes; [`Fault::Wait`] for an empty pipe.
    pub fn fd_read(&mut self, fd: u32, bufs: &mut Buffers<'_>) -> Result<u64, Fault> {
        let count = match self.description(fd)? {
            Description::Stdin => self.read_stdin(bufs)?,
            Description::Device(device) => self.read_device(*device, bufs)?,
            Description::PipeReader(end) => self.read_pipe(*end, bufs)?,
            Description::File(OpenFile { read: true, node, offset, .. }) => {
                let (node, start) = (*node, *offset);
                let count = self.read_node(node, start, bufs)?;
                self.open_file(fd)?.offset = start.saturating_add(count);
                return Ok(count);
            }
            Description::Dir(_) => return Err(Errno::Isdir.into()),
            _ => return Err(Errno::Badf.into()),
        };
        self.note_transfer(count);
        Ok(count)
    }

    /// `fd_pread`: as [`Guest::fd_read`] at `offset`; the offset of `fd` does not change.
    ///
    /// # Errors
    /// `EBADF` unless `fd` is a file opened for reading; `EISDIR` for a directory; `ESPIPE` for a stream.
    pub fn fd_pread(&mut self, fd: u32, offset: u64, bufs: &mut Buffers<'_>) -> Result<u64, Errno> {
        match self.description(fd)? {
            Description::File(OpenFile { read: true, node, .. }) => {
                let node = *node;
                self.read_node(node, offset, bufs)
            }
            Description::Dir(_) => Err(Errno::Isdir),
            Description::File(_) => Err(Errno::Badf),
            _ => Err(Errno::Spipe),
        }
    }

    /// `fd_write`: writes the buffers in order; returns the number of bytes.
    ///
    /// # Errors
    /// `EBADF` unless `fd` is a stream or file opened for writing; `ENOSPC`, `EFBIG` at the limits if nothing
    /// was written; `EPIPE` for a pipe without readers if the process ignores `SIGPIPE`. [`Fault::Stop`] past
    /// the output limit, and for a pipe without readers otherwise; [`Fault::Wait`] for a full pipe.
    pub fn fd_write(&mut self, fd: u32, bufs: &Buffers<'_>) -> Result<u64, Fault> {
        let count = match self.description(fd)? {
            Description::Stdout => self.write_stream(false, bufs)?,
            Description::Device(_) => bufs.total(),
            Description::Stderr => self.write_stream(true, bufs)?,
            Description::PipeWriter(end) => self.write_pipe(*end, bufs)?,
            Description::File(file) if file.write => {
                let (node, append, offset) = (file.node, file.flags.is_append(), file.offset);
                let start = if append { self.machine.vfs.len(node)? } else { offset };
                let count = self.write_node(node, start, bufs)?;
                // A write of no bytes leaves the offset unchanged, also with `APPEND`.
                if count > 0 {
                    let file = self.open_file(fd)?;
                    file.offset = start + count;
                    file.note_write();
                }
                return Ok(count);
            }
            _ => return Err(Errno::Badf.into()),
        };
        self.note_transfer(count);
        Ok(count)
    }

    /// `fd_pwrite`: as [`Guest::fd_write`] at `offset`; the offset of `fd` does not change. With `APPEND`
    /// it writes at the end, as on Linux.
    ///
    /// # Errors
    /// `EBADF` unless `fd` is a file opened for writing; `ESPIPE` for a stream; `ENOSPC`, `EFBIG`.
    pub fn fd_pwrite(&mut self, fd: u32, offset: u64, bufs: &Buffers<'_>) -> Result<u64, Errno> {
        match self.description(fd)? {
            Description::File(file) if file.write => {
                let (node, append) = (file.node, file.flags.is_append());
                let start = if append { self.machine.vfs.len(node)? } else { offset };
                let count = self.write_node(node, start, bufs)?;
                self.open_file(fd)?.note_write();
                Ok(count)
            }
            Description::File(_) | Description::Dir(_) => Err(Errno::Badf),
            _ => Err(Errno::Spipe),
        }
    }

    /// `fd_seek`: sets the offset, which may lie past the end, and returns it.
    ///
    /// # Errors
    /// `EBADF` unless `fd` is a file; `ESPIPE` for a stream; `EINVAL` below 0 or above `i64::MAX`.
    pub fn fd_seek(&mut self, fd: u32, delta: i64, whence: Whence) -> Result<u64, Errno> {
        let (node, current) = self.seekable(fd)?;
        let from = match whence {
            Whence::Set => 0,
            Whence::Cur => current,
            Whence::End => self.machine.vfs.len(node)?,
        };
        let offset = from.checked_add_signed(delta).ok_or(Errno::Inval)?;
        if i64::try_from(offset).is_err() {
            return Err(Errno::Inval);
        }
        self.open_file(fd)?.offset = offset;
        Ok(offset)
    }

    /// `fd_tell`: the offset.
    ///
    /// # Errors
    /// `EBADF` unless `fd` is a file; `ESPIPE` for a stream.
    pub fn fd_tell(&mut self, fd: u32) -> Result<u64, Errno> {
        Ok(self.seekable(fd)?.1)
    }

    fn seekable(&self, fd: u32) -> Result<(NodeId, u64), Errno> {
        match self.description(fd)? {
            Description::File(file) => Ok((file.node, file.offset)),
            Description::Dir(_) => Err(Errno::Badf),
            _ => Err(Errno::Spipe),
        }
    }

    fn read_node(
        &mut self,
        node: NodeId,
        start: u64,
        bufs: &mut Buffers<'_>,
    ) -> Result<u64, Errno> {
        let mut done = 0;
        for index in 0..bufs.count() {
            let buf = bufs.get_mut(index);
            let wanted = buf.len() as u64;
            let count = match self.machine.vfs.read_at(node, start.saturating_add(done), buf) {
                Ok(count) => count as u64,
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            };
            done += count;
            if count < wanted {
                break;
            }
        }
        Ok(done)
    }

    fn write_node(&mut self, node: NodeId, start: u64, bufs: &Buffers<'_>) -> Result<u64, Errno> {
        let now = self.now();
        let mut done = 0;
        for index in 0..bufs.count() {
            let bytes = bufs.get(index);
            match self.machine.vfs.write_at(node, start.saturating_add(done), bytes, now) {
                Ok(()) => done += bytes.len() as u64,
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        Ok(done)
    }
}
