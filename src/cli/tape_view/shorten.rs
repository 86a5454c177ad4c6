//! Values of a record, cut to what a page shows: the sender of a tape chooses their lengths.

use serde_json::{Map, Value};

/// Bytes of a text that are kept.
pub const TEXT_BYTES_MAX: usize = 2000;

/// Bytes of all texts of a record that are kept, names of fields included.
const RECORD_BYTES_MAX: usize = 16 << 10;

/// Elements of a list, or fields of an object, that are kept.
const ELEMENTS_MAX: usize = 200;

/// Bytes that a number, a punctuation mark or an empty text counts.
const LEAST_BYTES: usize = 4;

/// JavaScript has numbers beyond only in part: they become texts.
pub const NUMBER_MAX: u64 = (1 << 53) - 1;

/// `text`, cut to `bytes_max` bytes, with a note of how many bytes were left out.
pub fn text(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let kept = &text[..text.floor_char_boundary(bytes_max)];
    format!("{kept}… ({} more bytes)", text.len() - kept.len())
}

/// The fields of a record, cut.
pub fn fields(fields: Map<String, Value>) -> Map<String, Value> {
    let mut left = RECORD_BYTES_MAX;
    object(fields, &mut left)
}

/// Bytes of the fields of a record as JSON.
pub fn len_bytes(fields: &Map<String, Value>) -> usize {
    serde_json::to_vec(fields).map_or(0, |json| json.len())
}

/// A value that stands alone, cut to `bytes_max` bytes of text.
pub fn value(value: Value, bytes_max: usize) -> Value {
    let mut left = bytes_max;
    cut(value, &mut left)
}

fn object(fields: Map<String, Value>, left: &mut usize) -> Map<String, Value> {
    let count = fields.len();
    let mut kept = Map::new();
    for (name, value) in fields.into_iter().take(ELEMENTS_MAX) {
        if *left == 0 {
            break;
        }
        let name = text(&name, TEXT_BYTES_MAX.min(*left));
        *left = left.saturating_sub(name.len() + LEAST_BYTES);
        let value = cut(value, left);
        kept.insert(name, value);
    }
    if kept.len() < count {
        kept.insert("…".to_owned(), format!("{} more fields", count - kept.len()).into());
    }
    kept
}

/// Tapes are read with a bounded depth, so the recursion is bounded.
fn cut(value: Value, left: &mut usize) -> Value {
    match value {
        Value::String(long) => {
            let kept = text(&long, TEXT_BYTES_MAX.min(*left));
            *left = left.saturating_sub(kept.len().max(LEAST_BYTES));
            kept.into()
        }
        Value::Array(values) => {
            let count = values.len();
            let mut kept = Vec::new();
            for value in values.into_iter().take(ELEMENTS_MAX) {
                if *left == 0 {
                    break;
                }
                kept.push(cut(value, left));
            }
            if kept.len() < count {
                kept.push(format!("… ({} more)", count - kept.len()).into());
            }
            kept.into()
        }
        Value::Object(fields) => object(fields, left).into(),
        other => {
            *left = left.saturating_sub(LEAST_BYTES);
            let is_exact = other.as_i64().is_none_or(|it| it.unsigned_abs() <= NUMBER_MAX)
                && other.as_u64().is_none_or(|it| it <= NUMBER_MAX);
            if is_exact { other } else { other.to_string().into() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn long_values_are_cut_with_a_note_and_short_ones_are_not() {
        let short =
            json!({"path": "/worktree/a", "len_bytes": 7, "entries": ["a", null, {"b": 1.5}]});
        assert_eq!(value(short.clone(), RECORD_BYTES_MAX), short);
        assert_eq!(text("äöü", 3), "ä… (4 more bytes)");
        assert_eq!(value(json!([1_u64 << 53, 7, -1.5]), 99), json!(["9007199254740992", 7, -1.5]));
        let long = json!({ "args": vec!["x"; 1000], "env": "y".repeat(10_000) });
        let kept = value(long, RECORD_BYTES_MAX);
        assert_eq!(kept["args"][ELEMENTS_MAX], "… (800 more)");
        assert!(kept["env"].as_str().unwrap().ends_with("y… (8000 more bytes)"));
    }

    #[test]
    fn a_record_has_a_bounded_length_whatever_its_shape() {
        let mut nested = json!("z".repeat(5000));
        for _ in 0..100 {
            nested = json!({ "k".repeat(5000): [nested.clone(), "z".repeat(5000)] });
        }
        let wide: Map<String, Value> =
            (0..100_000).map(|n| (format!("field {n}"), "v".repeat(3000).into())).collect();
        let numbers = Value::from(vec![Value::from(vec![7; 199]); 199]);
        let Value::Object(nested) = nested else { unreachable!() };
        for record in [nested, wide, Map::from_iter([("numbers".to_owned(), numbers)])] {
            let len = serde_json::to_vec(&fields(record)).unwrap().len();
            assert!(len < 4 * RECORD_BYTES_MAX, "{len}");
        }
    }
}
