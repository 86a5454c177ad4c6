//! Conflicts of an apply, attributes that it keeps, and the overlay afterwards.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "the tests use the disk")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::race_tests::Meddler;
use crate::base::errno::Errno;
use crate::kernel::vfs::ConflictKind::{Appeared, Changed, Vanished};
use crate::kernel::vfs::test_trees::{
    Item, Tree, check_counts, git_apply, on_disk, shown, write_to,
};
use crate::kernel::vfs::*;

fn file(text: &str) -> Item {
    Item::File { bytes: text.into(), executable: false }
}

fn tree(items: &[(&str, Item)]) -> Tree {
    items.iter().map(|(path, item)| ((*path).to_owned(), item.clone())).collect()
}

/// A host directory mounted at `/w`; `/tmp` is in memory.
struct Bench {
    _folder: tempfile::TempDir,
    disk: PathBuf,
    overlay: Overlay,
    mount: MountId,
}

impl Bench {
    fn new(items: &[(&str, Item)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        fs::create_dir(&disk).unwrap();
        write_to(&disk, &tree(items));
        let mut overlay = Overlay::new(VfsLimits::default(), 1);
        let mount = overlay.mount("/w", host(&disk), false, Mtimes::Fixed(1), 1).unwrap();
        overlay.mount("/tmp", Source::Memory, false, Mtimes::Fixed(1), 1).unwrap();
        Self { _folder: folder, disk, overlay, mount }
    }

    fn base(&self) -> Base {
        self.overlay.host_base()
    }

    fn rename(&mut self, from: &str, to: &str) {
        let base = self.base();
        self.overlay.rename((base, from), (base, to), 2).unwrap();
    }

    fn unlink(&mut self, path: &str) {
        self.overlay.unlink(self.base(), path, 2).unwrap();
    }

    /// Applies, which must fail with these conflicts and leave the disk unchanged.
    fn conflicts(&mut self) -> Vec<(String, ConflictKind)> {
        let before = on_disk(&self.disk);
        let conflicts = match self.overlay.apply() {
            Err(ApplyError::Conflicts(conflicts)) => conflicts,
            other => panic!("{other:?}"),
        };
        assert_eq!(on_disk(&self.disk), before);
        conflicts.into_iter().map(|c| (c.path.as_str().to_owned(), c.what)).collect()
    }

    fn kinds(&mut self) -> Vec<String> {
        let entries = self.overlay.diff().unwrap();
        let text = |entry: &DiffEntry| {
            let kind = format!("{:?}", entry.kind);
            let kind = kind.split([' ', '{']).next().unwrap().to_owned();
            let from = entry.renamed_from.as_ref().map(|from| format!(" from {from}"));
            format!("{kind} {}{}", entry.path, from.unwrap_or_default())
        };
        entries.iter().map(text).collect()
    }

    fn patch(&mut self) -> String {
        render_unified_diff(&self.overlay.diff().unwrap(), &VPath::root()).unwrap()
    }
}

fn host(disk: &Path) -> Source {
    Source::Host(Arc::new(HostDir::open(disk).unwrap()))
}

#[test]
fn all_conflicts_are_reported_and_nothing_is_written() {
    let names = ["changed", "deleted", "modified", "read", "renamed", "timed", "untouched"];
    let items: Vec<(&str, Item)> = names.iter().map(|name| (*name, file("old"))).collect();
    let mut bench = Bench::new(&items);
    bench.overlay.read("/w/read").unwrap();
    bench.overlay.write("/w/modified", b"mine", 2).unwrap();
    bench.overlay.write("/w/changed", b"mine", 2).unwrap();
    bench.overlay.write("/w/new", b"mine", 2).unwrap();
    bench.overlay.metadata("/w/untouched").unwrap();
    bench.unlink("w/deleted");
    bench.rename("w/renamed", "w/elsewhere");
    let time = SetTime::At(5);
    let base = bench.base();
    bench.overlay.set_times_at(base, "w/timed", Follow::No, time, time, 2).unwrap();
    for name in ["changed", "deleted", "read", "renamed", "timed", "untouched", "new"] {
        fs::write(bench.disk.join(name), "theirs, longer").unwrap();
    }
    fs::remove_file(bench.disk.join("modified")).unwrap();
    let expected = [
        ("changed", Changed),
        ("deleted", Changed),
        ("modified", Vanished),
        ("new", Appeared),
        ("read", Changed),
        ("renamed", Changed),
        ("timed", Changed),
    ];
    let expected = expected.map(|(path, what)| (path.to_owned(), what));
    assert_eq!(bench.conflicts(), expected);
}

#[test]
fn directory_with_unseen_entry_is_not_removed() {
    let mut bench = Bench::new(&[("d/a", file("a")), ("e/a", file("a")), ("f/a", file("a"))]);
    bench.unlink("w/d/a");
    let base = bench.base();
    bench.overlay.remove_dir(base, "w/d", 2).unwrap();
    fs::write(bench.disk.join("d/late"), "x").unwrap();
    bench
        .overlay
        .lookup(base, "w/e", Follow::No)
        .map(|id| bench.overlay.list(id))
        .unwrap()
        .unwrap();
    bench.rename("w/e", "w/moved");
    fs::write(bench.disk.join("e/late"), "x").unwrap();
    bench.rename("w/f", "w/moved too");
    let odd = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"odd\xff");
    fs::write(bench.disk.join("f").join(odd), "x").unwrap();
    let before = fs::read_dir(bench.disk.join("f")).unwrap().count();
    let Err(ApplyError::Conflicts(conflicts)) = bench.overlay.apply() else { panic!() };
    let conflicts: Vec<String> = conflicts.iter().map(ToString::to_string).collect();
    let expected = [
        "d/late appeared on the disk in the meantime",
        "e/late appeared on the disk in the meantime",
        "cannot remove f: on the disk it also holds \"odd\u{fffd}\"",
    ];
    assert_eq!(conflicts, expected);
    assert_eq!(fs::read_dir(bench.disk.join("f")).unwrap().count(), before);
}

