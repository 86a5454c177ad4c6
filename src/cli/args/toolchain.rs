//! `belljar install`, `uninstall` and `toolchain`.

use std::path::PathBuf;

use clap::Args;

use super::groups::CompileArgs;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar install avr-gcc
      fetches the package of the recipe avr-gcc with pip, and installs it
  belljar install ./my-tools
      installs the toolchain that my-tools/toolchain.json describes

See `belljar toolchain recipes` for the names, and docs/toolchains.md for toolchain.json.")]
pub struct InstallArgs {
    /// The folder or bundle of a toolchain, or the name of a recipe
    #[arg(value_name = "SOURCE", required = true)]
    pub sources: Vec<String>,

    /// Install a recipe from this file instead of the package that it names; its digest is checked
    #[arg(long, value_name = "FILE")]
    pub package: Option<PathBuf>,

    /// Do not compile the programs yet: their first runs will
    #[arg(long)]
    pub no_compile: bool,

    #[command(flatten)]
    pub compile: CompileArgs,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// Print no progress
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Args, Debug)]
pub struct UninstallArgs {
    /// The name of an installed toolchain
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct ToolchainArgs {
    #[command(subcommand)]
    pub action: ToolchainAction,
}

#[derive(clap::Subcommand, Debug)]
pub enum ToolchainAction {
    /// List the installed toolchains
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the recipes that `belljar install` knows
    Recipes {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what a toolchain consists of
    Inspect {
        /// The name of an installed toolchain, or the folder of one
        #[arg(value_name = "NAME|DIR")]
        toolchain: String,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check the toolchain in a folder, and list what is wrong with it
    Check {
        /// The folder
        #[arg(value_name = "DIR", default_value = ".")]
        dir: PathBuf,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a toolchain.json for the modules in a folder
    Init {
        /// The folder
        #[arg(value_name = "DIR", default_value = ".")]
        dir: PathBuf,

        /// The name of the toolchain (default: that of the folder)
        #[arg(long)]
        name: Option<String>,
    },
    /// Write the toolchain in a folder to one file, which `belljar install` takes
    #[cfg(feature = "import")]
    Pack {
        /// The folder
        #[arg(value_name = "DIR", default_value = ".")]
        dir: PathBuf,

        /// The file (default: NAME-VERSION.belljar)
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,

        /// Print no progress
        #[arg(long, short)]
        quiet: bool,
    },
    /// Write the files of a bundle to a new folder
    #[cfg(feature = "import")]
    Unpack {
        /// The bundle
        #[arg(value_name = "FILE")]
        file: PathBuf,

        /// The folder, which must not exist
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// Remove contents that no installed toolchain uses
    Gc {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
