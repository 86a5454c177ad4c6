//! `belljar annotate` and `annotations`.

use std::path::PathBuf;

use clap::Args;

use crate::tape::Span;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar annotate run.tape --event 7 --kind incorrect --evidence no --author me
  belljar annotate run.tape --event 7 --span 5..9 --kind marker --author me
  belljar annotations validate run.tape

Kinds: correct, incorrect, alternative, note, marker, mute, hypothesis (with --status active, \
verifying, confirmed, disproven or stale), friction (with --friction WHAT), \
crystallize_here.")]
pub struct AnnotateArgs {
    /// The tape; annotations are kept in TAPE.annotations.jsonl
    pub tape: PathBuf,

    /// The annotated record, by its `seq`
    #[arg(long, value_name = "SEQ")]
    pub event: u64,

    /// The kind of annotation
    #[arg(long, value_name = "KIND", default_value = "note")]
    pub kind: String,

    /// The evidence for it
    #[arg(long, value_name = "TEXT")]
    pub evidence: Option<String>,

    /// What should have been done instead
    #[arg(long, value_name = "TEXT")]
    pub suggested_fix: Option<String>,

    /// The author
    #[arg(long, value_name = "NAME")]
    pub author: String,

    /// The kind of author: human, agent or system
    #[arg(long, value_name = "WHAT", default_value = "human")]
    pub author_kind: String,

    /// The annotated records, if there are several: FIRST..LAST
    #[arg(long, value_name = "FIRST..LAST", value_parser = span)]
    pub span: Option<Span>,

    /// The status of a hypothesis
    #[arg(long, value_name = "STATUS")]
    pub status: Option<String>,

    /// The kind of friction
    #[arg(long, value_name = "WHAT")]
    pub friction: Option<String>,

    /// The tool or place in which the annotation is made
    #[arg(long, value_name = "WHERE", default_value = "cli")]
    pub surface: String,

    /// A further field, as text; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = metadata)]
    pub metadata: Vec<(String, String)>,

    /// A link to more information; may be repeated
    #[arg(long, value_name = "URL")]
    pub link: Vec<String>,

    /// The id of the annotation [default: a free one]
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
    /// Print all problems of a tape's annotations; exits with 2 if there are any
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
    parts.ok_or_else(|| format!("{text:?} is not a span: use FIRST..LAST, such as 3..7"))
}

fn metadata(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = pair.ok_or_else(|| format!("{text:?} is not of the form KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}
