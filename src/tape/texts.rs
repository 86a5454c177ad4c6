//! Redaction of records before they are written.

use serde_json::Value;

use super::header::Header;
use super::launch::Launch;
use super::native::NativeEvent;
use super::record::{Kind, Preopened};
use super::redact::Redaction;

impl Header {
    /// Redacts the header.
    #[must_use]
    pub fn without_secrets(mut self, rules: &Redaction) -> Self {
        self.script_path.iter_mut().for_each(|path| rules.withhold(path));
        self.argv.iter_mut().for_each(|word| rules.withhold_in_variable(word));
        self
    }
}

impl Kind {
    /// Redacts all texts that come from outside. Payloads and contents are already redacted.
    pub(super) fn withhold(&mut self, rules: &Redaction) {
        let text = |text: &mut String| rules.withhold(text);
        match self {
            Self::Machine { config } => withhold_in_value(config, rules),
            Self::ClockLeak { capability_id, .. } => text(capability_id),
            Self::FileStat { path, .. }
            | Self::DirList { path, .. }
            | Self::LinkRead { path, .. }
            | Self::FileRead { path, .. }
            | Self::FileError { path, .. }
            | Self::FileWrite { path, .. }
            | Self::FileDelete { path, .. } => text(path),
            Self::FileRename { from, to } => [from, to].into_iter().for_each(text),
            Self::ProcessSpawn {
                program, argv0, path, args, env, preopens, trees, invoke, ..
            } => {
                text(program);
                argv0.iter_mut().chain(path).chain(invoke).for_each(text);
                let variables = args.iter_mut().chain(env);
                variables.for_each(|variable| rules.withhold_in_variable(variable));
                trees.iter_mut().map(|tree| &mut tree.path).for_each(text);
                for Preopened { path, name, .. } in preopens {
                    [path, name].into_iter().for_each(text);
                }
            }
            Self::ProgramFind { name, launch, error, .. } => {
                text(name);
                error.iter_mut().for_each(text);
                if let Some(Launch { argv0, args, env, trees }) = launch {
                    argv0.iter_mut().for_each(text);
                    trees.iter_mut().map(|tree| &mut tree.path).for_each(text);
                    let variables = args.iter_mut().chain(env);
                    variables.for_each(|variable| rules.withhold_in_variable(variable));
                }
            }
            Self::Change { path, detail, .. } => {
                text(path);
                let is_digest = |name: &str| name.ends_with("content_hash");
                let texts = detail.iter_mut().filter(|(name, _)| !is_digest(name));
                texts.for_each(|(_, value)| withhold_in_value(value, rules));
            }
            Self::LlmCall { model, .. } => text(model),
            Self::Egress { url, host, reason, .. } => {
                [url, host, reason].into_iter().for_each(text);
            }
            Self::HostCall { capability, operation, .. } => {
                [capability, operation].into_iter().for_each(text);
            }
            Self::Native {
                event: NativeEvent::Failed { message } | NativeEvent::Lacking { message },
                ..
            } => text(message),
            Self::Unknown { fields, .. } => {
                fields.values_mut().for_each(|value| withhold_in_value(value, rules));
            }
            Self::ClockRead { .. }
            | Self::ClockSleep { .. }
            | Self::Random { .. }
            | Self::StreamRead { .. }
            | Self::StreamWrite { .. }
            | Self::StreamPoll { .. }
            | Self::StreamError { .. }
            | Self::ProcessExit { .. }
            | Self::Native { .. }
            | Self::ProcessWait { .. }
            | Self::Pipe { .. }
            | Self::Timeout { .. } => {}
        }
    }
}

/// Redacts all texts of `value` but the names of fields, which are those of the format.
fn withhold_in_value(value: &mut Value, rules: &Redaction) {
    match value {
        Value::String(text) => rules.withhold(text),
        Value::Array(values) => values.iter_mut().for_each(|value| withhold_in_value(value, rules)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| withhold_in_value(value, rules));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
