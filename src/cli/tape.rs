//! `belljar tape`.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::annotations::TapeAnnotations;
use super::args::tape::TapeInspection;
use super::exit::{Hinted, Usage};
use super::started_natives::StartedNatives;
use super::terminal;
use super::text::{count, printable};
use crate::base::digest::Digest;
use crate::base::disk;
use crate::tape::{Record, TapeError, TapeReader, TapeStore};

/// Longest text of one field that `show` prints, in characters.
const SHOWN_CHARS_MAX: usize = 60;

pub fn run(action: &TapeInspection) -> Result<u8> {
    match action {
        TapeInspection::Show { tape, kind, json } => {
            let wanted =
                |record: &Record| kind.is_empty() || kind.iter().any(|k| k == record.kind.name());
            print(tape, *json, |record| wanted(record))?;
            Ok(0)
        }
        TapeInspection::Grep { text, tape, json } => {
            let contains = |record: &Record| {
                serde_json::to_string(record).is_ok_and(|line| line.contains(text.as_str()))
            };
            // As grep answers when nothing matches.
            Ok((print(tape, *json, contains)? == 0).into())
        }
        TapeInspection::Stat { tape, json } => stat(tape, *json),
        TapeInspection::Cat { tape, digest } => cat(tape, digest),
    }
}

/// The tape that an argument names.
///
/// # Errors
/// [`Usage`] if it cannot be read.
pub fn open(tape: &Path) -> Result<TapeReader> {
    TapeReader::open(tape).map_err(|error| {
        let is_missing = matches!(&error, TapeError::Disk(error) if error.source.kind() == io::ErrorKind::NotFound);
        let error = Usage::because(error);
        if !is_missing {
            return error.into();
        }
        let partial = tape.with_added_extension("partial");
        let hint = if disk::metadata(&partial).is_ok() {
            format!("{} is left from a recording that was killed", partial.display())
        } else {
            format!("`belljar record --tape {} -- PROGRAM` records one", tape.display())
        };
        Hinted { error: error.into(), hint }.into()
    })
}

/// Prints the records that are wanted; returns their number.
fn print(tape: &Path, json: bool, wanted: impl Fn(&Record) -> bool) -> Result<u64> {
    let mut reader = open(tape)?;
    let said = if json { TapeAnnotations::nothing() } else { TapeAnnotations::of(tape)? };
    let mut printed = 0;
    let mut out = io::stdout().lock();
    for record in reader.by_ref() {
        let record = record.map_err(Usage::because)?;
        if !wanted(&record) {
            continue;
        }
        printed += 1;
        let line = if json { serde_json::to_string(&record)? } else { shown(&record) };
        match writeln!(out, "{line}") {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(printed),
            written => written.context("cannot write to standard output")?,
        }
        for line in said.lines_of_record(record.seq) {
            let _ = writeln!(out, "{line}");
        }
    }
    if reader.is_cut_off() {
        note!("belljar: warning: line {} is cut off and left out", reader.line());
    }
    Ok(printed)
}

/// A record as a line of text.
pub fn shown(record: &Record) -> String {
    let mut line =
        format!("{:>6} {:>9} ms  {:<14}", record.seq, record.monotonic_ms, record.kind.name());
    for (name, value) in record.kind.fields() {
        let text = match &value {
            Value::String(text) => text.clone(),
            Value::Object(fields) if fields.len() == 1 && fields.contains_key("text") => {
                fields["text"].to_string()
            }
            other => other.to_string(),
        };
        // The first digits identify a digest.
        let keep = if name.ends_with("_hash") { 12 } else { SHOWN_CHARS_MAX };
        let mut short: String = text.chars().take(keep).collect();
        if short.len() < text.len() {
            short.push('…');
        }
        line.extend([" ", &name, "=", &short]);
    }
    printable(&line)
}

fn stat(tape: &Path, json: bool) -> Result<u8> {
    let mut reader = open(tape)?;
    let header = reader.header().clone();
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    let mut last_ms = 0;
    let mut ran = StartedNatives::default();
    for record in reader.by_ref() {
        let record = record.map_err(Usage::because)?;
        last_ms = record.monotonic_ms;
        ran.note(&record.kind);
        *kinds.entry(record.kind.name().to_owned()).or_default() += 1;
    }
    let records: u64 = kinds.values().sum();
    let cut_off = reader.is_cut_off();
    if json {
        say!(
            "{}",
            json!({
                "version": header.version, "belljar_version": header.belljar_version,
                "argv": header.argv, "records": records, "kinds": kinds,
                "virtual_time_ms": last_ms, "cut_off": cut_off, "host_programs": ran.names,
            })
        );
        return Ok(0);
    }
    let writer = printable(&header.belljar_version);
    say!("version  {}, written by belljar {writer}", header.version);
    say!("command  {}", printable(&header.argv.join(" ")));
    say!("time     {last_ms} ms on its own clock");
    say!("records  {records}{}", if cut_off { ", the last line is cut off" } else { "" });
    if !ran.is_empty() {
        say!("{ran}");
    }
    for (kind, number) in &kinds {
        say!("{number:>9}  {}", printable(kind));
    }
    Ok(0)
}

/// Copies `from` to standard output. A closed pipe is not an error.
fn copy_to_stdout(from: &mut impl Read) -> io::Result<()> {
    match io::copy(from, &mut terminal::Stdout) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        copied => copied.map(drop),
    }
}

fn cat(tape: &Path, digest: &str) -> Result<u8> {
    open(tape)?;
    let store = TapeStore::of(tape);
    store.expect_there().context("cannot read the content")?;
    let found: Vec<Digest> = store
        .digests()?
        .into_iter()
        .filter(|known| known.to_string().starts_with(digest))
        .collect();
    match found[..] {
        [digest] => {
            let mut file = store.open(digest, u64::MAX).context("cannot read the content")?;
            copy_to_stdout(&mut file).context("cannot print the content")?;
            Ok(0)
        }
        [] => Err(Usage(format!(
            "no content in {} has a digest that begins with {digest:?}",
            store.dir().display()
        ))
        .into()),
        _ => {
            let many = count(found.len(), "content");
            Err(Usage(format!("{many} have a digest that begins with {digest:?}: give more of it"))
                .into())
        }
    }
}
