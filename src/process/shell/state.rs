//! What a shell remembers, and a subshell begins with: variables, functions, options.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::tree::{Command, is_name};
use crate::kernel::process::Pid;

/// Bytes of all variables of a shell together. Beyond: an error.
const VARIABLES_BYTES_MAX: usize = 128 << 20;

/// A variable.
#[derive(Clone, Debug, Default)]
pub struct Variable {
    /// Its value, if it is set.
    pub value: Option<Arc<[u8]>>,
    /// Whether programs get it.
    pub exported: bool,
    /// Whether it stays as it is.
    pub read_only: bool,
}

/// The variables of a shell.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    by_name: BTreeMap<Box<[u8]>, Variable>,
    bytes: usize,
}

impl Variables {
    /// The value of `name`, if it is set.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<[u8]>> {
        self.by_name.get(name)?.value.as_ref()
    }

    /// The variable `name`, as it is.
    pub fn variable(&self, name: &[u8]) -> Option<&Variable> {
        self.by_name.get(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Variable)> {
        self.by_name.iter().map(|(name, variable)| (&**name, variable))
    }

    fn check(&self, name: &[u8]) -> Result<(), String> {
        if self.by_name.get(name).is_some_and(|variable| variable.read_only) {
            return Err(format!("{}: is read only", String::from_utf8_lossy(name)));
        }
        Ok(())
    }

    /// Sets `name`.
    ///
    /// # Errors
    /// It is read-only, or the variables take too much memory.
    pub fn set(&mut self, name: &[u8], value: impl Into<Arc<[u8]>>) -> Result<(), String> {
        self.check(name)?;
        let value = value.into();
        let before = self.get(name).map_or(0, |before| before.len());
        let bytes = self.bytes - before + value.len();
        if bytes > VARIABLES_BYTES_MAX {
            let max = VARIABLES_BYTES_MAX >> 20;
            return Err(format!("the variables take more than {max} MiB"));
        }
        self.bytes = bytes;
        self.entry(name).value = Some(value);
        Ok(())
    }

    fn entry(&mut self, name: &[u8]) -> &mut Variable {
        if !self.by_name.contains_key(name) {
            self.by_name.insert(name.into(), Variable::default());
        }
        self.by_name.get_mut(name).expect("it has been added")
    }

    /// Removes `name`.
    ///
    /// # Errors
    /// It is read-only.
    pub fn unset(&mut self, name: &[u8]) -> Result<(), String> {
        self.check(name)?;
        if let Some(Variable { value: Some(value), .. }) = self.by_name.remove(name) {
            self.bytes -= value.len();
        }
        Ok(())
    }

    /// Has programs get `name`, set or not.
    pub fn export(&mut self, name: &[u8]) {
        self.entry(name).exported = true;
    }

    /// Keeps `name` from being changed.
    pub fn protect(&mut self, name: &[u8]) {
        self.entry(name).read_only = true;
    }

    /// Puts `name` back to what [`Variables::variable`] said of it.
    pub fn restore(&mut self, name: &[u8], before: Option<Variable>) {
        let value_bytes =
            |variable: &Variable| variable.value.as_ref().map_or(0, |value| value.len());
        if let Some(now) = self.by_name.remove(name) {
            self.bytes -= value_bytes(&now);
        }
        if let Some(before) = before {
            self.bytes += value_bytes(&before);
            self.by_name.insert(name.into(), before);
        }
    }

    /// `NAME=value` of those that programs get.
    pub fn environ(&self) -> Vec<Vec<u8>> {
        let exported = self.iter().filter(|(_, variable)| variable.exported);
        exported
            .filter_map(|(name, variable)| {
                variable.value.as_ref().map(|value| [name, b"=", value].concat())
            })
            .collect()
    }
}

/// The options of `set`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent options, as POSIX lists them")]
pub struct Options {
    /// `-a`
    pub allexport: bool,
    /// `-C`
    pub noclobber: bool,
    /// `-e`
    pub errexit: bool,
    /// `-f`
    pub noglob: bool,
    /// `-n`
    pub noexec: bool,
    /// `-u`
    pub nounset: bool,
    /// `-v`
    pub verbose: bool,
    /// `-x`
    pub xtrace: bool,
    /// `-o pipefail`
    pub pipefail: bool,
    /// `-s`
    pub stdin: bool,
}

