//! Command policies in files.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::json;
use super::pattern::CommandPattern;
use super::policy::{CommandPolicy, Place, Post, Pre, Rule};
use crate::base::disk::{self, DiskError};

/// Size limit of a policy.
const POLICY_BYTES_MAX: u64 = 4 << 20;

/// A policy file cannot be used.
#[derive(thiserror::Error)]
pub enum PolicyError {
    /// The file cannot be read.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The file is too long.
    #[error("{file} exceeds the limit of {POLICY_BYTES_MAX} bytes for a policy")]
    TooLong {
        /// The file.
        file: String,
    },
    /// The file is not a valid policy.
    #[error("{file}, line {line}: {problem}")]
    Line {
        /// The file.
        file: String,
        /// From 1.
        line: usize,
        /// What is wrong, and what is expected.
        problem: String,
    },
}

crate::base::readable::readable!(PolicyError);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File<'f> {
    version: u32,
    #[serde(borrow, default)]
    deny: Vec<&'f RawValue>,
    #[serde(borrow, default)]
    approve: Vec<&'f RawValue>,
    #[serde(borrow, default)]
    workspace_roots: Vec<&'f RawValue>,
    #[serde(borrow, default)]
    pre: Vec<&'f RawValue>,
    #[serde(borrow, default)]
    post: Vec<&'f RawValue>,
    depth_max: Option<u32>,
}

/// A pattern alone, or with a reason.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a pattern, or {\"match\": PATTERN, \"reason\": TEXT}")]
enum FileRule {
    Pattern(String),
    PatternWithReason(PatternWithReason),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PatternWithReason {
    #[serde(rename = "match")]
    pattern: String,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileHook {
    #[serde(rename = "match")]
    pattern: String,
    set: Option<Value>,
    deny: Option<String>,
}

impl CommandPolicy {
    /// Reads a policy from the file `path`: see `docs/host.md`.
    ///
    /// # Errors
    /// [`PolicyError`], with the line.
    pub fn read(path: &Path) -> Result<Self, PolicyError> {
        Self::from_json(&path.display().to_string(), &Self::read_text(path)?)
    }

    /// Reads the text of the file `path`, for [`CommandPolicy::from_json`].
    ///
    /// # Errors
    /// [`PolicyError`]: it cannot be read, is too long, or is not UTF-8.
    pub fn read_text(path: &Path) -> Result<String, PolicyError> {
        let file = path.display().to_string();
        let Some(text) = disk::read_at_most(path, POLICY_BYTES_MAX)? else {
            return Err(PolicyError::TooLong { file });
        };
        let no_text = |_| PolicyError::Line { file, line: 1, problem: "it is not UTF-8".into() };
        String::from_utf8(text).map_err(no_text)
    }

    /// Parses a policy; `file` is its name in messages.
    ///
    /// # Errors
    /// [`PolicyError::Line`].
    pub fn from_json(file: &str, text: &str) -> Result<Self, PolicyError> {
        let source = Source { file, text };
        json::parse(text.as_bytes()).map_err(|error| source.bad(0, &error))?;
        let parsed: File = serde_json::from_str(text).map_err(|error| source.bad(0, &error))?;
        if parsed.version != 1 {
            let problem =
                format!("version {} is not supported; this belljar supports 1", parsed.version);
            return Err(source.error(source.line_of_field("version"), problem));
        }
        let mut policy = Self::default();
        for rule in parsed.deny {
            policy.deny.push(source.rule(rule)?);
        }
        for rule in parsed.approve {
            policy.approve.push(source.rule(rule)?);
        }
        for root in parsed.workspace_roots {
            let root_text: String = source.parse(root)?;
            if !root_text.starts_with('/') {
                let problem = format!("{root_text:?} is not an absolute path of the namespace");
                return Err(source.error(source.line(root), problem));
            }
            policy.workspace_roots.push(root_text);
        }
        for hook in parsed.pre {
            policy.pre.push(match source.hook(hook)? {
                (rule, Some(set), None) => Pre::Rule(rule, Some(set)),
                (mut rule, None, Some(reason)) => {
                    rule.reason = Some(reason);
                    Pre::Rule(rule, None)
                }
                _ => return Err(source.error(source.line(hook), "expected either `set` or `deny`")),
            });
        }
        for hook in parsed.post {
            policy.post.push(match source.hook(hook)? {
                (rule, Some(set), None) => Post::Rule(rule, set),
                _ => return Err(source.error(source.line(hook), "expected `set` only")),
            });
        }
        policy.depth_max = parsed.depth_max.unwrap_or(policy.depth_max);
        Ok(policy)
    }
}

/// A file, for the lines of errors.
struct Source<'f> {
    file: &'f str,
    text: &'f str,
}

impl Source<'_> {
    fn error(&self, line: usize, problem: impl Into<String>) -> PolicyError {
        PolicyError::Line { file: self.file.to_owned(), line, problem: problem.into() }
    }

