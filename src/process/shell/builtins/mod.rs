//! The builtins.

mod control;
mod getopts;
mod jobs;
mod places;
mod printf;
mod printing;
mod read;
mod test;
mod variables;

use super::builtin::Builtin;
use super::context::{Run, Shell};

impl Shell {
    /// Runs a builtin; returns its status.
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

    /// Runs a builtin that runs no other commands; returns its status.
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
            // The last four run other commands.
            Builtin::Colon
            | Builtin::True
            | Builtin::Eval
            | Builtin::Dot
            | Builtin::Command
            | Builtin::Exec => Ok(0),
        }
    }
}
