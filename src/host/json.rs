//! Strict JSON of bounded depth, from guests and files.

use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Number, Value};

use super::error::HostError;

/// Parses `text`. The depth limit is that of `serde_json`, 128.
///
/// # Errors
/// It is not JSON, too deep, or has a duplicate field; with line and column.
pub fn parse(text: &[u8]) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Strict.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Refuses duplicate fields, of which some parsers take the first and others the last.
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element_seed(Self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            if fields.contains_key(&name) {
                return Err(A::Error::custom(format_args!("duplicate field {name:?}")));
            }
            fields.insert(name, entries.next_value_seed(Self)?);
        }
        Ok(Value::Object(fields))
    }
}

/// Deserializes the parameters of operation `name`.
///
/// # Errors
/// [`HostError::Params`], naming a missing, unknown or mistyped field.
pub fn take<T: DeserializeOwned>(name: &str, params: &Value) -> Result<T, HostError> {
    T::deserialize(params).map_err(|error| HostError::params(name, error.to_string()))
}

/// Whether `value` has all of `part`: fields of objects at any depth; other values must be equal.
pub fn includes(value: &Value, part: &Value) -> bool {
    match (value, part) {
        (Value::Object(fields), Value::Object(parts)) => parts
            .iter()
            .all(|(name, part)| fields.get(name).is_some_and(|value| includes(value, part))),
        (value, part) => value == part,
    }
}

/// Merges `change` into `value`: fields of objects at any depth; other values are replaced.
pub fn merge(value: &mut Value, change: &Value) {
    match (value, change) {
        (Value::Object(fields), Value::Object(changes)) => {
            for (name, change) in changes {
                merge(fields.entry(name.clone()).or_insert(Value::Null), change);
            }
        }
        (value, change) => *value = change.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn duplicate_field_is_an_error_with_its_line() {
        let error = parse(b"{\"a\": 1,\n \"b\": {\"c\": 1, \"c\": 2}}").unwrap_err();
        assert_eq!(error.line(), 2);
        assert!(error.to_string().contains("duplicate field \"c\""), "{error}");
    }

    #[test]
    fn invalid_or_too_deep_json_is_refused() {
        assert_eq!(
            parse(b"[null, true, -1, 1.5, \"x\"]").unwrap(),
            json!([null, true, -1, 1.5, "x"])
        );
        assert!(parse(b"1 2").is_err() && parse(b"").is_err() && parse(b"\xff").is_err());
        let deep = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(deep(100).as_bytes()).is_ok());
        assert!(parse(deep(200).as_bytes()).is_err());
        assert!(parse("[".repeat(1_000_000).as_bytes()).is_err());
    }

    #[test]
    fn includes_and_merge_recurse_into_objects_only() {
        let value = json!({ "a": { "b": 1, "c": [1, 2] }, "d": null });
        for part in [json!({}), json!({ "a": { "b": 1 } }), json!({ "d": null }), value.clone()] {
            assert!(includes(&value, &part), "{part}");
        }
        for other in [json!({ "a": { "c": [1] } }), json!({ "e": null }), json!([]), json!(null)] {
            assert!(!includes(&value, &other), "{other}");
        }
        let mut merged = value;
        merge(&mut merged, &json!({ "a": { "c": [3] }, "e": { "f": 1 } }));
        assert_eq!(merged, json!({ "a": { "b": 1, "c": [3] }, "d": null, "e": { "f": 1 } }));
    }
}
