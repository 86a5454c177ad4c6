//! The types of `belljar:process` and `belljar:host`.

use wasmtime::component::{ComponentType, Lift, Lower, Resource};

use crate::abi::preview2::filesystem::Descriptor;
use crate::abi::preview2::input::InputStream;
use crate::abi::preview2::output::OutputStream;
use crate::base::errno::Errno;
use crate::kernel::process::WaitStatus;

/// `belljar:process/processes.error-code`
#[derive(Clone, Copy, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(enum)]
#[repr(u8)]
pub(super) enum ErrorCode {
    #[component(name = "access")]
    Access,
    #[component(name = "argument-list-too-long")]
    ArgumentListTooLong,
    #[component(name = "bad-descriptor")]
    BadDescriptor,
    #[component(name = "exec-format")]
    ExecFormat,
    #[component(name = "insufficient-memory")]
    InsufficientMemory,
    #[component(name = "invalid")]
    Invalid,
    #[component(name = "io")]
    Io,
    #[component(name = "loop")]
    Loop,
    #[component(name = "name-too-long")]
    NameTooLong,
    #[component(name = "no-child")]
    NoChild,
    #[component(name = "no-entry")]
    NoEntry,
    #[component(name = "no-such-process")]
    NoSuchProcess,
    #[component(name = "not-directory")]
    NotDirectory,
    #[component(name = "not-permitted")]
    NotPermitted,
    #[component(name = "process-limit")]
    ProcessLimit,
    #[component(name = "too-many-open-files")]
    TooManyOpenFiles,
    #[component(name = "unsupported")]
    Unsupported,
}

impl From<Errno> for ErrorCode {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::Acces => Self::Access,
            Errno::Toobig => Self::ArgumentListTooLong,
            Errno::Badf => Self::BadDescriptor,
            Errno::Noexec => Self::ExecFormat,
            Errno::Nomem => Self::InsufficientMemory,
            Errno::Inval => Self::Invalid,
            Errno::Loop => Self::Loop,
            Errno::Nametoolong => Self::NameTooLong,
            Errno::Child => Self::NoChild,
            Errno::Noent => Self::NoEntry,
            Errno::Srch => Self::NoSuchProcess,
            Errno::Notdir => Self::NotDirectory,
            Errno::Perm | Errno::Notcapable => Self::NotPermitted,
            Errno::Again => Self::ProcessLimit,
            Errno::Mfile | Errno::Nfile => Self::TooManyOpenFiles,
            Errno::Notsup | Errno::Nosys => Self::Unsupported,
            _ => Self::Io,
        }
    }
}

/// `belljar:process/processes.stdio`
#[derive(ComponentType, Lift)]
#[component(variant)]
pub(super) enum Stdio {
    #[component(name = "inherit")]
    Inherit,
    #[component(name = "null")]
    Null,
    #[component(name = "input")]
    Input(Resource<InputStream>),
    #[component(name = "output")]
    Output(Resource<OutputStream>),
    #[component(name = "file")]
    File(Resource<Descriptor>),
    #[component(name = "same-as")]
    SameAs(u32),
}

/// `belljar:process/processes.command`
#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct Command {
    pub program: String,
    pub arguments: Vec<String>,
    pub environment: Option<Vec<(String, String)>>,
    #[component(name = "current-dir")]
    pub current_dir: Option<String>,
    pub stdin: Stdio,
    pub stdout: Stdio,
    pub stderr: Stdio,
    pub descriptors: Vec<(u32, Stdio)>,
}

/// `belljar:process/processes.exit-status`
#[derive(Clone, Copy, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(variant)]
pub(super) enum ExitStatus {
    #[component(name = "exited")]
    Exited(u32),
    #[component(name = "signalled")]
    Signalled(u32),
}

impl From<WaitStatus> for ExitStatus {
    fn from(status: WaitStatus) -> Self {
        match status {
            WaitStatus::Exited(code) => Self::Exited(code),
            WaitStatus::Signalled(signal) => Self::Signalled(signal.number().into()),
        }
    }
}

/// `belljar:host/calls.error`
#[derive(Clone, PartialEq, Eq, Debug, ComponentType, Lift, Lower)]
#[component(record)]
pub(super) struct CallError {
    pub kind: String,
    pub message: String,
    pub code: Option<String>,
}
