//! Comparison of two tapes: it finds as many divergences as there were edits, in tapes of any
//! content and length.

use std::cell::Cell;

use belljar::Digest;
use belljar::tape::{
    CompareError, FidelityMode, FidelityReport, Kind, Payload, Phase, Record, TapeError,
    TapeSource, compare,
};
use proptest::prelude::*;
use serde_json::json;

const STRICT: FidelityMode = FidelityMode::ByteIdentical;

/// A tape of `kinds`, with one millisecond per record.
fn tape(kinds: impl IntoIterator<Item = Kind>) -> Vec<Record> {
    let stamp = |(seq, kind): (usize, Kind)| Record {
        seq: seq as u64,
        phase: if seq == 0 { Phase::Setup } else { Phase::Run },
        virtual_time_ms: 1000 + i64::try_from(seq).unwrap(),
        monotonic_ms: seq as u64,
        turn: None,
        kind,
    };
    kinds.into_iter().enumerate().map(stamp).collect()
}

fn renumber(records: &mut [Record]) {
    for (seq, record) in records.iter_mut().enumerate() {
        record.seq = seq as u64;
    }
}

/// One of few kinds with few values, as loops produce them.
fn common(n: u64) -> Kind {
    match n % 5 {
        0 => Kind::ClockSleep { duration_ns: n / 5 % 3 },
        1 => Kind::FileWrite {
            path: format!("/worktree/{}", n / 5 % 4),
            content_hash: Digest::of(b"x"),
            len_bytes: 1,
            withheld_by: None,
        },
        2 => Kind::FileDelete { path: "/worktree/a".into(), content_hash: None, len_bytes: None },
        3 => Kind::Random { content_hash: Digest::of(&[(n / 5 % 7) as u8]), len_bytes: 1 },
        _ => write(&(n / 5 % 3).to_string()),
    }
}

fn write(text: &str) -> Kind {
    Kind::StreamWrite { pid: 1, fd: 1, bytes: Payload::Inline { text: text.into() } }
}

/// `kind` with another value, which the tapes of these tests do not have.
fn changed(kind: &Kind, n: usize) -> Kind {
    match kind.clone() {
        Kind::ClockSleep { .. } => Kind::ClockSleep { duration_ns: 1 << 40 | n as u64 },
        Kind::FileWrite { path, content_hash, withheld_by, .. } => {
            Kind::FileWrite { path, content_hash, len_bytes: 100 + n as u64, withheld_by }
        }
        Kind::FileDelete { path, content_hash, .. } => {
            Kind::FileDelete { path, content_hash, len_bytes: Some(n as u64) }
        }
        Kind::Random { content_hash, .. } => {
            Kind::Random { content_hash, len_bytes: 100 + n as u64 }
        }
        _ => write(&format!("changed {n}")),
    }
}

fn found(a: &[Record], b: &[Record], mode: FidelityMode) -> FidelityReport {
    let report = compare(a, b, mode).unwrap();
    let back = compare(b, a, mode).unwrap();
    assert_eq!(report.divergence_count, back.divergence_count, "{report}\n{back}");
    assert!((0.0..=1.0).contains(&report.score));
    assert_eq!(report.is_faithful(), report.divergences.is_empty());
    report
}

fn categories(report: &FidelityReport) -> Vec<&str> {
    report.divergences.iter().map(|divergence| divergence.category.as_str()).collect()
}

#[derive(Clone, Copy, Debug)]
enum Edit {
    Insert,
    Delete,
    Change,
}

