//! What must not reach a tape.

use regex::bytes::{Regex, RegexSet};

/// Stands where a secret was.
const REDACTED: &str = "[redacted]";

/// Names of variables whose values are secrets.
const SECRET_NAMES: &str = r"(?i)passw|passphrase|secret|token|credential|cookie|api_?key|private_?key|(^|_)(key|auth|authorization|session_id|pass|pwd|pat)($|_)";

/// Text that is a secret wherever it stands, by the name of the rule.
const SECRET_TEXTS: &[(&str, &str)] = &[
    ("private-key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    ("bearer-token", r"(?i)\bbearer [a-z0-9._~+/-]{16,}=*"),
    ("api-key", r"\bsk-[A-Za-z0-9_-]{20,}"),
    ("aws-access-key", r"\b(AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("github-token", r"\b(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})"),
    ("slack-token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("url-password", r"://[^/\s:@]+:[^/\s:@]+@"),
];

/// A rule is no regular expression.
#[derive(Debug, thiserror::Error)]
#[error("the redaction rule {name:?} is no regular expression")]
pub struct BadRule {
    /// The rule.
    pub name: String,
    /// Why not.
    pub source: regex::Error,
}

/// Rules that find secrets. Text loses them; contents that hold one are withheld whole, because a
/// changed content would not have its digest.
#[derive(Clone, Debug)]
pub struct Redaction {
    secret_names: Option<Regex>,
    rules: Vec<(String, Regex)>,
    any: RegexSet,
}

impl Default for Redaction {
    /// The built-in rules: values of variables with names such as `API_KEY`, `GITHUB_TOKEN`,
    /// `DB_PASSWORD`; private keys, bearer tokens, keys of well-known services, passwords in URLs.
    fn default() -> Self {
        let rules = SECRET_TEXTS.iter().map(|(name, pattern)| (*name, *pattern));
        Self::with_rules(rules).expect("the built-in rules are tested")
    }
}

impl Redaction {
    /// Nothing is a secret.
    pub fn none() -> Self {
        Self { secret_names: None, rules: Vec::new(), any: RegexSet::empty() }
    }

    /// These rules, a name and a regular expression each, beside the one for names of variables.
    ///
    /// # Errors
    /// [`BadRule`].
    pub fn with_rules<'a>(
        rules: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, BadRule> {
        fn bad(name: &str) -> impl FnOnce(regex::Error) -> BadRule {
            move |source| BadRule { name: name.to_owned(), source }
        }
        let mut compiled = Vec::new();
        for (name, pattern) in rules {
            compiled.push((name.to_owned(), Regex::new(pattern).map_err(bad(name))?));
        }
        let patterns = compiled.iter().map(|(_, regex)| regex.as_str());
        let any = RegexSet::new(patterns).map_err(bad("all together"))?;
        let secret_names = Some(Regex::new(SECRET_NAMES).map_err(bad("variables"))?);
        Ok(Self { secret_names, rules: compiled, any })
    }

    /// The first rule that finds a secret in `bytes`.
    pub fn find(&self, bytes: &[u8]) -> Option<&str> {
        let first = self.any.matches(bytes).into_iter().next()?;
        Some(&self.rules[first].0)
    }

    /// `text` without its secrets.
    pub fn redact(&self, text: &str) -> String {
        let found = self.any.matches(text.as_bytes());
        let mut bytes = text.as_bytes().to_vec();
        for rule in found {
            bytes = self.rules[rule].1.replace_all(&bytes, REDACTED.as_bytes()).into_owned();
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn is_secret_name(&self, name: &str) -> bool {
        self.secret_names.as_ref().is_some_and(|names| names.is_match(name.as_bytes()))
    }

    /// The variable `NAME=value` without its secrets.
    pub fn redact_variable(&self, variable: &str) -> String {
        match variable.split_once('=') {
            Some((name, _)) if self.is_secret_name(name) => format!("{name}={REDACTED}"),
            _ => self.redact(variable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_by_name_and_by_shape() {
        let rules = Redaction::default();
        assert_eq!(rules.redact_variable("GITHUB_TOKEN=abc"), "GITHUB_TOKEN=[redacted]");
        assert_eq!(rules.redact_variable("OPENAI_API_KEY=abc"), "OPENAI_API_KEY=[redacted]");
        assert_eq!(rules.redact_variable("KEYBOARD=us"), "KEYBOARD=us");
        assert_eq!(rules.redact_variable("MONKEY=1"), "MONKEY=1");
        for name in ["PGPASSWORD", "APIKEY", "GH_PAT", "MYSQL_PWD", "PRIVATEKEY", "DB_PASS"] {
            assert_eq!(rules.redact_variable(&format!("{name}=x")), format!("{name}=[redacted]"));
        }
        assert_eq!(rules.redact_variable("PATH=/bin"), "PATH=/bin");
        assert_eq!(rules.redact_variable("COMPASS=n"), "COMPASS=n");
        let header = "Authorization: Bearer abcdefghijklmnop1234 end";
        assert_eq!(rules.redact(header), "Authorization: [redacted] end");
        assert_eq!(rules.redact("see https://me:pw@host/x"), "see https[redacted]host/x");
        assert_eq!(rules.find(b"\xff-----BEGIN RSA PRIVATE KEY-----\n"), Some("private-key"));
        assert_eq!(rules.find(b"int main(void) { return sk; }"), None);
    }

    #[test]
    fn own_rules_can_be_given_and_bad_ones_are_named() {
        let rules = Redaction::with_rules([("pin", r"\bPIN \d{4}\b")]).unwrap();
        assert_eq!(rules.redact("PIN 1234."), "[redacted].");
        assert_eq!(Redaction::with_rules([("open", "(")]).unwrap_err().name, "open");
        assert_eq!(Redaction::none().redact_variable("API_KEY=x"), "API_KEY=x");
    }
}
