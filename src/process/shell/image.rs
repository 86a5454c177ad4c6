//! The shell as a process: start and end.

use std::sync::Arc;

use super::context::{Leave, Run, Shell};
use super::deep::DeepFuture;
use super::held::Held;
use super::lexer::SyntaxError;
use super::parser::SCRIPT_BYTES_MAX;
use super::state::{Options, State};
use super::tree::{Chain, Command, List};
use crate::kernel::guest::{Guest, OFlags, rights};
use crate::kernel::io::fd::FdFlags;
use crate::kernel::machine::limits::Stop;
use crate::kernel::process::programs::{Found, MakeImage};
use crate::kernel::process::schedule::{Ended, Image, Mode, Running};

/// The image of the shell: `sh [-aCefnuvx] [-o OPTION] -c TEXT [NAME [ARG]...]`,
/// `sh [OPTION]... FILE [ARG]...`, or `sh [OPTION]...`, which reads the script from standard input.
pub struct ShellImage(Start);

enum Start {
    Arguments,
    Part(Box<State>, Part),
}

/// The task of a subshell.
pub enum Part {
    /// Runs commands.
    Script(Arc<List>),
    /// Runs commands whose output is captured.
    Substitution(Arc<List>),
    /// Runs a part of a pipeline.
    Command(Arc<Command>),
    /// Runs a background command.
    Chain(Arc<Chain>),
    /// Only writes these bytes.
    Document(Held<Vec<u8>>),
}

impl ShellImage {
    /// Creates a shell that is controlled by its arguments.
    pub fn new() -> Self {
        Self(Start::Arguments)
    }

    /// Returns a maker of shells, one for each process.
    pub fn maker() -> MakeImage {
        Arc::new(|| Box::new(Self::new()))
    }

    /// Returns the shell as the result of a lookup.
    pub fn found(self) -> Found {
        Found::built_in(Box::new(self))
    }

    /// Creates a subshell.
    pub(super) fn part(state: State, part: Part) -> Self {
        Self(Start::Part(Box::new(state), part))
    }
}

impl Default for ShellImage {
    fn default() -> Self {
        Self::new()
    }
}

impl Image for ShellImage {
    fn name(&self) -> &'static str {
        "sh"
    }

    fn mode(&self) -> Mode {
        Mode::BuiltIn
    }

    fn start(self: Box<Self>, guest: Guest) -> Running {
        Box::pin(process(self.0, guest))
    }
}

async fn process(start: Start, mut guest: Guest) -> Ended {
    if let Err(stop) = guest.begin() {
        return Ended { guest, outcome: Ok(stop.into()) };
    }
    let (state, part) = match start {
        Start::Part(state, part) => (*state, Some(part)),
        Start::Arguments => {
            let name = guest.args().first().map_or(b"sh".as_slice(), Vec::as_slice);
            (State::new(name, &guest), None)
        }
    };
    let mut shell = Shell::new(guest, state);
    let stop = match shell.live(part).await {
        Ok(()) => Stop::Exit(shell.state.status.into()),
        Err(stop) => stop,
    };
    Ended { guest: shell.guest, outcome: Ok(stop.into()) }
}

impl Shell {
    async fn live(&mut self, part: Option<Part>) -> Result<(), Stop> {
        self.is_last = part.is_some();
        let done = match part {
            None => self.run_arguments().await,
            Some(Part::Script(list) | Part::Substitution(list)) => self.list(&list).await,
            Some(Part::Command(command)) => self.command(&command).await,
            Some(Part::Chain(chain)) if chain.rest.is_empty() => {
                self.pipeline(&chain.first, true).await
            }
            Some(Part::Chain(chain)) => self.chain(&chain).await,
            Some(Part::Document(mut text)) => self.write(1, &mut text).await.map(|_| ()),
        };
        if let Err(Leave::Stop(stop)) = done {
            return Err(stop);
        }
        let Some(text) = self.traps.remove("EXIT") else { return Ok(()) };
        let status = self.state.status;
        self.state.is_tested = false;
        match DeepFuture::new(self.run_text(&text)).await {
            Err(Leave::Stop(stop)) => return Err(stop),
            Err(Leave::Exit | Leave::Error) => {}
            _ => self.state.status = status,
        }
        Ok(())
    }

    /// Runs the commands in `text`, as `eval` does.
    pub async fn run_text(&mut self, text: &[u8]) -> Run {
        match self.parse(text) {
            Ok((list, memory)) => {
                if list.is_empty() {
                    self.state.status = 0;
                }
                let before = std::mem::replace(&mut self.state.script, Arc::new(memory));
                let done = self.list(&list).await;
                self.state.script = before;
                done
            }
            Err(error) => self.refuse_script(&error).await,
        }
    }

