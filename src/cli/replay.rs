//! `belljar replay`.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use super::annotations::TapeAnnotations;
use super::args::replay::ReplayArgs;
use super::exit;
use super::home;
use super::started_natives::StartedNatives;
use super::text::{count, printable};
use super::{setup, sink, tape, terminal};
use crate::base::digest::Digest;
use crate::base::disk;
use crate::store::StoreError;
use crate::tape::{Desync, Kind, NativeEvent, TapeError, TapeStore};
use crate::testbench::{ReplayError, Replayed, replay};
use crate::{Engine, EngineConfig, Limit, Limits, Module};

/// Longest module that is read because a tape names it, in bytes.
const MODULE_BYTES_MAX: u64 = 1 << 30;

pub fn run(args: &ReplayArgs) -> Result<u8> {
    #[cfg(feature = "mcp")]
    if crate::mcp::has_calls(&args.tape).is_ok_and(|has| has) {
        return super::mcp::replay(args);
    }
    let header = tape::open(&args.tape)?.header().clone();
    let said = TapeAnnotations::of(&args.tape)?;
    let cache_dir = home::cache_dir().ok();
    let engine = Engine::new(EngineConfig {
        pool_slots: 0,
        cache_dir,
        tier: args.tier.into(),
        optimize_in_background: false,
        ..EngineConfig::default()
    })?;
    let named = header.argv.first().map(PathBuf::from);
    let load = |name: &str, digest: Option<Digest>| {
        find(args, named.as_deref(), name, digest).map_err(|error| format!("{error:#}"))
    };
    let bounds = Limits {
        timeout: Some(args.timeout),
        memory_bytes_max: args.max_memory,
        output_bytes_max: args.max_output,
        ..Limits::default()
    };
    match replay(&engine, &args.tape, &bounds, load) {
        Ok(replayed) => tell_same(args, &said, &replayed),
        Err(ReplayError::Tape(TapeError::Desync(desync))) => tell_different(args, &said, &desync),
        Err(error) => Err(error).context("cannot replay it"),
    }
}

/// Prints the output of the run; returns its exit code.
fn tell_same(args: &ReplayArgs, said: &TapeAnnotations, replayed: &Replayed) -> Result<u8> {
    let ran = StartedNatives::on(&args.tape)?;
    let code = match replayed.outputs.last() {
        None => 0,
        Some(Ok(output)) => exit::of_outcome(output.status.outcome()),
        Some(Err(error)) => exit::of_run_error(error),
    };
    if args.json {
        let said = said.to_json()?;
        let line = json!({
            "equal": true, "records": replayed.records, "exit_code": code,
            "annotations": said, "host_programs": ran.names,
        });
        say!("{line}");
        return Ok(code);
    }
    for output in &replayed.outputs {
        match output {
            Ok(output) => {
                sink::print(&output.stdout);
                let _ = terminal::Stderr.write_all(&output.stderr);
            }
            Err(error) => note!("belljar: {}", printable(&error.to_string())),
        }
    }
    if !args.quiet {
        show_annotated(&args.tape, said, u64::MAX)?;
        let records = count(usize::try_from(replayed.records).unwrap_or(usize::MAX), "record");
        note!("belljar: the run is the same, in {records}");
        if !ran.is_empty() {
            note!("belljar: note: {ran}; what they did comes from the tape");
        }
    }
    Ok(code)
}

/// Prints where the run differs from its tape, and why, as far as that is known.
fn tell_different(args: &ReplayArgs, said: &TapeAnnotations, desync: &Desync) -> Result<u8> {
    if let Some(error) = lost(&TapeStore::of(&args.tape), desync) {
        return Err(error).context("cannot replay it");
    }
    let bound = ending_limit(args, desync)?;
    if args.json {
        let difference = |(field, tape, run)| json!({ "field": field, "tape": tape, "run": run });
        let differences: Vec<_> = desync.differences().into_iter().map(difference).collect();
        let said = said.of_record_to_json(desync.seq())?;
        let line = json!({
            "equal": false, "seq": desync.seq(), "expected": desync.expected,
            "found": desync.found, "differences": differences, "annotations": said,
            "withheld": desync.withheld.as_ref().map(|withheld| withheld.seq),
            "limit": bound.map(|(limit, _)| limit),
        });
        say!("{line}");
    } else {
        if !args.quiet {
            show_annotated(&args.tape, said, desync.seq())?;
        }
        let message = desync.to_string();
        let lines: Vec<String> = message.lines().map(printable).collect();
        complain!("belljar: {}", lines.join("\n"));
        if let Some((limit, option)) = bound {
            note!("belljar: note: the replay was ended: {limit} (raise it with {option})");
        }
    }
    // A replay that was ended, or that lacks a withheld content, does not tell whether the run differs.
    let is_unknown = desync.withheld.is_some() || bound.is_some();
    Ok(if is_unknown { exit::FAILED } else { exit::DIFFERENT })
}

