//! Signals, which end a process or do nothing.

use std::fmt;

/// A signal, by its number on Linux. A process cannot handle it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal(u8);

impl Signal {
    /// `SIGABRT`, the status of a process that trapped.
    pub const ABRT: Self = Self(6);
    /// `SIGKILL`
    pub const KILL: Self = Self(9);
    /// `SIGPIPE`
    pub const PIPE: Self = Self(13);
    /// `SIGTERM`
    pub const TERM: Self = Self(15);
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
        "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
        "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];

    /// The signal with this number, 1 to 31.
    pub fn from_number(number: u32) -> Option<Self> {
        u8::try_from(number).ok().filter(|number| (1..=31).contains(number)).map(Self)
    }

    /// The signal with this name, with or without `SIG`.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.strip_prefix("SIG").unwrap_or(name);
        let index = Self::NAMES.iter().position(|known| *known == name)?;
        Self::from_number(index as u32 + 1)
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Its name without `SIG`.
    pub fn name(self) -> &'static str {
        Self::NAMES[usize::from(self.0) - 1]
    }

    /// Returns whether its default is to be ignored.
    pub(super) fn is_ignored(self) -> bool {
        matches!(self.name(), "CHLD" | "CONT" | "URG" | "WINCH")
    }

    /// Returns whether its default is to stop the process, which is not supported.
    pub(super) fn stops(self) -> bool {
        matches!(self.name(), "STOP" | "TSTP" | "TTIN" | "TTOU")
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SIG{}", self.name())
    }
}
