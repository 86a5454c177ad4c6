//! Process tapes as files: a written tape reads back unchanged, and damage is reported with its
//! line.

use belljar::Digest;
use belljar::native::{
    PROCESS_TAPE_BYTES_MAX, ProcessTape, SandboxProfile, TapeEntry, TapedBytes, TapedChange,
    TapedFailure, TapedInput, TapedState,
};
use belljar::tape::TapeError;
use proptest::prelude::*;

use crate::support::package;

#[test]
fn example_in_the_docs_is_a_valid_tape() {
    let text = std::fs::read_to_string(package().join("docs/process-tape.md")).unwrap();
    let (_, rest) = text.split_once("```jsonl\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("processes.jsonl");
    std::fs::write(&path, example).unwrap();
    let entries = ProcessTape::load(&path).unwrap().entries;
    assert_eq!(entries.len(), 5);
    assert_eq!(entries[0].cwd, Some(TapedBytes::from("src")));
    assert_eq!(entries[0].stdin_digest, Some(Digest::of(b"")));
    assert_eq!(entries[1].stdout.0, b"\x7fELF\x02\x01\x01\0");
    assert_eq!((entries[2].exit_code, entries[2].signal), (None, Some(15)));
    assert!(entries[3].timed_out && entries[3].stdout.0 == b"cc main.c\n");
    assert_eq!(entries[4].profile, Some(SandboxProfile::Worktree));
    assert_eq!(entries[4].failure, Some(TapedFailure::NotFound));
}

#[test]
fn damaged_line_error_names_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let good = r#"{"program":"p","exit_code":0}"#;
    let path = folder.path().join("processes.jsonl");
    let line_error = || match ProcessTape::load(&path) {
        Err(TapeError::Line { line, message, .. }) => (line, message),
        other => panic!("{other:?}"),
    };
    for (bad, reason) in [
        ("{", "EOF"),
        ("", "EOF"),
        ("7", "expected"),
        (r#"{"exit_code":0}"#, "program"),
        (r#"{"program":"p"}"#, "one of exit_code, signal"),
        (r#"{"program":"p","exit_code":0,"signal":9}"#, "one of exit_code, signal"),
        (r#"{"program":"p","exit_code":0,"timed_out":true}"#, "one of exit_code, signal"),
        (r#"{"program":"p","signal":9,"failure":"not_found"}"#, "one of exit_code, signal"),
        (r#"{"program":"p","failure":"tired"}"#, "tired"),
        (r#"{"program":"p","exit_code":0,"profile":"none"}"#, "none"),
        (r#"{"program":"p","exit_code":99999999999}"#, "99999999999"),
        (r#"{"program":"p","exit_code":0,"duration_ms":-1}"#, "-1"),
        (r#"{"program":"p","exit_code":0,"env":["LANG"]}"#, "NAME=value"),
        (r#"{"program":"p","exit_code":0,"stdin_digest":"../x"}"#, "hex"),
        (r#"{"program":"p","exit_code":0,"stdout":{"base64":"*"}}"#, "Invalid"),
        (r#"{"program":"\ud800","exit_code":0}"#, "hex escape"),
        (&"[".repeat(1 << 20), "recursion"),
        (&"x".repeat(32 << 20), "expected value"),
    ] {
        std::fs::write(&path, [r#"{"version":"1.0"}"#, good, bad, good, ""].join("\n")).unwrap();
        let (line, message) = line_error();
        assert_eq!(line, 3);
        assert!(message.contains(reason), "{reason}: {message}");
    }

    for text in ["", "\n", "{}", "nonsense\n", r#"{"version":1}"#, "\u{feff}{}"] {
        std::fs::write(&path, text).unwrap();
        assert_eq!(line_error().0, 1, "{text:?}");
    }
    std::fs::write(&path, "{\"version\":\"2.0\",\"new\":[]}\nnonsense\n").unwrap();
    match ProcessTape::load(&path) {
        Err(error @ TapeError::Version { .. }) => {
            assert!(error.to_string().contains("2.0"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    std::fs::write(&path, format!("{{\"version\":\"1.9\",\"new\":1}}\n{good}")).unwrap();
    assert_eq!(ProcessTape::load(&path).unwrap().entries.len(), 1);
}

#[test]
fn a_tape_beyond_the_limit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(PROCESS_TAPE_BYTES_MAX + 1).unwrap();
    let error = ProcessTape::load(&path).map(|_| ()).unwrap_err();
    assert!(matches!(error, TapeError::Disk(_)), "{error:?}");
}

fn bytes() -> impl Strategy<Value = TapedBytes> {
    let any = prop::collection::vec(any::<u8>(), 0..40).prop_map(TapedBytes);
    prop_oneof![any, ".{0,20}".prop_map(|text| TapedBytes(text.into_bytes()))]
}

type Status = Result<i32, Result<i32, Option<TapedFailure>>>;

/// An exit code, a signal, a failure, or, if none of these, a timeout.
fn status() -> impl Strategy<Value = Status> {
    let failures = [
        TapedFailure::NotFound,
        TapedFailure::CurrentDir,
        TapedFailure::PermissionDenied,
        TapedFailure::Denied,
        TapedFailure::OutputLimit,
        TapedFailure::Host("Exec format error".to_owned()),
    ];
    prop_oneof![
        any::<i32>().prop_map(Ok),
        any::<i32>().prop_map(|signal| Err(Ok(signal))),
        prop::option::of(prop::sample::select(failures.to_vec())).prop_map(|why| Err(Err(why))),
    ]
}

fn state() -> impl Strategy<Value = TapedState> {
    let withheld = prop::option::of(prop::sample::select(vec!["private-key".to_owned()]));
    let file = (any::<u64>(), any::<u64>(), any::<bool>(), withheld);
    prop_oneof![
        file.prop_map(|(content, len_bytes, executable, withheld_by)| TapedState::File {
            content_hash: Digest::of(&content.to_le_bytes()),
            len_bytes,
            executable,
            withheld_by,
        }),
        Just(TapedState::Dir),
        bytes().prop_map(|target| TapedState::Link { target }),
        Just(TapedState::Other),
    ]
}

/// Paths, sorted.
fn paths() -> impl Strategy<Value = std::collections::BTreeSet<String>> {
    prop::collection::btree_set("[a-c\u{e9}]{1,2}(/[a-c]{1,2}){0,2}", 0..4)
}

prop_compose! {
    fn inputs()(paths in paths(), states in prop::collection::vec(state(), 4)) -> Vec<TapedInput> {
        paths.into_iter().zip(states).map(|(path, state)| TapedInput { path, state }).collect()
    }
}

prop_compose! {
    fn changes()(
        paths in paths(),
        states in prop::collection::vec(prop::option::of(state()), 8),
    ) -> Vec<TapedChange> {
        let change = |(path, states): (String, &[Option<TapedState>])| {
            TapedChange { path, before: states[0].clone(), after: states[1].clone() }
        };
        paths.into_iter().zip(states.chunks(2)).map(change).collect()
    }
}

prop_compose! {
    fn entry()(
        program in bytes(),
        args in prop::collection::vec(bytes(), 0..4),
        cwd in prop::option::of(bytes()),
        env in prop::collection::vec((bytes(), bytes()), 0..4),
        stdin in prop::option::of(any::<u64>()),
        stdout in bytes(),
        stderr in bytes(),
        status in status(),
        profile in prop::option::of(prop::sample::select(SandboxProfile::ALL.to_vec())),
        duration_ms in any::<u64>(),
        inputs in inputs(),
        changes in changes(),
        ended in prop::option::of(any::<u64>()),
    ) -> TapeEntry {
        let variable = |(name, value): (TapedBytes, TapedBytes)| {
            TapedBytes([b"N", name.0.as_slice(), b"=", value.0.as_slice()].concat())
        };
        TapeEntry {
            program,
            args,
            cwd,
            env: env.into_iter().map(variable).collect(),
            stdin_digest: stdin.map(|n| Digest::of(&n.to_le_bytes())),
            stdout,
            stderr,
            exit_code: status.clone().ok(),
            signal: status.clone().err().and_then(Result::ok),
            timed_out: status == Err(Err(None)),
            failure: status.err().and_then(Result::err).flatten(),
            profile,
            duration_ms,
            inputs,
            changes,
            ended,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn entries_read_as_they_are_written(entries in prop::collection::vec(entry(), 0..5)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("processes.jsonl");
        let tape = ProcessTape { entries };
        tape.save(&path).unwrap();
        prop_assert_eq!(ProcessTape::load(&path).unwrap(), tape);
    }

    /// With any change of its bytes, a tape loads or gives an error.
    #[test]
    fn damaged_process_tapes_never_panic(
        entry in entry(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("processes.jsonl");
        ProcessTape { entries: vec![entry] }.save(&path).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        for (index, byte) in damage {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(tape) = ProcessTape::load(&path) {
            tape.save(&path).unwrap();
            prop_assert_eq!(ProcessTape::load(&path).unwrap(), tape);
        }
    }
}
