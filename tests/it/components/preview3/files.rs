//! `wasi:filesystem`.

use belljar::{Limits, VfsLimits};

use super::{answers, answers_in, builder, expect};

#[test]
fn file_is_created_written_and_read() {
    expect(&[
        ("open d1 no a c rw", "d2"),
        ("type d2", "DescriptorType::RegularFile"),
        ("flags d2", "DescriptorFlags(READ | WRITE)"),
        ("write d2 0 hello", "Ok(())"),
        ("write d2 0 J", "Ok(())"),
        ("write d2 6 end", "Ok(())"),
        ("append d2 .", "Ok(())"),
        ("read d2 0 100 100", r#""Jello\0end." Ok(())"#),
        ("read d2 1 2 5", r#""ello\0" Ok(())"#),
        ("read d2 100 9 9", r#""" Ok(())"#),
        ("read d2 18446744073709551615 9 9", r#""" Err(ErrorCode::Invalid)"#),
        ("size d2 3", "()"),
        ("read d2 0 9 9", r#""Jel" Ok(())"#),
        ("advise d2", "()"),
        ("sync d2", "()"),
        ("sync-data d2", "()"),
        ("write d2 18446744073709551615 x", "Err(ErrorCode::FileTooLarge)"),
        ("size d2 18446744073709551615", "ErrorCode::FileTooLarge"),
        ("open d1 no a t rw", "d3"),
        ("read d3 0 9 9", r#""" Ok(())"#),
    ]);
}

#[test]
fn what_a_directory_does_not_do_is_an_error() {
    expect(&[
        ("type d1", "DescriptorType::Directory"),
        ("flags d1", "DescriptorFlags(READ | MUTATE_DIRECTORY)"),
        ("advise d1", "ErrorCode::BadDescriptor"),
        ("open d1 no . d r", "d2"),
        ("flags d2", "DescriptorFlags(READ)"),
        ("open d1 no . d rm", "d3"),
        ("flags d3", "DescriptorFlags(READ | MUTATE_DIRECTORY)"),
        ("sync d1", "()"),
        ("read d1 0 1 1", r#""" Err(ErrorCode::IsDirectory)"#),
        ("write d1 0 x", "Err(ErrorCode::IsDirectory)"),
        ("append d1 x", "Err(ErrorCode::IsDirectory)"),
        ("size d1 0", "ErrorCode::Invalid"),
        ("open d1 no f c rw", "d4"),
        ("list d4", " Err(ErrorCode::NotDirectory)"),
        ("open d4 no x c w", "ErrorCode::NotDirectory"),
    ]);
}

#[test]
fn descriptor_reads_and_writes_only_as_it_was_opened() {
    expect(&[
        ("open d1 no b c r", "d2"),
        ("flags d2", "DescriptorFlags(READ | WRITE)"),
        ("open d1 no c c -", "d3"),
        ("flags d3", "DescriptorFlags(READ | WRITE)"),
        ("open d1 no a c w", "d4"),
        ("flags d4", "DescriptorFlags(WRITE)"),
        ("open d1 no a - -", "d5"),
        ("flags d5", "DescriptorFlags(READ)"),
        ("open d1 no a - r", "d6"),
        ("write d6 0 x", "Err(ErrorCode::BadDescriptor)"),
        ("append d6 x", "Err(ErrorCode::BadDescriptor)"),
        ("size d6 1", "ErrorCode::Invalid"),
        ("open d1 no a - w", "d7"),
        ("read d7 0 1 1", r#""" Err(ErrorCode::BadDescriptor)"#),
    ]);
}

#[test]
fn names_are_made_moved_linked_and_removed() {
    expect(&[
        ("mkdir d1 d", "()"),
        ("mkdir d1 d", "ErrorCode::Exist"),
        ("open d1 no d/f cx rw", "d2"),
        ("open d1 no d/f cx rw", "ErrorCode::Exist"),
        ("open d1 no none - r", "ErrorCode::NoEntry"),
        ("open d1 no d/f d r", "ErrorCode::NotDirectory"),
        ("open d1 no d - r", "d3"),
        ("same d2 d2", "true"),
        ("same d2 d3", "false"),
        ("rename d1 d/f d3 g", "()"),
        ("rename d1 d/f d3 g", "ErrorCode::NoEntry"),
        ("link d3 no g d1 h", "()"),
        ("link d3 no g d1 h", "ErrorCode::Exist"),
        ("symlink d1 d/g s", "()"),
        ("symlink d1 d/g s", "ErrorCode::Exist"),
        ("readlink d1 s", r#""d/g""#),
        ("readlink d1 h", "ErrorCode::Invalid"),
        (
            "list d1",
            "d:DescriptorType::Directory h:DescriptorType::RegularFile s:DescriptorType::SymbolicLink Ok(())",
        ),
        ("list d3", "g:DescriptorType::RegularFile Ok(())"),
        ("rmdir d1 d", "ErrorCode::NotEmpty"),
        ("unlink d1 d", "ErrorCode::IsDirectory"),
        ("unlink d1 d/g", "()"),
        ("unlink d1 d/g", "ErrorCode::NoEntry"),
        ("open d1 follow s - r", "ErrorCode::NoEntry"),
        ("rmdir d1 d", "()"),
        ("rmdir d1 h", "ErrorCode::NotDirectory"),
        ("open d1 no ../x c rw", "ErrorCode::ReadOnly"),
    ]);
}

#[test]
fn times_are_set_and_shown() {
    let found = answers(&[
        "open d1 no a c rw",
        "times d2 5 7",
        "stat d2",
        "symlink d1 a s",
        "times-at d1 follow s keep 9",
        "stat-at d1 follow s",
        "times-at d1 no s 3 3",
        "stat-at d1 no s",
        "times-at d1 no none now now",
        "times d2 -1 keep",
        "stat-at d1 no none",
    ]);
    let shows = |line: &str, times: [u32; 2]| {
        let [access, modification] =
            times.map(|seconds| format!("Some(Instant {{ seconds: {seconds}, nanoseconds: 5 }})"));
        let wanted = format!(
            "data-access-timestamp: {access}, data-modification-timestamp: {modification}, "
        );
        assert!(line.contains(&wanted), "{line}");
    };
    shows(&found[2], [5, 7]);
    shows(&found[5], [5, 9]);
    shows(&found[7], [3, 3]);
    assert_eq!(found[8..], ["ErrorCode::NoEntry", "ErrorCode::Overflow", "ErrorCode::NoEntry"]);
}

#[test]
fn hash_is_that_of_one_file() {
    let found = answers(&[
        "open d1 no a c rw",
        "open d1 no b c rw",
        "hash d2",
        "hash-at d1 no a",
        "hash d3",
        "hash-at d1 no none",
    ]);
    assert_eq!(found[2], found[3]);
    assert_ne!(found[2], found[4]);
    assert_eq!(found[5], "ErrorCode::NoEntry");
}

/// A listing is read in pieces, and is the state of its beginning.
#[test]
fn large_directory_is_listed_in_the_order_of_names() {
    let names: Vec<String> = (0..300).map(|number| format!("f{number:03}")).collect();
    let made: Vec<String> = names.iter().rev().map(|name| format!("mkdir d1 {name}")).collect();
    let mut calls: Vec<&str> = made.iter().map(String::as_str).collect();
    calls.push("list d1");
    let found = answers(&calls);
    let wanted: Vec<String> =
        names.iter().map(|name| format!("{name}:DescriptorType::Directory")).collect();
    assert_eq!(found[300], format!("{} Ok(())", wanted.join(" ")));
}

#[test]
fn file_that_may_not_grow_ends_its_stream_with_an_error() {
    let vfs = VfsLimits { file_bytes_max: 10, ..VfsLimits::default() };
    let limits = Limits { vfs, ..Limits::default() };
    let calls = ["open d1 no f c rw", "write d2 8 abc", "append d2 ok", "read d2 0 99 99"];
    let found = answers_in(builder().limits(limits), &calls);
    assert_eq!(found[1], "Err(ErrorCode::FileTooLarge)");
}

/// A stream keeps its file open, and a stream that is dropped does not.
#[test]
fn streams_that_are_left_are_closed() {
    let limits = Limits { open_files_max: 12, ..Limits::default() };
    let mut calls = vec!["open d1 no f c rw", "write d2 0 abcdef"];
    calls.extend(vec!["read d2 0 1 1"; 100]);
    calls.extend(vec!["list d1"; 100]);
    calls.extend(vec!["append d2 x"; 100]);
    let found = answers_in(builder().limits(limits), &calls);
    assert_eq!(found[2..102], vec![r#""a" Ok(())"#; 100]);
    assert_eq!(found[202..], vec!["Ok(())"; 100]);
}
