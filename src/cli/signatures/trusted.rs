//! The keys whose signatures the user trusts: a file for each in `BELLJAR_HOME/keys`, named for its ID.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::base::signature::{KEY_BYTES_MAX, KeyId, PublicKey, SignatureError};
use crate::base::{atomic_file, disk};
use crate::cli::exit::Usage;
use crate::cli::home::own_folder;
use crate::cli::text::printable;

/// Extension of the file of a key.
const EXTENSION: &str = "pub";

/// The keys whose signatures the user trusts.
pub struct TrustedKeys {
    dir: PathBuf,
}

impl TrustedKeys {
    /// Those of this user.
    ///
    /// # Errors
    /// As [`own_folder`].
    pub fn open() -> Result<Self> {
        Ok(Self { dir: own_folder("keys")? })
    }

    fn path(&self, id: KeyId) -> PathBuf {
        self.dir.join(format!("{id}.{EXTENSION}"))
    }

    /// All of them, sorted by ID.
    ///
    /// # Errors
    /// The folder cannot be read; the file of a key is damaged.
    pub fn all(&self) -> Result<Vec<PublicKey>> {
        let mut keys = Vec::new();
        for path in disk::list_if_there(&self.dir)? {
            if path.extension().is_some_and(|extension| extension == EXTENSION) {
                let damaged = || {
                    let path = path.display();
                    format!("{path} is damaged: remove it, and `belljar keys trust` the key again")
                };
                let key = read(&path).with_context(damaged)?;
                if self.path(key.id()) != path {
                    return Err(Usage(format!("it has the key {}", key.id())))
                        .with_context(damaged);
                }
                keys.push(key);
            }
        }
        Ok(keys)
    }

    /// Adds `key`; returns whether it is new.
    ///
    /// # Errors
    /// Another key has its ID; the file cannot be written.
    pub fn add(&self, key: &PublicKey) -> Result<bool> {
        if !self.expect_can_add(key)? {
            return Ok(false);
        }
        disk::create_private_dir_all(&self.dir)?;
        atomic_file::write(&self.path(key.id()), &[key.to_text().as_bytes()])?;
        Ok(true)
    }

    /// Checks that `key` can be added; returns whether it is new.
    ///
    /// # Errors
    /// Another key has its ID.
    pub fn expect_can_add(&self, key: &PublicKey) -> Result<bool> {
        let id = key.id();
        match self.all()?.iter().find(|known| known.id() == id) {
            Some(known) if known == key => Ok(false),
            Some(_) => bail!(Usage(format!(
                "another key with the ID {id} is trusted, and IDs are not given twice by chance: ask the owner \
                 which one is theirs; `belljar keys remove {id}` removes the one that is trusted"
            ))),
            None => Ok(true),
        }
    }

    /// Removes the key `id`; returns whether it was there.
    ///
    /// # Errors
    /// Its file cannot be removed.
    pub fn remove(&self, id: KeyId) -> Result<bool> {
        let path = self.path(id);
        let is_there = disk::symlink_metadata(&path).is_ok();
        disk::remove_file(&path)?;
        Ok(is_there)
    }
}

/// The key that `text` is, or the file `text` has.
///
/// # Errors
/// [`Usage`] if neither is a key.
pub fn key_of(text: &str) -> Result<PublicKey, Usage> {
    if let Ok(key) = PublicKey::parse(text) {
        return Ok(key);
    }
    let shown = printable(text);
    let path = Path::new(text);
    if disk::metadata(path).is_err() {
        return Err(Usage(format!(
            "{shown} is no such file, and {}, or a file with it",
            SignatureError::NoKey
        )));
    }
    read(path).map_err(|error| {
        // Of a pair of keys, the secret one is easily named.
        let public = format!("{text}.{EXTENSION}");
        match read(Path::new(&public)) {
            Ok(_) => Usage(format!(
                "{shown} is not a public key; the one beside it is {}",
                printable(&public)
            )),
            Err(_) => Usage(format!("{shown}: {error:#}")),
        }
    })
}

/// The key in the file `path`.
fn read(path: &Path) -> Result<PublicKey> {
    let text = disk::read_at_most(path, KEY_BYTES_MAX)?;
    let text = text.and_then(|text| String::from_utf8(text).ok()).ok_or(SignatureError::NoKey)?;
    Ok(PublicKey::parse(&text)?)
}
