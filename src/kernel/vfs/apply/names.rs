//! Whether the system can have the names that are to be created, as this decides before anything is written.

use std::collections::HashMap;
use std::io;

use super::Target;
use crate::kernel::vfs::diff::Change;
use crate::kernel::vfs::layer::host_syntax::{self, NAMES_FOLD};
use crate::kernel::vfs::layer::portable::{NameProblem, folded_and_normalised as folded};
use crate::kernel::vfs::overlay::Overlay;
use crate::kernel::vfs::overlay::node::Body;
use crate::kernel::vfs::path::VPath;

/// The names to be created in one mount.
pub(super) struct NewNames<'a> {
    target: &'a Target,
    /// By directory and folded name.
    created: HashMap<(VPath, String), String>,
}

impl<'a> NewNames<'a> {
    pub fn of(target: &'a Target) -> Self {
        Self { target, created: HashMap::new() }
    }

    /// Why the result of `change` cannot exist on this system, as far as its own name and text say.
    pub fn problem(overlay: &Overlay, change: &Change) -> Option<NameProblem> {
        let text = match &overlay.node(change.after?).body {
            Body::Symlink(text) => host_syntax::link_problem(text),
            _ => None,
        };
        host_syntax::problem(&change.path).or(text)
    }

    /// The name that the disk takes for that of `path`, at which it has nothing of this spelling, so that it cannot be
    /// created.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn same_name(&mut self, path: &VPath) -> io::Result<Option<String>> {
        let Some((dir, name)) = path.split_last().filter(|_| NAMES_FOLD) else { return Ok(None) };
        let other = self.created.insert((dir.clone(), folded(name)), name.to_owned());
        if let Some(other) = other {
            return Ok(Some(other));
        }
        if self.target.created.contains(&dir) || !self.target.host.finds(path)? {
            return Ok(None);
        }
        let names = self.target.host.names(&dir)?;
        let names = names.iter().filter_map(|name| name.to_str());
        let mut others = names.filter(|other| folded(other) == folded(name)).peekable();
        if others.peek().is_none() {
            // Found by another rule, such as a short name of Windows.
            return Ok(Some("another one".to_owned()));
        }
        let is_removed =
            |path: &VPath| self.target.change_at(path).is_some_and(|change| change.after.is_none());
        let stays = others.find(|other| !is_removed(&dir.join(other)));
        Ok(stays.map(str::to_owned))
    }
}
