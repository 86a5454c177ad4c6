//! Builtins of control flow.

use crate::kernel::process::Signal;
use crate::kernel::vfs::{FileType, Follow};
use crate::process::shell::arithmetic;
use crate::process::shell::builtin;
use crate::process::shell::context::{Leave, Run, Shell};
use crate::process::shell::deep::DeepFuture;
use crate::process::shell::held::Held;
use crate::process::shell::simple::Meaning;

/// The reserved words.
const RESERVED: [&str; 16] = [
    "!", "{", "}", "case", "do", "done", "elif", "else", "esac", "fi", "for", "if", "in", "then",
    "until", "while",
];

impl Shell {
    pub(super) async fn leave_loops(&mut self, breaks: bool, args: &[Vec<u8>]) -> Run<u8> {
        let loops = match args.first() {
            None => 1,
            Some(arg) => match arithmetic::number(arg) {
                Some(loops) if loops > 0 => u32::try_from(loops).unwrap_or(u32::MAX),
                _ => return self.illegal_number(arg).await,
            },
        };
        let loops = loops.min(self.state.loops);
        if loops == 0 {
            return Ok(0);
        }
        self.state.status = 0;
        Err(if breaks { Leave::Break(loops) } else { Leave::Continue(loops) })
    }

    pub(super) async fn illegal_number<T>(&mut self, arg: &[u8]) -> Run<T> {
        let arg = String::from_utf8_lossy(arg);
        self.fail(&format!("Illegal number: {arg}")).await
    }

    pub(super) async fn leave_all(&mut self, exits: bool, args: &[Vec<u8>]) -> Run<u8> {
        if let Some(arg) = args.first() {
            match std::str::from_utf8(arg).ok().and_then(|arg| arg.parse::<u32>().ok()) {
                Some(status) => self.state.status = (status & 0xff) as u8,
                None => return self.illegal_number(arg).await,
            }
        }
        Err(if exits { Leave::Exit } else { Leave::Return })
    }

    pub(super) async fn eval(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        let text = args.join(&b' ');
        self.descend().await?;
        let line = self.state.line;
        let done = self.run_text(&text).await;
        self.state.line = line;
        self.state.depth -= 1;
        done.map(|()| self.state.status)
    }

    pub(super) async fn dot(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        let Some(name) = args.first() else {
            return self.fail(".: a file is missing").await;
        };
        let Some(path) = self.script_path(name) else {
            let name = String::from_utf8_lossy(name);
            return self.fail(&format!(".: {name}: not found")).await;
        };
        let text = match self.read_script(&path).await? {
            Ok(text) => text,
            Err(why) => {
                let name = String::from_utf8_lossy(name);
                return self.fail(&format!(".: cannot open {name}: {why}")).await;
            }
        };
        self.descend().await?;
        let line = self.state.line;
        let done = self.run_text(&text).await;
        self.state.line = line;
        self.state.depth -= 1;
        match done {
            Ok(()) | Err(Leave::Return) => Ok(self.state.status),
            Err(leave) => Err(leave),
        }
    }

    /// Finds the script `name` of `.`: a path, or in a directory of `PATH`.
    fn script_path(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        if name.contains(&b'/') {
            return Some(name.to_vec());
        }
        let path = self.state.variables.get(b"PATH").cloned().unwrap_or_default();
        let dirs = path.split(|byte| *byte == b':');
        let mut candidates = dirs.map(|dir| match dir {
            b"" => name.to_vec(),
            dir => [dir, b"/", name].concat(),
        });
        let found = candidates.find(|path| self.is_file(path));
        // As bash does.
        found.or_else(|| self.is_file(name).then(|| name.to_vec()))
    }

    pub(super) fn is_file(&mut self, path: &[u8]) -> bool {
        let stat = self.path_filestat_get(path, Follow::Yes);
        stat.is_ok_and(|stat| stat.metadata.file_type == FileType::RegularFile)
    }

    pub(super) async fn exec(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        let args = args.strip_prefix(&[b"--".to_vec()]).unwrap_or(args);
        if args.is_empty() {
            return Ok(0);
        }
        // The process stays, and only waits for the program.
        self.traps.remove("EXIT");
        let is_program =
            std::str::from_utf8(&args[0]).is_ok_and(|name| self.guest.has_program(name));
        if let Some(builtin) = builtin::find(&args[0])
            && !is_program
        {
            self.state.status = DeepFuture::new(self.builtin(builtin, args)).await?;
            return Err(Leave::Exit);
        }
        self.state.status = match self.start_program(args, &[]).await? {
            Ok(pid) => self.end_with(pid, true).await?,
            Err(status) => status,
        };
        Err(Leave::Exit)
    }

