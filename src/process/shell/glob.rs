//! Files that match a pattern.

use super::context::{Run, Shell};
use super::fields::Field;
use crate::kernel::fd::FdFlags;
use crate::kernel::guest::{OFlags, rights};
use crate::kernel::vfs::Follow;

impl Shell {
    /// The paths that match `field`, sorted bytewise; none if there are none.
    pub async fn matches(&mut self, field: &Field) -> Run<Vec<Vec<u8>>> {
        let mut found: Vec<Vec<u8>> = vec![Vec::new()];
        let mut start = 0;
        while start < field.text.len() && !found.is_empty() {
            let slashes = field.text[start..].iter().take_while(|byte| **byte == b'/').count();
            for path in &mut found {
                path.extend(std::iter::repeat_n(b'/', slashes));
            }
            start += slashes;
            let len = field.text[start..].iter().position(|byte| *byte == b'/');
            let end = len.map_or(field.text.len(), |len| start + len);
            if start == end {
                break;
            }
            let pattern = field.pattern_of(start, end);
            let mut longer = Vec::new();
            for path in found {
                self.tick().await?;
                if let Some(name) = pattern.literal() {
                    let path = [path.as_slice(), &name].concat();
                    if len.is_some() || self.exists(&path) {
                        longer.push(path);
                    }
                    continue;
                }
                for name in self.names_in(&path) {
                    let is_shown = !name.starts_with('.') || pattern.begins_with_dot();
                    if is_shown && pattern.matches(name.as_bytes()) {
                        longer.push([path.as_slice(), name.as_bytes()].concat());
                    }
                }
            }
            found = longer;
            start = end;
        }
        // What leads on must be there, and a slash at the end is that of a directory.
        if field.text.last() == Some(&b'/') {
            found.retain(|path| self.exists(path));
        }
        found.sort();
        Ok(found)
    }

    fn exists(&mut self, path: &[u8]) -> bool {
        self.path_filestat_get(path, Follow::No).is_ok()
    }

    /// The names in the directory `path`, or in the current one if it is empty, with `.` and `..`.
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
