//! The records of a tape.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::launch::{Launch, LaunchTree};
use super::native::NativeEvent;
use super::payload::Payload;
use super::redact::REDACTED;
use crate::base::digest::Digest;

/// The phase of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The machine is built.
    Setup,
    /// A program or host code runs.
    #[default]
    Run,
    /// The results are collected.
    Finalize,
}

/// One event that crossed the boundary of the machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// Its number, from 0.
    pub seq: u64,
    /// The phase of the session.
    pub phase: Phase,
    /// The session's wall clock, in milliseconds since the Unix epoch.
    pub virtual_time_ms: i64,
    /// The session's monotonic clock, in milliseconds.
    pub monotonic_ms: u64,
    /// The process whose turn it was, for a kind that names none itself; `None` outside of turns, and on tapes of
    /// versions before 1.13.
    pub turn: Option<u32>,
    /// What happened.
    pub kind: Kind,
}

impl Record {
    /// Whether it is input of a program from which a secret seems to be removed, for messages: text
    /// that contains the marks itself counts as well.
    pub fn seems_withheld(&self) -> bool {
        let is_told = matches!(
            self.kind,
            Kind::FileStat { .. }
                | Kind::DirList { .. }
                | Kind::LinkRead { .. }
                | Kind::FileRead { .. }
                | Kind::StreamRead { .. }
                | Kind::Native { event: NativeEvent::Output { .. }, .. }
                | Kind::ProcessSpawn { .. }
                | Kind::LlmCall { .. }
                | Kind::HostCall { .. }
        );
        let line = serde_json::to_string(&self.kind).unwrap_or_default();
        is_told && (line.contains(REDACTED) || line.contains("withheld_by\":"))
    }
}

