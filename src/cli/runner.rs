//! `belljar runner`.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, OnceLock};
#[cfg(unix)]
use std::time::Duration;

use anyhow::{Context, Result};

use super::args::runner::{LogLevel, RunnerArgs};
use super::args::values::SHELL;
use super::compile::Compiler;
use super::exit::Usage;
use super::home::{cache_bytes_max, cache_dir, installed_toolchains};
use super::options::limits;
use super::remote_results::digest_of;
use super::result_secrets;
use super::results::processes;
use super::setup::{POOL_SLOTS, named_toolchains};
use super::signals;
use super::text::{count, printable};
use crate::actions::{self, ActionError, Executed, Runner, Wanted, Worker};
#[cfg(unix)]
use crate::base::ambient;
use crate::base::atomic_file;
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};
use crate::process::ShellImage;
use crate::remote::{Connection, ServerConfig};
use crate::results::{RemoteCache, RemoteConfig, ResultCache, Results};
use crate::store::FileDigests;
use crate::{
    EngineConfig, InstalledToolchains, ProgramError, Toolchain, ToolchainPrograms, Toolchains,
};

/// How often it is looked whether the worker is there.
#[cfg(unix)]
const WATCH_EVERY: Duration = Duration::from_millis(500);

/// Largest action, in bytes.
const ACTION_BYTES_MAX: u64 = 1 << 20;

/// Most bytes of output, which are in memory, unless `--max-output` is given.
const OUTPUT_BYTES_MAX: u64 = 256 << 20;

/// Largest token, in bytes.
const TOKEN_BYTES_MAX: u64 = 64 << 10;

/// Executes the action, and writes its result, or why it has none. The exit code is 0 if it has one, whatever its own is.
pub fn run(args: &RunnerArgs) -> Result<u8> {
    signals::unblock();
    if args.validate_parameters {
        server(args)?;
        return Ok(0);
    }
    end_with_worker();
    let result = args.action_result.as_ref();
    let result = result.ok_or_else(|| Usage("--action-result is needed".to_owned()))?;
    match execute(args) {
        Ok(executed) => {
            write(result, &executed.result)?;
            let streams =
                [(&args.stdout_file, &executed.stdout), (&args.stderr_file, &executed.stderr)];
            for (path, bytes) in streams {
                // The result has them, too.
                if let Some(path) = path
                    && let Err(error) = write_in_place(path, bytes)
                {
                    complain!("belljar: {error}");
                }
            }
            if args.verbose || args.log_level >= LogLevel::Info {
                tell(&executed);
            }
            Ok(0)
        }
        Err(error) => {
            let status = match error.downcast_ref::<ActionError>() {
                Some(error) => error.to_status(),
                None => actions::status_of_failure(format!("{error:#}")),
            };
            let mut path: OsString = result.into();
            path.push(".error-status");
            write(Path::new(&path), &status)?;
            Err(error)
        }
    }
}

/// Ends this process when the worker that started it is gone, as the result is of no use then. Windows, where a process does not
/// learn that, leaves it to the timeout.
fn end_with_worker() {
    #[cfg(unix)]
    {
        use std::os::unix::process::parent_id;
        let worker = parent_id();
        let watch = move || {
            while parent_id() == worker {
                ambient::sleep(WATCH_EVERY);
            }
            std::process::exit(super::exit::FAILED.into());
        };
        // Without the thread, the timeout of the action ends it.
        let _ = std::thread::Builder::new().name("watch of the worker".to_owned()).spawn(watch);
    }
}

/// The server of `args`.
fn server(args: &RunnerArgs) -> Result<ServerConfig> {
    if !args.digest_function.eq_ignore_ascii_case("SHA256") {
        let message = format!(
            "--digest-function {}: belljar knows SHA256; start the server with it",
            args.digest_function
        );
        return Err(Usage(message).into());
    }
    if args.unused.has_client_certificate() {
        let message = "--client-key, --client-cert: belljar has no certificates of clients; use --access-token";
        return Err(Usage(message.to_owned()).into());
    }
    Ok(ServerConfig {
        address: address(args)?,
        instance: args.instance.clone(),
        headers: token(args)?.into_iter().collect(),
        certificates: args.server_cert.clone().filter(|path| !path.as_os_str().is_empty()),
        timeout: args.remote_timeout,
    })
}

