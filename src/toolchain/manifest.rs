//! The manifest of a toolchain, `toolchain.json`: which programs it has, and which files they need.
//! `docs/toolchains.md` describes it, `docs/toolchain.schema.json` is its JSON Schema.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::names;
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};

/// The file name of a manifest.
pub const MANIFEST: &str = "toolchain.json";

/// The name of the file, in the folder of a toolchain, with the signature of its manifest.
pub const SIGNATURE: &str = "toolchain.json.minisig";

/// Longest description, license and homepage, in bytes.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// Most programs of a toolchain.
const PROGRAMS_MAX: usize = 10_000;

/// Most trees of a toolchain.
const TREES_MAX: usize = 1000;

/// In arguments and variables of a program: the directory of its toolchain in the namespace.
const PLACEHOLDER: &str = "{toolchain}";

/// Longest manifest, in bytes.
pub const MANIFEST_BYTES_MAX: u64 = 64 << 20;

/// The version of the format that this library reads and writes.
const FORMAT: (u32, u32) = (1, 0);

/// A manifest could not be read.
#[derive(thiserror::Error)]
pub enum ManifestError {
    /// The file cannot be read.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The file is longer than a manifest can be.
    #[error("{}: a manifest has at most {MANIFEST_BYTES_MAX} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// It has another major version of the format.
    #[error(
        "{}: format {found} is not supported: this belljar reads {}.x; use a newer belljar",
        path.display(), FORMAT.0
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its `format`.
        found: String,
    },
    /// It is not JSON, or has problems.
    #[error("{}: {}", path.display(), lines(problems))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// All problems.
        problems: Vec<Problem>,
    },
}

crate::base::readable::readable!(ManifestError);

/// What is wrong in a manifest, and where.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Problem {
    /// A JSON Pointer (RFC 6901); empty for the whole manifest.
    pub pointer: String,
    /// What is wrong, and what is expected.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.pointer {
            "" => write!(f, "{}", self.message),
            pointer => write!(f, "{pointer}: {}", self.message),
        }
    }
}

/// Most problems that an error shows.
const PROBLEMS_SHOWN_MAX: usize = 20;

fn lines(problems: &[Problem]) -> String {
    let mut lines: Vec<String> =
        problems.iter().take(PROBLEMS_SHOWN_MAX).map(Problem::to_string).collect();
    if problems.len() > lines.len() {
        lines.push(format!("and {} more", problems.len() - lines.len()));
    }
    lines.join("\n")
}

/// The description of a toolchain. Paths in it are relative to its folder, with `/`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// `MAJOR.MINOR` of the format.
    pub format: String,
    /// The name by which it is installed: letters, digits, `.`, `_`, `+` and `-`.
    pub name: String,
    /// Its version, in any form.
    pub version: String,
    /// What it is, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// An SPDX license expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Where its project is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub homepage: Option<String>,
    /// Programs by name.
    pub programs: BTreeMap<String, ProgramEntry>,
    /// Folders that programs see, read-only, by their path below the toolchain's directory in the namespace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub trees: BTreeMap<String, String>,
    /// All files that programs or trees name. In a folder it can be left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, FileEntry>,
}

