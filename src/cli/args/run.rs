//! `belljar run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::groups::{
    AnswerArgs, CompileArgs, LimitArgs, MountArgs, ResultArgs, RuleArgs, TimeArgs,
};
use super::values::{Sink, StdinFrom, guest_path};
use crate::native::SandboxProfile;

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:
  belljar run wc README.md                    count a file of this directory
  belljar run --diff replace old new a.txt    show what the program would change
  belljar run --apply replace old new a.txt   ... and write the changes
  belljar run --check fmt src                 fail if it would change something
  belljar run --toolchain DIR cc1 main.c      run DIR/cc1.wasm
  belljar run --dir lib::/lib::ro ./tool.wasm -L/lib
                                              mount a directory read-only
  belljar run --timeout 10s --json=r.json ./tool.wasm
                                              limit the time, report to a file

Exit codes: the program's own; 2 usage, 122 --check found changes, 123 applied, but a report is \
lost, 124 out of time, 125 belljar failed, 126 not runnable, 127 not found, 134 trapped \
or ended by a limit.

See also `belljar help run`.",
    after_long_help = "Examples:
  belljar run wc README.md
      Count the lines, words and bytes of a file of this directory.
  belljar run --diff replace old new a.txt
      Show what the program would change, as a diff that `git apply` takes.
  belljar run --apply replace old new a.txt
      Run it, and write its changes to the disk.
  belljar run --check --diff fmt src
      Fail, and show why, if the program would change something: for continuous integration.
  belljar run --toolchain DIR cc1 -quiet main.c -o main.s
      Run DIR/cc1.wasm on main.c of this directory.
  belljar run --dir lib::/lib::ro ./tool.wasm -L/lib
      Mount another directory, read-only.
  belljar run --timeout 10s --json=report.json ./tool.wasm
      Limit the time, and write a report in JSON to a file.
  belljar run --no-worktree --apply --dir H::G m.wasm
      Do what `wasmtime run --dir H::G m.wasm` does.

Sizes are `unlimited`, or a number with a unit: B; K, M, G (or KB, MB, GB), powers of 1000; KiB, MiB, \
GiB, powers of 1024. Durations are a number with a unit: 500ms, 10s, 1h 30m. --json, --diff and \
--trace take a file only after `=`, and do not replace files that belljar did not write.

Exit codes: the program's own code passes through. Belljar's own are 2 (the command line is \
invalid, or a file or directory that it names cannot be used), 122 (--check: the program \
exited with 0 and would change something), 123 (the changes are on the disk, but a \
report of the run could not be written), 124 (out of time: --timeout, --virtual-timeout \
or --fuel), 125 (belljar itself failed, or --apply found a conflict), 126 (found, but not \
runnable), 127 (no such program) and 134 (the program trapped, or a limit ended it). \
--json tells them apart.

The belljar.toml of this directory, or of one above it, has defaults of these options: see `belljar config`.

