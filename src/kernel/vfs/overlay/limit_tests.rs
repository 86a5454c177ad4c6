//! Everything that a guest can make grow counts, and what fails at a limit takes nothing.
#![cfg(unix)]

use std::sync::{Arc, Mutex, Weak};

use super::NODE_BYTES;
use super::content::CHUNK_BYTES;
#[cfg(unix)]
use crate::base::disk;
use crate::base::errno::Errno;
use crate::kernel::vfs::test_trees::check_counts;
use crate::kernel::vfs::*;

const MIB: u64 = 1 << 20;

fn memory(upper_bytes_max: u64) -> Overlay {
    Overlay::new(VfsLimits { upper_bytes_max, ..VfsLimits::default() }, 1)
}

fn open(overlay: &mut Overlay, path: &str) -> NodeId {
    let flags = OpenFlags { create: true, write: true, ..OpenFlags::default() };
    overlay.open(overlay.host_base(), path, flags, 2).unwrap()
}

/// A directory that holds files of zeros, all names that begin with `f`.
struct Zeros {
    len: u64,
    /// The contents that were handed out.
    opened: Mutex<Vec<Weak<[u8]>>>,
}

impl Layer for Zeros {
    fn stat(&self, path: &VPath) -> Result<Stat, Errno> {
        let (file_type, size) = match path.as_str() {
            "" => (FileType::Directory, 0),
            name if name.starts_with('f') => (FileType::RegularFile, self.len),
            _ => return Err(Errno::Noent),
        };
        Ok(Stat { file_type, size, mtime_ns: 0, executable: false, stamp: 0, inode: 0, nlink: 1 })
    }

    fn list(&self, _: &VPath) -> Result<Vec<DirEntry>, Errno> {
        Ok(vec![DirEntry { name: "f".into(), file_type: FileType::RegularFile }])
    }

    fn read_link(&self, _: &VPath) -> Result<Box<[u8]>, Errno> {
        Err(Errno::Inval)
    }

    fn open(&self, _: &VPath) -> Result<Blob, Errno> {
        let bytes: Arc<[u8]> = vec![0; usize::try_from(self.len).unwrap()].into();
        self.opened.lock().unwrap().push(Arc::downgrade(&bytes));
        Ok(Blob::Bytes(bytes))
    }
}

/// A file of `len` bytes at `/f`, below.
fn over(len: u64, upper_bytes_max: u64) -> Overlay {
    let mut overlay = memory(upper_bytes_max);
    let zeros = Zeros { len, opened: Mutex::default() };
    let layers = Source::Layers(vec![Arc::new(zeros)]);
    overlay.mount("/", layers, false, Mtimes::Fixed(1), 1).unwrap();
    overlay
}

#[test]
fn names_count() {
    let mut overlay = memory(1 << 20);
    let base = overlay.host_base();
    let (long, longer) = ("n".repeat(200), "m".repeat(255));
    let file = open(&mut overlay, &long);
    overlay.close(file);
    assert_eq!(overlay.upper_bytes(), NODE_BYTES + 200);
    overlay.link((base, &long), Follow::No, (base, &longer), 2).unwrap();
    assert_eq!(overlay.upper_bytes(), 2 * NODE_BYTES + 455);
    overlay.unlink(base, &long, 2).unwrap();
    overlay.rename((base, &longer), (base, "s"), 2).unwrap();
    assert_eq!(overlay.upper_bytes(), NODE_BYTES + 1);
    overlay.symlink("target", base, &longer, 2).unwrap();
    assert_eq!(overlay.upper_bytes(), 2 * NODE_BYTES + 1 + 6 + 255);
    for name in ["s", &longer] {
        overlay.unlink(base, name, 2).unwrap();
    }
    assert_eq!(overlay.upper_bytes(), 0);
}

#[test]
fn a_name_longer_than_there_is_room_for_is_refused() {
    let mut overlay = memory(2 * NODE_BYTES);
    let base = overlay.host_base();
    overlay.create_dir(base, "d", 2).unwrap();
    let long = "n".repeat(255);
    overlay.rename((base, "d"), (base, &long), 2).unwrap();
    let file = OpenFlags { create: true, ..OpenFlags::default() };
    assert_eq!(overlay.open(base, "another", file, 2), Err(Errno::Nospc));
    assert_eq!(overlay.limit_hit(), Some("upper_bytes_max"));
    let mut full = memory(NODE_BYTES + 10);
    full.create_dir(base, "d", 2).unwrap();
    assert_eq!(full.rename((base, "d"), (base, &long), 2), Err(Errno::Nospc));
    assert!(full.metadata("/d").is_ok());
    check_counts(&full);
}