/// Why the store lacks the content of the record at which the run differs: then the difference is not one
/// of the run.
fn lost(store: &TapeStore, desync: &Desync) -> Option<StoreError> {
    if desync.withheld.is_some() {
        return None;
    }
    match &desync.expected.as_ref()?.kind {
        Kind::FileRead { content_hash, len_bytes, withheld_by: None, .. } => {
            store.open(*content_hash, *len_bytes).err()
        }
        Kind::DirList { entries: told, .. }
        | Kind::LinkRead { target: told, .. }
        | Kind::StreamRead { bytes: told, .. }
        | Kind::Native { event: NativeEvent::Output { bytes: told, .. }, .. } => {
            told.bytes(store).err()
        }
        _ => None,
    }
}

/// The bound of the replay that ended it where the tape shows the run going on, or ending by itself: its
/// name, and the option that sets it.
fn ending_limit(
    args: &ReplayArgs,
    desync: &Desync,
) -> Result<Option<(&'static str, &'static str)>> {
    let [expected, found] = [&desync.expected, &desync.found].map(|record| {
        let kind = record.as_ref().map(|record| &record.kind);
        matches!(kind, Some(Kind::ProcessExit { status, .. }) if status == Limit::Timeout.name())
    });
    if found && !expected {
        return Ok(Some((Limit::Timeout.name(), "--timeout")));
    }
    if desync.lacks_memory {
        return Ok(Some((Limit::Memory.name(), "--max-memory")));
    }
    // The write that meets the bound is cut short.
    let mut output_bytes: u64 = 0;
    for record in tape::open(&args.tape)? {
        let record = record?;
        if record.seq > desync.seq() {
            break;
        }
        if let Kind::StreamWrite { bytes, .. } = record.kind {
            output_bytes = output_bytes.saturating_add(bytes.len_bytes());
        }
    }
    Ok((output_bytes > args.max_output).then_some((Limit::Output.name(), "--max-output")))
}

/// Prints the annotated records up to number `last`, with their annotations.
fn show_annotated(tape: &Path, said: &TapeAnnotations, last: u64) -> Result<()> {
    if said.is_nothing() {
        return Ok(());
    }
    for record in tape::open(tape)? {
        let record = record?;
        if record.seq > last {
            break;
        }
        let lines = said.lines_of_record(record.seq);
        if !lines.is_empty() {
            note!("{}", tape::shown(&record));
        }
        for line in lines {
            note!("{line}");
        }
    }
    Ok(())
}

/// The module of the program `name`: from `--module`, the tape, the toolchains, or the path in the recorded
/// command line.
fn find(
    args: &ReplayArgs,
    named: Option<&Path>,
    name: &str,
    digest: Option<Digest>,
) -> Result<Module> {
    let is_it = |module: &Module| digest.is_none_or(|digest| module.digest() == digest);
    for path in &args.module {
        let module = Module::read(path)?;
        if is_it(&module) {
            return Ok(module);
        }
    }
    let embedded = || {
        let bytes = TapeStore::of(&args.tape).get(digest?, MODULE_BYTES_MAX).ok()?;
        Module::from_bytes(name, bytes).ok()
    };
    // A recording needs nothing of the project that it is replayed in.
    let (toolchains, unread) = match setup::toolchains(&args.toolchain) {
        Ok(toolchains) => (Some(toolchains), None),
        Err(error) => (setup::named_toolchains(&args.toolchain).ok(), Some(error)),
    };
    // Names, never paths: the tape is not trusted. The first program's name can differ from its module's.
    let callable = [Some(name), named.and_then(Path::to_str)];
    let by_name = || {
        let toolchains = toolchains.as_ref()?;
        let all = callable.into_iter().flatten().flat_map(|name| toolchains.all(name));
        all.filter_map(|resolved| resolved.module().ok()).find(is_it)
    };
    let at_path = || {
        let path = named?;
        let metadata = disk::metadata(path).ok()?;
        let is_module = metadata.is_file() && metadata.len() <= MODULE_BYTES_MAX;
        if is_module { Module::read(path).ok() } else { None }
    };
    let candidates: [&dyn Fn() -> Option<Module>; 3] = [&embedded, &by_name, &at_path];
    let found = candidates.into_iter().filter_map(|find| find()).find(is_it);
    found.with_context(|| {
        if let Some(path) = args.module.last() {
            return format!("--module {} is not the recorded module", path.display());
        }
        let unread = unread.map_or_else(String::new, |error| {
            format!("; not looked for in all toolchains: {error:#}")
        });
        format!(
            "cannot find the recorded module of {name} (digest {}); name it with --module, or its \
             directory with --toolchain, or record with --embed-program{unread}",
            digest.map_or_else(|| "unknown".to_owned(), |digest| digest.to_string())
        )
    })
}
