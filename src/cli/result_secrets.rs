//! What results must not hold: values that come from the host's environment, and what looks like a secret.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::LazyLock;

use anyhow::Result;

use super::home::home_dir;
use super::options;
use crate::base::digest::Digest;
use crate::base::own::{OtherUsers, expect_own_folder};
use crate::base::{atomic_file, disk};
use crate::results::Secrets;
use crate::tape::Redaction;

/// The file of the key, in the home directory. It is not beside the results: who gets a copy of these has no key.
const KEY: &str = "results.key";

/// The secrets of a run with the variables `env`, as given on the command line, and `credentials`.
///
/// # Errors
/// A variable has no name; a credential is not valid.
pub fn of(env: &[OsString], credentials: &[String]) -> Result<Secrets> {
    let is_of_host = |given: &&OsString| !given.as_encoded_bytes().contains(&b'=');
    let of_host: Vec<OsString> = env.iter().filter(is_of_host).cloned().collect();
    let of_host = options::environment(&of_host)?;
    let named = options::environment(env)?;
    let named = named.iter().filter(|(name, value)| names_a_secret(name, value));
    let values = of_host.iter().chain(named).map(|(_, value)| value.as_encoded_bytes().to_vec());
    let values: Vec<Vec<u8>> = values.chain(of_credentials(credentials)?).collect();
    let secrets = values.iter().fold(Secrets::new(key), |secrets, value| secrets.value(value));
    Ok(secrets.rule(|bytes| REDACTION.find(bytes).is_some()))
}

static REDACTION: LazyLock<Redaction> = LazyLock::new(Redaction::default);

/// Whether a variable is one as `API_KEY` is, or has a value that looks like a secret.
fn names_a_secret(name: &OsStr, value: &OsStr) -> bool {
    let variable = format!("{}={}", name.to_string_lossy(), value.to_string_lossy());
    REDACTION.redact_variable(&variable) != variable
}

#[cfg(feature = "http")]
fn of_credentials(given: &[String]) -> Result<Vec<Vec<u8>>> {
    Ok(super::net::credentials(given)?.secrets())
}

#[cfg(not(feature = "http"))]
#[expect(clippy::unnecessary_wraps, reason = "with an HTTP client, a credential can be wrong")]
fn of_credentials(_given: &[String]) -> Result<Vec<Vec<u8>>> {
    // They are refused elsewhere.
    Ok(Vec::new())
}

/// The key of this user, which is made when it is needed first. Where there is none, and none can be made, it is another one
/// in each run: what processes are given of secrets is then not known later.
fn key() -> [u8; Digest::BYTES] {
    let mut fresh = [0; Digest::BYTES];
    if getrandom::fill(&mut fresh).is_err() {
        // Without random numbers there is no secure key: it is only this run's.
        fresh = *Digest::of(&crate::base::ambient::wall_now_ns().to_le_bytes()).as_bytes();
    }
    kept_key(fresh).unwrap_or(fresh)
}

/// The key that is kept; `fresh`, if there is none.
fn kept_key(fresh: [u8; Digest::BYTES]) -> Option<[u8; Digest::BYTES]> {
    let home = home_dir().ok()?;
    let path = home.join(KEY);
    if let Some(key) = read_key(&path) {
        expect_own_folder(&home, OtherUsers::MayAddFiles).ok()?;
        return Some(key);
    }
    disk::create_private_dir_all(&home).ok()?;
    expect_own_folder(&home, OtherUsers::MayAddFiles).ok()?;
    // Of two processes that make one, the last one prevails; what the other one was given is asked again.
    atomic_file::write(&path, &[&fresh]).ok()?;
    read_key(&path)
}

fn read_key(path: &Path) -> Option<[u8; Digest::BYTES]> {
    let bytes = disk::read_at_most(path, Digest::BYTES as u64).ok()??;
    bytes.try_into().ok()
}
