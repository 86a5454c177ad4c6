//! Tests of the record format.
use serde_json::Value;

use super::record::{Found, Kind, Record};

fn round_trip(line: &str) -> Record {
    let record: Record = serde_json::from_str(line).unwrap();
    let again = serde_json::to_string(&record).unwrap();
    let (old, new): (Value, Value) =
        (serde_json::from_str(line).unwrap(), serde_json::from_str(&again).unwrap());
    assert_eq!(old, new);
    record
}

#[test]
fn records_round_trip() {
    let record = round_trip(
        r#"{"seq":3,"phase":"run","virtual_time_ms":-1,"monotonic_ms":2,"kind":"file_stat","path":"/worktree/a","errno":"noent"}"#,
    );
    let found = Found::Errno { errno: "noent".into() };
    assert_eq!(record.kind, Kind::FileStat { path: "/worktree/a".into(), found });
    round_trip(
        r#"{"seq":0,"phase":"setup","virtual_time_ms":0,"monotonic_ms":0,"kind":"file_stat","path":"/","file_type":"dir","len_bytes":0,"mtime_ns":946684800000000000,"executable":false}"#,
    );
    round_trip(
        r#"{"seq":9,"phase":"finalize","virtual_time_ms":0,"monotonic_ms":0,"kind":"change","path":"/worktree/a","change":"renamed","from":"/worktree/b"}"#,
    );
}

#[test]
fn unknown_kind_round_trips() {
    let line = r#"{"seq":1,"phase":"run","virtual_time_ms":5,"monotonic_ms":5,"kind":"gpu_call","shader":{"x":[1,2]}}"#;
    assert_eq!(round_trip(line).kind.name(), "gpu_call");
}

#[test]
fn kind_names_match_their_serialization() {
    let kind = Kind::ClockSleep { duration_ns: 1 };
    let value = serde_json::to_value(&kind).unwrap();
    assert_eq!(value["kind"], kind.name());
    assert_eq!(Kind::from_fields(kind.name(), kind.fields()).unwrap(), kind);
}

#[test]
fn known_kind_with_invalid_fields_is_refused() {
    let line = r#"{"seq":1,"virtual_time_ms":5,"monotonic_ms":5,"kind":"clock_sleep"}"#;
    let error = serde_json::from_str::<Record>(line).unwrap_err().to_string();
    assert!(error.contains("duration_ns"), "{error}");
}
