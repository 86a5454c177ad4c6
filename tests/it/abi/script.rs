//! A script for the guest of these tests: calls, the expected answer to each, and the contents of
//! memory.

use std::ops::Range;
use std::panic::Location;

use belljar::Errno;

use super::flags::FOLLOW;
use super::functions::FUNCTIONS;
use super::interpreter::{
    HEADER_BYTES, MASK, MEMORY_BYTES, NO_DUMP, TRAP_ON_BAD_ANSWER, WROTE, op, word,
};
use super::world::DIR;

/// Masked bytes between any two objects in memory.
const GUARD_BYTES: u32 = 16;

/// The address of the first object: lower addresses are used by tests of pointer 0.
const FIRST: u32 = 128;

/// The module name by which functions are imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Snapshot {
    #[default]
    Preview1,
    Unstable,
}

/// The wasm type of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An i32.
    Word,
    /// An i64.
    Long,
    /// A pointer and a length or count, both i32.
    Pair,
}

/// An argument, as the interpreter takes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arg {
    Const(u64),
    /// The u32 at this address when the call is made, such as a descriptor that another call
    /// returned.
    Load(u32),
}

/// A value for a parameter.
pub trait Operand {
    const KIND: Kind;
    fn words(self, script: &mut Script) -> Vec<Arg>;
}

/// An argument for an i32.
#[derive(Clone, Copy, Debug)]
pub struct Word(pub Arg);

/// An argument for an i64.
#[derive(Clone, Copy, Debug)]
pub struct Long(pub Arg);

/// Arguments for a pointer and a length.
#[derive(Clone, Debug)]
pub enum Pair {
    /// Two words as given.
    Raw(Word, Word),
    /// A copy of these bytes.
    Bytes(Vec<u8>),
    /// A list of buffers.
    Buffers(Vec<Buffer>),
}

/// One buffer of a list.
#[derive(Clone, Debug)]
pub enum Buffer {
    Raw(u32, u32),
    Bytes(Vec<u8>),
}

impl Operand for Word {
    const KIND: Kind = Kind::Word;
    fn words(self, _: &mut Script) -> Vec<Arg> {
        vec![self.0]
    }
}

impl Operand for Long {
    const KIND: Kind = Kind::Long;
    fn words(self, _: &mut Script) -> Vec<Arg> {
        vec![self.0]
    }
}

impl Operand for Pair {
    const KIND: Kind = Kind::Pair;
    fn words(self, script: &mut Script) -> Vec<Arg> {
        let (ptr, len) = match self {
            Self::Raw(ptr, len) => return vec![ptr.0, len.0],
            Self::Bytes(bytes) => {
                let placed = script.bytes(&bytes);
                (placed.addr, placed.len)
            }
            Self::Buffers(buffers) => script.buffers(&buffers),
        };
        vec![Arg::Const(ptr.into()), Arg::Const(len.into())]
    }
}

impl From<i32> for Word {
    fn from(value: i32) -> Self {
        Self(Arg::Const(u64::from(value.cast_unsigned())))
    }
}

impl From<u32> for Word {
    fn from(value: u32) -> Self {
        Self(Arg::Const(value.into()))
    }
}

impl From<Slot> for Word {
    fn from(slot: Slot) -> Self {
        slot.addr.into()
    }
}

impl From<i32> for Long {
    fn from(value: i32) -> Self {
        i64::from(value).into()
    }
}

impl From<i64> for Long {
    fn from(value: i64) -> Self {
        value.cast_unsigned().into()
    }
}

impl From<u64> for Long {
    fn from(value: u64) -> Self {
        Self(Arg::Const(value))
    }
}

impl From<&str> for Pair {
    fn from(text: &str) -> Self {
        Self::Bytes(text.into())
    }
}

impl From<&String> for Pair {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<&[u8]> for Pair {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl From<Slot> for Pair {
    fn from(slot: Slot) -> Self {
        (slot.addr, slot.len).into()
    }
}

impl<P: Into<Word>, L: Into<Word>> From<(P, L)> for Pair {
    fn from((ptr, len): (P, L)) -> Self {
        Self::Raw(ptr.into(), len.into())
    }
}

/// A list of buffers that hold these bytes, to write.
pub fn gather<const N: usize>(pieces: [&str; N]) -> Pair {
    Pair::Buffers(pieces.iter().map(|piece| Buffer::Bytes(piece.as_bytes().into())).collect())
}

/// A list of buffers to fill.
pub fn scatter<const N: usize>(slots: [Slot; N]) -> Pair {
    Pair::Buffers(slots.iter().map(|slot| Buffer::Raw(slot.addr, slot.len)).collect())
}

/// A list of buffers at any addresses.
pub fn anywhere<const N: usize>(buffers: [(u32, u32); N]) -> Pair {
    Pair::Buffers(buffers.iter().map(|(ptr, len)| Buffer::Raw(*ptr, *len)).collect())
}

/// A piece of the guest's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    pub addr: u32,
    pub len: u32,
}

impl Slot {
    /// The u32 in it when a call is made.
    pub fn load(self) -> Word {
        Word(Arg::Load(self.addr))
    }

