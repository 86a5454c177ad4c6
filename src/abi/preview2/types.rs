//! The types of `wasi:filesystem` and `wasi:clocks`.

use std::fmt;

use wasmtime::component::{ComponentType, Lift, Lower, flags};

use crate::base::errno::Errno;
use crate::kernel::guest::FileStat;
use crate::kernel::vfs::{FileType, SetTime};

/// Nanoseconds of a second.
pub(in crate::abi) const SECOND_NS: u64 = 1_000_000_000;

/// `wasi:filesystem/types.error-code`
#[derive(Clone, Copy, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
pub(in crate::abi) enum ErrorCode {
    #[component(name = "access")]
    Access,
    #[component(name = "would-block")]
    WouldBlock,
    #[component(name = "already")]
    Already,
    #[component(name = "bad-descriptor")]
    BadDescriptor,
    #[component(name = "busy")]
    Busy,
    #[component(name = "deadlock")]
    Deadlock,
    #[component(name = "quota")]
    Quota,
    #[component(name = "exist")]
    Exist,
    #[component(name = "file-too-large")]
    FileTooLarge,
    #[component(name = "illegal-byte-sequence")]
    IllegalByteSequence,
    #[component(name = "in-progress")]
    InProgress,
    #[component(name = "interrupted")]
    Interrupted,
    #[component(name = "invalid")]
    Invalid,
    #[component(name = "io")]
    Io,
    #[component(name = "is-directory")]
    IsDirectory,
    #[component(name = "loop")]
    Loop,
    #[component(name = "too-many-links")]
    TooManyLinks,
    #[component(name = "message-size")]
    MessageSize,
    #[component(name = "name-too-long")]
    NameTooLong,
    #[component(name = "no-device")]
    NoDevice,
    #[component(name = "no-entry")]
    NoEntry,
    #[component(name = "no-lock")]
    NoLock,
    #[component(name = "insufficient-memory")]
    InsufficientMemory,
    #[component(name = "insufficient-space")]
    InsufficientSpace,
    #[component(name = "not-directory")]
    NotDirectory,
    #[component(name = "not-empty")]
    NotEmpty,
    #[component(name = "not-recoverable")]
    NotRecoverable,
    #[component(name = "unsupported")]
    Unsupported,
    #[component(name = "no-tty")]
    NoTty,
    #[component(name = "no-such-device")]
    NoSuchDevice,
    #[component(name = "overflow")]
    Overflow,
    #[component(name = "not-permitted")]
    NotPermitted,
    #[component(name = "pipe")]
    Pipe,
    #[component(name = "read-only")]
    ReadOnly,
    #[component(name = "invalid-seek")]
    InvalidSeek,
    #[component(name = "text-file-busy")]
    TextFileBusy,
    #[component(name = "cross-device")]
    CrossDevice,
}

impl From<Errno> for ErrorCode {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::Acces => Self::Access,
            Errno::Again => Self::WouldBlock,
            Errno::Already => Self::Already,
            Errno::Badf => Self::BadDescriptor,
            Errno::Busy => Self::Busy,
            Errno::Deadlk => Self::Deadlock,
            Errno::Dquot => Self::Quota,
            Errno::Exist => Self::Exist,
            Errno::Fbig => Self::FileTooLarge,
            Errno::Ilseq => Self::IllegalByteSequence,
            Errno::Inprogress => Self::InProgress,
            Errno::Intr => Self::Interrupted,
            Errno::Inval => Self::Invalid,
            Errno::Isdir => Self::IsDirectory,
            Errno::Loop => Self::Loop,
            // There is no code for a process with too many open files.
            Errno::Mfile | Errno::Nfile | Errno::Nomem => Self::InsufficientMemory,
            Errno::Mlink => Self::TooManyLinks,
            Errno::Msgsize => Self::MessageSize,
            Errno::Nametoolong => Self::NameTooLong,
            Errno::Nodev => Self::NoDevice,
            Errno::Noent => Self::NoEntry,
            Errno::Nolck => Self::NoLock,
            Errno::Nospc => Self::InsufficientSpace,
            Errno::Notdir => Self::NotDirectory,
            Errno::Notempty => Self::NotEmpty,
            Errno::Notrecoverable => Self::NotRecoverable,
            Errno::Notsup | Errno::Nosys => Self::Unsupported,
            Errno::Notty => Self::NoTty,
            Errno::Nxio => Self::NoSuchDevice,
            Errno::Overflow => Self::Overflow,
            Errno::Perm | Errno::Notcapable => Self::NotPermitted,
            Errno::Pipe => Self::Pipe,
            Errno::Rofs => Self::ReadOnly,
            Errno::Spipe => Self::InvalidSeek,
            Errno::Txtbsy => Self::TextFileBusy,
            Errno::Xdev => Self::CrossDevice,
            _ => Self::Io,
        }
    }
}

/// `wasi:filesystem/types.descriptor-type`
#[derive(Clone, Copy, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "the type has all kinds, the kernel no named pipes")]
pub(super) enum DescriptorType {
    #[component(name = "unknown")]
    Unknown,
    #[component(name = "block-device")]
    BlockDevice,
    #[component(name = "character-device")]
    CharacterDevice,
    #[component(name = "directory")]
    Directory,
    #[component(name = "fifo")]
    Fifo,
    #[component(name = "symbolic-link")]
    SymbolicLink,
    #[component(name = "regular-file")]
    RegularFile,
    #[component(name = "socket")]
    Socket,
}