impl Options {
    /// The option with this letter.
    pub fn by_letter(&mut self, letter: u8) -> Option<&mut bool> {
        Some(match letter {
            b'a' => &mut self.allexport,
            b'C' => &mut self.noclobber,
            b'e' => &mut self.errexit,
            b'f' => &mut self.noglob,
            b'n' => &mut self.noexec,
            b'u' => &mut self.nounset,
            b'v' => &mut self.verbose,
            b'x' => &mut self.xtrace,
            b's' => &mut self.stdin,
            _ => return None,
        })
    }

    /// The option with this name.
    pub fn by_name(&mut self, name: &[u8]) -> Option<&mut bool> {
        if name == b"pipefail" {
            return Some(&mut self.pipefail);
        }
        let (letter, _) = Self::NAMES.iter().find(|(_, known)| known.as_bytes() == name)?;
        self.by_letter(*letter)
    }

    const NAMES: [(u8, &str); 8] = [
        (b'a', "allexport"),
        (b'e', "errexit"),
        (b'n', "noexec"),
        (b'C', "noclobber"),
        (b'f', "noglob"),
        (b'u', "nounset"),
        (b'v', "verbose"),
        (b'x', "xtrace"),
    ];

    /// Each name, and whether it is set.
    pub fn list(&self) -> Vec<(&'static str, bool)> {
        let mut copy = *self;
        let mut list = Vec::new();
        for (letter, name) in Self::NAMES {
            list.push((name, copy.by_letter(letter).is_some_and(|set| *set)));
        }
        list.push(("pipefail", self.pipefail));
        list
    }

    /// `$-`
    pub fn letters(&self) -> Vec<u8> {
        let mut copy = *self;
        b"aefnsuvxC"
            .iter()
            .copied()
            .filter(|l| copy.by_letter(*l).is_some_and(|set| *set))
            .collect()
    }
}

/// What a subshell begins with.
#[derive(Clone)]
pub struct State {
    /// The variables.
    pub variables: Variables,
    /// The functions.
    pub functions: BTreeMap<Box<[u8]>, Arc<Command>>,
    /// The options.
    pub options: Options,
    /// `$0`
    pub name: Arc<[u8]>,
    /// `$1` and on.
    pub parameters: Arc<[Vec<u8>]>,
    /// `$?`
    pub status: u8,
    /// `$$`
    pub pid: Pid,
    /// `$!`
    pub background: Option<Pid>,
    /// Whether a failure is looked at, so that `set -e` does not end the shell.
    pub is_tested: bool,
    /// Where the next letter is that `getopts` looks at, within its argument.
    pub getopts_at: usize,
    /// The line of the command that is being run.
    pub line: u32,
    /// Loops that `break` may end.
    pub loops: u32,
    /// Calls of functions, `eval` and `.` within each other.
    pub depth: u32,
}

impl State {
    /// That of a shell that begins.
    pub fn new(name: &[u8], pid: Pid, environ: &[Vec<u8>]) -> Self {
        let mut variables = Variables::default();
        for variable in environ {
            let Some(at) = variable.iter().position(|byte| *byte == b'=') else { continue };
            let (name, value) = (&variable[..at], &variable[at + 1..]);
            // What does not fit is not there.
            if is_name(name) && variables.set(name, value).is_ok() {
                variables.export(name);
            }
        }
        for (name, value) in [("IFS", " \t\n"), ("OPTIND", "1"), ("PS4", "+ ")] {
            // These are short, and nothing is read-only yet.
            let _ = variables.set(name.as_bytes(), value.as_bytes());
        }
        Self {
            variables,
            functions: BTreeMap::new(),
            options: Options::default(),
            name: name.into(),
            parameters: Arc::new([]),
            status: 0,
            pid,
            background: None,
            is_tested: false,
            getopts_at: 0,
            line: 1,
            loops: 0,
            depth: 0,
        }
    }
}

/// What is run when a shell ends: the text of `trap … EXIT`.
pub type Traps = BTreeMap<&'static str, Vec<u8>>;