fn tell(executed: &Executed) {
    let fetched = executed.fetched;
    note!(
        "belljar: {} ended with {}; {}, {} and {} of its inputs were fetched",
        printable(&executed.program),
        executed.exit_code,
        if fetched.directories == 1 {
            "1 directory".to_owned()
        } else {
            format!("{} directories", fetched.directories)
        },
        count(fetched.files as usize, "file"),
        count(fetched.file_bytes as usize, "byte")
    );
}

/// The server's address as belljar writes it.
fn address(args: &RunnerArgs) -> Result<String> {
    let url = args.remote.as_deref().ok_or_else(|| Usage("--remote is needed".to_owned()))?;
    let wrong = || {
        Usage(format!(
            "--remote {url}: it begins with http:// or grpc://, https:// or grpcs:// for TLS, or unix:/"
        ))
    };
    if let Some(path) = url.strip_prefix("unix:") {
        return Ok(format!("unix:/{}", path.trim_start_matches('/')));
    }
    let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
    let scheme = match scheme {
        "http" | "grpc" => "grpc",
        "https" | "grpcs" => "grpcs",
        _ => return Err(wrong().into()),
    };
    Ok(format!("{scheme}://{}", rest.trim_end_matches('/')))
}

/// The header with the token of `--access-token`.
fn token(args: &RunnerArgs) -> Result<Option<(String, String)>> {
    let Some(path) = args.access_token.as_ref().filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(None);
    };
    let bytes = disk::read_at_most(path, TOKEN_BYTES_MAX).context("--access-token")?;
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    let text =
        text.ok_or_else(|| Usage(format!("--access-token: {} is no token", path.display())))?;
    Ok(Some(("authorization".to_owned(), format!("Bearer {}", text.trim()))))
}

fn execute(args: &RunnerArgs) -> Result<Executed> {
    let action = args.action.as_ref().ok_or_else(|| Usage("--action is needed".to_owned()))?;
    let config = server(args)?;
    let server = Arc::new(Connection::new(&config)?);
    let bytes = disk::read_at_most(action, ACTION_BYTES_MAX).context("--action")?;
    let bytes =
        bytes.ok_or_else(|| Usage(format!("--action: {} is too large", action.display())))?;
    let mut runner = Runner::new(server, &bytes)?;
    runner.captures = !args.no_logs_capture;
    let (toolchains, absent) = toolchains(args, &runner)?;
    let not_compiled = Arc::new(OnceLock::new());
    let known = args.cache_results.then(|| Known::new(&config, &runner)).transpose()?;
    let results = known.as_ref().map(|known| known.results.clone());
    let programs = programs(args, toolchains, not_compiled.clone(), results.clone())?;
    let mut limits = limits(&args.limits);
    if limits.output_bytes_max == u64::MAX {
        limits.output_bytes_max = OUTPUT_BYTES_MAX;
    }
    let ran = runner.run(&Worker { programs, limits, absent, not_compiled, results });
    if let Some(known) = known {
        known.finish(args);
    }
    Ok(ran?)
}

/// Results that the server of a worker keeps.
struct Known {
    results: Arc<Results>,
    cache: Arc<RemoteCache>,
}

impl Known {
    fn new(server: &ServerConfig, runner: &Runner) -> Result<Self> {
        let command = runner.command_of_run().map(|words| {
            let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
            digest_of(&words)
        });
        let config = RemoteConfig {
            instance: server.instance.clone(),
            uploads: true,
            headers: server.headers.clone(),
            certificates: server.certificates.clone(),
            command,
            timeout: server.timeout,
            ..RemoteConfig::new(&server.address)
        };
        let cache = Arc::new(RemoteCache::new(&config)?);
        let env: Vec<OsString> = runner.environment().map(OsString::from).collect();
        let results = Results::new(ResultCache::new(&cache_dir()?))
            .without_secrets(result_secrets::of(&env, &[])?)
            .shared_with(cache.clone());
        Ok(Self { results: Arc::new(results), cache })
    }

    /// Waits until what is to be added is there. That it is not costs no result.
    fn finish(&self, args: &RunnerArgs) {
        self.results.share_known();
        let (shared, statistics) = (self.cache.finish(), self.results.statistics());
        if let Some(error) = shared.error {
            complain!("belljar: warning: results cannot be shared: {}", printable(&error));
        }
        if args.verbose || args.log_level >= LogLevel::Info {
            note!(
                "belljar: {} answered from results, {} ran; {} fetched, {} uploaded",
                processes(statistics.hits),
                statistics.misses,
                count(statistics.fetched as usize, "trace"),
                count(shared.uploaded as usize, "trace"),
            );
        }
    }
}

