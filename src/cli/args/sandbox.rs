//! `belljar sandbox`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::groups::{
    AnswerArgs, CompileArgs, LimitArgs, MountArgs, ResultArgs, RuleArgs, TimeArgs,
};
use super::values::{Sink, StdinFrom, duration};

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar sandbox create --id box               a session over this directory
  belljar sandbox exec box -- sh -c 'ls > out'  run a program in it
  belljar sandbox diff box                      show its changes
  belljar sandbox apply box                     write them to the directory
  belljar sandbox refresh box                   take in changes of the directory
  belljar sandbox snapshot box                  keep its state; prints an id
  belljar sandbox fork SNAPSHOT                 a new session from that state
  belljar sandbox cp box:out .                  copy a file out of it
  belljar sandbox rm box && belljar sandbox gc  remove it and its contents

Environment: BELLJAR_HOME is where sessions are kept.

See also `belljar help sandbox COMMAND`.")]
pub struct SandboxArgs {
    #[command(subcommand)]
    pub action: SandboxAction,
}

#[derive(Subcommand, Debug)]
pub enum SandboxAction {
    /// Make a session and print its id
    Create(Box<CreateArgs>),
    /// Run a program in a session
    Exec(Box<ExecArgs>),
    /// Copy a file or a tree into a session, or out of it
    Cp(CpArgs),
    /// List a directory of a session or a snapshot
    Ls(LsArgs),
    /// Print the changes of a session or snapshot, or between two, as a diff that `git apply` takes
    Diff(DiffArgs),
    /// Write the changes of a session to the directories of the host, all or nothing
    Apply(ApplyArgs),
    /// Take in what has changed in the directories of the host since the session began
    Refresh(RefreshArgs),
    /// Keep the state of a session, and print the snapshot's id
    Snapshot(SnapshotArgs),
    /// Make a session from a snapshot, under a new id, and print that
    Fork(ForkArgs),
    /// Make a session from a snapshot, under the id of the session that it was made of
    Resume(ForkArgs),
    /// Remove sessions and snapshots
    Rm(RmArgs),
    /// Remove contents that no session and no snapshot uses
    Gc(GcArgs),
    /// List sessions and snapshots
    List(ListArgs),
    /// Print the settings and state of a session or a snapshot
    Show(ShowArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar sandbox create                         this directory, at /worktree
  belljar sandbox create --id box --no-worktree  only /tmp and /mnt
  belljar sandbox create --dir lib::/lib::ro --toolchain tools --timeout 10s
  belljar sandbox create --host-policy policy.json --allow-net api.example.com

All options are kept: directories by their absolute paths, limits for each program that runs, the \
policy as it is now. Changes of programs belong to the session; the disk stays as it is.")]
pub struct CreateArgs {
    /// The session's id: letters, digits, `-`, `_` and `.` [default: a new one]
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,

    /// A directory in which NAME.wasm is the program NAME; may be repeated
    #[arg(long, value_name = "DIR", help_heading = "Programs")]
    pub toolchain: Vec<PathBuf>,

    /// Set a variable (K=V), or pass one through (K); may be repeated. Others are not passed on
    #[arg(short, long, value_name = "K[=V]", help_heading = "Programs")]
    pub env: Vec<OsString>,

    #[command(flatten)]
    pub mounts: MountArgs,

    #[command(flatten)]
    pub time: TimeArgs,

    #[command(flatten)]
    pub limits: LimitArgs,

    #[command(flatten)]
    pub rules: RuleArgs,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar sandbox exec box -- wc -l README.md
  belljar sandbox exec box -- sh -c 'sort in > out'
  belljar sandbox exec --timeout 5s --json box -- ./tool.wasm
  belljar sandbox exec -e MODE=fast --cwd /tmp box -- sh -c 'echo $MODE > out'
  belljar sandbox exec box -- wc -l < list.txt  standard input is belljar's own

Options come before PROGRAM; everything after it belongs to the program.

Programs run one after the other: a second `exec` waits. If belljar is killed with a \
program, the session is as it was before that program.

--timeout and --virtual-timeout hold in addition to those that the session was created with.

Exit codes are those of `belljar run`; 2 also if there is no such session.")]
pub struct ExecArgs {
    /// The session
    #[arg(value_name = "ID")]
    pub id: String,

    /// A program's name, or, with a slash, its path in the session, and its arguments
    #[arg(
        value_names = ["PROGRAM", "ARGS"], required = true, num_args = 1..,
        trailing_var_arg = true, allow_hyphen_values = true
    )]
    pub command: Vec<OsString>,

    /// Where relative paths begin [default: /worktree if there is a worktree, else /]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<String>,

    /// Set a variable (K=V), or pass one through (K), in addition to those of the session
    #[arg(short, long, value_name = "K[=V]")]
    pub env: Vec<OsString>,

    /// Where standard input comes from: inherit, null, or a file
    #[arg(long, value_name = "FROM", default_value = "inherit")]
    pub stdin: StdinFrom,

    /// End the program after this much real time
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,

    /// End the program after this much time on the session's clock
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub virtual_timeout: Option<Duration>,

    #[command(flatten)]
    pub compile: CompileArgs,

    #[command(flatten)]
    pub results: ResultArgs,

    #[command(flatten)]
    pub answers: AnswerArgs,

    /// Write a report in JSON: as the last line on standard output, or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub json: Option<Sink>,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar sandbox cp box:out .                 a file or tree, from the session
  belljar sandbox cp box:out/. here            or only what is in it
  belljar sandbox cp notes.txt box:/tmp/n.txt  ... and into the session

One side is ID:/PATH, or ID:PATH, which begins at /worktree if there is a worktree; write ./ \
before a path of the host that looks like one. Into a directory, a file or tree is copied \
under its own name; directories are merged, anything else is replaced. Symbolic links are copied \
as links, and none is followed. On the host everything is written, or nothing.")]
pub struct CpArgs {
    /// What to copy
    #[arg(value_name = "FROM")]
    pub from: OsString,

    /// The destination
    #[arg(value_name = "TO")]
    pub to: OsString,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar sandbox ls box                        the worktree
  belljar sandbox ls box sub                    a directory in it
  belljar sandbox ls box /tmp
  belljar sandbox exec box -- ls -la sub        ... with sizes and times")]
pub struct LsArgs {
    /// The session or snapshot
    pub id: String,

    /// The directory, or a file. Relative paths begin at /worktree if there is a worktree, else at /
    /// [default: where these begin]
    pub path: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar sandbox diff box              show its changes
  belljar sandbox diff box | git apply  merge them into this directory
  belljar sandbox apply box             ... or write them, if it is unchanged
  belljar sandbox diff box attempt      the changes that turn box into attempt

Two sessions or snapshots can be compared if they see the same directories of the host. Differences \
because a directory itself changed between their beginnings are not shown.

A session is compared with the directory as it was when the session began, or was last refreshed or \
applied. Of a session with several directories of the host, `belljar sandbox cp` copies what \
is in one of them.")]
pub struct DiffArgs {
    /// The session or snapshot
    pub id: String,

    /// Print the changes that turn the first one into this one
    #[arg(value_name = "OTHER")]
    pub other: Option<String>,

    /// Print the changes as JSON, without contents
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar sandbox diff box                      show what would be written
  belljar sandbox apply box                     write it

Nothing is written if something on the disk changed that the session has read or changed; the \
conflicts are named. From then on the session is compared with what was written. If belljar \
is killed while it writes, the next belljar completes or undoes the changes; see `belljar \
help recover`.

Exit codes: 0 if everything is written, also if there is nothing to write, 2 if there is no such session, \
125 if there are conflicts, or the disk cannot be written.")]
pub struct ApplyArgs {
    /// The session
    pub id: String,

    /// Print the changes as JSON, without contents
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar sandbox refresh box            take in changes, name conflicts
  belljar sandbox refresh --discard box  ... and give up the session's changes

A session shows directories of the host as they were when it began. A file that was changed there since, and \
that the session had not looked at, cannot be shown: programs get an I/O error, and belljar names the \
path. `refresh` takes in the directories as they are now, and keeps the changes of the session. What \
changed on both sides is a conflict: the session keeps its own version, and still compares \
it with what it began with, so that `belljar sandbox diff box | git apply` merges the \
two.

Exit codes: 0 if everything is taken in, 1 if there are conflicts, 2 if there is no such session, 125 if \
a directory cannot be read.")]
pub struct RefreshArgs {
    /// The session
    pub id: String,

    /// Give up the session's changes in directories of the host
    #[arg(long)]
    pub discard: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct SnapshotArgs {
    /// The session
    pub id: String,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar sandbox fork box                    a copy of box
  belljar sandbox fork 1f2e3d4c --id attempt  ... of a snapshot, as attempt
  belljar sandbox resume 1f2e3d4c             ... under its session's id

A fork has a new id, so that a snapshot can be forked any number of times. A resumed session \
has the id of the session that the snapshot was made of; no other session may have that id. \
Both take the id of --id if it is given. The first eight digits of a snapshot's id are enough.")]
pub struct ForkArgs {
    /// The snapshot, or a session in its current state
    #[arg(value_name = "SNAPSHOT")]
    pub from: String,

    /// The id of the new session
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar sandbox rm box attempt                two sessions
  belljar sandbox rm 1f2e3d4c                   a snapshot

Forks of what is removed stay. Exit codes: 0 if all are removed, 2 if one does not exist; the others \
are removed all the same.")]
pub struct RmArgs {
    /// Sessions and snapshots
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct GcArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct ShowArgs {
    /// The session or snapshot
    pub id: String,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
