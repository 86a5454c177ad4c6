//! What the command line looks like. Nothing here does anything.

#[cfg(feature = "annotations")]
pub mod annotations;
pub mod changes;
pub mod groups;
pub mod host;
pub mod installation;
pub mod record;
pub mod replay;
pub mod run;
pub mod sandbox;
pub mod sh;
pub mod spelled;
pub mod tape;
pub mod values;
pub mod verify;

use clap::Parser;
use clap::builder::Styles;
use clap::builder::styling::AnsiColor;

#[cfg(feature = "annotations")]
use self::annotations::{AnnotateArgs, AnnotationsArgs};
use self::changes::{ApplyArgs, DiffArgs, RecoverArgs};
use self::host::HostArgs;
use self::installation::{CacheArgs, ChildArgs, DoctorArgs, ProgramsArgs};
use self::record::RecordArgs;
use self::replay::ReplayArgs;
use self::run::RunArgs;
use self::sandbox::SandboxArgs;
use self::sh::ShArgs;
use self::tape::{FidelityArgs, TapeArgs};
use self::verify::VerifyArgs;

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
    #[cfg(feature = "annotations")]
    Annotate(Box<AnnotateArgs>),
    /// Check or print the annotations of a tape
    #[cfg(feature = "annotations")]
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
