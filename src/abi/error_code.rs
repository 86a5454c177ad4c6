//! The codes of errors of `wasi:filesystem`, which differ little between WASI 0.2 and 0.3.

/// Defines `ErrorCode` with the codes that all versions have, and what a version has beside them: behind the first code, and
/// behind the last one. The order counts, as a component knows a code by its number. The arms are for the errors whose code
/// depends on the version.
macro_rules! error_code {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum ErrorCode {
            second { $($second:tt)* }
            last { $($last:tt)* }
        }
        match $errno:ident { $($arms:tt)* }
    ) => {
        $(#[$attribute])*
        $visibility enum ErrorCode {
            #[component(name = "access")]
            Access,
            $($second)*
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
            $($last)*
        }

        impl From<Errno> for ErrorCode {
            fn from($errno: Errno) -> Self {
                match $errno {
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
                    $($arms)*
                }
            }
        }
    };
}

pub(super) use error_code;
