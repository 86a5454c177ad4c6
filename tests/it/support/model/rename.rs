//! Renames in the reference file system.

use belljar::Errno;
use belljar::kernel::vfs::NAME_MAX;

use super::{Model, Path, Spot};
use crate::support::files::Last;
use crate::support::plans::Place;

impl Model {
    /// `None` if only the last name is too long: that is noticed once the directories of both paths are known.
    fn renamed(&self, place: &Place) -> Result<Option<Spot>, Errno> {
        let spot = self.walk(place, Last::Kept, false);
        let path = place.path.trim_end_matches('/');
        let (dir, name) = path.rsplit_once('/').unwrap_or((".", path));
        if spot.as_ref().err() != Some(&Errno::Nametoolong) || name.len() <= NAME_MAX {
            return spot.map(Some);
        }
        self.walk(&Place { path: dir.to_owned(), ..place.clone() }, Last::Followed, false)?;
        Ok(None)
    }

    pub(super) fn rename(&mut self, from: &Place, to: &Place, now: u64) -> Result<(), Errno> {
        let (from, to) = (self.renamed(from)?, self.renamed(to)?);
        if from.iter().chain(&to).any(|spot| spot.dots.is_some()) {
            return Err(Errno::Busy);
        }
        let from = from.ok_or(Errno::Nametoolong)?;
        let id = self.id(&from.path).ok_or(Errno::Noent)?;
        let to = to.ok_or(Errno::Nametoolong)?;
        let over = self.id(&to.path);
        self.expect_parent(&to.path)?;
        if (from.slash || to.slash) && !self.is_dir(id) {
            return Err(Errno::Notdir);
        }
        if over == Some(id) {
            return Ok(());
        }
        if to.path.starts_with(&from.path) {
            return Err(Errno::Inval);
        }
        if from.path.starts_with(&to.path) {
            return Err(Errno::Notempty);
        }
        if let Some(over) = over {
            match (self.is_dir(id), self.is_dir(over)) {
                (true, false) => return Err(Errno::Notdir),
                (false, true) => return Err(Errno::Isdir),
                (true, true) if !self.entries(over).is_empty() => return Err(Errno::Notempty),
                _ => self.drop_name(&to.path, now),
            }
        }
        let beneath = |path: &&Path| path.starts_with(&from.path);
        let moved = self.names.keys().filter(beneath).cloned().collect::<Vec<_>>();
        for old in moved {
            let id = self.names.remove(&old).expect("it was just seen");
            let new = [&to.path, &old[from.path.len()..]].concat();
            self.names.insert(new, id);
        }
        self.touch_parent(&from.path, now);
        self.touch_parent(&to.path, now);
        self.inode(id).times.ctim = now;
        Ok(())
    }
}
