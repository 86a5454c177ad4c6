//! Program lookup. What is found comes from outside the machine, so it is recorded: the directories of a
//! replay may differ.

use super::{Guest, SpawnRequest};
use crate::base::errno::Errno;
use crate::kernel::machine::{Machine, TOOLCHAINS_ROOT};
use crate::kernel::process::programs::{Found, NotRunnable, Place};
use crate::kernel::process::schedule::Mode;
use crate::tape::Kind;

/// Largest module or script that is read from the namespace, in bytes.
const MODULE_BYTES_MAX: u64 = 1 << 30;

/// Where systems install programs. If the namespace has no file at such a path, the program of a
/// toolchain with that name is used.
const PROGRAM_DIRS: [&str; 3] = ["/bin", "/usr/bin", "/usr/local/bin"];

/// Most interpreters in a chain that are scripts themselves.
const SCRIPT_DEPTH_MAX: u32 = 4;

impl Guest {
    /// Returns whether a toolchain has a program `name`, runnable or not.
    pub fn has_program(&self, name: &str) -> bool {
        !matches!(self.find_named(name), Ok(None))
    }

    /// Returns whether there is a substitute for the program `name`, runnable or not.
    pub fn has_substitute(&self, name: &str) -> bool {
        !matches!(self.find_substitute(name), Ok(None))
    }

    /// Returns whether the program `name` runs in the machine, not natively; `None` if none can run. For
    /// code that answers host calls: the lookup is not recorded.
    pub fn is_hermetic(&self, name: &str) -> Option<bool> {
        let programs = self.machine.programs.as_ref()?;
        let found = match programs.named(name).ok()? {
            Some(found) => found,
            None => programs.missing(name).ok()??,
        };
        Some(!matches!(found.image.mode(), Mode::Native { .. }))
    }

    fn find_named(&self, name: &str) -> Result<Option<Found>, NotRunnable> {
        let Some(programs) = &self.machine.programs else { return Ok(None) };
        let found = programs.named(name);
        self.tape_find(Place::Toolchain, name, found.as_ref().map(Option::as_ref));
        found
    }

    fn find_substitute(&self, name: &str) -> Result<Option<Found>, NotRunnable> {
        let Some(programs) = &self.machine.programs else { return Ok(None) };
        let found = programs.missing(name);
        self.tape_find(Place::Substitute, name, found.as_ref().map(Option::as_ref));
        found
    }

    fn find_module(&self, path: &str, bytes: Vec<u8>) -> Result<Found, NotRunnable> {
        let Some(programs) = &self.machine.programs else {
            return Err(NotRunnable(Errno::Nosys.to_string()));
        };
        let found = programs.module(path, bytes);
        self.tape_find(Place::File, path, found.as_ref().map(Some));
        found
    }

    /// Records the result of a lookup of `name`.
    fn tape_find(&self, place: Place, name: &str, found: Result<Option<&Found>, &NotRunnable>) {
        let Some(tape) = self.machine.tape.as_ref().filter(|_| self.machine.tapes_finds) else {
            return;
        };
        let program = found.ok().flatten();
        let mode = program.map(|found| found.image.mode());
        tape.push(Kind::ProgramFind {
            pid: self.pid.0,
            place: place.name().to_owned(),
            name: name.to_owned(),
            mode: mode.as_ref().map(|mode| mode.name().to_owned()),
            profile: mode.and_then(Mode::into_profile),
            module_hash: program.and_then(|found| found.digest),
            launch: program.map(|found| found.launch.clone()).filter(|launch| !launch.is_empty()),
            error: found.err().map(|NotRunnable(reason)| reason.clone()),
        });
    }

    /// Finds the program of `request`; if `asks`, asks the host whether it may start. For a script that is its
    /// interpreter, of which the host is asked too, and `request` then passes it the script.
    pub(super) fn find_allowed(
        &mut self,
        request: &mut SpawnRequest,
        asks: bool,
    ) -> Result<Found, (Errno, String)> {
        let ask = |guest: &mut Self, request: &SpawnRequest, is_watched| {
            let answer = if asks { guest.check_start(request, is_watched) } else { Ok(()) };
            answer.map_err(|reason| (Errno::Perm, reason))
        };
        ask(self, request, true)?;
        let mut depth = 0;
        loop {
            let (path, script) = match self.find(request, depth == 0)? {
                Step::Program(found) => {
                    let is_watched = !matches!(found.image.mode(), Mode::Native { .. });
                    if depth > 0 || !is_watched {
                        ask(self, request, is_watched)?;
                    }
                    return Ok(found);
                }
                Step::Script(_) if depth == SCRIPT_DEPTH_MAX => return Err(reason_of(Errno::Loop)),
                Step::Script(script) => script,
            };
            if depth > 0 {
                ask(self, request, true)?;
            }
            let (interpreter, argument) = script.ok_or_else(|| reason_of(Errno::Noexec))?;
            let rest = request.args.split_off(request.args.len().min(1));
            request.args = vec![interpreter.clone().into_bytes()];
            request.args.extend(argument.map(String::into_bytes));
            request.args.push(path.into_bytes());
            request.args.extend(rest);
            request.program = interpreter;
            depth += 1;
        }
    }

