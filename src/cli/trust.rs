//! `belljar trust`.

use std::path::Path;

use anyhow::{Result, bail};
use serde_json::json;

use super::args::toolchain::TrustArgs;
use super::exit::Usage;
use super::install::project::is_beyond;
use super::project::settings;
use super::project::{self, PROJECT_FILE, Project, Trusted};
use super::text::printable;
use crate::base::disk;

pub fn run(args: &TrustArgs) -> Result<u8> {
    if args.revoke {
        return revoke(args);
    }
    let project = project_of(args.dir.as_deref())?.not_trusted();
    let settings = settings::asked(&project)?;
    let mut asked: Vec<String> = settings.iter().map(|it| printable(&it.grant)).collect();
    let mut grants: Vec<String> = settings.into_iter().map(|it| it.grant).collect();
    for (name, wanted) in project.file.toolchains.iter().flatten() {
        let Some(source) = &wanted.source else { continue };
        if is_beyond(&project, source) {
            grants.push(project.grant_of_source(source));
            asked.push(format!("toolchains.{name} = {}", printable(source)));
        }
    }
    project::trust(&Trusted { dir: project.dir.clone(), digest: project.digest()?, grants })?;
    if args.json {
        say!("{}", json!({ "project": project.dir, "settings": asked, "trusted": true }));
        return Ok(0);
    }
    for setting in &asked {
        say!("{setting}");
    }
    let what = if asked.is_empty() { "; it asks for nothing that needs this" } else { "" };
    say!("trusted {}, until {PROJECT_FILE} changes{what}", project.dir.display());
    Ok(0)
}

fn revoke(args: &TrustArgs) -> Result<u8> {
    // Its file may be gone.
    let dir = match &args.dir {
        Some(dir) => disk::canonical(dir)?,
        None => project_of(None)?.dir,
    };
    let was_trusted = project::revoke(&dir)?;
    if args.json {
        say!("{}", json!({ "project": dir, "trusted": false, "was_trusted": was_trusted }));
    } else if was_trusted {
        say!("{} is not trusted any more", dir.display());
    } else {
        say!("{} was not trusted", dir.display());
    }
    Ok(0)
}

fn project_of(dir: Option<&Path>) -> Result<Project> {
    let found = match dir {
        Some(dir) => Project::in_dir(dir)?,
        None => match project::current()? {
            Some(project) => Project::in_dir(&project.dir)?,
            None => None,
        },
    };
    match (found, dir) {
        (Some(project), _) => Ok(project),
        (None, Some(dir)) => bail!(Usage(format!("{} has no {PROJECT_FILE}", dir.display()))),
        (None, None) => {
            bail!(Usage(format!("there is no {PROJECT_FILE} in this directory or above it")))
        }
    }
}
