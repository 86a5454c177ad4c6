//! The process that optimizes modules after the runs that needed them; see [`super::background`].

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::args::groups::{CompileArgs, CompileLimitArgs, TierArg};
use super::args::installation::OptimizeArgs;
use super::background::{Queue, Running, Wanted, read_json};
use super::compile::Compiler;
use super::progress::Progress;
use crate::base::{atomic_file, disk, priority};
use crate::{Module, ProgramError};

/// Real time that a module may take: other programs may need the processor for long.
const TIMEOUT: Duration = Duration::from_hours(1);

/// Optimizes the modules that wait.
pub fn optimize(args: &OptimizeArgs) -> Result<u8> {
    detach();
    priority::give_way_as_session();
    let queue = Queue::of(&args.cache_dir);
    queue.expect_own()?;
    // Each module is tried once. One may be added while the lock is given up.
    let mut tried = BTreeSet::new();
    let next = |tried: &BTreeSet<String>| queue.ids().into_iter().find(|id| !tried.contains(id));
    while next(&tried).is_some() {
        let Some(lock) = queue.lock() else { break };
        queue.sweep(&lock);
        queue.end_when_asked(&lock)?;
        while let Some(id) = next(&tried) {
            // A module that cannot be read or kept must not hold up others.
            let _ = compile(&queue, &args.cache_dir, &id);
            let _ = disk::remove_file(&queue.file(&id, "wasm"));
            let _ = disk::remove_file(&queue.running_file());
            tried.insert(id);
        }
    }
    Ok(0)
}

/// Leaves the terminal, and closes what the parent process had open.
#[cfg(unix)]
#[allow(unsafe_code, reason = "descriptors are closed by number")]
fn detach() {
    use std::os::fd::BorrowedFd;

    let _ = rustix::process::setsid();
    let of_linux = disk::list(Path::new("/proc/self/fd"));
    let listed = of_linux.or_else(|_| disk::list(Path::new("/dev/fd"))).unwrap_or_default();
    for path in listed {
        let number = path.file_name().and_then(|name| name.to_str()?.parse().ok());
        if let Some(number) = number.filter(|number: &i32| *number > 2) {
            // SAFETY: this process begins, and nothing of it uses a descriptor but the first three. That of the
            // directory above is closed.
            unsafe {
                if rustix::io::fcntl_getfd(BorrowedFd::borrow_raw(number)).is_ok() {
                    rustix::io::close(number);
                }
            }
        }
    }
}

/// It was started without either.
#[cfg(not(unix))]
fn detach() {}

/// Compiles the module of the name `id` that waits in `queue`.
fn compile(queue: &Queue, cache_dir: &Path, id: &str) -> Result<()> {
    let (json, wasm) = (queue.file(id, "json"), queue.file(id, "wasm"));
    let wanted: Option<Wanted> = read_json(&json);
    let bytes = disk::read(&wasm);
    // What ends this process must not end the next one, too.
    disk::remove_file(&json)?;
    let (Some(wanted), Ok(bytes)) = (wanted, bytes) else { return Ok(()) };
    let module = Module::from_bytes(wanted.name.as_str(), bytes)?;
    let running = Running {
        pid: std::process::id(),
        module: wanted.name,
        bytes: module.size(),
        id: id.to_owned(),
    };
    let running_file = queue.running_file();
    atomic_file::write(&running_file, &[&serde_json::to_vec(&running)?])?;
    let args = CompileArgs {
        tier: TierArg::Optimized,
        background: false,
        no_background: true,
        limits: CompileLimitArgs {
            compile_timeout: TIMEOUT,
            max_compile_memory: wanted.memory_bytes_max,
        },
    };
    let (cache_dir, fuel) = (Some(cache_dir.to_owned()), wanted.fuel);
    let compiler = Compiler { cache_dir, fuel, args, quiet: true };
    let quiet = Progress::start(String::new(), true);
    // If its code cannot be kept, it will be tried again.
    let done = compiler.compile_into_cache(&module, &quiet);
    if done.is_err_and(|error| !matches!(error, ProgramError::Cache { .. })) {
        let limit = serde_json::to_vec(&wanted.memory_bytes_max)?;
        atomic_file::write(&queue.file(id, "failed"), &[&limit])?;
    }
    Ok(())
}