    /// An error in a part of the file that begins after `before` lines.
    fn bad(&self, before: usize, error: &serde_json::Error) -> PolicyError {
        let text = error.to_string();
        let place = text.rfind(" at line ").filter(|_| error.line() > 0);
        self.error(before + error.line().max(1), &text[..place.unwrap_or(text.len())])
    }

    /// The line of a part of the text, which must be borrowed from it.
    fn line(&self, part: &RawValue) -> usize {
        let at = (part.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let before = self.text.as_bytes().iter().take(at);
        1 + before.filter(|byte| **byte == b'\n').count()
    }

    /// The line that names a top-level field.
    fn line_of_field(&self, name: &str) -> usize {
        let named = format!("\"{name}\"");
        1 + self.text.lines().position(|line| line.contains(&named)).unwrap_or(0)
    }

    fn parse<T: for<'de> Deserialize<'de>>(&self, part: &RawValue) -> Result<T, PolicyError> {
        let before = self.line(part) - 1;
        serde_json::from_str(part.get()).map_err(|error| self.bad(before, &error))
    }

    fn pattern(
        &self,
        part: &RawValue,
        text: &str,
        reason: Option<String>,
    ) -> Result<Rule, PolicyError> {
        let line = self.line(part);
        let pattern =
            CommandPattern::new(text).map_err(|error| self.error(line, error.to_string()))?;
        Ok(Rule { pattern, reason, place: Some(Place { file: self.file.to_owned(), line }) })
    }

    fn rule(&self, part: &RawValue) -> Result<Rule, PolicyError> {
        match self.parse(part)? {
            FileRule::Pattern(pattern) => self.pattern(part, &pattern, None),
            FileRule::PatternWithReason(PatternWithReason { pattern, reason }) => {
                self.pattern(part, &pattern, reason)
            }
        }
    }

    fn hook(&self, part: &RawValue) -> Result<(Rule, Option<Value>, Option<String>), PolicyError> {
        let FileHook { pattern, set, deny } = self.parse(part)?;
        if set.as_ref().is_some_and(|set| !set.is_object()) {
            return Err(self.error(self.line(part), "`set` must be an object of the fields to set"));
        }
        Ok((self.pattern(part, &pattern, None)?, set, deny))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::pattern::Commands;

    fn error(text: &str) -> String {
        match CommandPolicy::from_json("p.json", text) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{text} is a policy"),
        }
    }

    #[test]
    fn block_names_the_file_and_line_of_its_rule() {
        let text = r#"{
            "version": 1,
            "deny": [
                "rm *",
                {"match": "git push * --force", "reason": "history is shared"}
            ],
            "workspace_roots": ["/worktree"]
        }"#;
        let policy = CommandPolicy::from_json("p.json", text).unwrap();
        let words = ["git", "push", "origin", "--force"].map(str::as_bytes);
        let verdict = policy.judge(&Commands::of_words(words));
        assert_eq!(
            verdict.blocked.unwrap().to_string(),
            "blocked by the command policy: deny `git push * --force` (p.json, line 5): \
             history is shared"
        );
        let verdict = policy.judge(&Commands::of_words([b"rm".as_slice(), b"x"]));
        assert_eq!(verdict.blocked.unwrap().line, Some(4));
    }

    #[test]
    fn invalid_policy_is_an_error_with_its_line() {
        for (text, message) in [
            ("{", "p.json, line 1: EOF"),
            ("{\n\"version\": 2}", "p.json, line 2: version 2"),
            ("{}", "missing field `version`"),
            ("{\"version\": 1,\n\"denies\": []}", "p.json, line 2: unknown field `denies`"),
            ("{\"version\": 1,\n\"version\": 1}", "p.json, line 2: duplicate field \"version\""),
            (
                "{\"version\": 1, \"deny\": [\n\n\"a | b\"]}",
                "p.json, line 3: invalid command pattern \"a | b\"",
            ),
            (
                "{\"version\": 1, \"deny\": [\n{\"match\": \"a\", \"why\": 1}]}",
                "p.json, line 2: expected a pattern",
            ),
            (
                "{\"version\": 1, \"workspace_roots\": [\n\"src\"]}",
                "line 2: \"src\" is not an absolute",
            ),
            (
                "{\"version\": 1, \"pre\": [\n{\"match\": \"a\"}]}",
                "line 2: expected either `set` or `deny`",
            ),
            (
                "{\"version\": 1, \"pre\": [\n{\"match\": \"a\", \"set\": 1}]}",
                "line 2: `set` must be an object",
            ),
            (
                "{\"version\": 1, \"pre\": [\n{\"match\": \"a\",\n\"sets\": {}}]}",
                "line 3: unknown field",
            ),
            (
                "{\"version\": 1, \"post\": [\n{\"match\": \"a\", \"deny\": \"b\"}]}",
                "line 2: expected `set` only",
            ),
            (
                "{\"version\": 1, \"post\": [{\"match\": \"a\", \"set\": {\"x\": 1,\n\"x\": 2}}]}",
                "line 2: duplicate field \"x\"",
            ),
        ] {
            let error = error(text);
            assert!(error.contains(message), "{error}\n{message}");
        }
    }
}
