//! `belljar tape view`: a page to look at a run, or at two of them side by side.

mod collect;
mod compare;
mod files;
mod index;
mod output;
mod page;
mod processes;
mod shorten;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use self::collect::Collected;
use self::index::packed;
use self::page::Page;
use super::args::tape::ViewArgs;
use super::exit::Usage;
use super::planted_links::check_here;
use super::replaceable::Written;
use super::sink;
use super::text::{count, printable};
use crate::base::atomic_file;
use crate::base::disk::DiskError;

pub fn run(args: &ViewArgs) -> Result<u8> {
    let to = Target::of(args);
    match &to {
        Target::File(path) => {
            check_here("-o", path)?;
            Written::Page.check(path)?;
        }
        Target::Stdout if args.json => {
            let message = "--json: standard output has the page; name a file with -o".to_owned();
            return Err(Usage(message).into());
        }
        Target::Stdout => {}
    }
    let tapes: Vec<&Path> =
        std::iter::once(&args.tape).chain(&args.other).map(PathBuf::as_path).collect();
    let bytes_max = usize::try_from(args.max_page).unwrap_or(usize::MAX) / tapes.len();
    let mut page = Page::new();
    let mut report = Vec::new();
    for (letter, tape) in ["a", "b"].iter().zip(&tapes) {
        let found = collect::collect(tape, bytes_max)?;
        tell_missing(tape, &found);
        report.push(json!({
            "tape": tape.to_string_lossy(),
            "records": found.summary.records,
            "cut_off": found.summary.is_cut_off,
            "damage": found.summary.damage,
        }));
        add(&mut page, letter, &found)?;
    }
    let differences = match &tapes[..] {
        [a, b] => Some(compare::add(&mut page, a, b)?),
        _ => None,
    };
    let html = page.finish();
    match &to {
        Target::Stdout => sink::print(html.as_bytes()),
        Target::File(path) => {
            atomic_file::write_shared_with(path, |file| {
                file.write_all(html.as_bytes()).map_err(DiskError::new("write", path))
            })
            .context("-o")?;
            if args.json {
                let report = json!({
                    "page": path.to_string_lossy(), "bytes": html.len(), "tapes": report,
                    "differences": differences,
                });
                say!("{report}");
            } else {
                say!("{}", printable(&path.to_string_lossy()));
            }
        }
    }
    Ok(0)
}

/// Where the page goes.
enum Target {
    Stdout,
    File(PathBuf),
}

impl Target {
    fn of(args: &ViewArgs) -> Self {
        match &args.output {
            Some(path) if path.as_os_str() == "-" => Self::Stdout,
            Some(path) => Self::File(path.clone()),
            None => Self::File(args.tape.with_added_extension("html")),
        }
    }
}

/// Warns of what is missing on the tape.
fn tell_missing(tape: &Path, found: &Collected) {
    let name = printable(&tape.to_string_lossy());
    let records = count(usize::try_from(found.summary.records).unwrap_or(usize::MAX), "record");
    if let Some(damage) = &found.summary.damage {
        note!("belljar: warning: {damage}: the page ends there, after {records}");
    }
    if found.summary.is_cut_off {
        note!("belljar: warning: the last line of {name} is cut off and left out, after {records}");
    }
}

fn add(page: &mut Page, letter: &str, found: &Collected) -> Result<()> {
    page.add(&format!("{letter}-summary"), &packed(&serde_json::to_vec(&found.summary)?));
    page.add(&format!("{letter}-columns"), &found.columns);
    page.add(&format!("{letter}-files"), &packed(&serde_json::to_vec(&found.files)?));
    page.add(&format!("{letter}-output"), &packed(&serde_json::to_vec(&found.output)?));
    for (at, block) in found.blocks.iter().enumerate() {
        page.add(&format!("{letter}-block-{at}"), block);
    }
    Ok(())
}
