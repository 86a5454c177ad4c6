//! `process.exec`: parameters, policy, and the run.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::caller::Caller;
use super::error::HostError;
use super::exec_result::{self, Span};
use super::io::{self, Done};
use super::json;
use super::pattern::Commands;
use super::policy::{Blocked, Verdict};
use super::session::Running;
use super::shells;
use crate::kernel::guest::SpawnRequest;
use crate::kernel::machine::clock::ClockId;
use crate::kernel::process::Pid;
use crate::native::SandboxProfile;

/// The operation.
pub(super) const EXEC: &str = "process.exec";

/// Parameters of `process.exec`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    mode: Option<Mode>,
    argv: Option<Vec<String>>,
    command: Option<String>,
    shell: Option<String>,
    cwd: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    env_mode: EnvMode,
    #[serde(default)]
    env_remove: Vec<String>,
    timeout_ms: Option<u64>,
    sandbox_profile: Option<SandboxProfile>,
    #[serde(default)]
    stdin: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Argv,
    Shell,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum EnvMode {
    /// Only the variables that are set.
    Replace,
    /// The caller's environment and the variables that are set.
    #[default]
    Merge,
}

/// A command that was requested.
pub(super) struct Exec {
    params: Params,
    /// The program and its arguments.
    argv: Vec<String>,
    /// The command, for messages.
    shown: String,
    /// Its directory, links followed.
    dir: String,
    /// Whether it runs in the machine only: then every start is checked.
    is_hermetic: bool,
    /// The command and the commands that its text is known to contain.
    pub commands: Commands,
}

/// The policy's approval of a command.
pub(super) struct Approval {
    /// Indices of the `approve` rules that were approved.
    approved: Vec<usize>,
    /// The rule that may apply to a later start.
    unsure: Option<Blocked>,
}

impl Approval {
    /// # Errors
    /// The command would run where starts cannot be checked, and may start something denied.
    pub fn unwatched(&self) -> Result<(), Blocked> {
        self.unsure.clone().map_or(Ok(()), Err)
    }
}

impl Caller {
    /// Parses the parameters of a command.
    ///
    /// # Errors
    /// [`HostError`]: they are invalid, or the shell does not exist.
    pub(super) fn exec(&mut self, params: &Value) -> Result<Exec, HostError> {
        let params: Params = json::take(EXEC, params)?;
        // Before anything can fail, as a replay resolves it as well.
        let dir = match &params.cwd {
            None => ".".to_owned(),
            Some(dir) if dir.starts_with('/') => dir.clone(),
            Some(dir) => format!("{}/{dir}", self.project_root()),
        };
        let dir = self.guest.real_dir(&dir);
        let bad = |problem: &str| Err(HostError::params(EXEC, problem));
        let argv = match (params.mode, &params.argv, &params.command) {
            (None | Some(Mode::Argv), Some(argv), None) if params.shell.is_none() => argv.clone(),
            (None | Some(Mode::Shell), None, Some(command)) => {
                let shell = self.host.shell(&self.guest, EXEC, params.shell.as_deref())?;
                shells::invocation(&shell, command)
            }
            (_, Some(_), Some(_)) => return bad("`argv` and `command` are mutually exclusive"),
            (Some(Mode::Argv), ..) => return bad("mode `argv` needs `argv` and no `shell`"),
            (Some(Mode::Shell), ..) => return bad("mode `shell` needs `command`"),
            _ => return bad("expected `argv`, or `command` and optionally `shell`"),
        };
        if argv.first().is_none_or(String::is_empty) {
            return bad("`argv` must begin with the name of a program");
        }
        let is_variable = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
        if let Some(name) = params.env.keys().chain(&params.env_remove).find(|n| !is_variable(n)) {
            return bad(&format!("{name:?} is not a valid variable name"));
        }
        let texts = argv.iter().chain(params.env.values()).chain(&params.cwd);
        if texts.into_iter().any(|text| text.contains('\0')) {
            return bad("arguments, variables and paths must not contain NUL");
        }
        if params.timeout_ms == Some(0) {
            return bad("`timeout_ms` must be at least 1");
        }
        if let Some(asked) = params.sandbox_profile
            && asked != self.host.profile()
            && !self.host.is_taped()
        {
            let profile = self.host.profile();
            return bad(&format!("this session runs commands in the sandbox profile `{profile}`"));
        }
        // Only needed to judge the command, which a replay does not.
        let is_hermetic = self.host.is_taped()
            || argv[0].contains('/')
            || shells::is_hermetic(&self.guest, &argv[0]) != Some(false);
        let commands = Commands::of_words(argv.iter().map(String::as_bytes));
        let shown = params.command.clone().unwrap_or_else(|| argv.join(" "));
        Ok(Exec { params, argv, shown, dir, is_hermetic, commands })
    }

