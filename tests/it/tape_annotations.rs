//! Annotations as files: other readers see what was added, and every error is reported.

use std::path::{Path, PathBuf};

use belljar::tape::{
    Annotation, AnnotationError, AnnotationFile, AnnotationKind, Author, AuthorKind, FileTape,
    Header, HypothesisStatus, Kind, Recorder, Redaction, Span, annotations_path,
};
use proptest::prelude::*;
use serde_json::Map;

/// A tape of ten records.
fn tape(folder: &Path) -> PathBuf {
    let path = folder.join("run.tape");
    let tape = FileTape::create(&path, &Header::new(0), 1 << 20).unwrap();
    let recorder = Recorder::new(tape, Redaction::default());
    for duration_ns in 0..10 {
        recorder.push(Kind::ClockSleep { duration_ns });
    }
    recorder.finish().unwrap();
    path
}

fn annotation(id: &str, event_id: u64, kind: AnnotationKind) -> Annotation {
    Annotation {
        id: id.into(),
        event_id,
        kind,
        evidence: Some("it says so".into()),
        suggested_fix: None,
        author: Author { id: "ann".into(), kind: AuthorKind::Human, surface: None },
        timestamp: "2024-05-01T12:00:00Z".into(),
        span: None,
        hypothesis_status: None,
        friction_kind: None,
        links: Vec::new(),
        metadata: Map::new(),
        unknown: Map::new(),
    }
}

fn note(id: &str, event_id: u64) -> Annotation {
    annotation(id, event_id, AnnotationKind::Note)
}

fn ids(annotations: &[&Annotation]) -> Vec<String> {
    annotations.iter().map(|annotation| annotation.id.clone()).collect()
}

/// Adds lines to the annotations of `tape`, as an editor would.
fn scribble(tape: &Path, lines: &str) -> PathBuf {
    let path = annotations_path(tape);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text + lines).unwrap();
    path
}

#[test]
fn added_annotations_are_read_by_other_writers() {
    let folder = tempfile::tempdir().unwrap();
    let tape = tape(folder.path());
    let path = annotations_path(&tape);
    let mut one = AnnotationFile::create(&tape).unwrap();
    let mut other = AnnotationFile::load(&path).unwrap();
    let guess = Annotation {
        hypothesis_status: Some(HypothesisStatus::Active),
        span: Some(Span { start_event_id: 2, end_event_id: 5 }),
        links: vec!["https://example.org".into()],
        ..annotation("guess", 3, AnnotationKind::Hypothesis)
    };
    one.append(note("first", 4)).unwrap();
    other.append(guess.clone()).unwrap();
    one.append(note("last", 9)).unwrap();

    let all = AnnotationFile::load(&path).unwrap();
    assert_eq!(ids(&all.export(&[])), ["first", "guess", "last"]);
    assert_eq!(all.annotations().nth(1), Some(&guess));
    assert_eq!(ids(&one.export(&[])), ids(&all.export(&[])));
    assert_eq!(ids(&all.export(&[AnnotationKind::Hypothesis])), ["guess"]);
    assert_eq!(ids(&all.for_event(4)), ["first", "guess"]);
    assert_eq!(ids(&all.for_event(6)), [""; 0]);
    assert_eq!(all.header().tape_path, "run.tape");
    assert_eq!(all.validate(&tape).unwrap(), []);
    assert!(matches!(AnnotationFile::create(&tape), Err(AnnotationError::Disk(_))));
    assert_eq!(AnnotationFile::load(&path).unwrap().annotations().len(), 3);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary is left");
}

