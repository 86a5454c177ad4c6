//! The files that can be reached from a preopened directory: only those beneath it, or the whole namespace, as if there
//! were a root and a current directory.

use std::sync::Arc;

use belljar::Errno::{self, Busy, Exist, Inval, Isdir, Noent, Notdir, Notempty, Perm, Rofs};
use belljar::{HostDir, Machine, Preopen, Reach, Source};

use super::flags::*;
use super::path::CALLS;
use super::script::{Script, scatter};
use super::world::{DIR, World, builder};

/// The descriptor of the current directory if the guest has the whole namespace.
const CWD: u32 = 4;

/// Creates the file `path`, which contains its own path.
fn file(machine: &mut Machine, path: &str) {
    machine.vfs_mut().write(path, path.as_bytes(), 0).unwrap();
}

fn link(machine: &mut Machine, path: &str, text: &str) {
    let vfs = machine.vfs_mut();
    vfs.symlink(text, vfs.host_base(), &path[1..], 0).unwrap();
}

/// A guest that sees only `/w`, in a namespace that has more.
fn confined() -> World {
    let mut world = World::confined(builder().mount("/other", Source::Memory));
    for path in ["/w/f", "/other/secret", "/top"] {
        file(&mut world.machine, path);
    }
    link(&mut world.machine, "/other/loop", "loop");
    link(&mut world.machine, "/other/in", "/w/f");
    world
}

#[test]
fn links_out_of_a_confined_directory_do_not_resolve() {
    let mut world = confined();
    world.dir("d");
    let texts = [
        "/other/secret",
        "/top",
        "/",
        "/other",
        "/w/../top",
        "/other/missing",
        "/other/new",
        "../top",
        "../other/secret",
        "d/../../top",
        "..",
        // Not even the type of an entry, a file or a loop, can be determined.
        "/other/secret/x",
        "/other/loop",
    ];
    for (index, text) in texts.iter().enumerate() {
        world.link(&format!("l{index}"), text);
    }
    let before = world.tree();
    for (index, text) in texts.iter().enumerate() {
        let mut s = Script::new();
        let (fd, stat) = (s.u32(), s.room(64));
        let name = format!("l{index}");
        for (oflags, rights) in [(0, READ), (CREAT, BOTH), (TRUNC, WRITE), (DIRECTORY, READ)] {
            s.path_open(DIR, FOLLOW, &name, oflags, rights, 0, 0, fd).fails(Noent);
        }
        s.path_filestat_get(DIR, FOLLOW, &name, stat).fails(Noent);
        s.path_filestat_set_times(DIR, FOLLOW, &name, 1, 1, 5).fails(Noent);
        s.path_link(DIR, FOLLOW, &name, DIR, "new").fails(Noent);
        for (_, call) in CALLS {
            for path in ["x", "secret", "new", "d/.."] {
                call(&mut s, DIR.into(), (&format!("{name}/{path}")).into()).fails(Noent);
            }
        }
        s.path_filestat_get(DIR, 0, &name, stat).ok();
        println!("{text}");
        world.run(&s);
    }
    assert_eq!(world.tree(), before);
}

#[test]
fn absolute_links_back_into_a_confined_directory_resolve() {
    let mut world = confined();
    world.dir("d");
    for (path, text) in [
        ("a", "/w/f"),
        ("b", "/w/d/../f"),
        ("c", "/other/../w/f"),
        ("d/e", "/w/./a"),
        ("g", "/other/in"),
    ] {
        world.link(path, text);
    }
    world.link("self", "/w");
    let mut s = Script::new();
    let rooms = ["a", "b", "c", "d/e", "g", "self/f", "self/self/d/e"].map(|path| {
        let (fd, buf, n) = (s.open(path, 0, READ), s.room(4), s.u32());
        s.fd_read(fd, scatter([buf]), n).ok();
        buf
    });
    let run = world.run(&s);
    assert_eq!(rooms.map(|buf| run.bytes(buf) == b"/w/f"), [true; 7]);
}

