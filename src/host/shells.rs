//! Shells: the hermetic one, and those of toolchains and of the host.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::HostError;
use super::json;
use super::session::HostHandle;
use crate::kernel::guest::Guest;
use crate::native::SandboxProfile;

/// The built-in shell.
pub(super) const HERMETIC: &str = "sh";

/// Other known shells, and the options before a command.
const KNOWN: [(&str, &[&str]); 9] = [
    ("bash", &["-c"]),
    ("cmd", &["/C"]),
    ("dash", &["-c"]),
    ("fish", &["-c"]),
    ("ksh", &["-c"]),
    ("nu", &["-c"]),
    ("powershell", &["-NoProfile", "-Command"]),
    ("pwsh", &["-NoProfile", "-Command"]),
    ("zsh", &["-c"]),
];

#[derive(Serialize)]
struct Shell {
    /// Its name.
    id: &'static str,
    /// Whether it runs in the machine only.
    hermetic: bool,
    /// Whether it is the default shell.
    is_default: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoParams {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShellParams {
    id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InvocationParams {
    command: String,
    shell: Option<String>,
}

/// Checks that operation `name` got no parameters.
///
/// # Errors
/// [`HostError::Params`].
pub(super) fn no_params(name: &str, params: &Value) -> Result<(), HostError> {
    json::take(name, params).map(|NoParams {}| ())
}

/// Whether the program `id` runs in the machine only; `None` if there is none.
pub(super) fn is_hermetic(guest: &Guest, id: &str) -> Option<bool> {
    guest.is_hermetic(id).or_else(|| (id == HERMETIC).then_some(true))
}

impl HostHandle {
    fn default_shell(&self) -> String {
        self.state().shell.clone().unwrap_or_else(|| HERMETIC.to_owned())
    }

    /// The shell `id`, or the default shell.
    ///
    /// # Errors
    /// It does not exist, or it is native and the profile allows none.
    pub(super) fn shell(
        &self,
        guest: &Guest,
        name: &str,
        id: Option<&str>,
    ) -> Result<String, HostError> {
        let id = id.map_or_else(|| self.default_shell(), str::to_owned);
        if self.is_taped() {
            return Ok(id);
        }
        let is_known = id == HERMETIC || KNOWN.iter().any(|(known, _)| *known == id);
        match is_hermetic(guest, &id).filter(|_| is_known) {
            Some(true) => Ok(id),
            Some(false) if self.profile() != SandboxProfile::Wasi => Ok(id),
            Some(false) => Err(HostError::failed(
                name,
                format!(
                    "{id} is a native shell, and the sandbox profile `wasi` allows none; use \
                     `{HERMETIC}`"
                ),
            )),
            None => {
                let shells: Vec<_> = self.shells(guest).iter().map(|shell| shell.id).collect();
                let shells = shells.join(", ");
                Err(HostError::failed(name, format!("unknown shell {id:?}; available: {shells}")))
            }
        }
    }

    fn shells(&self, guest: &Guest) -> Vec<Shell> {
        let default = self.default_shell();
        let allows_native = self.profile() != SandboxProfile::Wasi;
        let ids = std::iter::once(HERMETIC).chain(KNOWN.iter().map(|(id, _)| *id));
        ids.filter_map(|id| {
            let hermetic = is_hermetic(guest, id)?;
            let shell = Shell { id, hermetic, is_default: id == default };
            (hermetic || allows_native).then_some(shell)
        })
        .collect()
    }

    pub(super) fn list_shells(
        &self,
        guest: &Guest,
        name: &str,
        params: &Value,
    ) -> Result<Value, HostError> {
        no_params(name, params)?;
        Ok(json!(self.shells(guest)))
    }

    pub(super) fn get_default_shell(&self, name: &str, params: &Value) -> Result<Value, HostError> {
        no_params(name, params)?;
        Ok(self.default_shell().into())
    }

    pub(super) fn set_default_shell(
        &self,
        guest: &Guest,
        name: &str,
        params: &Value,
    ) -> Result<Value, HostError> {
        let ShellParams { id } = json::take(name, params)?;
        let id = self.shell(guest, name, Some(&id))?;
        self.state().shell = Some(id.clone());
        Ok(id.into())
    }

    pub(super) fn shell_invocation(
        &self,
        guest: &Guest,
        name: &str,
        params: &Value,
    ) -> Result<Value, HostError> {
        let InvocationParams { command, shell } = json::take(name, params)?;
        let shell = self.shell(guest, name, shell.as_deref())?;
        Ok(json!({ "shell": shell, "argv": invocation(&shell, &command) }))
    }
}

/// The arguments with which `shell` runs `command`.
pub(super) fn invocation(shell: &str, command: &str) -> Vec<String> {
    let known = KNOWN.iter().find(|(id, _)| *id == shell);
    let options = known.map_or(&["-c"][..], |(_, options)| options);
    let words = std::iter::once(&shell).chain(options).chain(std::iter::once(&command));
    words.map(|word| (*word).to_owned()).collect()
}
