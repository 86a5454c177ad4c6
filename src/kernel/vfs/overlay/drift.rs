//! Changes on the disk because of which an overlay cannot show a directory as it was.

use super::Overlay;
use super::drift_kind::DriftKind;
use super::node::MountId;
use crate::kernel::vfs::path::VPath;

/// A file or directory of the host that changed after a mount began to show it, and before it was looked at.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Drift {
    /// Its mount.
    pub mount: MountId,
    /// Its path, relative to the mount's root.
    pub path: VPath,
    /// What is known about the change.
    pub kind: DriftKind,
}

impl Overlay {
    /// All drifts since the mounts were made or refreshed, sorted by mount and path. Only a mount with a
    /// [`crate::kernel::vfs::Baseline`] has any.
    pub fn drifts(&self) -> Vec<Drift> {
        self.drifts_of(crate::kernel::vfs::Baseline::drifts)
    }

    /// Drifts that this overlay, not its forks, met since the last call; also files that changed while they
    /// were read.
    pub fn take_drifts(&mut self) -> Vec<Drift> {
        let mut drifts = self.drifts_of(crate::kernel::vfs::Baseline::take_new_drifts);
        drifts.append(&mut self.torn);
        drifts.sort_unstable();
        drifts.dedup();
        drifts
    }

    fn drifts_of(
        &self,
        of_baseline: impl Fn(&crate::kernel::vfs::Baseline) -> Vec<(VPath, DriftKind)>,
    ) -> Vec<Drift> {
        let mut drifts = Vec::new();
        for (index, mount) in (0..).zip(&self.mounts) {
            let Some(baseline) = &mount.baseline else { continue };
            let found = of_baseline(baseline).into_iter();
            drifts.extend(found.map(|(path, kind)| Drift { mount: MountId(index), path, kind }));
        }
        drifts
    }
}
