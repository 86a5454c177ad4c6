//! The state of a shell that a subshell copies: variables, functions, options.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::held::{ENTRY_BYTES, Held, Words};
use super::tree::{Command, is_name};
use crate::kernel::guest::Guest;
use crate::kernel::machine::memory::{Charge, Memory, OutOfMemory};
use crate::kernel::process::Pid;

/// A variable.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its value, if it is set.
    pub value: Option<Value>,
    /// Whether programs inherit it.
    pub exported: bool,
    /// Whether it is read-only.
    pub read_only: bool,
    /// For the entry. Charges here are shared with what they are for.
    _charge: Arc<Charge>,
}

/// The value of a variable.
#[derive(Clone, Debug)]
pub struct Value {
    /// The bytes.
    pub text: Arc<[u8]>,
    _charge: Arc<Charge>,
}

/// The variables of a shell.
#[derive(Clone, Debug)]
pub struct Variables {
    by_name: BTreeMap<Box<[u8]>, Variable>,
    memory: Memory,
}

/// A variable could not be changed.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum VariableError {
    /// It is read-only.
    #[error("{0}: is read only")]
    ReadOnly(String),
    /// No memory is left.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
}

crate::base::readable::readable!(VariableError);

impl Variables {
    /// Creates an empty set, charged to `memory`.
    pub fn new(memory: &Memory) -> Self {
        Self { by_name: BTreeMap::new(), memory: memory.clone() }
    }

