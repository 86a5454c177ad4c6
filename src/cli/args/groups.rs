//! Options that several commands take.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{ArgPredicate, FalseyValueParser, OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};

#[cfg(feature = "remote")]
use super::values::header;
use super::values::{
    DirMount, Worktree, dir_mount, duration, instant, number, percent, seed, size, small_number,
};
use crate::engine::TierChoice;
use crate::net::EgressRule;

/// The directories that a program sees.
#[derive(Args, Clone, Debug)]
pub struct MountArgs {
    /// The directory that the program works on, mounted at /worktree, copy-on-write, or read-only with
    /// `ro` [default: the current directory]
    #[arg(long, value_name = "DIR[::ro]", conflicts_with = "no_worktree", help_heading = "Files")]
    pub worktree: Option<Worktree>,

    /// Mount no worktree: the program sees only the --dir directories, from descriptor 3 on
    #[arg(long, help_heading = "Files")]
    pub no_worktree: bool,

    /// Mount another directory, copy-on-write, or read-only with `ro`; may be repeated. Without GUEST
    /// the program finds it under the name HOST, as with `wasmtime run --dir HOST`
    #[arg(long, value_name = "HOST[::GUEST][::ro]", value_parser = OsStringValueParser::new().try_map(dir_mount), help_heading = "Files")]
    pub dir: Vec<DirMount>,
}

/// The rules for calls of the host.
#[derive(Args, Clone, Debug)]
pub struct RuleArgs {
    /// The command policy: which commands programs may start
    #[arg(long, value_name = "FILE", help_heading = "Host")]
    pub host_policy: Option<PathBuf>,

    /// Allow `net.http` to a host, *.suffix, address or network, optionally with a port; may be
    /// repeated [default: the BELLJAR_EGRESS_* variables, or nothing if they are not set]
    #[arg(long, value_name = "RULE", help_heading = "Host")]
    pub allow_net: Vec<EgressRule>,

    /// Deny `net.http` to it, whatever --allow-net says; may be repeated
    #[arg(long, value_name = "RULE", help_heading = "Host")]
    pub deny_net: Vec<EgressRule>,
}

/// The answers of the host.
#[derive(Args, Clone, Debug)]
pub struct AnswerArgs {
    /// Answers to questions of the program, in order: a JSON list of texts [default: ask on the terminal]
    #[arg(long, value_name = "FILE", help_heading = "Host")]
    pub host_answers: Option<PathBuf>,

    /// The task of the program: the answer of `runtime.task`
    #[arg(long, value_name = "TEXT", help_heading = "Host")]
    pub host_task: Option<String>,

    /// Add a header to requests to a host, which programs never see, such as
    /// 'api.example.com=Authorization: Bearer $TOKEN'; may be repeated
    #[arg(long, value_name = "HOST=HEADER: $VARIABLE", help_heading = "Host")]
    pub credential: Vec<String>,
}

/// Results of earlier runs.
#[derive(Args, Clone, Debug)]
pub struct ResultArgs {
    /// Answer processes from the results of earlier ones, where all that they ask would be answered as then
    #[arg(long, env = "BELLJAR_CACHE_RESULTS", value_parser = FalseyValueParser::new(), help_heading = "Results")]
    pub cache_results: bool,

    /// Keep results, too, that hold a secret: a value that `--env NAME` takes from the host, a key, a password
    #[arg(long, help_heading = "Results")]
    pub cache_secrets: bool,

    /// Of 100 processes, how many run although they are known, and are compared with what is known: 1%, 0.1%
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = percent, help_heading = "Results")]
    pub rerun: f64,

    /// Say of each process that ran what differed from earlier runs
    #[arg(long, help_heading = "Results")]
    pub explain: bool,

    #[cfg(feature = "remote")]
    #[command(flatten)]
    pub remote: RemoteArgs,
}

/// Results that are shared with others.
#[cfg(feature = "remote")]
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_field_names, reason = "they are the names of the options")]
pub struct RemoteArgs {
    /// As --cache-results, and look up what is not known here on a server of the Remote Execution API:
    /// grpc://HOST:PORT/INSTANCE, or grpcs:// for TLS; --mtimes is `content` then
    #[arg(long, value_name = "ADDRESS", env = "BELLJAR_REMOTE_CACHE", help_heading = "Results")]
    pub remote_cache: Option<String>,

    /// Upload results to the server, too, but for those that hold secrets
    #[arg(
        long, env = "BELLJAR_REMOTE_UPLOAD", value_parser = FalseyValueParser::new(), help_heading = "Results"
    )]
    pub remote_upload: bool,

    /// A header of each request to the server, such as a token: authorization=Bearer TOKEN
    #[arg(
        long, value_name = "NAME=VALUE", env = "BELLJAR_REMOTE_HEADER", hide_env_values = true, value_parser = header,
        help_heading = "Results"
    )]
    pub remote_header: Vec<(String, String)>,

    /// Take only results of the server that this key signed: the key, or a file with it; may be repeated
    #[arg(
        long,
        value_name = "KEY",
        env = "BELLJAR_REMOTE_TRUST",
        value_delimiter = ',',
        help_heading = "Results"
    )]
    pub remote_trust: Vec<String>,

    /// Sign what is uploaded with the secret key in this file; without --remote-trust, only what it signed is taken
    #[arg(
        long, value_name = "FILE", env = "BELLJAR_REMOTE_SIGN", value_parser = OsStringValueParser::new().map(PathBuf::from),
        help_heading = "Results"
    )]
    pub remote_sign: Option<PathBuf>,

    /// A file of certificates, in PEM, that are trusted for the server besides those of this system
    #[arg(
        long,
        value_name = "FILE",
        env = "BELLJAR_REMOTE_CERTIFICATES",
        value_parser = OsStringValueParser::new().map(PathBuf::from),
        help_heading = "Results"
    )]
    pub remote_certificates: Option<PathBuf>,

    /// Most real time for one request, and for uploads when the run has ended
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration, help_heading = "Results")]
    pub remote_timeout: Duration,
}

