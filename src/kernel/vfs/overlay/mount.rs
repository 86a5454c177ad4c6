//! The mount table: which tree is mounted where.

use std::sync::Arc;

use super::Overlay;
use super::baseline::Baseline;
use super::node::{Body, Dir, EntryKind, MountId, Node, NodeId, TimesOf};
use super::times::Mtimes;
use crate::base::errno::Errno;
use crate::kernel::vfs::layer::Times;
use crate::kernel::vfs::layer::host_dir::HostDir;
use crate::kernel::vfs::layer::recording::RecordingLayer;
use crate::kernel::vfs::layer::{FileType, Layer};
use crate::kernel::vfs::path::VPath;
use crate::tape::Recorder;

/// A directory of the root that does not show in the worktree: programs create their own.
const TMP: &str = "tmp";

/// What to mount.
#[derive(Clone)]
pub enum Source {
    /// A new, empty directory in memory.
    Memory,
    /// A directory of the host. Guests change a copy; [`Overlay::apply`] can write the changes back.
    Host(Arc<HostDir>),
    /// Like `Host`, but with the state of one time, whatever changes later.
    Baseline(Arc<Baseline>),
    /// Read-only trees, the uppermost first.
    Layers(Vec<Arc<dyn Layer>>),
}

impl Source {
    /// The trees below, the uppermost first.
    pub fn layers(&self) -> Vec<Arc<dyn Layer>> {
        match self {
            Self::Memory => Vec::new(),
            Self::Host(dir) => vec![dir.clone()],
            Self::Baseline(baseline) => vec![baseline.clone()],
            Self::Layers(layers) => layers.clone(),
        }
    }
}

/// One entry of the mount table.
#[derive(Clone)]
pub struct Mount {
    /// The directory mounted.
    pub(in crate::kernel::vfs) root: NodeId,
    /// The mount point.
    pub(in crate::kernel::vfs) at: VPath,
    pub(in crate::kernel::vfs) read_only: bool,
    pub(in crate::kernel::vfs) mtimes: Mtimes,
    /// Where an apply writes to.
    pub(in crate::kernel::vfs) host: Option<Arc<HostDir>>,
    /// Index of its first layer.
    pub(in crate::kernel::vfs) layer: u16,
    /// The state that the disk is compared with, if recorded.
    pub(in crate::kernel::vfs) baseline: Option<Arc<Baseline>>,
    /// There is a tree below, of which changes can be reported.
    pub(in crate::kernel::vfs) is_layered: bool,
}

impl Mount {
    pub(super) fn memory(root: NodeId, now: u64) -> Self {
        Self {
            root,
            at: VPath::root(),
            read_only: false,
            mtimes: Mtimes::Fixed(now),
            host: None,
            layer: 0,
            baseline: None,
            is_layered: false,
        }
    }

    /// The absolute path of the mount point.
    pub fn path(&self) -> String {
        format!("/{}", self.at.as_str())
    }

    /// The directory of the host that it shows, if it shows one.
    pub(crate) fn host(&self) -> Option<&HostDir> {
        self.host.as_deref()
    }

    /// Whether writes fail with `EROFS`.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }
}

/// `layer`, with its answers recorded as those of a directory at `at`.
fn directory_on_tape(
    layer: Arc<dyn Layer>,
    at: &VPath,
    shows_times: bool,
    tape: &Recorder,
) -> Arc<dyn Layer> {
    Arc::new(RecordingLayer::new(layer, at, shows_times, tape.clone()).reading_in_place())
}

