//! `belljar annotate` and `belljar annotations`.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, json};

use super::annotations::load;
use super::args::annotations::{AnnotateArgs, AnnotationsAction, AnnotationsArgs};
use super::exit::Usage;
use super::planted_links::check_here;
use super::tape;
use super::text::{count, printable};
use crate::base::{ambient, disk};
use crate::tape::{
    Annotation, AnnotationError, AnnotationFile, AnnotationKind, Author, AuthorKind,
    annotations_path,
};

/// Adds an annotation.
pub fn annotate(args: &AnnotateArgs) -> Result<u8> {
    expect_record(&args.tape, args.span.map_or(args.event, |s| s.end_event_id.max(args.event)))?;
    let path = annotations_path(&args.tape);
    check_here("TAPE", &path)?;
    let is_new = disk::symlink_metadata(&path).is_err();
    let mut file = if is_new { AnnotationFile::create(&args.tape)? } else { load(&args.tape)? };
    let now = jiff::Timestamp::from_nanosecond(ambient::wall_now_ns().into());
    let taken = |id: &str| file.annotations().any(|known| known.id == id);
    // One more than there are cannot all be taken.
    let numbers = 1..=file.annotations().len() + 1;
    let free = || numbers.map(|number| format!("a{number}")).find(|id| !taken(id));
    let annotation = Annotation {
        id: args.id.clone().or_else(free).unwrap_or_default(),
        event_id: args.event,
        kind: AnnotationKind::from(args.kind.clone()),
        evidence: args.evidence.clone(),
        suggested_fix: args.suggested_fix.clone(),
        author: Author {
            id: args.author.clone(),
            kind: AuthorKind::from(args.author_kind.clone()),
            surface: Some(args.surface.clone()),
        },
        timestamp: now.context("the host's clock")?.to_string(),
        span: args.span,
        hypothesis_status: args.status.clone().map(Into::into),
        friction_kind: args.friction.clone(),
        links: args.link.clone(),
        metadata: args
            .metadata
            .iter()
            .map(|(key, text)| (key.clone(), text.as_str().into()))
            .collect(),
        unknown: Map::new(),
    };
    match file.append(annotation.clone()) {
        Err(error @ AnnotationError::Invalid { .. }) => {
            let message = format!("{error} (see `belljar annotate --help` for kinds and options)");
            return Err(Usage(message).into());
        }
        appended => appended?,
    }
    if args.json {
        say!("{}", serde_json::to_string(&annotation)?);
    } else {
        say!("{}", printable(&annotation.id));
    }
    Ok(0)
}

/// Checks that the tape has a record `seq`: annotations are never removed, so a wrong one is refused first.
fn expect_record(path: &Path, seq: u64) -> Result<()> {
    let mut last = None;
    for record in tape::open(path)? {
        last = Some(record.map_err(Usage::because)?.seq);
        if last >= Some(seq) {
            return Ok(());
        }
    }
    let last =
        last.map_or("it has no records".to_owned(), |last| format!("its last one is {last}"));
    Err(Usage(format!("{} has no record {seq}: {last}", path.display())).into())
}

/// Checks or prints annotations.
pub fn run(args: &AnnotationsArgs) -> Result<u8> {
    match &args.action {
        AnnotationsAction::Validate { tape, json } => {
            let problems = load(tape)?.validate(tape).map_err(Usage::because)?;
            if *json {
                say!("{}", json!({ "valid": problems.is_empty(), "problems": problems }));
            } else {
                for problem in &problems {
                    let of = problem.annotation_id.as_deref().unwrap_or("the file");
                    say!(
                        "line {}: {}: {}",
                        problem.line,
                        printable(of),
                        printable(&problem.message)
                    );
                }
                say!("{}", count(problems.len(), "problem"));
            }
            Ok(if problems.is_empty() { 0 } else { super::exit::USAGE })
        }
        AnnotationsAction::Export { tape, kind } => {
            let kinds: Vec<_> = kind.iter().cloned().map(AnnotationKind::from).collect();
            for annotation in load(tape)?.export(&kinds) {
                say!("{}", serde_json::to_string(annotation)?);
            }
            Ok(0)
        }
    }
}
