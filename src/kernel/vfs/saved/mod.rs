//! A namespace as data, to be continued in another process: changes and what was looked at.
//!
//! Layers, and contents that were only read, are not included. Before restoring, the same layers must be mounted in the
//! same order.

pub(super) mod baseline;
pub(super) mod content;
mod part;
pub(super) mod parts;

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::baseline::SavedBaseline;
use self::content::SavedContent;
use self::parts::StoredParts;
use super::layer::FileType;
use super::layer::Times;
use super::overlay::content::Content;
use super::overlay::folded::{Folded, FoldedDirs};
use super::overlay::known_times::{AppliedTimes, KnownTimes, Refresh};
use super::overlay::node::{
    Body, Dir, Entry, EntryKind, File, FoldedId, MountId, Node, NodeId, Origin, TimesOf,
};
use super::overlay::nodes::Nodes;
use super::overlay::parts::Parts;
use super::overlay::{NODE_BYTES, Overlay, node_bytes};
use super::path::{NAME_MAX, VPath};
use crate::base::digest::Digest;
use crate::store::{Cas, StoreError};

/// The result of [`Overlay::save`]. It is checked when restored.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedOverlay {
    next_ino: u64,
    mounts: Vec<SavedMount>,
    /// The root comes first.
    nodes: Vec<SavedNode>,
    seen: Vec<SavedOrigin>,
    /// The states of host directories; `None` if saved before they existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    baselines: Option<Vec<SavedBaseline>>,
    /// Refreshes from host directories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    refreshes: Vec<Refresh>,
    /// What applies made of the times of writes.
    #[serde(default, skip_serializing_if = "AppliedTimes::is_empty")]
    applied_times: AppliedTimes,
}

/// Why a namespace cannot be restored.
#[derive(thiserror::Error)]
pub enum RestoreError {
    /// A content is missing or damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It was saved with other mounts.
    #[error("it was saved with other mounts: {0}")]
    Mounts(String),
    /// The data is invalid.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
}

