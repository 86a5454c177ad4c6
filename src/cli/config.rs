//! `belljar config`.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use clap::{ArgMatches, Args, Command};
use serde_json::{Value, json};

use super::args::run::RunArgs;
use super::args::toolchain::ConfigArgs;
use super::home::{cache_dir, home_dir, installed_toolchains};
use super::project::lock::Lock;
use super::project::settings::{self, Settings};
use super::project::{self, PROJECT_FILE, Project};
use super::signatures::Keys;
use super::text::printable;
use crate::InstalledToolchains;
use crate::base::ambient;

/// Variables that change what belljar does.
const VARIABLES: [&str; 7] = [
    "BELLJAR_CACHE_DIR",
    "BELLJAR_CACHE_MAX_SIZE",
    "BELLJAR_HOME",
    "BELLJAR_NO_BACKGROUND",
    "BELLJAR_PROJECT",
    "BELLJAR_TIER",
    "BELLJAR_TOOLCHAIN",
];

/// An option of runs, and where its value comes from.
struct Line {
    name: &'static str,
    value: String,
    from: &'static str,
}

pub fn run(args: &ConfigArgs) -> Result<u8> {
    let project = project::current()?;
    let (command, settings) = match project {
        Some(project) => settings::of_run(project)?,
        None => (RunArgs::augment_args(Command::new("run")), Settings::default()),
    };
    let given = command.clone().try_get_matches_from(["run", "program"])?;
    let lines: Vec<Line> =
        settings::names().flat_map(|name| lines_of(name, &command, &given, &settings)).collect();
    let store = installed_toolchains()?;
    let toolchains = match project {
        Some(project) => toolchains(project, &store)?,
        None => Vec::new(),
    };
    if args.json {
        let options: Vec<Value> = lines
            .iter()
            .map(|line| json!({ "name": line.name, "value": line.value, "from": line.from }))
            .collect();
        let ignored: Vec<Value> = settings
            .ignored
            .iter()
            .map(|it| json!({ "name": it.name, "value": it.value, "why": it.why }))
            .collect();
        let described = match project {
            Some(project) => json!({
                "dir": project.dir, "trusted": project.is_trusted()?,
                "signed_by": project.file.signers.as_ref().map(Keys::ids),
            }),
            None => Value::Null,
        };
        say!(
            "{}",
            json!({
                "project": described, "options": options, "ignored": ignored,
                "toolchains": toolchains.iter().map(InUse::json).collect::<Vec<_>>(),
                "home": home_dir()?, "cache": cache_dir()?, "environment": environment(),
            })
        );
        return Ok(0);
    }
    print(project, &lines, &settings, &toolchains)
}

fn print(
    project: Option<&Project>,
    lines: &[Line],
    settings: &Settings,
    toolchains: &[InUse],
) -> Result<u8> {
    match project {
        Some(project) => {
            let trusted = if project.is_trusted()? { "trusted" } else { "not trusted" };
            say!("project  {} ({trusted})", project.dir.display());
            if let Some(keys) = &project.file.signers {
                say!("signed by key {}", keys.ids().join(" or "));
            }
        }
        None => say!("project  none: no {PROJECT_FILE} in this directory or above it"),
    }
    say!("home     {}", home_dir()?.display());
    say!("cache    {}", cache_dir()?.display());
    for (name, value) in environment() {
        say!("{name}={}", printable(&value));
    }
    say!("");
    let shown = |name: &str, value: &str| format!("{name} = {}", printable(value));
    let mut table: Vec<(String, String)> =
        lines.iter().map(|it| (shown(it.name, &it.value), it.from.to_owned())).collect();
    table.extend(settings.ignored.iter().map(|it| {
        let why = format!("ignored: {}; `belljar trust` lets it", it.why);
        (shown(it.name, &it.value), why)
    }));
    let width = table.iter().map(|(option, _)| option.chars().count()).max().unwrap_or(0);
    for (option, from) in table {
        say!("{option:width$}  {from}");
    }
    if !toolchains.is_empty() {
        say!("");
    }
    for toolchain in toolchains {
        say!("{}", toolchain.text());
    }
    Ok(0)
}

fn environment() -> Vec<(&'static str, String)> {
    let set =
        |name: &'static str| Some((name, ambient::setting(name)?.to_string_lossy().into_owned()));
    VARIABLES.into_iter().filter_map(set).collect()
}

/// The values of the option `name`.
fn lines_of(
    name: &'static str,
    command: &Command,
    given: &ArgMatches,
    settings: &Settings,
) -> Vec<Line> {
    let used: Vec<&OsString> =
        settings.used.iter().filter(|it| it.name == name).map(|it| &it.word).collect();
    if !used.is_empty() {
        let value = |word: &OsString| {
            let word = word.to_string_lossy();
            word.split_once('=').map_or("true", |(_, value)| value).to_owned()
        };
        return used
            .into_iter()
            .map(|word| Line { name, value: value(word), from: PROJECT_FILE })
            .collect();
    }
    let Some(arg) = settings::option(command, name) else { return Vec::new() };
    let id = arg.get_id().as_str();
    let from = match given.value_source(id) {
        Some(clap::parser::ValueSource::EnvVariable) => "environment",
        Some(_) if arg.get_action().takes_values() => "default",
        _ => return Vec::new(),
    };
    let values = given.get_raw(id).into_iter().flatten();
    values.map(|value| Line { name, value: value.to_string_lossy().into_owned(), from }).collect()
}

/// A toolchain of a project.
struct InUse {
    name: String,
    version: Option<String>,
    /// Its folder, if it is used where it lies.
    folder: Option<PathBuf>,
    digest: Option<String>,
    is_installed: bool,
}

impl InUse {
    fn json(&self) -> Value {
        let Self { name, version, folder, digest, is_installed } = self;
        json!({
            "name": name, "version": version, "folder": folder, "digest": digest,
            "installed": is_installed,
        })
    }

    fn text(&self) -> String {
        let Self { name, version, folder, digest, is_installed } = self;
        let version = version.as_deref().map(printable).unwrap_or_default();
        match (folder, digest) {
            (Some(folder), _) => {
                format!("toolchain {name} in {}", printable(&folder.to_string_lossy()))
            }
            (None, Some(digest)) if *is_installed => {
                format!("toolchain {name} {version} {digest}")
            }
            (None, Some(digest)) => format!(
                "toolchain {name} {version} {digest}: not installed; `belljar install` does that"
            ),
            (None, None) => {
                format!("toolchain {name} {version}: not locked; `belljar install` does that")
            }
        }
    }
}

fn toolchains(project: &Project, store: &InstalledToolchains) -> Result<Vec<InUse>> {
    let lock = Lock::read(project)?;
    let mut toolchains = Vec::new();
    for (name, wanted) in project.file.toolchains.iter().flatten() {
        let locked = lock.as_ref().and_then(|lock| lock.find(name));
        let is_installed = match locked {
            Some(locked) => store.has_version(name, locked.digest)?,
            None => false,
        };
        toolchains.push(InUse {
            name: name.clone(),
            version: locked.map(|it| it.version.clone()).or_else(|| wanted.version.clone()),
            folder: wanted.folder(project).unwrap_or_default(),
            digest: locked.map(|it| it.digest.to_string()),
            is_installed,
        });
    }
    Ok(toolchains)
}
