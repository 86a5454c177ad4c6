//! `belljar programs`.

use anyhow::Result;
use serde_json::json;

use super::args::installation::ProgramsArgs;
use super::args::values::SHELL;
use super::setup::toolchains;
use super::text::printable;
use crate::{Code, Described, Manifest, Resolved};

pub fn run(args: &ProgramsArgs) -> Result<u8> {
    let toolchains = toolchains(&args.toolchain)?;
    let mut programs = Vec::new();
    for name in toolchains.names()? {
        let (place, owner) = match toolchains.resolve(&name)? {
            Resolved::File(path) => (path.display().to_string(), None),
            Resolved::BuiltIn { .. } => ("built in".to_owned(), None),
            Resolved::Described(Described { code, launch, toolchain, .. }) => {
                let place = match code {
                    Code::Module(path, _) => path.display().to_string(),
                    Code::Script => launch.args.first().cloned().unwrap_or_default(),
                };
                let Manifest { name, version, .. } = toolchain.manifest();
                (place, Some((name.clone(), version.clone())))
            }
        };
        programs.push((name, place, owner));
    }
    // The shell is not a module; that of a toolchain takes precedence.
    if !programs.iter().any(|(name, ..)| name == SHELL) {
        programs.push((SHELL.to_owned(), "built in".to_owned(), None));
        programs.sort();
    }
    if args.json {
        let line = |(name, from, owner): &(String, String, Option<(String, String)>)| {
            let owner =
                owner.as_ref().map(|(name, version)| json!({ "name": name, "version": version }));
            json!({ "name": name, "from": from, "toolchain": owner })
        };
        say!("{}", json!(programs.iter().map(line).collect::<Vec<_>>()));
        return Ok(0);
    }
    let width = programs.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    for (name, place, owner) in programs {
        let owner = owner.map(|(name, version)| format!("{name} {}  ", printable(&version)));
        say!("{name:width$}  {}{place}", owner.unwrap_or_default());
    }
    Ok(0)
}
