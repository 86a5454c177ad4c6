//! The lines of a tape.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::native::NativeEvent;
use super::payload::Payload;
use super::redact::REDACTED;
use crate::base::digest::Digest;

/// The part of a session in which something happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The machine is put together.
    Setup,
    /// A program, or the host's own code, runs.
    #[default]
    Run,
    /// What the session leaves behind is gathered.
    Finalize,
}

/// One thing that crossed the boundary.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// Its place: 0 for the first.
    pub seq: u64,
    /// The part of the session.
    pub phase: Phase,
    /// The session's wall clock: milliseconds since the Unix epoch.
    pub virtual_time_ms: i64,
    /// The session's monotonic clock, in milliseconds.
    pub monotonic_ms: u64,
    /// What it was.
    pub kind: Kind,
}

impl Record {
    /// Whether it is something that a program was told, and seems to have lost a secret. A text that
    /// says so itself is taken for one that has: this is for messages.
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

/// What happened. On a tape, its name is the field `kind` and its fields stand beside it.
///
/// Times in nanoseconds exceed what some JSON readers keep exactly (2^53).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Kind {
    /// How the machine was put together, so that a run can be repeated from its tape.
    Machine {
        /// The configuration, as the kernel describes it.
        config: Value,
    },
    /// A clock was read.
    ClockRead {
        /// `realtime`, `monotonic`, `process_cputime` or `thread_cputime`.
        clock: String,
        /// What it showed, in nanoseconds.
        value_ns: u64,
    },
    /// Somebody slept.
    ClockSleep {
        /// For how long, in nanoseconds.
        duration_ns: u64,
    },
    /// Real time was read although the session's clock is paused.
    ClockLeak {
        /// Who read it.
        capability_id: String,
        /// `wall` or `instant`.
        leak: String,
    },
    /// Random bytes were handed out.
    Random {
        /// Their digest.
        content_hash: Digest,
        /// How many.
        len_bytes: u64,
    },
    /// Something was looked up in a tree below.
    FileStat {
        /// The path in the namespace.
        path: String,
        /// What was found, or the errno's name.
        #[serde(flatten)]
        found: Found,
    },
    /// A directory of a tree below was listed.
    DirList {
        /// The path in the namespace.
        path: String,
        /// One line for each entry: a letter for the type (`d`, `f`, `l`, `?`), a space, the name
        /// as JSON; or the errno's name.
        entries: Payload,
    },
    /// A symbolic link of a tree below was read.
    LinkRead {
        /// The path in the namespace.
        path: String,
        /// Its text.
        target: Payload,
    },
    /// The content of a file of a tree below was read for the first time.
    FileRead {
        /// The path in the namespace.
        path: String,
        /// The digest of the whole content.
        content_hash: Digest,
        /// Its length.
        len_bytes: u64,
        /// The rule that kept the content off the tape.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        withheld_by: Option<String>,
    },
    /// A tree below could not answer what it was asked for a file.
    FileError {
        /// The path in the namespace.
        path: String,
        /// `open` or `read_link`. Lookups and listings have records of their own for that.
        operation: String,
        /// The errno's name in preview1.
        errno: String,
    },
    /// A file was closed after it had been written.
    FileWrite {
        /// The path under which it was opened.
        path: String,
        /// The digest of the whole content.
        content_hash: Digest,
        /// Its length.
        len_bytes: u64,
        /// The rule that kept the content off the tape.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        withheld_by: Option<String>,
    },
    /// A file was unlinked.
    FileDelete {
        /// The path in the namespace.
        path: String,
        /// The digest of what it held, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content_hash: Option<Digest>,
        /// Its length.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        len_bytes: Option<u64>,
    },
    /// A file or directory was renamed.
    FileRename {
        /// Its path until then.
        from: String,
        /// Its path from then on.
        to: String,
    },
    /// A process read from standard input.
    StreamRead {
        /// The process.
        pid: u32,
        /// What came.
        bytes: Payload,
    },
    /// A process wrote to standard output or error.
    StreamWrite {
        /// The process.
        pid: u32,
        /// 1 or 2.
        fd: u32,
        /// What it wrote.
        bytes: Payload,
    },
    /// A process asked whether standard input can be read, and may have waited for it.
    StreamPoll {
        /// The process.
        pid: u32,
        /// 0.
        fd: u32,
        /// Whether it could, or had come to its end.
        ready: bool,
    },
    /// A read from standard input, or a write to standard output or error, failed.
    StreamError {
        /// The process.
        pid: u32,
        /// 0, 1 or 2.
        fd: u32,
        /// The errno's name in preview1.
        errno: String,
    },
    /// A process started.
    ProcessSpawn {
        /// The process; 1 for the first of a run.
        pid: u32,
        /// The process that started it, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<u32>,
        /// The name it was asked for by; of the first process, that of its program.
        program: String,
        /// The name it is called by (`argv[0]`), if that is another.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        argv0: Option<String>,
        /// The file of the namespace that it comes from, if it does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// Its arguments, without the name.
        args: Vec<String>,
        /// Its environment, `NAME=value`.
        env: Vec<String>,
        /// `wasi`, `builtin`, `named` (it starts the program of its name and ends as that does), `host`,
        /// or `native`: such a run is not hermetic.
        mode: String,
        /// The sandbox profile of a native one that is confined.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
        /// The directories that it starts with, from descriptor 3 on.
        #[serde(default)]
        preopens: Vec<Preopened>,
        /// Standard input: `empty`, `stream` (its bytes come as `stream_read`), `bytes`, or
        /// `inherited` from its parent.
        stdin: String,
        /// If it is `bytes`: these.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stdin_bytes: Option<Payload>,
        /// The digest of the module.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        module_hash: Option<Digest>,
    },
    /// Real time ended the run, at its timeout.
    Timeout {
        /// How far the machine had come: calls of processes that had begun, calls of modules that had
        /// ended, and steps of the shell.
        steps: u64,
    },
    /// A process looked for a program to start, or to say where it is.
    ProgramFind {
        /// The process.
        pid: u32,
        /// Where: `toolchain` (the programs by name), `file` (a file of the namespace, which was read)
        /// or `substitute` (what stands for a name that nobody has).
        place: String,
        /// The name; of a file, the path that was asked for.
        name: String,
        /// What the program runs on, as `process_spawn` has it; `None` if there is none that can run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<String>,
        /// The sandbox profile of a native one that is confined.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
        /// The digest of its module.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        module_hash: Option<Digest>,
        /// Why what is there cannot run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A process ended.
    ProcessExit {
        /// The process.
        pid: u32,
        /// `exited`, `trapped`, `signalled`, `deadlock`, or the limit that ended it; for a native one also
        /// `failed` and `signal_N`.
        status: String,
        /// Its exit code, if it exited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<u32>,
        /// How long it took on the session's clock.
        duration_ms: u64,
    },
    /// Something passed between a process and the program of the host that it stands for.
    Native {
        /// The process.
        pid: u32,
        /// What.
        #[serde(flatten)]
        event: NativeEvent,
    },
    /// A process was told of the end of a child.
    ProcessWait {
        /// The process.
        pid: u32,
        /// Its child.
        child: u32,
        /// The status that a shell would show: the code's low byte, or 128 and the signal's number.
        status: u32,
    },
    /// A process made a pipe.
    Pipe {
        /// The process.
        pid: u32,
        /// The pipe's number.
        pipe: u32,
        /// The descriptor to read from.
        reader: u32,
        /// The descriptor to write to.
        writer: u32,
    },
    /// A file is not, after the session, what it was before.
    Change {
        /// The path in the namespace.
        path: String,
        /// `added`, `modified`, `deleted`; `times` if nothing but those was set.
        change: String,
        /// The rest of what is known of it: type, mode, old path.
        #[serde(flatten)]
        detail: Map<String, Value>,
    },
    /// A language model was asked.
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
    /// Something asked to leave through the network.
    Egress {
        /// Who asked: `sock`, `http`, `llm`.
        surface: String,
        /// What for.
        url: String,
        /// The host, if there is one.
        host: String,
        /// The port, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
        /// Whether it may.
        allowed: bool,
        /// Which rule decided.
        reason: String,
    },
    /// The host was asked for something by name.
    HostCall {
        /// Which process the host answered by; or, where the policy answered, which one it was that
        /// wanted to start a program. `None` for a call of code that embeds the library.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
        /// The capability.
        capability: String,
        /// The operation.
        operation: String,
        /// What was passed.
        params: Payload,
        /// What it was done with instead, if a hook of the policy changed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        done_as: Option<Payload>,
        /// The answer, or the error.
        result: Payload,
        /// Who answered: `policy`, `mock`, `bridge`, `host` (who was asked outside), `builtin`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answered_by: Option<String>,
        /// Whether a hook of the policy changed the answer.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        amended: bool,
    },
    /// A kind that this version does not know. It survives as it is.
    #[serde(skip)]
    Unknown {
        /// Its name.
        kind: String,
        /// Its fields.
        fields: Map<String, Value>,
    },
}

/// A directory that a process starts with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Preopened {
    /// Its path in the namespace.
    pub path: String,
    /// The name under which the guest finds it.
    pub name: String,
    /// Where lookups from it may lead: `confined`, `namespace` or `current_dir`; `namespace_or_root` on
    /// tapes of version 0 of the kernel.
    pub reach: String,
}

