//! Simple commands (assignments, builtins, functions, programs), and the start of processes.

use std::sync::Arc;

use super::builtin::{self, Builtin};
use super::context::{Before, Leave, Run, Shell};
use super::deep::DeepFuture;
use super::held::Words;
use super::image::{Part, ShellImage};
use super::redirect::Saved;
use super::state::Function;
use super::tree::{Command, Kind, Simple, Word};
use crate::base::errno::Errno;
use crate::kernel::guest::{FdAction, SpawnRequest};
use crate::kernel::process::Pid;

/// Most nested functions, `eval` and `.`.
const DEPTH_MAX: u32 = 1000;

/// Returns the standard error before a command's redirections.
fn trace_fd(saved: &Saved) -> u32 {
    let redirected = saved.iter().find(|(fd, _)| *fd == 2);
    redirected.map_or(2, |(_, copy)| copy.unwrap_or(2))
}

/// The meaning of a command name.
pub enum Meaning {
    /// A builtin.
    Builtin(Builtin),
    /// A function.
    Function(Function),
    /// A program, which need not exist.
    Program,
}

impl Shell {
    /// Returns the meaning of `name`.
    pub fn meaning(&self, name: &[u8]) -> Meaning {
        let builtin = builtin::find(name);
        match builtin {
            Some(builtin) if builtin.is_special() => return Meaning::Builtin(builtin),
            _ => {}
        }
        if let Some(function) = self.state.functions.get(name) {
            return Meaning::Function(function.clone());
        }
        builtin.map_or(Meaning::Program, Meaning::Builtin)
    }

    /// Runs a simple command.
    pub async fn simple(&mut self, command: &Command, simple: &Simple) -> Run {
        let is_last = self.take_last();
        self.tick().await?;
        self.state.line = command.line;
        self.substituted = None;
        let words = if simple.declares {
            self.declared_fields(&simple.words).await?
        } else {
            self.fields(&simple.words).await?
        };
        let meaning = words.first().map(|name| self.meaning(name));
        let is_special = matches!(&meaning, Some(Meaning::Builtin(b)) if b.is_special());
        let Some(saved) = self.redirect(&command.redirects).await? else {
            return if is_special { Err(Leave::Error) } else { self.check_errexit() };
        };
        let keeps_redirects = match &meaning {
            Some(Meaning::Builtin(Builtin::Exec)) => true,
            Some(Meaning::Builtin(Builtin::Command)) => {
                let mut operands =
                    words[1..].iter().skip_while(|arg| *arg == b"-p" || *arg == b"--");
                operands.next().is_some_and(|name| name == b"exec")
            }
            _ => false,
        };
        let trace_fd = trace_fd(&saved);
        let done = match meaning {
            None => self.assign_all(&simple.assignments, None, &words, trace_fd).await.map(|()| {
                self.state.status = self.substituted.unwrap_or(0);
            }),
            Some(meaning) if is_special => {
                match self.assign_all(&simple.assignments, None, &words, trace_fd).await {
                    Ok(()) => self.run_meaning(meaning, &words, is_last).await,
                    Err(leave) => Err(leave),
                }
            }
            Some(meaning) if simple.assignments.is_empty() => {
                match self.trace(&[], &words, trace_fd).await {
                    Ok(()) => self.run_meaning(meaning, &words, is_last).await,
                    Err(leave) => Err(leave),
                }
            }
            Some(meaning) => {
                let mut before = Before::new();
                let assigned =
                    self.assign_all(&simple.assignments, Some(&mut before), &words, trace_fd).await;
                let done = match assigned {
                    Ok(()) => self.run_meaning(meaning, &words, is_last).await,
                    Err(leave) => Err(leave),
                };
                for (name, before) in before.into_iter().rev() {
                    self.state.variables.restore(&name, before);
                }
                done
            }
        };
        if keeps_redirects && done.is_ok() {
            self.keep(saved);
        } else {
            self.undo(saved);
        }
        done?;
        self.check_errexit()
    }