#[test]
fn symlink_in_place_of_directory_is_a_conflict() {
    let mut bench = Bench::new(&[("d/e/a", file("a")), ("other/a", file("b"))]);
    bench.overlay.write("/w/d/e/a", b"mine", 2).unwrap();
    bench.overlay.write("/w/d/e/new", b"mine", 2).unwrap();
    let outside = tempfile::tempdir().unwrap();
    write_to(outside.path(), &tree(&[("a", file("a"))]));
    fs::rename(bench.disk.join("d/e"), bench.disk.join("d/was")).unwrap();
    symlink(outside.path(), bench.disk.join("d/e")).unwrap();
    match bench.overlay.apply() {
        Err(ApplyError::Conflicts(_) | ApplyError::Diff(_) | ApplyError::Host { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(on_disk(outside.path()), tree(&[("a", file("a"))]));
    fs::remove_file(bench.disk.join("d/e")).unwrap();
    symlink("../other", bench.disk.join("d/e")).unwrap();
    let not_a_directory = ("d/e".to_owned(), ConflictKind::NotADirectory);
    assert!(bench.conflicts().contains(&not_a_directory));
}

#[test]
fn conflict_in_a_later_mount_rolls_back_all_mounts() {
    let items = [("a", file("a")), ("b", file("b")), ("d/x", file("x")), ("gone/y", file("y"))];
    let mut bench = Bench::new(&items);
    symlink("a", bench.disk.join("link")).unwrap();
    let before = on_disk(&bench.disk);
    // Something appears in the second mount after the check.
    let later = tempfile::tempdir().unwrap();
    let appears = later.path().join("b");
    let there = appears.clone();
    let appear = move || fs::write(&there, "theirs").unwrap();
    bench.overlay.mount("/z", host(later.path()), false, Mtimes::Fixed(1), 1).unwrap();
    bench.overlay.mount("/m", Meddler::mounted(appear), false, Mtimes::Fixed(1), 1).unwrap();
    bench.rename("m/f", "z/f");
    bench.overlay.write("/z/b", b"mine", 2).unwrap();
    bench.overlay.write("/w/b", b"first", 2).unwrap();
    bench.overlay.write("/w/a", b"changed", 2).unwrap();
    bench.overlay.write("/w/new", b"new", 2).unwrap();
    bench.rename("w/d", "w/moved");
    bench.unlink("w/link");
    bench.unlink("w/gone/y");
    let base = bench.base();
    bench.overlay.remove_dir(base, "w/gone", 2).unwrap();
    bench.overlay.create_dir(base, "w/made", 2).unwrap();
    for _ in 0..2 {
        assert_eq!(bench.conflicts(), [("b".to_owned(), ConflictKind::Appeared)]);
        assert_eq!(on_disk(&bench.disk), before);
        fs::remove_file(&appears).unwrap();
    }
    // Changes by the failed attempts are not taken for those of others.
    bench.unlink("z/b");
    bench.overlay.apply().unwrap();
    assert_eq!(fs::read(bench.disk.join("b")).unwrap(), b"first");
}

#[test]
fn apply_keeps_permissions_inodes_and_hard_links() {
    let names = ["edited", "moved", "setuid", "d/inner", "one", "two", "linked"];
    let items: Vec<(&str, Item)> = names.iter().map(|name| (*name, file("old"))).collect();
    let mut bench = Bench::new(&items);
    let chmod = |name: &str, mode| {
        let path = bench.disk.join(name);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    chmod("edited", 0o600);
    chmod("moved", 0o640);
    chmod("setuid", 0o4755);
    chmod("d", 0o700);
    let stat = |bench: &Bench, name: &str| fs::symlink_metadata(bench.disk.join(name)).unwrap();
    let moved = stat(&bench, "moved");
    bench.overlay.write("/w/edited", b"new", 2).unwrap();
    bench.overlay.write("/w/setuid", b"new", 2).unwrap();
    bench.rename("w/moved", "w/d/moved");
    bench.rename("w/d", "w/e");
    let base = bench.base();
    for (from, to) in [("one", "uno"), ("two", "due")] {
        let (from, to) = (format!("w/{from}"), format!("w/{to}"));
        bench.overlay.link((base, &from), Follow::No, (base, &to), 2).unwrap();
    }
    bench.overlay.write("/w/due", b"written", 2).unwrap();
    bench.overlay.write("/w/replacement", b"new", 2).unwrap();
    bench.rename("w/replacement", "w/linked");
    bench.overlay.apply().unwrap();
    assert_eq!(stat(&bench, "edited").mode() & 0o7777, 0o600);
    assert_eq!(stat(&bench, "setuid").mode() & 0o7777, 0o755, "granted to other contents");
    assert_eq!(stat(&bench, "e").mode() & 0o7777, 0o700);
    let now = stat(&bench, "e/moved");
    let known = |m: &fs::Metadata| (m.ino(), m.mode(), m.mtime_nsec());
    assert_eq!(known(&now), known(&moved), "moved, not copied");
    for (a, b) in [("one", "uno"), ("two", "due")] {
        assert_eq!(stat(&bench, a).ino(), stat(&bench, b).ino(), "{a} and {b} are one file");
    }
    assert_eq!(fs::read(bench.disk.join("two")).unwrap(), b"written");
    // Names of one file can be removed one by one.
    bench.unlink("w/two");
    bench.rename("w/uno", "w/tmp");
    bench.overlay.apply().unwrap();
    let left: BTreeSet<String> = on_disk(&bench.disk).into_keys().collect();
    let expected = ["due", "e", "e/inner", "e/moved", "edited", "linked", "one", "setuid", "tmp"];
    assert_eq!(left, expected.map(str::to_owned).into());
}

#[test]
fn hard_links_on_the_disk_do_not_conflict() {
    let mut bench = Bench::new(&[("a", file("text"))]);
    for name in ["b", "c", "d"] {
        fs::hard_link(bench.disk.join("a"), bench.disk.join(name)).unwrap();
    }
    bench.overlay.read("/w/c").unwrap();
    bench.overlay.write("/w/a", b"mine", 2).unwrap();
    bench.unlink("w/b");
    bench.overlay.apply().unwrap();
    bench.overlay.write("/w/a", b"mine again", 2).unwrap();
    bench.overlay.apply().unwrap();
    let expected = [("a", file("mine again")), ("c", file("text")), ("d", file("text"))];
    assert_eq!(on_disk(&bench.disk), tree(&expected));
}

#[test]
fn times_set_explicitly_are_applied() {
    let items = [("d/a", file("a")), ("d/b", file("b")), ("later", file("x"))];
    let mut bench = Bench::new(&items);
    let base = bench.base();
    bench.overlay.write("/w/d/b", b"new", 2).unwrap();
    bench.overlay.symlink("a", base, "w/d/link", 2).unwrap();
    for (index, path) in ["d", "d/a", "d/b", "d/link", "later"].into_iter().enumerate() {
        let time = SetTime::At(1_000_000_007 * (index as u64 + 1));
        let path = format!("w/{path}");
        bench.overlay.set_times_at(base, &path, Follow::No, time, time, 3).unwrap();
    }
    bench.overlay.write("/w/later", b"written after that", 4).unwrap();
    assert_eq!(bench.kinds(), ["Modified d/b", "SymlinkAdded d/link", "Modified later"]);
    let applied = bench.overlay.apply().unwrap();
    assert!(applied.attributes_refused.is_empty());
    for (index, path) in ["d", "d/a", "d/b", "d/link"].into_iter().enumerate() {
        let metadata = fs::symlink_metadata(bench.disk.join(path)).unwrap();
        let mtime = metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec();
        assert_eq!(mtime, 1_000_000_007 * (i64::try_from(index).unwrap() + 1), "{path}");
    }
    let later = fs::metadata(bench.disk.join("later")).unwrap();
    assert!(later.mtime() > 1_000_000_000, "the host's own time");
    assert_eq!(bench.overlay.apply().unwrap(), Applied::default());
}

#[test]
fn file_with_new_link_and_time_can_be_written_again() {
    let mut bench = Bench::new(&[("a", file("")), ("d/x", file(""))]);
    let base = bench.base();
    bench.overlay.link((base, "w/a"), Follow::No, (base, "w/d/b"), 2).unwrap();
    let time = SetTime::At(0);
    bench.overlay.set_times_at(base, "w/d/b", Follow::No, time, time, 3).unwrap();
    bench.overlay.apply().unwrap();
    bench.overlay.write("/w/d/b", b"more", 4).unwrap();
    bench.overlay.apply().unwrap();
    let expected =
        [("a", file("more")), ("d", Item::Dir), ("d/b", file("more")), ("d/x", file(""))];
    assert_eq!(on_disk(&bench.disk), tree(&expected));
}

#[test]
fn large_files_are_compared_and_written_in_pieces() {
    let big: Vec<u8> = (0..5_000_000u32).map(|i| (i % 253) as u8).collect();
    let item = Item::File { bytes: big.clone(), executable: false };
    let names = ["same", "cut", "patched", "longer", "rewritten"];
    let items: Vec<(&str, Item)> = names.iter().map(|name| (*name, item.clone())).collect();
    let mut bench = Bench::new(&items);
    let base = bench.base();
    let flags = OpenFlags { write: true, create: true, ..OpenFlags::default() };
    let mut edit = |path: &str, edit: &dyn Fn(&mut Overlay, NodeId)| {
        let id = bench.overlay.open(base, &format!("w/{path}"), flags, 2).unwrap();
        edit(&mut bench.overlay, id);
        bench.overlay.close(id);
    };
    edit("same", &|overlay, id| overlay.write_at(id, 77, &big[77..99], 2).unwrap());
    edit("cut", &|overlay, id| overlay.set_len(id, 3_000_000, 2).unwrap());
    edit("patched", &|overlay, id| overlay.write_at(id, 4_500_000, b"!", 2).unwrap());
    edit("longer", &|overlay, id| overlay.write_at(id, 9_000_000, b"end", 2).unwrap());
    edit("sparse", &|overlay, id| overlay.write_at(id, 8 << 30, b"end", 2).unwrap());
    bench.overlay.write("/w/rewritten", &big, 2).unwrap();
    let expected = ["Modified cut", "Modified longer", "Modified patched", "Added sparse"];
    assert_eq!(bench.kinds(), expected);
    assert!(matches!(
        render_unified_diff(&bench.overlay.diff().unwrap(), &VPath::root()),
        Err(DiffError::TooLarge { len, .. }) if len == (8 << 30) + 3
    ));
    let applied = bench.overlay.apply().unwrap();
    assert_eq!(applied.written, 4);
    let read = |name: &str| fs::read(bench.disk.join(name)).unwrap();
    assert!(read("cut") == big[..3_000_000] && read("same") == big);
    let mut patched = big.clone();
    patched[4_500_000] = b'!';
    assert!(read("patched") == patched);
    let mut longer = big;
    longer.resize(9_000_000, 0);
    longer.extend(b"end");
    assert!(read("longer") == longer);
    let sparse = fs::metadata(bench.disk.join("sparse")).unwrap();
    assert_eq!(sparse.len(), (8 << 30) + 3);
    assert!(sparse.blocks() < 20_000, "holes stay holes");
    assert_eq!(bench.overlay.upper_bytes(), 0, "the content is on the disk");
}

#[test]
fn files_moved_out_or_open_survive_their_removal() {
    let mut bench = Bench::new(&[("moved", file("moved")), ("open", file("open"))]);
    let base = bench.base();
    let id = bench.overlay.open(base, "w/open", OpenFlags::default(), 2).unwrap();
    bench.unlink("w/open");
    bench.overlay.write("/w/open", b"another", 2).unwrap();
    bench.rename("w/moved", "tmp/moved");
    bench.overlay.apply().unwrap();
    assert_eq!(on_disk(&bench.disk), tree(&[("open", file("another"))]));
    assert_eq!(bench.overlay.read("/tmp/moved").unwrap(), b"moved");
    assert_eq!(bench.overlay.read_node(id).unwrap(), b"open");
    bench.overlay.close(id);
    assert_eq!(bench.overlay.read("/w/open").unwrap(), b"another");
}

#[test]
fn files_move_between_directories_of_the_host() {
    let mut bench = Bench::new(&[("tool", file("tool"))]);
    fs::set_permissions(bench.disk.join("tool"), fs::Permissions::from_mode(0o700)).unwrap();
    let other = tempfile::tempdir().unwrap();
    bench.overlay.mount("/o", host(other.path()), false, Mtimes::Fixed(1), 1).unwrap();
    bench.rename("w/tool", "o/tool");
    bench.overlay.apply().unwrap();
    assert_eq!(on_disk(&bench.disk), Tree::new());
    let item = Item::File { bytes: b"tool".into(), executable: true };
    assert_eq!(on_disk(other.path()), tree(&[("tool", item)]));
    assert_eq!(fs::metadata(other.path().join("tool")).unwrap().mode() & 0o777, 0o700);
    assert_eq!(bench.overlay.read("/o/tool").unwrap(), b"tool");
    assert_eq!(bench.kinds(), [""; 0]);
}

#[test]
fn pipes_are_moved_and_removed() {
    let mut bench = Bench::new(&[("d/a", file("a"))]);
    for name in ["d/pipe", "gone"] {
        let path = bench.disk.join(name);
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    }
    bench.rename("w/d", "w/e");
    bench.unlink("w/gone");
    let expected = [
        "DirDeleted d",
        "Deleted d/a",
        "SpecialDeleted d/pipe",
        "DirAdded e from d",
        "Added e/a from d/a",
        "SpecialAdded e/pipe from d/pipe",
        "SpecialDeleted gone",
    ];
    assert_eq!(bench.kinds(), expected);
    bench.overlay.apply().unwrap();
    assert!(fs::metadata(bench.disk.join("e/pipe")).unwrap().file_type().is_fifo());
    assert!(!bench.disk.join("gone").exists() && !bench.disk.join("d").exists());
}

/// Counts the calls of a layer.
struct Counting(HostDir, AtomicUsize);

impl Counting {
    fn count(&self) -> &HostDir {
        self.1.fetch_add(1, Ordering::Relaxed);
        &self.0
    }
}

impl Layer for Counting {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno> {
        self.count().stat(path)
    }
    fn list(&self, path: &VPath) -> Result<Vec<DirEntry>, Errno> {
        self.count().list(path)
    }
    fn read_link(&self, path: &VPath) -> Result<Box<[u8]>, Errno> {
        self.count().read_link(path)
    }
    fn open(&self, path: &VPath) -> Result<Blob, Errno> {
        self.count().open(path)
    }
}

#[test]
fn cost_is_that_of_what_was_touched() {
    let folder = tempfile::tempdir().unwrap();
    for dir in 0..50 {
        for name in 0..20 {
            write_to(folder.path(), &tree(&[(&format!("d{dir}/e{name}/f"), file("x"))]));
        }
    }
    let layer = Arc::new(Counting(HostDir::open(folder.path()).unwrap(), AtomicUsize::new(0)));
    let mut overlay = Overlay::new(VfsLimits::default(), 1);
    let source = Source::Layers(vec![layer.clone()]);
    overlay.mount("/w", source, false, Mtimes::Fixed(1), 1).unwrap();
    overlay.write("/w/d7/e3/f", b"y", 2).unwrap();
    let id = overlay.lookup(overlay.host_base(), "w/d8", Follow::No).unwrap();
    overlay.list(id).unwrap();
    let before = layer.1.load(Ordering::Relaxed);
    assert_eq!(overlay.diff().unwrap().len(), 1);
    let asked = layer.1.load(Ordering::Relaxed) - before;
    assert!(asked <= 2, "one stat and one open for the written file, not {asked}");
}

#[test]
fn discard_keeps_layers_and_other_mounts() {
    let items = [("a", file("a")), ("d/b", file("b")), ("d/m/hidden", file("h"))];
    let mut bench = Bench::new(&items);
    let nested = bench.overlay.mount("/w/d/m", Source::Memory, false, Mtimes::Fixed(1), 1).unwrap();
    bench.overlay.mount("/w/new/m", Source::Memory, false, Mtimes::Fixed(1), 1).unwrap();
    let original = shown(&bench.overlay, bench.mount, &Tree::new());
    bench.overlay.write("/w/d/m/kept", b"kept", 2).unwrap();
    bench.overlay.write("/w/new/file", b"new", 2).unwrap();
    bench.overlay.write("/w/a", b"changed", 2).unwrap();
    let base = bench.base();
    let open = bench.overlay.open(base, "w/a", OpenFlags::default(), 2).unwrap();
    let above = bench.overlay.rename((base, "w/d"), (base, "w/e"), 2);
    assert_eq!(above, Err(Errno::Busy), "a mount point above");
    bench.rename("w/d/b", "w/e");
    bench.overlay.discard(3).unwrap();
    check_counts(&bench.overlay);
    assert_eq!(bench.kinds(), [""; 0]);
    assert_eq!(shown(&bench.overlay, bench.mount, &Tree::new()), original);
    assert_eq!(bench.overlay.read("/w/d/m/kept").unwrap(), b"kept");
    assert_eq!(bench.overlay.read("/w/a").unwrap(), b"a");
    assert_eq!(bench.overlay.read_node(open).unwrap(), b"changed");
    bench.overlay.close(open);
    assert_eq!(bench.overlay.mount_root(nested), {
        bench.overlay.lookup(base, "w/d/m", Follow::No).unwrap()
    });
    assert_eq!(bench.overlay.apply().unwrap(), Applied::default());
}

#[test]
fn read_only_mounts_are_left_alone() {
    let mut bench = Bench::new(&[("a", file("a"))]);
    let tools = tempfile::tempdir().unwrap();
    write_to(tools.path(), &tree(&[("tool", file("tool"))]));
    bench.overlay.mount("/t", host(tools.path()), true, Mtimes::Fixed(1), 1).unwrap();
    bench.overlay.read("/t/tool").unwrap();
    assert_eq!(bench.overlay.write("/t/tool", b"x", 2), Err(Errno::Rofs));
    bench.overlay.write("/w/a", b"b", 2).unwrap();
    fs::write(tools.path().join("tool"), "upgraded").unwrap();
    bench.overlay.apply().unwrap();
    assert_eq!(on_disk(tools.path()), tree(&[("tool", file("upgraded"))]));
}

#[test]
fn patch_equals_that_of_git() {
    let lines = |from: u32, to: u32| -> String {
        let line = |n: u32| vec!["line ".to_owned(), n.to_string(), "\n".to_owned()];
        (from..to).flat_map(line).collect()
    };
    let mut bench = Bench::new(&[
        ("bin", Item::File { bytes: vec![0, 1, 2, 3], executable: true }),
        ("far", file(&lines(0, 30))),
        ("gone", file("gone\n")),
        ("kept", file("kept\n")),
        ("sp ace/\u{e9}", file("no newline")),
        ("type", file("to be a link\n")),
    ]);
    let git = bench.disk.with_file_name("git");
    write_to(&git, &on_disk(&bench.disk));
    let far = lines(0, 30).replace("line 3\n", "three\n").replace("line 20\n", "");
    bench.overlay.write("/w/far", far.as_bytes(), 2).unwrap();
    bench.overlay.write("/w/bin", &[0; 100], 2).unwrap();
    bench.overlay.write("/w/sp ace/\u{e9}", b"no newline\nnow", 2).unwrap();
    bench.overlay.write("/w/empty", b"", 2).unwrap();
    bench.overlay.write("/w/latin-1", b"caf\xe9\n", 2).unwrap();
    bench.unlink("w/gone");
    bench.unlink("w/type");
    let base = bench.base();
    bench.overlay.symlink("kept", base, "w/type", 2).unwrap();
    let patch = bench.patch();
    assert!(!patch.contains('\0'), "the patch is text");
    for piece in [
        "diff --git \"a/sp ace/\\303\\251\" \"b/sp ace/\\303\\251\"\n",
        "@@ -1,7 +1,7 @@\n line 0\n line 1\n line 2\n-line 3\n+three\n line 4\n",
        "@@ -18,7 +18,6 @@\n line 17\n",
        "-no newline\n\\ No newline at end of file\n+no newline\n+now\n\\ No newline",
        "GIT binary patch\nliteral 100\n",
        "new file mode 120000\nindex 0000000000000000000000000000000000000000..",
    ] {
        assert!(patch.contains(piece), "{piece}\n{patch}");
    }
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=x", "-c", "user.email=x", "-c", "core.autocrlf=false"]);
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        let output = command.args(arguments).current_dir(&git).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    run(&["init", "-q"]);
    run(&["add", "."]);
    run(&["commit", "-qm", "x"]);
    git_apply(&git, &patch, &["--index"]);
    bench.overlay.apply().unwrap();
    let after = on_disk(&bench.disk);
    let mut repository = on_disk(&git);
    repository.retain(|path, _| path != ".git" && !path.starts_with(".git/"));
    assert_eq!(repository, after);
    let theirs = run(&["diff", "--cached", "--full-index", "--no-renames", "--histogram"]);
    let ours: Vec<&str> = patch.lines().filter(|line| line.starts_with("index ")).collect();
    let theirs: Vec<&str> = theirs.lines().filter(|line| line.starts_with("index ")).collect();
    assert_eq!(ours, theirs, "git agrees on every object and mode");
}

#[test]
fn paths_that_git_refuses_are_left_out_of_the_patch() {
    let mut bench = Bench::new(&[(".git/config", file("old")), ("a", file("old\n"))]);
    bench.overlay.write("/w/.git/config", b"new", 2).unwrap();
    bench.overlay.write("/w/a", b"new\n", 2).unwrap();
    let base = bench.base();
    bench.overlay.create_dir(base, "w/empty", 2).unwrap();
    bench.overlay.create_dir(base, "w/GIT~1", 2).unwrap();
    bench.overlay.write("/w/GIT~1/x", b"x", 2).unwrap();
    bench.overlay.symlink("a", base, "w/.gitmodules", 2).unwrap();
    let entries = bench.overlay.diff().unwrap();
    let said: Vec<&str> =
        entries.iter().filter(|e| is_in_unified_diff(e)).map(|e| e.path.as_str()).collect();
    assert_eq!(said, ["a"]);
    let prefix = VPath::parse("sub/dir").unwrap();
    let patch = render_unified_diff(&entries, &prefix).unwrap();
    assert!(patch.starts_with("diff --git a/sub/dir/a b/sub/dir/a\nindex "), "{patch}");
    let git = bench.disk.with_file_name("git");
    write_to(&git, &tree(&[("sub/dir/a", file("old\n"))]));
    git_apply(&git, &patch, &[]);
    assert_eq!(fs::read(git.join("sub/dir/a")).unwrap(), b"new\n");
}

#[test]
fn symlink_with_non_utf8_text_can_be_removed() {
    let mut bench = Bench::new(&[("a", file("a"))]);
    let text = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"odd\xff");
    symlink(text, bench.disk.join("link")).unwrap();
    assert_eq!(bench.overlay.read_link(bench.base(), "w/link"), Err(Errno::Ilseq));
    assert_eq!(bench.kinds(), [""; 0]);
    bench.overlay.unlink(bench.base(), "w/link", 2).unwrap();
    assert_eq!(bench.kinds(), ["SymlinkDeleted link"]);
}