crate::base::readable::readable!(RestoreError);

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedMount {
    at: String,
    read_only: bool,
    root: u32,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedNode {
    ino: u64,
    mount: u16,
    /// Access, modification, change.
    times: [u64; 3],
    /// As [`TimesOf::Guest`]; only read, from before [`SavedNode::times_of`] existed.
    #[serde(default, skip_serializing)]
    times_set: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    times_of: Option<TimesOf>,
    /// As [`Node::executable`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    executable: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<SavedOrigin>,
    body: SavedBody,
}

impl SavedNode {
    fn times_of(&self) -> TimesOf {
        // Writes were not recorded then.
        let before = if self.times_set { TimesOf::Guest } else { TimesOf::Layer };
        self.times_of.unwrap_or(before)
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedOrigin {
    layer: u16,
    path: String,
    stamp: u64,
    #[serde(default, skip_serializing_if = "is_false")]
    executable: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    was_read: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    names: Vec<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    shown_ns: u64,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum SavedBody {
    /// A file that was created or written to.
    File(SavedContent),
    /// An unchanged file of its layer, with its length.
    FileBelow(u64),
    Dir(SavedDir),
    Symlink(String),
    Special(FileType),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedDir {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    below: Vec<(u16, String)>,
    entries: Vec<SavedEntry>,
    #[serde(default, skip_serializing_if = "is_false")]
    complete: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    misses: u8,
    #[serde(default, skip_serializing_if = "is_false")]
    scaffold: bool,
}

/// Name, whether a layer has it too, and what it is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct SavedEntry(String, bool, SavedKind);

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SavedKind {
    Node(u32),
    Below(FileType),
    /// Since version 1.6 of a snapshot: the digest of a directory in which no program changed anything.
    Folded(Digest),
    Absent,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero<T: Copy + Into<u64>>(value: &T) -> bool {
    (*value).into() == 0
}

impl SavedOverlay {
    /// The mount points.
    pub fn mount_points(&self) -> impl Iterator<Item = String> {
        self.mounts.iter().map(|mount| format!("/{}", mount.at))
    }

    /// The digests of all its parts in the store `cas`.
    ///
    /// # Errors
    /// Those of [`Cas::get`].
    pub fn contents(&self, cas: &Cas) -> Result<Vec<Digest>, StoreError> {
        let file = |node: &SavedNode| match &node.body {
            SavedBody::File(content) => content.stored().collect(),
            _ => Vec::new(),
        };
        let mut contents: Vec<Digest> = self.nodes.iter().flat_map(file).collect();
        contents.extend(parts::folded_beneath(&self.nodes, cas)?);
        for baseline in self.baselines.iter().flatten() {
            contents.extend(baseline.contents(cas)?);
        }
        Ok(contents)
    }
}

impl SavedNode {
    /// The directories in it that are in the store.
    fn folded(&self) -> impl Iterator<Item = Digest> {
        let entries = match &self.body {
            SavedBody::Dir(dir) => &dir.entries[..],
            _ => &[],
        };
        entries.iter().filter_map(|SavedEntry(_, _, kind)| match kind {
            SavedKind::Folded(digest) => Some(*digest),
            _ => None,
        })
    }
}

impl Overlay {
    /// Returns the namespace as data. Writes contents to `cas` that are not there. Open files without a name are
    /// not included.
    ///
    /// # Errors
    /// Those of [`Cas::put`].
    pub fn save(&self, cas: &Cas) -> Result<SavedOverlay, StoreError> {
        let mut numbers: HashMap<NodeId, u32> = HashMap::new();
        let mut order: Vec<NodeId> = Vec::new();
        let mut number_of = |id: NodeId, order: &mut Vec<NodeId>| {
            *numbers.entry(id).or_insert_with(|| {
                order.push(id);
                // Node ids have the same size.
                (order.len() - 1) as u32
            })
        };
        number_of(self.root(), &mut order);
        let mut mounts = Vec::with_capacity(self.mounts.len());
        for mount in &self.mounts {
            let (at, read_only) = (mount.at.as_str().to_owned(), mount.read_only);
            // A mount hidden by another one is only reachable from here.
            mounts.push(SavedMount { at, read_only, root: number_of(mount.root, &mut order) });
        }
        let folded = self.fold(cas)?;
        let mut nodes = Vec::new();
        while let Some(id) = order.get(nodes.len()).copied() {
            nodes.push(self.saved_node(id, &folded, |id| number_of(id, &mut order), cas)?);
        }
        let seen = self.seen.iter().map(SavedOrigin::of).collect();
        let mut baselines = Vec::new();
        for (index, mount) in (0..).zip(&self.mounts) {
            if let Some(baseline) = &mount.baseline {
                baselines.push(baseline.save(index, cas)?);
            }
        }
        let baselines = Some(baselines);
        Ok(SavedOverlay {
            next_ino: self.next_ino,
            mounts,
            nodes,
            seen,
            baselines,
            refreshes: self.writes.known.refreshes.clone(),
            applied_times: self.writes.known.applied.clone(),
        })
    }

    /// A node as data, with the numbers that `number_of` gives to nodes that are not in `folded`.
    ///
    /// # Errors
    /// Those of [`Cas::put`].
    fn saved_node(
        &self,
        id: NodeId,
        folded: &FoldedDirs,
        mut number_of: impl FnMut(NodeId) -> u32,
        cas: &Cas,
    ) -> Result<SavedNode, StoreError> {
        let node = self.node(id);
        let body = match &node.body {
            Body::File(file) if file.content.is_dirty() || node.origin.is_none() => {
                SavedBody::File(file.content.save(cas)?)
            }
            Body::File(file) => SavedBody::FileBelow(file.content.len()),
            Body::Symlink(target) => SavedBody::Symlink(target.to_string()),
            Body::Special(file_type) => SavedBody::Special(*file_type),
            Body::Dir(dir) => {
                let entry = |(name, entry): (&Arc<str>, &Entry)| {
                    let kind = match entry.kind {
                        EntryKind::Node(id) => match folded.get(&id) {
                            Some(digest) => SavedKind::Folded(*digest),
                            None => SavedKind::Node(number_of(id)),
                        },
                        EntryKind::Below(file_type) => SavedKind::Below(file_type),
                        EntryKind::Folded(id) => SavedKind::Folded(self.folded.digest(id)),
                        EntryKind::Absent => SavedKind::Absent,
                    };
                    SavedEntry(name.to_string(), entry.shadows, kind)
                };
                let path = |(layer, path): &(u16, VPath)| (*layer, path.as_str().to_owned());
                SavedBody::Dir(SavedDir {
                    below: dir.below.iter().map(path).collect(),
                    entries: dir.entries.iter().map(entry).collect(),
                    complete: dir.complete,
                    misses: dir.misses,
                    scaffold: dir.scaffold,
                })
            }
        };
        Ok(SavedNode {
            ino: node.ino,
            mount: node.mount.0,
            times: [node.times.atim, node.times.mtim, node.times.ctim],
            times_set: false,
            times_of: (node.times_of != TimesOf::Layer).then_some(node.times_of),
            executable: node.executable,
            origin: node.origin.as_deref().map(SavedOrigin::of),
            body,
        })
    }

    /// Makes this namespace, which must have the same mounts and nothing else, what `saved` was.
    ///
    /// # Errors
    /// [`RestoreError`]; the namespace is unchanged then.
    pub fn restore(&mut self, saved: &SavedOverlay, cas: &Cas) -> Result<(), RestoreError> {
        let nodes = Nodes::default();
        let scope = Scope {
            mounts: self.mounts.len(),
            layers: self.layers.len(),
            file_bytes_max: self.limits.file_bytes_max,
        };
        let parts: Arc<dyn Parts> = Arc::new(StoredParts::new(cas.clone(), scope));
        let mut folded = Folded::default();
        folded.parts = Some(parts.clone());
        let mut restored = Self { nodes, folded, is_to_be_restored: false, ..self.clone() };
        restored.check_mounts(&saved.mounts)?;
        if saved.next_ino > INO_MAX {
            return Err(RestoreError::Damaged("the next inode number is out of range"));
        }
        let (mut parents, mut names) =
            (vec![None; saved.nodes.len()], vec![0_u32; saved.nodes.len()]);
        let mut name_bytes = vec![0; saved.nodes.len()];
        for (index, node) in saved.nodes.iter().enumerate() {
            let SavedBody::Dir(dir) = &node.body else { continue };
            for SavedEntry(name, _, kind) in &dir.entries {
                let SavedKind::Node(child) = kind else { continue };
                let child = *child as usize;
                *names.get_mut(child).ok_or(DAMAGED_NUMBER)? += 1;
                name_bytes[child] = u8::try_from(name.len()).unwrap_or(u8::MAX);
                let is_dir = matches!(saved.nodes[child].body, SavedBody::Dir(_));
                if is_dir && parents[child].replace(id_of(index)).is_some() {
                    return Err(RestoreError::Damaged("a directory has two names"));
                }
            }
        }
        for mount in &saved.mounts {
            let root = mount.root as usize;
            let node = saved.nodes.get(root).ok_or(DAMAGED_NUMBER)?;
            if !matches!(node.body, SavedBody::Dir(_)) {
                return Err(RestoreError::Damaged("the root of a mount is not a directory"));
            }
            names[root] = names[root].max(1);
        }
        if parents.first().is_some_and(Option::is_some) {
            return Err(RestoreError::Damaged("the root is an entry of a directory"));
        }
        check_no_cycles(&parents)?;
        restored.upper_bytes = 0;
        for (index, node) in saved.nodes.iter().enumerate() {
            let parent = if index == 0 { Some(id_of(0)) } else { parents[index] };
            let mut fold = |digest| restored.folded.number(digest);
            let mut node = scope.node(node, parent, names[index], cas, &mut fold)?;
            if let Body::Dir(dir) = &mut node.body {
                Arc::make_mut(dir).name_bytes = name_bytes[index];
            }
            let node = restored.insert(node);
            restored.charge_restored(node, saved.mounts.iter().any(|m| m.root == node.0))?;
        }
        for (mount, saved) in restored.mounts.iter_mut().zip(&saved.mounts) {
            mount.root = NodeId(saved.root);
        }
        restored.next_ino = saved.next_ino;
        let (refreshes, applied) = (saved.refreshes.clone(), saved.applied_times.clone());
        restored.writes.known = KnownTimes { refreshes, applied, ..KnownTimes::default() };
        restored.seen = saved.seen.iter().map(|o| scope.origin(o)).collect::<Result<_, _>>()?;
        restored.cache_bytes = 0;
        // The true value is not saved.
        restored.longest_path_bytes = self.limits.path_bytes_max;
        restored.restore_baselines(saved, &parts)?;
        *self = restored;
        Ok(())
    }

    fn restore_baselines(
        &mut self,
        saved: &SavedOverlay,
        parts: &Arc<dyn Parts>,
    ) -> Result<(), RestoreError> {
        for index in 0..self.mounts.len() {
            let Some(layer) = self.layer_of_baseline(index) else { continue };
            let Some(unbegun) = self.mounts[index].baseline.clone() else { continue };
            let of_mount = |saved: &&SavedBaseline| usize::from(saved.mount) == index;
            let baseline = if let Some(baselines) = &saved.baselines {
                let saved = baselines.iter().find(of_mount);
                let saved =
                    saved.ok_or(RestoreError::Damaged("a mounted directory has no saved state"))?;
                unbegun.restored(saved, parts)?
            } else {
                let origins = self.nodes.iter().filter_map(|(_, node)| node.origin.as_deref());
                let origins = origins.chain(&self.seen);
                let here = origins.filter(|origin| usize::from(origin.layer) == layer);
                unbegun.of_stamps(here.map(|origin| (origin.path.clone(), origin.stamp)))
            };
            self.set_baseline(index, baseline);
        }
        Ok(())
    }

    fn check_mounts(&self, saved: &[SavedMount]) -> Result<(), RestoreError> {
        let is_same = |(mount, saved): (&super::Mount, &SavedMount)| {
            mount.at.as_str() == saved.at && mount.read_only == saved.read_only
        };
        if self.mounts.len() == saved.len() && self.mounts.iter().zip(saved).all(is_same) {
            return Ok(());
        }
        let had: Vec<String> = saved.iter().map(|mount| format!("/{}", mount.at)).collect();
        let has: Vec<String> = self.mounts.iter().map(super::Mount::path).collect();
        Err(RestoreError::Mounts(format!("{}, now {}", had.join(" "), has.join(" "))))
    }

    /// Charges a restored node to the limit of the upper layer.
    fn charge_restored(&mut self, id: NodeId, is_mount_root: bool) -> Result<(), RestoreError> {
        let node = self.node(id);
        let mut bytes = 0;
        if let Body::Dir(dir) = &node.body {
            bytes += dir.entries.iter().map(|(name, entry)| entry.name_bytes(name)).sum::<u64>();
        }
        if !is_mount_root {
            bytes += if node.origin.is_none() { node_bytes(&node.body) } else { 0 };
            bytes += u64::from(node.nlink.saturating_sub(1)) * NODE_BYTES;
            if let Body::File(file) = &node.body {
                bytes += file.content.charged();
            }
        }
        self.charge(bytes).map_err(|_| RestoreError::Damaged("it exceeds the size limit"))
    }
}

/// What nodes of a namespace may refer to.
#[derive(Clone, Copy)]
struct Scope {
    mounts: usize,
    layers: usize,
    file_bytes_max: u64,
}

impl Scope {
    fn origin(&self, saved: &SavedOrigin) -> Result<Origin, RestoreError> {
        let path = self.layer_path(saved.layer, &saved.path)?;
        let SavedOrigin { layer, stamp, executable, was_read, shown_ns, .. } = *saved;
        let names = saved.names.iter().map(|name| self.layer_path(layer, name));
        let names = names.collect::<Result<_, _>>()?;
        Ok(Origin { layer, path, stamp, executable, was_read, names, shown_ns })
    }

    fn layer_path(&self, layer: u16, path: &str) -> Result<VPath, RestoreError> {
        if usize::from(layer) >= self.layers {
            return Err(RestoreError::Damaged("a layer number is out of range"));
        }
        let parsed = VPath::parse(path).ok().filter(|parsed| parsed.as_str() == path);
        parsed.ok_or(RestoreError::Damaged("invalid path"))
    }

    /// The node `saved`, with `names` names. `fold` gives numbers to directories in the store.
    fn node(
        &self,
        saved: &SavedNode,
        parent: Option<NodeId>,
        names: u32,
        cas: &Cas,
        fold: &mut dyn FnMut(Digest) -> FoldedId,
    ) -> Result<Node, RestoreError> {
        if usize::from(saved.mount) >= self.mounts {
            return Err(RestoreError::Damaged("a mount number is out of range"));
        }
        if names == 0 {
            return Err(RestoreError::Damaged("a file has no name"));
        }
        let body = match &saved.body {
            SavedBody::File(content) => {
                let content = Content::restore(content, cas, self.file_bytes_max)?;
                Body::File(File { content })
            }
            SavedBody::FileBelow(_) if saved.origin.is_none() => {
                return Err(RestoreError::Damaged("a file has neither content nor origin"));
            }
            SavedBody::FileBelow(len) => Body::File(File { content: Content::below(*len) }),
            SavedBody::Symlink(target) => Body::Symlink(target.as_str().into()),
            SavedBody::Special(file_type) => Body::Special(*file_type),
            SavedBody::Dir(dir) => Body::Dir(Arc::new(self.dir(dir, parent, fold)?)),
        };
        let [atim, mtim, ctim] = saved.times;
        let is_dir = matches!(body, Body::Dir(_));
        let is_file = matches!(body, Body::File(_));
        Ok(Node {
            ino: saved.ino,
            nlink: if is_dir { 1 } else { names },
            opens: 0,
            is_being_written: false,
            executable: saved.executable.filter(|_| is_file),
            mount: MountId(saved.mount),
            times: Times { atim, mtim, ctim },
            times_of: saved.times_of(),
            origin: saved.origin.as_ref().map(|o| self.origin(o).map(Box::new)).transpose()?,
            body,
        })
    }

    fn dir(
        &self,
        saved: &SavedDir,
        parent: Option<NodeId>,
        fold: &mut dyn FnMut(Digest) -> FoldedId,
    ) -> Result<Dir, RestoreError> {
        let mut dir = Dir { parent, ..Dir::default() };
        for (layer, path) in &saved.below {
            dir.below.push((*layer, self.layer_path(*layer, path)?));
        }
        for SavedEntry(name, shadows, kind) in &saved.entries {
            let is_name = !name.is_empty() && name.len() <= NAME_MAX && name != "." && name != "..";
            if !is_name || name.contains(['/', '\0']) {
                return Err(RestoreError::Damaged("invalid file name"));
            }
            let kind = match kind {
                SavedKind::Node(number) => EntryKind::Node(NodeId(*number)),
                SavedKind::Below(file_type) => EntryKind::Below(*file_type),
                SavedKind::Folded(digest) => EntryKind::Folded(fold(*digest)),
                SavedKind::Absent => EntryKind::Absent,
            };
            let entry = Entry { kind, shadows: *shadows };
            if dir.entries.insert(name.as_str().into(), entry).is_some() {
                return Err(RestoreError::Damaged("a directory has an entry twice"));
            }
        }
        let is_present = |entry: &&Entry| !matches!(entry.kind, EntryKind::Absent);
        let count = dir.entries.values().filter(is_present).count();
        dir.complete = saved.complete;
        dir.count = if saved.complete { count as u32 } else { 0 };
        (dir.misses, dir.scaffold) = (saved.misses, saved.scaffold);
        Ok(dir)
    }
}

/// Limit on inode numbers: leaves as many for later nodes.
const INO_MAX: u64 = 1 << 62;

const DAMAGED_NUMBER: RestoreError = RestoreError::Damaged("a node number is out of range");

fn id_of(index: usize) -> NodeId {
    NodeId(u32::try_from(index).unwrap_or(u32::MAX))
}

/// # Errors
/// [`RestoreError::Damaged`] if a directory contains itself.
fn check_no_cycles(parents: &[Option<NodeId>]) -> Result<(), RestoreError> {
    let mut is_rooted = vec![false; parents.len()];
    for start in 0..parents.len() {
        let (mut path, mut at) = (Vec::new(), start);
        while !is_rooted[at] {
            path.push(at);
            if path.len() > parents.len() {
                return Err(RestoreError::Damaged("a directory contains itself"));
            }
            let Some(parent) = parents[at] else { break };
            at = parent.0 as usize;
        }
        for at in path {
            is_rooted[at] = true;
        }
    }
    Ok(())
}

impl SavedOrigin {
    fn of(origin: &Origin) -> Self {
        let Origin { layer, stamp, executable, was_read, shown_ns, .. } = *origin;
        let path = origin.path.as_str().to_owned();
        let names = origin.names.iter().map(|name| name.as_str().to_owned()).collect();
        Self { layer, path, stamp, executable, was_read, names, shown_ns }
    }
}