Environment: BELLJAR_TOOLCHAIN is a list of directories of programs, like PATH; BELLJAR_CACHE_DIR is \
where compiled code is kept."
)]
#[expect(clippy::struct_excessive_bools, reason = "the options of the command")]
pub struct RunArgs {
    /// A program's name, or the path of a module (with a slash, or ending in .wasm or .wat), and
    /// its arguments: everything from here on belongs to the program
    // One positional, so that parsing stops at it: an option after PROGRAM must never be ours.
    #[arg(
        value_names = ["PROGRAM", "ARGS"], required = true, num_args = 1..,
        trailing_var_arg = true, allow_hyphen_values = true
    )]
    pub command: Vec<OsString>,

    /// A directory in which NAME.wasm is the program NAME; may be repeated
    #[arg(long, value_name = "DIR", help_heading = "Program")]
    pub toolchain: Vec<PathBuf>,

    /// Fail unless the belljar.lock of this project has each toolchain that its belljar.toml names
    #[arg(long, help_heading = "Program")]
    pub locked: bool,

    /// The name under which the program is called [default: its file name without .wasm]
    #[arg(long, value_name = "NAME", help_heading = "Program")]
    pub argv0: Option<OsString>,

    /// Call this export in place of the start function, and print what it returns: NAME(ARGUMENTS)
    ///
    /// Arguments and results are values of WAVE: 'add(1, 2)', 'greet("you", some(3), [{x: 1.5}])'. Without parentheses, ARGS
    /// are the arguments. INTERFACE#NAME is a function of an interface of a component. A library's _initialize runs first.
    #[arg(long, value_name = "CALL", help_heading = "Program")]
    pub invoke: Option<String>,

    /// Set a variable (K=V), or pass one through (K); may be repeated. Others are not passed on
    #[arg(short, long, value_name = "K[=V]", help_heading = "Program")]
    pub env: Vec<OsString>,

    /// Where standard input comes from: inherit, null, or a file
    #[arg(long, value_name = "FROM", default_value = "inherit", help_heading = "Program")]
    pub stdin: StdinFrom,

    /// What to do about functions that the module imports and belljar does not define
    #[arg(long, value_name = "WHAT", default_value = "trap", help_heading = "Program")]
    pub unknown_imports: UnknownImportsArg,

    /// What to do if a program, this one or one that it starts, is not found in the toolchains
    #[arg(long, value_name = "WHAT", default_value = "deny", help_heading = "Program")]
    pub on_missing: OnMissing,

    /// The time that native programs take on a paused clock
    #[arg(long, value_name = "HOW", default_value = "free", help_heading = "Program")]
    pub native_time: NativeTime,

    /// What native programs may do: unrestricted, worktree, os_hardened, or wasi (not run)
    #[arg(long, value_name = "PROFILE", default_value_t, help_heading = "Program")]
    pub profile: SandboxProfile,

    /// Compile the module anew, and keep no code
    #[arg(long, help_heading = "Program")]
    pub no_cache: bool,

    /// Have the run executed by a worker of this server, which runs `belljar runner`: grpc://HOST:PORT/INSTANCE, or
    /// grpcs:// for TLS; --mtimes is `fixed` then
    #[cfg(feature = "remote")]
    #[arg(long, value_name = "ADDRESS", help_heading = "Program")]
    pub remote_exec: Option<String>,

    /// If the server of --remote-exec fails, or cannot have the run executed, make it here
    #[cfg(feature = "remote")]
    #[arg(long, requires = "remote_exec", help_heading = "Program")]
    pub remote_exec_fallback: bool,

    #[command(flatten)]
    pub mounts: MountArgs,

    /// The current directory, a path that the program sees [default: /worktree]
    #[arg(long, value_name = "DIR", conflicts_with = "no_worktree", value_parser = OsStringValueParser::new().try_map(guest_path), help_heading = "Files")]
    pub cwd: Option<String>,

    #[command(flatten)]
    pub time: TimeArgs,

    #[command(flatten)]
    pub limits: LimitArgs,

    #[command(flatten)]
    pub compile: CompileArgs,

    #[command(flatten)]
    pub results: ResultArgs,

    #[command(flatten)]
    pub rules: RuleArgs,

    #[command(flatten)]
    pub answers: AnswerArgs,

    /// Write the changes to the disk: always, or only if the program exits with 0
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "always", help_heading = "Changes")]
    pub apply: Option<ApplyArg>,

    /// Write nothing, and exit with 122 if the program exits with 0 and would change something
    #[arg(long, conflicts_with = "apply", help_heading = "Changes")]
    pub check: bool,

    /// Print the changes as a diff that `git apply` takes, or write it to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Changes")]
    pub diff: Option<Sink>,

    /// Write a report in JSON: as the last line on standard output, or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Reports")]
    pub json: Option<Sink>,

    /// Log every call of the program to standard error, or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Reports")]
    pub trace: Option<Sink>,

    /// Print only errors
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
    /// If the program exits by itself, whatever its exit code
    Always,
    /// If its exit code is 0
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
    /// Refuse it
    Deny,
    /// Run the native program of that name
    Native,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum NativeTime {
    /// None
    Free,
    /// The real time that they took
    Charged,
}
