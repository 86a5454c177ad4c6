//! Compares the overlay over a directory of the host with the file system of Linux: the same
//! starting tree and operations must give the same answers and the same final tree.

#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::sync::Arc;

use belljar::Errno;
use belljar::kernel::vfs::{
    FileType, Follow, HostDir, Metadata, SYMLOOP_MAX, SetTime, Source, Times, VfsLimits,
};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::support::files::{Answer, Files, Last, Outcome, OverlayFiles, Tree};
use crate::support::linux::{LinuxFiles, plant_on_disk};
use crate::support::plans::{Hunt, NOW, Op, Place, Plan, Step, Tally, plant};

use Difference as D;

/// A way in which the overlay's answers differ from those of Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Difference {
    Absolute,
    Above,
    LinkOutside,
    AboveRemoved,
    CreateDirectory,
    ListOfRemoved,
    OpenOfSpecial,
}

/// All ways in which the overlay's answers differ from those of Linux, with the reason. Any other
/// difference is a failure.
///
/// Not compared at all: what [`LinuxFiles`] leaves out of its answers; the `atim` of a link, which
/// Linux changes whenever it follows the link (the `atim` of a file is compared, because nothing
/// here reads through a descriptor that would change it); the `mtim` after `fallocate`, which POSIX
/// leaves open and file systems differ in; hard links within the starting tree, which a layer does
/// not know.
const TABLE: &[(Difference, &str)] = &[
    (D::Absolute, "EPERM for an absolute path: WASI knows only paths beneath a directory"),
    (D::Above, "EPERM for `..` out of the directory that a lookup may not leave, as wasmtime"),
    (D::LinkOutside, "ENOENT where a link leads outside: seen from inside, there is nothing"),
    (D::AboveRemoved, "ENOENT for `..` of a removed directory, which POSIX removes with it"),
    (D::CreateDirectory, "EINVAL for O_CREAT|O_DIRECTORY, as Linux 6.4; before, it made a file"),
    (D::ListOfRemoved, "a removed directory lists as empty, as POSIX; Linux: ENOENT"),
    (D::OpenOfSpecial, "EACCES to open a FIFO of the host: it would tie the guest to the host"),
];

/// The end of a path, as far as it can be followed.
#[derive(Default)]
struct Led {
    /// Whether the path, with its links resolved, ends in a slash.
    slash: bool,
    special: bool,
}

/// The reason why Linux is not asked, because the path would leave the directory of the test, and
/// the answer that the overlay must give. `None`: a link to `/..`, which is `/` for a guest but
/// outside the directory for Linux, so that the overlay is not asked either.
type Spared = Option<(Difference, Errno)>;

/// Resolves `place` without the file system's own lookup.
fn lead(linux: &LinuxFiles, place: &Place, last: Last) -> Result<Led, Spared> {
    if place.path.starts_with('/') {
        return Err(Some((D::Absolute, Errno::Perm)));
    }
    let mut led = Led { slash: place.path.ends_with('/'), special: false };
    let Ok(start) = linux.path_of(place.slot) else {
        return Ok(led);
    };
    let removed = start.is_none();
    let mut here = start.unwrap_or_else(|| vec!["(removed)".into()]);
    let root = linux.path_of(place.root).ok().flatten();
    let root = root.filter(|root| here.starts_with(root)).unwrap_or_else(|| here.clone());
    let components = |text: &str| {
        let names = text.rsplit('/').filter(|name| !name.is_empty());
        names.map(String::from).collect::<Vec<_>>()
    };
    let mut todo = components(&place.path);
    let (mut links, mut absolute) = (0, false);
    while let Some(name) = todo.pop() {
        match &*name {
            "." => continue,
            ".." if here == root && links == 0 => return Err(Some((D::Above, Errno::Perm))),
            ".." if here.is_empty() && absolute => return Err(None),
            ".." if here == root => return Err(Some((D::LinkOutside, Errno::Noent))),
            ".." if removed && links == 0 => return Err(Some((D::AboveRemoved, Errno::Noent))),
            ".." if here.is_empty() => return Err(None),
            ".." => {
                here.pop();
                continue;
            }
            name => here.push(name.into()),
        }
        let is_last = todo.is_empty();
        let outside = !here[..here.len() - 1].starts_with(&root);
        if outside && is_last && here == root {
            // Inside, this is `.`; Linux resolves it by the directory's name outside.
            return Err(None);
        }
        match linux.peek(&here) {
            Some((FileType::Directory, _)) => {}
            Some((FileType::SymbolicLink, text))
                if !is_last
                    || last == Last::Followed
                    || (last == Last::FollowedBeforeSlash && led.slash) =>
            {
                links += 1;
                if links > SYMLOOP_MAX || text.is_empty() {
                    let spared = Err(Some((D::LinkOutside, Errno::Noent)));
                    return if outside { spared } else { Ok(led) };
                }
                here.pop();
                if text.starts_with('/') {
                    here.clear();
                    absolute = true;
                }
                led.slash |= is_last && text.ends_with('/');
                todo.extend(components(&text));
            }
            found if is_last => led.special = matches!(found, Some((FileType::Unknown, _))),
            _ if outside => return Err(Some((D::LinkOutside, Errno::Noent))),
            _ => return Ok(led),
        }
    }
    if here.starts_with(&root) { Ok(led) } else { Err(Some((D::LinkOutside, Errno::Noent))) }
}