    /// Reports a syntax error.
    pub async fn refuse_script(&mut self, error: &SyntaxError) -> Run {
        let name = self.state.name.clone();
        let name = String::from_utf8_lossy(&name);
        let shell = if name == "sh" { "" } else { "sh: " };
        let mut message = format!("{shell}{name}: {error}\n").into_bytes();
        // A closed standard error is ignored.
        self.write(2, &mut message).await?.unwrap_or_default();
        self.state.status = 2;
        Err(Leave::Error)
    }

    async fn run_arguments(&mut self) -> Run {
        self.set_directories().await?;
        let args = self.guest.args().get(1..).unwrap_or_default().to_vec();
        let mut options = Options::default();
        let mut takes_text = false;
        let mut rest = args.as_slice();
        while let Some((arg, after)) = rest.split_first() {
            if arg == b"--" || arg == b"-" {
                rest = after;
                break;
            }
            if arg.len() < 2 || !matches!(arg[0], b'-' | b'+') {
                break;
            }
            rest = after;
            for letter in &arg[1..] {
                let on = arg[0] == b'-';
                if *letter == b'c' {
                    takes_text = true;
                } else if *letter == b'o' {
                    let name = rest.first().map_or(b"".as_slice(), Vec::as_slice);
                    rest = rest.get(1..).unwrap_or_default();
                    match options.by_name(name) {
                        Some(option) => *option = on,
                        None => return self.bad_option(name).await,
                    }
                } else if let Some(option) = options.by_letter(*letter) {
                    *option = on;
                } else {
                    return self.bad_option(&[arg[0], *letter]).await;
                }
            }
        }
        self.state.options = options;
        let text = if takes_text {
            let Some((text, after)) = rest.split_first() else {
                return self.fail("-c requires an argument").await;
            };
            rest = after;
            if let Some((name, after)) = rest.split_first() {
                self.state.name = name.as_slice().into();
                rest = after;
            }
            let mut held = Held::none(self.memory());
            let added = held.extend(text);
            self.check_memory(added).await?;
            held
        } else if let Some((path, after)) = rest.split_first()
            && !options.stdin
        {
            self.state.name = path.as_slice().into();
            rest = after;
            match self.read_script(path).await? {
                Ok(text) => text,
                Err(why) => {
                    let path = String::from_utf8_lossy(path);
                    return self.fail(&format!("cannot open {path}: {why}")).await;
                }
            }
        } else {
            match self.read_to_end(0, SCRIPT_BYTES_MAX).await? {
                Ok(text) => text,
                Err(errno) => return self.fail(&format!("standard input: {errno}")).await,
            }
        };
        self.set_parameters(rest).await?;
        if options.verbose {
            // A closed standard error is ignored.
            self.write(2, &mut text.clone()).await?.unwrap_or_default();
        }
        if options.noexec {
            return match self.parse(&text) {
                Ok(_) => Ok(()),
                Err(error) => self.refuse_script(&error).await,
            };
        }
        self.is_last = takes_text;
        self.run_text(&text).await
    }

    async fn bad_option(&mut self, option: &[u8]) -> Run {
        let option = String::from_utf8_lossy(option);
        self.fail(&format!("Illegal option {option}")).await
    }

    async fn set_directories(&mut self) -> Run {
        if let Some(named) = self.named_dir() {
            self.state.current_dir = named.into();
        }
        let current = self.state.current_dir.clone();
        self.set(b"PWD", current.as_bytes()).await?;
        // As dash does. Version 0 of the kernel did so only after a `cd`.
        if self.guest.machine().kernel_version() > 0 {
            let exported = self.state.variables.export(b"PWD");
            self.check_memory(exported).await?;
        }
        // Scripts look for programs in its directories; those of toolchains are in this one. It is exported once a script
        // sets it.
        let has_path = self.state.variables.get(b"PATH").is_some();
        if !has_path
            && self.guest.machine().kernel_version() > 7
            && let Err(error) = self.state.variables.set(b"PATH", *b"/bin")
        {
            return self.fail(&error.to_string()).await;
        }
        Ok(())
    }

    /// Reads the script in the file `path`; the inner error is the reason why it cannot.
    pub async fn read_script(&mut self, path: &[u8]) -> Run<Result<Held<Vec<u8>>, String>> {
        let Ok(path) = std::str::from_utf8(path) else { return Ok(Err("not UTF-8".into())) };
        let (oflags, flags) = (OFlags::default(), FdFlags::default());
        let opened = self.path_open(path, oflags, rights::FD_READ, flags);
        let fd = match opened {
            Ok(fd) => fd,
            Err(errno) => return Ok(Err(errno.meaning().to_owned())),
        };
        let text = self.read_to_end(fd, SCRIPT_BYTES_MAX).await?;
        self.close(fd);
        Ok(text.map_err(|errno| errno.meaning().to_owned()))
    }
}
