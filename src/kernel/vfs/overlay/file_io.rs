//! Reading and writing contents: POSIX `pread`, `pwrite`, `ftruncate`, `posix_fallocate`.

use std::sync::Arc;

use super::Overlay;
use super::content::{CHUNK_BYTES, SLOT_BYTES};
use super::drift::Drift;
use super::drift_kind::DriftKind;
use super::node::NodeId;
use crate::base::errno::Errno;
use crate::kernel::vfs::layer::Blob;
use crate::kernel::vfs::path::VPath;

impl Overlay {
    /// The length of the file `id` in bytes.
    ///
    /// # Errors
    /// `EISDIR` for a directory, `EINVAL` for anything else that is not a regular file.
    pub fn len(&self, id: NodeId) -> Result<u64, Errno> {
        Ok(self.file(id)?.content.len())
    }

    /// Reads from `offset` on until `buf` is full or the file ends; returns the count.
    ///
    /// # Errors
    /// Those of [`Overlay::len`] and of the layer below; `EIO` if the file there became shorter.
    pub fn read_at(&mut self, id: NodeId, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        let content = &self.file(id)?.content;
        let len = (buf.len() as u64).min(content.len().saturating_sub(offset));
        if len == 0 {
            if content.len() == 0 && !buf.is_empty() {
                self.note_empty_read(id)?;
            }
            return Ok(0);
        }
        if !content.needs_below(offset, len) {
            return content.read(None, offset, buf);
        }
        let below = self.open_below(id)?;
        // Bytes read into a written file would be charged as written: they are not kept.
        if !self.file(id)?.content.is_dirty() {
            let chunks = (offset + len) / CHUNK_BYTES as u64 + 1;
            let more = len.saturating_add(CHUNK_BYTES as u64 * 2 + chunks * SLOT_BYTES);
            if self.cache_bytes.saturating_add(more) <= self.limits.cache_bytes_max {
                let loaded = self.load(id, &below, offset, len);
                self.note_if_torn(id, &below, &loaded);
                loaded?;
            }
        }
        let read = self.file(id)?.content.read(Some(&below), offset, buf);
        self.note_if_torn(id, &below, &read);
        read
    }

    /// Writes `bytes` at `offset`; a gap before it reads as zeros. At a limit nothing is written or loaded.
    ///
    /// # Errors
    /// `EFBIG` past [`crate::kernel::vfs::VfsLimits::file_bytes_max`], `ENOSPC` past
    /// [`crate::kernel::vfs::VfsLimits::upper_bytes_max`]; those of [`Overlay::len`] and of the layer below.
    pub fn write_at(
        &mut self,
        id: NodeId,
        offset: u64,
        bytes: &[u8],
        now: u64,
    ) -> Result<(), Errno> {
        self.file(id)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.check_len(offset.saturating_add(bytes.len() as u64))?;
        let content = &self.file(id)?.content;
        let mut growth = content.growth(offset, bytes.len());
        if !content.is_dirty() || content.needs_below(offset, bytes.len() as u64) {
            // Checked before anything is loaded, so that a failed write takes no memory.
            self.expect_room(growth)?;
            self.copy_up(id, offset, bytes.len() as u64)?;
            growth = self.file(id)?.content.growth(offset, bytes.len());
        }
        self.charge(growth)?;
        self.file_mut(id)?.content.write(offset, bytes)?;
        self.touch(id, now);
        Ok(())
    }

    /// Truncates the file to `len` bytes, or extends it with zeros that take no memory.
    ///
    /// # Errors
    /// `EFBIG` past the limit, and those of [`Overlay::len`].
    pub fn set_len(&mut self, id: NodeId, len: u64, now: u64) -> Result<(), Errno> {
        self.file(id)?;
        self.check_len(len)?;
        if len == 0 {
            self.empty_file(id)?;
            self.touch(id, now);
            return Ok(());
        }
        self.forget_read(id, 0, 0)?;
        let content = &mut self.file_mut(id)?.content;
        let before = content.charged();
        content.set_len(len)?;
        let after = content.charged();
        self.upper_bytes = (self.upper_bytes + after).saturating_sub(before);
        self.touch(id, now);
        Ok(())
    }

    /// Extends the file to `offset + len` bytes if it is shorter.
    ///
    /// # Errors
    /// `EINVAL` if `len` is 0; `EFBIG` past the limit; `ENOSPC` if the limit leaves less room; those of
    /// [`Overlay::len`].
    pub fn allocate(&mut self, id: NodeId, offset: u64, len: u64, now: u64) -> Result<(), Errno> {
        let current = self.len(id)?;
        if len == 0 {
            return Err(Errno::Inval);
        }
        let end = offset.checked_add(len).ok_or(Errno::Fbig)?;
        self.check_len(end)?;
        if end <= current {
            // As on Linux, this counts as a write.
            return if self.kernel_version > 10 { self.set_len(id, current, now) } else { Ok(()) };
        }
        let room = self.limits.upper_bytes_max.saturating_sub(self.upper_bytes);
        if end - current > room {
            self.limit_hit.get_or_insert("upper_bytes_max");
            return Err(Errno::Nospc);
        }
        self.set_len(id, end, now)
    }

