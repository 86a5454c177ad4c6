//! The command policy: which commands may run, and hooks on those that do.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::pattern::{CommandPattern, Commands, Match, PatternError};
use crate::kernel::vfs::beneath;

/// Default nesting limit of `process.exec`.
const DEPTH_MAX: u32 = 8;

/// Which commands may run.
///
/// It applies to `process.exec` and to every program that a process of the machine starts. The
/// default allows everything; `docs/host.md` says what a policy can stop.
///
/// ```
/// use belljar::host::{CommandPolicy, PreHook};
///
/// let policy = CommandPolicy::new()
///     .deny("rm *")?
///     .approve("git push")?
///     .workspace_root("/worktree")
///     .pre(|params| match params["timeout_ms"].as_u64() {
///         None => PreHook::Deny("a command needs a timeout".into()),
///         Some(_) => PreHook::Proceed,
///     });
/// # Ok::<(), belljar::host::PatternError>(())
/// ```
#[derive(Clone)]
pub struct CommandPolicy {
    pub(super) deny: Vec<Rule>,
    pub(super) approve: Vec<Rule>,
    pub(super) workspace_roots: Vec<String>,
    pub(super) pre: Vec<Pre>,
    pub(super) post: Vec<Post>,
    pub(super) depth_max: u32,
}

impl Default for CommandPolicy {
    fn default() -> Self {
        Self {
            deny: Vec::new(),
            approve: Vec::new(),
            workspace_roots: Vec::new(),
            pre: Vec::new(),
            post: Vec::new(),
            depth_max: DEPTH_MAX,
        }
    }
}

/// A hook's decision on a command.
#[derive(Clone, PartialEq, Debug)]
pub enum PreHook {
    /// Run it.
    Proceed,
    /// Block it, for this reason.
    Deny(String),
    /// Run it with these parameters. They are checked again, except by hooks.
    Change(Value),
}

/// Examines the parameters of a command before it runs.
type PreCheck = Arc<dyn Fn(&Value) -> PreHook + Send + Sync>;

/// Examines and may change the result of a command.
type PostChange = Arc<dyn Fn(&Value, &mut Value) + Send + Sync>;

/// A pattern and its place in a file.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub pattern: CommandPattern,
    pub reason: Option<String>,
    pub place: Option<Place>,
}

/// A place in a policy file.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub file: String,
    pub line: usize,
}

#[derive(Clone)]
pub(super) enum Pre {
    Check(PreCheck),
    /// Denies commands that match, or merges these fields into their parameters.
    Rule(Rule, Option<Value>),
}

#[derive(Clone)]
pub(super) enum Post {
    Change(PostChange),
    /// Merges these fields into the result of commands that match.
    Rule(Rule, Value),
}