#[test]
fn every_kind_and_every_field_of_an_annotation_is_kept() {
    use AnnotationKind as K;
    use HypothesisStatus as S;
    let folder = tempfile::tempdir().unwrap();
    let tape = tape(folder.path());
    let mut file = AnnotationFile::create(&tape).unwrap();
    let plain = [
        (K::Correct, "correct"),
        (K::Incorrect, "incorrect"),
        (K::Alternative, "alternative"),
        (K::Note, "note"),
        (K::Marker, "marker"),
        (K::Mute, "mute"),
        (K::CrystallizeHere, "crystallize_here"),
    ];
    for (kind, name) in plain {
        file.append(annotation(name, 1, kind)).unwrap();
    }
    let states = [S::Active, S::Verifying, S::Confirmed, S::Disproven, S::Stale];
    for (status, name) in
        states.iter().zip(["active", "verifying", "confirmed", "disproven", "stale"])
    {
        let hypothesis_status = Some(status.clone());
        file.append(Annotation { hypothesis_status, ..annotation(name, 2, K::Hypothesis) })
            .unwrap();
    }
    let metadata = serde_json::json!({"ticket": 7});
    let full = Annotation {
        suggested_fix: Some("less".into()),
        author: Author {
            id: "bot".into(),
            kind: AuthorKind::Agent,
            surface: Some("editor".into()),
        },
        span: Some(Span { start_event_id: 3, end_event_id: 5 }),
        friction_kind: Some("slow".into()),
        links: vec!["note".into()],
        metadata: metadata.as_object().unwrap().clone(),
        ..annotation("full", 4, K::Friction)
    };
    file.append(full.clone()).unwrap();
    let author = Author { kind: AuthorKind::System, ..full.author.clone() };
    file.append(Annotation { author, ..note("rule", 4) }).unwrap();

    let text = std::fs::read_to_string(annotations_path(&tape)).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &lines[1..8] {
        assert_eq!(line["kind"], line["id"]);
    }
    for line in &lines[8..13] {
        assert_eq!(
            (&line["kind"], &line["hypothesis_status"]),
            (&"hypothesis".into(), &line["id"])
        );
    }
    let expected = serde_json::json!({
        "id": "full", "event_id": 4, "kind": "friction", "evidence": "it says so",
        "suggested_fix": "less", "author": {"id": "bot", "kind": "agent", "surface": "editor"},
        "timestamp": "2024-05-01T12:00:00Z", "span": {"start_event_id": 3, "end_event_id": 5},
        "friction_kind": "slow", "links": ["note"], "metadata": {"ticket": 7},
    });
    assert_eq!(lines[13], expected);
    assert_eq!(lines[14]["author"]["kind"], "system");
    let file = AnnotationFile::load(&annotations_path(&tape)).unwrap();
    assert_eq!(file.validate(&tape).unwrap(), []);
    assert_eq!(file.export(&[K::Friction]), [&full]);
    assert_eq!(file.export(&[K::Hypothesis]).len(), 5);
    assert_eq!(ids(&file.export(&[K::Mute, K::Marker])), ["marker", "mute"]);
}

#[test]
fn writers_at_the_same_time_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let tape = tape(folder.path());
    AnnotationFile::create(&tape).unwrap();
    let path = annotations_path(&tape);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let mut file = AnnotationFile::load(path).unwrap();
                for n in 0..25 {
                    file.append(note(&format!("{writer}-{n}"), 0)).unwrap();
                    // A reader never sees a part of a line.
                    assert!(!AnnotationFile::load(path).unwrap().is_cut_off());
                }
            });
        }
    });
    let all = AnnotationFile::load(&path).unwrap();
    assert_eq!(all.annotations().len(), 100);
    assert_eq!(all.validate(&tape).unwrap(), []);
}