/// A confined directory has no name inside itself, so the guest cannot remove or rename it.
#[test]
fn confined_directory_cannot_be_renamed_or_removed() {
    let preopen = |path: &str| Preopen {
        path: path.to_owned(),
        name: path.to_owned(),
        reach: Reach::Confined,
    };
    let mut world = World::new();
    for dir in ["a", "b"] {
        world.dir(dir);
    }
    world.link("a/top", "/w");
    world.link("a/root", "/");
    world.preopens = Some(vec![preopen("/w/a"), preopen("/w/b")]);
    let before = world.tree();
    let mut s = Script::new();
    let stat = s.room(64);
    for path in ["top/a", "root/w/a"] {
        s.path_filestat_get(3, 0, path, stat).ok();
        s.path_rename(3, path, 4, "stolen").fails(Busy);
        s.path_rename(4, ".", 3, path).fails(Busy);
        s.path_remove_directory(3, path).fails(Inval);
    }
    world.run(&s);
    assert_eq!(world.tree(), before);
}

/// The same over a host directory whose links lead to files that exist.
#[cfg(unix)]
#[test]
fn links_in_a_mount_do_not_reach_host_files_outside_it() {
    use std::os::unix::fs::symlink;

    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    let inside = outside.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(inside.join("f"), "harmless").unwrap();
    symlink(outside.path().join("secret"), inside.join("absolute")).unwrap();
    symlink("../secret", inside.join("relative")).unwrap();
    symlink(outside.path(), inside.join("folder")).unwrap();
    symlink("/", inside.join("root")).unwrap();
    let mount = || {
        let dir = Arc::new(HostDir::open(&inside).unwrap());
        Machine::builder().mount("/w", Source::Host(dir))
    };
    let mut s = Script::new();
    let (fd, stat) = (s.u32(), s.room(64));
    for path in ["absolute", "relative", "folder", "folder/secret", "root", "root/etc/passwd"] {
        s.path_open(DIR, FOLLOW, path, 0, READ, 0, 0, fd).fails(Noent);
        s.path_open(DIR, FOLLOW, path, CREAT, BOTH, 0, 0, fd).fails(Noent);
        s.path_filestat_get(DIR, FOLLOW, path, stat).fails(Noent);
    }
    s.path_open(DIR, FOLLOW, "../secret", 0, READ, 0, 0, fd).fails(Perm);
    s.path_open(DIR, FOLLOW, "f", TRUNC, BOTH, 0, 0, fd).ok();
    World::confined(mount()).run(&s);
    // With the whole namespace, the root is that of the machine.
    let mut s = Script::new();
    let (fd, stat) = (s.u32(), s.room(64));
    for path in ["w/absolute", "w/relative", "w/folder", "w/root/etc/passwd", "etc/passwd"] {
        s.path_open(DIR, FOLLOW, path, 0, READ, 0, 0, fd).fails(Noent);
        s.path_filestat_get(DIR, FOLLOW, path, stat).fails(Noent);
    }
    s.path_open(DIR, FOLLOW, "w/root/w/f", 0, READ, 0, 0, fd).ok();
    World::namespace(mount()).run(&s);
    assert_eq!(std::fs::read_to_string(inside.join("f")).unwrap(), "harmless");
    assert_eq!(std::fs::read_to_string(outside.path().join("secret")).unwrap(), "secret");
}

/// The whole namespace, with the current directory `/worktree`.
fn namespace() -> World {
    let mut world = World::namespace(builder().mount("/worktree", Source::Memory));
    for path in ["/worktree/f", "/w/f", "/tmp/t", "/worktree/both"] {
        file(&mut world.machine, path);
    }
    world
}

