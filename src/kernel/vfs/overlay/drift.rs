//! What a namespace cannot show as it was, because somebody changed the folder below it.

use super::Overlay;
use super::drift_kind::DriftKind;
use super::node::MountId;
use crate::kernel::vfs::path::VPath;

/// Something in a folder of the host that changed after a namespace began to show it, and before it
/// was looked at.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Drift {
    /// The mount that it lies in.
    pub mount: MountId,
    /// Where, relative to the mount's root.
    pub path: VPath,
    /// What is known of it.
    pub kind: DriftKind,
}

impl Overlay {
    /// All that could not be shown as it was since the mounts were made, or refreshed, sorted by mount
    /// and path. Only a [`crate::kernel::vfs::Baseline`] can tell.
    pub fn drifts(&self) -> Vec<Drift> {
        self.drifts_of(crate::kernel::vfs::Baseline::drifts)
    }

    /// As [`Overlay::drifts`], but only what was met since this was last called, by this namespace and
    /// not by its forks.
    pub fn take_drifts(&mut self) -> Vec<Drift> {
        let mut drifts = self.drifts_of(crate::kernel::vfs::Baseline::take_met);
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
