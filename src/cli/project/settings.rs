//! The defaults of runs in a project.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command};

use super::current::{HOST_POLICY, Project, current};
use crate::base::disk;
use crate::cli::args::host::CallArgs;
use crate::cli::args::record::RecordArgs;
use crate::cli::args::run::RunArgs;
use crate::cli::args::sandbox::CreateArgs;
use crate::cli::args::sh::ShArgs;
use crate::cli::args::values::{self, DirMount, Worktree, dir_mount, split_once};
use crate::cli::args::verify::VerifyArgs;
use crate::cli::exit::Usage;
use crate::cli::text::printable;
use crate::toolchain::{meant, similar};

/// What a project may set without being trusted.
enum Rule {
    /// Any value.
    Any,
    /// This one.
    Only(&'static str),
    /// What is not more than the default.
    AtMost(fn(&str) -> Option<u64>),
    /// Files and folders of the project.
    Within,
    /// Variables with their values.
    Variables,
    /// Nothing.
    Nothing,
}

/// An option of runs that a project may set.
struct Setting {
    name: &'static str,
    rule: Rule,
    /// Options beside which it does not apply.
    unless: &'static [&'static str],
}

/// Most values of an option that can be repeated.
const VALUES_MAX: usize = 256;

/// Why an option does not count that a project may not set by itself.
const BEYOND: &str = "it reaches beyond the project";

const fn setting(name: &'static str, rule: Rule) -> Setting {
    Setting { name, rule, unless: &[] }
}

fn size(text: &str) -> Option<u64> {
    values::size(text).ok()
}

fn number(text: &str) -> Option<u64> {
    values::number(text).ok()
}

fn nanoseconds(text: &str) -> Option<u64> {
    values::duration(text).ok().map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

const SETTINGS: &[Setting] = &[
    Setting { unless: &["no-worktree"], ..setting("worktree", Rule::Within) },
    Setting { unless: &["worktree", "cwd"], ..setting("no-worktree", Rule::Any) },
    Setting { unless: &["no-worktree"], ..setting("cwd", Rule::Any) },
    setting("dir", Rule::Within),
    setting("env", Rule::Variables),
    setting("unknown-imports", Rule::Any),
    setting("clock", Rule::Only("paused")),
    setting("start-at", Rule::Any),
    setting("mtimes", Rule::Any),
    setting("seed", Rule::Any),
    setting("timeout", Rule::AtMost(nanoseconds)),
    setting("virtual-timeout", Rule::AtMost(nanoseconds)),
    setting("fuel", Rule::AtMost(number)),
    setting("max-memory", Rule::AtMost(size)),
    setting("max-files", Rule::AtMost(number)),
    setting("max-processes", Rule::AtMost(number)),
    setting("max-upper", Rule::AtMost(size)),
    setting("max-output", Rule::AtMost(size)),
    setting("max-host-call", Rule::AtMost(size)),
    setting("cache-results", Rule::Any),
    setting("tier", Rule::Any),
    Setting { unless: &["background"], ..setting("no-background", Rule::Any) },
    setting("compile-timeout", Rule::AtMost(nanoseconds)),
    setting("max-compile-memory", Rule::AtMost(size)),
    setting("host-answers", Rule::Within),
    setting("host-task", Rule::Any),
    setting("deny-net", Rule::Any),
    setting("allow-net", Rule::Nothing),
    setting("credential", Rule::Nothing),
    setting("host-policy", Rule::Nothing),
    setting("on-missing", Rule::Only("deny")),
    setting("profile", Rule::Nothing),
    setting("native-time", Rule::Any),
    Setting { unless: &["check"], ..setting("apply", Rule::Nothing) },
];

/// The words of a command, and what adds its options to a definition.
type Described = (&'static [&'static str], fn(Command) -> Command);

/// The commands that take the settings.
const COMMANDS: [Described; 7] = [
    (&["run"], RunArgs::augment_args),
    (&["r"], RunArgs::augment_args),
    (&["sh"], ShArgs::augment_args),
    (&["record"], RecordArgs::augment_args),
    (&["verify"], VerifyArgs::augment_args),
    (&["host", "call"], CallArgs::augment_args),
    (&["sandbox", "create"], CreateArgs::augment_args),
];

