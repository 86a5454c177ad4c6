//! Changes made from a tape equal those of the run itself: contents, permissions, hard links, links and times.
//! `BELLJAR_TEST_CASES` is the number of random runs.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use belljar::Errno;
use belljar::kernel::vfs::{Follow, Overlay, SetTime, VPath, render_unified_diff};
use belljar::tape::{FileTape, Header, Recorder, Redaction};
use belljar::testbench::{
    TapedChangesError, TapedConflict, changed_machine, make_taped_changes, record_changes,
    taped_changes_are_made,
};
use belljar::{HostDir, Machine, Source};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::support::{can_link, file_number, has_links, symlink};

const PATHS: &[&str] = &["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "e", "e/a", "e/d", "-x y"];

#[derive(Clone, Debug)]
enum Item {
    File(&'static str, u32),
    Dir(u32),
    Link(&'static str),
}

#[derive(Clone, Debug)]
enum Op {
    Write(String, &'static str),
    Rename(String, String),
    Link(String, String),
    Symlink(String, &'static str),
    Unlink(String),
    RemoveDir(String),
    MakeDir(String),
    Touch(String, u64),
    Chmod(String, bool),
}

fn item() -> impl Strategy<Value = Item> {
    prop_oneof![
        5 => (select(&["", "one\n", "two"][..]), select(&[0o644, 0o755, 0o600][..]))
            .prop_map(|(text, mode)| Item::File(text, mode)),
        2 => select(&[0o755, 0o700][..]).prop_map(Item::Dir),
        1 => select(&["a", "d/a", "gone"][..]).prop_map(Item::Link),
    ]
}

/// A path in one of the two mounted folders.
fn path() -> impl Strategy<Value = String> {
    let folder = prop_oneof![5 => Just("worktree"), 1 => Just("lib")];
    (folder, select(PATHS)).prop_map(|(folder, path)| format!("{folder}/{path}"))
}

fn op() -> impl Strategy<Value = Op> {
    let text = select(&["", "one\n", "two", "three"][..]);
    prop_oneof![
        4 => (path(), text).prop_map(|(path, text)| Op::Write(path, text)),
        6 => (path(), path()).prop_map(|(from, to)| Op::Rename(from, to)),
        2 => (path(), path()).prop_map(|(from, to)| Op::Link(from, to)),
        1 => (path(), select(&["a", "gone"][..])).prop_map(|(path, text)| Op::Symlink(path, text)),
        3 => path().prop_map(Op::Unlink),
        1 => path().prop_map(Op::RemoveDir),
        2 => path().prop_map(Op::MakeDir),
        1 => (path(), 1..1000u64).prop_map(|(path, seconds)| Op::Touch(path, seconds)),
        3 => (path(), any::<bool>()).prop_map(|(path, executable)| Op::Chmod(path, executable)),
    ]
}

/// Creates `items` beneath `top`, except items that conflict with an earlier one.
fn plant(top: &Path, items: &[(String, Item)]) {
    for folder in ["worktree", "lib"] {
        fs::create_dir_all(top.join(folder)).unwrap();
    }
    for (path, item) in items {
        let path = top.join(path);
        let is_free = fs::symlink_metadata(&path).is_err();
        if !is_free || fs::create_dir_all(path.parent().unwrap()).is_err() {
            continue;
        }
        let mode = match item {
            Item::File(text, mode) => {
                fs::write(&path, text).unwrap();
                mode
            }
            Item::Dir(mode) => {
                fs::create_dir(&path).unwrap();
                mode
            }
            Item::Link(text) => {
                symlink(text, &path);
                continue;
            }
        };
        set_mode(&path, *mode);
    }
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Windows has no modes.
#[cfg(windows)]
fn set_mode(_path: &Path, _mode: u32) {}

/// The mode, and the time in nanoseconds.
fn attributes(metadata: &fs::Metadata) -> (u32, i64) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        (metadata.mode(), metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec())
    }
    #[cfg(windows)]
    {
        let since = metadata.modified().unwrap().duration_since(std::time::UNIX_EPOCH);
        (0, since.unwrap().as_nanos().try_into().unwrap())
    }
}

fn machine(top: &Path, recorder: Option<&Recorder>) -> Machine {
    let open = |folder: &str| HostDir::open(&top.join(folder)).unwrap();
    let lib = Source::Host(std::sync::Arc::new(open("lib")));
    let mut builder = Machine::builder().worktree(open("worktree")).mount("/lib", lib);
    if let Some(recorder) = recorder {
        builder = builder.tape(recorder.clone());
    }
    builder.build().unwrap()
}

/// Operations may fail: a refused one changes nothing.
fn run(vfs: &mut Overlay, op: &Op) -> Result<(), Errno> {
    let base = vfs.host_base();
    match op {
        Op::Write(path, text) => vfs.write(&format!("/{path}"), text.as_bytes(), 1),
        Op::Rename(from, to) => vfs.rename((base, from), (base, to), 1),
        Op::Link(from, to) => vfs.link((base, from), Follow::No, (base, to), 1),
        Op::Symlink(path, text) => vfs.symlink(text, base, path, 1),
        Op::Unlink(path) => vfs.unlink(base, path, 1),
        Op::RemoveDir(path) => vfs.remove_dir(base, path, 1),
        Op::MakeDir(path) => vfs.create_dir(base, path, 1).map(drop),
        Op::Chmod(path, executable) => {
            vfs.set_executable_at(base, path, Follow::No, *executable, 1)
        }
        Op::Touch(path, seconds) => {
            let time = SetTime::At(seconds * 1_000_000_000 + 7);
            vfs.set_times_at(base, path, Follow::No, time, time, 1)
        }
    }
}

/// The compared state of a path on the disk.
#[derive(PartialEq, Eq, Debug)]
struct Found {
    mode: u32,
    bytes: Vec<u8>,
    /// The first path of the same file.
    same_as: String,
    /// The time, if it was set.
    mtime_ns: Option<i64>,
}

fn on_disk(top: &Path) -> BTreeMap<String, Found> {
    let mut dirs = vec![top.to_owned()];
    let mut paths: Vec<PathBuf> = Vec::new();
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                dirs.push(path.clone());
            }
            paths.push(path);
        }
    }
    paths.sort();
    let mut first_names: HashMap<u64, String> = HashMap::new();
    let found = paths.into_iter().map(|path| {
        let name = path.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
        let metadata = fs::symlink_metadata(&path).unwrap();
        let bytes = if metadata.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
        } else if metadata.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        // The number of a symbolic link of Windows would be that of its target.
        let same_as = if cfg!(windows) && metadata.is_symlink() {
            name.clone()
        } else {
            first_names.entry(file_number(&path)).or_insert_with(|| name.clone()).clone()
        };
        let (mode, mtime_ns) = attributes(&metadata);
        let mtime_ns = (mtime_ns < 1000 * 1_000_000_000).then_some(mtime_ns);
        (name, Found { mode, bytes, same_as, mtime_ns })
    });
    found.collect()
}

