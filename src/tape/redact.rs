//! Redaction of secrets.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use regex::bytes::{Regex, RegexSet};

use super::header::Version;

/// Stands in texts in place of a secret.
pub const REDACTED: &str = "[redacted]";

/// Matches names of variables with secret values.
const SECRET_NAMES: &str = r"(?i-u)passw|passphrase|secret|token|credential|cookie|api_?key|private_?key|(^|_)(key|auth|authorization|session_id|pass|pat)($|_)|_pwd($|_)|^pwd_";

/// [`SECRET_NAMES`] before version 1.3, which took `PWD` for a password.
const SECRET_NAMES_BEFORE_1_3: &str = r"(?i-u)passw|passphrase|secret|token|credential|cookie|api_?key|private_?key|(^|_)(key|auth|authorization|session_id|pass|pwd|pat)($|_)";

/// What stands in rules in place of these names.
///
/// A secret starts where a word does, or after an escape, whose last letter or digit is no part of the word: `\n` in JSON
/// and in programs, `\x1b`, `\u000a`, `%20`, the end of a color of a terminal. The escape itself stays.
const PARTS: &[(&str, &str)] = &[
    (
        "<start>",
        r"(?:\b|\\[abefnrtv]|\\[0-7]{1,3}|\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2}|\[[0-9;]*[mK])",
    ),
    ("<slashes>", r"(?://|\\/\\/)"),
];

/// [`PARTS`] before version 1.16, which knew no escapes.
const PARTS_BEFORE_1_16: &[(&str, &str)] = &[("<start>", r"\b"), ("<slashes>", "//")];

/// Shorter values of variables are not looked for: other texts contain them by chance.
pub(crate) const SECRET_VALUE_BYTES_MIN: usize = 8;

/// The group of a rule that is the secret. Default: all that it matches.
const SECRET_GROUP: &str = "secret";

/// Matches secrets in text, by name of the rule. ASCII only: Unicode tables would cost more than
/// recording.
const SECRET_TEXTS: &[(&str, &str)] = &[
    // Up to the end of the key, or if that is missing, everything that may be part of one.
    (
        "private-key",
        r"(?-u)-----BEGIN [A-Z ]*PRIVATE KEY( BLOCK)?-----((?s:.)*?-----END [A-Z ]*PRIVATE KEY( BLOCK)?-----|[A-Za-z0-9+/=:,\\\s-]*)",
    ),
    ("bearer-token", r"(?i-u)<start>(?<secret>bearer [a-z0-9._~+/-]{16,}=*)"),
    ("api-key", r"(?-u)<start>(?<secret>sk-[A-Za-z0-9_-]{20,})"),
    ("aws-access-key", r"(?-u)<start>(?<secret>(AKIA|ASIA)[A-Z0-9]{16})\b"),
    (
        "github-token",
        r"(?-u)<start>(?<secret>gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})",
    ),
    ("slack-token", r"(?-u)<start>(?<secret>xox[abeoprs]-[A-Za-z0-9-]{10,})"),
    ("url-password", r"(?-u):<slashes>[^/\s:@]*:[^/\s@]+@"),
];

/// A rule is not a valid regular expression.
#[derive(thiserror::Error)]
#[error("the redaction rule {name:?} is not a valid regular expression")]
pub struct BadRule {
    /// The rule.
    pub name: String,
    /// Why.
    pub source: regex::Error,
}

crate::base::readable::readable!(BadRule);

/// Rules that match secrets. Text is redacted; contents with a secret are withheld, as a changed
/// content would have another digest.
#[derive(Clone, Debug)]
pub struct Redaction {
    secret_names: Option<Regex>,
    rules: Vec<Rule>,
    any: RegexSet,
}

/// A rule. The set tells whether it matches; its own expression, which tells where, is compiled
/// when needed.
#[derive(Clone, Debug)]
struct Rule {
    name: String,
    pattern: String,
    regex: Arc<OnceLock<Regex>>,
}

impl Rule {
    fn regex(&self) -> &Regex {
        let compile = || Regex::new(&self.pattern).expect("it was compiled as part of the set");
        self.regex.get_or_init(compile)
    }

    /// The secrets in `bytes`.
    fn secrets(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let regex = self.regex();
        // Groups cost more than the match.
        if regex.captures_len() == 1 {
            return regex.find_iter(bytes).map(|found| found.range()).collect();
        }
        let all = regex.captures_iter(bytes);
        let secret = all.filter_map(|found| found.name(SECRET_GROUP).or_else(|| found.get(0)));
        secret.map(|found| found.range()).collect()
    }
}