impl Overlay {
    /// Mounts `source` at the absolute path `at`, over what is there. Creates missing directories on the way.
    /// Takes the same time whatever the size of the tree.
    ///
    /// # Errors
    /// `EINVAL` if `at` is not absolute; `EPERM` if it leaves the root; `ENOTDIR` if a file or symbolic link is on
    /// the way, or the layer's root is not a directory; `EBUSY` on a mount point, or for the root if it is not
    /// empty; `ENOSPC`; those of the layer.
    pub fn mount(
        &mut self,
        at: &str,
        source: Source,
        read_only: bool,
        mtimes: Mtimes,
        now: u64,
    ) -> Result<MountId, Errno> {
        if !at.starts_with('/') {
            return Err(Errno::Inval);
        }
        let at = VPath::parse(at)?;
        let layers = source.layers();
        let (host, baseline) = match source {
            Source::Host(dir) => (Some(dir), None),
            Source::Baseline(baseline) => (Some(baseline.disk().clone()), Some(baseline)),
            Source::Memory | Source::Layers(_) => (None, None),
        };
        let shows_times = mtimes == Mtimes::Host;
        let layers: Vec<Arc<dyn Layer>> = match (&self.tape, &self.directories_tape) {
            (None, Some((tape, below))) if baseline.is_some() => {
                let at = VPath::parse(&at.absolute(&below.absolute("/")))?;
                let record = |layer| directory_on_tape(layer, &at, shows_times, tape);
                layers.into_iter().map(record).collect()
            }
            (None, _) => layers,
            (Some(tape), _) => {
                let record = |layer| RecordingLayer::new(layer, &at, shows_times, tape.clone());
                layers.into_iter().map(|layer| Arc::new(record(layer)) as Arc<dyn Layer>).collect()
            }
        };
        let mut times = Times::all(now);
        // The uppermost comes last: its times show.
        for layer in layers.iter().rev() {
            let stat = layer.stat(&VPath::root())?;
            if stat.file_type != FileType::Directory {
                return Err(Errno::Notdir);
            }
            times = mtimes.of(&stat, self.time_scale).0;
        }
        let id = MountId(u16::try_from(self.mounts.len()).map_err(|_| Errno::Nomem)?);
        let first = u16::try_from(self.layers.len()).map_err(|_| Errno::Nomem)?;
        let below: Vec<_> = (first..).take(layers.len()).map(|l| (l, VPath::root())).collect();
        let dir = Dir { complete: below.is_empty(), below, ..Dir::default() };
        let is_layered = !layers.is_empty();
        let root = if at.is_root() {
            self.remount_root(dir, id, times)?
        } else {
            // Checked first, so that a refused mount leaves no node.
            if !self.is_to_be_restored {
                self.find_place(&at, now)?;
            }
            let ino = self.fresh_ino();
            let body = Body::Dir(Arc::new(dir));
            let root = self.insert(Node {
                ino,
                nlink: 1,
                opens: 0,
                is_being_written: false,
                executable: None,
                mount: id,
                times,
                times_of: TimesOf::Layer,
                origin: None,
                body,
            });
            if !self.is_to_be_restored {
                self.place(&at, root, now)?;
            }
            root
        };
        self.layers.extend(layers);
        let layer = first;
        self.mounts.push(Mount { root, at, read_only, mtimes, host, layer, baseline, is_layered });
        Ok(id)
    }

    /// The layer of the mount `index` that shows `baseline`: it records what it answers, if directories are on a tape.
    pub(in crate::kernel::vfs) fn recorded_directory(
        &self,
        index: usize,
        baseline: Arc<Baseline>,
    ) -> Arc<dyn Layer> {
        let Some((tape, below)) = &self.directories_tape else { return baseline };
        let Mount { at, mtimes, .. } = &self.mounts[index];
        match VPath::parse(&at.absolute(&below.absolute("/"))) {
            Ok(at) => directory_on_tape(baseline, &at, *mtimes == Mtimes::Host, tape),
            // It was mounted, so the path is not too long.
            Err(_) => baseline,
        }
    }

    /// Mounts are only listed from now on, and [`Overlay::restore`] places them: what is on the disk now does not matter
    /// to a saved state.
    pub(crate) fn await_restore(&mut self) {
        self.is_to_be_restored = true;
    }

    /// Whether something is mounted at `at`.
    pub(crate) fn has_mount_at(&self, at: &str) -> bool {
        VPath::parse(at).is_ok_and(|at| self.mounts.iter().any(|mount| mount.at == at))
    }

    /// The times that files of the mounts show.
    pub(crate) fn mtimes(&self) -> Mtimes {
        self.mounts
            .iter()
            .rev()
            .find(|mount| mount.is_layered)
            .map_or(Mtimes::Host, |mount| mount.mtimes)
    }

    /// Makes the mount at `at` the worktree, whose changes have short names.
    ///
    /// # Errors
    /// `ENOENT` if nothing is mounted at `at`.
    pub fn set_worktree(&mut self, at: &str) -> Result<(), Errno> {
        let at = VPath::parse(at)?;
        let index = self.mounts.iter().rposition(|mount| mount.at == at).ok_or(Errno::Noent)?;
        self.worktree = Some(MountId(index as u16));
        Ok(())
    }

    /// The worktree, if there is one.
    pub fn worktree(&self) -> Option<MountId> {
        self.worktree
    }

    /// Makes the root show through the worktree.
    ///
    /// Programs cannot tell `/lib` from `lib` (see [`crate::Reach::CurrentDir`]). So where a tree is mounted at
    /// `/lib`, the worktree has an entry `lib` too, unless the tree below has one. It cannot be removed or
    /// renamed, and is not listed. `/tmp` and directories in memory do not show. Nothing can be created in the
    /// root, as no diff would show it, unless a tree is mounted there.
    pub fn show_root_in_worktree(&mut self) {
        self.root_shows = true;
        if self.node(self.root()).mount == MountId(0) {
            self.mounts[0].read_only = true;
        }
    }

