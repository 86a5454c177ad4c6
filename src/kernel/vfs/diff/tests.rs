//! Random trees and changes: `git apply` and `apply` must give the tree that the overlay shows.
//! `BELLJAR_TEST_CASES` is the number of cases.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "the tests use the disk and run git")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::kernel::vfs::overlay::node::TimesOf;
use crate::kernel::vfs::test_trees::{
    Item, Tree, check_counts, git_apply, on_disk, shown, write_to,
};
use crate::kernel::vfs::*;

/// The tree as git sees it.
fn without_empty_dirs(tree: &Tree) -> Tree {
    let holds = |dir: &str| {
        let beneath = format!("{dir}/");
        let is_beneath =
            |(path, item): (&String, &Item)| path.starts_with(&beneath) && *item != Item::Dir;
        tree.iter().any(is_beneath)
    };
    let stays = |(path, item): &(&String, &Item)| **item != Item::Dir || holds(path);
    tree.iter().filter(stays).map(|(path, item)| (path.clone(), item.clone())).collect()
}

/// Up to git 2.47, `git apply -R` loses the mode of a file that it restores.
fn without_modes(mut tree: Tree) -> Tree {
    for item in tree.values_mut() {
        if let Item::File { bytes, .. } | Item::Link(bytes) = item {
            *item = Item::File { bytes: std::mem::take(bytes), executable: false };
        }
    }
    tree
}

fn without_dirs(tree: &Tree) -> Tree {
    let stays = |(_, item): &(&String, &Item)| **item != Item::Dir;
    tree.iter().filter(stays).map(|(path, item)| (path.clone(), item.clone())).collect()
}

/// Whether git refuses every patch from one tree, which is on the disk, to the other: it cannot replace a
/// symbolic link by a directory if the link leads to itself, or if another link is seen through it.
fn baffles_git(top: &Path, from: &Tree, to: &Tree) -> bool {
    let is_loop = |path: &String| {
        let error = fs::metadata(top.join(path)).err().and_then(|error| error.raw_os_error());
        error == Some(rustix::io::Errno::LOOP.raw_os_error())
    };
    let leads_astray = |path: &String| {
        let is_link = |dir: &str| top.join(dir).is_symlink() && !from.contains_key(dir);
        path.match_indices('/').any(|(at, _)| is_link(&path[..at]))
    };
    from.keys().any(is_loop) || to.keys().any(leads_astray)
}

/// The differences of two trees: path, whether it was there, whether it is there.
fn compared(before: &Tree, after: &Tree) -> BTreeSet<(String, bool, bool)> {
    let mut changes = BTreeSet::new();
    for path in before.keys().chain(after.keys()) {
        match (before.get(path), after.get(path)) {
            (Some(a), Some(b)) if a == b => {}
            (Some(a), Some(b)) if std::mem::discriminant(a) != std::mem::discriminant(b) => {
                changes.insert((path.clone(), true, false));
                changes.insert((path.clone(), false, true));
            }
            (a, b) => {
                changes.insert((path.clone(), a.is_some(), b.is_some()));
            }
        }
    }
    changes
}

fn reported(entries: &[DiffEntry]) -> BTreeSet<(String, bool, bool)> {
    let sides = |kind: &DiffKind| match kind {
        DiffKind::Added { .. } | DiffKind::DirAdded | DiffKind::SymlinkAdded { .. } => {
            (false, true)
        }
        DiffKind::Modified { .. } | DiffKind::SymlinkModified { .. } => (true, true),
        DiffKind::Deleted { .. } | DiffKind::DirDeleted | DiffKind::SymlinkDeleted { .. } => {
            (true, false)
        }
        DiffKind::SpecialAdded { .. } | DiffKind::SpecialDeleted { .. } => unreachable!(),
    };
    let tuple = |entry: &DiffEntry| {
        let (before, after) = sides(&entry.kind);
        (entry.path.as_str().to_owned(), before, after)
    };
    let set: BTreeSet<_> = entries.iter().map(tuple).collect();
    assert_eq!(set.len(), entries.len(), "nothing is reported twice");
    set
}

