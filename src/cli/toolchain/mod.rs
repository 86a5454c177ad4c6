//! `belljar toolchain`.

#[cfg(feature = "import")]
mod bundles;
mod check;
mod draft;
mod inspect;
#[cfg(feature = "import")]
mod new_folder;
#[cfg(feature = "import")]
mod package;

use std::path::Path;

#[cfg(feature = "import")]
pub use package::unpack as unpack_package;

use anyhow::Result;
use bytesize::ByteSize;
use serde_json::json;

use super::args::toolchain::{ToolchainAction, ToolchainArgs};
use super::home::installed_toolchains;
#[cfg(feature = "import")]
use super::install;
#[cfg(feature = "oci")]
use super::install::oci::{self, Registry};
use super::install::{outdated, recipes, stored};
#[cfg(feature = "import")]
use super::signatures::secret;
use super::signatures::{Keys, Verdict};
use super::text::{count, printable};
use crate::{Manifest, Removed, Toolchain};

pub fn run(args: &ToolchainArgs) -> Result<u8> {
    match &args.action {
        ToolchainAction::List { json } => list(*json),
        ToolchainAction::Recipes { json } => recipes(*json),
        ToolchainAction::Inspect { toolchain, json } => inspect::inspect(toolchain, *json),
        ToolchainAction::Check { dir, json } => check::check(dir, *json),
        #[cfg(feature = "import")]
        ToolchainAction::Init { dir, name, from: Some(package) } => {
            package::init(package, dir.as_deref(), name.as_deref())
        }
        ToolchainAction::Init { dir, name, .. } => {
            draft::init(dir.as_deref().unwrap_or(Path::new(".")), name.as_deref())
        }
        #[cfg(feature = "import")]
        ToolchainAction::Pack { source, sign, precompile, output, quiet } => {
            // First, as it may ask for a password.
            let key = sign.as_deref().map(|path| secret::open("--sign", path)).transpose()?;
            let source = install::toolchain_of(source, *quiet)?;
            let key = key.as_ref().map(|key| (key, &precompile[..]));
            bundles::pack(source.toolchain, key, output.as_deref(), *quiet)
        }
        ToolchainAction::Verify { names, json } => stored::verify(names, *json),
        #[cfg(feature = "oci")]
        ToolchainAction::Outdated { plain_http, json } => outdated::outdated(*plain_http, *json),
        #[cfg(not(feature = "oci"))]
        ToolchainAction::Outdated { json } => outdated::outdated(false, *json),
        #[cfg(feature = "oci")]
        ToolchainAction::Push { source, reference, plain_http, json, quiet } => {
            bundles::push(source, &Registry::of(reference, *plain_http)?, *json, *quiet)
        }
        #[cfg(feature = "oci")]
        ToolchainAction::Pull { reference, output, plain_http, quiet } => {
            let registry = Registry::of(reference, *plain_http)?;
            let (_folder, pulled) = oci::pull(&registry, &installed_toolchains()?, *quiet)?;
            if output.is_none() {
                // The registry chooses its name.
                new_folder::expect_none(&bundles::file_name(pulled.manifest())?)?;
            }
            bundles::pack(pulled, None, output.as_deref(), *quiet)
        }
        #[cfg(feature = "import")]
        ToolchainAction::Unpack { file, dir } => bundles::unpack(file, dir),
        ToolchainAction::Gc { json } => gc(*json),
    }
}

fn list(json: bool) -> Result<u8> {
    let store = installed_toolchains()?;
    let keys = if json { Keys::trusted()? } else { Keys::default() };
    let mut lines = Vec::new();
    for name in store.names()? {
        let toolchain = Toolchain::installed(&store, &name)?;
        let Manifest { version, description, programs, .. } = toolchain.manifest();
        if json {
            let programs: Vec<&String> = programs.keys().collect();
            lines.push(json!({
                "name": name, "version": version, "digest": toolchain.digest(), "programs": programs,
                "description": description,
                "signature": Verdict::of_installed(&keys, &store, &name, None).json(),
            }));
        } else {
            say_line(toolchain.manifest());
        }
    }
    for (name, version, digest) in store.versions()? {
        if json {
            lines.push(json!({
                "name": name, "version": version, "digest": digest, "for_projects": true,
                "signature": Verdict::of_installed(&keys, &store, &name, Some(digest)).json(),
            }));
        } else {
            say!("{name} {}  for projects, {digest}", printable(&version));
        }
    }
    if json {
        say!("{}", json!(lines));
    }
    Ok(0)
}

fn recipes(json: bool) -> Result<u8> {
    let mut lines = Vec::new();
    for name in recipes::names() {
        let Some(recipe) = recipes::find(name).transpose()? else { continue };
        let Manifest { version, description, license, .. } = &recipe.manifest;
        if json {
            let package = format!("{} {}", recipe.package.name, recipe.package.version);
            lines.push(json!({
                "name": name, "version": version, "description": description, "license": license,
                "client": format!("{:?}", recipe.package.client).to_lowercase(), "package": package,
            }));
        } else {
            say_line(&recipe.manifest);
        }
    }
    if json {
        say!("{}", json!(lines));
    }
    Ok(0)
}

fn say_line(Manifest { name, version, description, .. }: &Manifest) {
    let description = description.as_deref().unwrap_or_default();
    say!("{name} {}  {}", printable(version), printable(description));
}

fn gc(json: bool) -> Result<u8> {
    let store = installed_toolchains()?;
    let before = store.versions()?;
    let removed = store.gc()?;
    let after = store.versions()?;
    let versions: Vec<_> = before.into_iter().filter(|version| !after.contains(version)).collect();
    let Removed { contents, bytes } = removed.unwrap_or_default();
    if json {
        let versions: Vec<_> = versions
            .iter()
            .map(|(name, version, digest)| {
                json!({ "name": name, "version": version, "digest": digest })
            })
            .collect();
        say!(
            "{}",
            json!({
                "contents": contents, "bytes": bytes, "in_use": removed.is_none(), "versions": versions,
            })
        );
        return Ok(0);
    }
    for (name, version, _) in versions {
        say!("removed {name} {}, which no project needs", printable(&version));
    }
    if removed.is_none() {
        say!("programs are running, which may need contents: nothing was removed");
    } else {
        say!("removed {}, {}", count(contents, "content"), ByteSize(bytes).display().iec());
    }
    Ok(0)
}
