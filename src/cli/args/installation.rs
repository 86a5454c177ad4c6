//! `belljar programs`, `cache` and `doctor`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::groups::{CompileLimitArgs, TierArg};
use super::values::size;

#[derive(Args, Debug)]
pub struct ProgramsArgs {
    /// A directory in which NAME.wasm is the program NAME; may be repeated
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
    /// Print where the cache is and what it holds
    Info {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Optimize modules ahead of their first run
    Compile(CacheCompileArgs),
    /// Remove the code that was used least recently
    Trim {
        /// Bytes of compiled code that may stay
        #[arg(long, value_name = "SIZE", value_parser = size)]
        max_size: u64,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Empty the cache
    Clear {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// End the process that optimizes modules in the background, and forget what waits for it
    Stop {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Results of processes, for runs with --cache-results
    Results {
        #[command(subcommand)]
        action: ResultsAction,
    },
}

#[derive(clap::Subcommand, Debug)]
pub enum ResultsAction {
    /// Print where the results are and how many there are
    Info {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the commands that have results, the last one used first
    List {
        /// Print a line of JSON for each
        #[arg(long)]
        json: bool,
    },
    /// Show the calls of a command, with the numbers that they returned
    Show {
        /// The beginning of its digest, from `belljar cache results list`
        #[arg(value_name = "ACTION")]
        action: String,

        /// Print a line of JSON for each trace
        #[arg(long)]
        json: bool,
    },
    /// Remove the results that were used least recently
    Gc {
        /// Bytes of results that may stay
        #[arg(long, value_name = "SIZE", value_parser = size)]
        max_size: u64,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove all results
    Clear {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args, Debug)]
pub struct CacheCompileArgs {
    /// A module, or the name of a program; for a script, all modules of its toolchain are compiled
    #[arg(value_name = "FILE|NAME", required = true)]
    pub programs: Vec<OsString>,

    /// A directory in which NAME.wasm is the program NAME; may be repeated
    #[arg(long, value_name = "DIR")]
    pub toolchain: Vec<PathBuf>,

    /// Compile for runs with --fuel
    #[arg(long)]
    pub fuel: bool,

    /// The compiled code to make
    #[arg(long, value_name = "TIER", value_enum, default_value_t = MadeTier::Optimized, help_heading = "Compiling")]
    pub tier: MadeTier,

    #[command(flatten)]
    pub limits: CompileLimitArgs,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// Print no progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// A tier of compiled code that can be made ahead of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum MadeTier {
    /// Code that is compiled in a fraction of the time, and takes about 1.6 times as long to run
    Quick,
    /// Code of an optimizing compiler
    Optimized,
}

impl From<MadeTier> for TierArg {
    fn from(tier: MadeTier) -> Self {
        match tier {
            MadeTier::Quick => Self::Quick,
            MadeTier::Optimized => Self::Optimized,
        }
    }
}

#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Make runs whose bytes are the same on every system, and compare their outputs and tapes with those of the belljar
    /// that was published
    #[arg(long)]
    pub self_test: bool,
    /// Also make the runs of the programs in this toolchain
    #[arg(long, value_name = "DIR", requires = "self_test")]
    pub toolchain: Vec<PathBuf>,
    /// Write the output and the tape of each run that differs below this directory
    #[arg(long, value_name = "DIR", requires = "self_test")]
    pub keep: Option<PathBuf>,
}

/// The command line of the process that optimizes modules, which help does not show.
#[derive(Args, Debug)]
pub struct OptimizeArgs {
    /// The directory of the cache
    #[arg(long)]
    pub cache_dir: PathBuf,
}

/// The command line of the process that compiles, which help does not show.
#[derive(Args, Debug)]
pub struct ChildArgs {
    /// The directory of the cache
    #[arg(long)]
    pub cache_dir: PathBuf,
    /// The module's name
    #[arg(long)]
    pub name: String,
    /// Whether the code counts fuel
    #[arg(long)]
    pub fuel: bool,
    /// The tiers that the program may run in
    #[arg(long, value_enum)]
    pub tier: TierArg,
    /// Bytes of memory that compiling may take
    #[arg(long)]
    pub memory_bytes_max: u64,
    /// Bytes of the module on standard input, which the parent process keeps open as long as it wants the code
    #[arg(long)]
    pub module_bytes: u64,
}