#[test]
fn a_program_starts_with_the_root_and_the_current_directory() {
    for (mounted, current_dir, expected) in [
        (true, None, "/worktree"),
        (false, None, "/"),
        (true, Some("/w"), "/w"),
        (true, Some("/"), "/"),
    ] {
        let mut world = if mounted { namespace() } else { World::namespace(builder()) };
        world.current_dir = current_dir.map(str::to_owned);
        let mut s = Script::new();
        let (fd, names) = (s.u32(), [s.room(1), s.room(1)]);
        s.fd_prestat_dir_name(DIR, names[0]).ok();
        s.fd_prestat_dir_name(CWD, names[1]).ok();
        s.fd_prestat_dir_name(CWD + 1, names[1]).fails(Errno::Badf);
        // With a worktree, nothing can be created in the root.
        let answer = (mounted && expected == "/").then_some(Rofs);
        s.path_open(CWD, 0, "made", CREAT, WRITE, 0, 0, fd).answers(answer);
        let run = world.run(&s);
        assert_eq!(names.map(|name| run.bytes(name)[0]), [b'/', b'.']);
        let made = format!("{}/made", expected.trim_end_matches('/'));
        let is_made = world.machine.vfs_mut().metadata(&made).is_ok();
        assert_eq!(is_made, answer.is_none(), "{made}");
    }
}

#[test]
fn dot_dot_resolves_within_the_namespace_and_stops_at_the_root() {
    let mut world = namespace();
    let mut s = Script::new();
    let (fd, stat) = (s.u32(), s.room(64));
    let cases = [
        (DIR, "w/../w/f", None),
        (DIR, "w/../worktree/../tmp/t", None),
        (DIR, "w/..", None),
        (DIR, "..", Some(Perm)),
        (DIR, "../w/f", Some(Perm)),
        (DIR, "w/../../w/f", Some(Perm)),
        (DIR, "/w/f", Some(Perm)),
        (CWD, "../w/f", None),
        (CWD, "../worktree/f", None),
        (CWD, "..", None),
        (CWD, "../..", Some(Perm)),
        (CWD, "../../etc/passwd", Some(Perm)),
        (CWD, "/w/f", Some(Perm)),
        (CWD, "/", Some(Perm)),
        (CWD, "missing/../../..", Some(Noent)),
    ];
    for (dir, path, answer) in cases {
        s.path_open(dir, 0, path, 0, READ, 0, 0, fd).answers(answer);
        s.path_filestat_get(dir, 0, path, stat).answers(answer);
    }
    world.run(&s);
}

#[test]
fn the_root_and_mount_points_stay_where_they_are() {
    let mut world = namespace();
    let before = world.tree();
    let mut s = Script::new();
    for (dir, path) in [(DIR, "."), (DIR, "w/.."), (CWD, ".."), (DIR, "w"), (CWD, "../w/")] {
        s.path_rename(dir, path, DIR, "moved").fails(Busy);
    }
    s.path_rename(DIR, "worktree", DIR, "w").fails(Busy);
    s.path_rename(CWD, "f", DIR, ".").fails(Busy);
    s.path_rename(CWD, ".", DIR, "moved").fails(Busy);
    for (dir, path, errno) in
        [(DIR, ".", Inval), (DIR, "w/..", Notempty), (DIR, "w", Busy), (CWD, "../tmp/", Busy)]
    {
        s.path_remove_directory(dir, path).fails(errno);
    }
    for (dir, path) in [(DIR, "."), (DIR, "w"), (CWD, ".."), (CWD, "../tmp/")] {
        s.path_unlink_file(dir, path).fails(if path == "." || path == ".." { Isdir } else { Busy });
    }
    world.run(&s);
    assert_eq!(world.tree(), before);
}

