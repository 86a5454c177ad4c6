//! `belljar cache`.

use anyhow::{Context, Result};
use bytesize::ByteSize;
use serde_json::json;

use super::args::groups::TierArg;
use super::args::installation::{CacheAction, CacheArgs, CacheCompileArgs};
use super::background::Queue;
use super::compile::Compiler;
use super::home::cache_dir;
use super::progress::Progress;
use super::text::{count, printable};
use super::{results, setup};
use crate::engine::{CACHE_BYTES_MAX, CacheInfo, CodeCache, TierChoice};

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
            removed(&cache.clear()?, *json);
            Queue::of(&dir).clear();
            Ok(0)
        }
        CacheAction::Results { action } => results::run(action),
    }
}

fn info(cache: &CodeCache, queue: &Queue, json: bool) -> Result<u8> {
    let (info, running, waiting) = (cache.info()?, queue.running(), queue.waiting());
    if json {
        let (path, bytes) = (info.path.to_string_lossy(), info.bytes);
        let (modules, bytes_max) = (info.entries, CACHE_BYTES_MAX);
        say!(
            "{}",
            json!({
                "path": path, "modules": modules, "bytes": bytes, "bytes_max": bytes_max,
                "optimizing": running, "waiting": waiting,
            })
        );
        return Ok(0);
    }
    let limit = ByteSize(CACHE_BYTES_MAX).display().iec();
    say!("{}, of at most {limit}", summary("compiled code of", &info));
    if let Some(running) = running {
        let size = ByteSize(running.bytes).display().iec();
        say!("process {} optimizes {} ({size})", running.pid, printable(&running.module));
    }
    for module in waiting {
        say!("{} waits to be optimized", printable(&module));
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

/// Compiles programs into the cache: optimized, unless another tier is asked for.
fn compile(args: &CacheCompileArgs) -> Result<u8> {
    let mut limits = args.compile;
    if limits.tier == TierArg::Auto {
        limits.tier = TierArg::Optimized;
    }
    let tier = TierChoice::from(limits.tier);
    let compiler =
        Compiler { cache_dir: Some(cache_dir()?), fuel: args.fuel, limits, quiet: args.quiet };
    let mut done = Vec::new();
    let toolchains = setup::toolchains(&args.toolchain)?;
    for named in &args.programs {
        let module = setup::program(named, &toolchains)?.module()?;
        let name = printable(&named.to_string_lossy());
        let size = ByteSize(module.size()).display().iec();
        let shown = Progress::start(format!("compiling {name} ({size})"), args.quiet);
        let result = compiler.compile_into_cache(&module, &shown);
        drop(shown);
        result.with_context(|| format!("cannot compile {name}"))?;
        done.push((name, module.digest()));
    }
    if args.json {
        let list: Vec<_> = done
            .iter()
            .map(|(name, digest)| json!({ "program": name, "module": digest, "tier": tier }))
            .collect();
        say!("{}", json!(list));
    } else {
        for (name, _) in done {
            say!("{name}: {} code is in the cache", tier);
        }
    }
    Ok(0)
}