/// A tape, and the same tape after `edits`, with a block of records for each edit.
fn edited(seeds: &[u64], edits: &[Edit], block: usize) -> (Vec<Record>, Vec<Record>) {
    let kinds = seeds.iter().copied().cycle().take(edits.len() * block + block);
    let a = tape(kinds.enumerate().map(|(at, seed)| match at % block {
        // Distinguishes the blocks.
        0 => write(&format!("block {}", at / block)),
        _ => common(seed),
    }));
    let mut b = a.clone();
    for (n, edit) in edits.iter().enumerate().rev() {
        let at = n * block + block / 2;
        match edit {
            Edit::Insert => {
                let record = Record { kind: write(&format!("inserted {n}")), ..b[at].clone() };
                b.insert(at, record);
            }
            Edit::Delete => drop(b.remove(at)),
            Edit::Change => b[at].kind = changed(&b[at].kind, n),
        }
    }
    renumber(&mut b);
    (a, b)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..Default::default() })]

    #[test]
    fn there_are_as_many_divergences_as_edits(
        seeds in prop::collection::vec(any::<u64>(), 1..300),
        edits in prop::collection::vec(
            prop_oneof![Just(Edit::Insert), Just(Edit::Delete), Just(Edit::Change)], 0..20),
    ) {
        let (a, b) = edited(&seeds, &edits, 24);
        for mode in [STRICT, FidelityMode::Semantic] {
            let report = found(&a, &b, mode);
            prop_assert_eq!(report.divergence_count, edits.len() as u64, "{}", report);
            prop_assert_eq!(report.is_faithful(), edits.is_empty());
        }
    }

    /// Any two tapes can be compared without a panic, and each equals itself.
    #[test]
    fn any_tapes_can_be_compared(
        a in prop::collection::vec(0..40_u64, 0..200),
        b in prop::collection::vec(0..40_u64, 0..200),
    ) {
        let [a, b] = [a, b].map(|seeds| tape(seeds.into_iter().map(common)));
        for mode in FidelityMode::ALL {
            prop_assert!(found(&a, &a, mode).is_faithful());
            let report = compare(a.as_slice(), b.as_slice(), mode).unwrap();
            if mode != FidelityMode::Outcome {
                let least = a.len().abs_diff(b.len()) as u64;
                let most = 2 * (a.len() + b.len()) as u64;
                prop_assert!((least..=most).contains(&report.divergence_count));
            }
            prop_assert!(mode != STRICT || report.is_faithful() == (a == b));
            let text = serde_json::to_string(&report).unwrap();
            let again: FidelityReport = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(again.divergences, report.divergences);
            prop_assert!((again.score - report.score).abs() < 1e-12);
        }
    }
}

#[test]
fn an_insertion_shifts_the_numbers_after_it_and_is_one_divergence() {
    let a = tape((0..1000).map(common));
    let mut b = a.clone();
    b.insert(
        10,
        Record {
            kind: Kind::ClockLeak { capability_id: "x".into(), leak: "wall".into() },
            ..a[10].clone()
        },
    );
    renumber(&mut b);
    let report = found(&a, &b, STRICT);
    assert_eq!(categories(&report), ["clock_leak.extra"]);
    assert_eq!((report.recorded_records, report.replay_records), (1000, 1001));
    assert!((report.score - (1.0 - 1.0 / 1001.0)).abs() < 1e-12);
    let [divergence] = report.divergences.as_slice() else { panic!() };
    assert_eq!((divergence.seq, divergence.before.len(), divergence.after.len()), (10, 3, 2));
    assert!(divergence.before[2].starts_with("{\"seq\":9,"), "{report}");
    assert!(divergence.after[0].starts_with("{\"seq\":10,"), "{report}");
}

#[test]
fn one_of_many_equal_records_that_is_missing_is_one_divergence() {
    let a = tape((0..50).map(|_| write(".")));
    let mut b = a.clone();
    b.remove(30);
    renumber(&mut b);
    let report = found(&a, &b, STRICT);
    assert_eq!(categories(&report), ["stream_write.missing"]);
    assert_eq!(report.divergences[0].seq, 30);
}

#[test]
fn a_longer_sleep_is_one_divergence_and_its_shift_another() {
    let a = tape(
        (0..5000)
            .map(|n| if n == 7 { Kind::ClockSleep { duration_ns: 1 } } else { common(5 * n + 4) }),
    );
    let mut b = a.clone();
    b[7].kind = Kind::ClockSleep { duration_ns: 2_000_001 };
    for record in &mut b[8..] {
        record.virtual_time_ms += 2;
        record.monotonic_ms += 2;
    }
    let report = found(&a, &b, STRICT);
    assert_eq!(categories(&report), ["clock_sleep.changed", "stamps.shifted"]);
    assert_eq!(
        report.divergences[1].message,
        "virtual_time_ms by +2, monotonic_ms by +2, in this record and the next 4991 of both tapes"
    );
    assert_eq!(categories(&found(&a, &b, FidelityMode::Semantic)), ["clock_sleep.changed"]);
    assert!(found(&a, &b, FidelityMode::Outcome).is_faithful());
    for record in &mut b[100..] {
        record.virtual_time_ms -= 2;
        record.monotonic_ms -= 2;
    }
    let report = found(&a, &b, STRICT);
    assert_eq!(categories(&report), ["clock_sleep.changed", "stamps.shifted"]);
}

