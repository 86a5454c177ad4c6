//! The reference file system: a map from whole paths to inodes, contents as vectors, nothing shared, nothing deferred.
//! Where POSIX leaves an answer open, it answers as Linux does.
//!
//! It is independent of the overlay: a lookup here is a list of names that grows and shrinks, and the entries of a
//! directory are the paths one name longer than its own.

mod rename;

use std::collections::BTreeMap;

use belljar::Errno;
use belljar::kernel::vfs::{
    FileType, Metadata, NAME_MAX, OpenFlags, PATH_BYTES_MAX, SYMLOOP_MAX, SetTime, Times,
};

use crate::support::files::{
    Answer, EXECUTABLE, FILE_BYTES_MAX, Files, LAYER_TIME, Last, Outcome, Tree, join, merged,
    type_of,
};
use crate::support::plans::{Op, Place, SLOTS, Sown, What, pattern};

type Path = Vec<String>;

#[derive(Clone)]
pub struct Model {
    names: BTreeMap<Path, u64>,
    inodes: BTreeMap<u64, Inode>,
    slots: [Option<Slot>; SLOTS],
}

#[derive(Clone)]
struct Inode {
    holds: Holds,
    links: u32,
    times: Times,
    executable: bool,
}

#[derive(Clone, PartialEq)]
enum Holds {
    Dir,
    File(Vec<u8>),
    Link(String),
    Special,
}

#[derive(Clone, Copy)]
struct Slot {
    inode: u64,
    write: bool,
}

/// The place to which a path leads, whether or not an entry exists there.
struct Spot {
    path: Path,
    /// Whether the path ended in `.` or `..`, and so does not name an entry of a directory.
    dots: Option<&'static str>,
    slash: bool,
}

impl Model {
    /// The merged tree of `layers`, the uppermost first.
    pub fn new(layers: &[BTreeMap<String, Sown>], own_times: bool) -> Self {
        let mut model =
            Self { names: BTreeMap::new(), inodes: BTreeMap::new(), slots: [None; SLOTS] };
        if layers.is_empty() {
            model.add(Vec::new(), Holds::Dir, LAYER_TIME);
        }
        for (path, sown) in merged(layers) {
            let holds = match &sown.what {
                What::Dir => Holds::Dir,
                What::File { len, first } => Holds::File(pattern(*first, *len)),
                What::Link(text) => Holds::Link(text.clone()),
                What::Special => Holds::Special,
            };
            let time = if own_times { sown.mtime } else { LAYER_TIME };
            model.add(path, holds, time);
        }
        model
    }

    fn add(&mut self, path: Path, holds: Holds, now: u64) -> u64 {
        let id = self.inodes.len() as u64;
        let times = Times::all(now);
        self.inodes.insert(id, Inode { holds, links: 1, times, executable: false });
        self.names.insert(path, id);
        id
    }

    /// Creates an entry at the time `now`.
    fn make(&mut self, path: Path, holds: Holds, now: u64) -> Result<u64, Errno> {
        self.expect_parent(&path)?;
        self.touch_parent(&path, now);
        Ok(self.add(path, holds, now))
    }

    fn inode(&mut self, id: u64) -> &mut Inode {
        self.inodes.get_mut(&id).expect("inodes stay")
    }

    fn holds(&self, id: u64) -> &Holds {
        &self.inodes[&id].holds
    }

    fn id(&self, path: &Path) -> Option<u64> {
        self.names.get(path).copied()
    }

    fn is_dir(&self, id: u64) -> bool {
        *self.holds(id) == Holds::Dir
    }

    /// The path of a directory; a removed one has a unique path of its own.
    fn path_of(&self, dir: u64) -> Path {
        let found = self.names.iter().find(|(_, id)| **id == dir);
        found.map_or_else(|| vec![format!("removed {dir}")], |(path, _)| path.clone())
    }

    fn expect_parent(&self, path: &Path) -> Result<(), Errno> {
        let parent = path[..path.len() - 1].to_vec();
        self.id(&parent).map(|_| ()).ok_or(Errno::Noent)
    }

