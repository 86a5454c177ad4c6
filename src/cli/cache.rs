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
        CacheAction::Info { json } => (cache.info()?, json, "holds"),
        CacheAction::Clear { json } => (cache.clear()?, json, "held"),
    };
    if json {
        let path = info.path.to_string_lossy();
        say!("{}", json!({ "path": path, "modules": info.entries, "bytes": info.bytes }));
    } else {
        let (modules, bytes) =
            (count(info.entries as usize, "module"), ByteSize(info.bytes).display().iec());
        say!("{} {verb} the code of {modules}, {bytes}", info.path.display());
    }
    Ok(0)
}
