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