    /// Sets variables: permanently, or, with `before` for their former states, for one command, as
    /// exported ones.
    async fn assign_all(
        &mut self,
        assignments: &[(Box<[u8]>, Word)],
        mut before: Option<&mut Before>,
        words: &[Vec<u8>],
        trace_fd: u32,
    ) -> Run {
        let mut traced = Vec::new();
        for (name, word) in assignments {
            let value = self.text(word).await?;
            if self.state.options.xtrace {
                traced.push([name, b"=".as_slice(), &value].concat());
            }
            let is_temporary = before.is_some();
            if let Some(before) = &mut before {
                before.push((name.clone(), self.state.variables.variable(name).cloned()));
            }
            self.set(name, value).await?;
            if is_temporary {
                let exported = self.state.variables.export(name);
                self.check_memory(exported).await?;
            }
        }
        self.trace(&traced, words, trace_fd).await
    }

    /// Prints a command on `fd` before it runs, if `set -x` is on.
    async fn trace(&mut self, assignments: &[Vec<u8>], words: &[Vec<u8>], fd: u32) -> Run {
        if !self.state.options.xtrace {
            return Ok(());
        }
        let mut line = self.state.variables.get(b"PS4").map_or_else(Vec::new, |ps4| ps4.to_vec());
        let all: Vec<&[u8]> = assignments.iter().chain(words).map(Vec::as_slice).collect();
        line.extend(all.join(&b' '));
        line.push(b'\n');
        // A closed standard error is ignored.
        self.write(fd, &mut line).await?.unwrap_or_default();
        Ok(())
    }

    async fn run_meaning(&mut self, meaning: Meaning, words: &[Vec<u8>], is_last: bool) -> Run {
        match meaning {
            Meaning::Builtin(builtin) => {
                // What `command` runs is the last, too.
                self.is_last = is_last && builtin == Builtin::Command;
                let done = if builtin.runs_commands() {
                    DeepFuture::new(self.builtin(builtin, words)).await
                } else {
                    self.small_builtin(builtin, words).await
                };
                match done {
                    Ok(status) => self.state.status = status,
                    Err(Leave::Error) if !builtin.is_special() => {}
                    Err(leave) => return Err(leave),
                }
                Ok(())
            }
            Meaning::Function(function) => {
                DeepFuture::new(self.call_function(function, &words[1..])).await
            }
            Meaning::Program => {
                self.state.status = match self.start_program(words, &[]).await? {
                    Ok(pid) => self.end_with(pid, is_last).await?,
                    Err(status) => status,
                };
                Ok(())
            }
        }
    }

    /// Enters a level of functions, `eval` and `.`.
    ///
    /// # Errors
    /// [`Leave::Error`] if it is too deep.
    pub async fn descend(&mut self) -> Run {
        if self.state.depth >= DEPTH_MAX {
            return self
                .fail(&format!("Maximum function recursion depth ({DEPTH_MAX}) reached"))
                .await;
        }
        self.state.depth += 1;
        Ok(())
    }

    async fn call_function(&mut self, function: Function, args: &[Vec<u8>]) -> Run {
        let args = Words::of(args, self.memory());
        let args = self.check_memory(args).await?;
        self.descend().await?;
        let before = std::mem::replace(&mut self.state.parameters, Arc::new(args));
        let script = std::mem::replace(&mut self.state.script, function.script);
        let loops = std::mem::take(&mut self.state.loops);
        self.locals.push(Vec::new());
        self.state.function_depth += 1;
        let done = self.command(&function.body).await;
        self.state.function_depth -= 1;
        for (name, before) in self.locals.pop().unwrap_or_default().into_iter().rev() {
            self.state.variables.restore(&name, before);
        }
        self.state.parameters = before;
        self.state.script = script;
        self.state.loops = loops;
        self.state.depth -= 1;
        match done {
            Err(Leave::Return) => Ok(()),
            done => done,
        }
    }

