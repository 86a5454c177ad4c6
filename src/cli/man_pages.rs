//! `belljar man-pages`: a manual page for each command.
//!
//! A command of the binary, not a script beside it: the pages are those of the binary that is installed, with its features,
//! however it was installed, and what defines the command line stays private.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::args::Cli;
use super::planted_links::check_here;
use crate::base::disk;

/// Writes the page `belljar.1` and those of all subcommands that are shown, such as `belljar-sandbox-exec.1`, into `dir`.
///
/// # Errors
/// The page that cannot be written, and why.
pub fn write(dir: &Path) -> Result<u8> {
    let mut command = Cli::command().disable_help_subcommand(true);
    // Gives each command its whole name, and the options that it has from above.
    command.build();
    check_here("DIR", dir)?;
    disk::create_dir_all(dir)?;
    let count = write_all(&command, dir)?;
    note!("belljar: {count} manual pages in {}", dir.display());
    Ok(0)
}

/// The number of pages written: that of `command`, and those of its subcommands.
fn write_all(command: &clap::Command, dir: &Path) -> Result<usize> {
    // `belljar-sandbox-exec`.
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let path = dir.join(format!("{name}.1"));
    check_here("DIR", &path)?;
    let mut file = disk::create(&path)?;
    file.write_all(&page(command.clone())?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    let mut count = 1;
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        count += write_all(inner, dir)?;
    }
    Ok(count)
}

/// The page of `command`. Examples and tables beneath its options keep their lines, which `Man` would fill.
fn page(mut command: clap::Command) -> Result<Vec<u8>> {
    let more = command.get_after_long_help().or_else(|| command.get_after_help());
    let more = more.map(ToString::to_string);
    // Taken out, so that `Man` does not render it.
    command = command.after_help(None::<&str>).after_long_help(None::<&str>);
    let man = Man::new(command.clone()).source(concat!("belljar ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.get_subcommands().any(|inner| !inner.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(more) = more {
        let (title, more) = match more.trim_start().strip_prefix("Examples:\n") {
            Some(examples) => ("EXAMPLES", examples),
            None => ("NOTES", more.trim_start()),
        };
        let mut roff = Roff::new();
        roff.control("SH", [title]);
        for line in more.lines() {
            // Examples and tables are indented, and keep their lines; a line of prose is a paragraph.
            let fills = if line.starts_with(' ') { "nf" } else { "fi" };
            roff.control(fills, []);
            roff.text([roman(line)]);
        }
        roff.control("fi", []).to_writer(&mut page)?;
    }
    Ok(page)
}
