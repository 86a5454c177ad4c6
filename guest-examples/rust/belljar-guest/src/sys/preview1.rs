//! The import module `belljar`: see docs/guest-abi.md.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::path::Path;

use serde_json::Value;

use super::{Given, Open, Request, Status};
use crate::host::CallError;

/// `proc_spawn` answers so for what is not there.
const ENOSYS: i32 = 52;
const E2BIG: i32 = 1;
const EAGAIN: i32 = 6;
const EINVAL: i32 = 28;
const ENOMEM: i32 = 48;
const ERANGE: i32 = 68;

#[link(wasm_import_module = "belljar")]
unsafe extern "C" {
    fn proc_spawn(request: *const SpawnRequest, pid: *mut u32) -> i32;
    fn proc_wait(pid: u32, flags: u32, result: *mut WaitResult) -> i32;
    fn proc_kill(pid: u32, signal: u32) -> i32;
    fn sigpipe_ignore(flag: u32) -> i32;
    fn proc_chdir(path: *const u8, len: u32) -> i32;
    fn proc_getcwd(buf: *mut u8, buf_len: u32, len: *mut u32) -> i32;
    #[link_name = "pipe"]
    fn make_pipe(flags: u32, fds: *mut [RawFd; 2]) -> i32;
    fn fd_cloexec_set(fd: RawFd, flag: u32) -> i32;
    #[link_name = "host_has"]
    fn ask_whether(name: *const u8, len: u32, has: *mut u32) -> i32;
    #[link_name = "host_call"]
    fn ask(
        name: *const u8,
        name_len: u32,
        params: *const u8,
        params_len: u32,
        buf: *mut u8,
        buf_len: u32,
        size: *mut u32,
    ) -> i32;
    fn host_reply(offset: u32, buf: *mut u8, buf_len: u32, size: *mut u32) -> i32;
}

#[repr(C)]
struct Text {
    ptr: *const u8,
    len: u32,
}

impl Text {
    fn of(bytes: &[u8]) -> Self {
        Self { ptr: bytes.as_ptr(), len: len(bytes) }
    }
}

/// Lengths in the memory of a guest are `u32`.
fn len<T>(list: &[T]) -> u32 {
    list.len() as u32
}

#[repr(C)]
struct Action {
    op: u32,
    from: u32,
    to: u32,
}

/// The operation of an [`Action`]: the child's `to` is the caller's `from`.
const INHERIT: u32 = 0;

/// Bit of [`SpawnRequest::flags`]: what does not close on exec is inherited.
const INHERIT_ALL: u32 = 1;

#[repr(C)]
struct SpawnRequest {
    size: u32,
    program: Text,
    args: *const Text,
    args_count: u32,
    environ: *const Text,
    environ_count: u32,
    current_dir: Text,
    actions: *const Action,
    actions_count: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct WaitResult {
    pid: u32,
    how: u32,
    code: u32,
}

/// What is given to a child.
pub(crate) type Handed = File;
pub(crate) type Reader = File;
pub(crate) type Writer = File;

fn done(errno: i32) -> io::Result<()> {
    if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
}

fn closes_on_exec(file: File) -> io::Result<File> {
    // SAFETY: it has no pointers.
    done(unsafe { fd_cloexec_set(file.as_raw_fd(), 1) })?;
    Ok(file)
}

pub(crate) fn open(path: &Path, how: Open) -> io::Result<Handed> {
    closes_on_exec(match how {
        Open::Read => File::open(path)?,
        Open::Create => File::create(path)?,
    })
}

pub(crate) fn pipe() -> io::Result<(Reader, Writer)> {
    let mut fds = [0; 2];
    // SAFETY: the pointer is that of two words.
    done(unsafe { make_pipe(1, &raw mut fds) })?;
    // SAFETY: the descriptors are new, and nobody else has them.
    let [reader, writer] = fds.map(|fd| File::from(unsafe { OwnedFd::from_raw_fd(fd) }));
    Ok((reader, writer))
}

pub(crate) fn ignore_sigpipe(ignores: bool) {
    // SAFETY: it has no pointers. It knows both numbers.
    unsafe { sigpipe_ignore(ignores.into()) };
}

/// A process that was started.
#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
    status: Option<Status>,
}