fn diff(machine: &mut Machine) -> String {
    let vfs = machine.vfs_mut();
    let entries = vfs.diff().unwrap();
    let of_mount = entries.chunk_by(|a, b| a.mount == b.mount);
    of_mount.map(|entries| render_unified_diff(entries, &VPath::root()).unwrap()).collect()
}

/// Runs `ops` over the folders in `top`, with a tape.
fn record(top: &Path, tape: &Path, ops: &[Op]) -> Machine {
    let file = FileTape::create(tape, &Header::new(0), 1 << 30).unwrap();
    let recorder = Recorder::new(file, Redaction::default());
    let mut machine = machine(top, Some(&recorder));
    for op in ops {
        let _ = run(machine.vfs_mut(), op);
    }
    record_changes(&mut machine, &recorder).unwrap();
    recorder.finish().unwrap();
    machine
}

/// Runs `ops` over `items` with `--apply` and a tape; then makes the changes from the tape in a
/// copy of `items`.
fn check(items: &[(String, Item)], ops: &[Op]) {
    let is_link = |(_, item): &(String, Item)| matches!(item, Item::Link(_));
    let has_link = items.iter().any(is_link) || ops.iter().any(|op| matches!(op, Op::Symlink(..)));
    if has_link && !can_link() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [run_in, made_in] = ["run", "made"].map(|name| folder.path().join(name));
    plant(&run_in, items);
    plant(&made_in, items);
    let tape = folder.path().join("tape");
    let mut original = record(&run_in, &tape, ops);
    let shown = diff(&mut original);
    original.vfs_mut().apply().unwrap();

    let mut made = machine(&made_in, None);
    make_taped_changes(&tape, made.vfs_mut()).unwrap_or_else(|error| panic!("{error}"));
    made.vfs_mut().apply().unwrap();
    assert_eq!(on_disk(&made_in), on_disk(&run_in));

    // A folder that has the changes is distinguished from one that does not.
    let is_made = |top: &Path| taped_changes_are_made(&tape, machine(top, None).vfs()).unwrap();
    assert!(is_made(&made_in));
    let untouched = folder.path().join("untouched");
    plant(&untouched, items);
    assert!(shown.is_empty() || !is_made(&untouched), "{shown}");

    fs::remove_dir_all(&run_in).unwrap();
    let mut taped = changed_machine(&tape).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(diff(&mut taped), shown);
}

