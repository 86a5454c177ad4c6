//! Fetches the package of a recipe, and unpacks what the recipe names.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use super::archive::{self, Wanted};
use super::recipes::{Client, Package, Recipe};
use crate::InstalledToolchains;
use crate::base::disk;
use crate::cli::exit::Usage;
use crate::cli::progress::Progress;
use crate::cli::text::printable;
use crate::native::to_start;
use crate::toolchain::{Temporary, digests};

/// The usual name of Python, and those that are tried if it is not there or has no pip. On Windows, installers make no
/// `python3`, and a program of the system with that name only says where to buy it.
const PYTHON: &str = if cfg!(windows) { "python" } else { "python3" };
const OTHER_PYTHONS: &[&str] = if cfg!(windows) { &["py", "python3"] } else { &["python"] };

/// Most bytes of messages of a package client that are shown.
const SAID_BYTES_MAX: usize = 4 << 10;

/// A folder of `store` with the files of `recipe`, from its package, or from the file `package` in place of it.
pub fn import(
    recipe: &Recipe,
    package: Option<&Path>,
    store: &InstalledToolchains,
    quiet: bool,
) -> Result<Temporary> {
    let download = store.temporary()?;
    let file = match package {
        Some(file) => file.to_owned(),
        None => fetch(&recipe.package, download.path(), quiet)?,
    };
    // Before anything is opened.
    check(&recipe.package, &file)?;
    let folder = store.temporary()?;
    let shown = Progress::start(format!("unpacking {}", recipe.package.name), quiet);
    let wanted = [Wanted::all(&recipe.files, false), Wanted::all(&recipe.archives, true)].concat();
    archive::unpack(&file, recipe.package.client, &wanted, folder.path())
        .with_context(|| format!("cannot unpack {}", file.display()))?;
    for (path, bytes) in &recipe.own {
        archive::write(folder.path(), path, &mut &**bytes, bytes.len() as u64)?;
    }
    drop(shown);
    Ok(folder)
}

/// Fetches `package` into the empty folder `into`; returns the file.
fn fetch(package: &Package, into: &Path, quiet: bool) -> Result<PathBuf> {
    let Package { client, name, version, .. } = package;
    let shown = Progress::start(format!("fetching {name} {version}"), quiet);
    let done = match client {
        Client::Pip => {
            let pinned = format!("{name}=={version}");
            let words = [
                "download",
                "--quiet",
                "--disable-pip-version-check",
                "--no-input",
                "--no-deps",
                "--only-binary=:all:",
                "--dest",
                ".",
                &pinned,
            ];
            pip(&words, into)
        }
        Client::Npm => {
            let pinned = format!("{name}@{version}");
            call("npm", &["pack", "--loglevel=error", "--ignore-scripts", &pinned], into)
        }
    };
    drop(shown);
    done.with_context(|| {
        let (client, registry) = match client {
            Client::Pip => (format!("pip (`{PYTHON} -m pip`)"), "PyPI"),
            Client::Npm => ("npm".to_owned(), "npm"),
        };
        format!(
            "{client} could not fetch {name} {version}; fetch the package {name} {version} from {registry} by \
             other means, and name the file with --package FILE"
        )
    })?;
    match &disk::list(into)?[..] {
        [file] => Ok(file.clone()),
        files => bail!("one file was expected of {name} {version}, not {}", files.len()),
    }
}

/// Runs `python -m pip` with `words` in `folder`, with the first Python that has pip.
fn pip(words: &[&str], folder: &Path) -> Result<()> {
    let pip =
        |python: &str, words: &[&str]| call(python, &[&["-m", "pip"], words].concat(), folder);
    let has_pip = |python: &str| pip(python, &["--version"]).is_ok();
    let called = pip(PYTHON, words);
    if called.is_ok() || has_pip(PYTHON) {
        return called;
    }
    match OTHER_PYTHONS.iter().find(|python| has_pip(python)) {
        Some(python) => pip(python, words),
        None => called,
    }
}

#[allow(clippy::disallowed_methods, reason = "the user's package client, not a program of a run")]
fn call(program: &str, words: &[&str], folder: &Path) -> Result<()> {
    let mut command = std::process::Command::new(to_start(OsStr::new(program)));
    command.args(words.iter().map(OsStr::new)).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.output().with_context(|| format!("cannot run {program}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr[..output.stderr.len().min(SAID_BYTES_MAX)]);
    let said: Vec<String> = said.lines().map(printable).collect();
    bail!("{program} failed ({}):\n{}", output.status, said.join("\n"))
}

/// Checks that `file` is the one that the recipe was made for.
fn check(package: &Package, file: &Path) -> Result<()> {
    let mut opened = disk::open(file)?;
    let (found, ..) = digests::of_reader(&mut opened)
        .with_context(|| format!("cannot read {}", file.display()))?;
    if found != package.sha256 {
        let Package { name, version, sha256, .. } = package;
        return Err(Usage(format!(
            "{} is not {name} {version}, for which the recipe was made: its SHA-256 is {found}, not {sha256}",
            file.display()
        ))
        .into());
    }
    Ok(())
}