/// The answer of Linux, unless it is not asked.
fn ask(linux: &mut LinuxFiles, op: &Op) -> Result<Outcome, Spared> {
    if op.bases().any(|slot| linux.path_of(Some(slot)) == Err(Errno::Badf)) {
        return Ok(Err(Errno::Badf));
    }
    match op {
        Op::Open { flags, .. } if flags.create && flags.directory => {
            return Err(Some((D::CreateDirectory, Errno::Inval)));
        }
        Op::Open { at, flags, .. } => {
            let exclusive = flags.create && flags.exclusive;
            let follow = if flags.follow && !exclusive { Follow::Yes } else { Follow::No };
            // Linux refuses a slash at the end before it looks whether a link is there.
            let is_refused = flags.create && at.path.ends_with('/');
            let led = lead(linux, at, if is_refused { Last::Kept } else { follow.into() })?;
            if led.special && !exclusive && !flags.directory && !led.slash {
                return Err(Some((D::OpenOfSpecial, Errno::Acces)));
            }
        }
        Op::Stat { at, follow }
        | Op::SetTimes { at, follow, .. }
        | Op::SetExecutable { at, follow, .. }
        | Op::IsExecutable { at, follow } => {
            lead(linux, at, (*follow).into())?;
        }
        Op::ReadLink { at } => {
            lead(linux, at, Last::FollowedBeforeSlash)?;
        }
        Op::Mkdir { at } | Op::Rmdir { at } | Op::Unlink { at } => {
            lead(linux, at, Last::Kept)?;
        }
        Op::Symlink { text, at } if !text.is_empty() => {
            lead(linux, at, Last::Kept)?;
        }
        Op::Rename { from, to } => {
            lead(linux, from, Last::Kept)?;
            if let Err(spared) = lead(linux, to, Last::Kept) {
                // Linux looks up both directories before it refuses to replace `.`.
                let dot = Place { slot: None, root: None, path: ".".into() };
                return match linux.apply(&Op::Rename { from: from.clone(), to: dot }, NOW) {
                    Err(Errno::Busy) => Err(spared),
                    outcome => Ok(outcome),
                };
            }
        }
        Op::Link { from, follow, to } => {
            lead(linux, from, (*follow).into())?;
            if let Err(spared) = lead(linux, to, Last::Kept) {
                return match linux.apply(&Op::Stat { at: from.clone(), follow: *follow }, NOW) {
                    Err(errno) => Ok(Err(errno)),
                    Ok(_) => Err(spared),
                };
            }
        }
        _ => {}
    }
    Ok(linux.apply(op, NOW))
}

/// The difference that explains two answers.
fn explain(op: &Op, linux: &Outcome, ours: &Outcome) -> Option<Difference> {
    use Errno::Noent;
    match (op, linux, ours) {
        (Op::List { .. }, Err(Noent), Ok(Answer::Entries(entries))) => {
            entries.is_empty().then_some(D::ListOfRemoved)
        }
        _ => None,
    }
}