    fn touch_parent(&mut self, path: &Path, now: u64) {
        let parent = self.id(&path[..path.len() - 1].to_vec()).expect("it was checked");
        self.touch(parent, now);
    }

    fn touch(&mut self, id: u64, now: u64) {
        let times = &mut self.inode(id).times;
        (times.mtim, times.ctim) = (now, now);
    }

    /// Removes the name `path`, which exists.
    fn drop_name(&mut self, path: &Path, now: u64) {
        let id = self.names.remove(path).expect("it exists");
        self.touch_parent(path, now);
        let is_dir = self.is_dir(id);
        let inode = self.inode(id);
        inode.links -= 1;
        if !is_dir {
            inode.times.ctim = now;
        }
    }

    fn entries(&self, dir: u64) -> Vec<(String, u64, FileType)> {
        let parent = self.path_of(dir);
        let is_child = |path: &Path| path.len() == parent.len() + 1 && path.starts_with(&parent);
        let children = self.names.iter().filter(|(path, _)| is_child(path));
        children
            .map(|(path, id)| (path[parent.len()].clone(), *id, self.meta(*id).file_type))
            .collect()
    }

    fn meta(&self, id: u64) -> Metadata {
        let inode = &self.inodes[&id];
        let (file_type, size) = match &inode.holds {
            Holds::Dir => (FileType::Directory, 0),
            Holds::File(bytes) => (FileType::RegularFile, bytes.len()),
            Holds::Link(text) => (FileType::SymbolicLink, text.len()),
            Holds::Special => (type_of(&What::Special), 0),
        };
        Metadata { ino: id, file_type, nlink: inode.links, size: size as u64, times: inode.times }
    }

    fn walk(&self, place: &Place, last: Last, creates: bool) -> Result<Spot, Errno> {
        let start = match place.slot {
            Some(slot) => self.slot(slot)?.inode,
            None => self.names[&Vec::new()],
        };
        let text = &place.path;
        if text.is_empty() {
            return Err(Errno::Noent);
        }
        if text.len() > PATH_BYTES_MAX {
            return Err(Errno::Nametoolong);
        }
        if text.starts_with('/') {
            return Err(Errno::Perm);
        }
        if !self.is_dir(start) {
            return Err(Errno::Notdir);
        }
        let mut here = self.path_of(start);
        let root = match place.root {
            Some(slot) => self.path_of(self.slot(slot)?.inode),
            None => Vec::new(),
        };
        let root = if here.starts_with(&root) { root } else { here.clone() };
        let components = |text: &str| {
            let parts = text.rsplit('/').filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect::<Vec<_>>()
        };
        let mut todo = components(text);
        let mut slash = text.ends_with('/');
        let mut dots = Some(".");
        let (mut links, mut absolute) = (0, false);
        while let Some(name) = todo.pop() {
            let is_last = todo.is_empty();
            dots = (name == ".").then_some(".");
            if dots.is_some() {
                continue;
            }
            if name == ".." {
                if here == root && !(absolute && root.is_empty()) {
                    return Err(if links == 0 { Errno::Perm } else { Errno::Noent });
                }
                // A removed directory has no parent; the parent of the top is the top.
                if !self.names.contains_key(&here) {
                    return Err(Errno::Noent);
                }
                here.pop();
                dots = Some("..");
                continue;
            }
            // Outside `root`, on the way of an absolute link to it, every error is `ENOENT`.
            let outside = !here.starts_with(&root);
            let seen = |errno| if outside { Errno::Noent } else { errno };
            if creates && is_last && slash {
                return Err(seen(Errno::Isdir));
            }
            if name.len() > NAME_MAX {
                let is_there = self.names.contains_key(&here);
                return Err(if is_there { Errno::Nametoolong } else { Errno::Noent });
            }
            here.push(name);
            if outside && is_last && here == root {
                dots = Some(".");
            }
            let holds = self.id(&here).map(|id| self.holds(id));
            match holds {
                Some(Holds::Link(text))
                    if !is_last
                        || last == Last::Followed
                        || (last == Last::FollowedBeforeSlash && slash) =>
                {
                    links += 1;
                    if links > SYMLOOP_MAX {
                        return Err(seen(Errno::Loop));
                    }
                    if text.is_empty() {
                        return Err(Errno::Noent);
                    }
                    here.pop();
                    if text.starts_with('/') {
                        here.clear();
                        absolute = true;
                        dots = Some(".");
                    }
                    if is_last {
                        slash |= text.ends_with('/');
                    }
                    todo.extend(components(text));
                }
                Some(Holds::Dir) => {}
                _ if is_last => {}
                Some(_) => return Err(seen(Errno::Notdir)),
                None => return Err(Errno::Noent),
            }
        }
        if !here.starts_with(&root) {
            return Err(Errno::Noent);
        }
        Ok(Spot { path: here, dots, slash })
    }