fn items(items: &[(&str, Item)]) -> Vec<(String, Item)> {
    items.iter().map(|(path, item)| ((*path).to_owned(), item.clone())).collect()
}

fn rename(from: &str, to: &str) -> Op {
    Op::Rename(from.to_owned(), to.to_owned())
}

fn write(path: &str, text: &'static str) -> Op {
    Op::Write(path.to_owned(), text)
}

fn link(from: &str, to: &str) -> Op {
    Op::Link(from.to_owned(), to.to_owned())
}

fn unlink(path: &str) -> Op {
    Op::Unlink(path.to_owned())
}

const PROGRAM: Item = Item::File("one\n", 0o755);
const PRIVATE: Item = Item::File("two", 0o600);

/// Regression: an executable file, or one that only its owner can read, was created with the mode of a new
/// file.
#[test]
fn moved_entry_keeps_its_permissions() {
    let items = items(&[
        ("worktree/a", PROGRAM),
        ("worktree/b", PRIVATE),
        ("worktree/d", Item::Dir(0o700)),
        ("worktree/d/e", Item::Dir(0o755)),
        ("worktree/d/e/a", PROGRAM),
    ]);
    check(
        &items,
        &[
            rename("worktree/a", "worktree/x"),
            rename("worktree/b", "lib/b"),
            write("lib/b", "three"),
        ],
    );
    check(
        &items,
        &[
            rename("worktree/a", "worktree/x"),
            rename("worktree/b", "worktree/a"),
            rename("worktree/x", "worktree/b"),
        ],
    );
    check(&items, &[rename("worktree/d", "worktree/e"), write("worktree/e/e/a", "three")]);
    check(&items, &[rename("worktree/d/e", "worktree/e"), rename("worktree/d", "worktree/e/d")]);
}

/// An equal entry at the old path of a moved one is not a change, and not on the tape.
#[test]
fn moved_entry_may_be_replaced_by_an_equal_one() {
    let items = items(&[
        ("worktree/a", PROGRAM),
        ("worktree/d", Item::Dir(0o700)),
        ("worktree/d/a", PRIVATE),
        ("worktree/d/b", Item::Link("a")),
    ]);
    let make_dir = Op::MakeDir("worktree/d".to_owned());
    check(&items, &[rename("worktree/a", "worktree/x"), write("worktree/a", "one\n")]);
    let mut ops = vec![rename("worktree/d", "worktree/e"), make_dir, write("worktree/d/a", "two")];
    check(&items, &ops);
    ops.push(Op::Symlink("worktree/d/b".to_owned(), "a"));
    check(&items, &ops);
    ops.push(unlink("worktree/e/a"));
    check(&items, &ops);
}