    /// Returns the root's entry `name`, if the root shows through `dir` and an entry below a mount has that first
    /// name: see [`Overlay::show_root_in_worktree`].
    pub(super) fn shown(&self, dir: NodeId, name: &str) -> Option<NodeId> {
        if self.dir_with_root() != Some(dir) || name == TMP {
            return None;
        }
        let begins_with_name = |at: &str| {
            at.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let shows = |mount: &Mount| mount.is_layered && begins_with_name(mount.at.as_str());
        // The worktree does not show in itself: removing `worktree` there must not hit it.
        let is_own = self.worktree.is_some_and(|mount| shows(&self.mounts[mount.index()]));
        if is_own || !self.mounts.iter().any(shows) {
            return None;
        }
        match self.dir(self.root()).entries.get(name)?.kind {
            EntryKind::Node(id) => Some(id),
            EntryKind::Below(_) | EntryKind::Folded(_) | EntryKind::Absent => None,
        }
    }

    /// Whether `path`, from the root, leads through a mount point to an entry in it.
    pub(crate) fn leads_into_mount(&self, path: &str) -> bool {
        let is_name = |name: &&str| !name.is_empty() && *name != ".";
        self.mounts[1..].iter().any(|mount| {
            let mut names = path.split('/');
            let mut at = mount.at.as_str().split('/');
            at.all(|name| names.by_ref().find(is_name) == Some(name))
                && names.any(|name| !name.is_empty())
        })
    }

    /// Whether a tree is mounted at the root.
    pub(crate) fn has_tree_at_root(&self) -> bool {
        self.mounts[self.node(self.root()).mount.index()].is_layered
    }

    /// The worktree's directory, if the root shows through it.
    pub(super) fn dir_with_root(&self) -> Option<NodeId> {
        self.worktree.filter(|_| self.root_shows).map(|mount| self.mount_root(mount))
    }

    /// Whether `path` is a directory that is there only to hold a mount point.
    #[cfg(feature = "remote")]
    pub fn is_scaffold_at(&mut self, path: &str) -> bool {
        let id = self.lookup(self.host_base(), path, crate::kernel::vfs::Follow::No);
        id.is_ok_and(|id| matches!(&self.node(id).body, Body::Dir(dir) if dir.scaffold))
    }

    /// Whether `id` is a mount point, or a directory made to hold one.
    pub(in crate::kernel::vfs) fn is_fixed(&self, id: NodeId) -> bool {
        let is_scaffold = matches!(&self.node(id).body, Body::Dir(dir) if dir.scaffold);
        is_scaffold || self.is_mount_point(id)
    }

    /// The mount table, in the order of mounting; the first entry is the root.
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// The directory mounted as `id`.
    pub fn mount_root(&self, id: MountId) -> NodeId {
        self.mounts[usize::from(id.0)].root
    }

    pub(in crate::kernel::vfs) fn is_mount_point(&self, id: NodeId) -> bool {
        self.mounts[usize::from(self.node(id).mount.0)].root == id
    }

    /// Mounts a tree at the root, which must be empty.
    fn remount_root(&mut self, mut dir: Dir, id: MountId, times: Times) -> Result<NodeId, Errno> {
        let root = self.root();
        if self.mounts.len() > 1 || self.dir(root).count > 0 {
            return Err(Errno::Busy);
        }
        dir.parent = Some(root);
        let node = self.node_mut(root);
        node.mount = id;
        node.times = times;
        node.body = Body::Dir(Arc::new(dir));
        Ok(root)
    }

    /// Puts `root` at the mount point `at`, over what is there.
    fn place(&mut self, at: &VPath, root: NodeId, now: u64) -> Result<(), Errno> {
        let dir = self.find_place(at, now)?;
        let (_, name) = at.split_last().ok_or(Errno::Inval)?;
        let times = self.node(dir).times;
        if self.child(dir, name)?.is_some() {
            self.detach(dir, name, now);
        }
        self.attach(dir, name, root, now);
        // Not made by a guest: not charged.
        self.uncharge(self.name_bytes(dir, name));
        if let Some(entry) = self.dir_mut(dir).entries.get_mut(name) {
            entry.shadows = true;
        }
        self.node_mut(dir).times = times;
        Ok(())
    }

    /// Returns the directory that holds the mount point `at`, having checked that nothing prevents the mount.
    fn find_place(&mut self, at: &VPath, now: u64) -> Result<NodeId, Errno> {
        let (parent, name) = at.split_last().ok_or(Errno::Inval)?;
        let mut dir = self.root();
        for step in parent.as_str().split('/').filter(|step| !step.is_empty()) {
            dir = match self.child(dir, step)? {
                Some(next) => next,
                None => self.make_scaffold(dir, step, now)?,
            };
            self.expect_dir(dir)?;
        }
        if let Some(hidden) = self.child(dir, name)? {
            self.expect_dir(hidden)?;
            if self.is_mount_point(hidden) {
                return Err(Errno::Busy);
            }
        }
        Ok(dir)
    }

    fn make_scaffold(&mut self, dir: NodeId, name: &str, now: u64) -> Result<NodeId, Errno> {
        let body = Dir { complete: true, scaffold: true, ..Dir::default() };
        let times = self.node(dir).times;
        let id = self.create(dir, Body::Dir(Arc::new(body)), name, now)?;
        self.node_mut(dir).times = times;
        Ok(id)
    }
}
