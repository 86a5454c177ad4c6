//! The format of `belljar.toml`.

use std::fmt;
use std::path::Path;

use indexmap::IndexMap;
use serde::de::{MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer};

use crate::cli::exit::Usage;
use crate::cli::signatures::Keys;
use crate::toolchain::names;

/// The name of the file that makes a folder a project.
pub const PROJECT_FILE: &str = "belljar.toml";

/// What a project says of itself.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectFile {
    /// The toolchains by name, in the order in which they are searched. Without them, all that are installed are used.
    pub toolchains: Option<IndexMap<String, Wanted>>,
    /// Public keys of minisign, one of which must have signed each of the toolchains.
    #[serde(rename = "signed-by")]
    signed_by: Option<Vec<String>>,
    /// The same, parsed.
    #[serde(skip)]
    pub signers: Option<Keys>,
    /// Options of runs, by their names without `--`.
    #[serde(default)]
    pub run: toml::Table,
}

/// A toolchain that a project needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The version; any if it is not given.
    pub version: Option<String>,
    /// What `belljar install` is given for it: a folder or bundle relative to the project, a reference to a registry, or a
    /// recipe. Without it, the recipe of its name.
    pub source: Option<String>,
}

impl<'de> Deserialize<'de> for Wanted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            version: Option<String>,
            source: Option<String>,
        }
        /// `*` is what Cargo and npm call any version.
        fn certain(version: String) -> Option<String> {
            Some(version).filter(|version| version != "*")
        }
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Wanted;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a version, or a table with `version` or `source`")
            }

            fn visit_str<E>(self, version: &str) -> Result<Wanted, E> {
                Ok(Wanted { version: certain(version.to_owned()), source: None })
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Wanted, M::Error> {
                let Table { version, source } =
                    Table::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Wanted { version: version.and_then(certain), source })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl ProjectFile {
    /// Parses `text`, which is in the file `path`.
    ///
    /// # Errors
    /// [`Usage`], with the line.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Usage> {
        let mut file: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start.min(text.len()));
            let before = text.get(..at).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            let message = error.message().replace('\n', "; ");
            Usage(format!("{}:{line}:{column}: {message}", path.display()))
        })?;
        if let Some(keys) = &file.signed_by {
            let wrong = |what: String| Usage(format!("{}: signed-by: {what}", path.display()));
            if keys.is_empty() {
                return Err(wrong("it has no key: name one, or leave it out".to_owned()));
            }
            if file.toolchains.is_none() {
                let what = "it needs a table [toolchains], which names what must be signed";
                return Err(wrong(what.to_owned()));
            }
            file.signers = Some(Keys::parse(keys).map_err(|error| wrong(error.to_string()))?);
        }
        for name in file.toolchains.iter().flatten().map(|(name, _)| name) {
            if name.is_empty() || !name.chars().all(names::is_plain) {
                let path = path.display();
                let message = format!(
                    "{path}: toolchains: {name:?} cannot be the name of a toolchain: letters, digits, \
                     `.`, `_`, `+` and `-` can be in it"
                );
                return Err(Usage(message));
            }
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ProjectFile, String> {
        ProjectFile::parse(text, Path::new("belljar.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn toolchains_keep_their_order_and_are_versions_or_tables() {
        let file = parse(
            "[toolchains]\nz = \"1\"\na = { source = \"tools/a\" }\nm = \"*\"\n[run]\nseed = 7\n",
        )
        .unwrap();
        let wanted: Vec<_> = file.toolchains.unwrap().into_iter().collect();
        let wanted: Vec<_> = wanted
            .iter()
            .map(|(name, it)| (name.as_str(), it.version.as_deref(), it.source.as_deref()))
            .collect();
        assert_eq!(
            wanted,
            [("z", Some("1"), None), ("a", None, Some("tools/a")), ("m", None, None)]
        );
        assert_eq!(file.run["seed"].as_integer(), Some(7));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, message) in [
            ("[run\n", "belljar.toml:1:"),
            ("\n[runs]\n", "belljar.toml:2:2: unknown field `runs`"),
            (
                "[toolchains]\na = 3\n",
                "belljar.toml:2:5: invalid type: integer `3`, expected a version",
            ),
            ("[toolchains]\na = { path = \"b\" }\n", "unknown field `path`"),
            ("[toolchains]\n\"../a\" = \"1\"\n", "cannot be the name of a toolchain"),
            ("signed-by = []\n[toolchains]\n", "signed-by: it has no key"),
            ("signed-by = [\"RWQ\"]\n", "it needs a table [toolchains]"),
            ("signed-by = \"RWQ\"\n[toolchains]\n", "belljar.toml:1:13: invalid type"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(message), "{text:?}: {error}");
        }
    }
}
