//! The differences of two records, shortened for a screen.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tape::header::Header;
use crate::tape::record::{Kind, Record};

/// Maximum length of a record or value in a report, in characters.
const TEXT_CHARS_MAX: usize = 240;

/// Characters shown before the first difference of two values.
const CONTEXT_CHARS: usize = 24;

/// Limit of fields shown per record, which may have many arguments.
const FIELDS_MAX: usize = 16;

/// A field in which two records or headers differ.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FieldDifference {
    /// Its name; nested fields have a path with dots.
    pub field: String,
    /// The recorded value as JSON, shortened around the first difference; `null` if missing.
    pub recorded: String,
    /// The value of the replay, likewise.
    pub replay: String,
}

/// The fields that differ, at most 16, and their number.
pub(super) fn differences(recorded: &Kind, replay: &Kind) -> (Vec<FieldDifference>, usize) {
    let found = Found::between(&recorded.fields().into(), &replay.fields().into());
    (found.differences, found.count)
}

/// The fields of two headers that differ, at most 16.
pub(super) fn header_differences(recorded: &Header, replay: &Header) -> Vec<FieldDifference> {
    let json = |header: &Header| serde_json::to_value(header).expect("headers are JSON objects");
    Found::between(&json(recorded), &json(replay)).differences
}

#[derive(Default)]
struct Found {
    differences: Vec<FieldDifference>,
    count: usize,
}

impl Found {
    fn between(recorded: &Value, replay: &Value) -> Self {
        let mut found = Self::default();
        found.compare("", recorded, replay);
        found
    }

    /// Descends while both have the same shape.
    fn compare(&mut self, field: &str, recorded: &Value, replay: &Value) {
        let name = |part: &str| match field {
            "" => part.to_owned(),
            field => format!("{field}.{part}"),
        };
        match (recorded, replay) {
            (recorded, replay) if recorded == replay => {}
            (Value::Object(a), Value::Object(b)) => {
                for (part, value) in a {
                    self.compare(&name(part), value, b.get(part).unwrap_or(&Value::Null));
                }
                for (part, value) in b.iter().filter(|(part, _)| !a.contains_key(*part)) {
                    self.compare(&name(part), &Value::Null, value);
                }
            }
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
                for (index, (a, b)) in a.iter().zip(b).enumerate() {
                    self.compare(&name(&index.to_string()), a, b);
                }
            }
            (recorded, replay) => {
                self.count += 1;
                if self.differences.len() < FIELDS_MAX {
                    let (recorded, replay) = excerpts(&recorded.to_string(), &replay.to_string());
                    let field = printable(field.chars());
                    self.differences.push(FieldDifference { field, recorded, replay });
                }
            }
        }
    }
}

/// Both texts around the first difference.
fn excerpts(a: &str, b: &str) -> (String, String) {
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let longer = a.chars().count().max(b.chars().count());
    let skip = if longer <= TEXT_CHARS_MAX { 0 } else { same.saturating_sub(CONTEXT_CHARS) };
    (excerpt(a, skip), excerpt(b, skip))
}

fn excerpt(text: &str, skip: usize) -> String {
    let mut shown = String::from(if skip > 0 { "…" } else { "" });
    let mut rest = text.chars().skip(skip);
    shown.push_str(&printable(rest.by_ref().take(TEXT_CHARS_MAX)));
    if rest.next().is_some() {
        shown.push('…');
    }
    shown
}

/// Escapes control characters: a tape may come from an untrusted source.
fn printable(text: impl Iterator<Item = char>) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    text.map(escape).collect()
}

/// A name from a tape, shortened and escaped.
pub(super) fn name(text: &str) -> String {
    excerpt(text, 0)
}

/// A record as JSON, shortened and escaped.
pub(super) fn line(record: &Record) -> String {
    excerpt(&serde_json::to_string(record).expect("records are JSON objects"), 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields_of(a: Value, b: Value) -> Vec<String> {
        let kind = |fields: Value| match fields {
            Value::Object(fields) => Kind::Unknown { kind: "k".into(), fields },
            other => panic!("{other}"),
        };
        let (differences, count) = differences(&kind(a), &kind(b));
        assert!(differences.len() == count.min(FIELDS_MAX));
        let text = |d: FieldDifference| format!("{}: {} {}", d.field, d.recorded, d.replay);
        differences.into_iter().map(text).collect()
    }

    #[test]
    fn nested_differences_have_paths() {
        let a = json!({"a": 1, "b": {"c": [1, 2], "d": "x"}, "e": 0});
        let b = json!({"a": 1, "b": {"c": [1, 3], "d": "x"}, "f": []});
        assert_eq!(fields_of(a, b), ["b.c.1: 2 3", "e: 0 null", "f: null []"]);
        let many = |n: i32| json!({"args": vec![n; 100]});
        assert_eq!(fields_of(many(1), many(2)).len(), FIELDS_MAX);
    }

    #[test]
    fn long_values_are_shown_around_the_difference() {
        let text = |end: &str| json!({"text": "ä".repeat(5000) + end});
        let shown = fields_of(text("one"), text("two")).remove(0);
        assert!(shown.contains("ääone\"") && shown.contains("äätwo\""), "{shown}");
        assert!(shown.chars().count() < 200, "{shown}");
    }

    #[test]
    fn control_characters_are_escaped_in_reports() {
        let shown =
            fields_of(json!({"\u{9b}2J": 1}), json!({"\u{9b}2J": "\u{1b}[2J\u{9b}"})).remove(0);
        assert!(!shown.chars().any(char::is_control), "{shown:?}");
    }
}