    /// Applies the policy to `exec`, except hooks.
    ///
    /// # Errors
    /// It may not run.
    pub(super) fn judge(&self, exec: &Exec) -> Result<Approval, Blocked> {
        let policy = self.host.policy();
        policy.check_depth(self.depth)?;
        policy.check_dir(&exec.dir)?;
        let Verdict { blocked, approvals, unsure } = policy.judge(&exec.commands);
        if let Some(blocked) = blocked {
            return Err(blocked);
        }
        for index in &approvals {
            let words = exec.argv.iter().map(|word| word.clone().into_bytes()).collect();
            self.host.approve(*index, words, &exec.shown)?;
        }
        let judged = Approval { approved: approvals, unsure };
        if !exec.is_hermetic {
            judged.unwatched()?;
        }
        Ok(judged)
    }

    /// Runs `exec` as command `number`.
    ///
    /// # Errors
    /// [`HostError`] if it cannot be started.
    pub(super) async fn run_exec(
        &mut self,
        number: u64,
        exec: Exec,
        judged: Option<Approval>,
    ) -> Done<Value> {
        let environ = self.environ(&exec.params);
        let Exec { params, argv, dir, .. } = exec;
        let has_dir = params.cwd.is_some();
        let args: Vec<Vec<u8>> = argv.iter().map(|arg| arg.clone().into_bytes()).collect();
        let request = SpawnRequest {
            program: argv[0].clone(),
            args,
            environ,
            current_dir: has_dir.then_some(dir),
            ..SpawnRequest::default()
        };
        // What does not fit into an answer is not kept; base64 takes more room than text.
        let kept_bytes_max = usize::try_from(self.answer_bytes_max() / 4).unwrap_or(usize::MAX);
        // Charged while it runs: the output, by stream and combined.
        let mut charge = self.guest.machine().run.memory.charge();
        charge
            .grow(3 * kept_bytes_max as u64)
            .map_err(|error| HostError::failed(EXEC, error.to_string()))?;
        let started_ns = io::now(&mut self.guest, ClockId::Realtime).await?;
        let began_ns = io::now(&mut self.guest, ClockId::Monotonic).await?;
        let mut first = Pid::MACHINE;
        let host = self.host.clone();
        let began = |pid| {
            first = pid;
            let approved = judged.map(|judged| judged.approved).unwrap_or_default();
            host.state().running.insert(pid, Running { approved, blocked: None });
        };
        let timeout_ns = params.timeout_ms.map(|ms| ms.saturating_mul(1_000_000));
        let input = params.stdin.into_bytes();
        let ran = io::run(&mut self.guest, request, input, timeout_ns, kept_bytes_max, began).await;
        let running = self.host.state().running.remove(&first);
        let ran = ran?.map_err(|why| HostError::failed(EXEC, why))?;
        let ended_ns = io::now(&mut self.guest, ClockId::Realtime).await?;
        let over_ns = io::now(&mut self.guest, ClockId::Monotonic).await?;
        let span = Span { started_ns, ended_ns, duration_ns: over_ns.saturating_sub(began_ns) };
        let blocked = running.and_then(|running| running.blocked);
        let result = |kept| exec_result::of_run(number, &span, &ran, blocked.as_ref(), kept);
        let whole = result(kept_bytes_max);
        let is_short = whole.to_string().len() as u64 + 64 <= self.answer_bytes_max();
        Ok(if is_short { whole } else { result(kept_bytes_max / 4) })
    }

    fn environ(&self, params: &Params) -> Vec<Vec<u8>> {
        let name_of = |variable: &[u8]| {
            variable.split(|byte| *byte == b'=').next().unwrap_or_default().to_vec()
        };
        let is_removed = |name: &[u8]| {
            let removed = params.env_remove.iter().chain(params.env.keys());
            removed.into_iter().any(|removed| removed.as_bytes() == name)
        };
        let inherited = match params.env_mode {
            EnvMode::Replace => &[][..],
            EnvMode::Merge => self.guest.environ(),
        };
        let kept = inherited.iter().filter(|variable| !is_removed(&name_of(variable))).cloned();
        let set = params.env.iter().map(|(name, value)| format!("{name}={value}").into_bytes());
        kept.chain(set).collect()
    }
}