#[test]
fn an_emptied_directory_gives_its_memory_back() {
    let mut overlay = memory(1 << 30);
    let base = overlay.host_base();
    for index in 0..10_000 {
        overlay.create_dir(base, &format!("{index}"), 2).unwrap();
    }
    for index in 0..10_000 {
        overlay.remove_dir(base, &format!("{index}"), 2).unwrap();
    }
    assert!(overlay.dir(base.dir).entries.capacity() < 200);
    assert_eq!(overlay.upper_bytes(), 0);
}

/// A guest once opened a directory a thousand times, changed it in between, and made the host hold
/// a thousand listings that nothing counted.
#[test]
fn listings_that_are_held_count() {
    let mut overlay = memory(1 << 20);
    let base = overlay.host_base();
    for index in 0..1000 {
        overlay.create_dir(base, &format!("{index:04}"), 2).unwrap();
    }
    let mut held = Vec::new();
    let refused = loop {
        match overlay.list(base.dir) {
            Ok(listing) => held.push(listing),
            Err(errno) => break errno,
        }
        overlay.remove_dir(base, "0500", 2).unwrap();
        overlay.create_dir(base, "0500", 2).unwrap();
        assert!(held.len() < 100, "they take more than 30 KiB each");
    };
    assert_eq!(refused, Errno::Nospc);
    assert!(held.len() > 5);
    held.clear();
    assert_eq!(overlay.list(base.dir).unwrap().len(), 1000);
}

#[test]
fn a_listing_that_nobody_holds_is_not_counted() {
    let mut overlay = memory(NODE_BYTES + 10);
    let base = overlay.host_base();
    for _ in 0..3 {
        overlay.create_dir(base, "d", 2).unwrap();
        assert_eq!(overlay.list(base.dir).unwrap().len(), 1);
        overlay.remove_dir(base, "d", 2).unwrap();
    }
}

#[test]
fn a_chunk_that_is_mapped_counts_whole() {
    let mut overlay = memory(16 * MIB);
    let file = open(&mut overlay, "f");
    let empty = overlay.upper_bytes();
    overlay.write_at(file, MIB, b"x", 2).unwrap();
    assert!(overlay.upper_bytes() - empty >= CHUNK_BYTES as u64);
    overlay.set_len(file, 10, 2).unwrap();
    assert!(overlay.upper_bytes() - empty < 100);
    check_counts(&overlay);
}

/// A write to a large file below once read what it touches before it found that there is no room.
#[test]
fn a_write_that_fails_loads_nothing() {
    let mut overlay = over(20 * MIB, 4 * MIB);
    let file = open(&mut overlay, "f");
    let bytes = vec![1; 10 << 20];
    assert_eq!(overlay.write_at(file, 0, &bytes, 2), Err(Errno::Nospc));
    assert_eq!((overlay.upper_bytes, overlay.cache_bytes), (0, 0));
    assert_eq!(overlay.file(file).unwrap().content.held_bytes(), 0);
    overlay.write_at(file, 0, &bytes[..10], 2).unwrap();
    assert_eq!(overlay.write_at(file, MIB, &bytes, 2), Err(Errno::Nospc));
    assert!(overlay.upper_bytes() < 3 * MIB);
    check_counts(&overlay);
}

#[test]
fn reading_a_file_that_was_written_takes_no_more_memory() {
    let mut overlay = over(20 * MIB, 64 * MIB);
    let file = open(&mut overlay, "f");
    overlay.write_at(file, 5, b"written", 2).unwrap();
    let before = overlay.upper_bytes();
    let mut bytes = vec![1; 20 << 20];
    assert_eq!(overlay.read_at(file, 0, &mut bytes).unwrap(), bytes.len());
    assert_eq!((&bytes[5..12], bytes[19 << 20]), (&b"written"[..], 0));
    assert_eq!((overlay.upper_bytes, overlay.cache_bytes), (before, 0));
}

/// What was read of a file was once counted as written when the file was cut, without a limit.
#[test]
fn a_file_that_was_read_and_is_cut_takes_no_memory() {
    let mut overlay = over(20 * MIB, MIB);
    let file = open(&mut overlay, "f");
    let mut bytes = vec![1; 20 << 20];
    overlay.read_at(file, 0, &mut bytes).unwrap();
    assert!(overlay.cache_bytes >= 20 * MIB);
    overlay.set_len(file, 20 * MIB - 1, 2).unwrap();
    assert!(overlay.upper_bytes() < 1000 && overlay.cache_bytes == 0);
    overlay.set_len(file, 3, 2).unwrap();
    overlay.set_len(file, 10, 2).unwrap();
    assert_eq!(overlay.read_at(file, 0, &mut bytes).unwrap(), 10);
    check_counts(&overlay);
}