impl Default for Redaction {
    /// The built-in rules: values of variables with names such as `API_KEY`, `GITHUB_TOKEN`,
    /// `DB_PASSWORD`; private keys, bearer tokens, keys of well-known services, passwords in URLs.
    fn default() -> Self {
        Self::built_in(PARTS)
    }
}

impl Redaction {
    /// No rules.
    pub fn none() -> Self {
        Self { secret_names: None, rules: Vec::new(), any: RegexSet::empty() }
    }

    /// The built-in rules, made of `parts`.
    fn built_in(parts: &[(&str, &str)]) -> Self {
        let pattern = |pattern: &str| {
            let place = |made: String, (name, part): &(&str, &str)| made.replace(name, part);
            parts.iter().fold(pattern.to_owned(), place)
        };
        let rules: Vec<(&str, String)> =
            SECRET_TEXTS.iter().map(|(name, text)| (*name, pattern(text))).collect();
        Self::with_rules(rules.iter().map(|(name, pattern)| (*name, &**pattern)))
            .expect("the built-in rules are valid")
    }

    /// The built-in rules of tapes of `version`, so that a replay withholds the same.
    pub fn of_version(version: Version) -> Self {
        let is_before_1_16 = (version.major, version.minor) < (1, 16);
        let mut rules = Self::built_in(if is_before_1_16 { PARTS_BEFORE_1_16 } else { PARTS });
        if (version.major, version.minor) < (1, 3) {
            rules.secret_names = Regex::new(SECRET_NAMES_BEFORE_1_3).ok();
        }
        rules
    }

    /// `rules` of a name and a regular expression each, in addition to the rule for names of
    /// variables. The secret is what a rule's group `secret` matches, or without one the whole match.
    ///
    /// # Errors
    /// [`BadRule`].
    pub fn with_rules<'a>(
        rules: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, BadRule> {
        let rule = |(name, pattern): (&str, &str)| Rule {
            name: name.to_owned(),
            pattern: pattern.to_owned(),
            regex: Arc::default(),
        };
        Self::of_rules(rules.into_iter().map(rule).collect())
    }

    /// These rules, and one for the value of each of these variables, a name and a value, that has a secret name and at least
    /// eight bytes. It is looked for in everything, as a program may print it.
    ///
    /// # Errors
    /// [`BadRule`]: the values are too long, all together.
    pub fn with_values_of<'a>(
        mut self,
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, BadRule> {
        for (name, value) in variables {
            if value.len() >= SECRET_VALUE_BYTES_MIN && self.is_secret_name(name) {
                self.rules.push(Rule {
                    name: format!("value-of-{name}"),
                    pattern: format!("(?-u){}", regex::escape(value)),
                    regex: Arc::default(),
                });
            }
        }
        Self::of_rules(self.rules)
    }

    fn of_rules(rules: Vec<Rule>) -> Result<Self, BadRule> {
        fn bad(name: &str) -> impl FnOnce(regex::Error) -> BadRule {
            move |source| BadRule { name: name.to_owned(), source }
        }
        let any = RegexSet::new(rules.iter().map(|rule| &rule.pattern)).map_err(|all| {
            let wrong =
                rules.iter().find_map(|rule| Some((rule, Regex::new(&rule.pattern).err()?)));
            match wrong {
                Some((rule, error)) => bad(&rule.name)(error),
                None => bad("all together")(all),
            }
        })?;
        let secret_names = Some(Regex::new(SECRET_NAMES).map_err(bad("variables"))?);
        Ok(Self { secret_names, rules, any })
    }

    /// The first rule that matches in `bytes`.
    pub fn find(&self, bytes: &[u8]) -> Option<&str> {
        let first = self.any.matches(bytes).into_iter().next()?;
        Some(&self.rules[first].name)
    }

    /// Redacts `text`.
    pub fn redact(&self, text: &str) -> String {
        self.redact_after(&[], text)
    }

