//! Reads a tape for a page: once from its first record to its last, in memory that the page's limits bound.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

use super::super::annotations::TapeAnnotations;
use super::super::tape;
use super::files::{self, Files};
use super::index::{ABSENT, Columns, Index, Packed, Row, TROUBLE};
use super::output::{self, Streams};
use super::processes::{Process, Processes};
use super::shorten;
use crate::tape::{Found, Header, Kind, NativeEvent, Phase, Record, TapeStore};

/// Bytes of the description of a machine.
const CONFIG_BYTES_MAX: usize = 64 << 10;

/// Machines that are described: a tape of several runs has several.
const CONFIGS_MAX: usize = 16;

/// Annotations that a page shows, and bytes of each.
const ANNOTATIONS_MAX: usize = 5000;
const ANNOTATION_BYTES_MAX: usize = 4 << 10;

/// Arguments of the command line, and bytes of each.
const ARGV_MAX: usize = 200;

/// What a page shows before anything is looked at.
#[derive(Serialize)]
pub struct Summary {
    /// The file's name.
    name: String,
    version: String,
    belljar_version: String,
    started_at_unix_ms: i64,
    script_path: Option<String>,
    argv: Vec<String>,
    /// Records on the tape.
    pub records: u64,
    last_ms: u64,
    /// Whether the last line is cut off.
    pub is_cut_off: bool,
    /// Why the tape cannot be read further.
    pub damage: Option<String>,
    /// Whether it was still being written, or its writer was killed.
    is_partial: bool,
    processes: Vec<Process>,
    processes_left_out: u64,
    configs: Vec<Value>,
    annotations: Vec<Value>,
    annotations_left_out: usize,
    columns: Columns,
}

/// All that a page has of one tape.
pub struct Collected {
    pub summary: Summary,
    pub files: files::Shown,
    pub output: output::Shown,
    /// The columns, packed.
    pub columns: String,
    /// The fields of records, packed block by block.
    pub blocks: Vec<String>,
}

/// What is collected while the tape is read.
struct Collecting {
    index: Index,
    processes: Processes,
    files: Files,
    streams: Streams,
    configs: Vec<Value>,
    records: u64,
    last_ms: u64,
}

/// Reads `tape`; the fields of its records take at most `bytes_max` bytes of the page.
///
/// # Errors
/// [`super::super::exit::Usage`] if there is no tape at this path.
pub fn collect(tape: &Path, bytes_max: usize) -> Result<Collected> {
    let mut reader = tape::open(tape)?;
    let header = reader.header().clone();
    let mut found = Collecting {
        index: Index::new(bytes_max),
        processes: Processes::default(),
        files: Files::default(),
        streams: Streams::default(),
        configs: Vec::new(),
        records: 0,
        last_ms: 0,
    };
    let mut damage = None;
    for record in reader.by_ref() {
        match record {
            Ok(record) => found.take(&record),
            Err(error) => damage = Some(shorten::text(&error.to_string(), shorten::TEXT_BYTES_MAX)),
        }
    }
    let is_cut_off = reader.is_cut_off();
    let store = TapeStore::of(tape);
    let Packed { columns, bytes, blocks } = found.index.finish();
    let mut annotations = TapeAnnotations::of(tape)?.to_json()?;
    let annotations_left_out = annotations.len().saturating_sub(ANNOTATIONS_MAX);
    annotations.truncate(ANNOTATIONS_MAX);
    let annotations = annotations.into_iter();
    let annotations = annotations.map(|said| shorten::value(said, ANNOTATION_BYTES_MAX)).collect();
    let Header { version, belljar_version, started_at_unix_ms, script_path, argv } = header;
    let cut = |text: &str| shorten::text(text, shorten::TEXT_BYTES_MAX);
    let summary = Summary {
        name: cut(&tape.file_name().unwrap_or_default().to_string_lossy()),
        version: version.to_string(),
        belljar_version: cut(&belljar_version),
        started_at_unix_ms,
        script_path: script_path.as_deref().map(cut),
        argv: argv.iter().take(ARGV_MAX).map(|arg| cut(arg)).collect(),
        records: found.records,
        last_ms: found.last_ms,
        is_cut_off,
        damage,
        is_partial: tape.extension().is_some_and(|extension| extension == "partial"),
        processes_left_out: found.processes.left_out,
        processes: found.processes.into_table(),
        configs: found.configs,
        annotations,
        annotations_left_out,
        columns,
    };
    Ok(Collected {
        summary,
        files: found.files.show(&store),
        output: found.streams.show(&store),
        columns: bytes,
        blocks,
    })
}

impl Collecting {
    fn take(&mut self, record: &Record) {
        self.records += 1;
        self.last_ms = self.last_ms.max(record.monotonic_ms);
        let at = self.index.len();
        let process = self.processes.note(at, record);
        let path = self.files.note(at, &record.kind);
        self.streams.note(at, process, &record.kind);
        if let Kind::Machine { config } = &record.kind
            && self.configs.len() < CONFIGS_MAX
        {
            self.configs.push(shorten::value(config.clone(), CONFIG_BYTES_MAX));
        }
        let phase = match record.phase {
            Phase::Setup => 0,
            Phase::Run => 1,
            Phase::Finalize => 2,
        };
        let state = phase | state_of(&record.kind);
        self.index.push(Row {
            seq: record.seq,
            kind: record.kind.name(),
            monotonic_ms: record.monotonic_ms,
            process,
            path,
            state,
            fields: record.kind.fields(),
        });
    }
}

/// Whether a record tells of something that does not exist, or did not work.
fn state_of(kind: &Kind) -> u8 {
    match kind {
        Kind::FileStat { found: Found::Errno { .. }, .. }
        | Kind::ProgramFind { mode: None, .. } => ABSENT,
        Kind::FileError { .. }
        | Kind::StreamError { .. }
        | Kind::Timeout { .. }
        | Kind::ClockLeak { .. }
        | Kind::Egress { allowed: false, .. }
        | Kind::Native {
            event: NativeEvent::Failed { .. } | NativeEvent::Lacking { .. }, ..
        } => TROUBLE,
        Kind::ProcessExit { exit_code, .. } if *exit_code != Some(0) => TROUBLE,
        _ => 0,
    }
}
