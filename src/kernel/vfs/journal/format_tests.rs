//! Journals: complete, truncated and invalid ones.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "the tests use the disk")]

use std::fs;

use proptest::prelude::*;

use super::format::{self as format, JournalDefect, Root};
use super::tests::recover;
use crate::kernel::vfs::journal::plan::{Attributes, Identity, Plan, Step};
use crate::kernel::vfs::layer::temporary::temporary_name;
use crate::kernel::vfs::*;

/// The three parts of a journal.
type Parts = (Vec<Root>, Vec<Plan>, Vec<Vec<Option<Identity>>>);

fn some_journal() -> Parts {
    let path = |text: &str| VPath::parse(text).unwrap();
    let temporary = || path("d").join(&temporary_name());
    let made = Identity { file_type: FileType::RegularFile, inode: 7, size: 8, mtime_ns: 9 };
    let steps = vec![
        Step::Remove { path: path("gone"), backup: temporary(), dir_mode: None },
        Step::Remove { path: path("dir"), backup: temporary(), dir_mode: Some(0o755) },
        Step::CreateDir { path: path("new"), temporary: temporary() },
        Step::Place { path: path("d/f"), temporary: temporary(), backup: Some(temporary()) },
        Step::Place { path: path("d/g"), temporary: temporary(), backup: None },
    ];
    let attributes = vec![Attributes {
        path: path("new"),
        times: Some(Times::all(5)),
        mode: Some(0o700),
        of: Some(made),
    }];
    let roots = vec![Root { id: (1, 2), path: "/some/where".into() }];
    (roots, vec![Plan { steps, attributes }], vec![vec![None, None, Some(made), Some(made), None]])
}

fn bytes_of((roots, plans, staged): &Parts) -> Vec<u8> {
    [format::beginning(roots), format::plans_part(plans), format::staged_part(staged)].concat()
}

#[test]
fn journal_round_trips() {
    let journal = some_journal();
    let content = format::parse(&bytes_of(&journal)).unwrap();
    assert_eq!(
        (content.roots, content.plans, content.staged),
        (journal.0, Some(journal.1), Some(journal.2))
    );
    assert_eq!(content.defect, None);
}

/// After a power cut each part is there completely or not at all.
#[test]
fn truncated_journal_keeps_its_complete_parts() {
    let journal = some_journal();
    let bytes = bytes_of(&journal);
    let (roots, plans) =
        (format::beginning(&journal.0).len(), format::plans_part(&journal.1).len());
    for len in 0..bytes.len() {
        match format::parse(&bytes[..len]) {
            Err(JournalDefect::Damaged(_)) => assert!(len < roots, "{len}"),
            Ok(content) => {
                assert!(len >= roots && content.staged.is_none() && content.defect.is_none());
                assert_eq!(content.plans.is_some(), len >= roots + plans, "{len}");
            }
            Err(defect) => panic!("{defect:?}"),
        }
    }
    let later = [b"belljar journal\n\x02\0\x03\0", &bytes[20..]].concat();
    assert_eq!(format::parse(&later), Err(JournalDefect::Version(2, 3)));
}

#[test]
fn journal_with_foreign_paths_is_damaged() {
    let (roots, plans, staged) = some_journal();
    let path = |text: &str| VPath::parse(text).unwrap();
    let journal = |steps: Vec<Step>| {
        let plans = [Plan { steps, attributes: Vec::new() }];
        format::parse(&[format::beginning(&roots), format::plans_part(&plans)].concat())
            .unwrap()
            .defect
    };
    let good = VPath::root().join(&temporary_name());
    for bad in ["a", "d/.belljar-x.tmp", ".belljar-0123456789ABCDEF.tmp", ""] {
        let step = Step::Remove { path: path("p"), backup: path(bad), dir_mode: None };
        assert!(journal(vec![step]).is_some(), "{bad}");
        let step =
            Step::Place { path: path("p"), temporary: good.clone(), backup: Some(path(bad)) };
        assert!(journal(vec![step]).is_some(), "{bad}");
    }
    let root = Step::CreateDir { path: VPath::root(), temporary: good };
    assert!(journal(vec![root]).is_some());
    let short = [format::beginning(&roots), format::plans_part(&plans), format::staged_part(&[])];
    assert!(format::parse(&short.concat()).unwrap().defect.is_some());
    let twice = [bytes_of(&(roots.clone(), plans.clone(), staged)), b"x".to_vec()].concat();
    assert!(format::parse(&twice).unwrap().defect.is_some());
    // Paths with `..` are not even read.
    let mut bytes = bytes_of(&some_journal());
    let at = bytes.windows(4).position(|it| it == b"gone").unwrap();
    bytes[at..at + 4].copy_from_slice(b"/../");
    assert!(format::parse(&bytes).unwrap().plans.is_none(), "its digest differs");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever a journal contains, it is reported, and nothing outside its directory changes.
    #[test]
    fn arbitrary_journal_bytes_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        begins_well in any::<bool>(),
    ) {
        let mut journal = if begins_well { bytes_of(&some_journal()) } else { bytes };
        for (at, byte) in flips {
            if !journal.is_empty() {
                let at = at.index(journal.len());
                journal[at] = byte;
            }
        }
        let _ = format::parse(&journal);
        let folder = tempfile::tempdir().unwrap();
        let (disk, journals) = (folder.path().join("disk"), folder.path().join("journals"));
        fs::create_dir(&disk).unwrap();
        fs::create_dir(&journals).unwrap();
        fs::write(disk.join("gone"), "x").unwrap();
        for state in ["draft", "prepared", "committed"] {
            fs::write(journals.join(format!("0123456789abcdef.{state}")), &journal).unwrap();
        }
        let _ = recover(&disk, &journals, OnChanged::Skip);
        prop_assert_eq!(fs::read(disk.join("gone")).unwrap(), b"x");
    }

    /// Parts with a valid digest and arbitrary content.
    #[test]
    fn arbitrary_part_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut journal = format::beginning(&some_journal().0);
        let mut part = b"PLAN".to_vec();
        part.extend((bytes.len() as u64).to_le_bytes());
        part.extend(bytes);
        let digest = crate::base::digest::Digest::of(&part);
        journal.extend(part);
        journal.extend(digest.as_bytes());
        let _ = format::parse(&journal);
    }
}
