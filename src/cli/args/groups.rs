//! Options that several commands take.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::values::{
    DirMount, Worktree, dir_mount, duration, instant, number, seed, size, small_number,
};
use crate::net::EgressRule;

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
    pub timeout: Option<Duration>,

    /// End the program after this much time on its own clock
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Limits")]
    pub virtual_timeout: Option<Duration>,

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

/// What compiling may take.
#[derive(Args, Clone, Copy, Debug)]
pub struct CompileArgs {
    /// Real time that compiling may take, all modules together; no other limit counts it
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration, help_heading = "Limits")]
    pub compile_timeout: Duration,

    /// Memory that compiling may take (on Linux)
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = size, help_heading = "Limits")]
    pub max_compile_memory: u64,
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
    /// Those that they have on the disk: make and Python do what they do there
    Host,
    /// One for each content, the same on every disk: Python sees edits, make builds too much or too little
    Content,
    /// The time at which the clock starts: neither make nor Python sees edits
    Fixed,
}
