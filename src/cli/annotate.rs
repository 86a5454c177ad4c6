//! `belljar annotate` and `belljar annotations`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use belljar::base::{ambient, disk};
use belljar::tape::{
    Annotation, AnnotationError, AnnotationFile, AnnotationKind, Author, AuthorKind,
    HypothesisStatus, Span, annotations_path,
};
use clap::Args;
use serde_json::{Map, json};

use super::exit::Usage;
use super::report::{count, printable};
use super::tape;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar annotate run.tape --event 7 --kind incorrect --evidence no --author me
  belljar annotate run.tape --event 7 --span 5..9 --kind marker --author me
  belljar annotations validate run.tape

Kinds: correct, incorrect, alternative, note, marker, mute, hypothesis (with --status active, \
verifying, confirmed, disproven or stale), friction (with --friction WHAT), \
crystallize_here.")]
pub struct AnnotateArgs {
    /// The tape; what is said of it goes to TAPE.annotations.jsonl
    pub tape: PathBuf,

    /// The record that it is about, by its `seq`
    #[arg(long, value_name = "SEQ")]
    pub event: u64,

    /// What it says
    #[arg(long, value_name = "KIND", default_value = "note")]
    pub kind: String,

    /// Why
    #[arg(long, value_name = "TEXT")]
    pub evidence: Option<String>,

    /// What to do instead
    #[arg(long, value_name = "TEXT")]
    pub suggested_fix: Option<String>,

    /// Who says it
    #[arg(long, value_name = "NAME")]
    pub author: String,

    /// What the author is: human, agent or system
    #[arg(long, value_name = "WHAT", default_value = "human")]
    pub author_kind: String,

    /// The records that it is about, if it is more than one: FIRST..LAST
    #[arg(long, value_name = "FIRST..LAST", value_parser = span)]
    pub span: Option<Span>,

    /// How a hypothesis stands
    #[arg(long, value_name = "STATUS")]
    pub status: Option<String>,

    /// What got in the way, for a friction
    #[arg(long, value_name = "WHAT")]
    pub friction: Option<String>,

    /// Where it is made
    #[arg(long, value_name = "WHERE", default_value = "cli")]
    pub surface: String,

    /// Anything else, as text; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = metadata)]
    pub metadata: Vec<(String, String)>,

    /// Where there is more; may be repeated
    #[arg(long, value_name = "URL")]
    pub link: Vec<String>,

    /// Its name [default: one that is free]
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,

    /// Print the annotation as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct AnnotationsArgs {
    #[command(subcommand)]
    pub action: AnnotationsAction,
}

#[derive(clap::Subcommand, Debug)]
pub enum AnnotationsAction {
    /// Say all that is wrong with a tape's annotations; exits with 2 if something is
    Validate {
        /// The tape
        tape: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a tape's annotations, one JSON object a line
    Export {
        /// The tape
        tape: PathBuf,
        /// Only those of this kind; may be repeated
        #[arg(long, value_name = "KIND")]
        kind: Vec<String>,
    },
}

fn span(text: &str) -> Result<Span, String> {
    let parts = text.split_once("..").and_then(|(first, last)| {
        Some(Span { start_event_id: first.parse().ok()?, end_event_id: last.parse().ok()? })
    });
    parts.ok_or_else(|| format!("{text:?} is no span: use FIRST..LAST, such as 3..7"))
}

fn metadata(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = pair.ok_or_else(|| format!("{text:?} is not of the form KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Adds an annotation.
pub fn annotate(args: &AnnotateArgs) -> Result<u8> {
    expect_record(&args.tape, args.span.map_or(args.event, |s| s.end_event_id.max(args.event)))?;
    let is_new = disk::symlink_metadata(&annotations_path(&args.tape)).is_err();
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
            let message = format!("{error} (`belljar annotate --help` has kinds and options)");
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

/// That the tape has a record `seq`: what is said stays said, so that a slip is better found before.
fn expect_record(path: &Path, seq: u64) -> Result<()> {
    let mut last = None;
    for record in tape::open(path)? {
        last = Some(record.map_err(Usage::because)?.seq);
        if last >= Some(seq) {
            return Ok(());
        }
    }
    let last = last.map_or("it has none".to_owned(), |last| format!("its last is {last}"));
    Err(Usage(format!("{} has no record {seq}: {last}", path.display())).into())
}

/// Looks after annotations.
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

/// The annotations of a tape.
pub fn load(tape: &Path) -> Result<AnnotationFile> {
    let path = annotations_path(tape);
    Ok(AnnotationFile::load(&path).map_err(Usage::because)?)
}

/// The annotations of a tape, if it has any.
pub fn find(tape: &Path) -> Result<Option<AnnotationFile>> {
    let is_annotated = disk::symlink_metadata(&annotations_path(tape)).is_ok();
    if is_annotated { load(tape).map(Some) } else { Ok(None) }
}

/// An annotation on a line of its own, to stand below its record.
pub fn shown(said: &Annotation) -> String {
    let status = said.hypothesis_status.as_ref().map(HypothesisStatus::name);
    let what = status.or(said.friction_kind.as_deref()).map(|what| format!(", {what}"));
    let mut line = format!("{}{} ({})", said.kind, what.unwrap_or_default(), said.author.id);
    let evidence = said.evidence.as_ref().map(|evidence| format!(": {evidence}"));
    let fix = said.suggested_fix.as_ref().map(|fix| format!("; instead: {fix}"));
    let links = (!said.links.is_empty()).then(|| format!("; see {}", said.links.join(", ")));
    line.extend([evidence, fix, links].into_iter().flatten());
    format!("       # {}", printable(&line))
}