    /// The inode that a path leads to.
    fn find(&self, place: &Place, last: Last) -> Result<u64, Errno> {
        let spot = self.walk(place, last, false)?;
        let id = match (self.id(&spot.path), place.slot) {
            (Some(id), _) => id,
            // `.` of a removed directory.
            (None, Some(base)) if spot.dots.is_some() => self.slot(base)?.inode,
            (None, _) => return Err(Errno::Noent),
        };
        if spot.slash && !self.is_dir(id) { Err(Errno::Notdir) } else { Ok(id) }
    }

    /// The path of an entry to create.
    fn vacant(&self, place: &Place) -> Result<Spot, Errno> {
        let spot = self.walk(place, Last::Kept, false)?;
        if spot.dots.is_some() || self.id(&spot.path).is_some() {
            return Err(Errno::Exist);
        }
        Ok(spot)
    }

    fn slot(&self, slot: usize) -> Result<Slot, Errno> {
        self.slots[slot].ok_or(Errno::Badf)
    }

    fn content(&mut self, slot: usize, to_write: bool) -> Result<(u64, &mut Vec<u8>), Errno> {
        let Slot { inode, write } = self.slot(slot)?;
        if to_write && !write {
            return Err(Errno::Badf);
        }
        match &mut self.inode(inode).holds {
            Holds::File(bytes) => Ok((inode, bytes)),
            _ => Err(Errno::Isdir),
        }
    }

    fn open(&mut self, place: &Place, flags: OpenFlags, now: u64) -> Result<u64, Errno> {
        if flags.create && flags.directory {
            return Err(Errno::Inval);
        }
        let exclusive = flags.create && flags.exclusive;
        let followed = flags.follow && !exclusive;
        let last = if followed { Last::Followed } else { Last::FollowedBeforeSlash };
        let spot = self.walk(place, last, flags.create)?;
        let removed = place.slot.filter(|_| spot.dots.is_some());
        let removed = removed.map(|slot| self.slot(slot).map(|slot| slot.inode)).transpose()?;
        let Some(id) = self.id(&spot.path).or(removed) else {
            let made = flags.create.then(|| self.make(spot.path, Holds::File(Vec::new()), now));
            return made.unwrap_or(Err(Errno::Noent));
        };
        if exclusive {
            return Err(Errno::Exist);
        }
        match self.holds(id) {
            Holds::Link(_) if flags.directory => return Err(Errno::Notdir),
            Holds::Link(_) => return Err(Errno::Loop),
            Holds::Dir if flags.write || flags.truncate || flags.create => {
                return Err(Errno::Isdir);
            }
            Holds::Dir => {}
            _ if flags.directory || spot.slash => return Err(Errno::Notdir),
            Holds::Special => return Err(Errno::Acces),
            Holds::File(_) if flags.truncate => {
                self.inode(id).holds = Holds::File(Vec::new());
                self.touch(id, now);
            }
            Holds::File(_) => {}
        }
        Ok(id)
    }

