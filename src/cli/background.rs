//! Optimizing modules after the run that needed them, in a process of its own.
//!
//! A run whose program began with quick code puts the module into a queue in the cache, and starts this process unless
//! it runs already: one for each user. It holds neither the terminal nor a pipe nor a folder of the run, has the
//! lowest priority, and ends when the queue is empty. What it leaves when it is killed is wanted again by the next
//! run. Below the directory of the cache:
//!
//! ```text
//! optimize-1/lock              locked while the process runs
//! optimize-1/running.json      what it compiles
//! optimize-1/stop              asks it to end
//! optimize-1/<module>.wasm     a module that waits, or is compiled
//! optimize-1/<module>.json     how to compile it; written last
//! optimize-1/<module>.failed   the limit of memory beyond which it cannot be compiled
//! ```

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::args::groups::CompileArgs;
use super::message::stderr_is_terminal;
use crate::Module;
use crate::base::atomic_file::TEMPORARY_PREFIX;
use crate::base::own::{OtherUsers, expect_own_folder};
use crate::base::{ambient, atomic_file, disk};

/// Modules that may wait. More are wanted again by later runs.
const WAITING_MAX: usize = 32;

/// Time after which a module that could not be compiled is tried again: the machine may have been short of memory.
const FAILURE_HOLDS: Duration = Duration::from_hours(24);

/// Time that the process that optimizes takes to end, at most.
const STOPPING_TAKES: Duration = Duration::from_secs(10);

/// Interval at which it looks whether it is asked to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Time between the files of a module that is added, at most.
const ADDING_TAKES: Duration = Duration::from_mins(1);

/// How to compile a module that waits.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Wanted {
    /// The module.
    pub name: String,
    /// Whether its code counts fuel.
    pub fuel: bool,
    /// Memory that compiling it may take.
    pub memory_bytes_max: u64,
}

/// What is optimized at the moment.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Running {
    /// The number of the process.
    pub pid: u32,
    /// The module.
    pub module: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The name of its files in the queue.
    pub id: String,
}

/// The queue in the directory of a cache.
pub struct Queue(PathBuf);

impl Queue {
    pub fn of(cache_dir: &Path) -> Self {
        Self(cache_dir.join("optimize-1"))
    }

    /// The file that says what is compiled.
    pub fn running_file(&self) -> PathBuf {
        self.0.join("running.json")
    }

    /// Checks that no other user can write there.
    pub fn expect_own(&self) -> Result<()> {
        Ok(expect_own_folder(&self.0, OtherUsers::Excluded)?)
    }

    /// A file of the module of the name `id`.
    pub fn file(&self, id: &str, extension: &str) -> PathBuf {
        self.0.join(format!("{id}.{extension}"))
    }

    /// The lock of the process that optimizes; `None` if it runs.
    pub fn lock(&self) -> Option<File> {
        let file = disk::open_lock(&self.0.join("lock")).ok()?;
        file.try_lock().ok()?;
        Some(file)
    }

    /// What is optimized at the moment, if something is.
    pub fn running(&self) -> Option<Running> {
        let running = read_json(&self.running_file())?;
        self.lock().is_none().then_some(running)
    }

    /// Removes what processes that were killed left, while `_lock` is held.
    pub fn sweep(&self, _lock: &File) {
        let waiting = self.ids();
        for path in disk::list(&self.0).unwrap_or_default() {
            let id = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let extension = path.extension().and_then(|extension| extension.to_str());
            let is_left = match extension {
                Some("wasm") => {
                    !waiting.iter().any(|waiting| waiting == id) && !is_younger(&path, ADDING_TAKES)
                }
                Some("json") => id == "running",
                None => is_temporary(&path) && !is_younger(&path, ADDING_TAKES),
                _ => false,
            };
            if is_left {
                let _ = disk::remove_file(&path);
            }
        }
    }

    /// Ends the process that optimizes, and forgets what waits and what could not be compiled.
    pub fn clear(&self) {
        self.stop();
        self.remove(&["failed"]);
    }

    /// Ends the process that optimizes, and forgets what waits; returns whether that process has ended.
    pub fn stop(&self) -> bool {
        if disk::metadata(&self.0).is_err() {
            return true;
        }
        self.remove(&["json"]);
        let stop_file = self.stop_file();
        let begun = ambient::instant_now();
        let lock = loop {
            let lock = self.lock();
            if lock.is_some() || ambient::elapsed_since(begun) > STOPPING_TAKES {
                break lock;
            }
            let _ = atomic_file::write(&stop_file, &[]);
            ambient::sleep(LOOK_EVERY);
        };
        let _ = disk::remove_file(&stop_file);
        if lock.is_some() {
            self.remove(&["json", "wasm"]);
        }
        lock.is_some()
    }

    /// The file that asks the process that optimizes to end.
    fn stop_file(&self) -> PathBuf {
        self.0.join("stop")
    }

    /// Ends this process when it is asked to. `_lock` is held.
    pub fn end_when_asked(&self, _lock: &File) -> Result<()> {
        let stop_file = self.stop_file();
        // It was meant for another process.
        let _ = disk::remove_file(&stop_file);
        let look = move || {
            while disk::metadata(&stop_file).is_err() {
                ambient::sleep(LOOK_EVERY);
            }
            std::process::exit(0);
        };
        std::thread::Builder::new().spawn(look)?;
        Ok(())
    }