/// The settings of a project for one command.
#[derive(Default)]
pub struct Settings {
    /// Those that hold.
    pub used: Vec<Used>,
    /// Those that do not.
    pub ignored: Vec<Ignored>,
}

/// A setting that holds.
pub struct Used {
    /// The option, without `--`.
    pub name: &'static str,
    /// The word of the command line that it stands for.
    pub word: OsString,
}

/// A setting that does not hold.
pub struct Ignored {
    /// The option, without `--`.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// Why.
    pub why: String,
    /// What `belljar trust` shows, and lets.
    pub grant: String,
}

/// The command line `words`, with the settings of the current project before the options of a command that takes them.
/// Says which do not hold.
///
/// # Errors
/// [`Usage`] if the `belljar.toml` of the project is wrong.
pub fn add_to(words: Vec<OsString>) -> Result<Vec<OsString>> {
    let is_named = |path: &&[&str]| {
        words.len() > path.len() && path.iter().zip(&words[1..]).all(|(name, word)| word == name)
    };
    let Some((path, args)) = COMMANDS.iter().find(|(path, _)| is_named(path)) else {
        return Ok(words);
    };
    let Some(project) = current()?.filter(|project| !project.file.run.is_empty()) else {
        return Ok(words);
    };
    let command = args(Command::new(path[path.len() - 1]));
    let own = 1 + path.len();
    // What is wrong with them is told by those who parse them.
    let Ok(given) = command.clone().try_get_matches_from(&words[own - 1..]) else {
        return Ok(words);
    };
    let settings = of(project, &command, &given, runs_natives(&command, &given))?;
    let with = |settings: &[Used]| -> Vec<OsString> {
        let added = settings.iter().map(|setting| setting.word.clone());
        words[..own].iter().cloned().chain(added).chain(words[own..].iter().cloned()).collect()
    };
    let added = with(&settings.used);
    let error = |words: &[OsString]| command.clone().try_get_matches_from(&words[own - 1..]).err();
    if error(&added).is_some() {
        let first = settings.used.chunks(1).find_map(|one| Some((one[0].name, error(&with(one))?)));
        if let Some((name, error)) = first {
            let whole = error.to_string();
            let what = whole.lines().next().unwrap_or_default().trim_start_matches("error: ");
            let message = format!("{}: run.{name}: {what}", project.path().display());
            return Err(Usage(message).into());
        }
    }
    let is_quiet = option(&command, "quiet").is_some() && given.get_flag("quiet");
    let mut ignored: Vec<&str> = settings.ignored.iter().map(|ignored| ignored.name).collect();
    ignored.dedup();
    if !ignored.is_empty() && !is_quiet {
        note!(
            "belljar: note: {} of {} reach beyond the project, and do not count: `belljar config` says why, and \
             `belljar trust` lets them",
            ignored.join(", "),
            project.path().display()
        );
    }
    Ok(added)
}

/// The settings of `project` for `belljar run` without options.
///
/// # Errors
/// [`Usage`] if its `belljar.toml` is wrong.
pub fn of_run(project: &Project) -> Result<(Command, Settings)> {
    of_plain_run(project, false)
}

/// What the untrusted project `project` asks for that needs trust, with some option of the command line or other.
///
/// # Errors
/// [`Usage`] if its `belljar.toml` is wrong.
pub fn asked(project: &Project) -> Result<Vec<Ignored>> {
    Ok(of_plain_run(project, true)?.1.ignored)
}

fn of_plain_run(project: &Project, runs_natives: bool) -> Result<(Command, Settings)> {
    let command = RunArgs::augment_args(Command::new("run"));
    let given = command.clone().try_get_matches_from(["run", "program"])?;
    let settings = of(project, &command, &given, runs_natives)?;
    Ok((command, settings))
}

/// The names of all settings.
pub fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.name)
}

/// The option `--name` of `command`.
pub fn option<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| arg.get_long() == Some(name))
}