/// A sparse file of a hostile folder claims any length.
#[test]
fn a_file_that_claims_exbibytes_cannot_be_opened() {
    let mut overlay = over(7 << 60, MIB);
    let base = overlay.host_base();
    let opened = overlay.open(base, "f", OpenFlags::default(), 2);
    assert_eq!(opened, Err(Errno::Fbig));
    assert_eq!(overlay.metadata("/f").unwrap().file_type, FileType::RegularFile);
}

#[test]
fn a_file_that_is_only_looked_at_takes_no_memory_whatever_its_length() {
    let mut overlay = over(1 << 40, MIB);
    assert_eq!(overlay.metadata("/f").unwrap().size, 1 << 40);
    let file = overlay.lookup(overlay.host_base(), "f", Follow::No).unwrap();
    assert_eq!(overlay.file(file).unwrap().content.held_bytes(), 0);
}

/// Holes take no memory in the overlay, and would in a patch.
#[test]
fn a_patch_does_not_fill_memory_with_holes() {
    let mut overlay = over(10, MIB);
    for name in ["a", "b", "c", "d"] {
        let file = open(&mut overlay, name);
        overlay.set_len(file, 700 * MIB, 2).unwrap();
        overlay.close(file);
    }
    let entries: Vec<DiffEntry> = overlay.diff().unwrap();
    let error = render_unified_diff(&entries, &VPath::root()).unwrap_err();
    assert!(matches!(&error, DiffError::PatchTooLarge { path, .. } if path.as_str() == "c"));
}

/// A guest may open more files than the host lets a process open.
#[test]
fn few_files_below_are_kept_open() {
    let limits = VfsLimits { cache_bytes_max: 0, ..VfsLimits::default() };
    let mut overlay = Overlay::new(limits, 1);
    let zeros = Arc::new(Zeros { len: 10, opened: Mutex::default() });
    let layers = Source::Layers(vec![zeros.clone()]);
    overlay.mount("/", layers, false, Mtimes::Fixed(1), 1).unwrap();
    let base = overlay.host_base();
    let flags = OpenFlags::default();
    let name = |index| format!("f{index}");
    let ids: Vec<_> =
        (0..100).map(|index| overlay.open(base, &name(index), flags, 2).unwrap()).collect();
    for _ in 0..2 {
        for id in &ids {
            assert_eq!(overlay.read_at(*id, 3, &mut [1; 20]).unwrap(), 7);
        }
    }
    let open = || zeros.opened.lock().unwrap().iter().filter(|of| of.strong_count() > 0).count();
    assert!((1..=32).contains(&open()), "{}", open());
    for id in ids {
        overlay.close(id);
    }
    assert_eq!(open(), 0);
}

/// What leaves its mount is read when its place on the disk is written: a file of the host may
/// claim more than memory holds.
#[cfg(unix)]
#[test]
fn a_file_that_left_its_mount_is_not_read_past_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let sparse = disk::create(&folder.path().join("sparse")).unwrap();
    sparse.set_len(1 << 38).unwrap();
    let mut overlay = memory(MIB);
    let host = Source::Host(Arc::new(HostDir::open(folder.path()).unwrap()));
    overlay.mount("/w", host, false, Mtimes::Fixed(1), 1).unwrap();
    overlay.mount("/tmp", Source::Memory, false, Mtimes::Fixed(1), 1).unwrap();
    let base = overlay.host_base();
    overlay.rename((base, "w/sparse"), (base, "tmp/sparse"), 2).unwrap();
    let refused = overlay.apply().unwrap_err().to_string();
    assert!(refused.contains("cannot read sparse: No space left"), "{refused}");
    assert_eq!(disk::metadata(&folder.path().join("sparse")).unwrap().len(), 1 << 38);
}

/// Many files in a deep directory: each is small, and the list of their paths is not.
#[test]
fn changes_whose_paths_fill_memory_are_not_told() {
    let mut overlay = over(10, 64 * MIB);
    let base = overlay.host_base();
    let deep = vec!["d".repeat(250); 8].join("/");
    for (at, _) in deep.match_indices('/').chain([(deep.len(), "")]) {
        overlay.create_dir(base, &deep[..at], 2).unwrap();
    }
    for index in 0..1000 {
        overlay.symlink("x", base, &format!("{deep}/{index}"), 2).unwrap();
    }
    assert_eq!(overlay.diff().unwrap().len(), 1008);
    overlay.limits.change_path_bytes_max = MIB;
    let error = overlay.diff().unwrap_err();
    assert!(matches!(error, DiffError::TooMany { max: MIB }), "{error}");
    let refused = overlay.apply();
    assert!(matches!(refused, Err(ApplyError::Diff(DiffError::TooMany { .. }))), "{refused:?}");
}
