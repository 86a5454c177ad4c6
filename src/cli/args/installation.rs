//! What is on this machine: programs, compiled code, and whether all is well.

use std::path::PathBuf;

use clap::Args;

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

/// The command line of the process that compiles, which people do not see.
#[derive(Args, Debug)]
pub struct ChildArgs {
    /// The folder of the cache
    #[arg(long)]
    pub cache_dir: PathBuf,
    /// The module's name
    #[arg(long)]
    pub name: String,
    /// Whether the code counts fuel
    #[arg(long)]
    pub fuel: bool,
    /// Bytes of memory that it may take
    #[arg(long)]
    pub memory_bytes_max: u64,
}