pub(crate) fn spawn(request: Request<'_>) -> io::Result<Process> {
    let Request { program, args, environ, current_dir, stdio } = request;
    let args = std::iter::once(program).chain(args.iter().map(OsString::as_os_str));
    let args: Vec<Text> = args.map(OsStr::as_encoded_bytes).map(Text::of).collect();
    let variables: Vec<Vec<u8>> = environ.into_iter().map(variable).collect::<io::Result<_>>()?;
    let environ: Vec<Text> = variables.iter().map(|text| Text::of(text)).collect();
    let null = match stdio.iter().any(|it| matches!(it, Given::Null)) {
        true => Some(closes_on_exec(File::options().read(true).write(true).open("/dev/null")?)?),
        false => None,
    };
    let mut actions = Vec::new();
    for (to, given) in (0..).zip(&stdio) {
        let file = match given {
            Given::Inherit => continue,
            Given::Null => null.as_ref(),
            Given::Stream(file) => Some(file),
        };
        if let Some(file) = file {
            actions.push(Action { op: INHERIT, from: file.as_raw_fd().cast_unsigned(), to });
        }
    }
    let current_dir = current_dir.map(|dir| dir.as_os_str().as_encoded_bytes());
    let request = SpawnRequest {
        size: size_of::<SpawnRequest>() as u32,
        program: Text::of(program.as_encoded_bytes()),
        args: args.as_ptr(),
        args_count: len(&args),
        environ: environ.as_ptr(),
        environ_count: len(&environ),
        current_dir: current_dir.map_or(Text { ptr: std::ptr::null(), len: 0 }, Text::of),
        actions: actions.as_ptr(),
        actions_count: len(&actions),
        flags: INHERIT_ALL,
    };
    let mut pid = 0;
    // SAFETY: all that the request points to lives until the call has returned.
    done(unsafe { proc_spawn(&raw const request, &raw mut pid) })?;
    Ok(Process { pid, status: None })
}

/// A variable as `NAME=value`.
///
/// # Errors
/// `InvalidInput` for a name that is empty or holds `=`.
fn variable((name, value): (OsString, OsString)) -> io::Result<Vec<u8>> {
    let name = name.as_encoded_bytes();
    if name.is_empty() || name.contains(&b'=') {
        return Err(io::Error::from_raw_os_error(EINVAL));
    }
    Ok([name, b"=", value.as_encoded_bytes()].concat())
}

impl Process {
    pub fn id(&self) -> u32 {
        self.pid
    }

    pub fn kill(&mut self, signal: u32) -> io::Result<()> {
        if self.status.is_some() {
            return Ok(());
        }
        // SAFETY: it has no pointers.
        done(unsafe { proc_kill(self.pid, signal) })
    }

    pub fn wait(&mut self) -> io::Result<Status> {
        loop {
            if let Some(status) = self.wait_with(0)? {
                return Ok(status);
            }
        }
    }

    pub fn try_wait(&mut self) -> io::Result<Option<Status>> {
        self.wait_with(1)
    }

    fn wait_with(&mut self, flags: u32) -> io::Result<Option<Status>> {
        if self.status.is_none() {
            let mut result = WaitResult::default();
            // SAFETY: the pointer is that of a result.
            done(unsafe { proc_wait(self.pid, flags, &raw mut result) })?;
            self.status = match (result.pid, result.how) {
                (0, _) => None,
                (_, 0) => Some(Status::Exited(result.code)),
                _ => Some(Status::Signalled(result.code)),
            };
        }
        Ok(self.status)
    }
}

