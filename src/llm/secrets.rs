//! Redaction of JSON.

use serde_json::Value;

use super::provider::{LlmDelta, LlmResponse};
use crate::tape::Redaction;

const REDACTED: &str = "[redacted]";

/// Calls `change` with every string in `value` and the key above it.
pub(super) fn for_each_text(value: &mut Value, change: &mut dyn FnMut(&str, &mut String)) {
    fn walk(key: &str, value: &mut Value, change: &mut dyn FnMut(&str, &mut String)) {
        match value {
            Value::String(text) => change(key, text),
            Value::Array(items) => items.iter_mut().for_each(|item| walk(key, item, change)),
            Value::Object(map) => map.iter_mut().for_each(|(key, item)| walk(key, item, change)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    walk("", value, change);
}

/// Redacts `value`: what a rule matches, and strings under a key that a rule for names matches.
pub(super) fn redact(value: &mut Value, rules: &Redaction) {
    for_each_text(value, &mut |key, text| {
        // A name is secret if the rules for variables, and only these, match `NAME=`.
        let variable = format!("{key}=");
        let is_secret_name = rules.redact_variable(&variable) != rules.redact(&variable);
        *text = if is_secret_name { REDACTED.to_owned() } else { rules.redact(text) };
    });
}

/// Redacts an answer whose lists may hold pieces of values; returns whether there were secrets.
pub(super) fn redact_response(response: &mut LlmResponse, rules: &Redaction) -> bool {
    // Pieces are not combined: a secret is searched in their concatenated texts.
    let mut extra = String::new();
    for value in response.extra.values_mut() {
        for_each_text(value, &mut |_, text| extra.push_str(text));
    }
    let in_extra = rules.find(extra.as_bytes()).is_some();
    if in_extra {
        for value in response.extra.values_mut() {
            for_each_text(value, &mut |_, text| REDACTED.clone_into(text));
        }
    }
    let in_content = rules.find(response.content.as_bytes()).is_some();
    response.content = rules.redact(&response.content);
    in_extra || in_content
}

/// Redacts the pieces of an answer. If there are secrets, the pieces become one, as a secret may
/// span several.
pub(super) fn redact_deltas(deltas: &mut Vec<LlmDelta>, rules: &Redaction) {
    let mut whole = LlmDelta::default();
    for delta in &*deltas {
        whole.append(delta);
    }
    if redact_response(&mut whole, rules) {
        *deltas = vec![whole];
    }
}
