//! `fd_readdir`: entries through buffers of any size, and cookies.

use belljar::Errno::{Badf, Noent, Notdir};

use super::flags::*;
use super::interpreter::MASK;
use super::script::{Script, Slot};
use super::world::{DIR, World};

/// Bytes of an entry before its name.
const HEAD: usize = 24;

/// `dirent` and the name after it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    next: u64,
    ino: u64,
    file_type: u8,
    name: String,
}

/// The complete entries in `bytes`.
fn entries(mut bytes: &[u8]) -> Vec<Entry> {
    let mut entries = Vec::new();
    while bytes.len() >= HEAD {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let len = u32::from_le_bytes(bytes[16..20].try_into().unwrap()) as usize;
        assert_eq!(bytes[21..24], [0; 3], "what pads the structure");
        let Some(name) = bytes.get(HEAD..HEAD + len) else { break };
        let name = String::from_utf8(name.to_vec()).unwrap();
        entries.push(Entry { next: word(0), ino: word(8), file_type: bytes[20], name });
        bytes = &bytes[HEAD + len..];
    }
    entries
}

fn names(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.name.as_str()).collect()
}

fn world() -> World {
    let mut world = World::new();
    world.file("file", b"");
    world.dir("dir");
    world.link("é", "nowhere");
    world.file("A", b"");
    world
}

/// The bytes of a whole directory, read in one call.
fn whole(world: &mut World) -> Vec<u8> {
    let mut s = Script::new();
    let (buf, used) = (s.room(4096), s.u32());
    s.fd_readdir(DIR, buf, 0, used).ok();
    let run = world.run(&s);
    let (filled, rest) = run.bytes(buf).split_at(run.u32(used) as usize);
    assert!(rest.iter().all(|byte| *byte == MASK), "past what it says it used");
    filled.to_vec()
}

