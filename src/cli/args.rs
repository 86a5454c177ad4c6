//! What the command line looks like.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use belljar::native::SandboxProfile;
use clap::builder::styling::AnsiColor;
use clap::builder::{OsStringValueParser, Styles, TypedValueParser};
use clap::{Args, CommandFactory, Parser, ValueEnum};

use super::annotate::{AnnotateArgs, AnnotationsArgs};
use super::compile::{ChildArgs, CompileArgs};
use super::exit::Usage;
use super::fidelity::FidelityArgs;
use super::hints;
use super::host::HostArgs;
use super::patch::{ApplyArgs, DiffArgs};
use super::record::RecordArgs;
use super::recover::RecoverArgs;
use super::replay::ReplayArgs;
use super::sandbox::SandboxArgs;
use super::sh::ShArgs;
use super::tape::TapeArgs;
use super::values::{
    DirMount, Sink, StdinFrom, Worktree, dir_mount, duration, guest_path, host_of_mount, instant,
    number, seed, size, small_number,
};
use super::verify::VerifyArgs;
use belljar::net::EgressRule;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Runs toolchains that were compiled to WebAssembly under a virtual kernel: their files, clock
/// and chance are its own, and nothing on your disk changes until you say so.
#[derive(Parser, Debug)]
#[command(
    name = "belljar", version, styles = STYLES, arg_required_else_help = true,
    after_help = "`belljar help run` has the options of a run, with examples."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Subcommand,
}

#[derive(clap::Subcommand, Debug)]
pub enum Subcommand {
    /// Run a program over a folder and show what it would change
    #[command(visible_alias = "r")]
    Run(Box<RunArgs>),
    /// Run a POSIX shell script over a folder and show what it would change
    Sh(Box<ShArgs>),
    /// Run a program and record everything that crosses its boundary on a tape
    Record(Box<RecordArgs>),
    /// Repeat a recorded run from its tape alone, and stop where it differs
    Replay(ReplayArgs),
    /// Run a program several times under varied conditions, and say whether the runs are the same
    Verify(Box<VerifyArgs>),
    /// Look into tapes
    Tape(TapeArgs),
    /// Compare two tapes
    Fidelity(FidelityArgs),
    /// Print what a recorded run changed, from its tape
    Diff(DiffArgs),
    /// Apply the changes of a recorded run to the disk, from its tape
    Apply(ApplyArgs),
    /// Finish or take back what a killed belljar had begun to write to the disk
    Recover(RecoverArgs),
    /// Annotate a record of a tape
    Annotate(Box<AnnotateArgs>),
    /// Check or print the annotations of a tape
    Annotations(AnnotationsArgs),
    /// Say what programs may ask of their host, or ask it yourself
    Host(HostArgs),
    /// Run programs in sessions that live on: made, forked, kept, resumed
    Sandbox(SandboxArgs),
    /// List the programs that can be run by name
    Programs(ProgramsArgs),
    /// Look into or empty the cache of compiled code
    Cache(CacheArgs),
    /// Check that belljar works on this machine, and say how to mend what does not
    Doctor(DoctorArgs),
    /// Compile the module on standard input into the cache, for belljar itself
    #[command(hide = true)]
    CompileModule(ChildArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

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

/// The folders that a program sees.
#[derive(Args, Clone, Debug)]
pub struct MountArgs {
    /// The folder that the program works on, mounted at /worktree, copy-on-write unless `ro` [default:
    /// this folder]
    #[arg(long, value_name = "DIR[::ro]", conflicts_with = "no_worktree", help_heading = "Files")]
    pub worktree: Option<Worktree>,

    /// Mount no worktree: the program sees exactly the --dir folders, from descriptor 3 on
    #[arg(long, help_heading = "Files")]
    pub no_worktree: bool,

    /// Mount a further folder, copy-on-write unless `ro`; may be repeated. Without GUEST the
    /// program finds it under the name HOST, as with `wasmtime run --dir HOST`
    #[arg(long, value_name = "HOST[::GUEST][::ro]", value_parser = OsStringValueParser::new().try_map(dir_mount), help_heading = "Files")]
    pub dir: Vec<DirMount>,
}

/// What a program may do through its host.
#[derive(Args, Clone, Debug)]
pub struct RuleArgs {
    /// Which commands programs may start: a command policy
    #[arg(long, value_name = "FILE", help_heading = "Host")]
    pub host_policy: Option<PathBuf>,

    /// Whom programs may reach by `net.http`: a host, *.suffix, address or network, perhaps with a
    /// port [default: what BELLJAR_EGRESS_ALLOW and its like say, else nobody]
    #[arg(long, value_name = "RULE", help_heading = "Host")]
    pub allow_net: Vec<EgressRule>,

    /// Whom they may not reach, whatever else is allowed
    #[arg(long, value_name = "RULE", help_heading = "Host")]
    pub deny_net: Vec<EgressRule>,
}

/// What a program's host answers.
#[derive(Args, Clone, Debug)]
pub struct AnswerArgs {
    /// What questions are answered, one after the other: a list of texts [default: ask on the
    /// terminal]
    #[arg(long, value_name = "FILE", help_heading = "Host")]
    pub host_answers: Option<PathBuf>,

    /// What the program is to do: the answer of `runtime.task`
    #[arg(long, value_name = "TEXT", help_heading = "Host")]
    pub host_task: Option<String>,

    /// A header that is added for a host and that programs never see, such as
    /// 'api.example.com=Authorization: Bearer $TOKEN'
    #[arg(long, value_name = "HOST=HEADER: $VARIABLE", help_heading = "Host")]
    pub credential: Vec<String>,
}

/// What a program learns of time and chance.
#[derive(Args, Clone, Debug)]
pub struct TimeArgs {
    /// The program's clock: standing still until somebody sleeps, or the host's
    #[arg(long, value_name = "WHICH", default_value = "paused", help_heading = "Time and chance")]
    pub clock: ClockArg,

    /// Where a paused clock stands: a date, or a date and a time, in RFC 3339; @SECONDS since 1970, or
    /// milliseconds since then [default: 2037-01-01T00:00:00Z]
    #[arg(long, value_name = "WHEN", value_parser = instant, help_heading = "Time and chance")]
    pub start_at: Option<u64>,

    /// The times that files show until the program changes them
    #[arg(long, value_name = "WHICH", default_value = "host", help_heading = "Time and chance")]
    pub mtimes: MtimesArg,

    /// The seed of the program's random numbers
    #[arg(long, value_name = "N", default_value = "0", value_parser = seed, help_heading = "Time and chance")]
    pub seed: u64,
}

/// What a program may use up.
#[derive(Args, Clone, Debug)]
pub struct LimitArgs {
    /// End the program after this much real time
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Limits")]
    pub timeout: Option<std::time::Duration>,

    /// End the program after this much time on its own clock
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Limits")]
    pub virtual_timeout: Option<std::time::Duration>,

    /// End the program after this many instructions, roughly
    #[arg(long, value_name = "N", value_parser = number, help_heading = "Limits")]
    pub fuel: Option<u64>,

    /// Memory that the program may use
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = size, help_heading = "Limits")]
    pub max_memory: u64,