#[test]
fn invalid_annotation_is_not_added() {
    let folder = tempfile::tempdir().unwrap();
    let tape = tape(folder.path());
    let mut file = AnnotationFile::create(&tape).unwrap();
    file.append(note("a", 0)).unwrap();
    let status = Some(HypothesisStatus::Stale);
    let span = |start_event_id, end_event_id| Some(Span { start_event_id, end_event_id });
    let cases = [
        (note("a", 1), "already"),
        (note("", 1), "id is empty"),
        (Annotation { timestamp: "yesterday".into(), ..note("b", 1) }, "RFC 3339"),
        (Annotation { span: span(2, 1), ..note("b", 1) }, "before its start"),
        (Annotation { span: span(2, 3), ..note("b", 1) }, "not in its span"),
        (Annotation { hypothesis_status: status, ..note("b", 1) }, "allowed for a hypothesis"),
        (annotation("b", 1, AnnotationKind::Hypothesis), "needs a hypothesis_status"),
        (annotation("b", 1, AnnotationKind::Unknown("praise".into())), "unknown kind \"praise\""),
        (annotation("b", 1, AnnotationKind::Friction), "needs a friction_kind"),
        (
            Annotation { evidence: Some("x".repeat(16 << 20)), ..note("b", 1) },
            "the limit is 16777216",
        ),
    ];
    for (annotation, expected) in cases {
        match file.append(annotation) {
            Err(AnnotationError::Invalid { message, .. }) => {
                assert!(message.contains(expected), "{message}");
            }
            other => panic!("{expected}: {other:?}"),
        }
    }
    assert_eq!(AnnotationFile::load(&annotations_path(&tape)).unwrap().annotations().len(), 1);
}

const LINES: &str = r#"{"id":"a","event_id":10,"kind":"note","author":{"id":"x","kind":"agent"},"timestamp":"2024-05-01T12:00:00Z"}
{"id":"a","event_id":1,"kind":"hypothesis","author":{"id":"x","kind":"robot"},"timestamp":"now","span":{"start_event_id":5,"end_event_id":4}}
{"id":"c","event_id":2,"kind":"mute","author":{"id":"x","kind":"system"},"timestamp":"2024-05-01T12:00:00+02:00","hypothesis_status":"active","span":{"start_event_id":0,"end_event_id":99}}
{"id":"d","event_id":3,"kind":"friction","author":{"id":"x","kind":"human"},"timestamp":"2024-05-01T12:00:00Z"}
{"id":"e","event_id":4,"kind":"praise","author":{"id":"x","kind":"human"},"timestamp":"2024-05-01T12:00:00Z","warmth":{"degrees":3}}
"#;

#[test]
fn validation_names_all_errors() {
    let folder = tempfile::tempdir().unwrap();
    let tape = tape(folder.path());
    AnnotationFile::create(&tape).unwrap();
    let path = scribble(&tape, LINES);
    let bytes = std::fs::read_to_string(&tape).unwrap();
    std::fs::write(&tape, bytes.replace("\"duration_ns\":7", "\"duration_ns\":8")).unwrap();
    let file = AnnotationFile::load(&path).unwrap();
    let problems = file.validate(&tape).unwrap();
    let expected = [
        (1, "changed since it was annotated"),
        (2, "about record 10, which the tape does not have"),
        (3, "its timestamp \"now\" is not RFC 3339"),
        (3, "its span ends at 4, before its start at 5"),
        (3, "needs a hypothesis_status"),
        (3, "its id is already on line 2"),
        (3, "unknown kind of author \"robot\""),
        (4, "hypothesis_status is only allowed for a hypothesis, and the kind is mute"),
        (4, "its span ends at record 99, which the tape does not have"),
        (5, "needs a friction_kind"),
        (6, "unknown kind \"praise\""),
    ];
    let found: Vec<_> =
        problems.iter().map(|problem| (problem.line, problem.message.as_str())).collect();
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for ((line, message), (expected_line, part)) in found.iter().zip(expected) {
        assert!(*line == expected_line && message.contains(part), "{line}: {message}; {part}");
    }
    let ids: Vec<Option<&str>> = problems.iter().map(|p| p.annotation_id.as_deref()).collect();
    assert_eq!((ids[0], ids[1], ids[10]), (None, Some("a"), Some("e")));
}

