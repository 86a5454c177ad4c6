//! Bytes on a process tape.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum length of shown bytes, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// Bytes on a process tape: a string if they are UTF-8, else `{"base64": "…"}`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct TapedBytes(pub Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a string, or an object with a string `base64`")]
enum Form<T> {
    Text(T),
    Binary { base64: String },
}

impl TapedBytes {
    /// As text, for messages.
    pub(super) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

impl<T: AsRef<[u8]> + ?Sized> From<&T> for TapedBytes {
    fn from(bytes: &T) -> Self {
        Self(bytes.as_ref().to_vec())
    }
}

impl Serialize for TapedBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => Form::Text(text),
            Err(_) => Form::Binary { base64: STANDARD.encode(&self.0) },
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TapedBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Form::<String>::deserialize(deserializer)? {
            Form::Text(text) => Ok(Self(text.into_bytes())),
            Form::Binary { base64 } => {
                STANDARD.decode(base64).map(Self).map_err(serde::de::Error::custom)
            }
        }
    }
}

/// Quoted, with other bytes than UTF-8 escaped, and cut short.
impl fmt::Debug for TapedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = self.0.utf8_chunks().flat_map(|chunk| {
            let invalid = chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}"));
            chunk.valid().chars().map(|c| c.escape_debug().to_string()).chain(invalid)
        });
        let mut shown: Vec<String> = escaped.take(SHOWN_CHARS_MAX + 1).collect();
        let is_long = shown.len() > SHOWN_CHARS_MAX;
        shown.truncate(SHOWN_CHARS_MAX);
        write!(f, "\"{}\"", shown.concat())?;
        if is_long { write!(f, "… ({} bytes)", self.0.len()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip_as_text_or_base64() {
        let json = |bytes: &[u8]| serde_json::to_string(&TapedBytes::from(bytes)).unwrap();
        assert_eq!(json(b"na\xc3\xafve\n\0"), "\"na\u{ef}ve\\n\\u0000\"");
        assert_eq!(json(b"\xff\x00"), r#"{"base64":"/wA="}"#);
        assert_eq!(json(b"{\"base64\":\"\"}"), r#""{\"base64\":\"\"}""#);
        for bytes in [&b"text"[..], b"", b"\xff\x00", b"{\"base64\":\"\"}"] {
            assert_eq!(serde_json::from_str::<TapedBytes>(&json(bytes)).unwrap().0, bytes);
        }
    }

    #[test]
    fn neither_string_nor_base64_is_refused() {
        for (json, reason) in [
            ("1", "expected a string"),
            (r#"{"base65":"/wA="}"#, "expected a string"),
            (r#"{"base64":"/w"}"#, "padding"),
            (r#"{"base64":"?"}"#, "Invalid"),
        ] {
            let error = serde_json::from_str::<TapedBytes>(json).unwrap_err().to_string();
            assert!(error.contains(reason), "{json}: {error}");
        }
    }

    #[test]
    fn debug_output_is_escaped_and_truncated() {
        assert_eq!(format!("{:?}", TapedBytes::from(b"a\"\n\xff")), r#""a\"\n\xff""#);
        let long = format!("{:?}", TapedBytes(vec![b'x'; 1 << 20]));
        assert_eq!(long, format!("\"{}\"… (1048576 bytes)", "x".repeat(SHOWN_CHARS_MAX)));
    }
}
