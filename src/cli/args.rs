//! What the command line looks like.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{Args, Parser, ValueEnum};

use super::exit::Usage;
use super::values::{DirMount, Sink, StdinFrom, dir_mount, duration, instant, size};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Runs toolchains that were compiled to WebAssembly under a virtual kernel: their files, clock
/// and chance are its own, and nothing on your disk changes until you say so.
#[derive(Parser, Debug)]
#[command(name = "belljar", version, styles = STYLES, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Subcommand,
}

#[derive(clap::Subcommand, Debug)]
pub enum Subcommand {
    /// Run a program over a folder and show what it would change
    #[command(visible_alias = "r")]
    Run(Box<RunArgs>),
    /// List the programs that can be run by name
    Programs(ProgramsArgs),
    /// Look into or empty the cache of compiled code
    Cache(CacheArgs),
    /// Check that belljar can work here, and say what to do if not
    Doctor(DoctorArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:
  belljar run wc README.md                    count a file of this folder
  belljar run --diff replace old new a.txt    show what the program would change
  belljar run --apply replace old new a.txt   ... and change it
  belljar run --toolchain DIR cc1 main.c      run DIR/cc1.wasm
  belljar run --dir lib::/lib::ro ./tool.wasm -L/lib
                                              mount a folder read-only
  belljar run --timeout 10s --json=r.json ./tool.wasm
                                              bound the time, report to a file

Exit codes: the program's own; 2 usage, 124 out of time, 125 belljar failed,
126 not runnable, 127 not found, 134 trapped or ended by a limit.",
    after_long_help = "Examples:
  belljar run wc README.md
      Count the lines, words and bytes of a file of this folder.
  belljar run --diff replace old new a.txt
      Show, as a diff that `git apply` takes, what the program would change.
  belljar run --apply replace old new a.txt
      Let it run, and write what it changed to the disk.
  belljar run --toolchain DIR cc1 -quiet main.c -o main.s
      Run DIR/cc1.wasm on main.c of this folder.
  belljar run --dir lib::/lib::ro ./tool.wasm -L/lib
      Give the program another folder, which it may only read.
  belljar run --timeout 10s --json=report.json ./tool.wasm
      Bound the time it may take, and write a report for a machine to read.
  belljar run --no-worktree --apply --dir H::G m.wasm
      Do what `wasmtime run --dir H::G m.wasm` does.

Exit codes: the program's own code passes through. Belljar's own are 2 (usage), 124 (out of time:
--timeout, --virtual-timeout or --fuel), 125 (belljar itself failed), 126 (found, but not runnable),
127 (no such program) and 134 (the program trapped, or a limit ended it). --json says which it was.

See docs/cli.md for the whole story and docs/determinism.md for what is repeatable."
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
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
    pub env: Vec<String>,

    /// Where standard input comes from: inherit, null, or a file
    #[arg(long, value_name = "FROM", default_value = "inherit", help_heading = "Program")]
    pub stdin: StdinFrom,

    /// What to do about functions that the module imports and nobody defines
    #[arg(long, value_name = "WHAT", default_value = "trap", help_heading = "Program")]
    pub unknown_imports: UnknownImportsArg,

    /// What to do if no toolchain has the program: refuse, or run the host's program of that name,
    /// unprotected
    #[arg(long, value_name = "WHAT", default_value = "deny", help_heading = "Program")]
    pub on_missing: OnMissing,

    /// The folder that the program works on, mounted copy-on-write at /src [default: this folder]
    #[arg(long, value_name = "DIR", conflicts_with = "no_worktree", help_heading = "Files")]
    pub worktree: Option<PathBuf>,

    /// Mount no worktree: the program sees exactly the --dir folders, from descriptor 3 on
    #[arg(long, help_heading = "Files")]
    pub no_worktree: bool,

    /// Mount a further folder, copy-on-write unless `ro`; may be repeated
    #[arg(long, value_name = "HOST[::GUEST][::ro]", value_parser = dir_mount, help_heading = "Files")]
    pub dir: Vec<DirMount>,

    /// Where relative paths begin, in the guest's namespace [default: /src]
    #[arg(long, value_name = "DIR", conflicts_with = "no_worktree", help_heading = "Files")]
    pub cwd: Option<String>,

    /// Write the changes to the disk afterwards
    #[arg(long, help_heading = "Files")]
    pub apply: bool,

    /// Print the changes as a diff that `git apply` takes
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Files")]
    pub diff: Option<Sink>,

    /// The program's clock: standing still until somebody sleeps, or the host's
    #[arg(long, value_name = "WHICH", default_value = "paused", help_heading = "Time and chance")]
    pub clock: ClockArg,

    /// Where a paused clock stands: milliseconds since 1970 or RFC 3339
    #[arg(long, value_name = "WHEN", default_value = "2000-01-01T00:00:00Z", value_parser = instant, help_heading = "Time and chance")]
    pub start_at: u64,

    /// The seed of the program's random numbers
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Time and chance")]
    pub seed: u64,

    /// The times that files show: all the start time, or the host's
    #[arg(long, value_name = "WHICH", default_value = "fixed", help_heading = "Time and chance")]
    pub mtimes: MtimesArg,

    /// End the program after this much real time
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Limits")]
    pub timeout: Option<std::time::Duration>,

    /// End the program after this much time on its own clock
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Limits")]
    pub virtual_timeout: Option<std::time::Duration>,

    /// End the program after this many instructions, roughly
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub fuel: Option<u64>,

    /// Memory that the program may use
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = size, help_heading = "Limits")]
    pub max_memory: u64,

    /// Files that the program may have open at once
    #[arg(long, value_name = "N", default_value_t = 1024, help_heading = "Limits")]
    pub max_files: u32,

    /// Bytes that the program may change or create
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = size, help_heading = "Limits")]
    pub max_upper: u64,

    /// Bytes that the program may print
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size, help_heading = "Limits")]
    pub max_output: u64,

    /// Log every call of the program to standard error, or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Reports")]
    pub trace: Option<Sink>,

    /// Report in JSON how it went: as a last line on standard output, or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Reports")]
    pub json: Option<Sink>,

    /// Say nothing but errors
    #[arg(short, long, help_heading = "Reports")]
    pub quiet: bool,

    /// Compile the module anew and keep nothing
    #[arg(long, help_heading = "Reports")]
    pub no_cache: bool,
}