/// Whether a module cannot be compiled for a reason that another machine need not have.
fn is_of_this_machine(error: &ProgramError) -> bool {
    !matches!(
        error,
        ProgramError::NotWasm { .. }
            | ProgramError::Script { .. }
            | ProgramError::Text { .. }
            | ProgramError::Invalid { .. }
            | ProgramError::Mismatch { .. }
            | ProgramError::Import { .. }
            | ProgramError::SharedMemory { .. }
            | ProgramError::TooManyUnknownImports { .. }
    )
}

/// The toolchains that the action names; or else those of `--toolchain`, and all that are installed. And the names of those
/// that are not here, and that it may not need.
fn toolchains(args: &RunnerArgs, runner: &Runner) -> Result<(Toolchains, Vec<String>)> {
    let store = installed_toolchains()?;
    if !runner.names_toolchains() {
        let named = named_toolchains(&args.toolchain)?;
        return Ok((named.with_installed(&store)?, Vec::new()));
    }
    let (mut found, mut absent) = (Toolchains::default(), Vec::new());
    for Wanted { name, digest, needed } in runner.toolchains() {
        match version(&store, &name, digest.as_deref()) {
            Ok((version, digest)) => found = found.with_version(&store, &name, &version, digest)?,
            Err(_) if !needed => absent.push(name),
            Err(why) => {
                let message = format!("the action asks for the toolchain {name}: {why}");
                return Err(ActionError::NotInstalled(message).into());
            }
        }
    }
    Ok((found, absent))
}

/// The version and the digest of the toolchain `name` with the manifest `digest`, or of the one that is installed; or why
/// there is none.
fn version(
    store: &InstalledToolchains,
    name: &str,
    digest: Option<&str>,
) -> Result<(String, Digest), String> {
    let found = match digest {
        None if !store.has(name).is_ok_and(|has| has) => {
            return Err("it is not installed".to_owned());
        }
        None => Some(Toolchain::installed(store, name).map_err(|error| error.to_string())?),
        Some(text) => {
            let digest = Digest::from_hex(text);
            let digest = digest.ok_or_else(|| {
                format!("{text:?} is no digest of a manifest, which has 64 hexadecimal digits")
            })?;
            Toolchain::version(store, name, digest).map_err(|error| error.to_string())?
        }
    };
    let none = || format!("no version has the manifest {}", digest.unwrap_or_default());
    let found = found.ok_or_else(none)?;
    Ok((found.manifest().version.clone(), found.digest()))
}

/// The programs of `toolchains`; `not_compiled` gets why one cannot be compiled on this machine.
fn programs(
    args: &RunnerArgs,
    toolchains: Toolchains,
    not_compiled: Arc<OnceLock<String>>,
    results: Option<Arc<Results>>,
) -> Result<Arc<ToolchainPrograms>> {
    let (cache_dir, fuel) = (cache_dir()?, args.limits.fuel.is_some());
    let digests = FileDigests::new(&cache_dir);
    let config = EngineConfig {
        pool_slots: POOL_SLOTS,
        fuel,
        cache_dir: Some(cache_dir.clone()),
        tier: args.compile.tier.into(),
        cache_bytes_max: cache_bytes_max()?,
        // A process of its own does that.
        optimize_in_background: false,
        compile_memory_bytes_max: args.compile.limits.max_compile_memory,
    };
    let compiler = Compiler { cache_dir: Some(cache_dir), fuel, args: args.compile, quiet: true };
    let compile = compiler.shared();
    let programs = ToolchainPrograms::with_engine_config(config, toolchains)
        .compiler(Arc::new(move |engine, module, unknown| {
            let done = compile(engine, module, unknown);
            if let Err(error) = done.as_ref()
                && is_of_this_machine(error)
            {
                not_compiled.get_or_init(|| error.to_string());
            }
            done
        }))
        .with(SHELL, ShellImage::maker())
        .answered_from(results)
        .file_digests(digests);
    Ok(Arc::new(programs))
}

/// Writes `bytes` to the file `path`, which may be there.
fn write(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    atomic_file::write_shared_with(path, |file| {
        file.write_all(bytes).map_err(DiskError::new("write", path))
    })
}

/// Writes `bytes` to the file, or whatever `path` is.
fn write_in_place(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    disk::create(path)?.write_all(bytes).map_err(DiskError::new("write", path))
}
