//! The secrets that a client gives to programs, which stay off its tape.

use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::base::json_texts::change_texts;
use crate::tape::{REDACTED, Recorder, SECRET_VALUE_BYTES_MIN};

/// Values that are looked for in the calls of one client, at most.
const VALUES_MAX: usize = 256;

/// The values of variables with secret names, such as `API_KEY`, that a client gave to its sandboxes so far.
#[derive(Default)]
pub(super) struct Secrets(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// The longest first: one may be a part of another one.
    values: Vec<String>,
    /// There are more than these.
    has_more: bool,
}

impl Secrets {
    /// Removes from `arguments` of a call the values of `env` whose names are secret for `tape`. Values of at least
    /// [`SECRET_VALUE_BYTES_MIN`] bytes are looked for in what is recorded from now on.
    pub(super) fn learn(&self, arguments: &mut Value, tape: &Recorder) {
        let Some(Value::Object(env)) = arguments.get_mut("env") else { return };
        for (_, value) in env.iter_mut().filter(|(name, _)| tape.is_secret_name(name)) {
            if let Value::String(value) = value {
                self.keep(value);
            }
            *value = REDACTED.into();
        }
    }

    fn keep(&self, value: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if value.len() < SECRET_VALUE_BYTES_MIN || known.values.iter().any(|known| known == value) {
            return;
        }
        if known.values.len() == VALUES_MAX {
            known.has_more = true;
            return;
        }
        let at = known.values.partition_point(|known| known.len() >= value.len());
        known.values.insert(at, value.to_owned());
    }

    /// Removes the values from the texts in `value`; all of it, if there are too many to know. Returns whether it held any.
    pub(super) fn remove(&self, value: &mut Value) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.has_more {
            *value = REDACTED.into();
            return true;
        }
        let mut had = false;
        if !known.values.is_empty() {
            change_texts(value, &mut |text| had |= remove_from_text(&known.values, text));
        }
        had
    }
}

fn remove_from_text(secrets: &[String], text: &mut String) -> bool {
    let mut had = false;
    for secret in secrets {
        if text.contains(&**secret) {
            *text = text.replace(&**secret, REDACTED);
            had = true;
        }
    }
    had
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tape::{MemoryTape, Redaction};

    fn learned(secrets: &Secrets, mut arguments: Value) -> Value {
        let tape = Recorder::new(MemoryTape::default(), Redaction::default());
        secrets.learn(&mut arguments, &tape);
        arguments
    }

    #[test]
    fn values_of_variables_with_secret_names_are_removed_wherever_they_are() {
        let secrets = Secrets::default();
        let env = json!({ "API_KEY": "correct-horse", "MY_TOKEN": "correct-horse-battery", "PIN_PASS": "1234", "HOME": "/home/me" });
        let expected = json!({ "API_KEY": REDACTED, "MY_TOKEN": REDACTED, "PIN_PASS": REDACTED, "HOME": "/home/me" });
        assert_eq!(learned(&secrets, json!({ "env": env }))["env"], expected);
        let mut answer =
            json!({ "correct-horse": ["a correct-horse-battery\n", 1234, "1234 /home/me"] });
        assert!(secrets.remove(&mut answer));
        assert_eq!(answer, json!({ REDACTED: ["a [redacted]\n", 1234, "1234 /home/me"] }));
        assert!(!secrets.remove(&mut json!(["1234 /home/me"])));
    }

    #[test]
    fn a_client_with_more_secrets_than_are_known_has_nothing_on_the_tape() {
        let secrets = Secrets::default();
        for number in 0..=VALUES_MAX {
            learned(&secrets, json!({ "env": { "API_KEY": format!("secret number {number}") } }));
            let mut answer = json!({ "text": "x" });
            assert_eq!(secrets.remove(&mut answer), number == VALUES_MAX);
        }
    }
}