/// C libraries remove the leading slash of an absolute path, so `/tmp/x` and `tmp/x` arrive as the same path.
#[test]
fn path_into_a_mount_starts_at_the_root_if_the_cwd_lacks_its_first_name() {
    let mut world = namespace();
    let mut s = Script::new();
    let (n, fd) = (s.u32(), s.u32());
    let read = |s: &mut Script, path: &str| {
        let buf = s.room(16);
        s.path_open(CWD, 0, path, 0, READ, 0, 0, fd).ok();
        s.fd_read(fd.load(), scatter([buf]), n).ok();
        buf
    };
    let paths = ["f", "w/f", "tmp/t", "both", "./tmp//t", "../tmp/t", "tmp/../w/f"];
    let rooms = paths.map(|path| read(&mut s, path));
    let (stat, other) = (s.room(64), s.u32());
    s.path_filestat_get(CWD, 0, "tmp/.", stat).ok();
    // A single name is looked up in the current directory.
    for path in ["tmp", "tmp/", "./tmp", "w", "w//", "dev"] {
        s.path_filestat_get(CWD, 0, path, stat).fails(Noent);
    }
    // From the root, and from opened directories, a path has only one meaning.
    s.path_open(DIR, 0, "f", 0, READ, 0, 0, fd).fails(Noent);
    s.path_open(CWD, 0, ".", DIRECTORY, READ, 0, 0, fd).ok();
    s.path_filestat_get(fd.load(), 0, "w/f", stat).fails(Noent);
    s.path_open(fd.load(), 0, "../w/f", 0, READ, 0, 0, other).ok();
    for (path, errno) in [("missing", Noent), ("missing/x", Noent), ("f/x", Notdir)] {
        s.path_filestat_get(CWD, 0, path, stat).fails(errno);
    }
    let run = world.run(&s);
    let expected = ["/worktree/f", "/w/f", "/tmp/t", "/worktree/both", "/tmp/t", "/tmp/t", "/w/f"];
    for (buf, expected) in rooms.iter().zip(expected) {
        assert_eq!(&run.bytes(*buf)[..expected.len()], expected.as_bytes());
    }
}

#[test]
fn names_in_the_current_directory_hide_mounts() {
    let mut world = namespace();
    world.machine.vfs_mut().write("/worktree/w", b"a file", 0).unwrap();
    link(&mut world.machine, "/worktree/dev", "nowhere");
    let mut s = Script::new();
    let (fd, stat) = (s.u32(), s.room(64));
    s.path_filestat_get(CWD, 0, "dev/null", stat).fails(Noent);
    s.path_filestat_get(CWD, 0, "tmp/t", stat).ok();
    s.path_filestat_get(CWD, 0, "w/f", stat).fails(Notdir);
    s.path_open(CWD, 0, "w/new", CREAT, WRITE, 0, 0, fd).fails(Notdir);
    s.path_create_directory(CWD, "tmp").ok();
    s.path_filestat_get(CWD, 0, "tmp/t", stat).fails(Noent);
    s.path_open(CWD, 0, "tmp/mine", CREAT, WRITE, 0, 0, fd).ok();
    s.path_unlink_file(CWD, "tmp/mine").ok();
    s.path_remove_directory(CWD, "tmp").ok();
    s.path_unlink_file(CWD, "dev").ok();
    s.path_filestat_get(CWD, 0, "tmp/t", stat).ok();
    s.path_filestat_get(CWD, 0, "dev/null", stat).ok();
    s.path_open(CWD, 0, "dev/null", CREAT | EXCL, WRITE, 0, 0, fd).fails(Exist);
    s.path_open(CWD, 0, "dev/new", CREAT, WRITE, 0, 0, fd).fails(Noent);
    world.run(&s);
}