/// The settings of `project` for `command`, whose command line has `given`, and which may run native programs.
fn of(
    project: &Project,
    command: &Command,
    given: &ArgMatches,
    runs_natives: bool,
) -> Result<Settings> {
    let wrong = |name: &str, what: &str| {
        Usage(format!("{}: run.{}: {what}", project.path().display(), printable(name)))
    };
    let mut settings = Settings::default();
    for (name, value) in &project.file.run {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) else {
            let known: Vec<String> = names().map(str::to_owned).collect();
            let meant = meant(&similar(name, &known));
            return Err(wrong(name, &format!("there is no such setting{meant}")).into());
        };
        let Some(arg) = option(command, name) else { continue };
        let is_list = matches!(arg.get_action(), clap::ArgAction::Append);
        let is_given = |arg: &Arg| {
            let source = given.value_source(arg.get_id().as_str());
            matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
        };
        let mut excluding = setting.unless.iter().filter_map(|name| option(command, name));
        if is_given(arg) && !is_list || excluding.any(is_given) {
            continue;
        }
        let is_path = matches!(setting.rule, Rule::Within) || setting.name == HOST_POLICY;
        if is_path && !(value.is_str() || value.is_array()) {
            return Err(wrong(name, "expected a text").into());
        }
        for text in texts(value, is_list).map_err(|what| wrong(name, what))? {
            match setting.word(text.as_deref(), arg, project, runs_natives)? {
                Ok(word) if is_list && setting.is_replaced(&word, arg, given) => {}
                Ok(word) => settings.used.push(Used { name: setting.name, word }),
                Err((why, grant)) => settings.ignored.push(Ignored {
                    name: setting.name,
                    value: text.unwrap_or_else(|| "true".to_owned()),
                    why,
                    grant,
                }),
            }
        }
    }
    Ok(settings)
}

/// Whether the command line `given` lets native programs run.
fn runs_natives(command: &Command, given: &ArgMatches) -> bool {
    let has = |name: &str, counts: fn(&OsStr) -> bool| {
        let values = option(command, name).and_then(|arg| given.get_raw(arg.get_id().as_str()));
        values.into_iter().flatten().any(counts)
    };
    // A command policy may be a file of any name.
    has("on-missing", |value| value != "deny") || has(HOST_POLICY, |_| true)
}

/// The values of an option; `None` for one without a value.
fn texts(value: &toml::Value, is_list: bool) -> Result<Vec<Option<String>>, &'static str> {
    let one = |value: &toml::Value| match value {
        toml::Value::String(text) => Ok(Some(text.clone())),
        toml::Value::Integer(number) => Ok(Some(number.to_string())),
        toml::Value::Datetime(time) => Ok(Some(time.to_string())),
        toml::Value::Boolean(true) => Ok(None),
        toml::Value::Boolean(false) => Err("leave it out in place of `false`"),
        _ => Err("expected a text, a number or `true`"),
    };
    match value {
        toml::Value::Array(values) if is_list && values.len() > VALUES_MAX => {
            Err("it has more than 256 values")
        }
        toml::Value::Array(values) if is_list => values.iter().map(one).collect(),
        toml::Value::Array(_) => Err("it takes one value, not a list"),
        value => Ok(vec![one(value)?]),
    }
}

