//! `belljar record`.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};
use belljar::base::{ambient, disk};
use belljar::store::read_slice;
use belljar::tape::{FileTape, Header, Recorder, Redaction, TapeError};
use belljar::testbench::record_changes;
use belljar::{ClockConfig, Machine, Module};
use clap::Args;

use super::args::RunArgs;
use super::exit::{Hinted, Usage};
use super::planted::Folders;
use super::report::printable;
use super::values::size;
use super::{run, setup};

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:
  belljar record --tape ../run.tape -- wc README.md
  belljar record --tape ../run.tape --diff -- replace old new a.txt
  belljar replay ../run.tape

The tape is best written outside of the folders that the program sees. All options of \
`belljar run` can be given.",
    after_long_help = "Examples:
  belljar record --tape ../run.tape -- wc README.md
      Run the program and write everything that crosses its boundary to ../run.tape, and \
what is too long for a line to the folder ../run.tape.cas. A tape is best written outside of the \
folders that the program sees.
  belljar record --tape ../run.tape --diff -- replace old new a.txt
      All options of `belljar run` can be given, and do what they do there.
  belljar replay ../run.tape
      Run it again, from the tape alone.

Values of variables with names such as API_KEY, and texts that look like keys and tokens, do not \
reach the tape."
)]
pub struct RecordArgs {
    /// The file to write, or an earlier tape to replace; contents that are too long for it go to the
    /// folder FILE.cas
    #[arg(long, value_name = "FILE", help_heading = "Tape")]
    pub tape: PathBuf,

    /// Bytes that the tape and the contents may take together
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size, help_heading = "Tape")]
    pub max_tape: u64,

    /// Keep the programs that ran in FILE.cas, so that the tape can be replayed without them
    #[arg(long, help_heading = "Tape")]
    pub embed_program: bool,

    #[command(flatten)]
    pub run: RunArgs,
}

pub fn run(args: &RecordArgs) -> Result<u8> {
    run::run(&args.run, Some(args))
}

/// A tape that is being recorded.
pub struct Recording {
    recorder: Recorder,
    path: PathBuf,
    embeds: bool,
}

impl Recording {
    /// Begins the tape that `args` ask for.
    ///
    /// # Errors
    /// [`Usage`] if it cannot be written.
    pub fn begin(args: &RecordArgs) -> Result<Self> {
        let start_ns = match setup::clock(&args.run.time)? {
            ClockConfig::Paused { start_ns } => start_ns,
            ClockConfig::Host => ambient::wall_now_ns(),
        };
        let mut header = Header::new((start_ns / 1_000_000).cast_signed());
        let redaction = Redaction::default();
        let words = |arg: &OsString| arg.to_string_lossy().into_owned();
        header.argv = args.run.command.iter().map(words).collect();
        let header = header.without_secrets(&redaction);
        let path = args.tape.clone();
        if disk::metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            return Err(Usage(format!("--tape: {} is a folder", path.display())).into());
        }
        let tape = FileTape::create(&path, &header, args.max_tape)
            .map_err(|error| Usage::of("--tape", error))?;
        if Folders::of(&args.run.mounts).hold(&path) && !args.run.quiet {
            note!(
                "belljar: note: the program can see the tape; better write it outside its folders"
            );
        }
        let recorder = Recorder::new(tape, redaction);
        Ok(Self { recorder, path, embeds: args.embed_program })
    }

    /// What writes it.
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Whether it keeps programs.
    pub fn embeds(&self) -> bool {
        self.embeds
    }

    /// Puts the program on the tape, if that is asked for.
    ///
    /// # Errors
    /// The module cannot be read; [`Usage`] if it holds a secret.
    pub fn embed(&self, module: &Module) -> Result<()> {
        if !self.embeds {
            return Ok(());
        }
        let bytes = module.bytes()?;
        let embedded = self.recorder.content_from(module.name(), read_slice(&bytes))?;
        match embedded.withheld_by {
            None => Ok(()),
            Some(rule) => Err(Usage(format!(
                "--embed-program: {} is not put on the tape: it holds what the rule {rule} takes for a \
                 secret; record without it, and name the program with --module when you replay",
                printable(module.name())
            ))
            .into()),
        }
    }

    /// Adds what changed, and makes the tape last; answers how many records it has.
    ///
    /// # Errors
    /// The tape is full or cannot be written; what changed cannot be told.
    pub fn finish(self, machine: &mut Machine) -> Result<u64> {
        record_changes(machine, &self.recorder).context("cannot tell what changed")?;
        self.recorder.finish().map_err(|error| {
            let is_full = matches!(error, TapeError::Full { .. });
            let what = format!("the tape {} is not written", self.path.display());
            let error = anyhow::Error::from(error).context(what);
            if is_full {
                Hinted { error, hint: "raise it with --max-tape".into() }.into()
            } else {
                error
            }
        })
    }
}
