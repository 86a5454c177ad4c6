//! The builtins: what a shell does itself.

mod control;
mod getopts;
mod jobs;
mod places;
mod printf;
mod printing;
mod read;
mod test;
mod variables;

use super::context::{Run, Shell};

macro_rules! builtins {
    ($($variant:ident = $name:literal, $special:literal;)*) => {
        /// A builtin.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Builtin {
            $(#[doc = $name] $variant,)*
        }

        /// The builtin called `name`.
        pub fn find(name: &[u8]) -> Option<Builtin> {
            match std::str::from_utf8(name).ok()? {
                $($name => Some(Builtin::$variant),)*
                _ => None,
            }
        }

        impl Builtin {
            /// Whether it is a special one, as POSIX has it: its errors end the shell, and what is
            /// assigned before it stays.
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
    /// Whether it may run any command.
    pub fn runs_commands(self) -> bool {
        matches!(self, Self::Eval | Self::Dot | Self::Command | Self::Exec)
    }
}

impl Shell {
    /// Runs a builtin; answers its status.
    pub async fn builtin(&mut self, builtin: Builtin, words: &[Vec<u8>]) -> Run<u8> {
        let args = &words[1..];
        match builtin {
            Builtin::Eval => self.eval(args).await,
            Builtin::Dot => self.dot(args).await,
            Builtin::Command => self.command_builtin(args).await,
            Builtin::Exec => self.exec(args).await,
            other => self.small_builtin(other, words).await,
        }
    }

    /// Runs a builtin that runs no commands; answers its status.
    pub async fn small_builtin(&mut self, builtin: Builtin, words: &[Vec<u8>]) -> Run<u8> {
        let args = &words[1..];
        match builtin {
            Builtin::False => Ok(1),
            Builtin::Break | Builtin::Continue => {
                self.leave_loops(builtin == Builtin::Break, args).await
            }
            Builtin::Return | Builtin::Exit => self.leave_all(builtin == Builtin::Exit, args).await,
            Builtin::Export => self.export(args).await,
            Builtin::Readonly => self.readonly(args).await,
            Builtin::Set => self.set_builtin(args).await,
            Builtin::Shift => self.shift(args).await,
            Builtin::Times => {
                self.print(b"0m0.000000s 0m0.000000s\n0m0.000000s 0m0.000000s\n").await
            }
            Builtin::Trap => self.trap(args).await,
            Builtin::Unset => self.unset(args).await,
            Builtin::Local => self.local(args).await,
            Builtin::Test => self.test(args).await,
            Builtin::Bracket => match args.split_last() {
                Some((last, args)) if last == b"]" => self.test(args).await,
                _ => {
                    self.say("[: missing ]").await?;
                    Ok(2)
                }
            },
            Builtin::Cd => self.cd(args).await,
            Builtin::Pwd => self.pwd(args).await,
            Builtin::Umask => self.umask(args).await,
            Builtin::Echo => self.echo(args).await,
            Builtin::Printf => self.printf(args).await,
            Builtin::Read => self.read_builtin(args).await,
            Builtin::Getopts => self.getopts(args).await,
            Builtin::Kill => self.kill(args).await,
            Builtin::Wait => self.wait(args).await,
            Builtin::Type => self.type_builtin(args).await,
            // The last four are not small.
            Builtin::Colon
            | Builtin::True
            | Builtin::Eval
            | Builtin::Dot
            | Builtin::Command
            | Builtin::Exec => Ok(0),
        }
    }
}