impl RunArgs {
    /// The program, as it was named.
    ///
    /// # Errors
    /// What stands in its place is an option that there is not.
    pub fn program(&self) -> Result<&str, Usage> {
        let named = self.command.first().map_or("", |name| name.to_str().unwrap_or(""));
        if named.is_empty() {
            let shown = self.command.first().map(|name| name.display().to_string());
            let shown = shown.unwrap_or_default();
            return Err(Usage(format!("{shown:?} cannot be the name of a program")));
        }
        if named.starts_with('-') {
            return Err(Usage(format!(
                "there is no option {named} (see `belljar run --help`); options for the program \
                 come after PROGRAM"
            )));
        }
        Ok(named)
    }

    /// The program's arguments.
    pub fn program_args(&self) -> &[OsString] {
        self.command.get(1..).unwrap_or_default()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ClockArg {
    /// It stands still until somebody sleeps
    Paused,
    /// It is the host's
    Real,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum MtimesArg {
    /// All the same
    Fixed,
    /// The host's
    Host,
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

#[derive(Args, Debug)]
pub struct ProgramsArgs {
    /// A folder in which NAME.wasm is the program NAME; may be repeated
    #[arg(long, value_name = "DIR")]
    pub toolchain: Vec<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct CacheArgs {
    #[command(subcommand)]
    pub action: CacheAction,
}

#[derive(clap::Subcommand, Debug)]
pub enum CacheAction {
    /// Say where it is and what it holds
    Info {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove everything it holds
    Clear {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
