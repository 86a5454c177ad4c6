//! The types of `wasi:filesystem` and `wasi:clocks`.

use wasmtime::component::{ComponentType, Lift, Lower};

use crate::abi::preview2::types::{FileTime, SECOND_NS};
use crate::base::errno::Errno;
use crate::kernel::guest::FileStat;
use crate::kernel::vfs::{FileType, SetTime};

/// `wasi:filesystem/types.error-code`
#[derive(Clone, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(variant)]
pub(super) enum ErrorCode {
    #[component(name = "access")]
    Access,
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
    #[component(name = "other")]
    Other(Option<String>),
}

impl From<Errno> for ErrorCode {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::Acces => Self::Access,
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
            Errno::Io => Self::Io,
            // It has no code of its own.
            other => Self::Other(Some(other.name().to_owned())),
        }
    }
}

/// `wasi:filesystem/types.descriptor-type`
#[derive(Clone, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(variant)]
pub(super) enum DescriptorType {
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
    #[component(name = "other")]
    Other(Option<String>),
}

impl From<FileType> for DescriptorType {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::Unknown => Self::Other(None),
            FileType::BlockDevice => Self::BlockDevice,
            FileType::CharacterDevice => Self::CharacterDevice,
            FileType::Directory => Self::Directory,
            FileType::RegularFile => Self::RegularFile,
            FileType::SocketDgram | FileType::SocketStream => Self::Socket,
            FileType::SymbolicLink => Self::SymbolicLink,
        }
    }
}

/// `wasi:clocks/system-clock.instant`
#[derive(Clone, Copy, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub(super) struct Instant {
    #[component(name = "seconds")]
    pub seconds: i64,
    #[component(name = "nanoseconds")]
    pub nanoseconds: u32,
}

impl Instant {
    /// The time `ns` nanoseconds after the beginning of 1970.
    pub fn of_ns(ns: u64) -> Self {
        // Both fit: seconds of a u64 of nanoseconds, and less than a second.
        Self { seconds: (ns / SECOND_NS).cast_signed(), nanoseconds: (ns % SECOND_NS) as u32 }
    }

    /// Nanoseconds since the beginning of 1970.
    ///
    /// # Errors
    /// `EOVERFLOW` if they do not fit, as those of earlier times.
    fn ns(self) -> Result<u64, Errno> {
        let seconds = u64::try_from(self.seconds).map_err(|_| Errno::Overflow)?;
        let ns = seconds.checked_mul(SECOND_NS);
        ns.and_then(|ns| ns.checked_add(self.nanoseconds.into())).ok_or(Errno::Overflow)
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
    Timestamp(Instant),
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
#[derive(Clone, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub(super) struct DescriptorStat {
    #[component(name = "type")]
    file_type: DescriptorType,
    #[component(name = "link-count")]
    link_count: u64,
    #[component(name = "size")]
    size: u64,
    #[component(name = "data-access-timestamp")]
    data_access_timestamp: Option<Instant>,
    #[component(name = "data-modification-timestamp")]
    data_modification_timestamp: Option<Instant>,
    #[component(name = "status-change-timestamp")]
    status_change_timestamp: Option<Instant>,
}

impl From<FileStat> for DescriptorStat {
    fn from(stat: FileStat) -> Self {
        let metadata = &stat.metadata;
        let time = |ns| Some(Instant::of_ns(ns));
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
