//! Descriptors and open file descriptions, as in POSIX: a description has the offset and the flags, and
//! several descriptors, also of several processes, may refer to it.

use super::pipe::PipeId;
use crate::base::errno::Errno;
use crate::kernel::vfs::{Base, Listing, NodeId};

/// An open file description.
#[derive(Debug)]
pub enum Description {
    /// The machine's standard input.
    Stdin,
    /// The machine's standard output.
    Stdout,
    /// The machine's standard error.
    Stderr,
    /// A regular file.
    File(OpenFile),
    /// A directory.
    Dir(OpenDir),
    /// A device of `/dev`. Writes to it are discarded.
    Device(Device),
    /// The read end of a pipe.
    PipeReader(OpenPipe),
    /// The write end of a pipe.
    PipeWriter(OpenPipe),
}

/// A device, by what reads from it return.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Device {
    /// `/dev/null`: nothing.
    Null,
    /// `/dev/zero`: zeros without end.
    Zero,
    /// `/dev/random`, `/dev/urandom`: the machine's random bytes.
    Random,
}

/// An end of a pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenPipe {
    /// The pipe.
    pub pipe: PipeId,
    /// Whether calls return `EAGAIN` instead of waiting.
    pub nonblock: bool,
}

/// The number of an open file description of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DescriptionId(u32);

/// The open file descriptions of a machine.
#[derive(Debug, Default)]
pub struct Descriptions {
    slots: Vec<Option<Shared>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Shared {
    description: Description,
    descriptors: u32,
}

impl Descriptions {
    /// Adds `description`, with one descriptor.
    pub fn insert(&mut self, description: Description) -> DescriptionId {
        let shared = Some(Shared { description, descriptors: 1 });
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = shared;
            return DescriptionId(index);
        }
        self.slots.push(shared);
        // The limits on processes and descriptors keep it within a u32.
        DescriptionId((self.slots.len() - 1) as u32)
    }

    fn shared(&self, id: DescriptionId) -> &Shared {
        self.slots[id.0 as usize].as_ref().expect("a descriptor keeps its description")
    }

    fn shared_mut(&mut self, id: DescriptionId) -> &mut Shared {
        self.slots[id.0 as usize].as_mut().expect("a descriptor keeps its description")
    }

    /// The description `id`.
    pub fn get(&self, id: DescriptionId) -> &Description {
        &self.shared(id).description
    }

    /// The description `id`, mutable.
    pub fn get_mut(&mut self, id: DescriptionId) -> &mut Description {
        &mut self.shared_mut(id).description
    }

    /// Counts one more descriptor of `id`.
    pub fn retain(&mut self, id: DescriptionId) {
        self.shared_mut(id).descriptors += 1;
    }

    /// Counts one descriptor of `id` less; returns the description if it was the last.
    pub fn release(&mut self, id: DescriptionId) -> Option<Description> {
        let shared = self.shared_mut(id);
        shared.descriptors -= 1;
        if shared.descriptors > 0 {
            return None;
        }
        self.free.push(id.0);
        self.slots[id.0 as usize].take().map(|shared| shared.description)
    }
}

/// A descriptor of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// The description that it refers to.
    pub description: DescriptionId,
    /// Whether children do not inherit it (POSIX `FD_CLOEXEC`).
    pub close_on_exec: bool,
}

/// An open regular file.
#[derive(Clone, Debug)]
pub struct OpenFile {
    /// The file.
    pub node: NodeId,
    /// The offset of the next read or write.
    pub offset: u64,
    /// The flags of preview1: append, dsync, nonblock, rsync, sync.
    pub flags: FdFlags,
    /// Opened for reading.
    pub read: bool,
    /// Opened for writing.
    pub write: bool,
    /// For the tape.
    pub taped: Option<Box<TapedFile>>,
}

impl OpenFile {
    /// Notes that the file was changed through this description.
    #[inline]
    pub fn note_write(&mut self) {
        if let Some(taped) = &mut self.taped {
            taped.written = true;
        }
    }
}

/// The data that a tape needs when the file is closed.
#[derive(Clone, Debug)]
pub struct TapedFile {
    /// The absolute path by which it was opened.
    pub path: Box<str>,
    /// Whether it was changed.
    pub written: bool,
}

/// Where lookups from a preopened directory may lead. Directories opened through it have
/// [`Reach::Confined`] if it has, or else [`Reach::Namespace`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Beneath the directory only; the same holds for directories opened through it.
    Confined,
    /// Through the whole namespace.
    Namespace,
    /// Through the whole namespace. A path starts at the root if it leads through a name there which the
    /// directory does not have.
    ///
    /// For the current directory: C libraries strip the slash of an absolute path and look it up from
    /// the same descriptor as a relative one, so that `/tmp/x` and `tmp/x` are the same call.
    CurrentDir,
    /// [`Reach::CurrentDir`] in version 0 of the kernel, for replays: whatever is not found from the
    /// directory is looked up, and created, from the root.
    NamespaceOrRoot,
}

