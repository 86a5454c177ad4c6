//! Kinds of drift.

/// How something differs from the state that is shown, when it changed before it was looked at.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum DriftKind {
    /// It existed, and has changed: `EIO`.
    Changed,
    /// It is new, or existed and has changed: `EIO`.
    Newer,
    /// It existed, and is gone: `EIO`.
    Gone,
    /// It does not exist, and may have existed: `ENOENT`.
    Missing,
    /// A directory that changed before it was listed: names removed before that are missing.
    ListedLate,
}

impl DriftKind {
    /// The rest of a sentence that begins with the path. `beginning` names the start of the state shown, such
    /// as `the session began`.
    pub fn since(self, beginning: &str) -> String {
        match self {
            Self::Changed => {
                format!("was changed on the disk after {beginning} and before it was read")
            }
            Self::Newer => format!("was created or changed on the disk after {beginning}"),
            Self::Gone => {
                format!("was removed from the disk after {beginning} and before it was read")
            }
            Self::Missing => {
                format!("is not on the disk, and may have been removed after {beginning}")
            }
            Self::ListedLate => {
                format!("may lack names that were removed on the disk after {beginning}")
            }
        }
    }

    /// Whether programs got an errno, which does not tell the reason.
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
