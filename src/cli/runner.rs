//! `belljar runner`.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};

use super::args::runner::{LogLevel, RunnerArgs};
use super::args::values::SHELL;
use super::compile::Compiler;
use super::exit::Usage;
use super::home::{cache_dir, installed_toolchains};
use super::options::limits;
use super::setup::{POOL_SLOTS, named_toolchains};
use crate::base::atomic_file;
use crate::base::digest::Digest;
use crate::base::disk::{self, DiskError};
use crate::kernel::process::programs::Programs;
use crate::process::ShellImage;
use crate::remote::{Connection, ServerConfig};
use crate::runner::{Executed, Runner, RunnerError};
use crate::store::FileDigests;
use crate::{EngineConfig, Toolchain, ToolchainPrograms, Toolchains};

/// Largest action, in bytes.
const ACTION_BYTES_MAX: u64 = 1 << 20;

/// Largest token, in bytes.
const TOKEN_BYTES_MAX: u64 = 64 << 10;

/// Executes the action, and writes its result, or why it has none. The exit code is 0 if it has one, whatever its own is.
pub fn run(args: &RunnerArgs) -> Result<u8> {
    if !args.digest_function.eq_ignore_ascii_case("SHA256") {
        let message = format!(
            "--digest-function {}: belljar knows SHA256; start the server with it",
            args.digest_function
        );
        return Err(Usage(message).into());
    }
    let needed = |value: Option<&PathBuf>, option: &str| {
        value.cloned().ok_or_else(|| Usage(format!("{option} is needed")))
    };
    let action = needed(args.action.as_ref(), "--action");
    let result = needed(args.action_result.as_ref(), "--action-result");
    let server = ServerConfig {
        address: address(args)?,
        headers: token(args)?.into_iter().collect(),
        certificates: args.server_cert.clone(),
        timeout: args.remote_timeout,
    };
    if args.validate_parameters {
        return Ok(0);
    }
    let (action, result) = (action?, result?);
    let server = Arc::new(Connection::new(&server)?);
    let level = if args.verbose { LogLevel::Debug } else { args.log_level };
    match execute(args, &server, &action) {
        Ok(executed) => {
            for (path, bytes) in
                [(&args.stdout_file, &executed.stdout), (&args.stderr_file, &executed.stderr)]
            {
                if let Some(path) = path {
                    write(path, bytes)?;
                }
            }
            write(&result, &executed.result)?;
            if level >= LogLevel::Info {
                tell(&executed);
            }
            Ok(0)
        }
        Err(error) => {
            if let Some(error) = error.downcast_ref::<RunnerError>() {
                let mut path: OsString = result.into();
                path.push(".error-status");
                write(Path::new(&path), &error.to_status())?;
            }
            Err(error)
        }
    }
}

fn tell(executed: &Executed) {
    let fetched = executed.fetched;
    note!(
        "belljar: the action ended with {}; {} directories and {} files with {} bytes of its inputs were fetched",
        executed.exit_code,
        fetched.directories,
        fetched.files,
        fetched.file_bytes
    );
}

/// The server's address as belljar writes it.
fn address(args: &RunnerArgs) -> Result<String> {
    let url = args.remote.as_deref().ok_or_else(|| Usage("--remote is needed".to_owned()))?;
    let wrong = || {
        Usage(format!(
            "--remote {url}: it begins with http:// or grpc://, or https:// or grpcs:// for TLS"
        ))
    };
    let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
    let scheme = match scheme {
        "http" | "grpc" => "grpc",
        "https" | "grpcs" => "grpcs",
        _ => return Err(wrong().into()),
    };
    let rest = rest.trim_end_matches('/');
    Ok(if args.instance.is_empty() {
        format!("{scheme}://{rest}")
    } else {
        format!("{scheme}://{rest}/{}", args.instance)
    })
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

fn execute(args: &RunnerArgs, server: &Arc<Connection>, action: &Path) -> Result<Executed> {
    let bytes = disk::read_at_most(action, ACTION_BYTES_MAX).context("--action")?;
    let bytes =
        bytes.ok_or_else(|| Usage(format!("--action: {} is too large", action.display())))?;
    let mut runner = Runner::new(server.clone(), &bytes)?;
    runner.captures = !args.no_logs_capture;
    let programs = programs(args, toolchains(args, &runner)?)?;
    Ok(runner.run(programs, limits(&args.limits))?)
}

/// The toolchains that the action names, or else all that are installed; those of `--toolchain` come first.
fn toolchains(args: &RunnerArgs, runner: &Runner) -> Result<Toolchains> {
    let (named, store) = (named_toolchains(&args.toolchain)?, installed_toolchains()?);
    let wanted = runner.toolchains();
    if wanted.is_empty() {
        return Ok(named.with_installed(&store)?);
    }
    wanted.into_iter().try_fold(named, |toolchains, (name, digest)| {
        let missing = |why: String| {
            RunnerError::NotInstalled(format!("the action asks for the toolchain {name}: {why}"))
        };
        let digest = match digest {
            Some(text) => Digest::from_hex(text)
                .ok_or_else(|| missing(format!("{text:?} is no digest of a manifest")))?,
            None if !store.has(name)? => {
                return Err(missing("it is not installed".to_owned()).into());
            }
            None => Toolchain::installed(&store, name)
                .map_err(|error| missing(error.to_string()))?
                .digest(),
        };
        let found = Toolchain::version(&store, name, digest);
        let found = found.map_err(|error| missing(error.to_string()))?;
        let found =
            found.ok_or_else(|| missing(format!("no version has the manifest {digest}")))?;
        let version = &found.manifest().version;
        let toolchains = toolchains.with_version(&store, name, version, digest);
        Ok(toolchains.map_err(|error| missing(error.to_string()))?)
    })
}

fn programs(args: &RunnerArgs, toolchains: Toolchains) -> Result<Arc<dyn Programs>> {
    let (cache_dir, fuel) = (cache_dir()?, args.limits.fuel.is_some());
    let digests = FileDigests::new(&cache_dir);
    let config = EngineConfig {
        pool_slots: POOL_SLOTS,
        fuel,
        cache_dir: Some(cache_dir.clone()),
        tier: args.compile.tier.into(),
        // A process of its own does that.
        optimize_in_background: false,
        compile_memory_bytes_max: args.compile.max_compile_memory,
    };
    let compiler = Compiler { cache_dir: Some(cache_dir), fuel, limits: args.compile, quiet: true };
    let programs = ToolchainPrograms::with_engine_config(config, toolchains)
        .compiler(compiler.shared())
        .with(SHELL, ShellImage::maker())
        .file_digests(digests);
    Ok(Arc::new(programs))
}

/// Writes `bytes` to the file `path`, which may be there.
fn write(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    atomic_file::write_shared_with(path, |file| {
        file.write_all(bytes).map_err(DiskError::new("write", path))
    })
}