/// An open directory.
#[derive(Clone, Debug)]
pub struct OpenDir {
    /// The directory, and the root that lookups from it do not leave.
    pub base: Base,
    /// Where lookups from it may lead.
    pub reach: Reach,
    /// Its name in the list of preopened directories.
    pub preopen: Option<Box<str>>,
    /// Its absolute path, if its machine has a tape.
    pub taped_path: Option<Box<str>>,
    /// Flags without effect, which programs can ask for.
    pub flags: FdFlags,
    /// The listing that cookies refer to, taken at cookie 0.
    pub listing: Option<Listing>,
}

/// `fdflags` of preview1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FdFlags(u16);

impl FdFlags {
    /// Writes go to the end.
    pub const APPEND: Self = Self(1);
    /// Contents are written at once.
    pub const DSYNC: Self = Self(2);
    /// Calls do not wait. Files never do.
    pub const NONBLOCK: Self = Self(4);
    /// Reads wait for what is being written.
    pub const RSYNC: Self = Self(8);
    /// Contents and attributes are written at once.
    pub const SYNC: Self = Self(16);
    const ALL: u16 = 0b1_1111;
    const SYNC_KINDS: u16 = Self::DSYNC.0 | Self::RSYNC.0 | Self::SYNC.0;

    /// The flags of `bits`; `None` if a bit has no meaning.
    pub fn from_bits(bits: u32) -> Option<Self> {
        u16::try_from(bits).ok().filter(|bits| bits & !Self::ALL == 0).map(Self)
    }

    /// The encoding of preview1.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// Returns whether all flags of `other` are set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags, and those of `other`.
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether `APPEND` is set.
    pub fn is_append(self) -> bool {
        self.0 & Self::APPEND.0 != 0
    }

    /// Returns whether `NONBLOCK` is set.
    pub fn is_nonblock(self) -> bool {
        self.0 & Self::NONBLOCK.0 != 0
    }

    /// Returns whether a flag for synchronous writes is set.
    pub fn has_sync(self) -> bool {
        self.0 & Self::SYNC_KINDS != 0
    }
}

/// The descriptors of a process, by number. A new one gets the lowest free number.
#[derive(Debug, Default)]
pub struct FdTable {
    slots: Vec<Slot>,
    open: u32,
    lowest_free: usize,
}

#[derive(Debug)]
enum Slot {
    Open(Descriptor),
    /// Closed by its owner; may be the target of `fd_renumber`.
    Closed,
    /// Closed by `fd_renumber`.
    Moved,
}

impl Slot {
    fn descriptor(&self) -> Option<Descriptor> {
        match self {
            Self::Open(descriptor) => Some(*descriptor),
            Self::Closed | Self::Moved => None,
        }
    }

    fn take(&mut self, left: Self) -> Option<Descriptor> {
        match std::mem::replace(self, left) {
            Self::Open(descriptor) => Some(descriptor),
            empty => {
                *self = empty;
                None
            }
        }
    }
}

impl FdTable {
    /// The descriptor `fd`.
    ///
    /// # Errors
    /// `EBADF` if it is not open.
    pub fn get(&self, fd: u32) -> Result<Descriptor, Errno> {
        self.slots.get(fd as usize).and_then(Slot::descriptor).ok_or(Errno::Badf)
    }

    /// The descriptor `fd`, mutable.
    ///
    /// # Errors
    /// `EBADF` if it is not open.
    pub fn get_mut(&mut self, fd: u32) -> Result<&mut Descriptor, Errno> {
        match self.slots.get_mut(fd as usize) {
            Some(Slot::Open(descriptor)) => Ok(descriptor),
            _ => Err(Errno::Badf),
        }
    }