/// A program of a toolchain: a module or a script.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramEntry {
    /// The module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// A script of the shell, in place of a module: a path below the toolchain's directory in the namespace, in one of
    /// its trees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// `argv[0]`, for a module with several programs. Default: the name by which it is started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv0: Option<String>,
    /// Arguments before those that it is started with. `{toolchain}` in them is the toolchain's directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables that it gets unless they are set. `{toolchain}` in them is the toolchain's directory.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// A file of a toolchain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Its SHA-256, 64 lower-case hex digits.
    pub sha256: String,
    /// Its length in bytes.
    pub len_bytes: u64,
    /// Its owner may execute it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub executable: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Manifest {
    /// Reads the manifest `path` and checks it. Returns it with its digest.
    ///
    /// # Errors
    /// [`ManifestError`].
    pub fn read(path: &Path) -> Result<(Self, Digest), ManifestError> {
        let Some(text) = disk::read_at_most(path, MANIFEST_BYTES_MAX)? else {
            return Err(ManifestError::TooLong { path: path.to_owned() });
        };
        Ok((Self::parse(path, &text)?, Digest::of(&text)))
    }

    /// Parses `text`, which messages call `path`, and checks it.
    ///
    /// # Errors
    /// [`ManifestError`]: `Version`, `Invalid`.
    pub fn parse(path: &Path, text: &[u8]) -> Result<Self, ManifestError> {
        let manifest = Self::parse_unchecked(path, text)?;
        manifest.expect_valid(path)?;
        Ok(manifest)
    }

    /// As [`Manifest::read`], but returns it with what is wrong in it, if it has all fields. What is named by a path that
    /// leads elsewhere is left out.
    ///
    /// # Errors
    /// [`ManifestError`].
    pub(super) fn read_to_check(path: &Path) -> Result<(Self, Vec<Problem>), ManifestError> {
        let Some(text) = disk::read_at_most(path, MANIFEST_BYTES_MAX)? else {
            return Err(ManifestError::TooLong { path: path.to_owned() });
        };
        let mut manifest = Self::parse_unchecked(path, &text)?;
        let problems = manifest.problems();
        if !problems.is_empty() {
            let is_below = |path: &str| path == "." || names::is_below_a_folder(path);
            let is_usable = |path: &Option<String>| path.as_deref().is_none_or(is_below);
            manifest.programs.retain(|_, it| is_usable(&it.module) && is_usable(&it.script));
            manifest.trees.retain(|guest, folder| is_below(guest) && is_below(folder));
        }
        Ok((manifest, problems))
    }

    fn parse_unchecked(path: &Path, text: &[u8]) -> Result<Self, ManifestError> {
        let invalid = |problems| ManifestError::Invalid { path: path.to_owned(), problems };
        let problem =
            |pointer: String, message: String| invalid(vec![Problem { pointer, message }]);
        // The format comes first: another version may have other fields.
        let versioned: Versioned = serde_json::from_slice(text)
            .map_err(|error| problem(String::new(), error.to_string()))?;
        let Some(format) = versioned.format else {
            return Err(invalid(vec![bad_format()]));
        };
        expect_format(path, &format)?;
        let deserializer = &mut serde_json::Deserializer::from_slice(text);
        serde_path_to_error::deserialize(deserializer)
            .map_err(|error| problem(pointer_of(error.path()), error.inner().to_string()))
    }

    /// Checks a manifest that messages call `path`.
    ///
    /// # Errors
    /// [`ManifestError`]: `Version`, `Invalid`.
    pub(super) fn expect_valid(&self, path: &Path) -> Result<(), ManifestError> {
        expect_format(path, &self.format)?;
        match self.problems() {
            problems if problems.is_empty() => Ok(()),
            problems => Err(ManifestError::Invalid { path: path.to_owned(), problems }),
        }
    }

    /// The paths of its modules.
    pub fn modules(&self) -> BTreeSet<&str> {
        self.programs.values().filter_map(|program| program.module.as_deref()).collect()
    }

    /// The modules and folders that it names, each with a JSON Pointer to its name.
    pub(super) fn files_named(&self) -> impl Iterator<Item = (String, &str)> {
        fn module<'a>(
            (name, program): (&'a String, &'a ProgramEntry),
        ) -> Option<(String, &'a str)> {
            Some((pointer(&["programs", name, "module"]), program.module.as_deref()?))
        }
        fn tree<'a>((guest, folder): (&'a String, &'a String)) -> (String, &'a str) {
            (pointer(&["trees", guest]), folder)
        }
        self.programs.iter().filter_map(module).chain(self.trees.iter().map(tree))
    }

    /// The file of the script `script`, which is a path below the toolchain's directory in the namespace.
    pub(super) fn file_of(&self, script: &str) -> Option<String> {
        self.trees.iter().find_map(|(guest, folder)| {
            let rest = script.strip_prefix(&**guest)?.strip_prefix('/')?;
            Some(if folder == "." { rest.to_owned() } else { format!("{folder}/{rest}") })
        })
    }

    /// The manifest as text: indented JSON with a newline at its end.
    pub fn to_text(&self) -> String {
        let mut text = pretty(self);
        text.push('\n');
        text
    }

    /// What is wrong, as far as the manifest alone tells.
    fn problems(&self) -> Vec<Problem> {
        let mut checks = Checks::default();
        if !is_plain_name(&self.name) {
            let message = "expected letters, digits, `.`, `_`, `+` and `-`, a letter or digit first, at most 64";
            checks.wrong(&["name"], message);
        }
        if self.version.is_empty()
            || self.version.len() > 64
            || self.version.chars().any(char::is_control)
        {
            checks.wrong(&["version"], "expected a text of at most 64 bytes");
        }
        if self.programs.is_empty() {
            checks.wrong(&["programs"], "a toolchain needs at least one program");
        }
        let texts = [&self.description, &self.license, &self.homepage];
        for (name, text) in ["description", "license", "homepage"].iter().zip(texts) {
            if text.as_ref().is_some_and(|text| text.len() > TEXT_BYTES_MAX) {
                checks
                    .wrong(&[name], &format!("expected a text of at most {TEXT_BYTES_MAX} bytes"));
            }
        }
        if self.programs.len() > PROGRAMS_MAX || self.trees.len() > TREES_MAX {
            let message =
                format!("a toolchain has at most {PROGRAMS_MAX} programs and {TREES_MAX} trees");
            checks.wrong(&[], &message);
            return checks.0;
        }
        for (name, program) in &self.programs {
            self.check_program(name, program, &mut checks);
        }
        for (guest, folder) in &self.trees {
            checks.path(&["trees", guest], guest);
            if folder != "." {
                checks.path(&["trees", guest], folder);
            }
            let mut others = self.trees.keys().filter(|other| *other != guest);
            if let Some(above) = others.find(|other| is_below(guest, other)) {
                checks.wrong(&["trees", guest], &format!("it lies in the tree {above:?}"));
            }
        }
        for (path, file) in &self.files {
            checks.path(&["files", path], path);
            let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            if file.sha256.len() != 64 || !file.sha256.bytes().all(is_hex) {
                checks.wrong(&["files", path, "sha256"], "expected 64 lower-case hex digits");
            }
            if path == MANIFEST || path == SIGNATURE {
                let message = "neither the manifest nor its signature is among its own files";
                checks.wrong(&["files", path], message);
            }
            let above = path.match_indices('/').map(|(end, _)| &path[..end]);
            if let Some(above) = above.clone().find(|above| self.files.contains_key(*above)) {
                checks.wrong(&["files", path], &format!("{above:?} is a file, not a folder"));
            }
        }
        checks.0
    }

    fn check_program(&self, name: &str, program: &ProgramEntry, checks: &mut Checks) {
        if let Some(why) = names::why_not(name) {
            checks
                .wrong(&["programs", name], &format!("it cannot be the name of a program: {why}"));
        }
        let is_path = Path::new(name).extension().is_some_and(|extension| extension == "wasm");
        if name.starts_with('-') || is_path || name.chars().any(char::is_control) {
            let why =
                "a name does not begin with `-`, end in `.wasm`, or contain control characters";
            checks.wrong(&["programs", name], why);
        }
        match (&program.module, &program.script) {
            (Some(module), None) => {
                checks.path(&["programs", name, "module"], module);
                if !self.files.is_empty() && !self.files.contains_key(module) {
                    checks.wrong(&["programs", name, "module"], "it is not among `files`");
                }
            }
            (None, Some(script)) => {
                checks.path(&["programs", name, "script"], script);
                if !self.trees.keys().any(|tree| is_below(script, tree)) {
                    checks
                        .wrong(&["programs", name, "script"], "it does not lie in one of `trees`");
                }
                if program.argv0.is_some() {
                    checks.wrong(&["programs", name, "argv0"], "a script has none");
                }
            }
            (None, None) | (Some(_), Some(_)) => {
                checks.wrong(&["programs", name], "expected either `module` or `script`");
            }
        }
        let has_nul = |text: &String| text.contains('\0');
        if program.argv0.as_ref().is_some_and(has_nul) {
            checks.wrong(&["programs", name, "argv0"], "it contains NUL");
        }
        for (index, arg) in program.args.iter().enumerate().filter(|(_, arg)| has_nul(arg)) {
            let _ = arg;
            checks.wrong(&["programs", name, "args", &index.to_string()], "it contains NUL");
        }
        for (key, value) in &program.env {
            if key.is_empty() || key.contains(['=', '\0']) {
                checks
                    .wrong(&["programs", name, "env", key], "it cannot be the name of a variable");
            }
            if has_nul(value) {
                checks.wrong(&["programs", name, "env", key], "it contains NUL");
            }
        }
    }
}