/// The index of the first stream that has bytes, or is at its end.
pub(crate) fn first_ready(streams: &[Option<Reader>; 2]) -> io::Result<usize> {
    let subscriptions: Vec<wasip1::Subscription> = (0..)
        .zip(streams)
        .filter_map(|(index, stream)| {
            let file_descriptor = stream.as_ref()?.as_raw_fd().cast_unsigned();
            let fd_read = wasip1::SubscriptionFdReadwrite { file_descriptor };
            let u = wasip1::SubscriptionU {
                tag: wasip1::EVENTTYPE_FD_READ.raw(),
                u: wasip1::SubscriptionUU { fd_read },
            };
            Some(wasip1::Subscription { userdata: index, u })
        })
        .collect();
    let mut events = Vec::<wasip1::Event>::with_capacity(subscriptions.len());
    // SAFETY: there is room for an event of each subscription, and the call fills as many as it says.
    let userdata = unsafe {
        let count =
            wasip1::poll_oneoff(subscriptions.as_ptr(), events.as_mut_ptr(), subscriptions.len());
        let count = count.map_err(|errno| io::Error::from_raw_os_error(errno.raw().into()))?;
        events.set_len(count);
        events.first().map_or(0, |event| event.userdata)
    };
    Ok(userdata as usize)
}

pub(crate) fn current_dir() -> io::Result<String> {
    let mut buf = vec![0; 256];
    loop {
        let mut size = 0;
        // SAFETY: the pointers are those of a buffer of this length and of a word.
        match unsafe { proc_getcwd(buf.as_mut_ptr(), len(&buf), &raw mut size) } {
            ERANGE => buf.resize(buf.len() * 2, 0),
            errno => {
                done(errno)?;
                buf.truncate(size as usize);
                return String::from_utf8(buf).map_err(io::Error::other);
            }
        }
    }
}

pub(crate) fn set_current_dir(path: &str) -> io::Result<()> {
    // SAFETY: the pointer is that of this text.
    done(unsafe { proc_chdir(path.as_ptr(), len(path.as_bytes())) })
}

pub(crate) fn host_has(name: &str) -> bool {
    let mut has = 0;
    // SAFETY: the pointers are those of this text and of a word.
    let errno = unsafe { ask_whether(name.as_ptr(), len(name.as_bytes()), &raw mut has) };
    errno == 0 && has == 1
}

pub(crate) fn host_call(operation: &str, params: &str) -> Result<Value, CallError> {
    let mut size = 0;
    // SAFETY: the pointers are those of these texts, of no bytes and of a word.
    let errno = unsafe {
        ask(
            operation.as_ptr(),
            len(operation.as_bytes()),
            params.as_ptr(),
            len(params.as_bytes()),
            std::ptr::dangling_mut(),
            0,
            &raw mut size,
        )
    };
    match errno {
        0 => {}
        ENOSYS => return Err(CallError::new("no-host", "the machine has no host to call")),
        E2BIG => return Err(CallError::new("too_long", "the parameters exceed the limit")),
        EAGAIN => return Err(CallError::new("limit", "the limit of processes is reached")),
        ENOMEM => return Err(CallError::new("limit", "there is no memory for the answer")),
        errno => {
            let message = io::Error::from_raw_os_error(errno).to_string();
            return Err(CallError::new("unsupported", message));
        }
    }
    let mut reply = vec![0; size as usize];
    // SAFETY: the pointers are those of a buffer of this length and of a word.
    unsafe { host_reply(0, reply.as_mut_ptr(), len(&reply), &raw mut size) };
    let mut answer: Value = serde_json::from_slice(&reply).unwrap_or_default();
    if let Some(value) = answer.get_mut("ok") {
        return Ok(value.take());
    }
    let text = |name: &str| answer["error"][name].as_str().map(str::to_owned);
    let (kind, message) = (text("kind"), text("message"));
    let kind = kind.unwrap_or_else(|| "failed".to_owned());
    Err(CallError { kind, message: message.unwrap_or_default(), code: text("code") })
}