#[cfg(feature = "remote")]
impl RemoteArgs {
    /// The headers of each request. A variable that is set to nothing is none.
    pub fn headers(&self) -> Vec<(String, String)> {
        self.remote_header.iter().filter(|(name, _)| !name.is_empty()).cloned().collect()
    }

    /// The file of certificates. A variable that is set to nothing is none.
    pub fn certificates(&self) -> Option<PathBuf> {
        self.remote_certificates.clone().filter(|path| !path.as_os_str().is_empty())
    }
}

/// Time and random numbers.
#[derive(Args, Clone, Debug)]
pub struct TimeArgs {
    /// The program's clock
    #[arg(long, value_name = "WHICH", default_value = "paused", help_heading = "Time and chance")]
    pub clock: ClockArg,

    /// Where a paused clock starts: a date, or a date and a time, in RFC 3339; @SECONDS or MILLISECONDS
    /// since 1970 [default: 2037-01-01T00:00:00Z]
    #[arg(long, value_name = "WHEN", value_parser = instant, help_heading = "Time and chance")]
    pub start_at: Option<u64>,

    /// The times that files show until the program changes them; with --remote-cache,
    /// `content` is the default, with --remote-exec `fixed`
    #[arg(
        long,
        value_name = "WHICH",
        default_value = "host",
        // An empty variable is none.
        default_value_ifs([
            ("remote_exec", ArgPredicate::IsPresent, Some("fixed")),
            ("remote_cache", ArgPredicate::Equals("".into()), Some("host")),
            ("remote_cache", ArgPredicate::IsPresent, Some("content")),
        ]),
        help_heading = "Time and chance"
    )]
    pub mtimes: MtimesArg,

    /// The seed of the program's random numbers
    #[arg(long, value_name = "N", default_value = "0", value_parser = seed, help_heading = "Time and chance")]
    pub seed: u64,
}

/// The limits of a run.
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

    /// Memory that all processes together may use
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = size, help_heading = "Limits")]
    pub max_memory: u64,

    /// Descriptors that a process may have open, including its standard streams and directories
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = small_number, help_heading = "Limits")]
    pub max_files: u32,

    /// Processes that may exist at once
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = small_number, help_heading = "Limits")]
    pub max_processes: u32,

    /// Bytes of memory that changes of files may take
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = size, help_heading = "Limits")]
    pub max_upper: u64,

    /// Bytes that may be written to standard output and standard error together
    #[arg(long, value_name = "SIZE", default_value = "unlimited", value_parser = size, help_heading = "Limits")]
    pub max_output: u64,

    /// Bytes of the parameters, and of the answer, of a call of the host
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = size, help_heading = "Limits")]
    pub max_host_call: u64,
}

/// How modules are compiled whose code is not in the cache.
#[derive(Args, Clone, Copy, Debug)]
pub struct CompileArgs {
    /// The compiled code that programs run
    #[arg(long, value_name = "TIER", env = "BELLJAR_TIER", hide_env_values = true, value_enum, default_value_t = TierArg::Auto, help_heading = "Compiling")]
    pub tier: TierArg,

    /// Let a process that goes on after the run optimize what began with quick code, also where that is not the
    /// default: without a terminal, with CI set, or on a busy machine
    #[arg(long, overrides_with = "no_background", help_heading = "Compiling")]
    pub background: bool,

    /// Start no process that goes on after the run
    #[arg(long, overrides_with = "background", help_heading = "Compiling")]
    pub no_background: bool,

    #[command(flatten)]
    pub limits: CompileLimitArgs,
}

/// The limits of compiling.
#[derive(Args, Clone, Copy, Debug)]
pub struct CompileLimitArgs {
    /// Real time that compiling all modules may take; --timeout does not count it
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration, help_heading = "Compiling")]
    pub compile_timeout: Duration,

    /// Memory that compiling a module may take
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = size, help_heading = "Compiling")]
    pub max_compile_memory: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum TierArg {
    // The alias is a variable that is set to nothing.
    #[value(alias = "")]
    /// Optimized code if there is some; otherwise a large module begins with quick code, and is optimized beside
    Auto,
    /// Code that is compiled in a fraction of the time, and takes about 1.6 times as long to run
    Quick,
    /// Code of an optimizing compiler
    Optimized,
}

impl From<TierArg> for TierChoice {
    fn from(tier: TierArg) -> Self {
        match tier {
            TierArg::Auto => Self::Auto,
            TierArg::Quick => Self::Quick,
            TierArg::Optimized => Self::Optimized,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ClockArg {
    /// A clock that stands still until a process sleeps
    Paused,
    /// The host's clock
    Real,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum MtimesArg {
    /// The times on the disk: make and Python do what they do natively
    Host,
    /// A time for each content, the same on every disk: Python sees edits, make builds too much or too little
    Content,
    /// The time at which the clock starts: neither make nor Python sees edits
    Fixed,
}
