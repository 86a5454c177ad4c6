//! Converts options to values of the library.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::Path;

use anyhow::Result;

use super::args::groups::{ClockArg, LimitArgs, MtimesArg, RuleArgs, TimeArgs};
use super::args::run::{RunArgs, UnknownImportsArg};
use super::args::values::{StdinFrom, split_once};
use super::exit::Usage;
use crate::base::{ambient, disk};
use crate::kernel::vfs::SHIFTED_NS;
use crate::net::EgressPolicy;
use crate::{ClockConfig, Input, Limits, Mtimes, UnknownImports, VfsLimits};

/// The network policy of programs.
///
/// # Errors
/// [`Usage`] for an invalid rule in the environment.
pub fn network_policy(args: &RuleArgs) -> Result<EgressPolicy> {
    #[cfg(not(feature = "http"))]
    if !args.allow_net.is_empty() {
        let why = "--allow-net: this belljar was built without the feature `http`";
        return Err(Usage(why.to_owned()).into());
    }
    if args.allow_net.is_empty() && args.deny_net.is_empty() {
        let of_environment = EgressPolicy::from_environment();
        return Ok(of_environment.map_err(Usage::because)?.unwrap_or_default());
    }
    let allowed = args.allow_net.iter().cloned().fold(EgressPolicy::default(), EgressPolicy::allow);
    Ok(args.deny_net.iter().cloned().fold(allowed, EgressPolicy::deny))
}

/// The limits of a run.
pub fn limits(args: &LimitArgs) -> Limits {
    Limits {
        memory_bytes_max: args.max_memory,
        fuel: args.fuel,
        timeout: args.timeout,
        virtual_timeout: args.virtual_timeout,
        open_files_max: args.max_files,
        processes_max: args.max_processes,
        output_bytes_max: args.max_output,
        host_call_bytes_max: args.max_host_call,
        vfs: VfsLimits { upper_bytes_max: args.max_upper, ..VfsLimits::default() },
        ..Limits::default()
    }
}

/// The call of `--invoke CALL`: its arguments are `args` if it names a function alone.
pub fn call(call: &str, args: &[OsString]) -> String {
    if call.contains('(') {
        return call.to_owned();
    }
    let args: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
    format!("{call}({})", args.join(", "))
}

/// What to do about functions that a module imports and belljar does not define.
pub fn unknown_imports(args: &RunArgs) -> UnknownImports {
    match args.unknown_imports {
        UnknownImportsArg::Trap => UnknownImports::Trap,
        UnknownImportsArg::Deny => UnknownImports::Deny,
    }
}

/// The clock.
pub fn clock(args: &TimeArgs) -> Result<ClockConfig> {
    match (args.clock, args.start_at) {
        (ClockArg::Paused, Some(start_ns)) => Ok(ClockConfig::Paused { start_ns }),
        (ClockArg::Paused, None) => Ok(ClockConfig::default()),
        (ClockArg::Real, None) => Ok(ClockConfig::Host),
        (ClockArg::Real, Some(_)) => Err(Usage(
            "--start-at cannot set the host's clock: omit --clock real or --start-at".into(),
        )
        .into()),
    }
}

/// 2000-01-01T00:00:00Z, which is past: the time of all files under the host's clock, nanoseconds since
/// the Unix epoch.
const FIXED_NS: u64 = 946_684_800_000_000_000;

/// The times that files below show.
pub fn mtimes(args: &TimeArgs) -> Result<Mtimes> {
    Ok(match args.mtimes {
        MtimesArg::Host => Mtimes::Host,
        MtimesArg::Content => Mtimes::Content,
        MtimesArg::Fixed => Mtimes::Fixed(match clock(args)? {
            ClockConfig::Paused { start_ns } => start_ns,
            ClockConfig::Host => FIXED_NS,
        }),
    })
}

/// 1971-01-01T00:00:00Z, in nanoseconds since the Unix epoch: under a clock that starts no earlier, two contents have the same
/// time with a probability of one in millions.
const ROOM_FOR_CONTENT_NS: u64 = 31_536_000_000_000_000;

/// Says so if the clock starts so early that times of files are closer together than on the disk.
pub fn note_dense_times(args: &TimeArgs) {
    let Some(start_ns) = args.start_at else { return };
    let (year, first_ns) = match args.mtimes {
        MtimesArg::Host => (2000, SHIFTED_NS),
        MtimesArg::Content => (1971, ROOM_FOR_CONTENT_NS),
        MtimesArg::Fixed => return,
    };
    if start_ns < first_ns {
        note!(
            "belljar: note: the clock starts before {year}, and there is no room for the times of files: they show closer \
             together than on the disk, so that a tool that compares them can take an edited file for the old one"
        );
    }
}

/// The variables of `--env`, with the values of those that are passed through. One that is not set here
/// is left out.
pub fn environment(given: &[OsString]) -> Result<Vec<(OsString, OsString)>> {
    let mut variables = Vec::new();
    for given in given {
        let (key, value) = match split_once(given, "=") {
            Some((key, value)) => (key, Some(value)),
            None => (given.clone(), given.to_str().and_then(ambient::env_var)),
        };
        if key.is_empty() {
            return Err(Usage(format!("--env {}: a variable needs a name", given.display())).into());
        }
        variables.extend(value.map(|value| (key, value)));
    }
    Ok(variables)
}

/// The input that `--stdin` names.
pub fn stdin(from: &StdinFrom) -> Result<Input> {
    Ok(match from {
        StdinFrom::Inherit => Input::Host,
        StdinFrom::Null => Input::Empty,
        StdinFrom::File(path) => Input::Reader(open_stdin(path)?),
        StdinFrom::Read(bytes) => Input::Reader(Box::new(std::io::Cursor::new(bytes.clone()))),
    })
}

fn open_stdin(path: &Path) -> Result<Box<dyn Read + Send>> {
    if disk::metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
        return Err(Usage(format!("--stdin: {} is a directory", path.display())).into());
    }
    let file = disk::open_stream(path).map_err(|error| Usage::of("--stdin", error))?;
    Ok(Box::new(file))
}

/// Bytes of an argument as a guest gets them: on Windows UTF-8, in which half of a pair is `�`.
pub fn guest_bytes(text: &OsStr) -> Vec<u8> {
    #[cfg(unix)]
    return std::os::unix::ffi::OsStrExt::as_bytes(text).to_vec();
    #[cfg(not(unix))]
    return text.to_string_lossy().into_owned().into_bytes();
}

/// The guest's path of `--cwd`: a relative one begins at the worktree.
pub fn absolute(cwd: &str) -> String {
    if cwd.starts_with('/') { cwd.to_owned() } else { format!("{}/{cwd}", crate::WORKTREE) }
}
