//! `belljar mcp`: a server for clients of the Model Context Protocol.

use std::io::{ErrorKind, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::args::groups::{CompileArgs, CompileLimitArgs};
use super::args::mcp::McpArgs;
use super::args::replay::ReplayArgs;
use super::args::values::SHELL;
use super::compile::Compiler;
use super::exit::{DIFFERENT, Usage, describe};
use super::home::{cache_bytes_max, cache_dir, installed_toolchains, journals, journals_dir};
use super::mounts::hidden;
use super::planted_links::{Folders, check_here};
use super::recover::{RecoveryMessages, before_opening};
use super::setup::POOL_SLOTS;
use super::text::count;
use crate::base::{ambient, atomic_file, disk};
use crate::kernel::vfs::Applied;
use crate::mcp::http::{Listening, Token};
use crate::mcp::{
    self, Call, CallDifference, CallReplayError, CallTape, Environment, Loaded, Policy,
    ProgramInfo, ReplayedCalls, Server, protocol,
};
use crate::process::ShellImage;
use crate::{EngineConfig, Manifest, Overlay, Resolved, ToolchainPrograms, Toolchains};

/// How long calls that are under way may take when the server ends.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// Most bytes that are read from a client at once.
const REQUEST_BYTES_READ: usize = 64 << 10;

/// How often unused sandboxes are looked for, at most.
const IDLE_EVERY_MAX: Duration = Duration::from_mins(1);

/// Longest token file, in bytes.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

/// How often an installation is looked at, to end it when its call is cancelled.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Longest output of an installation that is kept, in bytes, of each stream.
const SAID_BYTES_MAX: u64 = 64 << 10;

pub fn run(args: &McpArgs) -> Result<u8> {
    let policy = match &args.policy {
        Some(path) => Policy::read(path).map_err(|error| Usage::of("--policy", error))?,
        None => Policy::default(),
    };
    check_paths(args, &policy)?;
    let token = args.token_file.as_deref().map(token).transpose()?;
    let tape = match &args.tape {
        Some(path) => Some(
            CallTape::create(path, args.max_tape).map_err(|error| Usage::of("--tape", error))?,
        ),
        None => None,
    };
    let here = Here { toolchain: args.toolchain.clone(), compile: args.compile };
    let server = Server::new(policy, Box::new(here), tape).map_err(Usage::because)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the server")?;
    let done = runtime.block_on(serve(args, &server, token));
    // Its calls were cancelled: programs end, and what is written to the disk is completed.
    runtime.shutdown_timeout(END_TIMEOUT);
    let records = server.finish_tape().context("cannot write the tape")?;
    done?;
    if let (Some(records), Some(path)) = (records, &args.tape) {
        note!("belljar: {records} records on the tape {}", path.display());
    }
    Ok(0)
}

/// Refuses paths that a program may have redirected by a link, in a folder to which a client may apply changes.
fn check_paths(args: &McpArgs, policy: &Policy) -> Result<()> {
    let changed = policy.folders.iter().filter(|folder| folder.may_apply);
    let folders = Folders::at(changed.map(|folder| folder.path.clone()).collect());
    for folder in policy.folders.iter().filter(|folder| folder.is_writable) {
        folders.check("--policy", &folder.path)?;
    }
    for (option, path) in [("--tape", &args.tape), ("--token-file", &args.token_file)] {
        let Some(path) = path else { continue };
        folders.check(option, path)?;
        check_here(option, path)?;
    }
    Ok(())
}

/// Makes the calls on a tape of a server again.
pub fn replay(args: &ReplayArgs) -> Result<u8> {
    let compile = CompileArgs {
        tier: args.tier,
        background: false,
        no_background: true,
        limits: CompileLimitArgs {
            compile_timeout: args.timeout,
            max_compile_memory: EngineConfig::default().compile_memory_bytes_max,
        },
    };
    let here = Here { toolchain: args.toolchain.clone(), compile };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let replaying = mcp::replay(&args.tape, Box::new(here));
    let done = runtime.block_on(async { tokio::time::timeout(args.timeout, replaying).await });
    let Ok(done) = done else {
        bail!("the replay was ended after {:?} (raise it with --timeout)", args.timeout);
    };
    match done {
        Ok(ReplayedCalls { equal, left_out }) => {
            if args.json {
                say!("{}", json!({ "equal": true, "calls": equal, "left_out": left_out }));
            } else if !args.quiet {
                let calls = count(usize::try_from(equal).unwrap_or(usize::MAX), "call");
                note!("belljar: {calls} got the same answers, {left_out} were not compared");
            }
            Ok(0)
        }
        Err(CallReplayError::Different(difference)) => {
            let CallDifference { seq, tool, arguments, expected, found } = *difference;
            if args.json {
                let line = json!({
                    "equal": false, "seq": seq, "tool": tool, "arguments": arguments,
                    "expected": expected, "found": found,
                });
                say!("{line}");
            } else {
                complain!("belljar: record {seq}: {tool} has another answer");
                complain!("  arguments: {arguments}\n  on the tape: {expected}\n  now: {found}");
            }
            Ok(DIFFERENT)
        }
        Err(error) => Err(error).context("cannot replay it"),
    }
}

async fn serve(args: &McpArgs, server: &Arc<Server>, token: Option<Token>) -> Result<()> {
    let idle = drop_idle(server.clone());
    let Some((address, token)) = args.http.zip(token) else {
        if std::io::stdin().is_terminal() {
            note!(
                "belljar: serving MCP on standard input and output, for a client that starts it; `belljar mcp --help` shows \
                 its configuration"
            );
        }
        let serving = protocol::serve(server, requests()?, tokio::io::stdout());
        tokio::select! {
            done = serving => return Ok(done?),
            () = idle => {}
            ended = signalled() => ended?,
        }
        return Ok(());
    };
    let listening = Listening::begin(address).await.map_err(|error| Usage::of("--http", error))?;
    note!("belljar: serving MCP at {}", listening.url());
    tokio::select! {
        never = listening.serve(server, token) => match never {},
        () = idle => {}
        ended = signalled() => ended?,
    }
    Ok(())
}

/// What the client writes to standard input. A thread reads it, for which the end of the server does not wait: the client may write
/// nothing more.
fn requests() -> Result<tokio::io::DuplexStream> {
    let (mut writer, reader) = tokio::io::duplex(REQUEST_BYTES_READ);
    let runtime = tokio::runtime::Handle::current();
    let read = move || {
        let mut stdin = std::io::stdin().lock();
        let mut bytes = vec![0; REQUEST_BYTES_READ];
        loop {
            let len = match stdin.read(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => break,
                Ok(len) => len,
            };
            if runtime.block_on(writer.write_all(&bytes[..len])).is_err() {
                break;
            }
        }
    };
    std::thread::Builder::new()
        .name("requests".to_owned())
        .spawn(read)
        .context("cannot start the server")?;
    Ok(reader)
}

/// Drops unused sandboxes from time to time. Does not return.
async fn drop_idle(server: Arc<Server>) {
    let idle = Duration::from_millis(server.policy().bounds.idle_ms_max);
    loop {
        tokio::time::sleep((idle / 4).clamp(Duration::from_millis(10), IDLE_EVERY_MAX)).await;
        server.drop_idle();
    }
}

/// Returns when the user, or the system, asks the server to end.
async fn signalled() -> Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminated = signal(SignalKind::terminate()).context("cannot handle signals")?;
        tokio::select! {
            ended = tokio::signal::ctrl_c() => ended.context("cannot handle signals"),
            _ = terminated.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await.context("cannot handle signals")
}

/// The token in the file `path`, which is made if it is not there.
fn token(path: &Path) -> Result<Token> {
    if disk::symlink_metadata(path).is_err() {
        let text = Token::make().context("cannot make a token")?;
        atomic_file::write(path, &[text.as_bytes(), b"\n"])
            .map_err(|error| Usage::of("--token-file", error))?;
        note!("belljar: a new token is in {}", path.display());
    }
    let text = disk::read_at_most(path, TOKEN_FILE_BYTES_MAX)
        .map_err(|error| Usage::of("--token-file", error))?;
    let text = text.and_then(|text| String::from_utf8(text).ok());
    let text =
        text.ok_or_else(|| Usage(format!("--token-file: {} is not a token", path.display())))?;
    let token = Token::new(&text);
    Ok(token.map_err(|why| Usage(format!("--token-file: {}: {why}", path.display())))?)
}

/// This machine, with its user's toolchains and caches.
pub struct Here {
    /// Directories of modules.
    pub toolchain: Vec<PathBuf>,
    /// How modules are compiled.
    pub compile: CompileArgs,
}

impl Here {
    fn toolchains(&self, names: Option<&[String]>) -> Result<Toolchains> {
        let toolchains = Toolchains::new(self.toolchain.clone()).context("--toolchain")?;
        let store = installed_toolchains()?;
        let Some(names) = names else { return Ok(toolchains.with_installed(&store)?) };
        Ok(toolchains.with_installed_of(&store, names)?)
    }

    fn loaded(&self, names: Option<&[String]>) -> Result<Loaded> {
        let cache_dir = cache_dir()?;
        let toolchains = self.toolchains(names)?;
        let list = list(&toolchains)?;
        let engine = EngineConfig {
            pool_slots: POOL_SLOTS,
            fuel: false,
            cache_dir: Some(cache_dir.clone()),
            tier: self.compile.tier.into(),
            cache_bytes_max: cache_bytes_max()?,
            // A process of its own does that.
            optimize_in_background: false,
            compile_memory_bytes_max: self.compile.limits.max_compile_memory,
        };
        let compiler =
            Compiler { cache_dir: Some(cache_dir), fuel: false, args: self.compile, quiet: true };
        let programs = ToolchainPrograms::with_engine_config(engine, toolchains)
            .compiler(compiler.clone().shared())
            .on_load(Arc::new(move |program, module, is_cached| {
                if is_cached {
                    compiler.loaded(program, module);
                }
            }))
            .with(SHELL, ShellImage::maker());
        Ok(Loaded { programs: Arc::new(programs), list })
    }
}

fn list(toolchains: &Toolchains) -> Result<Vec<ProgramInfo>> {
    let mut list = Vec::new();
    for name in toolchains.names()? {
        let toolchain = match toolchains.resolve(&name)? {
            Resolved::Described(described) => {
                let Manifest { name, version, .. } = described.toolchain.manifest();
                Some(format!("{name} {version}"))
            }
            Resolved::File(_) | Resolved::BuiltIn { .. } => None,
        };
        list.push(ProgramInfo { name, toolchain });
    }
    if !list.iter().any(|program| program.name == SHELL) {
        list.push(ProgramInfo { name: SHELL.to_owned(), toolchain: None });
        list.sort_by(|a, b| a.name.cmp(&b.name));
    }
    Ok(list)
}

fn text<T>(done: Result<T>) -> Result<T, String> {
    done.map_err(|error| describe(&error).1)
}

impl Environment for Here {
    fn load(&self, toolchains: Option<&[String]>) -> Result<Loaded, String> {
        text(self.loaded(toolchains))
    }

    fn before_mount(&self, folder: &Path, at: &str) -> Result<Vec<String>, String> {
        text(before_opening(folder, true).and_then(|()| hidden(folder, at)))
    }

    fn prepare(&self, files: &Overlay) {
        // Without a home there are no journals, and no temporaries of theirs.
        if let Ok(journals) = journals_dir() {
            files.hide_temporaries(&journals);
        }
    }

    fn apply(&self, files: &mut Overlay) -> Result<Applied, String> {
        // The server waits for this when a signal ends it.
        let write = |files: &mut Overlay| {
            let applied = files.apply_journaled(&journals()?, &RecoveryMessages::new(true, None));
            applied.context("cannot write the changes to the disk")
        };
        text(write(files))
    }

    fn install(&self, name: &str, call: &Call) -> Result<String, String> {
        text(install(name, call).with_context(|| format!("cannot install {name}")))
    }
}

/// Runs `belljar install`, whose output must not get into the protocol's; returns that.
fn install(name: &str, call: &Call) -> Result<String> {
    #[allow(
        clippy::disallowed_methods,
        reason = "this is belljar itself, and no program of the host's"
    )]
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command.args(["install", "--quiet", "--", name]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // pip and npm end with it.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn()?;
    let said = [child.stdout.take().map(said_by), child.stderr.take().map(said_by)];
    let status = wait(&mut child, call)?;
    let said = said.into_iter().flatten().map(|said| said.recv().unwrap_or_default());
    let said = said.collect::<Vec<_>>().concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    if !status.success() {
        bail!("{}", said.trim());
    }
    Ok(said)
}

/// What comes from `stream` until its end: from a thread that is not waited for, as others may hold the stream open.
fn said_by(mut stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, said) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What cannot be read is not shown.
        let _ = stream.by_ref().take(SAID_BYTES_MAX).read_to_end(&mut bytes);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
        let _ = sender.send(bytes);
    });
    said
}

fn wait(child: &mut Child, call: &Call) -> Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if call.is_cancelled() {
            #[cfg(unix)]
            {
                use rustix::process::{Pid, Signal, kill_process_group};
                let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
            }
            child.kill()?;
            child.wait()?;
            bail!("the call was cancelled");
        }
        ambient::sleep(LOOK_EVERY);
    }
}