impl ProgramEntry {
    /// Its arguments, for a toolchain in the directory `root` of the namespace.
    pub fn args_in<'a>(&'a self, root: &'a str) -> impl Iterator<Item = String> + 'a {
        self.args.iter().map(|arg| arg.replace(PLACEHOLDER, root))
    }

    /// Its variables, as `NAME=value`, for a toolchain in the directory `root` of the namespace.
    pub fn env_in<'a>(&'a self, root: &'a str) -> impl Iterator<Item = String> + 'a {
        self.env
            .iter()
            .map(move |(key, value)| format!("{key}={}", value.replace(PLACEHOLDER, root)))
    }
}

fn pretty(manifest: &Manifest) -> String {
    serde_json::to_string_pretty(manifest).expect("keys are strings")
}

/// Read before the other fields.
#[derive(Deserialize)]
struct Versioned {
    format: Option<String>,
}

/// Checks that this library reads the format `format`.
fn expect_format(path: &Path, format: &str) -> Result<(), ManifestError> {
    match version(format) {
        Some((major, _)) if major == FORMAT.0 => Ok(()),
        Some(_) => Err(ManifestError::Version { path: path.to_owned(), found: format.to_owned() }),
        None => Err(ManifestError::Invalid { path: path.to_owned(), problems: vec![bad_format()] }),
    }
}

