//! Files of the disk that were touched, but hold what they held.

use std::collections::{BTreeMap, HashSet};

use crate::base::digest::{Digest, DigestHasher};
use crate::base::errno::Errno;
use crate::kernel::vfs::apply::settle::Placed;
use crate::kernel::vfs::layer::host_dir::HostDir;
use crate::kernel::vfs::layer::{FileType, Layer, Stat};
use crate::kernel::vfs::overlay::Overlay;
use crate::kernel::vfs::overlay::baseline::Baseline;
use crate::kernel::vfs::overlay::node::{MountId, Origin};
use crate::kernel::vfs::overlay::pins::{Pin, There};
use crate::kernel::vfs::path::VPath;

impl Overlay {
    /// Sets the stamps of all origins for which `stamp_of` returns one.
    pub(in crate::kernel::vfs) fn restamp(&mut self, stamp_of: impl Fn(&Origin) -> Option<u64>) {
        for id in self.nodes.ids() {
            // Checked first: a mutable access copies what clones share.
            let Some(stamp) = self.node(id).origin.as_deref().and_then(&stamp_of) else { continue };
            if let Some(origin) = &mut self.node_mut(id).origin {
                origin.stamp = stamp;
            }
        }
        for origin in &mut self.seen {
            origin.stamp = stamp_of(origin).unwrap_or(origin.stamp);
        }
    }

    /// Takes over the stamps of files that were touched but not changed, so that they are no conflict: taking back a
    /// partial write touches files.
    pub(in crate::kernel::vfs) fn renew_touched(&mut self) {
        for index in 0..self.mounts.len() {
            let Some(baseline) = self.mounts[index].baseline.clone() else { continue };
            let known: Vec<(VPath, Stat)> = {
                let pins = baseline.pins();
                let is_kept = |there: &There| {
                    let has_kept = there.content.is_some() || there.link.is_some();
                    has_kept || is_special(there.stat.file_type)
                };
                let known = pins.by_path.iter().filter_map(|(path, pin)| match pin {
                    Pin::There(there) if is_kept(there) => Some((path.clone(), there.stat)),
                    _ => None,
                });
                known.collect()
            };
            let mount = MountId(u16::try_from(index).expect("mount ids are 16 bits"));
            let replaced = self.replaced_in(mount);
            let mut renewed = BTreeMap::new();
            for (path, before) in known {
                if let Ok(now) = baseline.disk().stat(&path)
                    && now.stamp != before.stamp
                    // An equal file in the place of one that is replaced here may be what replaces it: an apply that
                    // was killed after its commit has put it there.
                    && (now.inode == before.inode || !replaced.contains(&path))
                    && is_only_touched(&path, &before, &now, &baseline).unwrap_or(false)
                {
                    renewed.insert(path, now);
                }
            }
            baseline.renew(&renewed);
            self.renew_origins(self.mounts[index].layer, &renewed);
        }
    }

    /// The paths of `mount` at which another file or link is than the one that its layer has there.
    fn replaced_in(&self, mount: MountId) -> HashSet<VPath> {
        let is_home = |placed: &Placed| {
            let origin = self.node(placed.id).origin.as_deref();
            origin.is_some_and(|it| self.mount_of(it.layer) == mount && it.path == placed.path)
        };
        let placed = self.placed_in(mount).into_iter();
        placed.filter(|placed| !is_home(placed)).map(|placed| placed.path).collect()
    }

    fn renew_origins(&mut self, layer: u16, renewed: &BTreeMap<VPath, Stat>) {
        if renewed.is_empty() {
            return;
        }
        let stamp_of = |origin: &Origin| {
            let is_here = origin.layer == layer;
            renewed.get(&origin.path).filter(|_| is_here).map(|stat| stat.stamp)
        };
        self.restamp(stamp_of);
    }
}

/// Whether this is the type of a pipe, socket or device, which have no content to compare.
fn is_special(file_type: FileType) -> bool {
    !matches!(file_type, FileType::RegularFile | FileType::Directory | FileType::SymbolicLink)
}

/// Whether the file or symbolic link `path`, formerly `before`, is unchanged, as far as its content is kept.
pub(super) fn is_only_touched(
    path: &VPath,
    before: &Stat,
    now: &Stat,
    baseline: &Baseline,
) -> Result<bool, Errno> {
    let is_alike = |a: &Stat, b: &Stat| {
        (a.file_type, a.size, a.executable) == (b.file_type, b.size, b.executable)
    };
    if is_special(now.file_type) {
        return Ok(before.file_type == now.file_type && before.inode == now.inode);
    }
    let content = match baseline.pin(path)? {
        Pin::There(There { link: Some(text), .. }) if is_alike(before, now) => {
            return Ok(baseline.disk().read_link(path).is_ok_and(|now| now == text));
        }
        Pin::There(There { content: Some((digest, _)), .. }) => digest,
        _ => return Ok(false),
    };
    if !is_alike(before, now) || before.file_type != FileType::RegularFile {
        return Ok(false);
    }
    Ok(digest_on_disk(baseline.disk(), path, now)? == Some(content))
}

fn digest_on_disk(disk: &HostDir, path: &VPath, now: &Stat) -> Result<Option<Digest>, Errno> {
    use std::hash::Hasher;
    let blob = disk.open(path)?;
    if blob.stamp() != Some(now.stamp) {
        return Ok(None);
    }
    let mut hasher = DigestHasher::default();
    let mut piece = vec![0; 256 << 10];
    let mut offset = 0;
    loop {
        let count = blob.read_at(&mut piece, offset)?;
        if count == 0 {
            return Ok(Some(hasher.digest()));
        }
        hasher.write(&piece[..count]);
        offset += count as u64;
    }
}