    pub(super) async fn command_builtin(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        let is_last = self.take_last();
        let mut args = args;
        let mut shows = None;
        while let Some((arg, rest)) = args.split_first() {
            match arg.as_slice() {
                b"-v" | b"-V" => shows = Some(arg == b"-V"),
                b"-p" => {}
                b"--" => {
                    args = rest;
                    break;
                }
                _ => break,
            }
            args = rest;
        }
        let Some(name) = args.first() else { return Ok(0) };
        if let Some(is_long) = shows {
            return self.describe(name, is_long).await;
        }
        if let Some(builtin) = builtin::find(name) {
            let done = DeepFuture::new(self.builtin(builtin, args)).await;
            return match done {
                Err(Leave::Error) => Ok(self.state.status),
                done => done,
            };
        }
        match self.start_program(args, &[]).await? {
            Ok(pid) => self.end_with(pid, is_last).await,
            Err(status) => Ok(status),
        }
    }

    /// Prints the meaning of `name`.
    async fn describe(&mut self, name: &[u8], is_long: bool) -> Run<u8> {
        let shown = String::from_utf8_lossy(name).into_owned();
        let what = if RESERVED.contains(&shown.as_str()) {
            "a shell keyword".to_owned()
        } else {
            match self.meaning(name) {
                Meaning::Builtin(builtin) if builtin.is_special() => {
                    "a special shell builtin".to_owned()
                }
                Meaning::Builtin(_) => "a shell builtin".to_owned(),
                Meaning::Function(_) => "a shell function".to_owned(),
                Meaning::Program => match self.program_path(name) {
                    Some(path) if is_long => path,
                    Some(path) => return self.print(format!("{path}\n").as_bytes()).await,
                    None if is_long => {
                        self.print(format!("{shown}: not found\n").as_bytes()).await?;
                        return Ok(127);
                    }
                    None => return Ok(127),
                },
            }
        };
        let line = if is_long { format!("{shown} is {what}\n") } else { format!("{shown}\n") };
        self.print(line.as_bytes()).await
    }

    /// Returns where a program is: its name, if a toolchain has it, or its path.
    fn program_path(&mut self, name: &[u8]) -> Option<String> {
        let text = std::str::from_utf8(name).ok()?;
        if !name.contains(&b'/') {
            if self.guest.has_program(text) {
                return Some(text.to_owned());
            }
            let path = self.state.variables.get(b"PATH").cloned();
            let dirs = path.iter().flat_map(|path| path.split(|byte| *byte == b':'));
            let dirs = dirs.map(|dir| if dir.is_empty() { b"." } else { dir });
            let mut candidates = dirs.flat_map(|dir| {
                let path = [dir, b"/".as_slice(), name].concat();
                [path.clone(), [path.as_slice(), b".wasm"].concat()]
            });
            return match candidates.find(|path| self.is_file(path)) {
                Some(path) => String::from_utf8(path).ok(),
                None => self.guest.has_substitute(text).then(|| text.to_owned()),
            };
        }
        self.is_file(name).then(|| text.to_owned())
    }

    pub(super) async fn type_builtin(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        let mut status = 0;
        for name in args {
            status = self.describe(name, true).await?.max(status);
        }
        Ok(status)
    }

    pub(super) async fn trap(&mut self, args: &[Vec<u8>]) -> Run<u8> {
        let args = args.strip_prefix(&[b"--".to_vec()]).unwrap_or(args);
        let Some((action, conditions)) = args.split_first() else {
            let lines = self.traps.iter().map(|(name, action)| {
                let action = super::variables::quoted(action);
                [b"trap -- ".as_slice(), &action, b" ", name.as_bytes(), b"\n"].concat()
            });
            let lines: Vec<u8> = lines.flatten().collect();
            return self.print(&lines).await;
        };
        let is_number = !action.is_empty() && action.iter().all(u8::is_ascii_digit);
        let (action, conditions) = match conditions {
            _ if is_number => (None, args),
            [] => (None, args),
            conditions => (Some(action.clone()).filter(|action| action != b"-"), conditions),
        };
        for condition in conditions {
            let Some(name) = condition_name(condition) else {
                let condition = String::from_utf8_lossy(condition);
                self.say(&format!("trap: {condition}: bad trap")).await?;
                return Ok(1);
            };
            match &action {
                Some(action) => {
                    let mut held = Held::none(self.memory());
                    let added = held.extend(action);
                    self.check_memory(added).await?;
                    self.traps.insert(name, held);
                }
                None => {
                    self.traps.remove(name);
                }
            }
        }
        Ok(0)
    }
}

/// Returns the name of a trap's condition: `EXIT`, or a signal.
fn condition_name(condition: &[u8]) -> Option<&'static str> {
    let text = std::str::from_utf8(condition).ok()?;
    match text {
        "0" | "EXIT" => Some("EXIT"),
        _ => match text.parse() {
            Ok(number) => Signal::from_number(number).map(Signal::name),
            Err(_) => Signal::from_name(text).map(Signal::name),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::shell::builtin::Builtin;

    #[test]
    fn conditions_have_names_and_numbers() {
        assert_eq!(condition_name(b"0"), Some("EXIT"));
        assert_eq!(condition_name(b"SIGINT"), Some("INT"));
        assert_eq!(condition_name(b"15"), Some("TERM"));
        assert_eq!(condition_name(b"DEBUG"), None);
        assert!(Builtin::Eval.runs_commands() && !Builtin::Echo.runs_commands());
    }
}
