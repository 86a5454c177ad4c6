//! The tape of `belljar record`.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::args::record::RecordArgs;
use super::exit::{Hinted, Usage};
use super::options;
use super::planted_links::Folders;
use super::text::printable;
use crate::base::{ambient, disk};
use crate::store::read_slice;
use crate::tape::{FileTape, Header, Recorder, Redaction, TapeError};
use crate::testbench::record_changes;
use crate::{ClockConfig, Machine, Module};

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
        let start_ns = match options::clock(&args.run.time)? {
            ClockConfig::Paused { start_ns } => start_ns,
            ClockConfig::Host => ambient::wall_now_ns(),
        };
        let mut header = Header::new((start_ns / 1_000_000).cast_signed());
        let variables = options::environment(&args.run.env)?;
        let texts =
            variables.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
        let redaction = Redaction::default().with_values_of(texts).map_err(|error| {
            Usage::of(
                "--env: values of variables with secret names are looked for on the tape",
                error,
            )
        })?;
        let words = |arg: &OsString| arg.to_string_lossy().into_owned();
        header.argv = args.run.command.iter().map(words).collect();
        let header = header.without_secrets(&redaction);
        let path = args.tape.clone();
        if disk::metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            return Err(Usage(format!("--tape: {} is a directory", path.display())).into());
        }
        let tape = FileTape::create(&path, &header, args.max_tape)
            .map_err(|error| Usage::of("--tape", error))?;
        if Folders::of(&args.run.mounts).hold(&path) && !args.run.quiet {
            note!(
                "belljar: note: the program can see the tape; write it outside of mounted directories"
            );
        }
        let recorder = Recorder::new(tape, redaction);
        Ok(Self { recorder, path, embeds: args.embed_program })
    }

    /// The recorder of the tape.
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Whether it keeps programs.
    pub fn embeds(&self) -> bool {
        self.embeds
    }

    /// Puts the program on the tape, with `--embed-program`.
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
                "--embed-program: cannot put {} on the tape: the rule {rule} finds a secret in it; \
                 record without --embed-program, and replay with --module",
                printable(module.name())
            ))
            .into()),
        }
    }

    /// Adds the changes, and completes the tape; returns its number of records.
    ///
    /// # Errors
    /// The tape is full or cannot be written; the changes cannot be determined, and the tape is complete without them.
    pub fn finish(self, machine: &mut Machine) -> Result<u64> {
        let changes = record_changes(machine, &self.recorder);
        let records = self.recorder.finish().map_err(|error| {
            let is_full = matches!(error, TapeError::Full { .. });
            let what = format!("cannot write the tape {}", self.path.display());
            let error = anyhow::Error::from(error).context(what);
            if is_full {
                Hinted { error, hint: "raise it with --max-tape".into() }.into()
            } else {
                error
            }
        })?;
        changes.context("cannot determine what changed").map_err(|error| Hinted {
            error,
            hint: format!("the tape {} has the run without its changes", self.path.display()),
        })?;
        Ok(records)
    }
}
