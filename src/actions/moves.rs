//! What an action moved, moved again here before its other changes are made.
//!
//! Two files can have changed places, and something can be moved into a directory that is new. So everything is moved out of the
//! way first, into a directory of its own, and from there to where it belongs as soon as that is made.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bazel_remote_apis::build::bazel::remote::execution::v2 as api;

use super::ActionError;
use super::beside::{At, Beside, Linked, Moved};
use super::input_root::Node;
use super::outputs::has_beneath;
use super::trees::Trees;
use crate::kernel::vfs::{Follow, Overlay, VPath};

/// Most names that are tried for the directory in which things wait.
const HOLDERS_MAX: usize = 100;

/// A mount that a run changed.
pub struct ChangedMount {
    /// Its number among the mounts of the run.
    pub number: usize,
    /// Its absolute path.
    pub path: String,
    /// The digest of its root before the run.
    pub before: api::Digest,
    /// And after it.
    pub after: api::Digest,
}

/// What waits for its place.
#[derive(Default)]
pub struct Moves {
    /// Where it waits and what it was, by the absolute path that it gets.
    waiting: HashMap<String, (String, Node)>,
    /// Absolute paths at which the old tree has something that was moved away.
    away: HashSet<String>,
    /// The directories in which all of it waits, by the numbers of their mounts.
    holders: BTreeMap<usize, String>,
    /// First names of files, by the further ones; all of them absolute paths.
    linked: HashMap<String, String>,
    /// The absolute paths of all of these.
    reached: BTreeSet<String>,
}

impl Moves {
    /// Moves what `beside` names out of the way in `mounts`. What is malformed or not there is left out: then it is removed and made
    /// anew.
    ///
    /// # Errors
    /// [`ActionError`]: a directory cannot be read.
    pub fn begin(
        vfs: &mut Overlay,
        trees: &mut Trees<'_>,
        mounts: &[ChangedMount],
        beside: &Beside,
        now: u64,
    ) -> Result<Self, ActionError> {
        let mut moves = Self::default();
        // The root of a mount stays where it is.
        let absolute = |at: &At| absolute(mounts, at).filter(|_| !at.1.is_empty());
        for Linked { first, name } in &beside.linked {
            if let (Some((_, first)), Some((_, name))) = (absolute(first), absolute(name)) {
                moves.reached.insert(name.clone());
                moves.linked.insert(name, first);
            }
        }
        // Where the old paths of what was moved are now, and the new paths that they get.
        let mut places: HashMap<String, (String, String)> = HashMap::new();
        for Moved { from, to } in &beside.moved {
            let (Some((mount, old)), Some((_, new))) = (absolute(from), absolute(to)) else {
                continue;
            };
            let Some(node) = trees.find(&mount.before, &from.1)? else { continue };
            let above = above(&old).find_map(|(above, rest)| Some((places.get(above)?, rest)));
            let (now_at, comes_to) = match above {
                Some(((holds, gets), rest)) => (format!("{holds}{rest}"), format!("{gets}{rest}")),
                None => (old.clone(), old.clone()),
            };
            // It is moved with the directory above.
            if comes_to == new {
                continue;
            }
            let Some(holder) = moves.holder(vfs, trees, mount, now)? else { break };
            let held = format!("{holder}/{}", places.len());
            let base = vfs.host_base();
            if vfs.rename((base, &now_at[1..]), (base, &held[1..]), now).is_err() {
                continue;
            }
            moves.reached.extend([comes_to.clone(), new.clone()]);
            moves.away.insert(comes_to);
            moves.waiting.insert(new.clone(), (held.clone(), node));
            places.insert(old, (held, new));
        }
        Ok(moves)
    }

    /// The directory of `mount` in which things wait, which is made with a name that nothing has, and that nothing gets.
    fn holder(
        &mut self,
        vfs: &mut Overlay,
        trees: &mut Trees<'_>,
        mount: &ChangedMount,
        now: u64,
    ) -> Result<Option<String>, ActionError> {
        let base = vfs.host_base();
        for number in 0..HOLDERS_MAX {
            if self.holders.contains_key(&mount.number) {
                break;
            }
            let name = format!(".belljar-moved-{number}");
            let path = format!("{}/{name}", mount.path);
            if vfs.stat(base, &path[1..], Follow::No).is_err()
                && trees.find(&mount.after, &name)?.is_none()
                && vfs.create_dir(base, &path[1..], now).is_ok()
            {
                self.holders.insert(mount.number, path);
            }
        }
        Ok(self.holders.get(&mount.number).cloned())
    }

    /// Whether what the old tree has at the absolute path `path` was moved away.
    pub fn is_away(&self, path: &str) -> bool {
        self.away.contains(path)
    }

    /// Whether something was moved out of the directory at the absolute path `path`, or is to be moved into it, or is a further name
    /// of a file there, at any depth.
    pub fn reach_into(&self, path: &str) -> bool {
        has_beneath(&self.reached, path)
    }

    /// Where what is to be moved to the absolute path `path` waits, and what it was, if that is something like `node`.
    pub fn take(&mut self, path: &str, node: &Node) -> Option<(String, Node)> {
        let (_, was) = self.waiting.get(path)?;
        if was.file_type() == node.file_type() { self.waiting.remove(path) } else { None }
    }

    /// The first name of the file whose further name is the absolute path `path`.
    pub fn first_name(&self, path: &str) -> Option<&str> {
        self.linked.get(path).map(String::as_str)
    }

    /// The directories to be removed at the end.
    pub fn finish(self) -> impl Iterator<Item = String> {
        self.holders.into_values()
    }
}

/// The mount of `at` among `mounts`, and the absolute path; `None` if it is malformed, or in no mount that changed.
pub fn absolute<'m>(
    mounts: &'m [ChangedMount],
    At(number, path): &At,
) -> Option<(&'m ChangedMount, String)> {
    let is_path = VPath::parse(path).is_ok_and(|it| it.as_str() == path);
    let mount = mounts.iter().find(|mount| mount.number == *number).filter(|_| is_path)?;
    Some((mount, format!("{}/{path}", mount.path)))
}

/// The paths above `path`, the longest first, and what follows them.
fn above(path: &str) -> impl Iterator<Item = (&str, &str)> {
    path.rmatch_indices('/').map(move |(end, _)| path.split_at(end))
}