    /// Descriptors that the program may have open at once, its streams and folders among them
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = small_number, help_heading = "Limits")]
    pub max_files: u32,

    /// Processes that may live at once
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = small_number, help_heading = "Limits")]
    pub max_processes: u32,

    /// Bytes that the program may change or create
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = size, help_heading = "Limits")]
    pub max_upper: u64,

    /// Bytes that the program may print
    #[arg(long, value_name = "SIZE", default_value = "unlimited", value_parser = size, help_heading = "Limits")]
    pub max_output: u64,

    /// Bytes that may be passed to a call of the host, or come back from it
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = size, help_heading = "Limits")]
    pub max_host_call: u64,
}

impl RunArgs {
    /// The program, as it was named.
    ///
    /// # Errors
    /// What stands in its place is an option that there is not.
    pub fn program(&self) -> Result<&OsStr, Usage> {
        let named = self.command.first().map_or(OsStr::new(""), OsString::as_os_str);
        if named.is_empty() {
            return Err(Usage("\"\" cannot be the name of a program".to_owned()));
        }
        match named.to_str() {
            Some(option) if option.starts_with('-') => {
                Err(hints::no_such_option(option, hints::command_of_run()))
            }
            _ => Ok(named),
        }
    }

    /// The program's arguments.
    pub fn program_args(&self) -> &[OsString] {
        self.command.get(1..).unwrap_or_default()
    }
}

/// Where `--json` leads on a command line that was not understood, if it is one of `run`, and the folders
/// that programs of it could change. Values are not looked into, as one of them may be what is wrong.
pub fn json_of_misunderstood(args: impl Iterator<Item = OsString>) -> Option<(Sink, Vec<PathBuf>)> {
    let lenient = Cli::command().ignore_errors(true).mut_subcommand("run", |run| {
        run.mut_args(|arg| {
            let takes_values = arg.get_action().takes_values();
            if takes_values { arg.value_parser(OsStringValueParser::new()) } else { arg }
        })
    });
    let matches = lenient.try_get_matches_from(args).ok()?;
    let run = matches.subcommand_matches("run")?;
    let json = run.get_one::<OsString>("json")?;
    let folders = |name| run.get_many::<OsString>(name).into_iter().flatten();
    let folders = folders("worktree").chain(folders("dir")).map(host_of_mount);
    Some((json.clone().into(), folders.chain([".".into()]).collect()))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ClockArg {
    /// It stands still until somebody sleeps
    Paused,
    /// It is the host's
    Real,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ApplyArg {
    /// Whatever the program's exit code, as long as it ends by itself
    Always,
    /// If the exit code is 0
    Success,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum MtimesArg {
    /// Those that they have on the disk: make and Python do what they do there
    Host,
    /// One for each content, the same on every disk: Python sees edits, make builds too much or too little
    Content,
    /// The time at which the clock starts: neither make nor Python sees edits
    Fixed,
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
