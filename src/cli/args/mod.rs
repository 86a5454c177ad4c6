//! The definition of the command line: no code here has effects.

#[cfg(feature = "annotations")]
pub mod annotations;
pub mod changes;
pub mod groups;
pub mod host;
pub mod installation;
#[cfg(feature = "import")]
pub mod keys;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod native;
pub mod record;
pub mod replay;
pub mod run;
#[cfg(feature = "remote")]
pub mod runner;
pub mod sandbox;
pub mod sh;
pub mod spelled;
pub mod tape;
pub mod toolchain;
pub mod values;
pub mod verify;

use clap::Parser;
use clap::builder::Styles;
use clap::builder::styling::AnsiColor;

#[cfg(feature = "annotations")]
use self::annotations::{AnnotateArgs, AnnotationsArgs};
use self::changes::{ApplyArgs, DiffArgs, RecoverArgs};
use self::host::HostArgs;
use self::installation::{CacheArgs, ChildArgs, DoctorArgs, OptimizeArgs, ProgramsArgs};
#[cfg(feature = "import")]
use self::keys::KeysArgs;
#[cfg(feature = "mcp")]
use self::mcp::McpArgs;
use self::native::NativeArgs;
use self::record::RecordArgs;
use self::replay::ReplayArgs;
use self::run::RunArgs;
#[cfg(feature = "remote")]
use self::runner::RunnerArgs;
use self::sandbox::SandboxArgs;
use self::sh::ShArgs;
use self::tape::{FidelityArgs, TapeArgs};
use self::toolchain::{ConfigArgs, InstallArgs, ToolchainArgs, TrustArgs, UninstallArgs};
use self::verify::VerifyArgs;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Runs toolchains that are compiled to WebAssembly in a virtual kernel, with files, a clock and
/// random numbers of its own. Nothing on your disk changes until you ask for it.
#[derive(Parser, Debug)]
#[command(
    name = "belljar", version, styles = STYLES, arg_required_else_help = true,
    after_help = "To begin with:
  belljar run --diff replace old new a.txt   show what a program would change
  belljar run --apply replace old new a.txt  ... and write the changes
  belljar programs                           list the programs that there are
  belljar install avr-gcc                    install a compiler

See `belljar help run` for the options of a run, with examples."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Subcommand,
}

#[derive(clap::Subcommand, Debug)]
pub enum Subcommand {
    /// Run a program over a directory and show what it would change
    #[command(visible_alias = "r")]
    Run(Box<RunArgs>),
    /// Run a POSIX shell script over a directory and show what it would change
    Sh(Box<ShArgs>),
    /// Run a program and record everything that crosses its boundary on a tape
    Record(Box<RecordArgs>),
    /// Repeat a recorded run from its tape alone, and stop at the first difference
    Replay(ReplayArgs),
    /// Run a program several times under varied conditions, and tell whether the runs are equal
    Verify(Box<VerifyArgs>),
    /// Run a program of the host once, recorded on a process tape, and replay it from then on
    Native(Box<NativeArgs>),
    /// Print or search tapes, or write a page to look at a run
    Tape(TapeArgs),
    /// Compare two tapes
    Fidelity(FidelityArgs),
    /// Print what a recorded run changed, from its tape
    Diff(DiffArgs),
    /// Apply the changes of a recorded run to the disk, from its tape
    Apply(ApplyArgs),
    /// Complete or undo what a killed belljar was writing to the disk
    Recover(RecoverArgs),
    /// Annotate a record of a tape
    #[cfg(feature = "annotations")]
    Annotate(Box<AnnotateArgs>),
    /// Check or print the annotations of a tape
    #[cfg(feature = "annotations")]
    Annotations(AnnotationsArgs),
    /// List what programs can ask of their host, or make such a call
    Host(HostArgs),
    /// Run programs in persistent sessions that can be forked, kept and resumed
    Sandbox(SandboxArgs),
    /// Serve sandboxes to an agent, through the Model Context Protocol
    #[cfg(feature = "mcp")]
    Mcp(Box<McpArgs>),
    /// List the programs that can be run by name
    Programs(ProgramsArgs),
    /// Install a toolchain, so that its programs can be run by name
    Install(InstallArgs),
    /// Remove installed toolchains
    Uninstall(UninstallArgs),
    /// List, describe and check toolchains
    Toolchain(ToolchainArgs),
    /// Make keys that sign toolchains, and list those whose signatures are trusted
    #[cfg(feature = "import")]
    Keys(KeysArgs),
    /// Execute an action of the Remote Execution API, for the workers of a cluster
    #[cfg(feature = "remote")]
    Runner(Box<RunnerArgs>),
    /// Show the options that hold for runs here, and where they come from
    Config(ConfigArgs),
    /// Let the belljar.toml of a project set what reaches beyond the project
    Trust(TrustArgs),
    /// Show, fill or empty the cache of compiled code
    Cache(CacheArgs),
    /// Check that belljar works on this machine, and say how to fix what does not
    Doctor(DoctorArgs),
    /// Compile the module on standard input into the cache: for belljar's own use
    #[command(hide = true)]
    CompileModule(ChildArgs),
    /// Optimize the modules that wait for it: for belljar's own use
    #[command(hide = true)]
    OptimizeModules(OptimizeArgs),
    /// Print a completion script for a shell
    #[command(after_help = "Examples:
  belljar completions bash >belljar
      in ~/.local/share/bash-completion/completions, where new shells find it
  belljar completions zsh >_belljar
      in a folder of $fpath
  belljar completions fish >~/.config/fish/completions/belljar.fish
      new shells find it there
  belljar completions powershell >>$PROFILE
      as for elvish, in the file that the shell reads when it starts")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages of all commands into a directory
    #[command(after_help = "To read one: `belljar man-pages man1 && man -l man1/belljar-run.1`")]
    ManPages {
        /// The directory, which is made if it does not exist
        dir: std::path::PathBuf,
    },
}
