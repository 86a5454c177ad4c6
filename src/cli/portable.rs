//! Changes that not every system can have.

use std::collections::HashMap;

use super::report::{Change, NotPortable};
use crate::kernel::vfs::{folded, folded_and_normalised, windows_problem};

/// The paths among `changes` that Windows or macOS cannot have, or not beside each other.
pub fn not_portable(changes: &[Change]) -> Vec<NotPortable> {
    let is_there = |change: &&Change| !change.kind.ends_with("deleted");
    let mut found = Vec::new();
    let mut by_folded: HashMap<String, String> = HashMap::new();
    for change in changes.iter().filter(is_there) {
        let path = change.shown_path();
        let same = by_folded.insert(folded_and_normalised(&path), path.clone());
        if let Some(problem) = change.path.rsplit('/').next().and_then(windows_problem) {
            found.push(NotPortable { path, why: problem.to_string() });
        } else if let Some(other) = same {
            let who = if folded(&path) == folded(&other) {
                "Windows and macOS take"
            } else {
                "macOS takes"
            };
            let why = format!("{who} it for the same name as {other}");
            found.push(NotPortable { path, why });
        }
    }
    found
}