/// Why a command does not run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Blocked {
    /// The kind of rule: `deny`, `approve`, `workspace_roots`, `pre`, `depth_max`.
    pub rule: &'static str,
    /// The rule's pattern, if it has one.
    pub pattern: Option<String>,
    /// The file of the rule, if it comes from one.
    pub file: Option<String>,
    /// The line in that file, from 1.
    pub line: Option<usize>,
    /// The reason for the rule, or what to do.
    pub reason: String,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blocked by the command policy: {}", self.rule)?;
        if let Some(pattern) = &self.pattern {
            write!(f, " `{pattern}`")?;
        }
        if let (Some(file), Some(line)) = (&self.file, self.line) {
            write!(f, " ({file}, line {line})")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl Rule {
    fn blocked(&self, rule: &'static str, reason: &str) -> Blocked {
        Blocked {
            rule,
            pattern: Some(self.pattern.to_string()),
            file: self.place.as_ref().map(|place| place.file.clone()),
            line: self.place.as_ref().map(|place| place.line),
            reason: self.reason.clone().unwrap_or_else(|| reason.to_owned()),
        }
    }

    fn unsure(&self, rule: &'static str) -> Blocked {
        let reason = "cannot tell before running whether this matches, and cannot check it while it \
             runs; write the arguments literally";
        Blocked { reason: reason.to_owned(), ..self.blocked(rule, reason) }
    }

    fn of(text: &str) -> Result<Self, PatternError> {
        Ok(Self { pattern: CommandPattern::new(text)?, reason: None, place: None })
    }
}

/// What the patterns say of commands.
#[derive(Default)]
pub(super) struct Verdict {
    /// The rule that blocks them.
    pub blocked: Option<Blocked>,
    /// Indices of the rules that need approval.
    pub approvals: Vec<usize>,
    /// A rule that may match, depending on unknown words.
    pub unsure: Option<Blocked>,
}

impl CommandPolicy {
    /// A policy that allows everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Denies commands that match `pattern`: see [`CommandPattern`].
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn deny(mut self, pattern: &str) -> Result<Self, PatternError> {
        self.deny.push(Rule::of(pattern)?);
        Ok(self)
    }

    /// Runs commands that match `pattern` only if the answer to a question is `yes`.
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn approve(mut self, pattern: &str) -> Result<Self, PatternError> {
        self.approve.push(Rule::of(pattern)?);
        Ok(self)
    }

    /// Restricts commands to `dir` and below. Further calls add directories; the default is
    /// everywhere.
    #[must_use]
    pub fn workspace_root(mut self, dir: impl Into<String>) -> Self {
        self.workspace_roots.push(dir.into());
        self
    }

    /// Calls `check` with the parameters of each `process.exec` before it runs.
    #[must_use]
    pub fn pre(mut self, check: impl Fn(&Value) -> PreHook + Send + Sync + 'static) -> Self {
        self.pre.push(Pre::Check(Arc::new(check)));
        self
    }

    /// Calls `change` with the parameters and the result of each `process.exec`.
    #[must_use]
    pub fn post(mut self, change: impl Fn(&Value, &mut Value) + Send + Sync + 'static) -> Self {
        self.post.push(Post::Change(Arc::new(change)));
        self
    }

    /// Sets how deeply commands may run commands by `process.exec`. Default: 8.
    #[must_use]
    pub fn depth_max(mut self, depth: u32) -> Self {
        self.depth_max = depth;
        self
    }

    /// Whether there are patterns.
    pub(super) fn has_rules(&self) -> bool {
        !self.deny.is_empty() || !self.approve.is_empty()
    }

    /// Whether starts of programs must be checked.
    pub(super) fn checks_starts(&self) -> bool {
        self.has_rules() || !self.workspace_roots.is_empty()
    }

    /// Matches the patterns with `commands`.
    pub(super) fn judge(&self, commands: &Commands) -> Verdict {
        let mut verdict = Verdict::default();
        for rule in &self.deny {
            match commands.best(&rule.pattern) {
                Match::Yes => {
                    verdict.blocked = Some(rule.blocked("deny", "the command is denied"));
                    return verdict;
                }
                Match::Maybe => verdict.unsure = Some(rule.unsure("deny")),
                Match::No => {}
            }
        }
        for (index, rule) in self.approve.iter().enumerate() {
            match commands.best(&rule.pattern) {
                Match::Yes => verdict.approvals.push(index),
                Match::Maybe => verdict.unsure = Some(rule.unsure("approve")),
                Match::No => {}
            }
        }
        verdict
    }

    /// The refusal of a command that the rule `index` did not get approved.
    pub(super) fn not_approved(&self, index: usize, why: &str) -> Blocked {
        self.approve[index].blocked("approve", why)
    }

    /// The question that the rule `index` asks.
    pub(super) fn question(&self, index: usize, command: &str) -> String {
        format!(
            "Run `{command}`? (the policy requires approval for `{}`)",
            self.approve[index].pattern
        )
    }

    /// # Errors
    /// Commands may not run in the directory `dir`.
    pub(super) fn check_dir(&self, dir: &str) -> Result<(), Blocked> {
        let is_within = |root: &String| beneath(root, dir).is_some();
        if self.workspace_roots.is_empty() || self.workspace_roots.iter().any(is_within) {
            return Ok(());
        }
        let roots = self.workspace_roots.join(", ");
        Err(Blocked {
            rule: "workspace_roots",
            pattern: None,
            file: None,
            line: None,
            reason: format!("{dir} is not in {roots}"),
        })
    }

    /// # Errors
    /// Commands may not run within `depth` others.
    pub(super) fn check_depth(&self, depth: u32) -> Result<(), Blocked> {
        if depth < self.depth_max {
            return Ok(());
        }
        Err(Blocked {
            rule: "depth_max",
            pattern: None,
            file: None,
            line: None,
            reason: format!("commands are nested more than {} deep", self.depth_max),
        })
    }

    /// Applies the hooks to the parameters of `commands`; `None` if they do not change them.
    ///
    /// # Errors
    /// A hook denies the command.
    pub(super) fn before(
        &self,
        params: &Value,
        commands: &Commands,
    ) -> Result<Option<Value>, Blocked> {
        let mut changed: Option<Value> = None;
        for hook in &self.pre {
            let current = changed.as_ref().unwrap_or(params);
            match hook {
                Pre::Check(check) => match check(current) {
                    PreHook::Proceed => {}
                    PreHook::Change(other) => changed = Some(other),
                    PreHook::Deny(reason) => {
                        let (pattern, file, line) = (None, None, None);
                        return Err(Blocked { rule: "pre", pattern, file, line, reason });
                    }
                },
                Pre::Rule(rule, set) if commands.best(&rule.pattern) == Match::Yes => match set {
                    None => return Err(rule.blocked("pre", "the command is denied")),
                    Some(set) => {
                        let mut other = current.clone();
                        super::json::merge(&mut other, set);
                        changed = Some(other);
                    }
                },
                Pre::Rule(..) => {}
            }
        }
        Ok(changed.filter(|changed| changed != params))
    }

    /// Lets hooks change `result`; returns whether they did.
    pub(super) fn after(&self, params: &Value, commands: &Commands, result: &mut Value) -> bool {
        if self.post.is_empty() {
            return false;
        }
        let before = result.clone();
        for hook in &self.post {
            match hook {
                Post::Change(change) => change(params, result),
                Post::Rule(rule, set) if commands.best(&rule.pattern) == Match::Yes => {
                    super::json::merge(result, set);
                }
                Post::Rule(..) => {}
            }
        }
        *result != before
    }
}