/// What happened. On a tape, the name is the field `kind`, with the other fields next to it.
///
/// Nanoseconds may exceed 2^53, up to which some JSON readers are exact.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Kind {
    /// The configuration of the machine, for a replay.
    Machine {
        /// As the kernel describes it.
        config: Value,
    },
    /// A clock was read.
    ClockRead {
        /// `realtime`, `monotonic`, `process_cputime` or `thread_cputime`.
        clock: String,
        /// The time in nanoseconds.
        value_ns: u64,
    },
    /// A process or the session slept.
    ClockSleep {
        /// The duration in nanoseconds.
        duration_ns: u64,
    },
    /// Real time was read while the session's clock was paused.
    ClockLeak {
        /// The capability that read it.
        capability_id: String,
        /// `wall` or `instant`.
        leak: String,
    },
    /// Random bytes were read.
    Random {
        /// Their digest.
        content_hash: Digest,
        /// The number of bytes.
        len_bytes: u64,
    },
    /// A path was looked up in a layer.
    FileStat {
        /// The path in the namespace.
        path: String,
        /// What it is, or the errno's name.
        #[serde(flatten)]
        found: Found,
    },
    /// A directory of a layer was listed.
    DirList {
        /// The path in the namespace.
        path: String,
        /// One line per entry: a letter for the type (`d`, `f`, `l`, `?`), a space, the name as
        /// JSON; or the errno's name.
        entries: Payload,
    },
    /// A symbolic link of a layer was read.
    LinkRead {
        /// The path in the namespace.
        path: String,
        /// The link's text.
        target: Payload,
    },
    /// The content of a file of a layer was read for the first time.
    FileRead {
        /// The path in the namespace.
        path: String,
        /// The digest of the content.
        content_hash: Digest,
        /// The length of the content.
        len_bytes: u64,
        /// The rule that withheld the content.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        withheld_by: Option<String>,
    },
    /// An operation on a file of a layer failed.
    FileError {
        /// The path in the namespace.
        path: String,
        /// `open` or `read_link`. Failed lookups and listings have records of their own.
        operation: String,
        /// The preview1 name of the errno.
        errno: String,
    },
    /// A file that was written was closed.
    FileWrite {
        /// The path at which it was opened.
        path: String,
        /// The digest of the content.
        content_hash: Digest,
        /// The length of the content.
        len_bytes: u64,
        /// The rule that withheld the content.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        withheld_by: Option<String>,
    },
    /// A file was unlinked.
    FileDelete {
        /// The path in the namespace.
        path: String,
        /// The digest of its content, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content_hash: Option<Digest>,
        /// The length of its content.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        len_bytes: Option<u64>,
    },
    /// A file or directory was renamed.
    FileRename {
        /// The old path.
        from: String,
        /// The new path.
        to: String,
    },
    /// A process read from standard input.
    StreamRead {
        /// The process.
        pid: u32,
        /// The bytes.
        bytes: Payload,
    },
    /// A process wrote to standard output or error.
    StreamWrite {
        /// The process.
        pid: u32,
        /// 1 or 2.
        fd: u32,
        /// The bytes.
        bytes: Payload,
    },
    /// A process polled standard input.
    StreamPoll {
        /// The process.
        pid: u32,
        /// 0.
        fd: u32,
        /// Whether it was readable, or at its end.
        ready: bool,
    },
    /// A read from standard input, or a write to standard output or error, failed.
    StreamError {
        /// The process.
        pid: u32,
        /// 0, 1 or 2.
        fd: u32,
        /// The preview1 name of the errno.
        errno: String,
    },
    /// A process started.
    ProcessSpawn {
        /// The process ID; 1 for the first process of a run.
        pid: u32,
        /// The process that started it, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<u32>,
        /// The name by which it was requested; for the first process, that of its program.
        program: String,
        /// `argv[0]`, if different from the name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        argv0: Option<String>,
        /// The file of the namespace that it was loaded from, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// Arguments without `argv[0]`.
        args: Vec<String>,
        /// Environment, `NAME=value`.
        env: Vec<String>,
        /// `wasi`, `builtin`, `named` (starts the program of its name and ends as that does), `host`,
        /// or `native`: then the run is not hermetic.
        mode: String,
        /// The sandbox profile of a confined native program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
        /// The preopened directories, from descriptor 3 on.
        #[serde(default)]
        preopens: Vec<Preopened>,
        /// Standard input: `empty`, `stream` (its bytes come as `stream_read`), `bytes`, or
        /// `inherited` from the parent.
        stdin: String,
        /// The bytes, if it is `bytes`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stdin_bytes: Option<Payload>,
        /// The digest of the module.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        module_hash: Option<Digest>,
        /// For a first process: the trees of its toolchain that are mounted with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        trees: Vec<LaunchTree>,
        /// The call of an export that it makes in place of its start function, `NAME(ARGUMENTS)`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        invoke: Option<String>,
    },
    /// The run reached its timeout of real time.
    Timeout {
        /// How far the machine was: started calls of processes, finished calls of modules, and
        /// steps of the shell.
        steps: u64,
    },
    /// A process searched for a program.
    ProgramFind {
        /// The process.
        pid: u32,
        /// Where: `toolchain` (programs by name), `file` (a file of the namespace) or `substitute`
        /// (for names that nothing else has).
        place: String,
        /// The name, or the path of a file.
        name: String,
        /// The mode, as in `process_spawn`; `None` if there is no program that can run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<String>,
        /// The sandbox profile of a confined native program.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
        /// The digest of the module.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        module_hash: Option<Digest>,
        /// What its toolchain adds to its arguments and variables.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        launch: Option<Launch>,
        /// Why the file cannot run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A process ended.
    ProcessExit {
        /// The process.
        pid: u32,
        /// `exited`, `trapped`, `signalled`, `deadlock`, or the limit that ended it; for a native
        /// subprocess also `failed` and `signal_N`.
        status: String,
        /// The exit code, if it exited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<u32>,
        /// Its duration on the session's clock.
        duration_ms: u64,
    },
    /// An event between a native process and its program.
    Native {
        /// The process.
        pid: u32,
        /// The event.
        #[serde(flatten)]
        event: NativeEvent,
    },
    /// A process waited for a child that has ended.
    ProcessWait {
        /// The process.
        pid: u32,
        /// The child.
        child: u32,
        /// The status as a shell shows it: the exit code's low byte, or 128 plus the signal's
        /// number.
        status: u32,
    },
    /// A process created a pipe.
    Pipe {
        /// The process.
        pid: u32,
        /// The number of the pipe.
        pipe: u32,
        /// The reading descriptor.
        reader: u32,
        /// The writing descriptor.
        writer: u32,
    },
    /// A path differs from its state before the session.
    Change {
        /// The path in the namespace.
        path: String,
        /// `added`, `modified`, `deleted`; `times` if only times were set; `unknown` if the changes could not be determined.
        change: String,
        /// Further details: type, mode, old path.
        #[serde(flatten)]
        detail: Map<String, Value>,
    },
    /// A language model was called.
    LlmCall {
        /// The model.
        model: String,
        /// The digest of the request.
        request_hash: Digest,
        /// The request.
        request: Payload,
        /// The answer, or the error.
        response: Payload,
    },
    /// A network access was requested.
    Egress {
        /// The part of belljar: `sock`, `http`, `llm`.
        surface: String,
        /// The URL.
        url: String,
        /// The host, if known.
        host: String,
        /// The port, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
        /// Whether it was allowed.
        allowed: bool,
        /// The rule that decided.
        reason: String,
    },
    /// A host call.
    HostCall {
        /// The process of mode `host` that made the call, or the one that queried an operation or
        /// was blocked. `None` for records that code around the library wrote itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
        /// The capability.
        capability: String,
        /// The operation.
        operation: String,
        /// The parameters.
        params: Payload,
        /// The parameters after hooks of the policy, if they changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        done_as: Option<Payload>,
        /// The answer, or the error.
        result: Payload,
        /// What answered: `policy`, `mock`, `bridge`, `host` (something outside of the machine),
        /// `builtin`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answered_by: Option<String>,
        /// Whether a hook of the policy changed the answer.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        amended: bool,
    },
    /// A kind that this version does not know. It is kept as it is.
    #[serde(skip)]
    Unknown {
        /// The name.
        kind: String,
        /// The fields.
        fields: Map<String, Value>,
    },
}

