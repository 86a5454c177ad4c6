//! `belljar programs`.

use anyhow::Result;
use serde_json::json;

use super::args::installation::ProgramsArgs;
use super::args::values::SHELL;
use super::setup::toolchains;
use crate::{Code, Described, Resolved};

pub fn run(args: &ProgramsArgs) -> Result<u8> {
    let toolchains = toolchains(&args.toolchain)?;
    let mut programs = Vec::new();
    for name in toolchains.names()? {
        let place = match toolchains.resolve(&name)? {
            Resolved::File(path) => path.display().to_string(),
            Resolved::BuiltIn { .. } => "built in".to_owned(),
            Resolved::Described(Described { code: Code::Module(path, _), .. }) => {
                path.display().to_string()
            }
            Resolved::Described(Described { launch, .. }) => {
                launch.args.first().cloned().unwrap_or_default()
            }
        };
        programs.push((name, place));
    }
    // The shell is not a module; that of a toolchain takes precedence.
    if !programs.iter().any(|(name, _)| name == SHELL) {
        programs.push((SHELL.to_owned(), "built in".to_owned()));
        programs.sort();
    }
    if args.json {
        let list: Vec<_> =
            programs.iter().map(|(name, from)| json!({ "name": name, "from": from })).collect();
        say!("{}", json!(list));
    } else {
        let width = programs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, place) in programs {
            say!("{name:width$}  {place}");
        }
    }
    Ok(0)
}