impl Setting {
    /// The word of the command line for the value `text`, or why it does not count.
    fn word(
        &self,
        text: Option<&str>,
        arg: &Arg,
        project: &Project,
        runs_natives: bool,
    ) -> Result<Result<OsString, (String, String)>> {
        let Some(text) = text else {
            let grant = format!("{} = true", self.name);
            let counts = matches!(self.rule, Rule::Any) || project.is_granted(&grant)?;
            let word = format!("--{}", self.name).into();
            return Ok(if counts { Ok(word) } else { Err((BEYOND.to_owned(), grant)) });
        };
        let mut grant = format!("{} = {text}", self.name);
        let mut text = OsString::from(text);
        let beyond = match &self.rule {
            Rule::Any => None,
            Rule::Only(value) => (text != *value).then(|| format!("only {value:?} is harmless")),
            Rule::Nothing => Some(BEYOND.to_owned()),
            Rule::Variables if split_once(&text, "=").is_none() => {
                Some("it passes a variable of yours on".to_owned())
            }
            Rule::Variables => runs_natives
                .then(|| "native programs, their loader and interpreters would obey it".to_owned()),
            Rule::AtMost(parse) => {
                let default = arg.get_default_values().first().and_then(|value| value.to_str());
                let most = default.map_or(Some(u64::MAX), parse);
                // What cannot be parsed is told when the option is.
                let is_more = parse(&text.to_string_lossy()) > most;
                let default = default.unwrap_or_default();
                is_more.then(|| format!("it is more than the default, {default}"))
            }
            Rule::Within => self.within(&mut text, project),
        };
        if matches!(self.rule, Rule::Within) {
            let _ = write!(grant, " at {}", text.display());
        }
        if self.name == HOST_POLICY {
            text = project.dir.join(&text).into();
        }
        if let Some(why) = beyond
            && !project.is_granted(&grant)?
        {
            return Ok(Err((why, grant)));
        }
        let mut word = OsString::from(format!("--{}=", self.name));
        word.push(text);
        Ok(Ok(word))
    }

    /// Whether the command line has a directory of the same name for programs, or a variable of the same name.
    fn is_replaced(&self, word: &OsStr, arg: &Arg, given: &ArgMatches) -> bool {
        let name_of = |value: OsString| match self.name {
            "dir" => dir_mount(value).ok().map(|mount| mount.guest.into()),
            "env" => Some(split_once(&value, "=").map_or(value, |(name, _)| name)),
            _ => Some(value),
        };
        let Some((_, value)) = split_once(word, "=") else { return false };
        let name = name_of(value);
        let given = given.get_raw(arg.get_id().as_str()).into_iter().flatten();
        given.into_iter().any(|value| name_of(value.to_owned()) == name)
    }

    /// Makes the path that `text` begins with absolute; returns why it is beyond the project, if it is.
    fn within(&self, text: &mut OsString, project: &Project) -> Option<String> {
        // The path is taken out as the option itself does it: what is examined is what is used.
        let (path, rest) = match self.name {
            "dir" => match dir_mount(text.clone()) {
                // The program finds it under the name that it has in the file.
                Ok(DirMount { host, guest, read_only, .. }) => {
                    let read_only = if read_only { "::ro" } else { "" };
                    (host, Some(format!("{guest}{read_only}")))
                }
                // The option says what is wrong.
                Err(_) => return None,
            },
            "worktree" => {
                let Worktree { host, read_only } = text.clone().into();
                (host, read_only.then(|| "ro".to_owned()))
            }
            _ => (text.clone().into(), None),
        };
        let found = project.path_within(Path::new(&path));
        let leads_to = || {
            let path = project.dir.join(&path);
            disk::canonical(&path).unwrap_or(path)
        };
        *text = found.clone().unwrap_or_else(leads_to).into();
        if let Some(rest) = rest {
            text.push(OsStr::new("::"));
            text.push(rest);
        }
        found.is_none().then(|| {
            let path = printable(&path.to_string_lossy());
            format!("{path} is outside of the project, or its path contains `::`")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_options_of_runs_and_in_the_schema() {
        let command = RunArgs::augment_args(Command::new("run"));
        let text = include_str!("../../../docs/belljar.schema.json");
        let schema: serde_json::Value = serde_json::from_str(text).unwrap();
        let described = schema["properties"]["run"]["properties"].as_object().unwrap();
        let (mut known, mut described): (Vec<_>, Vec<_>) =
            (names().collect(), described.keys().collect());
        known.sort_unstable();
        described.sort_unstable();
        assert_eq!(known, described);
        for setting in SETTINGS {
            let is_option = |name: &str| option(&command, name).is_some();
            assert!(is_option(setting.name), "{}", setting.name);
            assert!(setting.unless.iter().all(|name| is_option(name)), "{}", setting.name);
        }
    }
}
