//! `belljar:process/processes`.

use wasmtime::component::{LinkerInstance, Resource, ResourceType};

use super::stdio::{Handed, LIST_MAX};
use super::types::{Command, ErrorCode, ExitStatus};
use crate::abi::preview2::call::{Halt, call, interface};
use crate::abi::preview2::child::Child;
use crate::abi::preview2::input::InputStream;
use crate::abi::preview2::output::OutputStream;
use crate::abi::preview2::poll::{Condition, Pollable};
use crate::abi::{Process, trace};
use crate::base::errno::Errno;
use crate::kernel::guest::{Guest, SpawnRequest};
use crate::kernel::process::{Pid, Signal};

interface! {
    /// `belljar:process/processes`
    processes:
    "[method]child.id" => is(child_id),
    "[method]child.kill" => is(child_kill),
    "[method]child.subscribe" => is(child_subscribe),
    "[method]child.try-wait" => waits_reading_clock(child_try_wait),
    "[method]child.wait" => waits(child_wait),
    "current-dir" => is(current_dir),
    "id" => answers(id),
    "ignore-sigpipe" => does(|process, (ignores,)| {
        ignore_sigpipe(process, ignores);
        Ok(())
    }),
    "kill" => is(kill),
    "parent-id" => answers(parent_id),
    "pipe" => is(pipe),
    "set-current-dir" => is(set_current_dir),
    "spawn" => is(spawn),
}

/// The answer of a call, for the component.
type Answer<T> = Result<Result<T, ErrorCode>, Halt>;

type Streams = (Resource<InputStream>, Resource<OutputStream>);

/// Defines the resource `child` as `name` in `instance`.
///
/// # Errors
/// The name is already defined.
pub(in crate::abi::preview2) fn define_child(
    instance: &mut LinkerInstance<'_, Process>,
    name: &str,
) -> wasmtime::Result<()> {
    instance.resource(name, ResourceType::host::<Child>(), |store, index| {
        call(store, "[resource-drop]", Guest::begin_call, |process| {
            trace!(process.guest, "{index}");
            let child = process.take(&Resource::<Child>::new_own(index))?;
            if child.status.is_none() {
                process.guest.proc_disown(child.pid);
            }
            Ok(())
        })
    })
}

fn spawn(process: &mut Process, (mut command,): (Command,)) -> Answer<Resource<Child>> {
    trace!(process.guest, "program={:?}, argc={}", command.program, command.arguments.len());
    let mut handed = Handed::default();
    let spawned = start(process, &mut handed, &mut command);
    handed.release(process)?;
    match process.answer(spawned)? {
        Ok(pid) => process.add(Child { pid, status: None }).map(Ok),
        Err(code) => Ok(Err(code)),
    }
}

fn start(process: &mut Process, handed: &mut Handed, command: &mut Command) -> Result<Pid, Halt> {
    handed.add_all(process, command)?;
    let variables = command.environment.as_ref().map_or(0, Vec::len);
    if command.arguments.len().max(variables) > LIST_MAX {
        return Err(Errno::Toobig.into());
    }
    process.check_path(&command.program)?;
    if let Some(dir) = &command.current_dir {
        process.check_path(dir)?;
    }
    let args: Vec<_> =
        std::mem::take(&mut command.arguments).into_iter().map(String::into_bytes).collect();
    let environ = match command.environment.take() {
        None => process.guest.environ().to_vec(),
        Some(variables) => variables.into_iter().map(variable).collect::<Result<_, _>>()?,
    };
    if args.iter().chain(&environ).any(|text| text.contains(&0)) {
        return Err(Errno::Inval.into());
    }
    let request = SpawnRequest {
        program: std::mem::take(&mut command.program),
        args,
        environ,
        current_dir: command.current_dir.take(),
        inherit: true,
        actions: std::mem::take(&mut handed.actions),
    };
    Ok(process.guest.proc_spawn(request).map_err(|error| error.errno)?)
}

/// A variable as `NAME=value`.
///
/// # Errors
/// `EINVAL` for a name that is empty or holds `=`.
fn variable((name, value): (String, String)) -> Result<Vec<u8>, Errno> {
    if name.is_empty() || name.contains('=') {
        return Err(Errno::Inval);
    }
    Ok(format!("{name}={value}").into_bytes())
}

