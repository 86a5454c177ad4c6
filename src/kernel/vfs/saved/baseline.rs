//! Pins of host directories as data.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};

use super::{RestoreError, part};
use crate::base::digest::Digest;
use crate::kernel::vfs::layer::{DirEntry, FileType, Stat};
use crate::kernel::vfs::overlay::Overlay;
use crate::kernel::vfs::overlay::baseline::{Baseline, start};
use crate::kernel::vfs::overlay::drift_kind::DriftKind;
use crate::kernel::vfs::overlay::parts::Parts;
use crate::kernel::vfs::overlay::pin_table::{Leaf, PinTable, Pins};
use crate::kernel::vfs::overlay::pins::{List, Pin, There};
use crate::kernel::vfs::path::{VPath, check_name};
use crate::store::{Cas, StoreError};

/// The state of a [`Baseline`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedBaseline {
    /// Its mount.
    pub mount: u16,
    start_ns: u64,
    /// All pins, before version 1.6.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pins: Vec<SavedPin>,
    /// Pins in the store: the first path of neighbouring ones, and the digest of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    leaves: Vec<(String, Digest)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    drifts: Vec<(String, DriftKind)>,
    /// Since version 1.2.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    written: Vec<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SavedPin {
    There(Box<SavedThere>),
    /// The path, and whether its absence is certain.
    Absent(String, bool),
    Unknown(String),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedThere {
    path: String,
    stat: SavedStat,
    /// Base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    link: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<Digest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    list: Option<SavedList>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accepted_ns: Option<u64>,
}

/// Type, length, modification time, executable, stamp, inode number, number of names.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct SavedStat(FileType, u64, u64, bool, u64, u64, u64);

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedList {
    /// Name, type, inode number or 0.
    entries: Vec<(String, FileType, u64)>,
    is_late: bool,
}

impl SavedBaseline {
    /// The digests of its parts and of the contents that it refers to.
    ///
    /// # Errors
    /// Those of [`Cas::get`].
    pub fn contents(&self, cas: &Cas) -> Result<Vec<Digest>, StoreError> {
        let content = |pin: &SavedPin| match pin {
            SavedPin::There(there) => there.content,
            SavedPin::Absent(..) | SavedPin::Unknown(_) => None,
        };
        let mut contents: Vec<Digest> = self.pins.iter().filter_map(content).collect();
        for (_, digest) in &self.leaves {
            let pins: Vec<SavedPin> = part::get(cas, *digest)?;
            contents.push(*digest);
            contents.extend(pins.iter().filter_map(content));
        }
        Ok(contents)
    }
}

impl Baseline {
    /// Returns the state as data. Writes contents to `cas` that are not there.
    ///
    /// # Errors
    /// Those of [`Cas::put`].
    pub(super) fn save(&self, mount: u16, cas: &Cas) -> Result<SavedBaseline, StoreError> {
        if let Some(contents) = self.contents() {
            contents.store_repaired(cas)?;
        }
        let mut pins = self.pins();
        let leaves = self.save_pins(&mut pins.by_path, cas)?;
        let drift = |(path, kind): (&VPath, &DriftKind)| (path.as_str().to_owned(), *kind);
        let drifts = pins.drifts.iter().map(drift).collect();
        let written = pins.written.iter().map(|path| path.as_str().to_owned()).collect();
        let (start_ns, pins) = (self.start_ns(), Vec::new());
        Ok(SavedBaseline { mount, start_ns, pins, leaves, drifts, written })
    }

    /// Puts into `cas` what is not there of `pins`, with the contents that they refer to.
    fn save_pins(
        &self,
        pins: &mut PinTable,
        cas: &Cas,
    ) -> Result<Vec<(String, Digest)>, StoreError> {
        if !pins.is_of(cas) {
            pins.read_all()?;
        }
        let mut saved = Vec::new();
        for leaf in pins.leaves() {
            let is_there = |digest: &Digest| leaf.pins.is_none() || cas.contains(*digest);
            saved.push(match leaf.stored.filter(is_there) {
                Some(_) => None,
                None => Some(self.save_leaf(leaf, cas)?),
            });
        }
        pins.note_stored(saved);
        let named = |leaf: &Leaf| Some((leaf.first.as_str().to_owned(), leaf.stored?));
        Ok(pins.leaves().iter().filter_map(named).collect())
    }

    /// Puts the pins of `leaf` into `cas`, in several leaves if there are many.
    fn save_leaf(&self, leaf: &Leaf, cas: &Cas) -> Result<Vec<Leaf>, StoreError> {
        let pins: Vec<(&VPath, &Pin)> = leaf.pins.iter().flatten().collect();
        let weight: usize = pins.iter().map(|(_, pin)| weight(pin)).sum();
        let weight_max = if weight <= LEAF_WEIGHT_MAX { LEAF_WEIGHT_MAX } else { LEAF_WEIGHT };
        let mut leaves = Vec::new();
        for part in parts_of(&pins, weight_max) {
            let mut saved = Vec::with_capacity(part.len());
            for (path, pin) in part {
                self.save_content(pin, cas)?;
                saved.push(SavedPin::of(path, pin));
            }
            let stored = Some(part::put(&saved, |_| false, cas)?);
            let first = if leaves.is_empty() { leaf.first.clone() } else { part[0].0.clone() };
            let pins = part.iter().map(|(path, pin)| ((*path).clone(), (*pin).clone()));
            leaves.push(Leaf { first, stored, pins: Some(pins.collect()) });
        }
        Ok(leaves)
    }