    fn check_len(&mut self, len: u64) -> Result<(), Errno> {
        if len > self.limits.file_bytes_max {
            self.limit_hit.get_or_insert("file_bytes_max");
            return Err(Errno::Fbig);
        }
        Ok(())
    }

    /// Opens the file of a layer that `id` came from.
    fn open_below(&mut self, id: NodeId) -> Result<Arc<Blob>, Errno> {
        if let Some(below) = self.below_files.get(id) {
            return Ok(below);
        }
        let node = self.node(id);
        let origin = node.origin.as_ref().ok_or(Errno::Io)?;
        let (layer, path, stamp) = (origin.layer, origin.path.clone(), origin.stamp);
        let is_open = node.opens > 0;
        let opened = self.layers[usize::from(layer)].open(&path);
        if matches!(opened, Err(Errno::Io)) {
            self.note_if_changed(layer, &path, stamp);
        }
        let below = Arc::new(opened?);
        if below.stamp().is_some_and(|found| found != stamp) {
            // The length may differ too: the read would mix two states.
            self.note_torn(layer, &path);
            return Err(Errno::Io);
        }
        // Set only now: a file that cannot be opened has not been read.
        if let Some(origin) = &mut self.node_mut(id).origin {
            origin.was_read = true;
        }
        if is_open {
            self.below_files.keep(id, below.clone());
        }
        Ok(below)
    }

    /// The file `id` was read and found empty: it was read, as any other.
    fn note_empty_read(&mut self, id: NodeId) -> Result<(), Errno> {
        let is_of_layer = !self.file(id)?.content.is_dirty();
        let is_new = self.node(id).origin.as_ref().is_some_and(|origin| !origin.was_read);
        if is_of_layer && is_new && self.kernel_version > 8 {
            self.open_below(id)?;
        }
        Ok(())
    }

    /// Records that the file `path` of `layer` changed since it was looked at, if its stamp is no longer `stamp`. A
    /// baseline tells that itself.
    fn note_if_changed(&mut self, layer: u16, path: &VPath, stamp: u64) {
        let has_baseline = self.mounts[self.mount_of(layer).index()].baseline.is_some();
        if self.kernel_version > 10
            && !has_baseline
            && self.layers[usize::from(layer)].stat_now(path).is_ok_and(|now| now.stamp != stamp)
        {
            self.note_torn(layer, path);
        }
    }

    /// Records that the file `path` of `layer` changed since it was looked at.
    fn note_torn(&mut self, layer: u16, path: &VPath) {
        let drift =
            Drift { mount: self.mount_of(layer), path: path.clone(), kind: DriftKind::Changed };
        if !self.torn.contains(&drift) {
            self.torn.push(drift);
        }
    }

    /// Records that the file `below` of `id` changed while it was read, if `read` failed because of that.
    fn note_if_torn<T>(&mut self, id: NodeId, below: &Blob, read: &Result<T, Errno>) {
        if let (Err(Errno::Io), Some(_), Some(origin)) =
            (read, below.stamp(), self.node(id).origin.as_deref())
        {
            let (layer, path) = (origin.layer, origin.path.clone());
            self.note_torn(layer, &path);
        }
    }

    /// Prepares a write: loads the chunks it overlaps, and before the first write frees other chunks.
    fn copy_up(&mut self, id: NodeId, offset: u64, len: u64) -> Result<(), Errno> {
        self.forget_read(id, offset, len)?;
        if self.file(id)?.content.needs_below(offset, len) {
            let below = self.open_below(id)?;
            let loaded = self.load(id, &below, offset, len);
            self.note_if_torn(id, &below, &loaded);
            loaded?;
        }
        // Charged as written from now on.
        let content = &self.file(id)?.content;
        if !content.is_dirty() {
            self.cache_bytes = self.cache_bytes.saturating_sub(content.held_bytes());
        }
        Ok(())
    }

    /// Frees what was read of an unwritten file, except what `offset..offset + len` overlaps.
    fn forget_read(&mut self, id: NodeId, offset: u64, len: u64) -> Result<(), Errno> {
        if !self.file(id)?.content.is_dirty() {
            let content = &mut self.file_mut(id)?.content;
            let held = content.held_bytes();
            content.forget_read(offset, len);
            let freed = held - content.held_bytes();
            self.cache_bytes = self.cache_bytes.saturating_sub(freed);
        }
        Ok(())
    }

    fn load(&mut self, id: NodeId, below: &Blob, offset: u64, len: u64) -> Result<(), Errno> {
        let content = &mut self.file_mut(id)?.content;
        let before = content.held_bytes();
        let loaded = content.load(below, offset, len);
        let grown = content.held_bytes() - before;
        let is_dirty = content.is_dirty();
        if !content.needs_below(0, u64::MAX) {
            self.below_files.close(id);
        }
        if is_dirty {
            self.upper_bytes += grown;
        } else {
            self.cache_bytes += grown;
        }
        loaded
    }
}
