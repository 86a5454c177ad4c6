//! The credentials that the host adds to requests of programs.

use anyhow::Result;

use super::exit::Usage;
use crate::base::ambient;
use crate::net::EgressRule;
use crate::net::{Credential, Credentials};

/// Parses the credentials in `given`.
///
/// # Errors
/// [`Usage`] for an invalid credential.
pub fn credentials(given: &[String]) -> Result<Credentials> {
    let mut credentials = Credentials::default();
    for given in given {
        credentials.push(credential(given)?);
    }
    Ok(credentials)
}

/// The credential that `given` describes: `HOST=HEADER: VALUE`, in which `$NAME` is a variable.
fn credential(given: &str) -> Result<Credential> {
    let parts = given.split_once('=').and_then(|(host, rest)| Some((host, rest.split_once(':')?)));
    let Some((host, (header, template))) = parts else {
        return Err(usage("use HOST=HEADER: $VARIABLE"));
    };
    let host: EgressRule = host.trim().parse().map_err(|error| usage(&format!("{error}")))?;
    let (value, secret) = filled(template.trim())?;
    let name = format!("{}: {}", header.trim(), template.trim());
    let credential = Credential::new(name, host, header.trim(), value);
    // Only the variable's value is hidden: a server can repeat it without the rest of the header.
    let credential = credential.and_then(|credential| credential.hiding(secret));
    credential.map_err(|error| Usage::of("--credential", error).into())
}

/// `template` with its environment variable filled in, and the value of that.
fn filled(template: &str) -> Result<(String, String)> {
    let Some((front, rest)) = template.split_once('$') else {
        return Err(usage(
            "do not put a secret on the command line: name a variable, such as $TOKEN",
        ));
    };
    let is_name = |byte: char| byte.is_ascii_alphanumeric() || byte == '_';
    let (name, rest) = rest.split_at(rest.find(|byte| !is_name(byte)).unwrap_or(rest.len()));
    let value = ambient::setting(name).and_then(|value| value.into_string().ok());
    match value {
        Some(value) => Ok((format!("{front}{value}{rest}"), value)),
        None => Err(usage(&format!("the variable {name:?} is not set, or not UTF-8"))),
    }
}

fn usage(problem: &str) -> anyhow::Error {
    Usage(format!("--credential: {problem}")).into()
}