    /// Redacts `text`, including the rest of secrets that begin in `before`, the text before it.
    pub(super) fn redact_after(&self, before: &[u8], text: &str) -> String {
        let joined = [before, text.as_bytes()].concat();
        let mut secrets: Vec<_> = self.secrets(&joined).map(|(_, range)| range).collect();
        secrets.sort_unstable_by_key(|range| range.start);
        let (mut kept, mut at) = (Vec::with_capacity(text.len()), before.len());
        for Range { start, end } in secrets.into_iter().filter(|range| range.end > before.len()) {
            if start >= at || at == before.len() {
                kept.extend_from_slice(&joined[at..start.max(at)]);
                kept.extend_from_slice(REDACTED.as_bytes());
            }
            at = at.max(end);
        }
        kept.extend_from_slice(&joined[at..]);
        String::from_utf8_lossy(&kept).into_owned()
    }

    /// The first rule that matches a secret across the border between `before` and `bytes`.
    pub(super) fn find_across(&self, before: &[u8], bytes: &[u8]) -> Option<&str> {
        let joined = [before, bytes].concat();
        let is_across =
            |range: &Range<usize>| range.start < before.len() && range.end > before.len();
        let rule =
            self.secrets(&joined).find(|(_, range)| is_across(range)).map(|(rule, _)| rule)?;
        Some(&self.rules[rule].name)
    }

