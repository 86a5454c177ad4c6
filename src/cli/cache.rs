//! `belljar cache`.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use anyhow::{Context, Result, bail};
use bytesize::ByteSize;
use serde_json::json;

use super::args::groups::{CompileArgs, TierArg};
use super::args::installation::{CacheAction, CacheArgs, CacheCompileArgs};
use super::background::{Queue, Running};
use super::compile::Compiler;
use super::exit::Hinted;
use super::home::{cache_bytes_max, cache_dir};
use super::progress::Progress;
use super::text::{count, printable, shell_word};
use super::{exit, hints, results, setup};
use crate::engine::{CacheInfo, CodeCache, TierChoice};
use crate::{Code, Described, FileDigests, Module, ResolveError, Resolved, Toolchains};

pub fn run(args: &CacheArgs) -> Result<u8> {
    let dir = cache_dir()?;
    let cache = CodeCache::new(&dir);
    match &args.action {
        CacheAction::Info { json } => info(&cache, &Queue::of(&dir), *json),
        CacheAction::Compile(args) => compile(args),
        CacheAction::Trim { max_size, json } => {
            removed(&cache.trim(*max_size)?, *json);
            Ok(0)
        }
        CacheAction::Clear { json } => {
            Queue::of(&dir).clear();
            FileDigests::new(&dir).clear()?;
            #[cfg(feature = "remote")]
            crate::store::FolderDigests::clear(&dir)?;
            removed(&cache.clear()?, *json);
            Ok(0)
        }
        CacheAction::Stop { json } => stop(&Queue::of(&dir), *json),
        CacheAction::Results { action } => results::run(action),
    }
}

fn info(cache: &CodeCache, queue: &Queue, json: bool) -> Result<u8> {
    let (info, running, waiting) = (cache.info()?, queue.running(), queue.waiting());
    let unused = cache.expect_private().err().map(|error| error.to_string());
    let bytes_max = cache_bytes_max()?;
    if json {
        let (path, bytes, modules) = (info.path.to_string_lossy(), info.bytes, info.entries);
        say!(
            "{}",
            json!({
                "path": path, "modules": modules, "bytes": bytes, "bytes_max": bytes_max,
                "optimizing": running, "waiting": waiting, "unused": unused,
            })
        );
        return Ok(0);
    }
    let limit = ByteSize(bytes_max).display().iec();
    let stays = if info.bytes > bytes_max { "; the newest stays, though it is larger" } else { "" };
    say!("{}, of at most {limit}{stays}", summary("compiled code of", &info));
    if let Some(why) = unused {
        say!("it is not used: {}", printable(&why));
    }
    if let Some(running) = running {
        let size = ByteSize(running.bytes).display().iec();
        say!(
            "process {} optimizes {} ({size}); `belljar cache stop` ends it",
            running.pid,
            printable(&running.module)
        );
    }
    for module in waiting {
        say!("{} waits to be optimized", printable(&module));
    }
    Ok(0)
}

/// Ends the process that optimizes.
fn stop(queue: &Queue, json: bool) -> Result<u8> {
    let (running, waiting) = (queue.running(), queue.waiting());
    let has_ended = queue.stop();
    if json {
        say!("{}", json!({ "optimizing": running, "ended": has_ended }));
        return Ok(if has_ended { 0 } else { exit::FAILED });
    }
    match running {
        Some(Running { pid, .. }) if !has_ended => {
            bail!("process {pid}, which optimizes, does not end: kill it")
        }
        None if !has_ended => bail!("a process that optimizes does not end: try it again"),
        None => say!("nothing is being optimized"),
        Some(Running { pid, module, .. }) => {
            // It waits until it is compiled.
            let others = waiting.into_iter().filter(|it| *it != module).collect::<Vec<_>>();
            let all = || [&module].into_iter().chain(&others);
            let modules: Vec<String> = all().map(|it| printable(it)).collect();
            let words: Vec<String> = all().map(|it| shell_word(it)).collect();
            let verb = if modules.len() == 1 { "is" } else { "are" };
            say!(
                "process {pid} has ended; {} {verb} optimized after a later run, or by `belljar cache compile {}`",
                modules.join(", "),
                words.join(" ")
            );
        }
    }
    Ok(0)
}

fn removed(info: &CacheInfo, json: bool) {
    if json {
        let path = info.path.to_string_lossy();
        say!("{}", json!({ "path": path, "modules": info.entries, "bytes": info.bytes }));
    } else {
        say!("{}", summary("removed compiled code of", info));
    }
}

fn summary(verb: &str, info: &CacheInfo) -> String {
    let (modules, bytes) =
        (count(info.entries as usize, "module"), ByteSize(info.bytes).display().iec());
    format!("{verb} {modules}, {bytes}, in {}", info.path.display())
}

/// Compiles programs into the cache.
fn compile(args: &CacheCompileArgs) -> Result<u8> {
    let dir = cache_dir()?;
    CodeCache::new(&dir).expect_room(0).context("cannot keep compiled code")?;
    let tier = TierArg::from(args.tier);
    let compile = CompileArgs { tier, background: false, no_background: true, limits: args.limits };
    let tier = TierChoice::from(tier);
    let compiler =
        Compiler { cache_dir: Some(dir), fuel: args.fuel, args: compile, quiet: args.quiet };
    let counting = if args.fuel { " that counts fuel" } else { "" };
    let mut done = Vec::new();
    let toolchains = setup::toolchains(&args.toolchain)?;
    for named in &args.programs {
        for (name, module) in modules(named, &toolchains)? {
            let name = printable(&name);
            let size = ByteSize(module.size()).display().iec();
            let shown = Progress::start(format!("compiling {name} ({size})"), args.quiet);
            let result = compiler.compile_into_cache(&module, &shown);
            drop(shown);
            result.with_context(|| format!("cannot compile {name}"))?;
            if !args.json {
                say!("{name}: {tier} code{counting} is in the cache");
            }
            done.push(json!({
                "program": name, "module": module.digest(), "tier": tier, "fuel": args.fuel,
            }));
        }
    }
    if args.json {
        say!("{}", json!(done));
    }
    Ok(0)
}

/// The modules of the program `named`, with their names: all of its toolchain's for a script, which starts some of
/// them.
fn modules(named: &OsStr, toolchains: &Toolchains) -> Result<Vec<(String, Module)>> {
    let program = setup::program(named, toolchains);
    let program = program.map_err(|error| {
        let hint = named.to_str().and_then(hints::installs);
        match (error.downcast_ref(), hint) {
            (Some(ResolveError::NotFound { .. }), Some(hint)) => Hinted { error, hint }.into(),
            _ => error,
        }
    })?;
    let Resolved::Described(Described { code: Code::Script, toolchain, .. }) = &program else {
        return Ok(vec![(named.to_string_lossy().into_owned(), program.module()?)]);
    };
    let mut modules = BTreeMap::new();
    for name in toolchain.manifest().programs.keys() {
        let program = toolchains.resolve(name)?;
        if let Resolved::Described(Described { code: Code::Module(path, _), .. }) = &program {
            // Several programs may be one module.
            modules.entry(path.clone()).or_insert((name.clone(), program.module()?));
        }
    }
    Ok(modules.into_values().collect())
}
