//! `belljar native`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::values::duration;
use crate::native::SandboxProfile;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar native --tape cc.jsonl cc -c a.c           record, or replay the tape
  belljar native --tape cc.jsonl --apply cc -c a.c   ... and write a.o
  belljar native --tape cc.jsonl --record cc -c a.c  record again
  belljar native --tape cc.jsonl --replay cc -c a.c  never run it: for CI
  belljar native --tape all.jsonl sh build.sh        a script with what it runs

The first time, the program of the host runs, and its output, its exit code and the files that it changed \
beneath --root go on the tape. Later it does not run: its output is printed again, and what it changed is shown, \
or written to the disk with --apply, without following links. Files that other tools may run or obey, such as \
those of .git, are never written.

A replay fails if the call differs from the tape, or if a file that the program read or changed is not as it was; the \
message names it. Which files are read is known on Linux; elsewhere the arguments tell.

Exit codes: the program's own; 1 if the call differs from the tape; 2 if a tape or directory cannot be used; 124 \
after --timeout; 125 if the files cannot be recorded or made again; 127 if there is no such program.")]
#[expect(clippy::struct_excessive_bools, reason = "the options of the command")]
pub struct NativeArgs {
    /// The process tape: recorded if it does not exist, else replayed; contents are in the directory FILE.cas
    #[arg(long, value_name = "FILE")]
    pub tape: PathBuf,

    /// Run the program and record it, also if the tape exists
    #[arg(long, conflicts_with = "replay")]
    pub record: bool,

    /// Replay the tape; it is an error if it does not exist
    #[arg(long)]
    pub replay: bool,

    /// The directory in which the program runs, and whose files are recorded
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub root: PathBuf,

    /// Leave out a path from the root, or everything of a name without a slash; may be repeated
    #[arg(long, value_name = "PATH")]
    pub ignore: Vec<String>,

    /// Write what a replayed program changed to the disk
    #[arg(long)]
    pub apply: bool,

    /// Print what a replayed program changed as a diff, after its output
    #[arg(long, conflicts_with = "apply")]
    pub diff: bool,

    /// Set a variable of the program; may be repeated. It also has those of belljar
    #[arg(short, long, value_name = "K=V")]
    pub env: Vec<OsString>,

    /// Give the program standard input, read to its end before it starts. Without it, its input is empty
    #[arg(long)]
    pub stdin: bool,

    /// What the program may do
    #[arg(long, value_name = "PROFILE", default_value_t = SandboxProfile::Unrestricted)]
    pub profile: SandboxProfile,

    /// End the program after this much real time
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,

    /// Print only errors, and the program's own output
    #[arg(short, long)]
    pub quiet: bool,

    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub command: Vec<OsString>,
}