/// Regression: an entry that replaced one of another type was taken for a conflict.
#[test]
fn entry_of_another_type_replaces_the_old_one() {
    let items = items(&[
        ("worktree/a", PROGRAM),
        ("worktree/d/a", PRIVATE),
        ("worktree/l", Item::Link("d")),
    ]);
    check(&items, &[unlink("worktree/a"), Op::Symlink("worktree/a".to_owned(), "gone")]);
    check(
        &items,
        &[unlink("worktree/a"), Op::MakeDir("worktree/a".to_owned()), write("worktree/a/x", "two")],
    );
    let remove_dir = Op::RemoveDir("worktree/d".to_owned());
    check(&items, &[unlink("worktree/d/a"), remove_dir, rename("worktree/a", "worktree/d")]);
    let make_dir = Op::MakeDir("worktree/l".to_owned());
    check(&items, &[unlink("worktree/l"), make_dir, write("worktree/l/a", "three")]);
}

#[test]
fn hard_links_are_applied_as_hard_links() {
    let items = items(&[("worktree/a", PROGRAM), ("worktree/b", PRIVATE), ("worktree/x", PRIVATE)]);
    check(
        &items,
        &[
            link("worktree/a", "worktree/c"),
            write("worktree/a", "two"),
            link("worktree/a", "worktree/0"),
        ],
    );
    check(
        &items,
        &[link("worktree/a", "worktree/c"), unlink("worktree/a"), link("worktree/c", "worktree/d")],
    );
    check(&items, &[link("worktree/a", "worktree/c"), write("worktree/a", "one\n")]);
    let ops = [unlink("worktree/b"), write("worktree/b", "new"), link("worktree/b", "worktree/c")];
    check(&items, &ops);
    check(&items, &[&ops[..], &[unlink("worktree/x"), link("worktree/b", "worktree/x")]].concat());
}

/// Regression: the tape of such a run could not be applied, because the file took, under its one changed name, the
/// permissions of the file that it replaced.
#[test]
fn further_name_of_a_file_that_equals_the_one_it_replaced_is_a_new_file() {
    let private = Item::File("one\n", 0o600);
    let empty = Item::File("", 0o755);
    let planted = items(&[("worktree/e/d", empty.clone()), ("worktree/a", private.clone())]);
    check(
        &planted,
        &[
            rename("worktree/e/d", "worktree/a"),
            write("worktree/b", "one\n"),
            link("worktree/b", "worktree/e/d"),
            rename("worktree/b", "worktree/a"),
        ],
    );
    for mode in [0o600, 0o755] {
        let planted =
            items(&[("worktree/d/a", Item::File("", mode)), ("worktree/a", private.clone())]);
        check(
            &planted,
            &[
                unlink("worktree/a"),
                write("worktree/a", "one\n"),
                unlink("worktree/d/a"),
                link("worktree/a", "worktree/d/a"),
            ],
        );
    }
}

/// Regression: the tape could not be applied, because the file in the place of the origin is no change.
#[test]
fn moved_file_that_lost_its_permission_and_left_an_equal_file_is_applied() {
    let program = items(&[("worktree/a", Item::File("one\n", 0o755))]);
    let chmod = |executable| Op::Chmod("worktree/b".to_owned(), executable);
    let again = write("worktree/a", "one\n");
    check(&program, &[rename("worktree/a", "worktree/b"), chmod(false), again.clone()]);
    let plain = items(&[("worktree/a", Item::File("one\n", 0o644))]);
    check(&plain, &[rename("worktree/a", "worktree/b"), chmod(true), again]);
}

#[test]
fn set_times_are_applied() {
    let items = items(&[("worktree/a", PROGRAM), ("worktree/d/a", PRIVATE)]);
    let touch = |path: &str| Op::Touch(path.to_owned(), 5);
    check(&items, &[touch("worktree/a")]);
    check(
        &items,
        &[rename("worktree/a", "worktree/b"), write("worktree/b", "two"), touch("worktree/b")],
    );
    check(&items, &[write("worktree/d/x", ""), touch("worktree/d"), touch("worktree/d/x")]);
}

