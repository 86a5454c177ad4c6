//! Recipes: how packages that people publish become toolchains. They are part of the binary, without the packages.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::Manifest;

/// A recipe, with the files that it has itself.
pub struct Recipe {
    /// What it needs.
    pub package: Package,
    /// Folders and files of the toolchain, and where they are in the package.
    pub files: BTreeMap<String, String>,
    /// Folders of the toolchain, and the archives (tar) in the package that hold their files.
    pub archives: BTreeMap<String, String>,
    /// Files of the toolchain that come with the recipe.
    pub own: Vec<(String, &'static [u8])>,
    /// The manifest, without digests.
    pub manifest: Manifest,
}

/// A package of a registry.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// The program that fetches it.
    pub client: Client,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The SHA-256 of the file, in hex.
    pub sha256: String,
}

/// A program that fetches packages.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Client {
    /// A wheel, from the Python Package Index.
    Pip,
    /// A tarball, from the npm registry.
    Npm,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(rename = "format")]
    _format: String,
    package: Package,
    files: BTreeMap<String, String>,
    #[serde(default)]
    archives: BTreeMap<String, String>,
    #[serde(default)]
    own: BTreeMap<String, String>,
    manifest: serde_json::Value,
}

/// A recipe and its files, as they are committed.
struct Committed {
    name: &'static str,
    text: &'static str,
    files: &'static [(&'static str, &'static [u8])],
}

const FPGA_DRIVER: &[u8] = include_bytes!("../../../toolchains/fpga/driver.sh");

const RECIPES: [Committed; 6] = [
    Committed {
        name: "avr-gcc",
        text: include_str!("../../../toolchains/avr-gcc/recipe.json"),
        files: &[
            ("driver.sh", include_bytes!("../../../toolchains/avr-gcc/driver.sh")),
            ("link.ld", include_bytes!("../../../toolchains/avr-gcc/link.ld")),
            ("start.S", include_bytes!("../../../toolchains/avr-gcc/start.S")),
        ],
    },
    Committed {
        name: "clang",
        text: include_str!("../../../toolchains/clang/recipe.json"),
        files: &[("driver.sh", include_bytes!("../../../toolchains/clang/driver.sh"))],
    },
    Committed {
        name: "nextpnr-ice40",
        text: include_str!("../../../toolchains/nextpnr-ice40/recipe.json"),
        files: &[("driver.sh", FPGA_DRIVER)],
    },
    Committed {
        name: "python",
        text: include_str!("../../../toolchains/python/recipe.json"),
        files: &[],
    },
    Committed {
        name: "resvg",
        text: include_str!("../../../toolchains/resvg/recipe.json"),
        files: &[],
    },
    Committed {
        name: "yosys",
        text: include_str!("../../../toolchains/yosys/recipe.json"),
        files: &[("driver.sh", FPGA_DRIVER)],
    },
];

/// The names of all recipes.
pub fn names() -> impl Iterator<Item = &'static str> {
    RECIPES.iter().map(|recipe| recipe.name)
}

/// The name of the recipe whose toolchain has the program `program`.
pub fn with_program(program: &str) -> Option<&'static str> {
    names().find(|name| {
        let recipe = find(name).and_then(Result::ok);
        recipe.is_some_and(|recipe| recipe.manifest.programs.contains_key(program))
    })
}

/// The recipe `name`, if there is one.
pub fn find(name: &str) -> Option<Result<Recipe>> {
    RECIPES.iter().find(|recipe| recipe.name == name).map(read)
}

fn read(recipe: &Committed) -> Result<Recipe> {
    let text: Text = serde_json::from_str(recipe.text)
        .with_context(|| format!("the recipe {} is invalid", recipe.name))?;
    let Text { package, files, archives, own, manifest, .. } = text;
    let manifest = Manifest::parse(Path::new(recipe.name), manifest.to_string().as_bytes())?;
    let own = own.into_iter().map(|(path, file)| {
        let found = recipe.files.iter().find(|(name, _)| *name == file);
        let (_, bytes) =
            found.with_context(|| format!("the recipe {} lacks {file}", recipe.name))?;
        Ok((path, *bytes))
    });
    Ok(Recipe { package, files, archives, own: own.collect::<Result<_>>()?, manifest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_recipes_are_valid() {
        for name in names() {
            let recipe = find(name).unwrap().unwrap();
            assert_eq!(recipe.manifest.name, name);
            assert_eq!(recipe.package.sha256.len(), 64);
        }
    }
}
