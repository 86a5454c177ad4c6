//! The divergence of a run from its tape.

use std::fmt;

use serde_json::Value;

use super::record::Record;

/// A record from which a secret was removed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Withheld {
    /// Its number on the tape.
    pub seq: u64,
    /// Its kind.
    pub kind: String,
}

/// A run diverged from its tape.
#[derive(Clone, PartialEq, Debug)]
pub struct Desync {
    /// The equal records before it.
    pub before: Vec<Record>,
    /// The record on the tape; `None` at its end.
    pub expected: Option<Record>,
    /// The record of the run; `None` if it ended.
    pub found: Option<Record>,
    /// The last input of the program before the divergence from which a secret was removed: the run
    /// may differ only because of it.
    pub withheld: Option<Withheld>,
    /// Whether the replay ran into its limit of memory, which is below that of the run: the run may differ only because
    /// of it.
    pub lacks_memory: bool,
}

impl Desync {
    /// The number of the record.
    pub fn seq(&self) -> u64 {
        let records = [&self.expected, &self.found];
        records.into_iter().flatten().map(|record| record.seq).next().unwrap_or_default()
    }

    /// The fields that differ: name, value on the tape, value of the run.
    pub fn differences(&self) -> Vec<(String, Value, Value)> {
        let as_map = |record: &Option<Record>| match record.as_ref().map(serde_json::to_value) {
            Some(Ok(Value::Object(map))) => map,
            _ => serde_json::Map::new(),
        };
        let (expected, found) = (as_map(&self.expected), as_map(&self.found));
        let mut names: Vec<&String> = expected.keys().chain(found.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let value = |map: &serde_json::Map<String, Value>, name: &String| {
            map.get(name).cloned().unwrap_or(Value::Null)
        };
        names
            .into_iter()
            .map(|name| (name.clone(), value(&expected, name), value(&found, name)))
            .filter(|(_, expected, found)| expected != found)
            .collect()
    }
}

impl fmt::Display for Desync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = |record: &Option<Record>, none: &'static str| match record {
            Some(record) => record.kind.name().to_owned(),
            None => none.to_owned(),
        };
        if let Some(Withheld { seq, kind }) = &self.withheld {
            write!(
                f,
                "record {seq} ({kind}) was recorded without its secrets, and a run that depends on \
                 them cannot be replayed; "
            )?;
        }
        write!(
            f,
            "the run diverges from its tape at record {}: the tape has {}, the run has {}",
            self.seq(),
            kind(&self.expected, "no more records"),
            kind(&self.found, "ended"),
        )?;
        if let (Some(_), Some(_)) = (&self.expected, &self.found) {
            for (name, expected, found) in self.differences() {
                write!(f, "\n  {name}: tape {expected}, run {found}")?;
            }
        }
        for record in &self.before {
            let line = serde_json::to_string(record).map_err(|_| fmt::Error)?;
            write!(f, "\n  before it: {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Desync {}