/// What a lookup found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Found {
    /// Something.
    Entry {
        /// `file`, `dir`, `link` or `other`.
        file_type: String,
        /// Length of a file.
        len_bytes: u64,
        /// Last modification in nanoseconds since the Unix epoch, if the machine shows it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mtime_ns: Option<u64>,
        /// Whether its owner may execute it.
        executable: bool,
    },
    /// Nothing that can be had.
    Errno {
        /// The errno's name in preview1: `noent`, `acces`.
        errno: String,
    },
}

impl Kind {
    /// Its name, as the field `kind` has it.
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

    /// The fields beside `kind`, as JSON.
    pub fn fields(&self) -> Map<String, Value> {
        if let Self::Unknown { fields, .. } = self {
            return fields.clone();
        }
        match serde_json::to_value(self) {
            Ok(Value::Object(mut fields)) => {
                fields.remove("kind");
                fields
            }
            // All fields are text, numbers, and maps with text for keys.
            other => unreachable!("a kind is an object: {other:?}"),
        }
    }

    /// The kind called `name` with `fields`. One that is not known, by its name, is
    /// [`Kind::Unknown`].
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

/// The fields that all records have, in the order in which they are written.
#[derive(Serialize)]
struct Line<'a, K> {
    seq: u64,
    phase: Phase,
    virtual_time_ms: i64,
    monotonic_ms: u64,
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
        let Self { seq, phase, virtual_time_ms, monotonic_ms, ref kind } = *self;
        match kind {
            Kind::Unknown { kind, fields } => {
                let kind = &UnknownKind { kind, fields };
                Line { seq, phase, virtual_time_ms, monotonic_ms, kind }.serialize(serializer)
            }
            kind => Line { seq, phase, virtual_time_ms, monotonic_ms, kind }.serialize(serializer),
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
            kind: String,
            #[serde(flatten)]
            fields: Map<String, Value>,
        }
        let Line { seq, phase, virtual_time_ms, monotonic_ms, kind, fields } =
            Line::deserialize(deserializer)?;
        let kind = Kind::from_fields(&kind, fields).map_err(serde::de::Error::custom)?;
        Ok(Self { seq, phase, virtual_time_ms, monotonic_ms, kind })
    }
}