    /// Removes the files with `extensions`, and those that are incomplete.
    fn remove(&self, extensions: &[&str]) {
        for path in disk::list(&self.0).unwrap_or_default() {
            let extension = path.extension().and_then(|extension| extension.to_str());
            let is_named = extension.is_some_and(|extension| extensions.contains(&extension));
            if is_named || is_temporary(&path) {
                let _ = disk::remove_file(&path);
            }
        }
    }

    /// The modules that wait, oldest first.
    pub fn waiting(&self) -> Vec<String> {
        let wanted = self.ids().into_iter().filter_map(|id| read_json(&self.file(&id, "json")));
        wanted.map(|wanted: Wanted| wanted.name).collect()
    }

    /// Identifiers of modules that wait, oldest first.
    pub fn ids(&self) -> Vec<String> {
        let mut waiting = Vec::new();
        for path in disk::list(&self.0).unwrap_or_default() {
            let id = path.file_stem().and_then(|stem| stem.to_str());
            let is_json = path.extension().is_some_and(|extension| extension == "json");
            if let Some(id) = id.filter(|id| is_json && *id != "running")
                && let Ok(metadata) = disk::metadata(&path)
            {
                waiting.push((metadata.modified().ok(), id.to_owned()));
            }
        }
        waiting.sort();
        waiting.into_iter().map(|(_, id)| id).collect()
    }

    /// Adds `module`; returns whether it must be compiled, and is not being compiled already.
    fn add(&self, module: &Module, wanted: &Wanted) -> Result<bool> {
        let fuel = if wanted.fuel { "-fuel" } else { "" };
        let id = format!("{}{fuel}", module.digest());
        let failed_file = self.file(&id, "failed");
        let failed: Option<u64> = read_json(&failed_file);
        if failed.is_some_and(|bytes| bytes >= wanted.memory_bytes_max)
            && is_younger(&failed_file, FAILURE_HOLDS)
            || self.running().is_some_and(|running| running.id == id)
        {
            return Ok(false);
        }
        let waiting = self.ids();
        if !waiting.contains(&id) {
            if waiting.len() >= WAITING_MAX {
                return Ok(true);
            }
            disk::create_private_dir_all(&self.0)?;
            self.expect_own()?;
            atomic_file::write(&self.file(&id, "wasm"), &[&module.bytes()?])?;
            atomic_file::write(&self.file(&id, "json"), &[&serde_json::to_vec(wanted)?])?;
        }
        Ok(true)
    }
}

/// Whether a process was writing the file, or was killed meanwhile.
fn is_temporary(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.starts_with(TEMPORARY_PREFIX.as_bytes())
}

/// Whether the file was written within the last `time`, as far as the system tells.
fn is_younger(path: &Path, time: Duration) -> bool {
    let written = disk::metadata(path).ok().and_then(|metadata| metadata.modified().ok());
    written.and_then(ambient::time_since).is_none_or(|age| age < time)
}

pub fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    let bytes = disk::read_at_most(path, 1 << 20).ok()??;
    serde_json::from_slice(&bytes).ok()
}

/// Why no process may go on after the run; `None` if one may.
pub fn forbidden(args: &CompileArgs) -> Option<&'static str> {
    let is_set = |name| ambient::setting(name).is_some();
    if args.no_background {
        Some("--no-background is given")
    } else if args.background {
        None
    } else if is_set("BELLJAR_NO_BACKGROUND") {
        Some("BELLJAR_NO_BACKGROUND is set")
    } else if is_set("CI") {
        Some("CI is set")
    } else if !stderr_is_terminal() {
        Some("there is no terminal")
    } else if is_busy() {
        Some("this machine is busy")
    } else {
        None
    }
}

/// Has `module` optimized after the run, if that is allowed. If it fails, the module keeps its quick code.
pub fn want(cache_dir: &Path, module: &Module, fuel: bool, args: &CompileArgs) {
    if forbidden(args).is_some() {
        return;
    }
    let wanted = Wanted {
        name: module.name().to_owned(),
        fuel,
        memory_bytes_max: args.limits.max_compile_memory,
    };
    let queue = Queue::of(cache_dir);
    if queue.add(module, &wanted).is_ok_and(|is_new| is_new) && queue.lock().is_some() {
        let _ = start(cache_dir);
    }
}

/// Starts the process that optimizes.
fn start(cache_dir: &Path) -> Result<()> {
    #[allow(
        clippy::disallowed_methods,
        reason = "this is belljar itself, and no program of the host's"
    )]
    let mut child = std::process::Command::new(std::env::current_exe()?);
    let cache_dir = disk::canonical(cache_dir)?;
    child.arg("optimize-modules").arg("--cache-dir").arg(&cache_dir);
    child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    child.current_dir(cache_dir);
    #[cfg(windows)]
    {
        use std::os::windows::process::CommandExt;
        use windows_sys::Win32::System::Threading as threading;
        child.creation_flags(
            threading::DETACHED_PROCESS
                | threading::CREATE_NEW_PROCESS_GROUP
                | threading::IDLE_PRIORITY_CLASS,
        );
    }
    child.spawn()?;
    Ok(())
}

/// Whether more programs want to run than there are processors, where the system tells.
fn is_busy() -> bool {
    #[cfg(target_os = "linux")]
    {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let processors = u32::try_from(processors).unwrap_or(u32::MAX);
        let load = disk::read(Path::new("/proc/loadavg")).ok();
        let load = load.and_then(|text| String::from_utf8(text).ok());
        let last_minute = load.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        last_minute.is_some_and(|load| load > f64::from(processors) * 1.5)
    }
    #[cfg(not(target_os = "linux"))]
    false
}