/// The old path of the moved directory resolves through the link to the new one: it must not count as still
/// existing.
#[test]
fn link_to_the_new_path_replaces_a_moved_directory() {
    let items = items(&[("worktree/d/a", PRIVATE), ("worktree/d/e/a", PROGRAM)]);
    let link = |text| Op::Symlink("worktree/d".to_owned(), text);
    check(&items, &[rename("worktree/d", "worktree/a"), link("a")]);
    check(&items, &[rename("worktree/d", "lib/d"), link("../lib/d")]);
}

/// The tape has what the run found: every entry that differs is named, and nothing is written.
#[test]
fn entry_that_differs_from_what_the_run_found_is_a_conflict() {
    if !has_links("entry_that_differs_from_what_the_run_found_is_a_conflict") {
        return;
    }
    let planted = [
        ("worktree/a", PROGRAM),
        ("worktree/b", PRIVATE),
        ("worktree/d/a", PRIVATE),
        ("worktree/l", Item::Link("a")),
    ];
    let folder = tempfile::tempdir().unwrap();
    let tape = folder.path().join("tape");
    let run_in = folder.path().join("run");
    plant(&run_in, &items(&planted));
    let ops = [
        write("worktree/a", "three"),
        rename("worktree/b", "worktree/c"),
        write("worktree/new", "new"),
        unlink("worktree/d/a"),
        Op::RemoveDir("worktree/d".to_owned()),
        unlink("worktree/l"),
    ];
    record(&run_in, &tape, &ops);
    let found = |does: &dyn Fn(&Path)| {
        let folder = tempfile::tempdir().unwrap();
        plant(folder.path(), &items(&planted));
        does(&folder.path().join("worktree"));
        let before = on_disk(folder.path());
        let mut machine = machine(folder.path(), None);
        let Err(TapedChangesError::Conflicts(conflicts)) =
            make_taped_changes(&tape, machine.vfs_mut())
        else {
            panic!("no conflict");
        };
        assert_eq!(machine.vfs_mut().diff().unwrap().len(), 0, "as it was");
        assert_eq!(on_disk(folder.path()), before);
        let text = |conflict: &TapedConflict| format!("{}: {}", conflict.path, conflict.found);
        conflicts.iter().map(text).collect::<Vec<_>>()
    };
    let theirs = |path: PathBuf| {
        let _ = fs::remove_file(&path);
        fs::write(path, "theirs").unwrap();
    };
    assert_eq!(found(&|src| theirs(src.join("d/late"))), ["/worktree/d: it is not empty"]);
    assert_eq!(found(&|src| theirs(src.join("new"))), ["/worktree/new: something is there"]);
    assert_eq!(found(&|src| theirs(src.join("l"))), ["/worktree/l: something else is there"]);
    let both = |src: &Path| {
        theirs(src.join("a"));
        set_mode(&src.join("a"), 0o755);
        theirs(src.join("d/a"));
    };
    let expected = ["/worktree/a: its content differs", "/worktree/d/a: its content differs"];
    assert_eq!(found(&both), expected);
    let gone = |src: &Path| fs::remove_file(src.join("b")).unwrap();
    assert_eq!(found(&gone), ["/worktree/b: nothing is there"]);
    let executable = "its execute permission differs";
    let chmod = |src: &Path| set_mode(&src.join("a"), 0o644);
    if cfg!(unix) {
        assert_eq!(found(&chmod), [format!("/worktree/a: {executable}")]);
    }
    let led = |src: &Path| {
        fs::remove_file(src.join("l")).unwrap();
        assert!(symlink("elsewhere", src.join("l")));
    };
    assert_eq!(found(&led), ["/worktree/l: its target differs"]);
    let done = |src: &Path| fs::write(src.join("a"), "three").unwrap();
    assert_eq!(found(&done), ["/worktree/a: it already has the state after the run"]);
    let outside = |src: &Path| {
        fs::rename(src.join("a"), src.join("../outside")).unwrap();
        assert!(symlink("../outside", src.join("a")));
    };
    assert_eq!(found(&outside), ["/worktree/a: something else is there"]);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("BELLJAR_TEST_CASES").map_or(200, |n| n.parse().unwrap()),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn apply_of_a_tape_equals_apply_of_the_run(
        items in vec((path(), item()), 0..10),
        ops in vec(op(), 0..25),
    ) {
        check(&items, &ops);
    }
}
