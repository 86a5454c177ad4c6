//! Where a run leaves its tape.

use std::fmt;

use serde_json::Value;

use super::record::Record;

/// A record that had lost a secret before it came on a tape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Withheld {
    /// Its place on the tape.
    pub seq: u64,
    /// Its kind.
    pub kind: String,
}

/// A run did something else than its tape says.
#[derive(Clone, PartialEq, Debug)]
pub struct Desync {
    /// The records that came before, which were the same.
    pub before: Vec<Record>,
    /// What the tape says; `None` at its end.
    pub expected: Option<Record>,
    /// What happened; `None` if the run ended.
    pub found: Option<Record>,
    /// The last thing that the program was told, up to here, and that had lost a secret: the run
    /// cannot have had it, and may differ for that alone.
    pub withheld: Option<Withheld>,
}

impl Desync {
    /// The place on the tape.
    pub fn seq(&self) -> u64 {
        let records = [&self.expected, &self.found];
        records.into_iter().flatten().map(|record| record.seq).next().unwrap_or_default()
    }

    /// The fields in which the two differ: name, what the tape says, what was found.
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
                "the tape has no secrets: that of record {seq} ({kind}) was withheld, and a run \
                 that depends on it cannot be repeated; "
            )?;
        }
        write!(
            f,
            "the run leaves its tape at record {}: the tape has {}, the run has {}",
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
