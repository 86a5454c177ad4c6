//! `belljar keys`.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::json;

use super::args::keys::{KeysAction, KeysArgs};
use super::exit::Usage;
use super::planted_links::check_here;
use super::signatures::secret;
use super::signatures::trusted::{TrustedKeys, key_of};
use super::text::printable;
use crate::base::atomic_file;
use crate::base::disk::{self, DiskError};
use crate::base::signature::{self, KeyId, PublicKey};

pub fn run(args: &KeysArgs) -> Result<u8> {
    match &args.action {
        KeysAction::Generate { file, no_password, json } => generate(file, *no_password, *json),
        KeysAction::List { json } => list(*json),
        KeysAction::Trust { key, json } => trust(key, *json),
        KeysAction::Remove { id, json } => remove(id, *json),
    }
}

fn generate(file: &Path, no_password: bool, json: bool) -> Result<u8> {
    let mut public_file: OsString = file.into();
    public_file.push(".pub");
    let public_file = PathBuf::from(public_file);
    for path in [file, &public_file] {
        check_here("FILE", path)?;
        if disk::symlink_metadata(path).is_ok() {
            let message = format!("{} exists: name another file", path.display());
            return Err(Usage(message).into());
        }
    }
    let password = if no_password { None } else { Some(secret::new_password()?) };
    let (secret, public) = signature::generate(password)?;
    // A secret key that was written in the meantime is not lost.
    atomic_file::write_new(file, secret.as_bytes())?;
    let written = atomic_file::write_shared_with(&public_file, |file| {
        file.write_all(public.to_text().as_bytes()).map_err(DiskError::new("write", &public_file))
    });
    if let Err(error) = written {
        disk::remove_file(file)?;
        return Err(error.into());
    }
    if json {
        say!(
            "{}",
            json!({
                "key": public.id().to_string(), "public_key": public.to_base64(), "file": file,
                "public_file": public_file,
            })
        );
    } else {
        say!("wrote {}, which signs: keep it secret", file.display());
        say!("wrote {}, which verifies: pass it on", public_file.display());
        say!("key {}  {}", public.id(), public.to_base64());
    }
    Ok(0)
}

fn list(json: bool) -> Result<u8> {
    let keys = TrustedKeys::open()?.all()?;
    if json {
        let described =
            |key: &PublicKey| json!({ "key": key.id().to_string(), "public_key": key.to_base64() });
        say!("{}", json!(keys.iter().map(described).collect::<Vec<_>>()));
        return Ok(0);
    }
    for key in keys {
        say!("{}  {}", key.id(), key.to_base64());
    }
    Ok(0)
}

fn trust(key: &str, json: bool) -> Result<u8> {
    let key = key_of(key)?;
    let is_new = TrustedKeys::open()?.add(&key)?;
    let id = key.id();
    if json {
        say!("{}", json!({ "key": id.to_string(), "public_key": key.to_base64(), "new": is_new }));
    } else if is_new {
        say!("key {id} is trusted from now on");
    } else {
        say!("key {id} was trusted before");
    }
    Ok(0)
}

fn remove(id: &str, json: bool) -> Result<u8> {
    let Some(id) = KeyId::parse(id) else {
        let shown = printable(id);
        let message = format!("{shown} is not the ID of a key: `belljar keys list` shows IDs");
        return Err(Usage(message).into());
    };
    if !TrustedKeys::open()?.remove(id)? {
        let message = format!("key {id} is not trusted: `belljar keys list` shows those that are");
        return Err(Usage(message).into());
    }
    if json {
        say!("{}", json!({ "key": id.to_string() }));
    } else {
        say!("key {id} is trusted no longer");
        note!(
            "belljar: note: compiled code that was installed on its word is still in the cache; `belljar cache clear` \
             removes it, and programs are compiled here"
        );
    }
    Ok(0)
}