impl From<FileType> for DescriptorType {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::Unknown => Self::Unknown,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::CharacterDevice => Self::CharacterDevice,
            FileType::Directory => Self::Directory,
            FileType::RegularFile => Self::RegularFile,
            FileType::SocketDgram | FileType::SocketStream => Self::Socket,
            FileType::SymbolicLink => Self::SymbolicLink,
        }
    }
}

flags! {
    DescriptorFlags {
        #[component(name = "read")]
        const READ;
        #[component(name = "write")]
        const WRITE;
        #[component(name = "file-integrity-sync")]
        const FILE_INTEGRITY_SYNC;
        #[component(name = "data-integrity-sync")]
        const DATA_INTEGRITY_SYNC;
        #[component(name = "requested-write-sync")]
        const REQUESTED_WRITE_SYNC;
        #[component(name = "mutate-directory")]
        const MUTATE_DIRECTORY;
    }
}

flags! {
    PathFlags {
        #[component(name = "symlink-follow")]
        const SYMLINK_FOLLOW;
    }
}

flags! {
    OpenFlags {
        #[component(name = "create")]
        const CREATE;
        #[component(name = "directory")]
        const DIRECTORY;
        #[component(name = "exclusive")]
        const EXCLUSIVE;
        #[component(name = "truncate")]
        const TRUNCATE;
    }
}

/// `wasi:filesystem/types.advice`
#[derive(Clone, Copy, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "components choose one")]
pub(in crate::abi) enum Advice {
    #[component(name = "normal")]
    Normal,
    #[component(name = "sequential")]
    Sequential,
    #[component(name = "random")]
    Random,
    #[component(name = "will-need")]
    WillNeed,
    #[component(name = "dont-need")]
    DontNeed,
    #[component(name = "no-reuse")]
    NoReuse,
}

/// `wasi:clocks/wall-clock.datetime`
#[derive(Clone, Copy, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub(super) struct Datetime {
    #[component(name = "seconds")]
    pub seconds: u64,
    #[component(name = "nanoseconds")]
    pub nanoseconds: u32,
}

impl Datetime {
    /// The time `ns` nanoseconds after the beginning of 1970.
    pub fn of_ns(ns: u64) -> Self {
        // The remainder is less than a second.
        Self { seconds: ns / SECOND_NS, nanoseconds: (ns % SECOND_NS) as u32 }
    }

    /// Nanoseconds since the beginning of 1970.
    ///
    /// # Errors
    /// `EOVERFLOW` if they do not fit.
    fn ns(self) -> Result<u64, Errno> {
        let seconds = self.seconds.checked_mul(SECOND_NS);
        seconds.and_then(|ns| ns.checked_add(self.nanoseconds.into())).ok_or(Errno::Overflow)
    }
}

/// `wasi:filesystem/types.new-timestamp`
#[derive(Clone, Copy, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(variant)]
pub(super) enum NewTimestamp {
    #[component(name = "no-change")]
    NoChange,
    #[component(name = "now")]
    Now,
    #[component(name = "timestamp")]
    Timestamp(Datetime),
}

/// A `new-timestamp` of any version.
pub(in crate::abi) trait FileTime: fmt::Debug {
    /// How it changes a time of a file.
    ///
    /// # Errors
    /// `EOVERFLOW`.
    fn set_time(self) -> Result<SetTime, Errno>;
}

impl FileTime for NewTimestamp {
    fn set_time(self) -> Result<SetTime, Errno> {
        Ok(match self {
            Self::NoChange => SetTime::Keep,
            Self::Now => SetTime::Now,
            Self::Timestamp(time) => SetTime::At(time.ns()?),
        })
    }
}

/// `wasi:filesystem/types.descriptor-stat`
#[derive(Clone, Copy, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub(super) struct DescriptorStat {
    #[component(name = "type")]
    pub file_type: DescriptorType,
    #[component(name = "link-count")]
    pub link_count: u64,
    #[component(name = "size")]
    pub size: u64,
    #[component(name = "data-access-timestamp")]
    pub data_access_timestamp: Option<Datetime>,
    #[component(name = "data-modification-timestamp")]
    pub data_modification_timestamp: Option<Datetime>,
    #[component(name = "status-change-timestamp")]
    pub status_change_timestamp: Option<Datetime>,
}

impl From<FileStat> for DescriptorStat {
    fn from(stat: FileStat) -> Self {
        let metadata = &stat.metadata;
        let time = |ns| Some(Datetime::of_ns(ns));
        Self {
            file_type: metadata.file_type.into(),
            link_count: metadata.nlink.into(),
            size: metadata.size,
            data_access_timestamp: time(metadata.times.atim),
            data_modification_timestamp: time(metadata.times.mtim),
            status_change_timestamp: time(metadata.times.ctim),
        }
    }
}

/// `wasi:filesystem/types.directory-entry`
#[derive(Clone, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub(super) struct DirectoryEntry {
    #[component(name = "type")]
    pub file_type: DescriptorType,
    #[component(name = "name")]
    pub name: String,
}

/// `wasi:filesystem/types.metadata-hash-value`
#[derive(Clone, Copy, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub(in crate::abi) struct MetadataHashValue {
    #[component(name = "lower")]
    pub lower: u64,
    #[component(name = "upper")]
    pub upper: u64,
}
