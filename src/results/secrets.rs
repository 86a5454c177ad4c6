//! Secrets: what results must not hold, unless the user consents.

use std::fmt;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::base::digest::Digest;

/// Shorter values are not looked for: they are in too much that is no secret.
pub const SECRET_BYTES_MIN: usize = 8;

/// Longest answer that rules are applied to.
const RULED_BYTES_MAX: usize = 1 << 20;

/// Values and rules that tell secrets, and a key.
///
/// A trace has the answer of a call that holds a secret as a digest that depends on the key, so that nobody without the
/// key can find the secret by trying. What a process hands over is in its trace as it is: such a trace is kept only if
/// the user consents ([`super::Results::keeping_secrets`]).
pub struct Secrets {
    key: LazyLock<Key, Box<dyn FnOnce() -> Key + Send>>,
    values: Vec<Finder<'static>>,
    rule: Option<Rule>,
}

type Key = [u8; Digest::BYTES];

/// Whether bytes hold a secret.
type Rule = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the values.
        write!(f, "Secrets({} values)", self.values.len())
    }
}

impl Default for Secrets {
    /// No secrets.
    fn default() -> Self {
        Self::new(|| [0; Digest::BYTES])
    }
}

impl Secrets {
    /// No secrets, and `key`, which only the user should know. It is called when a process is given the first secret.
    /// With another key, processes that were given secrets are not known.
    pub fn new(key: impl FnOnce() -> Key + Send + 'static) -> Self {
        Self { key: LazyLock::new(Box::new(key)), values: Vec::new(), rule: None }
    }

    /// Adds `value`, if it has at least 8 bytes.
    #[must_use]
    pub fn value(mut self, value: &[u8]) -> Self {
        if value.len() >= SECRET_BYTES_MIN {
            self.values.push(Finder::new(value).into_owned());
        }
        self
    }

    /// Adds what `is_secret` finds a secret in. It is not asked about answers of more than 1 MiB.
    #[must_use]
    pub fn rule(mut self, is_secret: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> Self {
        self.rule = Some(Box::new(is_secret));
        self
    }

    /// Whether `bytes` hold a secret.
    pub fn are_in(&self, bytes: &[u8]) -> bool {
        self.has_value(bytes) || self.rule.as_ref().is_some_and(|rule| rule(bytes))
    }

    fn has_value(&self, bytes: &[u8]) -> bool {
        self.values.iter().any(|value| value.find(bytes).is_some())
    }

    /// The digest of `parts`, one after the other, which depends on the key, if a secret is in them.
    pub(super) fn seal(&self, parts: &[&[u8]]) -> Option<Key> {
        let is_short = parts.iter().map(|part| part.len()).sum::<usize>() <= RULED_BYTES_MAX;
        if self.values.is_empty() && !(is_short && self.rule.is_some()) {
            return None;
        }
        // A secret may lie across two parts.
        let joined: Vec<u8>;
        let bytes = match parts {
            [] => return None,
            [one] => *one,
            more => {
                joined = more.concat();
                &joined
            }
        };
        let is_in = if is_short { self.are_in(bytes) } else { self.has_value(bytes) };
        is_in.then(|| *Digest::keyed(&self.key, bytes).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_with_a_secret_are_sealed_with_the_key() {
        let secrets = |key: u8| {
            let rule = |bytes: &[u8]| bytes.starts_with(b"password");
            Secrets::new(move || [key; 32]).value(b"long enough").value(b"short").rule(rule)
        };
        let whole: &[&[u8]] = &[b"TOKEN=long enough\0"];
        let sealed = secrets(1).seal(whole);
        assert!(sealed.is_some());
        assert_eq!(secrets(1).seal(whole), sealed);
        assert_ne!(secrets(2).seal(whole), sealed, "it depends on the key");
        assert_eq!(secrets(1).seal(&[b"TOKEN=long", b" enough\0"]), sealed);
        assert_ne!(sealed, Some(*Digest::of(b"TOKEN=long enough\0").as_bytes()));
        for plain in [&[b"short".as_slice()][..], &[b"nothing"], &[]] {
            assert_eq!(secrets(1).seal(plain), None, "{plain:?}");
        }
        assert!(secrets(1).seal(&[b"password: x"]).is_some());
        let long = [b"password".to_vec(), vec![0; 2 << 20]].concat();
        assert_eq!(secrets(1).seal(&[&long]), None, "rules are not for long answers");
        let long = [vec![0; 2 << 20], b"long enough".to_vec()].concat();
        assert!(secrets(1).seal(&[&long]).is_some(), "values are for all");
    }
}
