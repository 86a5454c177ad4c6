//! The error numbers of WASI preview1, used throughout the kernel.
//!
//! Source: the `errno` enum of `wasi_snapshot_preview1`. POSIX gives the meanings.

use std::fmt;
use std::io;

macro_rules! errnos {
    ($($variant:ident = $number:literal, $name:literal, $meaning:literal;)*) => {
        /// An error number of preview1. Success is `Ok`.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u16)]
        pub enum Errno {
            $(#[doc = $meaning] $variant = $number,)*
        }

        impl Errno {
            /// The name in the WASI document, such as `noent`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The errno with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }

            /// The text of `strerror`.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

errnos! {
    Toobig = 1, "2big", "Argument list too long";
    Acces = 2, "acces", "Permission denied";
    Addrinuse = 3, "addrinuse", "Address in use";
    Addrnotavail = 4, "addrnotavail", "Address not available";
    Afnosupport = 5, "afnosupport", "Address family not supported";
    Again = 6, "again", "Resource unavailable, or operation would block";
    Already = 7, "already", "Connection already in progress";
    Badf = 8, "badf", "Bad file descriptor";
    Badmsg = 9, "badmsg", "Bad message";
    Busy = 10, "busy", "Device or resource busy";
    Canceled = 11, "canceled", "Operation canceled";
    Child = 12, "child", "No child processes";
    Connaborted = 13, "connaborted", "Connection aborted";
    Connrefused = 14, "connrefused", "Connection refused";
    Connreset = 15, "connreset", "Connection reset";
    Deadlk = 16, "deadlk", "Resource deadlock would occur";
    Destaddrreq = 17, "destaddrreq", "Destination address required";
    Dom = 18, "dom", "Argument out of the domain of the function";
    Dquot = 19, "dquot", "Disk quota exceeded";
    Exist = 20, "exist", "File exists";
    Fault = 21, "fault", "Bad address";
    Fbig = 22, "fbig", "File too large";
    Hostunreach = 23, "hostunreach", "Host is unreachable";
    Idrm = 24, "idrm", "Identifier removed";
    Ilseq = 25, "ilseq", "Illegal byte sequence";
    Inprogress = 26, "inprogress", "Operation in progress";
    Intr = 27, "intr", "Interrupted function";
    Inval = 28, "inval", "Invalid argument";
    Io = 29, "io", "I/O error";
    Isconn = 30, "isconn", "Socket is connected";
    Isdir = 31, "isdir", "Is a directory";
    Loop = 32, "loop", "Too many levels of symbolic links";
    Mfile = 33, "mfile", "Too many open files";
    Mlink = 34, "mlink", "Too many links";
    Msgsize = 35, "msgsize", "Message too large";
    Multihop = 36, "multihop", "Multihop attempted";
    Nametoolong = 37, "nametoolong", "File name too long";
    Netdown = 38, "netdown", "Network is down";
    Netreset = 39, "netreset", "Connection aborted by network";
    Netunreach = 40, "netunreach", "Network unreachable";
    Nfile = 41, "nfile", "Too many files open in system";
    Nobufs = 42, "nobufs", "No buffer space available";
    Nodev = 43, "nodev", "No such device";
    Noent = 44, "noent", "No such file or directory";
    Noexec = 45, "noexec", "Executable file format error";
    Nolck = 46, "nolck", "No locks available";
    Nolink = 47, "nolink", "Link has been severed";
    Nomem = 48, "nomem", "Not enough space";
    Nomsg = 49, "nomsg", "No message of the desired type";
    Noprotoopt = 50, "noprotoopt", "Protocol not available";
    Nospc = 51, "nospc", "No space left on device";
    Nosys = 52, "nosys", "Function not supported";
    Notconn = 53, "notconn", "The socket is not connected";
    Notdir = 54, "notdir", "Not a directory";
    Notempty = 55, "notempty", "Directory not empty";
    Notrecoverable = 56, "notrecoverable", "State not recoverable";
    Notsock = 57, "notsock", "Not a socket";
    Notsup = 58, "notsup", "Not supported";
    Notty = 59, "notty", "Inappropriate I/O control operation";
    Nxio = 60, "nxio", "No such device or address";
    Overflow = 61, "overflow", "Value too large to be stored in data type";
    Ownerdead = 62, "ownerdead", "Previous owner died";
    Perm = 63, "perm", "Operation not permitted";
    Pipe = 64, "pipe", "Broken pipe";
    Proto = 65, "proto", "Protocol error";
    Protonosupport = 66, "protonosupport", "Protocol not supported";
    Prototype = 67, "prototype", "Protocol wrong type for socket";
    Range = 68, "range", "Result too large";
    Rofs = 69, "rofs", "Read-only file system";
    Spipe = 70, "spipe", "Invalid seek";
    Srch = 71, "srch", "No such process";
    Stale = 72, "stale", "Stale file handle";
    Timedout = 73, "timedout", "Connection timed out";
    Txtbsy = 74, "txtbsy", "Text file busy";
    Xdev = 75, "xdev", "Cross-device link";
    Notcapable = 76, "notcapable", "Capabilities insufficient";
}

impl Errno {
    /// The number of preview1.
    pub fn code(self) -> u16 {
        self as u16
    }

    /// Returns the errno for an error of the host.
    pub fn from_io(error: &io::Error) -> Self {
        use io::ErrorKind as K;
        match error.kind() {
            K::NotFound => Self::Noent,
            K::PermissionDenied => Self::Acces,
            K::AlreadyExists => Self::Exist,
            K::NotADirectory => Self::Notdir,
            K::IsADirectory => Self::Isdir,
            K::DirectoryNotEmpty => Self::Notempty,
            K::ReadOnlyFilesystem => Self::Rofs,
            K::StorageFull => Self::Nospc,
            K::FileTooLarge => Self::Fbig,
            K::InvalidInput | K::InvalidFilename => Self::Inval,
            K::BrokenPipe => Self::Pipe,
            K::Interrupted => Self::Intr,
            K::OutOfMemory => Self::Nomem,
            K::Unsupported => Self::Notsup,
            _ => Self::Io,
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (E{})", self.meaning(), self.name().to_ascii_uppercase())
    }
}

impl std::error::Error for Errno {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_wasi_document() {
        assert_eq!(Errno::Toobig.code(), 1);
        assert_eq!(Errno::Noent.code(), 44);
        assert_eq!(Errno::Perm.code(), 63);
        assert_eq!(Errno::Notcapable.code(), 76);
        assert_eq!(Errno::Toobig.name(), "2big");
    }

    #[test]
    fn messages_have_the_names_of_posix() {
        assert!(Errno::Toobig.to_string().ends_with(" (E2BIG)"), "{}", Errno::Toobig);
    }
}