    /// Finds the program or script of `request`. Only what a process named itself can have a substitute: those cannot
    /// run scripts, which are in the namespace only.
    fn find(
        &mut self,
        request: &SpawnRequest,
        may_be_substitute: bool,
    ) -> Result<Step, (Errno, String)> {
        if self.machine.programs.is_none() {
            return Err((Errno::Nosys, "this machine has no programs to start".to_owned()));
        }
        let cannot_run = |NotRunnable(reason)| (Errno::Noexec, reason);
        let name = &request.program;
        if name.is_empty() || name.contains('\0') {
            return Err(reason_of(Errno::Noent));
        }
        let is_searched = !name.contains('/');
        if is_searched && let Some(found) = self.find_named(name).map_err(cannot_run)? {
            return Ok(Step::Program(found));
        }
        for path in self.candidates(request) {
            let (file, bytes) = match self.read_file(&path, MODULE_BYTES_MAX) {
                Ok(read) => read,
                Err(_) if is_searched => continue,
                Err(Errno::Noent)
                    if let Some(name) = stands_for(&path)
                        && let Some(found) = self.find_named(name).map_err(cannot_run)? =>
                {
                    return Ok(Step::Program(found));
                }
                Err(errno) => return Err(reason_of(errno)),
            };
            if let Some(line) = bytes.strip_prefix(b"#!") {
                let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
                return Ok(Step::Script((path, interpreter(line))));
            }
            let found = self.find_module(&path, bytes).map_err(cannot_run)?;
            return Ok(Step::Program(Found { path: Some(file), ..found }));
        }
        if is_searched
            && may_be_substitute
            && let Some(found) = self.find_substitute(name).map_err(cannot_run)?
        {
            return Ok(Step::Program(found));
        }
        if is_searched {
            self.machine.note_missing(name);
        }
        Err((Errno::Noent, "program not found".to_owned()))
    }

    /// The files that may be the program of `request`: with `PATH`, if it has no slash.
    fn candidates(&self, request: &SpawnRequest) -> Vec<String> {
        let name = &request.program;
        if name.contains('/') {
            return vec![name.clone()];
        }
        let path = request.environ.iter().find_map(|variable| variable.strip_prefix(b"PATH="));
        let path = path.map(|path| std::str::from_utf8(path).unwrap_or_default());
        let unset = (self.machine.kernel_version() < 6).then_some("");
        let dirs = path.or(unset).into_iter().flat_map(|path| path.split(':'));
        let dirs = dirs.map(|dir| if dir.is_empty() { "." } else { dir });
        dirs.flat_map(|dir| [format!("{dir}/{name}"), format!("{dir}/{name}.wasm")]).collect()
    }
}

/// The program of a toolchain that `path` stands for, if the namespace has no such file: `NAME` for a path in
/// [`PROGRAM_DIRS`], `ID/NAME` for `/.belljar/ID/NAME`, by which a script finds the programs of its own toolchain.
fn stands_for(path: &str) -> Option<&str> {
    if let Some(name) = path.strip_prefix(TOOLCHAINS_ROOT).and_then(|rest| rest.strip_prefix('/')) {
        return (name.bytes().filter(|byte| *byte == b'/').count() == 1).then_some(name);
    }
    let (dir, name) = path.rsplit_once('/')?;
    (PROGRAM_DIRS.contains(&dir) && !name.is_empty()).then_some(name)
}

/// What a lookup of a program found.
enum Step {
    Program(Found),
    /// The path of a script, and its interpreter with an argument.
    Script((String, Option<(String, Option<String>)>)),
}

fn reason_of(errno: Errno) -> (Errno, String) {
    (errno, errno.to_string())
}

/// Most names of missing programs that a machine keeps.
const MISSING_MAX: usize = 8;

/// Longest of these names, in bytes.
const MISSING_NAME_BYTES_MAX: usize = 255;

impl Machine {
    /// Names of the first programs, without a slash, that processes of the last run tried to start and
    /// that were not found; each once.
    pub fn missing_programs(&self) -> &[String] {
        &self.run.missing_programs
    }

    fn note_missing(&mut self, name: &str) {
        let names = &mut self.run.missing_programs;
        let is_new = !names.iter().any(|known| known == name);
        if is_new && names.len() < MISSING_MAX && name.len() <= MISSING_NAME_BYTES_MAX {
            names.push(name.to_owned());
        }
    }
}

/// Returns the file name of the interpreter on the first line of a script, and the rest of the line
/// as its argument. `env NAME` is `NAME`.
fn interpreter(line: &[u8]) -> Option<(String, Option<String>)> {
    let line = std::str::from_utf8(line).ok()?.trim();
    let (path, argument) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let argument = argument.trim();
    let name = path.rsplit('/').next().filter(|name| !name.is_empty())?;
    if name == "env" {
        return (!argument.is_empty()).then(|| (argument.to_owned(), None));
    }
    Some((name.to_owned(), (!argument.is_empty()).then(|| argument.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_are_found_by_name() {
        let found = |line: &str| interpreter(line.as_bytes());
        assert_eq!(found("/bin/sh"), Some(("sh".into(), None)));
        assert_eq!(found(" /usr/bin/sh -eu "), Some(("sh".into(), Some("-eu".into()))));
        assert_eq!(found("/usr/bin/env python"), Some(("python".into(), None)));
        assert_eq!(found("/usr/bin/env"), None);
        assert_eq!(found(""), None);
    }
}