/// Removes from `meta` all that the two sides cannot have in common, except the inode number.
fn strip_meta(meta: &mut Metadata) {
    let old = |time: u64| time.min(NOW);
    let atim = if meta.file_type == FileType::SymbolicLink { 0 } else { old(meta.times.atim) };
    meta.times = Times { atim, mtim: old(meta.times.mtim), ctim: 0 };
}

/// The same for an answer. Linux reuses inode numbers, so they cannot be compared over time.
fn strip(outcome: &mut Outcome) {
    match outcome {
        Ok(Answer::Meta(meta)) => {
            strip_meta(meta);
            meta.ino = 0;
        }
        Ok(Answer::Entries(entries)) => entries.iter_mut().for_each(|entry| entry.1 = 0),
        _ => {}
    }
}

/// The same for a tree, in which equal inode numbers stay equal.
fn strip_tree(mut tree: Tree) -> Tree {
    let mut numbers = HashMap::new();
    let mut number = |ino: &mut u64| {
        let next = numbers.len() as u64;
        *ino = *numbers.entry(*ino).or_insert(next);
    };
    for (meta, held) in tree.values_mut() {
        strip_meta(meta);
        number(&mut meta.ino);
        if let Answer::Entries(entries) = held {
            for entry in entries {
                number(&mut entry.1);
            }
        }
    }
    tree
}

fn check(plan: &Plan) -> Result<Tally, String> {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let path = temporary.path().canonicalize().expect("it was just made");
    let tree = plant(&plan.layers[0], false);
    // Deep, so that little is affected if a path does lead outside.
    let mut linux = LinuxFiles::new(path.join("1/2/3"), &tree);
    plant_on_disk(&path.join("below"), &tree, str::to_owned);
    let below = HostDir::open(&path.join("below")).expect("it was just made");
    let mut limits = VfsLimits::default();
    limits.cache_bytes_max *= u64::from(plan.caches);
    let mut overlay = OverlayFiles::new(Source::Host(Arc::new(below)), true, limits);
    let mut tally = Tally::default();
    for (at, Step { op, .. }) in plan.steps.iter().enumerate() {
        let (mut expected, difference) = match ask(&mut linux, op) {
            Ok(outcome) => (outcome, None),
            Err(Some((difference, errno))) => (Err(errno), Some(difference)),
            Err(None) => continue,
        };
        let mut ours = overlay.apply(op, NOW + at as u64);
        strip(&mut expected);
        strip(&mut ours);
        let difference = if expected == ours { difference } else { explain(op, &expected, &ours) };
        if expected != ours && difference.is_none() {
            return Err(format!("step {at}: {op:?}\n  Linux {expected:?}\n  ours  {ours:?}"));
        }
        match (difference, &ours) {
            (Some(difference), _) => tally.count(op, &format!("{difference:?}")),
            (None, Err(errno)) => tally.count(op, errno.name()),
            (None, Ok(_)) => tally.count(op, "ok"),
        }
        if let (Op::Allocate { slot, .. }, Ok(_)) = (op, &ours) {
            let equal = Op::SetTimesOpen { slot: *slot, atim: SetTime::Keep, mtim: SetTime::At(1) };
            assert_eq!(linux.apply(&equal, NOW), overlay.apply(&equal, NOW));
        }
    }
    let (linux, ours) = (strip_tree(linux.dump()), strip_tree(overlay.dump()));
    let all = linux.keys().chain(ours.keys());
    if let Some(path) = all.into_iter().find(|path| linux.get(*path) != ours.get(*path)) {
        let (linux, ours) = (linux.get(path), ours.get(path));
        return Err(format!("in the end, {path:?}\n  Linux {linux:?}\n  ours  {ours:?}"));
    }
    overlay.empty();
    Ok(tally)
}

#[test]
fn overlay_agrees_with_linux() {
    let layers = |_: &mut _| 1;
    Hunt { name: "differential", ops: 20_000, ops_per_plan: 300, layers }.run(check);
    for (difference, what) in TABLE {
        println!("{difference:?}: {what}");
    }
}

#[test]
fn overlay_agrees_with_linux_in_proptest_plans() {
    let config = Config { cases: 50, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let outcome = TestRunner::new_with_rng(config, rng)
        .run(&Plan::strategy(1), |plan| check(&plan).map(|_| ()).map_err(TestCaseError::fail));
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
