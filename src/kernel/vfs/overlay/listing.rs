//! Listings of directories: POSIX `readdir`.
//!
//! A directory keeps its listing until an entry is added or removed. Readers hold theirs longer: a guest with many
//! descriptors could keep many old listings of one directory alive, so these are charged.

use std::sync::{Arc, Weak};

use super::Overlay;
use super::node::{Body, Dir, Entry, EntryKind, NodeId, ino_below};
use crate::base::errno::Errno;
use crate::kernel::vfs::layer::FileType;
use crate::kernel::vfs::path::VPath;

/// The entries of a directory at one time, sorted bytewise by name.
pub type Listing = Arc<Vec<Listed>>;

/// One line of a listing.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The entry's name.
    pub name: Arc<str>,
    /// Its inode number.
    pub ino: u64,
    /// Its type.
    pub file_type: FileType,
}

/// A listing that its directory no longer has, and the memory it takes while a reader holds it.
#[derive(Clone)]
pub(in crate::kernel::vfs) struct OldListing {
    listing: Weak<Vec<Listed>>,
    bytes: u64,
}

impl Overlay {
    /// Returns the names in the directory `dir` on the disk that cannot be shown, because they are not UTF-8, with
    /// replacement characters.
    pub(crate) fn hidden_names(&self, dir: NodeId) -> Vec<String> {
        let of_host = |(layer, path): &(u16, VPath)| {
            let mount =
                self.mounts.iter().find(|mount| mount.layer == *layer && mount.host.is_some())?;
            mount.host.as_ref()?.names(path).ok()
        };
        let names = self.dir(dir).below.iter().filter_map(of_host).flatten();
        let hidden = names.filter(|name| name.to_str().is_none());
        hidden.map(|name| name.to_string_lossy().into_owned()).collect()
    }

    /// Returns the entries of the directory `dir`.
    ///
    /// # Errors
    /// `ENOTDIR` unless it is a directory; `ENOSPC` if old listings that are still held exceed the limit; those of
    /// the layers below.
    pub fn list(&mut self, dir: NodeId) -> Result<Listing, Errno> {
        self.expect_dir(dir)?;
        self.complete(dir)?;
        if let Some(listing) = &self.dir(dir).listing {
            return Ok(listing.clone());
        }
        self.old_listings.retain(|old| old.listing.strong_count() > 0);
        if !self.old_listings.is_empty() {
            self.expect_room(self.old_listings.iter().map(|old| old.bytes).sum())?;
        }
        let this = self.dir(dir);
        let mut listing = Vec::with_capacity(this.count as usize);
        for (name, entry) in &this.entries {
            listing.extend(self.listed(dir, name, *entry));
        }
        listing.sort_by(|a, b| a.name.cmp(&b.name));
        let listing = Arc::new(listing);
        self.dir_mut(dir).listing = Some(listing.clone());
        Ok(listing)
    }

    /// Whether `listing` is still what [`Overlay::list`] returns for `dir`.
    pub fn is_listing_of(&self, listing: &Listing, dir: NodeId) -> bool {
        matches!(&self.node(dir).body, Body::Dir(dir)
            if dir.listing.as_ref().is_some_and(|now| Arc::ptr_eq(now, listing)))
    }

    /// Returns the present entry `name` of the directory `dir`, which has been listed.
    pub fn list_one(&self, dir: NodeId, name: &str) -> Option<Listed> {
        let Body::Dir(this) = &self.node(dir).body else { return None };
        let (_, name, entry) = this.entries.get_full(name)?;
        self.listed(dir, name, *entry)
    }

    fn listed(&self, dir: NodeId, name: &Arc<str>, entry: Entry) -> Option<Listed> {
        let (ino, file_type) = match entry.kind {
            EntryKind::Absent => return None,
            EntryKind::Below(file_type) => (ino_below(self.node(dir).ino, name), file_type),
            EntryKind::Folded(_) => (ino_below(self.node(dir).ino, name), FileType::Directory),
            EntryKind::Node(id) => (self.node(id).ino, self.file_type(id)),
        };
        Some(Listed { name: name.clone(), ino, file_type })
    }

    /// Drops the listing of `dir`, because an entry is removed.
    pub(in crate::kernel::vfs) fn unlist(&mut self, dir: NodeId) {
        let old = self.dir_mut(dir).listing.take();
        self.note_old(old);
    }

    /// Counts a dropped `listing` that is still read.
    pub(super) fn note_old(&mut self, listing: Option<Listing>) {
        let Some(listing) = listing.filter(|listing| Arc::strong_count(listing) > 1) else {
            return;
        };
        let names: usize = listing.iter().map(|entry| entry.name.len()).sum();
        let bytes = (names + listing.capacity() * size_of::<Listed>()) as u64;
        self.old_listings.push(OldListing { listing: Arc::downgrade(&listing), bytes });
    }
}

impl Dir {
    /// Appends an entry whose name sorts last, which is the common order of creation: the listing stays sorted.
    /// Otherwise removes and returns the listing.
    pub(super) fn list_one_more(&mut self, entry: Listed) -> Option<Listing> {
        if self.complete && self.count == 0 {
            return self.listing.replace(Arc::new(vec![entry]));
        }
        let list = self.listing.as_mut().and_then(Arc::get_mut);
        match list {
            Some(list) if list.last().is_some_and(|last| last.name < entry.name) => {
                list.push(entry);
                None
            }
            _ => self.listing.take(),
        }
    }
}