#[test]
fn differing_phase_or_number_is_a_shift() {
    let a = tape((0..9).map(common));
    let mut b = a.clone();
    b[0].phase = Phase::Finalize;
    b[5].seq = u64::MAX;
    let report = found(&a, &b, STRICT);
    assert_eq!(categories(&report), ["stamps.shifted", "stamps.shifted"]);
    assert_eq!(report.divergences[0].message, "phase from setup to finalize, in this record");
    assert!(report.divergences[1].message.starts_with("seq"), "{report}");
    assert!(found(&a, &b, FidelityMode::Semantic).is_faithful());
}

#[test]
fn changed_fields_are_named() {
    let a = tape([write("a"), write("b"), write("c")]);
    let mut b = a.clone();
    b[1].kind = Kind::StreamWrite { pid: 1, fd: 2, bytes: Payload::Inline { text: "B".into() } };
    let report = found(&a, &b, FidelityMode::Semantic);
    assert_eq!(
        report.render(),
        r#"semantic: 1 divergence, score 0.6667 (3 records, replay 3)

record 1, stream_write.changed: differs in bytes.text, fd
    bytes.text: recorded "b", replay "B"
    fd: recorded 1, replay 2
    {"seq":0,"phase":"setup","virtual_time_ms":1000,"monotonic_ms":0,"kind":"stream_write","pid":1,"fd":1,"bytes":{"text":"a"}}
  - {"seq":1,"phase":"run","virtual_time_ms":1001,"monotonic_ms":1,"kind":"stream_write","pid":1,"fd":1,"bytes":{"text":"b"}}
  + {"seq":1,"phase":"run","virtual_time_ms":1001,"monotonic_ms":1,"kind":"stream_write","pid":1,"fd":2,"bytes":{"text":"B"}}
    {"seq":2,"phase":"run","virtual_time_ms":1002,"monotonic_ms":2,"kind":"stream_write","pid":1,"fd":1,"bytes":{"text":"c"}}
"#
    );
}

#[test]
fn unknown_kinds_are_compared_by_their_fields() {
    let unknown = |x: u64| Kind::Unknown {
        kind: "gpu_call".into(),
        fields: json!({ "x": x }).as_object().unwrap().clone(),
    };
    let (a, b) = (tape([unknown(1), unknown(2)]), tape([unknown(1), unknown(3)]));
    let report = found(&a, &b, STRICT);
    assert_eq!(categories(&report), ["gpu_call.changed"]);
    assert_eq!(report.divergences[0].fields[0].field, "x");
}

#[test]
fn a_report_is_bounded_and_counts_the_rest() {
    let of = |name: &str| tape((0..3000).map(|n| write(&format!("{name} {n}"))));
    let report = found(&of("one"), &of("other"), FidelityMode::Semantic);
    assert_eq!((report.divergence_count, report.divergences.len()), (3000, 1000));
    assert!(report.score.abs() < 1e-12);
    let text = report.render();
    assert!(text.ends_with("\nand 2980 more\n"), "{text}");
    assert!(text.lines().count() < 300);
}

fn exit(pid: u32, code: u32) -> Kind {
    Kind::ProcessExit {
        pid,
        status: "exited".into(),
        exit_code: Some(code),
        duration_ms: code.into(),
    }
}

fn file(path: &str, content: &str) -> Kind {
    let content_hash = Digest::of(content.as_bytes());
    let len_bytes = content.len() as u64;
    Kind::FileWrite { path: path.into(), content_hash, len_bytes, withheld_by: None }
}

fn delete(path: &str) -> Kind {
    Kind::FileDelete { path: path.into(), content_hash: None, len_bytes: None }
}

fn change(path: &str, change: &str) -> Kind {
    Kind::Change { path: path.into(), change: change.into(), detail: serde_json::Map::new() }
}

fn outcome(a: &[Kind], b: &[Kind]) -> Vec<String> {
    let report = found(&tape(a.to_vec()), &tape(b.to_vec()), FidelityMode::Outcome);
    let score = if report.is_faithful() { 1.0 } else { 0.0 };
    assert!((report.score - score).abs() < 1e-12);
    report.divergences.into_iter().map(|found| found.category).collect()
}

