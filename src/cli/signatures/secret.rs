//! Keys that sign, and their passwords.

use std::io::IsTerminal;
use std::path::Path;

use anyhow::{Context, Result, anyhow};

use crate::base::signature::{KEY_BYTES_MAX, PublicKey, SecretKey, SecretKeyText, SignatureError};
use crate::base::{ambient, disk};
use crate::cli::exit::Usage;

/// The variable with the password.
const VARIABLE: &str = "BELLJAR_SIGN_PASSWORD";

/// Longest password of minisign, in bytes.
const PASSWORD_BYTES_MAX: usize = 1024;

/// The key in the file `path`, which the option `option` names. Asks for its password if it has one.
///
/// # Errors
/// [`Usage`] if the file has no key, or the password is wrong.
pub fn open(option: &str, path: &Path) -> Result<SecretKey> {
    let wrong = |error: anyhow::Error| Usage::of(option, error.context(path.display().to_string()));
    let text = disk::read_at_most(path, KEY_BYTES_MAX).map_err(|error| wrong(error.into()))?;
    let text = text.and_then(|text| String::from_utf8(text).ok());
    let text = text.ok_or_else(|| {
        wrong(SignatureError::NoSecretKey("it is too long, or no text".to_owned()).into())
    })?;
    if PublicKey::parse(&text).is_ok() {
        let secret = path.with_extension("");
        let why = format!(
            "it is a public key, which verifies; the one that signs may be {}",
            secret.display()
        );
        return Err(wrong(anyhow!(why)).into());
    }
    let key = SecretKeyText::parse(&text).map_err(|error| wrong(error.into()))?;
    let password = if key.is_encrypted() {
        Some(password(&format!("Password of {}: ", path.display()))?)
    } else {
        None
    };
    key.open(password).map_err(|error| wrong(error.into()).into())
}

/// The password for a new key: asked for twice, or from the environment.
///
/// # Errors
/// [`Usage`] if there is none, or it is too long.
pub fn new_password() -> Result<String> {
    let given = password("Password of the new key: ")?;
    if given.is_empty() || given.len() > PASSWORD_BYTES_MAX {
        return Err(Usage(format!(
            "a password has 1 to {PASSWORD_BYTES_MAX} bytes; --no-password makes a key without one"
        ))
        .into());
    }
    if ambient::env_var(VARIABLE).is_none() && password("The same once more: ")? != given {
        return Err(Usage("the two passwords differ: try again".to_owned()).into());
    }
    Ok(given)
}

fn password(prompt: &str) -> Result<String> {
    if let Some(password) = ambient::env_var(VARIABLE) {
        return password
            .into_string()
            .map_err(|_| anyhow!(Usage(format!("{VARIABLE}: it is not UTF-8"))));
    }
    if !std::io::stdin().is_terminal() {
        let message = format!(
            "there is no terminal to ask for the password of the key: set {VARIABLE}, or use a key without a password"
        );
        return Err(Usage(message).into());
    }
    rpassword::prompt_password(prompt)
        .with_context(|| format!("cannot ask for the password: set {VARIABLE}"))
}