    fn save_content(&self, pin: &Pin, cas: &Cas) -> Result<(), StoreError> {
        let Pin::There(There { content: Some((digest, len_bytes)), .. }) = pin else {
            return Ok(());
        };
        self.contents().map_or(Ok(()), |contents| contents.store(*digest, *len_bytes, cas))
    }

    /// The state `saved` for the same directory.
    ///
    /// # Errors
    /// [`RestoreError::Damaged`].
    pub(super) fn restored(
        &self,
        saved: &SavedBaseline,
        parts: &Arc<dyn Parts>,
    ) -> Result<Self, RestoreError> {
        let mut pins = Pins::default();
        if saved.leaves.is_empty() {
            let read = saved.pins.iter().map(SavedPin::restored);
            pins.by_path = read.collect::<Result<BTreeMap<_, _>, _>>()?.into();
        } else {
            let leaf = |(first, digest): &(String, Digest)| Ok((path_of(first)?, *digest));
            let leaves: Result<_, RestoreError> = saved.leaves.iter().map(leaf).collect();
            let leaves = leaves?;
            pins.by_path = PinTable::stored(leaves, parts.clone())
                .ok_or(RestoreError::Damaged("pins are not sorted"))?;
        }
        for (path, kind) in &saved.drifts {
            pins.drifts.insert(path_of(path)?, *kind);
        }
        for path in &saved.written {
            pins.written.insert(path_of(path)?);
        }
        let contents = self.contents().cloned();
        Ok(Self::with(self.disk().clone(), saved.start_ns, contents, pins))
    }

    /// The state of a session from before pins existed: what was looked at is pinned if its stamp is unchanged, and
    /// unknown otherwise.
    pub(super) fn of_stamps(&self, looked_at: impl Iterator<Item = (VPath, u64)>) -> Self {
        let (mut pins, mut by_path) = (Pins::default(), BTreeMap::new());
        for (path, stamp) in looked_at {
            let pin = match self.disk().examine(&path) {
                // The stamp of a directory does not identify it.
                Ok(found) if found.stat.file_type == FileType::Directory => continue,
                Ok(found) if found.stat.stamp == stamp => Pin::There(found.stat.into()),
                _ => {
                    pins.drifts.insert(path.clone(), DriftKind::Changed);
                    Pin::Unknown
                }
            };
            by_path.insert(path, pin);
        }
        pins.by_path = by_path.into();
        let start_ns = start(self.disk(), false);
        Self::with(self.disk().clone(), start_ns, self.contents().cloned(), pins)
    }
}

impl SavedPin {
    fn of(path: &VPath, pin: &Pin) -> Self {
        let path = path.as_str().to_owned();
        match pin {
            Pin::Absent { is_certain } => Self::Absent(path, *is_certain),
            Pin::Unknown => Self::Unknown(path),
            Pin::There(There { stat, link, content, list, accepted_ns }) => {
                let Stat { file_type, size, mtime_ns, executable, stamp, inode, nlink } = *stat;
                Self::There(Box::new(SavedThere {
                    path,
                    stat: SavedStat(file_type, size, mtime_ns, executable, stamp, inode, nlink),
                    link: link.as_ref().map(|text| BASE64.encode(text)),
                    content: content.map(|(digest, _)| digest),
                    list: list.as_deref().map(SavedList::of),
                    accepted_ns: *accepted_ns,
                }))
            }
        }
    }

    pub fn restored(&self) -> Result<(VPath, Pin), RestoreError> {
        let there = match self {
            Self::Absent(path, is_certain) => {
                return Ok((path_of(path)?, Pin::Absent { is_certain: *is_certain }));
            }
            Self::Unknown(path) => return Ok((path_of(path)?, Pin::Unknown)),
            Self::There(there) => there,
        };
        let SavedStat(file_type, size, mtime_ns, executable, stamp, inode, nlink) = there.stat;
        let stat = Stat { file_type, size, mtime_ns, executable, stamp, inode, nlink };
        let link = match &there.link {
            None => None,
            Some(text) => {
                let text = BASE64.decode(text);
                let text =
                    text.map_err(|_| RestoreError::Damaged("a symbolic link is not base64"))?;
                Some(text.into())
            }
        };
        let list = there.list.as_ref().map(SavedList::restored).transpose()?;
        let pin = There {
            stat,
            link,
            content: there.content.map(|digest| (digest, size)),
            list: list.map(Into::into),
            accepted_ns: there.accepted_ns,
        };
        Ok((path_of(&there.path)?, Pin::There(pin)))
    }
}