    /// `len` bytes of it, from `at` on.
    pub fn part(self, at: u32, len: u32) -> Self {
        assert!(at + len <= self.len);
        Self { addr: self.addr + at, len }
    }
}

/// The expected answer to a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expected {
    Success,
    Errno(Errno),
    /// After part of the work was done.
    Midway(Errno),
    Anything,
}

struct Made {
    text: String,
    expected: Expected,
    asked_at: &'static Location<'static>,
}

/// A call that a script makes. Its expected answer must be stated.
#[must_use]
pub struct Call<'s> {
    script: &'s mut Script,
    index: usize,
}

impl Call<'_> {
    #[track_caller]
    fn expect(self, expected: Expected) -> usize {
        let made = &mut self.script.calls[self.index];
        made.expected = expected;
        made.asked_at = Location::caller();
        self.index
    }

    /// The call succeeds.
    #[track_caller]
    pub fn ok(self) {
        self.expect(Expected::Success);
    }

    /// The call fails with `errno`.
    #[track_caller]
    pub fn fails(self, errno: Errno) {
        self.expect(Expected::Errno(errno));
    }

    /// The call fails with `errno` midway, and may have written to memory.
    #[track_caller]
    pub fn fails_midway(self, errno: Errno) {
        self.expect(Expected::Midway(errno));
    }

    /// The call fails with `errno`, or succeeds for `None`.
    #[track_caller]
    pub fn answers(self, errno: Option<Errno>) {
        self.expect(errno.map_or(Expected::Success, Expected::Errno));
    }

    /// The test checks the answer itself, by this index.
    #[track_caller]
    pub fn any(self) -> usize {
        self.expect(Expected::Anything)
    }
}

/// The script of one guest.
pub struct Script {
    pub snapshot: Snapshot,
    operations: Vec<u8>,
    /// The contents of memory at the end if no call writes to it.
    image: Vec<u8>,
    next: u32,
    slots: Vec<Range<usize>>,
    calls: Vec<Made>,
    dump_fd: u32,
    flags: u32,
}

impl Script {
    pub fn new() -> Self {
        Self::of(Snapshot::Preview1)
    }

