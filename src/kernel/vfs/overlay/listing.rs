//! Directories as lists: POSIX `readdir`.
//!
//! A directory keeps its listing until an entry comes or goes. Whoever reads one holds on to it
//! meanwhile, so that a guest with many descriptors could make many listings of one directory live
//! side by side: those that no directory has any more count against the limit.

use std::sync::{Arc, Weak};

use super::Overlay;
use super::node::{Body, Dir, Entry, EntryKind, NodeId, ino_below};
use crate::base::errno::Errno;
use crate::kernel::vfs::layer::FileType;

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

/// A listing that no directory has any more, and the memory that it takes while somebody holds it.
#[derive(Clone)]
pub(in crate::kernel::vfs) struct OldListing {
    listing: Weak<Vec<Listed>>,
    bytes: u64,
}

impl Overlay {
    /// The entries of the directory `dir`.
    ///
    /// # Errors
    /// `ENOTDIR` unless it is a directory; `ENOSPC` if listings that are still held take what the
    /// limit leaves; as the layers below answer.
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

    /// Whether `listing` is what [`Overlay::list`] would answer for `dir` now.
    pub fn is_listing_of(&self, listing: &Listing, dir: NodeId) -> bool {
        matches!(&self.node(dir).body, Body::Dir(dir)
            if dir.listing.as_ref().is_some_and(|now| Arc::ptr_eq(now, listing)))
    }

    /// The entry `name` of the directory `dir`, which has been listed, if it is there now.
    pub fn list_one(&self, dir: NodeId, name: &str) -> Option<Listed> {
        let Body::Dir(this) = &self.node(dir).body else { return None };
        let (_, name, entry) = this.entries.get_full(name)?;
        self.listed(dir, name, *entry)
    }

    fn listed(&self, dir: NodeId, name: &Arc<str>, entry: Entry) -> Option<Listed> {
        let (ino, file_type) = match entry.kind {
            EntryKind::Absent => return None,
            EntryKind::Below(file_type) => (ino_below(self.node(dir).ino, name), file_type),
            EntryKind::Node(id) => (self.node(id).ino, self.file_type(id)),
        };
        Some(Listed { name: name.clone(), ino, file_type })
    }

    /// Keeps the listing of `dir` up to date with an entry that comes.
    pub(super) fn list_one_more(&mut self, dir: NodeId, entry: Listed) {
        let old = self.dir_mut(dir).list_one_more(entry);
        self.note_old(old);
    }

    /// Forgets the listing of `dir`, from which an entry goes.
    pub(in crate::kernel::vfs) fn unlist(&mut self, dir: NodeId) {
        let old = self.dir_mut(dir).listing.take();
        self.note_old(old);
    }

    fn note_old(&mut self, listing: Option<Listing>) {
        let Some(listing) = listing.filter(|listing| Arc::strong_count(listing) > 1) else {
            return;
        };
        let names: usize = listing.iter().map(|entry| entry.name.len()).sum();
        let bytes = (names + listing.capacity() * size_of::<Listed>()) as u64;
        self.old_listings.push(OldListing { listing: Arc::downgrade(&listing), bytes });
    }
}

impl Dir {
    /// Adds an entry that comes last: names are mostly made in order, and a listing that is there
    /// need not be sorted. Otherwise answers the listing, which is out of date.
    fn list_one_more(&mut self, entry: Listed) -> Option<Listing> {
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