fn child_id(process: &mut Process, (child,): (Resource<Child>,)) -> Result<u32, Halt> {
    trace!(process.guest, "{}", child.rep());
    Ok(process.resource(&child)?.pid.0)
}

fn child_subscribe(
    process: &mut Process,
    (child,): (Resource<Child>,),
) -> Result<Resource<Pollable>, Halt> {
    trace!(process.guest, "{}", child.rep());
    process.add_child(Pollable(Condition::Ended(child.rep())), &child)
}

fn child_wait(process: &mut Process, (child,): &(Resource<Child>,)) -> Answer<ExitStatus> {
    let waited = wait(process, child, true);
    // Without an end there is no answer.
    Ok(process.answer(waited)?.and_then(|status| status.ok_or(ErrorCode::NoChild)))
}

fn child_try_wait(
    process: &mut Process,
    (child,): &(Resource<Child>,),
) -> Answer<Option<ExitStatus>> {
    let waited = wait(process, child, false);
    if matches!(waited, Ok(None)) {
        process.let_others_go_on()?;
    }
    process.answer(waited)
}

fn wait(
    process: &mut Process,
    child: &Resource<Child>,
    blocks: bool,
) -> Result<Option<ExitStatus>, Halt> {
    let Child { pid, status } = *process.resource(child)?;
    trace!(process.guest, "pid={}", pid.0);
    if let Some(status) = status {
        return Ok(Some(status.into()));
    }
    let Some((_, status)) = process.guest.proc_wait(Some(pid), blocks)? else { return Ok(None) };
    process.resource(child)?.status = Some(status);
    Ok(Some(status.into()))
}

fn child_kill(process: &mut Process, (child, signal): (Resource<Child>, u32)) -> Answer<()> {
    let Child { pid, status } = *process.resource(&child)?;
    trace!(process.guest, "pid={}, signal={signal}", pid.0);
    let killed = match status {
        Some(_) => Err(Errno::Srch.into()),
        None => send(process, pid, signal),
    };
    process.answer(killed)
}

fn kill(process: &mut Process, (pid, signal): (u32, u32)) -> Answer<()> {
    trace!(process.guest, "pid={pid}, signal={signal}");
    let killed = send(process, Pid(pid), signal);
    process.answer(killed)
}

fn send(process: &mut Process, pid: Pid, signal: u32) -> Result<(), Halt> {
    let signal = match signal {
        0 => None,
        number => Some(Signal::from_number(number).ok_or(Errno::Inval)?),
    };
    Ok(process.guest.proc_kill(pid, signal)?)
}

fn pipe(process: &mut Process, (): ()) -> Answer<Streams> {
    trace!(process.guest, "");
    let ends = process.guest.pipe(true);
    let (reader, writer) = match process.answer(ends)? {
        Ok(ends) => ends,
        Err(code) => return Ok(Err(code)),
    };
    let reader = InputStream::of_file(process, reader, 0)?;
    let reader = process.add(reader)?;
    let writer = OutputStream::of_file(process, writer, None)?;
    Ok(Ok((reader, process.add(writer)?)))
}

fn id(process: &mut Process, (): ()) -> u32 {
    trace!(process.guest, "");
    process.guest.pid().0
}

fn parent_id(process: &mut Process, (): ()) -> u32 {
    trace!(process.guest, "");
    process.guest.proc_parent().0
}

fn current_dir(process: &mut Process, (): ()) -> Answer<String> {
    trace!(process.guest, "");
    let path = process.guest.current_dir().map(Into::into);
    process.answer(path)
}

fn set_current_dir(process: &mut Process, (path,): (String,)) -> Answer<()> {
    trace!(process.guest, "path={path:?}");
    let changed = process.check_path(&path).and_then(|()| process.guest.proc_chdir(&path));
    process.answer(changed)
}

fn ignore_sigpipe(process: &mut Process, ignores: bool) {
    trace!(process.guest, "{ignores}");
    process.guest.ignore_sigpipe(ignores);
}
