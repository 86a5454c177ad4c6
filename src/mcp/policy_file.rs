//! Policies in files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::bounds::{Bounds, TEXT_BYTES_MAX};
use super::policy::{Folder, Policy, PolicyError, PolicyTexts};
use crate::base::disk;
use crate::host::CommandPolicy;
use crate::net::{EgressPolicy, EgressRule};

/// Size limit of a policy.
const POLICY_BYTES_MAX: u64 = 4 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    #[serde(default)]
    folders: Vec<FileFolder>,
    toolchains: Option<Vec<String>>,
    #[serde(default)]
    install: Vec<String>,
    #[serde(default)]
    allow_net: Vec<EgressRule>,
    #[serde(default)]
    deny_net: Vec<EgressRule>,
    host_policy: Option<PathBuf>,
    #[serde(default)]
    allow_origins: Vec<String>,
    #[serde(default)]
    limits: Bounds,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileFolder {
    name: String,
    path: PathBuf,
    #[serde(default)]
    access: Access,
    #[serde(default)]
    apply: bool,
}

#[derive(Deserialize, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Access {
    #[default]
    ReadOnly,
    ReadWrite,
}

impl Policy {
    /// Reads a policy from the file `path`: see `docs/mcp.md`. Relative paths in it begin in its directory.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn read(path: &Path) -> Result<Self, PolicyError> {
        let file = path.display().to_string();
        let Some(text) = disk::read_at_most(path, POLICY_BYTES_MAX)? else {
            let problem = format!("it is longer than {POLICY_BYTES_MAX} bytes");
            return Err(PolicyError::File { file, problem });
        };
        let Ok(text) = String::from_utf8(text) else {
            return Err(PolicyError::File { file, problem: "it is not UTF-8".to_owned() });
        };
        Self::from_json(path, &text)
    }

    /// Parses a policy; `path` is its file.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn from_json(path: &Path, text: &str) -> Result<Self, PolicyError> {
        Self::parse(path, text, |commands| Ok(CommandPolicy::read_text(commands)?))
    }

    /// The policy whose texts a tape has.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub(super) fn of_texts(tape: &Path, texts: &PolicyTexts) -> Result<Self, PolicyError> {
        let Some(text) = &texts.policy else { return Ok(Self::default()) };
        Self::parse(tape, text, |_| Ok(texts.commands.clone().unwrap_or_default()))
    }

    fn parse(
        path: &Path,
        text: &str,
        read: impl FnOnce(&Path) -> Result<String, PolicyError>,
    ) -> Result<Self, PolicyError> {
        let file = path.display().to_string();
        let parsed: File = serde_json::from_str(text).map_err(|error| {
            // serde_json ends its message with the place.
            let text = error.to_string();
            let problem = text.rsplit_once(" at line ").map_or(&*text, |(text, _)| text).to_owned();
            PolicyError::Line { file: file.clone(), line: error.line(), problem }
        })?;
        let wrong = |problem: String| PolicyError::File { file: file.clone(), problem };
        if parsed.version != 1 {
            let version = parsed.version;
            let problem = format!("version {version} is not supported; this belljar supports 1");
            return Err(wrong(problem));
        }
        if let Some(problem) = parsed.limits.problem() {
            return Err(wrong(format!("limits: {problem}")));
        }
        if cfg!(not(feature = "http")) && !parsed.allow_net.is_empty() {
            let problem = "allow_net: this belljar was built without the feature `http`";
            return Err(wrong(problem.to_owned()));
        }
        let dir = disk::folder_of(path);
        let folders: Vec<Folder> = parsed.folders.into_iter().map(|it| it.beside(dir)).collect();
        check_folders(&folders).map_err(wrong)?;
        let mut texts = PolicyTexts { policy: Some(text.to_owned()), commands: None };
        let commands = match &parsed.host_policy {
            Some(policy) => {
                let path = dir.join(policy);
                let text = texts.commands.insert(read(&path)?);
                CommandPolicy::from_json(&path.display().to_string(), text)?
            }
            None => CommandPolicy::default(),
        };
        let allowed =
            parsed.allow_net.into_iter().fold(EgressPolicy::default(), EgressPolicy::allow);
        Ok(Self {
            folders,
            toolchains: parsed.toolchains,
            install: parsed.install,
            network: parsed.deny_net.into_iter().fold(allowed, EgressPolicy::deny),
            commands,
            allow_origins: parsed.allow_origins,
            bounds: parsed.limits,
            texts,
        })
    }
}

impl FileFolder {
    fn beside(self, dir: &Path) -> Folder {
        Folder {
            path: dir.join(self.path),
            name: self.name,
            is_writable: self.access == Access::ReadWrite || self.apply,
            may_apply: self.apply,
        }
    }
}

fn check_folders(folders: &[Folder]) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for Folder { name, .. } in folders {
        if name.is_empty() || name.len() > TEXT_BYTES_MAX || name.contains('\0') {
            return Err(format!("folders: {name:?} cannot be the name of a folder"));
        }
        if !names.insert(name) {
            return Err(format!("folders: two folders are called {name:?}; rename one"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Policy, String> {
        Policy::from_json(Path::new("dir/p.json"), text).map_err(|error| format!("{error}"))
    }

    #[test]
    fn a_policy_says_what_a_client_gets() {
        let policy = parse(
            r#"{"version": 1, "toolchains": ["python"], "install": ["clang"],
                "folders": [{"name": "a", "path": "x"}, {"name": "b", "path": "/y", "apply": true}],
                "allow_net": ["example.com:443"], "limits": {"sandboxes_max": 3}}"#,
        )
        .unwrap();
        let [a, b] = &policy.folders[..] else { panic!("two folders") };
        assert_eq!(
            (a.path.as_path(), a.is_writable, a.may_apply),
            (Path::new("dir/x"), false, false)
        );
        assert_eq!((b.path.as_path(), b.is_writable, b.may_apply), (Path::new("/y"), true, true));
        assert_eq!(policy.toolchains.as_deref(), Some(&["python".to_owned()][..]));
        assert_eq!(policy.bounds.sandboxes_max, 3);
        assert_eq!(policy.bounds.running_max, Bounds::default().running_max);
        assert!(policy.network.check("http", "https://example.com/").is_ok());
        assert!(policy.network.check("http", "https://example.org/").is_err());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, message) in [
            ("{\"version\": 1,\n\"folder\": []}", "dir/p.json, line 2: unknown field `folder`"),
            ("{\"version\": 2}", "dir/p.json: version 2 is not supported"),
            ("{\"version\": 1, \"limits\": {\"sandboxes_max\": 0}}", "limits: sandboxes_max is 0"),
            ("{\"version\": 1, \"limits\": {\"total_bytes_max\": 5}}", "total_bytes_max is 5"),
            (
                r#"{"version": 1, "folders": [{"name": "a", "path": "x"}, {"name": "a", "path": "y"}]}"#,
                "two folders are called \"a\"",
            ),
            ("{\"version\": 1, \"allow_net\": [\"https://a\"]}", "it is a URL"),
            ("{\"version\": 1, \"version\": 1}", "duplicate field `version`"),
        ] {
            let Err(error) = parse(text) else { panic!("accepted: {text}") };
            assert!(error.contains(message), "{error}");
        }
    }
}