/// A preopened directory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Preopened {
    /// The path in the namespace.
    pub path: String,
    /// The name for the guest.
    pub name: String,
    /// Where paths from it may lead: `confined`, `namespace` or `current_dir`; `namespace_or_root`
    /// on tapes of kernel version 0.
    pub reach: String,
}

/// The result of a lookup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Found {
    /// An entry.
    Entry {
        /// `file`, `dir`, `link` or `other`.
        file_type: String,
        /// The length of a file.
        len_bytes: u64,
        /// Modification time in nanoseconds since the Unix epoch, if the machine shows it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mtime_ns: Option<u64>,
        /// Whether its owner may execute it.
        executable: bool,
    },
    /// An error.
    Errno {
        /// The preview1 name of the errno: `noent`, `acces`.
        errno: String,
    },
}

impl Kind {
    /// The name in the field `kind`.
    pub fn name(&self) -> &str {
        match self {
            Self::Machine { .. } => "machine",
            Self::ClockRead { .. } => "clock_read",
            Self::ClockSleep { .. } => "clock_sleep",
            Self::ClockLeak { .. } => "clock_leak",
            Self::Random { .. } => "random",
            Self::FileStat { .. } => "file_stat",
            Self::DirList { .. } => "dir_list",
            Self::LinkRead { .. } => "link_read",
            Self::FileRead { .. } => "file_read",
            Self::FileError { .. } => "file_error",
            Self::FileWrite { .. } => "file_write",
            Self::FileDelete { .. } => "file_delete",
            Self::FileRename { .. } => "file_rename",
            Self::StreamRead { .. } => "stream_read",
            Self::StreamWrite { .. } => "stream_write",
            Self::StreamPoll { .. } => "stream_poll",
            Self::StreamError { .. } => "stream_error",
            Self::ProcessSpawn { .. } => "process_spawn",
            Self::ProgramFind { .. } => "program_find",
            Self::Timeout { .. } => "timeout",
            Self::ProcessExit { .. } => "process_exit",
            Self::Native { .. } => "native",
            Self::ProcessWait { .. } => "process_wait",
            Self::Pipe { .. } => "pipe",
            Self::Change { .. } => "change",
            Self::LlmCall { .. } => "llm_call",
            Self::Egress { .. } => "egress",
            Self::HostCall { .. } => "host_call",
            Self::Unknown { kind, .. } => kind,
        }
    }

