//! `belljar cache`.

use anyhow::Result;
use bytesize::ByteSize;
use serde_json::json;

use super::args::installation::{CacheAction, CacheArgs};
use super::home::cache_dir;
use super::text::count;
use crate::engine::CodeCache;

pub fn run(args: &CacheArgs) -> Result<u8> {
    let cache = CodeCache::new(&cache_dir()?);
    let (info, json, verb) = match args.action {
        CacheAction::Info { json } => (cache.info()?, json, "compiled code of"),
        CacheAction::Clear { json } => (cache.clear()?, json, "removed compiled code of"),
    };
    if json {
        let path = info.path.to_string_lossy();
        say!("{}", json!({ "path": path, "modules": info.entries, "bytes": info.bytes }));
    } else {
        let (modules, bytes) =
            (count(info.entries as usize, "module"), ByteSize(info.bytes).display().iec());
        say!("{verb} {modules}, {bytes}, in {}", info.path.display());
    }
    Ok(0)
}
