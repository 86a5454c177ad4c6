//! `belljar diff`, `apply` and `recover`: what was changed, and the disk.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::values::{DirMount, dir_mount};

#[derive(Args, Debug)]
pub struct DiffArgs {
    /// The tape
    pub tape: PathBuf,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar apply run.tape                  make the changes of the run here
  belljar apply run.tape --worktree DIR   ... in that folder
  belljar apply run.tape --dir lib::/lib  ... and in the one mounted at /lib

Nothing is written unless everything that the run changed is what the run found. Where all of it \
is what the run left, it is applied already, and there is nothing to do.

Exit codes: 0 if the changes are made, now or before, 2 if there is no such tape or folder, 125 if something is \
not what the run found, or a content is missing.")]
pub struct ApplyArgs {
    /// The tape
    pub tape: PathBuf,

    /// The folder that stands for the worktree of the run
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub worktree: PathBuf,

    /// A folder that stands for a further one of the run; may be repeated
    #[arg(long, value_name = "HOST::GUEST", value_parser = OsStringValueParser::new().try_map(dir_mount))]
    pub dir: Vec<DirMount>,

    /// Say nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar recover                   see to this folder
  belljar recover DIR               ... to that one
  belljar recover --all             ... to every folder that a journal is about
  belljar recover --skip-changed    ... but leave files that have changed since

Whenever belljar writes to the disk (`run --apply`, `sh --apply`, `apply`, `sandbox cp`) it first \
notes what it is going to do in a journal in BELLJAR_HOME. If it is killed, or the power \
is cut, the folder may hold some new files, some old ones, and temporaries. The next \
belljar that opens the folder, or this command, then makes it what it was before, or, if \
every file had its place already, what it was to be. Nothing but what the journal names \
is touched.

Exit codes: 0 if there is nothing left to do, also if there never was, 2 if there is no such \
folder, 125 if something cannot be recovered: the message says why, and what to do.")]
pub struct RecoverArgs {
    /// The folder
    #[arg(default_value = ".", conflicts_with = "all")]
    pub dir: PathBuf,

    /// See to every folder that a journal is about
    #[arg(long)]
    pub all: bool,

    /// Leave what somebody has changed since as it is, and take the rest back
    #[arg(long)]
    pub skip_changed: bool,

    /// Print what was done as one line of JSON
    #[arg(long)]
    pub json: bool,
}