    /// The process that it names as its own.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Self::StreamRead { pid, .. }
            | Self::StreamWrite { pid, .. }
            | Self::StreamPoll { pid, .. }
            | Self::StreamError { pid, .. }
            | Self::ProcessSpawn { pid, .. }
            | Self::ProgramFind { pid, .. }
            | Self::ProcessExit { pid, .. }
            | Self::Native { pid, .. }
            | Self::ProcessWait { pid, .. }
            | Self::Pipe { pid, .. } => Some(*pid),
            Self::HostCall { pid, .. } => *pid,
            _ => None,
        }
    }

    /// The other fields, as JSON.
    pub fn fields(&self) -> Map<String, Value> {
        if let Self::Unknown { fields, .. } = self {
            return fields.clone();
        }
        match serde_json::to_value(self) {
            Ok(Value::Object(mut fields)) => {
                fields.remove("kind");
                fields
            }
            // All fields are strings, numbers and maps.
            other => unreachable!("a kind is an object: {other:?}"),
        }
    }

    /// The kind `name` with `fields`. An unknown name gives [`Kind::Unknown`].
    ///
    /// # Errors
    /// What is wrong with the fields of a known kind.
    pub fn from_fields(name: &str, mut fields: Map<String, Value>) -> Result<Self, String> {
        const KNOWN: &[&str] = &[
            "machine",
            "clock_read",
            "clock_sleep",
            "clock_leak",
            "random",
            "file_stat",
            "dir_list",
            "link_read",
            "file_read",
            "file_error",
            "file_write",
            "file_delete",
            "file_rename",
            "stream_read",
            "stream_write",
            "stream_poll",
            "stream_error",
            "process_spawn",
            "program_find",
            "timeout",
            "process_exit",
            "native",
            "process_wait",
            "pipe",
            "change",
            "llm_call",
            "egress",
            "host_call",
        ];
        if !KNOWN.contains(&name) {
            return Ok(Self::Unknown { kind: name.to_owned(), fields });
        }
        fields.insert("kind".to_owned(), name.into());
        serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())
    }
}

/// The fields of every record, in the order of a line.
#[derive(Serialize)]
struct Line<'a, K> {
    seq: u64,
    phase: Phase,
    virtual_time_ms: i64,
    monotonic_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<u32>,
    #[serde(flatten)]
    kind: &'a K,
}

#[derive(Serialize)]
struct UnknownKind<'a> {
    kind: &'a str,
    #[serde(flatten)]
    fields: &'a Map<String, Value>,
}

impl Serialize for Record {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { seq, phase, virtual_time_ms, monotonic_ms, turn, ref kind } = *self;
        match kind {
            Kind::Unknown { kind, fields } => {
                let kind = &UnknownKind { kind, fields };
                Line { seq, phase, virtual_time_ms, monotonic_ms, turn, kind }.serialize(serializer)
            }
            kind => {
                Line { seq, phase, virtual_time_ms, monotonic_ms, turn, kind }.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Line {
            seq: u64,
            #[serde(default)]
            phase: Phase,
            virtual_time_ms: i64,
            monotonic_ms: u64,
            #[serde(default)]
            turn: Option<u32>,
            kind: String,
            #[serde(flatten)]
            fields: Map<String, Value>,
        }
        let Line { seq, phase, virtual_time_ms, monotonic_ms, turn, kind, fields } =
            Line::deserialize(deserializer)?;
        let kind = Kind::from_fields(&kind, fields).map_err(serde::de::Error::custom)?;
        Ok(Self { seq, phase, virtual_time_ms, monotonic_ms, turn, kind })
    }
}
