//! A body in JSON: the field `body` if it is UTF-8, else `body_base64`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

/// Puts `bytes` into `object`.
pub fn put(object: &mut Value, bytes: Vec<u8>) {
    match String::from_utf8(bytes) {
        Ok(text) => object["body"] = text.into(),
        Err(error) => object["body_base64"] = BASE64.encode(error.as_bytes()).into(),
    }
}

/// The bytes that `text`, a field `body_base64`, stands for.
///
/// # Errors
/// It is no base64.
pub fn decode(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    BASE64.decode(text)
}

/// The bytes in `object`; none if it has neither field.
///
/// # Errors
/// The field `body_base64` is no base64.
pub fn get(object: &Value) -> Result<Vec<u8>, base64::DecodeError> {
    match (object["body"].as_str(), object["body_base64"].as_str()) {
        (Some(text), _) => Ok(text.as_bytes().to_vec()),
        (None, Some(text)) => decode(text),
        (None, None) => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bytes_come_back_as_they_were() {
        for bytes in [&b""[..], b"text", "é\0".as_bytes(), b"\xff\x00", b"a\xc3"] {
            let mut object = json!({});
            put(&mut object, bytes.to_vec());
            assert_eq!(get(&object).unwrap(), bytes);
        }
        assert_eq!(get(&json!({})).unwrap(), b"");
        assert!(get(&json!({ "body_base64": "*" })).is_err());
    }
}