    /// The secrets in `bytes` with the index of their rule, rule by rule.
    fn secrets<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = (usize, Range<usize>)> + 'a {
        let of_rule = move |rule: usize| {
            self.rules[rule].secrets(bytes).into_iter().map(move |range| (rule, range))
        };
        let found = self.any.matches(bytes).into_iter().flat_map(of_rule);
        found.filter(|(_, range)| !range.is_empty())
    }

    /// Redacts `text`.
    pub(super) fn withhold(&self, text: &mut String) {
        if self.any.is_match(text.as_bytes()) {
            *text = self.redact(text);
        }
    }

    /// Redacts `variable`, which may be `NAME=value`.
    pub(super) fn withhold_in_variable(&self, variable: &mut String) {
        *variable = self.redact_variable(variable);
    }

    /// Whether the values of variables with this name are secret.
    pub(super) fn is_secret_name(&self, name: &str) -> bool {
        self.secret_names.as_ref().is_some_and(|names| names.is_match(name.as_bytes()))
    }

    /// Redacts the variable `NAME=value`.
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
    fn secrets_are_found_by_name_and_by_pattern() {
        let rules = Redaction::default();
        assert_eq!(rules.redact_variable("GITHUB_TOKEN=abc"), "GITHUB_TOKEN=[redacted]");
        assert_eq!(rules.redact_variable("OPENAI_API_KEY=abc"), "OPENAI_API_KEY=[redacted]");
        assert_eq!(rules.redact_variable("KEYBOARD=us"), "KEYBOARD=us");
        assert_eq!(rules.redact_variable("MONKEY=1"), "MONKEY=1");
        for name in
            ["PGPASSWORD", "APIKEY", "GH_PAT", "MYSQL_PWD", "PWD_DB", "PRIVATEKEY", "DB_PASS"]
        {
            assert_eq!(rules.redact_variable(&format!("{name}=x")), format!("{name}=[redacted]"));
        }
        assert_eq!(rules.redact_variable("PATH=/bin"), "PATH=/bin");
        let given = [("API_KEY", "a+b (c) é?"), ("TOKEN", "short"), ("HOME", "/home/somebody")];
        let of_values = rules.clone().with_values_of(given).unwrap();
        let text = "a+b (c) é? and aab (c) é? of short /home/somebody gave ";
        assert_eq!(of_values.redact(text), format!("[redacted]{}", &text[11..]));
        assert_eq!(of_values.find(b"x a+b (c) \xc3\xa9?"), Some("value-of-API_KEY"));
        assert_eq!(rules.redact_variable("PWD=/worktree"), "PWD=/worktree");
        let before = Redaction::of_version(Version { major: 1, minor: 2 });
        assert_eq!(before.redact_variable("PWD=/src"), "PWD=[redacted]");
        assert_eq!(before.redact_variable("PATH=/bin"), "PATH=/bin");
        assert_eq!(rules.redact_variable("COMPASS=n"), "COMPASS=n");
        let header = "Authorization: Bearer abcdefghijklmnop1234 end";
        assert_eq!(rules.redact(header), "Authorization: [redacted] end");
        assert_eq!(rules.redact("see https://me:pw@host/x"), "see https[redacted]host/x");
        assert_eq!(rules.find(b"\xff-----BEGIN RSA PRIVATE KEY-----\n"), Some("private-key"));
        assert_eq!(rules.find(b"int main(void) { return sk; }"), None);
    }

    #[test]
    fn whole_private_key_is_redacted() {
        let rules = Redaction::default();
        for kind in ["EC PRIVATE KEY", "PRIVATE KEY", "PGP PRIVATE KEY BLOCK"] {
            let (begin, end) = (format!("-----BEGIN {kind}-----"), format!("-----END {kind}-----"));
            let key = format!("a\n{begin}\nProc-Type: 4,ENCRYPTED\n\nMHcC+/AQ==\n{end}\nb");
            assert_eq!(rules.redact(&key), "a\n[redacted]\nb");
            let escaped = format!(r#"{{"key":"{begin}\nMHcCAQ==\n{end}","id":1}}"#);
            assert_eq!(rules.redact(&escaped), r#"{"key":"[redacted]","id":1}"#);
            let escaped = format!(r#"{{"key":"{begin}\nMHcCAQ=="}}"#);
            assert_eq!(rules.redact(&escaped), r#"{"key":"[redacted]"}"#, "it is cut off");
            let rest = rules.redact_after(begin.as_bytes(), "\nMHcCAQ==\n");
            assert_eq!(rest, "[redacted]", "it comes in pieces");
        }
    }

    /// Regression: the letter of an escape hid the start of the word after it, so that secrets on a line of their own in
    /// JSON text stayed on tapes.
    #[test]
    fn secret_after_an_escape_is_redacted() {
        let rules = Redaction::default();
        let secrets = [
            "AKIAIOSFODNN7EXAMPLE",
            "ghp_0123456789abcdefghijABCDEFGHIJ012345",
            "github_pat_0123456789abcdefghijAB",
            "xoxb-123456789012-abcdefghijkl",
            "sk-abcdefghijklmnopqrstuvwxyz0123",
            "Bearer abcdefghijklmnop1234",
        ];
        let escapes =
            ["\n", r"\n", r"\\n", r"\t", r"\r\n", r"\u000a", r"\x0a", r"\012", r"\0", "%20"];
        let colors = ["\u{1b}[0;31m", r"\u001b[31m", r"\033[m\033[K"];
        for (secret, escape) in secrets
            .iter()
            .flat_map(|secret| escapes.iter().chain(&colors).map(move |it| (secret, it)))
        {
            let text = format!("first{escape}{secret}{escape}next");
            assert_eq!(rules.redact(&text), format!("first{escape}[redacted]{escape}next"));
            assert!(rules.find(text.as_bytes()).is_some(), "{text}");
            // In pieces, of which the first ends within the escape.
            let (before, rest) = text.split_at("first".len() + escape.len() - 1);
            let expected = format!("{}[redacted]{escape}next", &escape[escape.len() - 1..]);
            assert_eq!(rules.redact_after(before.as_bytes(), rest), expected, "{text}");
            assert!(rules.find_across(before.as_bytes(), rest.as_bytes()).is_none(), "{text}");
        }
        for text in [
            "a risk-assessment-of-everything",
            "XAKIAIOSFODNN7EXAMPLE",
            "forbearer abcdefghijklmnop1234",
        ] {
            assert_eq!(rules.redact(text), text);
        }
        // A replay of an older tape gets what is on it.
        let before = Redaction::of_version(Version { major: 1, minor: 15 });
        assert_eq!(before.redact(r"\nAKIAIOSFODNN7EXAMPLE"), r"\nAKIAIOSFODNN7EXAMPLE");
        assert_eq!(before.redact("\nAKIAIOSFODNN7EXAMPLE"), "\n[redacted]");
    }

    #[test]
    fn url_password_is_redacted_without_a_user_or_with_a_colon() {
        let rules = Redaction::default();
        assert_eq!(rules.redact("redis://:hunter2@db/0"), "redis[redacted]db/0");
        assert_eq!(rules.redact("http://me:a:b@host"), "http[redacted]host");
        assert_eq!(rules.redact(r"http:\/\/me:pw@host"), "http[redacted]host");
        for url in ["http://host:80/@x", "http://[::1]:80/", "git://host:9 me@host"] {
            assert_eq!(rules.redact(url), url);
        }
    }

    #[test]
    fn custom_rules_work_and_invalid_ones_are_named() {
        let rules = Redaction::with_rules([("pin", r"\bPIN \d{4}\b")]).unwrap();
        assert_eq!(rules.redact("PIN 1234."), "[redacted].");
        assert_eq!(Redaction::with_rules([("open", "(")]).unwrap_err().name, "open");
        assert_eq!(Redaction::none().redact_variable("API_KEY=x"), "API_KEY=x");
    }
}
