//! The table of builtins.

macro_rules! builtins {
    ($($variant:ident = $name:literal, $special:literal;)*) => {
        /// A builtin.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Builtin {
            $(#[doc = $name] $variant,)*
        }

        /// Returns the builtin called `name`.
        pub fn find(name: &[u8]) -> Option<Builtin> {
            match std::str::from_utf8(name).ok()? {
                $($name => Some(Builtin::$variant),)*
                _ => None,
            }
        }

        impl Builtin {
            /// Returns whether it is a special builtin of POSIX: its errors end the shell, and assignments
            /// before it persist.
            pub fn is_special(self) -> bool {
                match self { $(Self::$variant => $special,)* }
            }
        }
    };
}

builtins! {
    Colon = ":", true;
    Dot = ".", true;
    Break = "break", true;
    Continue = "continue", true;
    Eval = "eval", true;
    Exec = "exec", true;
    Exit = "exit", true;
    Export = "export", true;
    Readonly = "readonly", true;
    Return = "return", true;
    Set = "set", true;
    Shift = "shift", true;
    Times = "times", true;
    Trap = "trap", true;
    Unset = "unset", true;
    Bracket = "[", false;
    Cd = "cd", false;
    Command = "command", false;
    Echo = "echo", false;
    False = "false", false;
    Getopts = "getopts", false;
    Kill = "kill", false;
    Local = "local", true;
    Printf = "printf", false;
    Pwd = "pwd", false;
    Read = "read", false;
    Test = "test", false;
    True = "true", false;
    Type = "type", false;
    Umask = "umask", false;
    Wait = "wait", false;
}

impl Builtin {
    /// Returns whether it can run any command.
    pub fn runs_commands(self) -> bool {
        matches!(self, Self::Eval | Self::Dot | Self::Command | Self::Exec)
    }
}
