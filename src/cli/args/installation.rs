//! `belljar programs`, `cache` and `doctor`.

use std::path::PathBuf;

use clap::Args;

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
    /// Empty the cache
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
    /// Bytes of memory that compiling may take
    #[arg(long)]
    pub memory_bytes_max: u64,
}