const NAMES: [&str; 11] =
    ["a", "b", "d", "d-x", "m", "sp ace", "\u{e9}\"q", "tab\tnl\n\\", "-R", "a b", " cr\r "];

/// A path used so far, or a name in it.
type Pick = (usize, Option<&'static str>);

#[derive(Clone, Debug)]
enum Op {
    Write(Pick, Vec<u8>),
    WriteAt(Pick, u16, Vec<u8>),
    Append(Pick, Vec<u8>),
    SetLen(Pick, u16),
    /// Reorders the lines, so that hunks are all over the file.
    Shuffle(Pick, usize),
    Read(Pick),
    Hold(Pick),
    Unlink(Pick),
    RemoveDir(Pick),
    RemoveTree(Pick),
    MakeDir(Pick),
    Rename(Pick, Pick),
    Link(Pick, Pick),
    Symlink(Pick, &'static str),
    SetTimes(Pick, u32),
    SetExecutable(Pick, bool),
    List(Pick),
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let line = select(&["x", "y", "z", "", "fn f() {", "    }", "- minus", "cr\r", "\u{e4}"][..]);
    // Lines that look like a patch.
    let patch = select(&["@@ -1 +1 @@", "--- a/a", "+++ b/a", "\\ No newline at end of file"][..]);
    let lines = vec(prop_oneof![9 => line, 1 => patch], 0..40);
    let text =
        (lines, any::<bool>(), proptest::bool::weighted(0.2)).prop_map(|(lines, end, crlf)| {
            let newline = if crlf { "\r\n" } else { "\n" };
            format!("{}{}", lines.join(newline), if end { newline } else { "" }).into_bytes()
        });
    prop_oneof![6 => text, 2 => vec(any::<u8>(), 0..300), 1 => Just(Vec::new())]
}

fn pick() -> impl Strategy<Value = Pick> {
    (any::<usize>(), proptest::option::of(select(&NAMES[..])))
}

fn op() -> impl Strategy<Value = Op> {
    let text = select(&["a", "b/x", "../b", "/a", "nowhere\nelse", "d"][..]);
    prop_oneof![
        4 => (pick(), content()).prop_map(|(p, c)| Op::Write(p, c)),
        2 => (pick(), 0..200u16, content()).prop_map(|(p, at, c)| Op::WriteAt(p, at, c)),
        1 => (pick(), content()).prop_map(|(p, c)| Op::Append(p, c)),
        1 => (pick(), 0..200u16).prop_map(|(p, len)| Op::SetLen(p, len)),
        2 => (pick(), any::<usize>()).prop_map(|(p, n)| Op::Shuffle(p, n)),
        1 => pick().prop_map(Op::Read),
        1 => pick().prop_map(Op::Hold),
        3 => pick().prop_map(Op::Unlink),
        1 => pick().prop_map(Op::RemoveDir),
        1 => pick().prop_map(Op::RemoveTree),
        2 => pick().prop_map(Op::MakeDir),
        5 => (pick(), pick()).prop_map(|(a, b)| Op::Rename(a, b)),
        1 => (pick(), pick()).prop_map(|(a, b)| Op::Link(a, b)),
        2 => (pick(), text).prop_map(|(p, text)| Op::Symlink(p, text)),
        1 => (pick(), any::<u32>()).prop_map(|(p, time)| Op::SetTimes(p, time)),
        3 => (pick(), any::<bool>()).prop_map(|(p, bit)| Op::SetExecutable(p, bit)),
        1 => pick().prop_map(Op::List),
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    let item = prop_oneof![
        6 => (content(), any::<bool>()).prop_map(|(bytes, executable)| Item::File { bytes, executable }),
        1 => Just(Item::Dir),
        1 => select(&["a", "d", "../x"][..]).prop_map(|text| Item::Link(text.into())),
    ];
    let path = vec(select(&NAMES[..]), 1..4);
    vec((path, item), 0..12).prop_map(|items| {
        let mut tree = Tree::new();
        for (path, item) in items {
            let dirs = (1..path.len()).map(|len| path[..len].join("/"));
            let path = path.join("/");
            if dirs.clone().any(|dir| tree.get(&dir).is_some_and(|item| *item != Item::Dir)) {
                continue;
            }
            if !tree.contains_key(&path) {
                tree.extend(dirs.map(|dir| (dir, Item::Dir)));
                tree.insert(path, item);
            }
        }
        tree
    })
}

/// An overlay, and what is open in it.
struct Actor {
    overlay: Overlay,
    at: &'static str,
    known: Vec<String>,
    held: Vec<(NodeId, Vec<u8>)>,
    now: u64,
}

impl Actor {
    fn path(&self, (index, name): Pick) -> String {
        let known = &self.known[index % self.known.len()];
        let slash = if known.is_empty() { "" } else { "/" };
        name.map_or_else(|| known.clone(), |name| format!("{known}{slash}{name}"))
    }

    /// Refused operations are allowed, and must change nothing.
    fn run(&mut self, op: &Op) {
        self.now += 1;
        let now = self.now;
        let base = self.overlay.host_base();
        let full = |path: &str| format!("{}/{path}", self.at.trim_end_matches('/'));
        let (Op::Write(pick, _)
        | Op::WriteAt(pick, ..)
        | Op::Append(pick, _)
        | Op::SetLen(pick, _)
        | Op::Shuffle(pick, _)
        | Op::Read(pick)
        | Op::Hold(pick)
        | Op::Unlink(pick)
        | Op::RemoveDir(pick)
        | Op::RemoveTree(pick)
        | Op::MakeDir(pick)
        | Op::Rename(_, pick)
        | Op::Link(_, pick)
        | Op::Symlink(pick, _)
        | Op::SetTimes(pick, _)
        | Op::SetExecutable(pick, _)
        | Op::List(pick)) = op;
        let path = full(&self.path(*pick));
        let relative = path[1..].to_owned();
        let from = match op {
            Op::Rename(from, _) | Op::Link(from, _) => full(&self.path(*from))[1..].to_owned(),
            _ => String::new(),
        };
        let overlay = &mut self.overlay;
        let flags = OpenFlags { follow: true, write: true, ..OpenFlags::default() };
        let done = match op {
            Op::Write(_, bytes) => overlay.write(&path, bytes, now),
            Op::WriteAt(_, offset, bytes) => overlay.open(base, &relative, flags, now).map(|id| {
                let _ = overlay.write_at(id, u64::from(*offset), bytes, now);
                overlay.close(id);
            }),
            Op::Append(_, bytes) => overlay.open(base, &relative, flags, now).map(|id| {
                let end = overlay.metadata_of(id).size;
                let _ = overlay.write_at(id, end, bytes, now);
                overlay.close(id);
            }),
            Op::SetLen(_, len) => overlay.open(base, &relative, flags, now).map(|id| {
                let _ = overlay.set_len(id, u64::from(*len), now);
                overlay.close(id);
            }),
            Op::Shuffle(_, seed) => overlay
                .read(&path)
                .and_then(|old| overlay.write(&path, &shuffled(&old, *seed), now)),
            Op::Read(_) => overlay.read(&path).map(drop),
            Op::Hold(_) => {
                let flags = OpenFlags { follow: true, ..OpenFlags::default() };
                overlay.open(base, &relative, flags, now).map(|id| self.held.push((id, Vec::new())))
            }
            Op::Unlink(_) => overlay.unlink(base, &relative, now),
            Op::RemoveDir(_) => overlay.remove_dir(base, &relative, now),
            Op::RemoveTree(_) => remove_tree(overlay, base, &relative, now),
            Op::MakeDir(_) => overlay.create_dir(base, &relative, now).map(drop),
            Op::Rename(..) => overlay.rename((base, &from), (base, &relative), now),
            Op::Link(..) => overlay.link((base, &from), Follow::No, (base, &relative), now),
            Op::Symlink(_, text) => overlay.symlink(text, base, &relative, now),
            Op::SetTimes(_, time) => {
                let time = SetTime::At(u64::from(*time) * 1_000_000_000);
                overlay.set_times_at(base, &relative, Follow::No, time, time, now)
            }
            Op::SetExecutable(_, executable) => {
                overlay.set_executable_at(base, &relative, Follow::Yes, *executable, now)
            }
            Op::List(_) => overlay
                .lookup(base, &relative, Follow::Yes)
                .and_then(|id| overlay.list(id).map(drop)),
        };
        if done.is_ok() {
            self.known.push(self.path(*pick));
        }
    }

    /// Reads what is open.
    fn read_held(&mut self) -> Vec<Option<Vec<u8>>> {
        let ids: Vec<NodeId> = self.held.iter().map(|(id, _)| *id).collect();
        ids.into_iter().map(|id| self.overlay.read_node(id).ok()).collect()
    }
}

fn shuffled(bytes: &[u8], seed: usize) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
    for step in 0..seed % 4 {
        let (a, b) = ((seed >> (8 * step)) % 256, (seed >> (8 * step + 5)) % 256);
        if !lines.is_empty() {
            let count = lines.len();
            lines.swap(a % count, b % count);
        }
    }
    lines.concat()
}

fn remove_tree(
    overlay: &mut Overlay,
    base: Base,
    path: &str,
    now: u64,
) -> Result<(), crate::base::errno::Errno> {
    let id = overlay.lookup(base, path, Follow::No)?;
    for listed in overlay.list(id)?.iter() {
        let path = format!("{path}/{}", listed.name);
        if overlay.unlink(base, &path, now).is_err() {
            remove_tree(overlay, base, &path, now)?;
        }
    }
    overlay.remove_dir(base, path, now)
}

/// The mount point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Root,
    Beneath,
    /// With a mount in memory at `d/m`.
    Around,
    /// Two merged layers: no patch is written.
    Merged,
}

/// An overlay, its mount, and whether another mount is in that.
fn mounted(place: Place, disk: &Path, upper: &Path) -> (Overlay, MountId, bool) {
    let mut overlay = Overlay::new(VfsLimits::default(), 1);
    let at = if place == Place::Root { "/" } else { "/w" };
    let host = Arc::new(HostDir::open(disk).unwrap());
    let source = match place {
        Place::Merged => {
            let upper = Arc::new(HostDir::open(upper).unwrap());
            Source::Layers(vec![upper as Arc<dyn Layer>, host as Arc<dyn Layer>])
        }
        _ => Source::Host(host),
    };
    let mount = overlay.mount(at, source, false, Mtimes::Fixed(1), 1).unwrap();
    // Refused if a file is in the way.
    let is_around = place == Place::Around
        && overlay.mount("/w/d/m", Source::Memory, false, Mtimes::Fixed(1), 1).is_ok();
    (overlay, mount, is_around)
}

/// Checks that git turns `visible` into `after` by `patch`, and back.
fn check_patch(git: &Path, patch: &str, visible: &Tree, after: &Tree) {
    let _ = fs::remove_dir_all(git);
    fs::create_dir(git).unwrap();
    write_to(git, &without_empty_dirs(visible));
    if !patch.is_empty() && !baffles_git(git, visible, after) {
        git_apply(git, patch, &["--check"]);
        git_apply(git, patch, &[]);
        assert_eq!(on_disk(git), without_empty_dirs(after), "{patch}");
        if !baffles_git(git, after, visible) {
            git_apply(git, patch, &["-R"]);
            let (reversed, original) = (on_disk(git), without_empty_dirs(visible));
            assert_eq!(without_modes(reversed), without_modes(original), "reversed: {patch}");
        }
    }
}

/// Checks that files have their times on the disk, and at most the names they had.
/// `entries` without those of other files with equal content.
fn differing(mut entries: Vec<DiffEntry>) -> Vec<DiffEntry> {
    entries.retain(|entry| !entry.is_equal);
    entries
}

fn check_disk(disk: &Path, timed: Vec<(String, u64)>, names: Vec<(String, u32)>) {
    for (path, mtim) in timed {
        if let Ok(metadata) = fs::symlink_metadata(disk.join(&path)) {
            let on_disk = metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec();
            assert_eq!(on_disk.cast_unsigned(), mtim, "{path}");
        }
    }
    for (path, nlink) in names {
        if let Ok(metadata) = fs::symlink_metadata(disk.join(&path))
            && metadata.is_file()
        {
            assert_eq!(metadata.nlink(), u64::from(nlink), "{path}");
        }
    }
}

fn check(place: Place, lower: &Tree, upper: &Tree, rounds: &[Vec<Op>]) {
    let folder = tempfile::tempdir().unwrap();
    let [disk, top, git] = ["disk", "top", "git"].map(|name| folder.path().join(name));
    for dir in [&disk, &top] {
        fs::create_dir(dir).unwrap();
    }
    write_to(&disk, lower);
    write_to(&top, upper);
    let (overlay, mount, is_around) = mounted(place, &disk, &top);
    let at = if place == Place::Root { "/" } else { "/w" };
    let mut known: Vec<String> = lower.keys().chain(upper.keys()).cloned().collect();
    known.push(String::new());
    let mut actor = Actor { overlay, at, known, held: Vec::new(), now: 1 };
    for ops in rounds {
        let before = match place {
            // Executable bits are those of the layers.
            Place::Merged => shown(&mounted(place, &disk, &top).0, mount, &Tree::new()),
            _ => on_disk(&disk),
        };
        for op in ops {
            actor.run(op);
        }
        check_counts(&actor.overlay);
        let after = shown(&actor.overlay, mount, &before);
        let entries = differing(actor.overlay.diff().unwrap());
        let is_hidden = |path: &str| is_around && path.starts_with("d/m");
        let mut visible = before.clone();
        visible.retain(|path, _| !is_hidden(path));
        if is_around {
            let (before, after) = (without_dirs(&visible), without_dirs(&after));
            let mut entries = entries.clone();
            entries.retain(|e| !matches!(e.kind, DiffKind::DirAdded | DiffKind::DirDeleted));
            assert_eq!(reported(&entries), compared(&before, &after));
        } else {
            assert_eq!(reported(&entries), compared(&before, &after));
        }
        assert!(entries.is_sorted_by_key(|entry| &entry.path));

        let patch = render_unified_diff(&entries, &VPath::root()).unwrap();
        check_patch(&git, &patch, &visible, &after);
        if place == Place::Merged {
            return;
        }

        let held = actor.read_held();
        let placed = actor.overlay.placed_in(mount);
        let timed = placed.iter().filter(|p| actor.overlay.node(p.id).times_of == TimesOf::Guest);
        let timed: Vec<(String, u64)> = timed
            .map(|p| (p.path.as_str().to_owned(), actor.overlay.node(p.id).times.mtim))
            .collect();
        let names: Vec<(String, u32)> =
            placed.iter().map(|p| (p.path.to_string(), actor.overlay.node(p.id).nlink)).collect();
        match actor.overlay.apply() {
            Ok(applied) => assert!(applied.leftovers.is_empty(), "{applied:?}"),
            // A directory was moved away around a mount that hides an entry of the disk.
            Err(ApplyError::Conflicts(conflicts)) if is_around => {
                let expected = |c: &Conflict| {
                    matches!(c.what, ConflictKind::Holds(_) | ConflictKind::Appeared)
                };
                assert!(conflicts.iter().all(expected), "{conflicts:?}");
                assert_eq!(on_disk(&disk), before);
                return;
            }
            Err(error) => panic!("{error}"),
        }
        let mut now = on_disk(&disk);
        if is_around {
            now.retain(|path, _| !is_hidden(path));
            assert_eq!(without_dirs(&now), without_dirs(&after));
        } else {
            assert_eq!(now, after);
        }
        check_disk(&disk, timed, names);
        check_counts(&actor.overlay);
        assert_eq!(shown(&actor.overlay, mount, &now), after, "the view has not changed");
        assert_eq!(actor.read_held(), held, "nor has what is open");
        assert_eq!(reported(&actor.overlay.diff().unwrap()), BTreeSet::new());
        assert_eq!(actor.overlay.apply().unwrap(), Applied::default());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("BELLJAR_TEST_CASES").map_or(300, |n| n.parse().unwrap()),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn apply_and_git_apply_give_the_tree_of_the_overlay(
        place in select(&[Place::Root, Place::Beneath, Place::Around, Place::Merged][..]),
        lower in tree(),
        upper in tree(),
        rounds in vec(vec(op(), 0..25), 1..3),
    ) {
        let upper = if place == Place::Merged { upper } else { Tree::new() };
        check(place, &lower, &upper, &rounds);
    }
}