#[test]
fn every_path_call_resolves_into_a_mount() {
    let mut world = namespace();
    link(&mut world.machine, "/tmp/l", "t");
    let mut s = Script::new();
    let (fd, buf, n, stat) = (s.u32(), s.room(4), s.u32(), s.room(64));
    s.path_create_directory(CWD, "tmp/d").ok();
    s.path_create_directory(CWD, "tmp/gone").ok();
    s.path_remove_directory(CWD, "tmp/gone").ok();
    s.path_symlink("/w/f", CWD, "tmp/d/link").ok();
    s.path_readlink(CWD, "tmp/l", buf, n).ok();
    s.path_link(CWD, 0, "tmp/t", CWD, "tmp/d/hard").ok();
    s.path_filestat_set_times(CWD, 0, "tmp/t", 1, 2, ATIM | MTIM).ok();
    s.path_filestat_get(CWD, 0, "tmp/t", stat).ok();
    s.path_open(CWD, 0, "tmp/new", CREAT | EXCL, WRITE, 0, 0, fd).ok();
    s.path_rename(CWD, "tmp/t", CWD, "tmp/d/t").ok();
    s.path_rename(CWD, "f", CWD, "tmp/f").ok();
    s.path_rename(CWD, "w/f", CWD, "g").ok();
    s.path_unlink_file(CWD, "tmp/l").ok();
    s.path_create_directory(CWD, "tmp").ok();
    s.path_create_directory(CWD, "w").ok();
    s.path_symlink("t", CWD, "both2").ok();
    let run = world.run(&s);
    assert_eq!((run.bytes(buf), run.u32(n)), (&b"t\xa5\xa5\xa5"[..], 1));
    assert_eq!((run.stat(stat).atim, run.stat(stat).mtim), (1, 2));
    let tree = world.tree();
    let names: Vec<&str> = tree.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(
        names,
        [
            "/tmp/",
            "/tmp/d/",
            "/tmp/d/hard",
            "/tmp/d/link",
            "/tmp/d/t",
            "/tmp/f",
            "/tmp/new",
            "/w/",
            "/worktree/",
            "/worktree/both",
            "/worktree/both2",
            "/worktree/g",
            "/worktree/tmp/",
            "/worktree/w/",
        ]
    );
}

/// Changes there would be in no diff, and `--apply` would not write them.
#[test]
fn no_entries_are_created_in_the_root() {
    let mut world = namespace();
    let before = world.tree();
    let mut s = Script::new();
    let fd = s.u32();
    for (dir, path) in [(DIR, "new"), (CWD, "../new"), (CWD, "../w/../new")] {
        s.path_create_directory(dir, path).fails(Rofs);
        s.path_open(dir, FOLLOW, path, CREAT, WRITE, 0, 0, fd).fails(Rofs);
        s.path_symlink("x", dir, path).fails(Rofs);
        s.path_rename(CWD, "f", dir, path).fails(Rofs);
    }
    // Regression: each of these created an entry in the root, because there was no `zz` and no `worktree` in it.
    s.path_create_directory(CWD, "zz/gen").fails(Noent);
    s.path_symlink("zz/q", CWD, "dang").ok();
    s.path_open(CWD, FOLLOW, "dang", CREAT, WRITE, 0, 0, fd).fails(Noent);
    s.path_unlink_file(CWD, "dang").ok();
    world.run(&s);
    assert_eq!(world.tree(), before);
}

/// The worktree holds `file` and is mounted beside the tree `/lib/inner`, which holds `one`.
fn beside_a_tree() -> (World, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    for dir in ["work", "lib"] {
        std::fs::create_dir(folder.path().join(dir)).unwrap();
    }
    std::fs::write(folder.path().join("work/file"), "file").unwrap();
    std::fs::write(folder.path().join("lib/one"), "one").unwrap();
    let tree = |name| Source::Host(Arc::new(HostDir::open(&folder.path().join(name)).unwrap()));
    let builder = Machine::builder().mount("/worktree", tree("work"));
    (World::namespace(builder.mount("/lib/inner", tree("lib"))), folder)
}

/// A program cannot distinguish `/lib` from `lib`, so it can neither create nor remove or rename either.
#[test]
fn mount_point_name_is_reserved_in_the_worktree() {
    let (mut world, _folder) = beside_a_tree();
    let before = world.tree();
    let mut s = Script::new();
    let (fd, cwd, stat) = (s.u32(), s.u32(), s.room(64));
    s.path_open(CWD, 0, ".", DIRECTORY, READ, 0, 0, cwd).ok();
    for name in ["lib", "lib/", "./lib", "lib/inner", "../worktree/lib"] {
        for dir in [CWD.into(), cwd.load()] {
            s.path_filestat_get(dir, 0, name, stat).ok();
            s.path_create_directory(dir, name).fails(Exist);
            s.path_symlink("x", dir, name.trim_end_matches('/')).fails(Exist);
            s.path_remove_directory(dir, name).fails(Busy);
            s.path_unlink_file(dir, name).fails(Busy);
            s.path_rename(dir, name, CWD, "stolen").fails(Busy);
            s.path_rename(CWD, "file", dir, name.trim_end_matches('/')).fails(Busy);
        }
    }
    s.path_open(CWD, FOLLOW, "lib/inner/one", 0, READ, 0, 0, fd).ok();
    s.path_open(CWD, FOLLOW, "lib/../file", 0, READ, 0, 0, fd).ok();
    s.path_open(CWD, FOLLOW, "lib/inner/../../file", 0, READ, 0, 0, fd).ok();
    s.path_open(CWD, FOLLOW, "worktree/lib/inner/one", 0, READ, 0, 0, fd).ok();
    s.path_open(CWD, 0, "lib/new", CREAT, WRITE, 0, 0, fd).fails(Rofs);
    world.run(&s);
    assert_eq!(world.tree(), before);
}