    /// The open descriptors, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Descriptor)> + '_ {
        let open = |(fd, slot): (usize, &Slot)| Some((fd as u32, slot.descriptor()?));
        self.slots.iter().enumerate().filter_map(open)
    }

    /// The lowest free number that is not below `lowest`.
    pub fn lowest_free_from(&self, lowest: u32) -> u32 {
        (lowest..u32::MAX).find(|fd| self.get(*fd).is_err()).unwrap_or(u32::MAX)
    }

    /// Sets `fd` to `descriptor`; returns what it replaces.
    pub fn put(&mut self, fd: u32, descriptor: Descriptor) -> Option<Descriptor> {
        let index = fd as usize;
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, || Slot::Closed);
        }
        let replaced = self.slots[index].take(Slot::Closed);
        self.slots[index] = Slot::Open(descriptor);
        self.open += u32::from(replaced.is_none());
        replaced
    }

    /// The number of open descriptors.
    pub fn count(&self) -> u32 {
        self.open
    }

    /// Inserts `descriptor` at the lowest free number.
    pub fn push(&mut self, descriptor: Descriptor) -> u32 {
        self.open += 1;
        let rest = self.slots.iter().skip(self.lowest_free);
        let index = self.lowest_free + rest.take_while(|slot| slot.descriptor().is_some()).count();
        if index == self.slots.len() {
            self.slots.push(Slot::Open(descriptor));
        } else {
            self.slots[index] = Slot::Open(descriptor);
        }
        self.lowest_free = index + 1;
        // The limit on open descriptors is a u32.
        index as u32
    }

    /// Closes `fd`; returns what it referred to.
    ///
    /// # Errors
    /// `EBADF` if it is not open.
    pub fn remove(&mut self, fd: u32) -> Result<Descriptor, Errno> {
        self.take(fd, Slot::Closed)
    }

    fn take(&mut self, fd: u32, left: Slot) -> Result<Descriptor, Errno> {
        let slot = self.slots.get_mut(fd as usize).ok_or(Errno::Badf)?;
        let descriptor = slot.take(left).ok_or(Errno::Badf)?;
        self.open -= 1;
        self.lowest_free = self.lowest_free.min(fd as usize);
        Ok(descriptor)
    }

    /// Moves `from` to `to`; returns what it replaces.
    ///
    /// `to` may have been open and closed, as for `dup2`: programs close a standard stream and renumber
    /// a saved copy onto it. It may not be a number that never was open, or that `fd_renumber` closed:
    /// the official test suite requires that.
    ///
    /// # Errors
    /// `EBADF` if `from` is not open, or `to` must not be renumbered onto.
    pub fn renumber(&mut self, from: u32, to: u32) -> Result<Option<Descriptor>, Errno> {
        self.get(from)?;
        match self.slots.get(to as usize) {
            None | Some(Slot::Moved) => return Err(Errno::Badf),
            Some(_) if from == to => return Ok(None),
            Some(Slot::Open(_) | Slot::Closed) => {}
        }
        let moved = self.take(from, Slot::Moved)?;
        let slot = &mut self.slots[to as usize];
        let replaced = slot.take(Slot::Closed);
        *slot = Slot::Open(moved);
        // `take` subtracted `from`.
        self.open += u32::from(replaced.is_none());
        Ok(replaced)
    }

    /// Removes all descriptors.
    pub fn drain(&mut self) -> impl Iterator<Item = Descriptor> + '_ {
        self.open = 0;
        self.lowest_free = 0;
        self.slots.drain(..).filter_map(|mut slot| slot.take(Slot::Closed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STDOUT: Descriptor = descriptor(1);

    const fn descriptor(id: u32) -> Descriptor {
        Descriptor { description: DescriptionId(id), close_on_exec: false }
    }

    fn table() -> FdTable {
        let mut fds = FdTable::default();
        for id in 0..3 {
            fds.push(descriptor(id));
        }
        fds
    }

    #[test]
    fn last_descriptor_releases_description() {
        let mut all = Descriptions::default();
        let id = all.insert(Description::Stdin);
        all.retain(id);
        assert!(all.release(id).is_none());
        assert!(matches!(all.release(id), Some(Description::Stdin)));
        assert_eq!(all.insert(Description::Stdout), id, "its place is free");
    }

    #[test]
    fn put_uses_the_given_number() {
        let mut fds = table();
        assert!(fds.put(6, STDOUT).is_none());
        assert_eq!(fds.put(6, descriptor(2)), Some(STDOUT));
        assert_eq!(fds.count(), 4);
        assert_eq!((fds.lowest_free_from(6), fds.lowest_free_from(4)), (7, 4));
        assert_eq!(fds.push(STDOUT), 3);
        assert_eq!(fds.iter().map(|(fd, _)| fd).collect::<Vec<_>>(), [0, 1, 2, 3, 6]);
    }

    #[test]
    fn push_uses_lowest_free_number() {
        let mut fds = table();
        fds.remove(1).unwrap();
        fds.remove(0).unwrap();
        assert_eq!(fds.push(descriptor(0)), 0);
        assert_eq!(fds.push(STDOUT), 1);
        assert_eq!(fds.push(STDOUT), 3);
        assert_eq!(fds.count(), 4);
    }

    /// A synthesis tool closes descriptor 1 and renumbers a saved copy onto it; `EBADF` there would silence it.
    #[test]
    fn renumber_onto_a_closed_number_restores_output() {
        let mut fds = table();
        let saved = fds.push(STDOUT);
        fds.remove(1).unwrap();
        assert!(fds.renumber(saved, 1).unwrap().is_none());
        assert_eq!(fds.get(1), Ok(STDOUT));
        assert_eq!(fds.get(saved).unwrap_err(), Errno::Badf);
        assert_eq!(fds.count(), 3);
    }

    #[test]
    fn renumber_onto_a_number_never_open_is_refused() {
        let mut fds = table();
        assert_eq!(fds.renumber(0, 77).unwrap_err(), Errno::Badf);
        assert_eq!(fds.renumber(9, 0).unwrap_err(), Errno::Badf);
        assert!(fds.renumber(1, 1).unwrap().is_none());
        assert_eq!(fds.count(), 3);
    }

    #[test]
    fn renumber_onto_a_number_that_was_renumbered_away_is_refused() {
        let mut fds = table();
        let (a, b) = (fds.push(descriptor(0)), fds.push(descriptor(0)));
        assert!(fds.renumber(a, b).unwrap().is_some());
        assert_eq!(fds.renumber(b, a).unwrap_err(), Errno::Badf);
        assert_eq!(fds.push(descriptor(0)), a, "it is free for new descriptors");
    }
}
