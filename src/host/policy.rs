//! The command policy: which commands may run, and what is done to those that do.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::pattern::{CommandPattern, Commands, Match, PatternError};
use crate::kernel::vfs::beneath;

/// Commands within commands, unless told otherwise.
const DEPTH_MAX: u32 = 8;

/// Which commands may run.
///
/// It holds for `process.exec`, and for every program that a process of the machine starts. By default
/// it lets everything run; `docs/host.md` says what it can stop, and what not.
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

/// What a hook says of a command that is about to run.
#[derive(Clone, PartialEq, Debug)]
pub enum PreHook {
    /// It runs.
    Proceed,
    /// It does not, and this is why.
    Deny(String),
    /// It runs with these parameters instead. They are checked like any others, but by hooks.
    Change(Value),
}

/// Looks at the parameters of a command before it runs.
type PreCheck = Arc<dyn Fn(&Value) -> PreHook + Send + Sync>;

/// Looks at the parameters and the result of a command, which it may change.
type PostChange = Arc<dyn Fn(&Value, &mut Value) + Send + Sync>;

/// A pattern, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub pattern: CommandPattern,
    pub reason: Option<String>,
    pub place: Option<Place>,
}

/// Where a rule stands.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub file: String,
    pub line: usize,
}

#[derive(Clone)]
pub(super) enum Pre {
    Check(PreCheck),
    /// Commands that match are denied, or get what is set.
    Rule(Rule, Option<Value>),
}

#[derive(Clone)]
pub(super) enum Post {
    Change(PostChange),
    /// What is set of the result of commands that match.
    Rule(Rule, Value),
}

/// Why a command does not run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Blocked {
    /// What kind of rule it is: `deny`, `approve`, `workspace_roots`, `pre`, `depth_max`.
    pub rule: &'static str,
    /// Its pattern, if it has one.
    pub pattern: Option<String>,
    /// The file in which it stands, if it does.
    pub file: Option<String>,
    /// The line in that file, from 1.
    pub line: Option<usize>,
    /// Why the rule is there, or what to do.
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
        let reason = "whether the command is that is not known before it runs, and nobody could look \
                      then; write its words out";
        Blocked { reason: reason.to_owned(), ..self.blocked(rule, reason) }
    }

    fn of(text: &str) -> Result<Self, PatternError> {
        Ok(Self { pattern: CommandPattern::new(text)?, reason: None, place: None })
    }
}

/// What a policy says of commands.
#[derive(Default)]
pub(super) struct Verdict {
    /// They do not run.
    pub blocked: Option<Blocked>,
    /// Those rules that want to be asked for, by their number.
    pub approvals: Vec<usize>,
    /// They may do what is denied, which is not known yet.
    pub unsure: Option<Blocked>,
}

impl CommandPolicy {
    /// A policy that lets everything run.
    pub fn new() -> Self {
        Self::default()
    }

    /// Commands that match `pattern` do not run: see [`CommandPattern`].
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn deny(mut self, pattern: &str) -> Result<Self, PatternError> {
        self.deny.push(Rule::of(pattern)?);
        Ok(self)
    }

    /// Commands that match `pattern` run if whoever answers questions says `yes`.
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn approve(mut self, pattern: &str) -> Result<Self, PatternError> {
        self.approve.push(Rule::of(pattern)?);
        Ok(self)
    }

    /// Commands run in `dir` and below alone, or in another root. Without any they run anywhere.
    #[must_use]
    pub fn workspace_root(mut self, dir: impl Into<String>) -> Self {
        self.workspace_roots.push(dir.into());
        self
    }

    /// Asks `check` before each `process.exec`, with its parameters.
    #[must_use]
    pub fn pre(mut self, check: impl Fn(&Value) -> PreHook + Send + Sync + 'static) -> Self {
        self.pre.push(Pre::Check(Arc::new(check)));
        self
    }

    /// Lets `change` see and change the result of each `process.exec`, with the parameters.
    #[must_use]
    pub fn post(mut self, change: impl Fn(&Value, &mut Value) + Send + Sync + 'static) -> Self {
        self.post.push(Post::Change(Arc::new(change)));
        self
    }

    /// How deep commands may be within commands that they run by `process.exec`. Default: 8.
    #[must_use]
    pub fn depth_max(mut self, depth: u32) -> Self {
        self.depth_max = depth;
        self
    }

    /// Whether patterns are to be looked at.
    pub(super) fn has_rules(&self) -> bool {
        !self.deny.is_empty() || !self.approve.is_empty()
    }

    /// Whether it has to be asked when a program starts.
    pub(super) fn checks_starts(&self) -> bool {
        self.has_rules() || !self.workspace_roots.is_empty()
    }

    /// What the patterns say of `commands`.
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

    /// Why a command that the rule `index` wants to be asked for does not run.
    pub(super) fn not_approved(&self, index: usize, why: &str) -> Blocked {
        self.approve[index].blocked("approve", why)
    }

    /// The question that the rule `index` asks.
    pub(super) fn question(&self, index: usize, command: &str) -> String {
        format!("Run `{command}`? (the policy wants to know of `{}`)", self.approve[index].pattern)
    }

    /// # Errors
    /// A command may not run in the directory `dir`.
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
            reason: format!("{dir} is not within {roots}"),
        })
    }

    /// # Errors
    /// A command may not run within `depth` others.
    pub(super) fn check_depth(&self, depth: u32) -> Result<(), Blocked> {
        if depth < self.depth_max {
            return Ok(());
        }
        Err(Blocked {
            rule: "depth_max",
            pattern: None,
            file: None,
            line: None,
            reason: format!("commands run commands, {} deep", self.depth_max),
        })
    }

    /// What hooks make of `params`, which are those of `commands`; `None` if they leave them.
    ///
    /// # Errors
    /// One of them denies it.
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

    /// Lets hooks change `result`; answers whether they did.
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
