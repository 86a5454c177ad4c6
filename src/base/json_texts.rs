//! All texts in a JSON value.

use serde_json::Value;

/// Calls `change` with each text in `value`, also with the names of fields.
pub fn change_texts(value: &mut Value, change: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(values) => values.iter_mut().for_each(|value| change_texts(value, change)),
        Value::Object(fields) => {
            for (mut name, mut value) in std::mem::take(fields) {
                change(&mut name);
                change_texts(&mut value, change);
                fields.insert(name, value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