    /// The value of `name`, if it is set.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<[u8]>> {
        self.by_name.get(name)?.value.as_ref().map(|value| &value.text)
    }

    /// The variable `name`.
    pub fn variable(&self, name: &[u8]) -> Option<&Variable> {
        self.by_name.get(name)
    }

    /// All variables, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Variable)> {
        self.by_name.iter().map(|(name, variable)| (&**name, variable))
    }

    fn check(&self, name: &[u8]) -> Result<(), VariableError> {
        if self.by_name.get(name).is_some_and(|variable| variable.read_only) {
            return Err(VariableError::ReadOnly(String::from_utf8_lossy(name).into_owned()));
        }
        Ok(())
    }

    fn charge(&self, bytes: usize) -> Result<Arc<Charge>, OutOfMemory> {
        let mut charge = self.memory.charge();
        charge.grow(bytes as u64 + ENTRY_BYTES)?;
        Ok(Arc::new(charge))
    }

    /// Sets `name`.
    ///
    /// # Errors
    /// [`VariableError`].
    pub fn set(&mut self, name: &[u8], value: impl Into<Arc<[u8]>>) -> Result<(), VariableError> {
        self.check(name)?;
        let text = value.into();
        let charge = self.charge(text.len())?;
        self.entry(name)?.value = Some(Value { text, _charge: charge });
        Ok(())
    }

    fn entry(&mut self, name: &[u8]) -> Result<&mut Variable, OutOfMemory> {
        if !self.by_name.contains_key(name) {
            let charge = self.charge(name.len())?;
            let variable =
                Variable { value: None, exported: false, read_only: false, _charge: charge };
            self.by_name.insert(name.into(), variable);
        }
        Ok(self.by_name.get_mut(name).expect("the entry was added above"))
    }

    /// Removes `name`.
    ///
    /// # Errors
    /// [`VariableError::ReadOnly`].
    pub fn unset(&mut self, name: &[u8]) -> Result<(), VariableError> {
        self.check(name)?;
        self.by_name.remove(name);
        Ok(())
    }

    /// Exports `name`, set or not.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn export(&mut self, name: &[u8]) -> Result<(), OutOfMemory> {
        self.entry(name)?.exported = true;
        Ok(())
    }

    /// Makes `name` read-only.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn protect(&mut self, name: &[u8]) -> Result<(), OutOfMemory> {
        self.entry(name)?.read_only = true;
        Ok(())
    }

    /// Restores `name` to a former state.
    pub fn restore(&mut self, name: &[u8], before: Option<Variable>) {
        match before {
            Some(before) => self.by_name.insert(name.into(), before),
            None => self.by_name.remove(name),
        };
    }

    /// The exported variables, as `NAME=value`.
    pub fn environ(&self) -> Vec<Vec<u8>> {
        let exported = self.iter().filter(|(_, variable)| variable.exported);
        exported
            .filter_map(|(name, variable)| {
                variable.value.as_ref().map(|value| [name, b"=", &value.text].concat())
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
    /// Those of [`WITHOUT_EFFECT`], in its order.
    pub without_effect: [bool; 5],
}

/// Options of POSIX for job control and interactive use, which the shell does not have.
const WITHOUT_EFFECT: [&str; 5] = ["ignoreeof", "monitor", "nolog", "notify", "vi"];

impl Options {
    /// The option with this letter, mutable.
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

    /// The option with this name, mutable.
    pub fn by_name(&mut self, name: &[u8]) -> Option<&mut bool> {
        if name == b"pipefail" {
            return Some(&mut self.pipefail);
        }
        if let Some(index) = WITHOUT_EFFECT.iter().position(|known| known.as_bytes() == name) {
            return Some(&mut self.without_effect[index]);
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

    /// The names, and whether each is set.
    pub fn list(&self) -> Vec<(&'static str, bool)> {
        let mut copy = *self;
        let mut list = Vec::new();
        for (letter, name) in Self::NAMES {
            list.push((name, copy.by_letter(letter).is_some_and(|set| *set)));
        }
        list.push(("pipefail", self.pipefail));
        list.extend(WITHOUT_EFFECT.into_iter().zip(self.without_effect));
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

/// A function.
#[derive(Clone)]
pub struct Function {
    /// The body.
    pub body: Arc<Command>,
    /// The memory of its script.
    pub script: Arc<Charge>,
}

/// The state that a subshell copies.
#[derive(Clone)]
pub struct State {
    /// The variables.
    pub variables: Variables,
    /// The functions.
    pub functions: BTreeMap<Box<[u8]>, Function>,
    /// The memory of the script that runs.
    pub script: Arc<Charge>,
    /// The options.
    pub options: Options,
    /// The logical path of the current directory, which may contain links; empty if unknown.
    pub current_dir: Arc<str>,
    /// `$0`
    pub name: Arc<[u8]>,
    /// `$1` and on.
    pub parameters: Arc<Words>,
    /// `$?`
    pub status: u8,
    /// `$$`
    pub pid: Pid,
    /// `PPID`; in subshells that of the main shell.
    pub parent: Pid,
    /// `$!`
    pub background: Option<Pid>,
    /// Whether failures are tested, so that `set -e` ignores them.
    pub is_tested: bool,
    /// Position of the next option letter of `getopts` in its argument.
    pub getopts_at: usize,
    /// The line of the current command.
    pub line: u32,
    /// Enclosing loops, for `break`.
    pub loops: u32,
    /// Nested calls of functions, `eval` and `.`.
    pub depth: u32,
    /// Nested calls of functions.
    pub function_depth: u32,
}

impl State {
    /// Creates the state of a new shell.
    pub fn new(name: &[u8], guest: &Guest) -> Self {
        let memory = &guest.machine().run.memory;
        let mut variables = Variables::new(memory);
        for variable in guest.environ() {
            let Some(at) = variable.iter().position(|byte| *byte == b'=') else { continue };
            let (name, value) = (&variable[..at], &variable[at + 1..]);
            // Variables that exceed the memory limit are dropped.
            if is_name(name) && variables.set(name, value).is_ok() {
                let _ = variables.export(name);
            }
        }
        for (name, value) in [("IFS", " \t\n"), ("OPTIND", "1"), ("PS4", "+ ")] {
            // These are short, and nothing is read-only yet.
            let _ = variables.set(name.as_bytes(), value.as_bytes());
        }
        Self {
            variables,
            functions: BTreeMap::new(),
            script: Arc::new(memory.charge()),
            options: Options::default(),
            current_dir: guest.current_dir().unwrap_or_default().into(),
            name: name.into(),
            parameters: Arc::new(Words::none(memory)),
            status: 0,
            pid: guest.pid(),
            parent: guest.proc_parent(),
            background: None,
            is_tested: false,
            getopts_at: 0,
            line: 1,
            loops: 0,
            depth: 0,
            function_depth: 0,
        }
    }
}

/// The actions of `trap` by condition.
pub type Traps = BTreeMap<&'static str, Held<Vec<u8>>>;