    /// Starts the program that `words` name; on failure reports it and returns the status.
    pub async fn start_program(
        &mut self,
        words: &[Vec<u8>],
        actions: &[FdAction],
    ) -> Run<Result<Pid, u8>> {
        match self.spawn(words, actions) {
            Ok(pid) => Ok(Ok(pid)),
            Err((Errno::Again, _)) => self.fail("Cannot fork").await,
            Err((errno, reason)) => {
                if errno == Errno::Noexec
                    && let Some(pid) = self.start_script(words, actions).await?
                {
                    return Ok(Ok(pid));
                }
                let name = String::from_utf8_lossy(&words[0]);
                let (status, why) = match errno {
                    Errno::Noent | Errno::Nosys | Errno::Notdir => (127, "not found".to_owned()),
                    _ => (126, reason),
                };
                self.say(&format!("{name}: {why}")).await?;
                Ok(Err(status))
            }
        }
    }

    /// Starts a shell for the file that `words` name, which is not a module: it may be a script without an
    /// interpreter line.
    async fn start_script(&mut self, words: &[Vec<u8>], actions: &[FdAction]) -> Run<Option<Pid>> {
        let path = &words[0];
        if !path.contains(&b'/') {
            return Ok(None);
        }
        match self.read_script(path).await? {
            Ok(text) if !text.contains(&0) => {}
            _ => return Ok(None),
        }
        let request = SpawnRequest {
            program: "sh".to_owned(),
            args: std::iter::once(b"sh".to_vec()).chain(words.iter().cloned()).collect(),
            environ: self.state.variables.environ(),
            inherit: true,
            actions: actions.to_vec(),
            ..SpawnRequest::default()
        };
        Ok(self.spawn_shell(ShellImage::new().found(), request).ok())
    }

    fn spawn(&mut self, words: &[Vec<u8>], actions: &[FdAction]) -> Result<Pid, (Errno, String)> {
        let Ok(program) = std::str::from_utf8(&words[0]) else {
            return Err((Errno::Noent, Errno::Noent.to_string()));
        };
        let request = SpawnRequest {
            program: program.to_owned(),
            args: words.to_vec(),
            environ: self.state.variables.environ(),
            inherit: true,
            actions: actions.to_vec(),
            ..SpawnRequest::default()
        };
        self.proc_spawn(request).map_err(|error| (error.errno, error.reason))
    }

    /// Starts `part` of a pipeline directly, if it is a program whose words can be expanded here; `None`
    /// if it needs a subshell.
    pub async fn start_program_part(
        &mut self,
        part: &Command,
        actions: &[FdAction],
    ) -> Run<Option<Pid>> {
        let options = self.state.options;
        let Kind::Simple(simple) = &part.kind else { return Ok(None) };
        if !simple.is_pure || !part.redirects.is_empty() || options.nounset || options.xtrace {
            return Ok(None);
        }
        let words = self.fields(&simple.words).await?;
        let is_program =
            words.first().is_some_and(|name| matches!(self.meaning(name), Meaning::Program));
        Ok(if is_program { self.spawn(&words, actions).ok() } else { None })
    }

    /// Starts a subshell for `part`.
    pub async fn start_part(&mut self, part: Part, actions: &[FdAction]) -> Run<Pid> {
        let mut state = self.state.clone();
        if matches!(part, Part::Substitution(_)) {
            state.is_tested = false;
        }
        let request = SpawnRequest {
            program: "sh".to_owned(),
            args: vec![self.state.name.to_vec()],
            inherit: true,
            actions: actions.to_vec(),
            ..SpawnRequest::default()
        };
        match self.spawn_shell(ShellImage::part(state, part).found(), request) {
            Ok(pid) => Ok(pid),
            Err(Errno::Again) => self.fail("Cannot fork").await,
            Err(errno) => self.fail(&format!("Cannot fork: {}", errno.meaning())).await,
        }
    }
}
