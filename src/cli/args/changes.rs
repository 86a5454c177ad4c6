//! `belljar diff`, `apply` and `recover`.

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
  belljar apply run.tape                  write the changes to this directory
  belljar apply run.tape --worktree DIR   ... to another directory
  belljar apply run.tape --dir lib::/lib  ... and to the one mounted at /lib

Nothing is written unless every file that the run changed still is what the run found. If all of them \
are what the run left, the changes are applied already, and nothing is done.

Exit codes: 0 if the changes are on the disk, now or before, 2 if there is no such tape or directory, 125 if a \
file is not what the run found, or a content is missing.")]
pub struct ApplyArgs {
    /// The tape
    pub tape: PathBuf,

    /// The directory that stands for the worktree of the run
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub worktree: PathBuf,

    /// A directory that stands for another one of the run; may be repeated
    #[arg(long, value_name = "HOST::GUEST", value_parser = OsStringValueParser::new().try_map(dir_mount))]
    pub dir: Vec<DirMount>,

    /// Print only errors
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar recover                   recover this directory
  belljar recover DIR               ... another directory
  belljar recover --all             ... every directory that a journal names
  belljar recover --skip-changed    ... but leave files that have changed since
  belljar recover --forget DIR      drop the journals for a removed directory

Before belljar writes to the disk (`run --apply`, `sh --apply`, `apply`, `sandbox apply`, `sandbox cp`), it \
notes in a journal in BELLJAR_HOME what it is going to do. If it is killed, or the power \
is cut, the directory can hold some new files, some old ones, and temporaries. The next \
belljar that opens the directory, or this command, then undoes the changes, or, if \
every file was in place already, completes them. Only files that the journal names are touched.

Exit codes: 0 if nothing is left to do, also if there was nothing, 2 if there is no such \
directory, 125 if something cannot be recovered: the message says why, and what to do.")]
#[expect(clippy::struct_excessive_bools, reason = "the options of the command")]
pub struct RecoverArgs {
    /// The directory
    #[arg(default_value = ".", conflicts_with = "all")]
    pub dir: PathBuf,

    /// Recover every directory that a journal names
    #[arg(long)]
    pub all: bool,

    /// Leave files that have changed since as they are, and undo the rest
    #[arg(long)]
    pub skip_changed: bool,

    /// Give up the recovery of the directory DIR, which was removed
    #[arg(long, requires = "dir", conflicts_with_all = ["all", "skip_changed"])]
    pub forget: bool,

    /// Print the result as one line of JSON
    #[arg(long)]
    pub json: bool,
}
