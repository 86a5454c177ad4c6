//! Keeps secrets out of JSON.

use serde_json::Value;

use super::provider::{LlmDelta, LlmResponse};
use crate::tape::Redaction;

const REDACTED: &str = "[redacted]";

/// Applies `change` to every text in `value`, with the key that it stands under.
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

/// Takes the secrets out of `value`: what a rule finds, and text under a key whose name says that it
/// is one.
pub(super) fn redact(value: &mut Value, rules: &Redaction) {
    for_each_text(value, &mut |key, text| {
        // A secret's name is what the rules for variables, and no others, find without a value.
        let variable = format!("{key}=");
        let is_secret_name = rules.redact_variable(&variable) != rules.redact(&variable);
        *text = if is_secret_name { REDACTED.to_owned() } else { rules.redact(text) };
    });
}

/// Takes the secrets out of an answer whose lists may be pieces of what they came in; answers whether
/// there were any.
pub(super) fn redact_response(response: &mut LlmResponse, rules: &Redaction) -> bool {
    // The pieces are not put together: their texts, one after the other, are looked at.
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

/// Takes the secrets out of the pieces of an answer. If there are any, the pieces become one: a
/// secret may lie across them.
pub(super) fn redact_deltas(deltas: &mut Vec<LlmDelta>, rules: &Redaction) {
    let mut whole = LlmDelta::default();
    for delta in &*deltas {
        whole.append(delta);
    }
    if redact_response(&mut whole, rules) {
        *deltas = vec![whole];
    }
}
