//! Who may access a file of the host, besides its mode: owner, group, access lists, other attributes.
//!
//! A file that replaces another one must be accessible to the same users as before, and to no others.

#[cfg(unix)]
pub(super) use unix::Owner;

/// Unknown on other systems.
#[cfg(not(unix))]
#[derive(Default)]
pub(super) struct Owner;

#[cfg(unix)]
pub(super) use unix::may_remove;

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::MetadataExt;

    use rustix::fs::{Gid, Uid, fchown};
    use rustix::process::{getegid, geteuid, getgroups};

    use super::attributes::Attributes;

    pub struct Owner {
        uid: u32,
        gid: u32,
        attributes: Attributes,
    }

    impl Owner {
        /// The owner of a file or directory with `uid` and `gid`, open as `open` if it can be read.
        pub fn of(uid: u32, gid: u32, open: Option<&File>) -> Self {
            Self { uid, gid, attributes: open.map(Attributes::of).unwrap_or_default() }
        }

        /// Gives `file` this owner, as far as this user may; returns the bits of `mode` that may then be set. If
        /// the group or the access lists could not be set, the group's bits are reduced to those of all others.
        ///
        /// # Errors
        /// The disk has no room for its attributes.
        pub fn give(&self, file: &File, mode: u32) -> io::Result<u32> {
            let owner_of = |file: &File| file.metadata().map(|it| (it.uid(), it.gid())).ok();
            if owner_of(file) != Some((self.uid, self.gid)) {
                let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
                if fchown(file, Some(uid), Some(gid)).is_err() {
                    let _ = fchown(file, None, Some(gid));
                }
            }
            let is_of_group = owner_of(file).is_some_and(|(_, gid)| gid == self.gid);
            let has_attributes = self.attributes.give(file)?;
            Ok(if is_of_group && has_attributes { mode } else { without_group(mode) })
        }

        /// The bits of `mode` that may be set on something new before it gets this owner.
        pub fn mode_for_new(&self, mode: u32) -> u32 {
            let gid = Gid::from_raw(self.gid);
            let can_give = || {
                geteuid().is_root()
                    || getegid() == gid
                    || getgroups().is_ok_and(|groups| groups.contains(&gid))
            };
            if can_give() { mode } else { without_group(mode) }
        }
    }

    /// Whether this user may rename or remove an entry that belongs to `owner` in a directory of the owner `dir_owner`
    /// that is sticky, such as `/tmp`.
    pub fn may_remove(owner: u32, dir_owner: u32) -> bool {
        let user = geteuid();
        user.is_root() || [owner, dir_owner].contains(&user.as_raw())
    }

    /// `mode` with the group's bits reduced to those that all others have.
    fn without_group(mode: u32) -> u32 {
        mode & !0o070 | mode & ((mode & 0o007) << 3)
    }

    #[cfg(test)]
    mod tests {
        use super::without_group;

        #[test]
        fn without_group_keeps_only_bits_of_others() {
            for (mode, narrowed) in
                [(0o664, 0o644), (0o660, 0o600), (0o755, 0o755), (0o1771, 0o1711), (0o604, 0o604)]
            {
                assert_eq!(without_group(mode), narrowed, "{mode:o}");
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod attributes {
    use std::collections::BTreeMap;
    use std::ffi::CString;
    use std::fs::File;
    use std::io;

    use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};
    use rustix::io::Errno;

    /// Longest value, and longest list of names, on Linux.
    const BYTES_MAX: usize = 64 << 10;

    /// Access lists: of a file, and of new entries in a directory.
    const LISTS: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];

    /// Attributes by name.
    #[derive(Default)]
    pub struct Attributes(BTreeMap<CString, Vec<u8>>);

    fn is_list(name: &CString) -> bool {
        LISTS.contains(&name.as_bytes())
    }

    /// Whether a replaced file keeps the attribute. Those by which the system trusts contents are dropped.
    fn is_kept(name: &CString) -> bool {
        let name = name.as_bytes();
        name.starts_with(b"user.") || name == b"security.selinux" || LISTS.contains(&name)
    }

    fn names(file: &File) -> Vec<CString> {
        let mut buffer = vec![0; BYTES_MAX];
        let len = flistxattr(file, &mut buffer[..]).unwrap_or_default();
        let names = buffer[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
        names.filter_map(|name| CString::new(name).ok()).collect()
    }

    impl Attributes {
        /// The attributes of `file`.
        pub fn of(file: &File) -> Self {
            let value = |name: CString| {
                let mut buffer = vec![0; BYTES_MAX];
                let len = fgetxattr(file, &name, &mut buffer[..]).ok()?;
                buffer.truncate(len);
                Some((name, buffer))
            };
            Self(names(file).into_iter().filter(is_kept).filter_map(value).collect())
        }

        /// Sets them on `file`, as far as its file system knows them; returns whether it then has their access lists and no
        /// others.
        ///
        /// # Errors
        /// The disk has no room for them.
        pub fn give(&self, file: &File) -> io::Result<bool> {
            let mut has_lists = true;
            for name in names(file).iter().filter(|name| is_list(name)) {
                if !self.0.contains_key(name) {
                    has_lists &= fremovexattr(file, name).is_ok();
                }
            }
            for (name, value) in &self.0 {
                match fsetxattr(file, name, value, XattrFlags::empty()) {
                    Err(error @ (Errno::NOSPC | Errno::DQUOT)) => return Err(error.into()),
                    set => has_lists &= set.is_ok() || !is_list(name),
                }
            }
            Ok(has_lists)
        }
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
mod attributes {
    use std::fs::File;
    use std::io;

    /// Not supported on this system.
    #[derive(Default)]
    pub struct Attributes;

    impl Attributes {
        pub fn of(_file: &File) -> Self {
            Self
        }

        #[expect(clippy::unnecessary_wraps, reason = "elsewhere the disk can be full")]
        pub fn give(&self, _file: &File) -> io::Result<bool> {
            Ok(true)
        }
    }
}