    fn write(&mut self, slot: usize, at: Option<u64>, new: &[u8], now: u64) -> Result<(), Errno> {
        let (id, bytes) = self.content(slot, true)?;
        let start = at.unwrap_or(bytes.len() as u64);
        if new.is_empty() {
            return Ok(());
        }
        let end = start + new.len() as u64;
        if end > FILE_BYTES_MAX {
            return Err(Errno::Fbig);
        }
        let (start, end) = (start as usize, end as usize);
        bytes.resize(end.max(bytes.len()), 0);
        bytes[start..end].copy_from_slice(new);
        self.touch(id, now);
        Ok(())
    }

    fn set_len(&mut self, slot: usize, len: u64, now: u64) -> Result<(), Errno> {
        let (id, bytes) = self.content(slot, true)?;
        if len > FILE_BYTES_MAX {
            return Err(Errno::Fbig);
        }
        bytes.resize(len as usize, 0);
        self.touch(id, now);
        Ok(())
    }

    fn set_times(&mut self, id: u64, atim: SetTime, mtim: SetTime, now: u64) {
        if (atim, mtim) == (SetTime::Keep, SetTime::Keep) {
            return;
        }
        let times = &mut self.inode(id).times;
        for (field, to) in [(&mut times.atim, atim), (&mut times.mtim, mtim)] {
            match to {
                SetTime::Keep => {}
                SetTime::Now => *field = now,
                SetTime::At(time) => *field = time,
            }
        }
        times.ctim = now;
    }

    fn rmdir(&mut self, at: &Place, now: u64) -> Result<(), Errno> {
        let spot = self.walk(at, Last::Kept, false)?;
        match spot.dots {
            Some("..") => return Err(Errno::Notempty),
            Some(_) => return Err(Errno::Inval),
            None => {}
        }
        let id = self.id(&spot.path).ok_or(Errno::Noent)?;
        if !self.is_dir(id) {
            return Err(Errno::Notdir);
        }
        if !self.entries(id).is_empty() {
            return Err(Errno::Notempty);
        }
        self.drop_name(&spot.path, now);
        Ok(())
    }

    fn unlink(&mut self, at: &Place, now: u64) -> Result<(), Errno> {
        let spot = self.walk(at, Last::Kept, false)?;
        if spot.dots.is_some() {
            return Err(Errno::Isdir);
        }
        let id = self.id(&spot.path).ok_or(Errno::Noent)?;
        if self.is_dir(id) {
            return Err(Errno::Isdir);
        }
        if spot.slash {
            return Err(Errno::Notdir);
        }
        self.drop_name(&spot.path, now);
        Ok(())
    }

    fn link(&mut self, from: (&Place, Last), to: &Place, now: u64) -> Result<(), Errno> {
        let id = self.find(from.0, from.1)?;
        let spot = self.vacant(to)?;
        if spot.slash {
            return Err(Errno::Noent);
        }
        self.expect_parent(&spot.path)?;
        if self.is_dir(id) {
            return Err(Errno::Perm);
        }
        self.touch_parent(&spot.path, now);
        self.names.insert(spot.path, id);
        let inode = self.inode(id);
        inode.links += 1;
        inode.times.ctim = now;
        Ok(())
    }

