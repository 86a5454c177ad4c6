//! In what way something differs from what a namespace began with.

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