fn bad_format() -> Problem {
    let message = format!("expected the text \"{}.{}\"", FORMAT.0, FORMAT.1);
    Problem { pointer: "/format".to_owned(), message }
}

/// The parts of `MAJOR.MINOR`.
fn version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns whether the path `path` is `folder` or lies below it.
pub(super) fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is_plain_name(name: &str) -> bool {
    name.len() <= 64
        && name.chars().all(names::is_plain)
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
}

#[derive(Default)]
struct Checks(Vec<Problem>);

impl Checks {
    fn wrong(&mut self, pointer: &[&str], message: &str) {
        self.0.push(Problem { pointer: self::pointer(pointer), message: message.to_owned() });
    }

    fn path(&mut self, pointer: &[&str], path: &str) {
        if !names::is_below_a_folder(path) {
            let shown: String = path.chars().take(100).collect();
            self.wrong(pointer, &format!("{shown:?} cannot be a path: {}", names::path_rule()));
        }
    }
}

/// The JSON Pointer (RFC 6901) of `names`.
pub fn pointer(names: &[&str]) -> String {
    let escaped = |name: &&str| format!("/{}", name.replace('~', "~0").replace('/', "~1"));
    names.iter().map(escaped).collect()
}

/// The JSON Pointer of a path in JSON.
fn pointer_of(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let name = |segment: &Segment| match segment {
        Segment::Seq { index } => format!("/{index}"),
        Segment::Map { key } => pointer(&[key]),
        Segment::Enum { variant } => format!("/{variant}"),
        Segment::Unknown => String::new(),
    };
    path.iter().map(name).collect()
}
