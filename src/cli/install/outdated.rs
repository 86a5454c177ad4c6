//! `belljar toolchain outdated`: what the sources of toolchains have now.

use anyhow::{Context, Error, Result};
use serde::Serialize;
use serde_json::json;

use super::{project, recipes};
use crate::Toolchain;
use crate::cli::home::installed_toolchains;
use crate::cli::project::lock::{Lock, Locked};
use crate::cli::project::toolchains::expect_within;
use crate::cli::project::{Project, Wanted, current};
use crate::cli::text::printable;

/// A toolchain whose source has another version than the one in use.
#[derive(Serialize)]
struct Outdated {
    name: String,
    version: String,
    source: String,
    /// The version that the source has.
    available: String,
    /// How to get that one.
    next: String,
}

/// Lists the toolchains of the project of which their sources have another version; outside of a project, the installed
/// ones of which the recipe has another.
pub fn outdated(plain_http: bool, json: bool) -> Result<u8> {
    let (found, failed) = match current()? {
        Some(project) if project.file.toolchains.is_some() => of_project(project, plain_http)?,
        _ => (of_installed()?, None),
    };
    if json {
        say!("{}", json!(found));
    }
    for Outdated { name, version, source, available, next } in found.iter().filter(|_| !json) {
        let [version, source, available] = [version, source, available].map(|it| printable(it));
        say!("{name} {version}: {source} has {available}; {next}");
    }
    // What the other sources said is told first.
    failed.map_or(Ok(0), Err)
}

fn of_installed() -> Result<Vec<Outdated>> {
    let store = installed_toolchains()?;
    let mut found = Vec::new();
    for name in store.names()? {
        let Some(recipe) = recipes::find(&name) else { continue };
        let available = recipe.with_context(|| format!("the recipe {name}"))?.manifest.version;
        let version = Toolchain::installed(&store, &name)?.manifest().version.clone();
        if version != available {
            let (source, next) =
                ("the recipe".to_owned(), format!("`belljar install {name}` replaces it"));
            found.push(Outdated { name, version, source, available, next });
        }
    }
    Ok(found)
}

/// Also returns the first error of a source.
fn of_project(project: &Project, plain_http: bool) -> Result<(Vec<Outdated>, Option<Error>)> {
    let lock = Lock::read(project)?;
    let (mut found, mut failed) = (Vec::new(), None);
    for (name, wanted) in project.file.toolchains.iter().flatten() {
        let is_folder = |source: &String| project.dir.join(source).is_dir();
        // A folder is used as it is.
        if wanted.source.as_ref().is_some_and(is_folder) {
            continue;
        }
        let Some(locked) = lock.as_ref().and_then(|lock| lock.find(name)) else {
            note!(
                "belljar: note: {} is not locked yet: `belljar install` does it",
                printable(name)
            );
            continue;
        };
        match of_source(project, wanted, locked, plain_http) {
            Ok(outdated) => found.extend(outdated),
            Err(error) => {
                failed.get_or_insert(
                    error.context(format!("cannot tell what there is of {}", printable(name))),
                );
            }
        }
    }
    Ok((found, failed))
}

fn of_source(
    project: &Project,
    wanted: &Wanted,
    locked: &Locked,
    plain_http: bool,
) -> Result<Option<Outdated>> {
    let source = wanted.source.as_deref().unwrap_or(&locked.name);
    let outdated = |source: &str, available: String, next: &str| {
        let Locked { name, version, .. } = locked;
        let (name, version, source) = (name.clone(), version.clone(), source.to_owned());
        Some(Outdated { name, version, source, available, next: next.to_owned() })
    };
    let next = if wanted.version.is_some() {
        "write this version in belljar.toml, then `belljar install --update`"
    } else {
        "`belljar install --update` takes it"
    };
    if let Some(recipe) = recipes::find(source) {
        let available = recipe.with_context(|| format!("the recipe {source}"))?.manifest.version;
        let is_other = available != locked.version;
        return Ok(outdated("the recipe", available, next).filter(|_| is_other));
    }
    if project::is_remote(project, source) {
        project::expect_trusted_registry(project, source)?;
        let (available, newest_tag) = in_registry(source, plain_http)?;
        let known = numbers(&available).max(numbers(&locked.version));
        if let Some(tag) = newest_tag.filter(|tag| numbers(tag) > known) {
            let next = "name this tag in belljar.toml, then `belljar install --update`";
            return Ok(outdated(source, tag, next));
        }
        let is_other = available != locked.version;
        return Ok(outdated(source, available, next).filter(|_| is_other));
    }
    expect_within(project, source)?;
    let available = version_in_bundle(project, source)?;
    let is_other = available != locked.version;
    Ok(outdated(source, available, next).filter(|_| is_other))
}

/// The numbers of a version such as `1.2.0` or `v1.2`, to compare it; `None` of another text.
fn numbers(version: &str) -> Option<Vec<u64>> {
    let version = version.strip_prefix('v').unwrap_or(version);
    version.split('.').map(|number| number.parse().ok()).collect()
}

#[cfg(feature = "import")]
fn version_in_bundle(project: &Project, source: &str) -> Result<String> {
    Ok(super::bundle::manifest_of(&project.dir.join(source))?.version)
}

#[cfg(not(feature = "import"))]
fn version_in_bundle(_: &Project, _: &str) -> Result<String> {
    Err(super::no_bundles())
}

/// The version of what the reference `source` names, and the newest tag of its repository.
#[cfg(feature = "oci")]
fn in_registry(source: &str, plain_http: bool) -> Result<(String, Option<String>)> {
    let registry = super::oci::Registry::of(source, plain_http)?;
    let version = super::oci::version(&registry)?;
    let tags = registry.tags()?.into_iter();
    let newest = tags.filter(|tag| numbers(tag).is_some()).max_by_key(|tag| numbers(tag));
    Ok((version, newest))
}

#[cfg(not(feature = "oci"))]
fn in_registry(source: &str, _: bool) -> Result<(String, Option<String>)> {
    unreachable!("without the feature `oci`, {source} is no reference")
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(numbers("1.10") > numbers("1.9.9") && numbers("v2") > numbers("1.10"));
        assert!(numbers("1.2.0") > numbers("1.2") && numbers("1.2").is_some());
        for text in ["", "latest", "1.x", "1.2-rc1", "1..2", "99999999999999999999"] {
            assert_eq!(numbers(text), None, "{text:?}");
        }
    }
}
