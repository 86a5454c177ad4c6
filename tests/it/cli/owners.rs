//! Whose a file is stays as it was when `--apply` writes it anew.

use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};

use crate::cli::scratch;
use crate::cli::tape::succeed;
use crate::support::skipped;

fn owner(path: &Path) -> (u32, u32, u32) {
    let found = std::fs::metadata(path).unwrap();
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 256];
    let len = fgetxattr(File::open(path).unwrap(), name, &mut value[..]).ok()?;
    value.truncate(len);
    Some(value)
}

/// An access list as `setfacl -m u:1001:r,g::-` makes it: user 1001 may read, the group may do nothing.
const LIST: &[u8] = &[
    2, 0, 0, 0, // version
    1, 0, 6, 0, 255, 255, 255, 255, // the owner: rw
    2, 0, 4, 0, 0xe9, 3, 0, 0, // user 1001: r
    4, 0, 0, 0, 255, 255, 255, 255, // the group: nothing
    16, 0, 4, 0, 255, 255, 255, 255, // mask: r
    32, 0, 0, 0, 255, 255, 255, 255, // others: nothing
];
const LIST_NAME: &str = "system.posix_acl_access";

/// Regression: the file belonged to root afterwards, and its owner could not read it.
#[test]
fn file_changed_by_root_keeps_its_owner() {
    let folder = scratch();
    let note = folder.path().join("note.txt");
    if chown(&note, Some(1000), Some(1234)).is_err() {
        return skipped("cli::owners", "only root gives files to others");
    }
    for mode in [0o600, 0o664, 0o4755, 0o400] {
        chown(&note, Some(1000), Some(1234)).unwrap();
        std::fs::set_permissions(&note, PermissionsExt::from_mode(mode)).unwrap();
        let script = "cp note.txt kept; cat kept kept > note.txt; rm kept";
        succeed(folder.path(), &["sh", "--apply", "-c", script]);
        assert_eq!(owner(&note), (1000, 1234, mode & 0o1777), "{mode:o}");
    }
}

/// Regression: users whom the access control list allowed could no longer read the file, and its group could.
#[test]
fn a_file_that_is_changed_keeps_its_access_list_and_its_attributes() {
    let folder = scratch();
    let note = folder.path().join("note.txt");
    let file = File::open(&note).unwrap();
    if fsetxattr(&file, LIST_NAME, LIST, XattrFlags::empty()).is_err()
        || fsetxattr(&file, "user.note", b"kept", XattrFlags::empty()).is_err()
    {
        return skipped("cli::owners", "the disk has no access lists, or no attributes of users");
    }
    let before = owner(&note);
    for script in ["echo more >> note.txt", "mv note.txt sub; echo x >> sub; mv sub note.txt"] {
        succeed(folder.path(), &["sh", "--apply", "-c", script]);
        assert_eq!(attribute(&note, LIST_NAME).as_deref(), Some(LIST), "{script}");
        assert_eq!(attribute(&note, "user.note").as_deref(), Some(&b"kept"[..]), "{script}");
        assert_eq!(owner(&note), before, "{script}");
    }
}