#[test]
fn a_listing_is_sorted_after_the_two_dots() {
    let mut world = world();
    let listing = entries(&whole(&mut world));
    assert_eq!(names(&listing), [".", "..", "A", "dir", "file", "é"]);
    let types: Vec<u8> = listing.iter().map(|entry| entry.file_type).collect();
    let (dir, file, link) = (DIRECTORY_TYPE, FILE_TYPE, LINK_TYPE);
    assert_eq!(types, [dir, dir, file, dir, file, link]);
    let cookies: Vec<u64> = listing.iter().map(|entry| entry.next).collect();
    assert_eq!(cookies, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn inode_numbers_are_those_of_filestat() {
    let mut world = world();
    world.file("dir/inner", b"");
    for top in [".", "dir"] {
        let mut s = Script::new();
        let fd = s.open(top, DIRECTORY, READ);
        let (buf, used) = (s.room(1024), s.u32());
        s.fd_readdir(fd, buf, 0, used).ok();
        let run = world.run(&s);
        let listing = entries(&run.bytes(buf)[..run.u32(used) as usize]);
        let mut s = Script::new();
        let stats: Vec<Slot> = listing
            .iter()
            .map(|entry| {
                let stat = s.room(64);
                // In a directory that confines lookups, `..` is the directory itself.
                let name = if entry.name == ".." { "." } else { &entry.name };
                s.path_filestat_get(DIR, 0, &format!("{top}/{name}"), stat).ok();
                stat
            })
            .collect();
        let run = world.run(&s);
        for (entry, stat) in listing.iter().zip(stats) {
            let stat = run.stat(stat);
            assert_eq!((entry.ino, entry.file_type), (stat.ino, stat.file_type), "{entry:?}");
        }
    }
}

#[test]
fn a_buffer_of_any_size_is_filled_to_the_last_byte() {
    let mut world = world();
    let whole = whole(&mut world);
    let sizes: Vec<usize> = (0..60).chain(whole.len() - 3..whole.len() + 3).collect();
    for sizes in sizes.chunks(16) {
        let mut s = Script::new();
        let rooms: Vec<(Slot, Slot)> = sizes
            .iter()
            .map(|size| {
                let (buf, used) = (s.room(u32::try_from(*size).unwrap()), s.u32());
                s.fd_readdir(DIR, buf, 0, used).ok();
                (buf, used)
            })
            .collect();
        let run = world.run(&s);
        for (size, (buf, used)) in sizes.iter().zip(rooms) {
            let expected = whole.len().min(*size);
            assert_eq!(run.u32(used) as usize, expected, "{size}");
            assert_eq!(run.bytes(buf)[..expected], whole[..expected], "{size}");
            assert!(run.bytes(buf)[expected..].iter().all(|byte| *byte == MASK), "{size}");
        }
    }
}

#[test]
fn every_cookie_continues_with_the_next_entry() {
    let mut world = world();
    let listing = entries(&whole(&mut world));
    let cookies: Vec<u64> =
        (0..=listing.len() as u64 + 1).chain([1 << 32, 1 << 63, u64::MAX - 1, u64::MAX]).collect();
    // Through a descriptor that has listed before, and through new ones.
    for listed in [true, false] {
        let mut s = Script::new();
        let rooms: Vec<(Slot, Slot)> = cookies
            .iter()
            .map(|cookie| {
                let (buf, used) = (s.room(256), s.u32());
                let fd = if listed { DIR.into() } else { s.open(".", DIRECTORY, READ) };
                s.fd_readdir(fd, buf, *cookie, used).ok();
                (buf, used)
            })
            .collect();
        let run = world.run(&s);
        for (cookie, (buf, used)) in cookies.iter().zip(rooms) {
            let seen = entries(&run.bytes(buf)[..run.u32(used) as usize]);
            let rest = usize::try_from(*cookie).unwrap_or(usize::MAX).min(listing.len());
            assert_eq!(seen, listing[rest..], "{cookie}");
        }
    }
}

/// One call from `cookie` on, with room for about one entry.
fn one(s: &mut Script, cookie: u64) -> (Slot, Slot) {
    let (buf, used) = (s.room(27), s.u32());
    s.fd_readdir(DIR, buf, cookie, used).ok();
    (buf, used)
}

fn all(s: &mut Script, cookie: u64) -> (Slot, Slot) {
    let (buf, used) = (s.room(1024), s.u32());
    s.fd_readdir(DIR, buf, cookie, used).ok();
    (buf, used)
}

/// `rm -r` reads some entries, removes them, and reads on.
#[test]
fn cookies_stay_valid_while_entries_are_added_and_removed() {
    let mut world = World::new();
    for name in ["b", "d", "f", "h"] {
        world.file(name, b"");
    }
    let mut s = Script::new();
    let first = one(&mut s, 0);
    s.path_unlink_file(DIR, "b").ok();
    s.path_rename(DIR, "f", DIR, "a").ok();
    s.open("e", CREAT, WRITE);
    let second = all(&mut s, 1);
    s.path_unlink_file(DIR, "d").ok();
    let third = all(&mut s, 3);
    let last = all(&mut s, 6);
    let again = all(&mut s, 0);
    let run = world.run(&s);
    let seen = |(buf, used): (Slot, Slot)| entries(&run.bytes(buf)[..run.u32(used) as usize]);
    assert_eq!(names(&seen(first)), ["."]);
    // Removed entries are left out, new entries are not included, and the cookies are unchanged.
    assert_eq!(names(&seen(second)), ["..", "d", "h"]);
    assert_eq!(seen(second).iter().map(|entry| entry.next).collect::<Vec<_>>(), [2, 4, 6]);
    assert_eq!(names(&seen(third)), ["h"]);
    assert!(seen(last).is_empty());
    // From the beginning, the directory is listed as it is now.
    assert_eq!(names(&seen(again)), [".", "..", "a", "e", "h"]);
}

/// An editor that saves a file replaces it, perhaps during a listing.
#[test]
fn an_entry_that_was_replaced_shows_the_new_file() {
    let mut world = World::new();
    world.file("config", b"old");
    let mut s = Script::new();
    let first = one(&mut s, 0);
    s.open("config.new", CREAT, WRITE);
    s.path_rename(DIR, "config.new", DIR, "config").ok();
    let rest = all(&mut s, 2);
    let stat = s.room(64);
    s.path_filestat_get(DIR, 0, "config", stat).ok();
    let run = world.run(&s);
    let seen = |(buf, used): (Slot, Slot)| entries(&run.bytes(buf)[..run.u32(used) as usize]);
    assert_eq!(names(&seen(first)), ["."]);
    let replaced: Vec<(String, u64)> =
        seen(rest).into_iter().map(|entry| (entry.name, entry.ino)).collect();
    assert_eq!(replaced, [("config".to_owned(), run.stat(stat).ino)]);
}

#[test]
fn two_descriptors_list_independently() {
    let mut world = world();
    let mut s = Script::new();
    let other = s.open(".", DIRECTORY, READ);
    let first = one(&mut s, 0);
    s.path_unlink_file(DIR, "A").ok();
    s.open("new", CREAT, WRITE);
    let (buf, used) = (s.room(1024), s.u32());
    s.fd_readdir(other, buf, 0, used).ok();
    let rest = all(&mut s, 2);
    let run = world.run(&s);
    let seen = |(buf, used): (Slot, Slot)| entries(&run.bytes(buf)[..run.u32(used) as usize]);
    assert_eq!(names(&seen(first)), ["."]);
    assert_eq!(names(&seen((buf, used))), [".", "..", "dir", "file", "new", "é"]);
    assert_eq!(names(&seen(rest)), ["dir", "file", "é"]);
}

#[test]
fn a_directory_that_was_removed_is_empty() {
    let mut world = world();
    let mut s = Script::new();
    let fd = s.open("dir", DIRECTORY, READ);
    s.path_remove_directory(DIR, "dir").ok();
    let (buf, used, stat) = (s.room(256), s.u32(), s.room(64));
    s.fd_readdir(fd, buf, 0, used).ok();
    s.fd_filestat_get(fd, stat).ok();
    let out = s.u32();
    s.path_open(fd, 0, "x", CREAT, WRITE, 0, 0, out).fails(Noent);
    s.path_create_directory(fd, "x").fails(Noent);
    s.path_symlink("x", fd, "y").fails(Noent);
    s.path_link(DIR, 0, "file", fd, "y").fails(Noent);
    s.path_rename(DIR, "file", fd, "y").fails(Noent);
    let run = world.run(&s);
    let listing = entries(&run.bytes(buf)[..run.u32(used) as usize]);
    assert_eq!(names(&listing), [".", ".."]);
    assert!(listing.iter().all(|entry| entry.ino == run.stat(stat).ino));
    assert_eq!(run.stat(stat).nlink, 0);
}

#[test]
fn only_directories_can_be_listed() {
    let mut world = world();
    let mut s = Script::new();
    let (file, buf, used) = (s.open("file", 0, BOTH), s.room(64), s.u32());
    s.fd_readdir(file, buf, 0, used).fails(Notdir);
    s.fd_readdir(0, buf, 0, used).fails(Badf);
    s.fd_readdir(77, buf, u64::MAX, used).fails(Badf);
    world.run(&s);
}

/// C libraries read a directory this way: a truncated entry is requested again.
#[test]
fn large_directory_is_listed_completely_through_a_small_buffer() {
    let mut world = World::new();
    let expected: Vec<String> =
        (0..300).map(|i| format!("{i:04}-{}", "n".repeat(i % 50))).collect();
    for name in &expected {
        world.file(name, b"");
    }
    let (mut cookie, mut seen, mut calls) = (0, Vec::new(), 0);
    loop {
        let mut s = Script::new();
        let (buf, used) = (s.room(300), s.u32());
        s.fd_readdir(DIR, buf, cookie, used).ok();
        let run = world.run(&s);
        let part = entries(&run.bytes(buf)[..run.u32(used) as usize]);
        calls += 1;
        if let Some(last) = part.last() {
            cookie = last.next;
        }
        seen.extend(part.into_iter().map(|entry| entry.name));
        if run.u32(used) < 300 {
            break;
        }
    }
    assert!(calls > 50, "{calls}");
    assert_eq!(seen[..2], [".", ".."]);
    assert_eq!(seen[2..], expected);
}