    fn answer(&mut self, op: &Op, now: u64) -> Outcome {
        match op {
            Op::Open { slot, at, flags } => {
                let inode = self.open(at, *flags, now)?;
                self.slots[*slot] = Some(Slot { inode, write: flags.write });
            }
            Op::Close { slot } => {
                self.slot(*slot)?;
                self.slots[*slot] = None;
            }
            Op::Write { slot, offset, len, first } => {
                self.write(*slot, Some(*offset), &pattern(*first, *len), now)?;
            }
            Op::Append { slot, len, first } => {
                self.write(*slot, None, &pattern(*first, *len), now)?;
            }
            Op::Read { slot, offset, len } => {
                let (_, bytes) = self.content(*slot, false)?;
                let bytes = bytes.iter().skip(*offset as usize).take(*len).copied();
                return Ok(Answer::Bytes(bytes.collect()));
            }
            Op::SetLen { slot, len } => self.set_len(*slot, *len, now)?,
            Op::Allocate { slot, offset, len } => {
                let (_, bytes) = self.content(*slot, true)?;
                let current = bytes.len() as u64;
                if *len == 0 {
                    return Err(Errno::Inval);
                }
                self.set_len(*slot, current.max(offset + len), now)?;
            }
            Op::List { slot } => {
                let id = self.slot(*slot)?.inode;
                if !self.is_dir(id) {
                    return Err(Errno::Notdir);
                }
                return Ok(Answer::Entries(self.entries(id)));
            }
            Op::StatOpen { slot } => return Ok(Answer::Meta(self.meta(self.slot(*slot)?.inode))),
            Op::SetTimesOpen { slot, atim, mtim } => {
                self.set_times(self.slot(*slot)?.inode, *atim, *mtim, now);
            }
            Op::Stat { at, follow } => {
                return Ok(Answer::Meta(self.meta(self.find(at, (*follow).into())?)));
            }
            Op::SetTimes { at, follow, atim, mtim } => {
                self.set_times(self.find(at, (*follow).into())?, *atim, *mtim, now);
            }
            Op::SetExecutable { at, follow, executable } => {
                let inode = self.find(at, (*follow).into()).map(|id| self.inode(id))?;
                match inode.holds {
                    Holds::File(_) => (inode.executable, inode.times.ctim) = (*executable, now),
                    Holds::Dir => {}
                    Holds::Link(_) | Holds::Special => return Err(Errno::Notsup),
                }
            }
            Op::IsExecutable { at, follow } => {
                let inode = &self.inodes[&self.find(at, (*follow).into())?];
                let is_always = matches!(inode.holds, Holds::Dir | Holds::Link(_));
                return Ok(Answer::Executable(is_always || inode.executable));
            }
            Op::Mkdir { at } => {
                let spot = self.vacant(at)?;
                self.make(spot.path, Holds::Dir, now)?;
            }
            Op::Rmdir { at } => self.rmdir(at, now)?,
            Op::Unlink { at } => self.unlink(at, now)?,
            Op::Rename { from, to } => self.rename(from, to, now)?,
            Op::Link { from, follow, to } => self.link((from, (*follow).into()), to, now)?,
            Op::Symlink { text, at } => {
                if text.is_empty() {
                    return Err(Errno::Noent);
                }
                let spot = self.vacant(at)?;
                if spot.slash {
                    return Err(Errno::Noent);
                }
                self.make(spot.path, Holds::Link(text.clone()), now)?;
            }
            Op::ReadLink { at } => {
                let id = self.find(at, Last::FollowedBeforeSlash)?;
                match self.holds(id) {
                    Holds::Link(text) => return Ok(Answer::Text(text.clone())),
                    _ => return Err(Errno::Inval),
                }
            }
            Op::Fork => {}
        }
        Ok(Answer::Done)
    }

    fn held(&self, id: u64) -> Answer {
        match self.holds(id) {
            Holds::Dir => Answer::Entries(self.entries(id)),
            Holds::File(bytes) => Answer::Bytes(bytes.clone()),
            Holds::Link(text) => Answer::Text(text.clone()),
            Holds::Special => Answer::Done,
        }
    }
}

impl Files for Model {
    fn apply(&mut self, op: &Op, now: u64) -> Outcome {
        // Descriptors are looked up before paths.
        for slot in op.bases() {
            self.slot(slot)?;
        }
        self.answer(op, now)
    }

    fn dump(&mut self) -> Tree {
        let named = self.names.iter().map(|(path, id)| {
            (path.iter().fold(String::new(), |parent, name| join(&parent, name)), *id)
        });
        let open = self.slots.iter().enumerate();
        let open = open.filter_map(|(at, slot)| Some((format!("#{at}"), slot.as_ref()?.inode)));
        let executable = named.clone().filter(|(_, id)| self.inodes[id].executable);
        let executable = executable.map(|(path, id)| {
            (format!("{path}{EXECUTABLE}"), (self.meta(id), Answer::Executable(true)))
        });
        let held = |(path, id)| (path, (self.meta(id), self.held(id)));
        named.clone().chain(open).map(held).chain(executable).collect()
    }
}
