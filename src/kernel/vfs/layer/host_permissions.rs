//! Permissions of the host's files and directories.

use std::collections::HashMap;
use std::fs::File;
use std::io;

#[cfg(unix)]
use cap_std::fs::OpenOptions;
use cap_std::fs::Permissions;

use super::host_dir::HostDir;
use super::owner::Owner;
use crate::kernel::vfs::path::VPath;

/// The permissions of a file or directory of the host.
pub(in crate::kernel::vfs) struct HostPermissions {
    mode: Permissions,
    #[cfg_attr(not(unix), expect(dead_code, reason = "only Unix has owners"))]
    owner: Owner,
}

impl HostPermissions {
    /// These permissions as a number: the mode on Unix, elsewhere 1 if read-only.
    pub fn mode(&self) -> u32 {
        #[cfg(unix)]
        return cap_std::fs::PermissionsExt::mode(&self.mode) & 0o7777;
        #[cfg(not(unix))]
        return u32::from(self.mode.readonly());
    }

    /// These permissions, but that nobody may execute the file.
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has this permission"))]
    pub fn without_execute(mut self) -> Self {
        #[cfg(unix)]
        {
            let mode = self.mode() & !0o111;
            self.mode = cap_std::fs::PermissionsExt::from_mode(mode);
        }
        self
    }

    /// These permissions, but that those who may read the file may execute it, and its owner in any case: the umask
    /// with which it was made also holds for that. Unchanged if its owner may execute it.
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has this permission"))]
    pub fn with_execute(mut self) -> Self {
        #[cfg(unix)]
        if self.mode() & 0o100 == 0 {
            let mode = self.mode() | (self.mode() & 0o444) >> 2 | 0o100;
            self.mode = cap_std::fs::PermissionsExt::from_mode(mode);
        }
        self
    }

    /// Sets these permissions on `file`, without set-user-id and set-group-id, which were granted to other
    /// contents; also its access lists and other attributes, and its owner and group as far as this user may.
    pub fn set_on(&self, file: &File) -> io::Result<()> {
        #[cfg(unix)]
        let permissions = {
            use std::os::unix::fs::PermissionsExt;
            std::fs::Permissions::from_mode(self.owner.give(file, self.mode() & 0o1777)?)
        };
        #[cfg(not(unix))]
        let permissions = self.mode.clone().into_std(file)?;
        file.set_permissions(permissions)
    }

    /// As [`HostPermissions::mode`], for a new directory that gets the owner as far as possible.
    pub fn mode_for_new(&self) -> u32 {
        #[cfg(unix)]
        return self.owner.mode_for_new(self.mode());
        #[cfg(not(unix))]
        return self.mode();
    }
}

/// Opens a file or directory without following a symbolic link or waiting for a pipe.
#[cfg(unix)]
fn unfollowed() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    cap_std::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits().cast_signed());
    options.read(true);
    options
}

impl HostDir {
    /// The permissions of `path`.
    pub(in crate::kernel::vfs) fn permissions(&self, path: &VPath) -> io::Result<HostPermissions> {
        let (dir, name) = self.place(path)?;
        let found = dir.symlink_metadata(name)?;
        #[cfg(unix)]
        let owner = {
            use cap_std::fs::MetadataExt;
            let is_kept = found.is_file() || found.is_dir();
            let open = is_kept.then(|| dir.open_with(name, &unfollowed()).ok()).flatten();
            let open = open.map(cap_std::fs::File::into_std);
            Owner::of(found.uid(), found.gid(), open.as_ref())
        };
        #[cfg(not(unix))]
        let owner = Owner;
        Ok(HostPermissions { mode: found.permissions(), owner })
    }

    /// Checks that this user may move the entry `path` to `to`, and then remove it there: in a sticky directory, such as
    /// `/tmp`, only the owners of the entry and of the directory may; on Windows, nobody may while another program has
    /// the file open and does not share that. `known` has the directories seen so far, with
    /// their owners if they are sticky.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] if not; those of the host.
    pub(in crate::kernel::vfs) fn expect_movable(
        &self,
        path: &VPath,
        to: &VPath,
        known: &mut HashMap<VPath, Option<u32>>,
    ) -> io::Result<()> {
        #[cfg(unix)]
        for at in [path, to] {
            self.expect_removable(path, at, known)?;
        }
        #[cfg(not(unix))]
        let _ = (to, known);
        #[cfg(windows)]
        self.expect_free(path)?;
        #[cfg(not(any(unix, windows)))]
        let _ = path;
        Ok(())
    }

    /// Checks that this user may remove the entry `path` where it has, or gets, the name `at`: see [`HostDir::expect_movable`], which
    /// has `known`, too.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] if not; those of the host.
    pub(in crate::kernel::vfs) fn expect_removable(
        &self,
        path: &VPath,
        at: &VPath,
        known: &mut HashMap<VPath, Option<u32>>,
    ) -> io::Result<()> {
        #[cfg(unix)]
        {
            use cap_std::fs::{MetadataExt, PermissionsExt};
            let dir = at.split_last().map_or_else(VPath::root, |(dir, _)| dir);
            let sticky_of = if let Some(sticky_of) = known.get(&dir) {
                *sticky_of
            } else {
                let found = self.metadata(&dir)?;
                let is_sticky = found.permissions().mode() & 0o1000 != 0;
                let sticky_of = is_sticky.then(|| found.uid());
                known.insert(dir, sticky_of);
                sticky_of
            };
            if let Some(dir_owner) = sticky_of
                && !super::owner::may_remove(self.metadata(path)?.uid(), dir_owner)
            {
                let why = "it belongs to another user, and its directory is sticky, so that only owners may";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
            }
        }
        #[cfg(not(unix))]
        let _ = (path, at, known);
        Ok(())
    }

    /// Gives the new directory `path` owner and access lists from `permissions`, as far as this user may.
    pub(in crate::kernel::vfs) fn give_dir(
        &self,
        path: &VPath,
        permissions: &HostPermissions,
    ) -> io::Result<()> {
        #[cfg(unix)]
        {
            let (dir, name) = self.place(path)?;
            let opened = dir.open_with(name, &unfollowed())?.into_std();
            permissions.owner.give(&opened, 0)?;
        }
        #[cfg(not(unix))]
        let _ = (path, permissions);
        Ok(())
    }

    /// Sets the permissions of the directory `path` to what [`HostPermissions::mode`] returned.
    pub(in crate::kernel::vfs) fn set_dir_mode(&self, path: &VPath, mode: u32) -> io::Result<()> {
        #[cfg(unix)]
        let permissions: Permissions = cap_std::fs::PermissionsExt::from_mode(mode & 0o7777);
        #[cfg(not(unix))]
        let permissions = {
            let mut permissions = self.permissions(path)?.mode;
            permissions.set_readonly(mode != 0);
            permissions
        };
        let (dir, name) = self.place(path)?;
        // A directory that this user may not open can only be reached by its name.
        #[cfg(unix)]
        if let Ok(opened) = dir.open_with(name, &unfollowed()) {
            return opened.set_permissions(permissions);
        }
        dir.set_permissions(name, permissions)
    }
}