#[test]
fn outcome_mode_compares_only_final_files_and_exit_codes() {
    let a = [file("/a", "1"), file("/a", "2"), exit(2, 7), change("/a", "added"), exit(1, 0)];
    let b = [file("/t", "9"), delete("/t"), file("/a", "2"), change("/a", "added"), exit(1, 0)];
    assert!(outcome(&a, &b).is_empty());
    // An existing file that is deleted and written again.
    assert!(outcome(&[delete("/a"), file("/a", "1")], &[file("/a", "1")]).is_empty());

    assert_eq!(outcome(&[file("/a", "1")], &[file("/a", "2")]), ["files.changed"]);
    assert_eq!(outcome(&[delete("/a")], &[]), ["files.missing"]);
    assert_eq!(outcome(&[], &[change("/a", "added")]), ["files.extra"]);
    assert_eq!(outcome(&[change("/a", "added")], &[change("/a", "modified")]), ["files.changed"]);
    assert_eq!(outcome(&[exit(1, 0), exit(2, 0)], &[exit(2, 0), exit(1, 1)]), ["exit.changed"]);
    assert_eq!(outcome(&[exit(1, 5), exit(1, 0)], &[exit(1, 0)]), [""; 0]);
    assert_eq!(outcome(&[exit(1, 0)], &[]), ["exit.changed"]);
    let call = Kind::LlmCall {
        model: "m".into(),
        request_hash: Digest::of(b""),
        request: Payload::Inline { text: String::new() },
        response: Payload::Inline { text: String::new() },
    };
    assert_eq!(outcome(&[call.clone(), call.clone()], &[call]), ["llm_calls.changed"]);
}

#[test]
fn mode_names_parse_back() {
    for mode in FidelityMode::ALL {
        assert_eq!(mode.name().parse::<FidelityMode>().unwrap(), mode);
        assert_eq!(serde_json::to_value(mode).unwrap(), mode.name());
    }
    assert!("exact".parse::<FidelityMode>().unwrap_err().contains("byte-identical"));
    let empty: &[Record] = &[];
    assert!((found(empty, empty, STRICT).score - 1.0).abs() < 1e-12);
}

/// A tape that is longer each time it is read.
struct Growing(Cell<u64>);

impl TapeSource for Growing {
    fn records(&self) -> Result<impl Iterator<Item = Result<Record, TapeError>>, TapeError> {
        self.0.set(self.0.get() + 1);
        Ok(tape((0..self.0.get()).map(common)).into_iter().map(Ok))
    }
}

#[test]
fn tape_that_grows_during_comparison_is_an_error() {
    let fixed = tape((0..1).map(common));
    let grown = compare(&Growing(Cell::new(0)), fixed.as_slice(), STRICT);
    assert!(matches!(grown, Err(CompareError::Changed)));
}

/// A tape that is generated while it is read, so that only what the comparison keeps is in memory.
struct Made<F>(u64, F);

impl<F: Fn(u64) -> u64> TapeSource for Made<F> {
    fn records(&self) -> Result<impl Iterator<Item = Result<Record, TapeError>>, TapeError> {
        let record = |seq| Record {
            seq,
            phase: Phase::Run,
            virtual_time_ms: seq.cast_signed(),
            monotonic_ms: seq,
            turn: None,
            kind: common((self.1)(seq)),
        };
        Ok((0..self.0).map(move |seq| Ok(record(seq))))
    }
}

#[test]
fn long_tapes_are_compared_in_linear_time() {
    let mix = |n: u64| n.wrapping_mul(n).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let recorded = Made(100_000, mix);
    assert!(compare(&recorded, &Made(100_000, mix), STRICT).unwrap().is_faithful());
    let sparse = Made(100_000, |n| mix(n) + u64::from(n % 1000 == 500) * 5);
    let report = compare(&recorded, &sparse, FidelityMode::Semantic).unwrap();
    assert!((1..=200).contains(&report.divergence_count), "{}", report.divergence_count);
    // Only the kinds of records are common.
    let other = Made(100_000, |n| mix(n + 1) + 1);
    let report = compare(&recorded, &other, FidelityMode::Semantic).unwrap();
    assert!(report.divergence_count > 10_000, "{}", report.divergence_count);
}
