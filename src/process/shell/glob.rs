//! Pathname expansion.

use super::context::{Run, Shell};
use super::fields::Field;
use super::held::Words;
use crate::kernel::guest::{OFlags, rights};
use crate::kernel::io::fd::FdFlags;
use crate::kernel::vfs::Follow;

impl Shell {
    /// Returns the paths that match `field`, sorted bytewise.
    pub async fn matches(&mut self, field: &Field) -> Run<Words> {
        let found = Words::of(&[Vec::new()], self.memory());
        let mut found = self.check_memory(found).await?;
        let mut start = 0;
        while start < field.text.len() && !found.is_empty() {
            let slashes = field.text[start..].iter().take_while(|byte| **byte == b'/').count();
            let (slashes, rest) = field.text[start..].split_at(slashes);
            start += slashes.len();
            let len = rest.iter().position(|byte| *byte == b'/');
            let end = len.map_or(field.text.len(), |len| start + len);
            let pattern = self.pattern(field, start..end).await?;
            let mut longer = Words::none(self.memory());
            for path in found.iter() {
                self.tick().await?;
                let dir = [path.as_slice(), slashes].concat();
                if let Some(name) = pattern.literal() {
                    let path = [dir, name].concat();
                    if len.is_some() || self.exists(&path) {
                        let added = longer.add(path);
                        self.check_memory(added).await?;
                    }
                    continue;
                }
                for name in self.names_in(&dir) {
                    let is_shown = !name.starts_with('.') || pattern.begins_with_dot();
                    let name = name.as_bytes();
                    if is_shown && self.stepwise(|steps| pattern.matches(name, steps))? {
                        let added = longer.add([&dir, name].concat());
                        self.check_memory(added).await?;
                    }
                }
            }
            found = longer;
            start = end;
        }
        found.sort();
        Ok(found)
    }

    fn exists(&mut self, path: &[u8]) -> bool {
        self.path_filestat_get(path, Follow::No).is_ok()
    }

    /// Returns the names in the directory `path` (empty: the current one), with `.` and `..`.
    fn names_in(&mut self, path: &[u8]) -> Vec<String> {
        let Ok(path) = std::str::from_utf8(path) else { return Vec::new() };
        let path = if path.is_empty() { "." } else { path };
        let oflags = OFlags { directory: true, ..OFlags::default() };
        let opened = self.path_open(path, oflags, rights::FD_READDIR, FdFlags::default());
        let Ok(fd) = opened else { return Vec::new() };
        let mut names = vec![".".to_owned(), "..".to_owned()];
        names.extend(self.fd_readdir(fd).unwrap_or_default());
        self.close(fd);
        names
    }
}