impl SavedList {
    fn of(list: &List) -> Self {
        let entry = |entry: &DirEntry| {
            let inode = list.inodes.get(&entry.name).copied().unwrap_or(0);
            (entry.name.to_string(), entry.file_type, inode)
        };
        Self { entries: list.entries.iter().map(entry).collect(), is_late: list.is_late }
    }

    fn restored(&self) -> Result<List, RestoreError> {
        let mut entries: BTreeMap<&str, FileType> = BTreeMap::new();
        let mut list = List { is_late: self.is_late, ..List::default() };
        for (name, file_type, inode) in &self.entries {
            let is_name = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
            if !is_name || check_name(name).is_err() {
                return Err(RestoreError::Damaged("invalid file name"));
            }
            entries.insert(name, *file_type);
            if *inode != 0 {
                list.inodes.insert(name.as_str().into(), *inode);
            }
        }
        let entry = |(name, file_type): (&str, _)| DirEntry { name: name.into(), file_type };
        list.entries = entries.into_iter().map(entry).collect();
        Ok(list)
    }
}

/// Most that is saved together, and how much where there is more, in names of about 25 bytes.
const LEAF_WEIGHT_MAX: usize = 3072;
const LEAF_WEIGHT: usize = 2048;

/// What a pin takes, in names.
fn weight(pin: &Pin) -> usize {
    let names = match pin {
        Pin::There(There { list: Some(list), .. }) => list.entries.len(),
        _ => 0,
    };
    8 + names
}

/// `pins` in parts of at most `weight_max`, or of one pin.
fn parts_of<'p, 'a>(
    mut pins: &'p [(&'a VPath, &'a Pin)],
    weight_max: usize,
) -> Vec<&'p [(&'a VPath, &'a Pin)]> {
    let mut parts = Vec::new();
    while !pins.is_empty() {
        let mut left = weight_max;
        let fits = |(_, pin): &&(&VPath, &Pin)| {
            let rest = left.checked_sub(weight(pin));
            left = rest.unwrap_or_default();
            rest.is_some()
        };
        let count = pins.iter().take_while(fits).count().max(1);
        let (part, rest) = pins.split_at(count);
        parts.push(part);
        pins = rest;
    }
    parts
}

fn path_of(path: &str) -> Result<VPath, RestoreError> {
    let parsed = VPath::parse(path).ok().filter(|parsed| parsed.as_str() == path);
    parsed.ok_or(RestoreError::Damaged("invalid path"))
}

/// Bytes of files, replaced or removed without being read, that are kept each time a namespace is saved.
const UNREAD_BYTES_MAX: u64 = 256 << 20;

impl Overlay {
    /// Keeps the old contents of files that programs replaced, removed, moved or linked without reading them, so that
    /// changes can be shown later, whatever happens on the disk. What cannot be kept is reported then.
    pub(crate) fn keep_what_was_replaced(&mut self) {
        if self.mounts.iter().all(|mount| mount.baseline.is_none()) {
            return;
        }
        let Ok(changes) = self.known_changes() else { return };
        let mut left = UNREAD_BYTES_MAX;
        let mut seen = HashSet::new();
        for change in changes {
            let Some(baseline) = &self.mounts[change.mount.index()].baseline else { continue };
            let layer = self.mounts[change.mount.index()].layer;
            let origin = change.after.and_then(|id| self.node(id).origin.as_deref());
            let origin = origin.filter(|origin| origin.layer == layer);
            let before = change.before.as_ref().map(|found| &found.path);
            for path in before.into_iter().chain(origin.map(|origin| &origin.path)) {
                let Some(stat) = baseline.pinned_stat(path) else { continue };
                let is_file = stat.file_type == FileType::RegularFile;
                if is_file && stat.size <= left && seen.insert((change.mount, path.clone())) {
                    left -= stat.size;
                    // A change until now is reported later.
                    let _ = baseline.keep(path);
                }
            }
        }
    }

    /// The layer of the mount `index`, if that has a baseline.
    pub(super) fn layer_of_baseline(&self, index: usize) -> Option<usize> {
        let mount = &self.mounts[index];
        mount.baseline.as_ref().map(|_| usize::from(mount.layer))
    }

    /// Makes `baseline` the state that the mount `index` shows.
    pub(in crate::kernel::vfs) fn set_baseline(&mut self, index: usize, baseline: Baseline) {
        let Some(layer) = self.layer_of_baseline(index) else { return };
        let baseline = std::sync::Arc::new(baseline);
        self.mounts[index].baseline = Some(baseline.clone());
        // A recorded layer stays recorded; after a run nothing asks it.
        if self.tape.is_none() {
            self.layers[layer] = self.recorded_directory(index, baseline);
        }
    }

    /// A fork, which reports its own drifts.
    pub(crate) fn fork(&self) -> Self {
        let mut fork = self.clone();
        fork.torn.clear();
        for index in 0..fork.mounts.len() {
            if let Some(baseline) = &fork.mounts[index].baseline {
                let baseline = baseline.fork();
                fork.set_baseline(index, baseline);
            }
        }
        fork
    }
}
