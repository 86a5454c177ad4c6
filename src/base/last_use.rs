//! When a file of a cache was last used: its modification time, to the hour.

use std::fs::Metadata;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{ambient, disk};

/// Uses within this time of the last one are not noted.
const NOTED_EVERY: Duration = Duration::from_hours(1);

/// When the file with the attributes `metadata` was last used.
pub fn of(metadata: &Metadata) -> SystemTime {
    metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Notes that the file `path` is used, whose last noted use was at `used_at`.
pub fn note(path: &Path, used_at: SystemTime) {
    if ambient::time_since(used_at).is_none_or(|past| past >= NOTED_EVERY) {
        // A use that is not noted lets the file go earlier.
        let _ = disk::touch(path);
    }
}