#[test]
fn mount_named_like_a_worktree_entry_is_refused() {
    let (_, folder) = beside_a_tree();
    for name in ["lib", "lib2"] {
        std::fs::create_dir(folder.path().join("work").join(name)).unwrap();
    }
    let tree = |name| Source::Host(Arc::new(HostDir::open(&folder.path().join(name)).unwrap()));
    let builder = || Machine::builder().mount("/worktree", tree("work"));
    let error = builder().mount("/lib/inner", tree("lib")).build().err().unwrap().to_string();
    let expected = "cannot mount at /lib/inner: the worktree has \"lib\" of its own, and programs \
                    cannot tell lib/x from /lib/x; /lib3/inner is free";
    assert_eq!(error, expected);
    for at in ["/libs", "/worktree/lib", "/"] {
        assert!(builder().mount(at, tree("lib")).build().is_ok(), "{at}");
    }
    assert!(builder().mount("/lib", Source::Memory).build().is_ok());
}

/// With the reach of the whole namespace, absolute links resolve like relative ones.
#[test]
fn absolute_links_start_at_the_root_of_the_namespace() {
    let mut world = namespace();
    let mut s = Script::new();
    let fd = s.u32();
    s.path_symlink("/w/f", CWD, "l").ok();
    s.path_symlink("/", CWD, "top").ok();
    s.path_symlink("/../../w/f", CWD, "above").ok();
    s.path_open(CWD, FOLLOW, "l", 0, READ, 0, 0, fd).ok();
    s.path_open(DIR, FOLLOW, "worktree/top/worktree/top/w/f", 0, READ, 0, 0, fd).ok();
    // The parent of the root is the root, as on Linux; but a path leads above the root only through a link.
    s.path_open(CWD, FOLLOW, "above", 0, READ, 0, 0, fd).ok();
    s.path_open(DIR, FOLLOW, "worktree/above", 0, READ, 0, 0, fd).ok();
    s.path_open(CWD, FOLLOW, "top/../w/f", 0, READ, 0, 0, fd).ok();
    s.path_open(CWD, FOLLOW, "../../w/f", 0, READ, 0, 0, fd).fails(Perm);
    world.run(&s);
}

#[test]
fn each_preopened_directory_has_its_own_reach() {
    let mut world = namespace();
    let preopen = |path: &str, reach| Preopen { path: path.to_owned(), name: "x".into(), reach };
    world.preopens = Some(vec![preopen("/w", Reach::Confined), preopen("/w", Reach::Namespace)]);
    link(&mut world.machine, "/w/out", "/tmp/t");
    let mut s = Script::new();
    let fd = s.u32();
    for (dir, path, answer) in [
        (3, "f", None),
        (3, "out", Some(Noent)),
        (3, "../tmp/t", Some(Perm)),
        (4, "f", None),
        (4, "out", None),
        (4, "../tmp/t", None),
        (4, "tmp/t", Some(Noent)),
    ] {
        s.path_open(dir, FOLLOW, path, 0, READ, 0, 0, fd).answers(answer);
    }
    s.path_symlink("/tmp/t", 3, "new").fails(Perm);
    s.path_symlink("/tmp/t", 4, "new").ok();
    world.run(&s);
}
