//! `belljar run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::groups::{AnswerArgs, CompileArgs, LimitArgs, MountArgs, RuleArgs, TimeArgs};
use super::values::{Sink, StdinFrom, guest_path};
use crate::native::SandboxProfile;

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:
  belljar run wc README.md                    count a file of this folder
  belljar run --diff replace old new a.txt    show what the program would change
  belljar run --apply replace old new a.txt   ... and change it
  belljar run --check fmt src                 fail if it would change something
  belljar run --toolchain DIR cc1 main.c      run DIR/cc1.wasm
  belljar run --dir lib::/lib::ro ./tool.wasm -L/lib
                                              mount a folder read-only
  belljar run --timeout 10s --json=r.json ./tool.wasm
                                              bound the time, report to a file

Exit codes: the program's own; 2 usage, 122 --check found changes, 123 applied, but a report is \
lost, 124 out of time, 125 belljar failed, 126 not runnable, 127 not found, 134 trapped \
or ended by a limit.

`belljar help run` says more.",
    after_long_help = "Examples:
  belljar run wc README.md
      Count the lines, words and bytes of a file of this folder.
  belljar run --diff replace old new a.txt
      Show, as a diff that `git apply` takes, what the program would change.
  belljar run --apply replace old new a.txt
      Let it run, and write what it changed to the disk.
  belljar run --check --diff fmt src
      Fail, and show why, if the program would change something: for continuous integration.
  belljar run --toolchain DIR cc1 -quiet main.c -o main.s
      Run DIR/cc1.wasm on main.c of this folder.
  belljar run --dir lib::/lib::ro ./tool.wasm -L/lib
      Give the program another folder, which it may only read.
  belljar run --timeout 10s --json=report.json ./tool.wasm
      Bound the time it may take, and write a report for a machine to read.
  belljar run --no-worktree --apply --dir H::G m.wasm
      Do what `wasmtime run --dir H::G m.wasm` does.

Sizes have a unit: B, K, M, G (or KB, MB, GB) are powers of 1000, KiB, MiB, GiB powers of 1024; \
`unlimited` is a size, too. Durations have a unit: 500ms, 10s, 1h 30m. --json, --diff and \
--trace take a file after `=` only, and replace no file that belljar did not write.

Exit codes: the program's own code passes through. Belljar's own are 2 (a command line that makes \
no sense, or names a file or folder that cannot be used), 122 (with --check: the program \
exited with 0, and would change something), 123 (the changes are on the disk, and a \
report of the run could not be written), 124 (out of time: --timeout, --virtual-timeout \
or --fuel), 125 (belljar itself failed, or --apply found a conflict), 126 (found, but not \
runnable), 127 (no such program) and 134 (the program trapped, or a limit ended it). \
--json says which it was.

Environment: BELLJAR_TOOLCHAIN lists further folders of programs, like PATH; BELLJAR_CACHE_DIR is \
where compiled code is kept."
)]
pub struct RunArgs {
    /// A program's name, or the path of a module (with a slash or ending in .wasm or .wat), and
    /// arguments for it: everything from here on is the program's
    // One positional, so that parsing stops at it: an option after PROGRAM must never be ours.
    #[arg(
        value_names = ["PROGRAM", "ARGS"], required = true, num_args = 1..,
        trailing_var_arg = true, allow_hyphen_values = true
    )]
    pub command: Vec<OsString>,

    /// A folder in which NAME.wasm is the program NAME; may be repeated
    #[arg(long, value_name = "DIR", help_heading = "Program")]
    pub toolchain: Vec<PathBuf>,

    /// The name that the program is called by [default: its file name without .wasm]
    #[arg(long, value_name = "NAME", help_heading = "Program")]
    pub argv0: Option<OsString>,

    /// Set a variable (K=V), or pass one through (K); the program sees no others
    #[arg(short, long, value_name = "K[=V]", help_heading = "Program")]
    pub env: Vec<OsString>,

    /// Where standard input comes from: inherit, null, or a file
    #[arg(long, value_name = "FROM", default_value = "inherit", help_heading = "Program")]
    pub stdin: StdinFrom,

    /// What to do about functions that the module imports and nobody defines
    #[arg(long, value_name = "WHAT", default_value = "trap", help_heading = "Program")]
    pub unknown_imports: UnknownImportsArg,

    /// What to do if no toolchain has a program, this one or one that it starts: refuse, or run the
    /// host's program of that name
    #[arg(long, value_name = "WHAT", default_value = "deny", help_heading = "Program")]
    pub on_missing: OnMissing,

    /// Whether the clock stands still while programs of the host run, or shows their time
    #[arg(long, value_name = "HOW", default_value = "free", help_heading = "Program")]
    pub native_time: NativeTime,

    /// What the host's program may do: unrestricted, worktree, os_hardened or wasi (not run)
    #[arg(long, value_name = "PROFILE", default_value_t, help_heading = "Program")]
    pub profile: SandboxProfile,

    /// Compile the module anew and keep nothing
    #[arg(long, help_heading = "Program")]
    pub no_cache: bool,

    #[command(flatten)]
    pub mounts: MountArgs,

    /// Where relative paths begin, in the guest's namespace [default: /worktree]
    #[arg(long, value_name = "DIR", conflicts_with = "no_worktree", value_parser = OsStringValueParser::new().try_map(guest_path), help_heading = "Files")]
    pub cwd: Option<String>,

    #[command(flatten)]
    pub time: TimeArgs,

    #[command(flatten)]
    pub limits: LimitArgs,

    #[command(flatten)]
    pub compile: CompileArgs,

    #[command(flatten)]
    pub rules: RuleArgs,

    #[command(flatten)]
    pub answers: AnswerArgs,

    /// Write the changes to the disk: always, or only if the program exits with 0
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "always", help_heading = "Afterwards")]
    pub apply: Option<ApplyArg>,

    /// Write nothing, and end with code 122 if the program would change something
    #[arg(long, conflicts_with = "apply", help_heading = "Afterwards")]
    pub check: bool,

    /// Print the changes as a diff that `git apply` takes, or write it to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Afterwards")]
    pub diff: Option<Sink>,

    /// Report in JSON how it went: as a last line on standard output, or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Reports")]
    pub json: Option<Sink>,

    /// Log every call of the program to standard error, or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Reports")]
    pub trace: Option<Sink>,

    /// Say nothing but errors
    #[arg(short, long, help_heading = "Reports")]
    pub quiet: bool,
}

impl RunArgs {
    /// The program's arguments.
    pub fn program_args(&self) -> &[OsString] {
        self.command.get(1..).unwrap_or_default()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ApplyArg {
    /// Whatever the program's exit code, as long as it ends by itself
    Always,
    /// If the exit code is 0
    Success,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum UnknownImportsArg {
    /// Run it; calling one is a trap
    Trap,
    /// Refuse to run it
    Deny,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum OnMissing {
    /// Refuse
    Deny,
    /// Run the host's program of that name
    Native,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum NativeTime {
    /// No time passes on a paused clock
    Free,
    /// When one has ended, its real time has passed since it began
    Charged,
}