    pub fn of(snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            operations: Vec::new(),
            image: vec![MASK; MEMORY_BYTES as usize],
            next: FIRST,
            slots: Vec::new(),
            calls: Vec::new(),
            dump_fd: 2,
            flags: 0,
        }
    }

    /// Writes the dump to `fd`, for tests without standard error.
    pub fn dump_to(&mut self, fd: u32) {
        self.dump_fd = fd;
    }

    /// Traps at an answer that no function may return, and writes no dump at the end: for scripts
    /// that may lose every descriptor.
    pub fn trap_on_bad_answers(&mut self) {
        self.flags |= TRAP_ON_BAD_ANSWER | NO_DUMP;
    }

    /// Writes a dump now, for scripts that do not reach their end.
    pub fn dump(&mut self) {
        self.operations.push(op::DUMP);
    }

    /// Grows memory by `pages` of 64 KiB.
    pub fn grow(&mut self, pages: u32) {
        self.operations.push(op::GROW);
        self.operations.extend(pages.to_le_bytes());
        self.image.resize(self.image.len() + ((pages as usize) << 16), MASK);
    }

    fn place(&mut self, len: u32, align: u32) -> Slot {
        let addr = self.next.next_multiple_of(align);
        self.next = addr + len + GUARD_BYTES;
        assert!(self.next < MEMORY_BYTES, "this is too much for the memory of one script");
        Slot { addr, len }
    }

    /// Masked memory that calls may write to.
    pub fn room(&mut self, len: u32) -> Slot {
        let slot = self.place(len, 8);
        self.room_at(slot.addr, len)
    }

    /// Memory at a certain address that calls may write to.
    pub fn room_at(&mut self, addr: u32, len: u32) -> Slot {
        self.slots.push(addr as usize..addr as usize + len as usize);
        Slot { addr, len }
    }

    /// Room for a u32.
    pub fn u32(&mut self) -> Slot {
        self.room(4)
    }

    /// Room for a u64.
    pub fn u64(&mut self) -> Slot {
        self.room(8)
    }

    /// `bytes` in memory, which no call may change.
    pub fn bytes(&mut self, bytes: &[u8]) -> Slot {
        let len = u32::try_from(bytes.len()).unwrap();
        let slot = self.place(len, 8);
        self.bytes_at(slot.addr, bytes)
    }

    /// `bytes` at a certain address.
    pub fn bytes_at(&mut self, addr: u32, bytes: &[u8]) -> Slot {
        let len = u32::try_from(bytes.len()).unwrap();
        self.operations.push(op::DATA);
        self.operations.extend(addr.to_le_bytes());
        self.operations.extend(len.to_le_bytes());
        self.operations.extend(bytes);
        self.image[addr as usize..][..bytes.len()].copy_from_slice(bytes);
        Slot { addr, len }
    }

    /// A list of buffers in memory: its address and their number.
    fn buffers(&mut self, buffers: &[Buffer]) -> (u32, u32) {
        let mut list = Vec::new();
        for buffer in buffers {
            let (ptr, len) = match buffer {
                Buffer::Raw(ptr, len) => (*ptr, *len),
                Buffer::Bytes(bytes) => {
                    let placed = self.bytes(bytes);
                    (placed.addr, placed.len)
                }
            };
            list.extend(ptr.to_le_bytes());
            list.extend(len.to_le_bytes());
        }
        (self.bytes(&list).addr, u32::try_from(buffers.len()).unwrap())
    }

    /// Makes a call by its name. Tests use the method of that name.
    #[track_caller]
    pub fn call(&mut self, name: &str, args: &[Arg]) -> Call<'_> {
        let function = FUNCTIONS.iter().position(|(known, _)| *known == name).unwrap();
        self.operations.push(op::CALL);
        self.operations.push(u8::try_from(function).unwrap());
        self.operations.push(u8::try_from(args.len()).unwrap());
        for arg in args {
            let (kind, value) = match *arg {
                Arg::Const(value) => (word::CONST, value),
                Arg::Load(addr) => (word::LOAD32, addr.into()),
            };
            self.operations.extend(kind.to_le_bytes());
            self.operations.extend(value.to_le_bytes());
        }
        self.calls.push(Made {
            text: format!("{name}{args:?}"),
            expected: Expected::Anything,
            asked_at: Location::caller(),
        });
        let index = self.calls.len() - 1;
        Call { script: self, index }
    }

    /// What the interpreter reads from standard input.
    pub fn encode(&self) -> Vec<u8> {
        let len = self.operations.len() + 1;
        assert!(HEADER_BYTES + len <= 2 << 20, "the script is too long");
        let mut bytes = Vec::with_capacity(HEADER_BYTES + len);
        bytes.extend(u32::try_from(len).unwrap().to_le_bytes());
        bytes.extend(self.dump_fd.to_le_bytes());
        bytes.extend(self.flags.to_le_bytes());
        bytes.extend(&self.operations);
        bytes.push(op::END);
        bytes
    }

    /// The faults in the answers and the memory of a run, one line each.
    pub fn faults(&self, answers: &[u32], memory: &[u8]) -> Vec<String> {
        let mut faults = Vec::new();
        for (made, answer) in self.calls.iter().zip(answers) {
            let expected = match made.expected {
                Expected::Success => 0,
                Expected::Errno(errno) => errno.code().into(),
                Expected::Midway(errno) => u32::from(errno.code()) | (answer & WROTE),
                Expected::Anything => answer & !WROTE,
            };
            if *answer != expected {
                let stray = if answer & WROTE == 0 { "" } else { " and wrote to memory" };
                let (answer, Made { text, asked_at, .. }) = (answer & !WROTE, made);
                faults.push(format!("{asked_at}: {text} = {answer}{stray}, expected {expected}"));
            }
        }
        let stray = |at: &usize| {
            memory[*at] != self.image[*at] && !self.slots.iter().any(|slot| slot.contains(at))
        };
        if let Some(at) = (0..memory.len().min(self.image.len())).find(stray) {
            faults.push(format!("address {at} holds {:#x}, which no call may write", memory[at]));
        }
        if answers.len() < self.calls.len() {
            faults.push(format!("{} of {} calls were made", answers.len(), self.calls.len()));
        }
        faults
    }
}

/// Calls that almost every script makes.
impl Script {
    /// Opens `path` from the first preopened directory, following links; returns the descriptor.
    #[track_caller]
    pub fn open(&mut self, path: &str, oflags: u32, rights: u64) -> Word {
        let fd = self.u32();
        self.path_open(DIR, FOLLOW, path, oflags, rights, 0, 0, fd).ok();
        fd.load()
    }

    /// Writes all of `text` to `fd`.
    #[track_caller]
    pub fn write(&mut self, fd: impl Into<Word>, text: &str) {
        let count = self.u32();
        self.fd_write(fd, gather([text]), count).ok();
    }
}