#[test]
fn fields_of_a_newer_minor_version_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let tape = tape(folder.path());
    AnnotationFile::create(&tape).unwrap();
    let newer = LINES.lines().last().unwrap();
    let path = scribble(&tape, &format!("{newer}\n"));
    let text = std::fs::read_to_string(&path).unwrap().replace("\"1.0\"", "\"1.7\"");
    std::fs::write(&path, &text).unwrap();
    let mut file = AnnotationFile::load(&path).unwrap();
    assert_eq!(file.validate(&tape).unwrap(), []);
    let praise = file.export(&[AnnotationKind::Unknown("praise".into())])[0];
    assert_eq!(serde_json::to_string(praise).unwrap(), newer);
    file.append(note("more", 0)).unwrap();
    assert!(std::fs::read_to_string(&path).unwrap().starts_with(&text));

    std::fs::write(&path, text.replace("\"1.7\"", "\"2.0\"")).unwrap();
    assert!(matches!(AnnotationFile::load(&path), Err(AnnotationError::Version { .. })));
}

#[test]
fn last_line_without_newline_is_completed_before_appending() {
    let folder = tempfile::tempdir().unwrap();
    let tape = tape(folder.path());
    AnnotationFile::create(&tape).unwrap();
    let line = serde_json::to_string(&note("by hand", 1)).unwrap();
    let path = scribble(&tape, &line);
    let mut file = AnnotationFile::load(&path).unwrap();
    file.append(note("after", 2)).unwrap();
    assert_eq!(ids(&AnnotationFile::load(&path).unwrap().export(&[])), ["by hand", "after"]);

    let path = scribble(&tape, &line[..20]);
    let before = std::fs::read(&path).unwrap();
    assert!(AnnotationFile::load(&path).unwrap().is_cut_off());
    let problems = file.validate(&tape).unwrap();
    assert_eq!(problems, []);
    let error = file.append(note("third", 2)).unwrap_err();
    assert!(matches!(error, AnnotationError::Line { line: 4, .. }), "{error}");
    assert_eq!(file.validate(&tape).unwrap()[0].line, 4);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn damaged_annotations_are_named_by_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let tape = tape(folder.path());
    AnnotationFile::create(&tape).unwrap().append(note("a", 0)).unwrap();
    let path = annotations_path(&tape);
    let whole = std::fs::read_to_string(&path).unwrap();
    let refused = |text: &str, line: u64, part: &str| {
        std::fs::write(&path, text).unwrap();
        match AnnotationFile::load(&path) {
            Err(AnnotationError::Line { line: found, message, .. }) => {
                assert!(found == line && message.contains(part), "line {found}: {message}");
            }
            other => panic!("{other:?}"),
        }
    };
    refused("", 1, "empty");
    refused("{}\n", 1, "invalid header of annotations");
    refused(&whole.replace("\"event_id\":0", "\"event_id\":-1"), 2, "invalid annotation");
    refused(&format!("{whole}\n{whole}"), 3, "invalid annotation");
    refused(&format!("{whole}{}", "x".repeat((16 << 20) + 1)), 3, "exceeds 16777216 bytes");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    /// With any change of its bytes, a file loads or gives an error; a file that loads can be validated, and
    /// its annotations are written as they were read.
    #[test]
    fn damaged_annotations_never_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let tape = tape(folder.path());
        AnnotationFile::create(&tape).unwrap();
        let path = scribble(&tape, LINES);
        let mut bytes = std::fs::read(&path).unwrap();
        for (index, byte) in damage {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len() - cut.index(40));
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(mut file) = AnnotationFile::load(&path) {
            prop_assert!(!file.validate(&tape).unwrap().is_empty());
            for annotation in file.annotations() {
                let line = serde_json::to_string(annotation).unwrap();
                prop_assert_eq!(&serde_json::from_str::<Annotation>(&line).unwrap(), annotation);
            }
            let count = file.annotations().len();
            if file.append(note("new", 0)).is_ok() {
                prop_assert_eq!(AnnotationFile::load(&path).unwrap().annotations().len(), count + 1);
            } else {
                prop_assert_eq!(std::fs::read(&path).unwrap(), bytes);
            }
        }
    }
}
