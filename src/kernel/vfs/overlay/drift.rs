//! What a namespace cannot show as it was, because somebody changed the folder below it.

use super::Overlay;
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

/// What is known of something that changed before it was looked at.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum DriftKind {
    /// It was there, and is another one now: `EIO`.
    Changed,
    /// It is there, and either new or another one than was there: `EIO`.
    Newer,
    /// It was there, and is not any more: `EIO`.
    Gone,
    /// It is not there, and may have been: `ENOENT`.
    Missing,
    /// A directory that had changed before it was listed: names that were removed are not in it.
    ListedLate,
}

impl DriftKind {
    /// What a sentence says that begins with the path, where `beginning` is when the state began that is
    /// shown: `the session began`.
    pub fn since(self, beginning: &str) -> String {
        match self {
            Self::Changed => {
                format!("was changed on the disk after {beginning} and before it was read")
            }
            Self::Newer => format!("is new on the disk, or was changed there, since {beginning}"),
            Self::Gone => {
                format!("was removed from the disk after {beginning} and before it was read")
            }
            Self::Missing => {
                format!("is not on the disk, and may have been removed since {beginning}")
            }
            Self::ListedLate => {
                format!(
                    "lacks what was removed from it on the disk since {beginning}, if anything was"
                )
            }
        }
    }

    /// Whether programs met an error that tells nothing of the reason.
    pub fn is_error(self) -> bool {
        matches!(self, Self::Changed | Self::Newer | Self::Gone)
    }

    /// The name in reports: `changed`, `newer`, `gone`, `missing`, `listed_late`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Newer => "newer",
            Self::Gone => "gone",
            Self::Missing => "missing",
            Self::ListedLate => "listed_late",
        }
    }
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
