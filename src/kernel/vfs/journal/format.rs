//! The format of journals.
//!
//! A journal starts with [`MAGIC`] and its version: a major and a minor number of 16 bits each. Up to three parts
//! follow: the directories ([`Root`]), the plans ([`Plan`]), and what was staged ([`Identity`]). A part is a tag
//! of four bytes, its length in 64 bits, the content, and the BLAKE3 digest of all that. Numbers are little-endian;
//! texts and lists start with their length in 32 bits.
//!
//! A reader trusts nothing: lengths are compared with the bytes that are there, names are checked, and temporaries must
//! have the form of temporary names.

use std::path::PathBuf;

use crate::base::digest::Digest;
use crate::base::own::Exposure;
use crate::kernel::vfs::journal::plan::{Attributes, Identity, Plan, Step};
use crate::kernel::vfs::layer::FileType;
use crate::kernel::vfs::layer::Times;
use crate::kernel::vfs::layer::temporary::may_be_temporary;
use crate::kernel::vfs::path::VPath;

const MAGIC: &[u8] = b"belljar journal\n";

/// Readers accept every minor version of their major version.
const VERSION: [u16; 2] = [1, 0];

const ROOTS: [u8; 4] = *b"ROOT";
const PLANS: [u8; 4] = *b"PLAN";
const STAGED: [u8; 4] = *b"DONE";

/// Longest journal.
pub(super) const BYTES_MAX: u64 = 1 << 30;

/// A directory that is written to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::kernel::vfs) struct Root {
    /// `HostDir::id`.
    pub id: (u64, u64),
    /// Its path when it was opened.
    pub path: PathBuf,
}

/// What was staged for each step of each directory; `None` for a step that stages nothing.
pub(super) type Staged = Vec<Vec<Option<Identity>>>;

/// The content of a journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::kernel::vfs) struct Content {
    pub roots: Vec<Root>,
    /// `None` if this part is incomplete.
    pub plans: Option<Vec<Plan>>,
    /// `None` if this part is incomplete.
    pub staged: Option<Staged>,
    /// The first defect after the directories.
    pub defect: Option<&'static str>,
}

/// Why a file is not a usable journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::kernel::vfs) enum JournalDefect {
    /// The defect.
    Damaged(&'static str),
    /// A later belljar wrote it.
    Version(u16, u16),
    /// Another user could have written it.
    Exposed(Exposure),
}

/// The start of a journal about `roots`.
pub(in crate::kernel::vfs) fn beginning(roots: &[Root]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.iter().flat_map(|number| number.to_le_bytes()));
    let mut out = Out::default();
    out.list(roots, |out, root| {
        out.u64(root.id.0);
        out.u64(root.id.1);
        out.text(root.path.as_os_str().as_encoded_bytes());
    });
    bytes.extend(out.part(ROOTS));
    bytes
}

/// The part with the plans.
pub(in crate::kernel::vfs) fn plans_part(plans: &[Plan]) -> Vec<u8> {
    let mut out = Out::default();
    out.list(plans, |out, plan| {
        out.list(&plan.steps, Out::step);
        out.list(&plan.attributes, Out::attributes);
    });
    out.part(PLANS)
}

/// The part with what was staged.
pub(in crate::kernel::vfs) fn staged_part(staged: &[Vec<Option<Identity>>]) -> Vec<u8> {
    let mut out = Out::default();
    out.list(staged, |out, steps| out.list(steps, |out, made| out.identity(made.as_ref())));
    out.part(STAGED)
}

/// Parses a journal, which may end at any byte.
pub(in crate::kernel::vfs) fn parse(bytes: &[u8]) -> Result<Content, JournalDefect> {
    let mut rest =
        bytes.strip_prefix(MAGIC).ok_or(JournalDefect::Damaged("it has no journal header"))?;
    let mut version = || {
        let (number, after) = rest.split_first_chunk()?;
        rest = after;
        Some(u16::from_le_bytes(*number))
    };
    let (Some(major), Some(minor)) = (version(), version()) else {
        return Err(JournalDefect::Damaged("it ends within the header"));
    };
    if major != VERSION[0] {
        return Err(JournalDefect::Version(major, minor));
    }
    let roots =
        part(&mut rest, ROOTS).ok_or(JournalDefect::Damaged("its first part is incomplete"))?;
    let roots = In(roots).whole(|part| part.list(In::root));
    let roots = roots.ok_or(JournalDefect::Damaged("its first part is invalid"))?;
    let mut content = Content { roots, plans: None, staged: None, defect: None };
    let Some(plans) = part(&mut rest, PLANS) else { return Ok(content) };
    let plans = In(plans).whole(|part| part.list(In::plan));
    let Some(plans) = plans.filter(|plans| plans.len() == content.roots.len()) else {
        content.defect = Some("its second part is invalid");
        return Ok(content);
    };
    let lengths: Vec<usize> = plans.iter().map(|plan| plan.steps.len()).collect();
    content.plans = Some(plans);
    let Some(staged) = part(&mut rest, STAGED) else { return Ok(content) };
    let staged = In(staged).whole(|part| part.list(|part| part.list(In::identity)));
    content.staged = staged.filter(|staged| staged.iter().map(Vec::len).eq(lengths));
    if content.staged.is_none() {
        content.defect = Some("its third part is invalid");
    } else if !rest.is_empty() {
        content.defect = Some("there are bytes after its end");
    }
    Ok(content)
}

/// Takes the part `tag` off `rest`; `None` if it is incomplete.
fn part<'b>(rest: &mut &'b [u8], tag: [u8; 4]) -> Option<&'b [u8]> {
    let after = rest.strip_prefix(&tag)?;
    let (len, after) = after.split_first_chunk()?;
    let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
    let (content, after) = after.split_at_checked(len)?;
    let (digest, after) = after.split_first_chunk::<32>()?;
    let covered = &rest[..tag.len() + 8 + len];
    if Digest::of(covered).as_bytes() != digest {
        return None;
    }
    *rest = after;
    Some(content)
}

/// A part being written.
#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn part(self, tag: [u8; 4]) -> Vec<u8> {
        let mut bytes = tag.to_vec();
        bytes.extend((self.0.len() as u64).to_le_bytes());
        bytes.extend(self.0);
        let digest = Digest::of(&bytes);
        bytes.extend(digest.as_bytes());
        bytes
    }

    fn u8(&mut self, number: u8) {
        self.0.push(number);
    }

    fn u32(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    fn text(&mut self, text: &[u8]) {
        self.u32(text.len() as u32);
        self.0.extend(text);
    }

    fn path(&mut self, path: &VPath) {
        self.text(path.as_str().as_bytes());
    }

    fn list<T>(&mut self, items: &[T], mut item: impl FnMut(&mut Self, &T)) {
        self.u32(items.len() as u32);
        for it in items {
            item(self, it);
        }
    }

    fn option<T>(&mut self, value: Option<&T>, some: impl FnOnce(&mut Self, &T)) {
        self.u8(value.is_some().into());
        if let Some(value) = value {
            some(self, value);
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Remove { path, backup, dir_mode } => {
                self.u8(0);
                self.path(path);
                self.path(backup);
                self.option(dir_mode.as_ref(), |out, mode| out.u32(*mode));
            }
            Step::CreateDir { path, temporary } => {
                self.u8(1);
                self.path(path);
                self.path(temporary);
            }
            Step::Place { path, temporary, backup } => {
                self.u8(2);
                self.path(path);
                self.path(temporary);
                self.option(backup.as_ref(), Self::path);
            }
        }
    }

    fn attributes(&mut self, attributes: &Attributes) {
        let Attributes { path, times, mode, of } = attributes;
        self.path(path);
        self.option(times.as_ref(), |out, times| {
            out.u64(times.atim);
            out.u64(times.mtim);
            out.u64(times.ctim);
        });
        self.option(mode.as_ref(), |out, mode| out.u32(*mode));
        self.identity(of.as_ref());
    }

    fn identity(&mut self, identity: Option<&Identity>) {
        self.option(identity, |out, identity| {
            out.u8(identity.file_type as u8);
            out.u64(identity.inode);
            out.u64(identity.size);
            out.u64(identity.mtime_ns);
        });
    }
}

/// The rest of a part being read.
struct In<'b>(&'b [u8]);

impl<'b> In<'b> {
    /// The result of `read` if it leaves nothing.
    fn whole<T>(mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        read(&mut self).filter(|_| self.0.is_empty())
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<&'b [u8]> {
        let len = usize::try_from(self.u32()?).ok()?;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(text)
    }

    /// A normalised path other than the root.
    fn path(&mut self) -> Option<VPath> {
        let text = std::str::from_utf8(self.text()?).ok()?;
        VPath::parse(text).ok().filter(|path| path.as_str() == text && !path.is_root())
    }

    fn temporary(&mut self) -> Option<VPath> {
        let path = self.path()?;
        let is_one = path.split_last().is_some_and(|(_, name)| may_be_temporary(name));
        is_one.then_some(path)
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u32()?;
        // Not allocated from `count`, which is not trusted.
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Some(items)
    }

    #[expect(clippy::option_option, reason = "the outer one is whether it can be read")]
    fn option<T>(&mut self, some: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.u8()? {
            0 => Some(None),
            1 => some(self).map(Some),
            _ => None,
        }
    }

    fn root(&mut self) -> Option<Root> {
        let id = (self.u64()?, self.u64()?);
        let text = self.text()?;
        #[cfg(unix)]
        let path = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(text);
        #[cfg(not(unix))]
        let path = std::str::from_utf8(text).ok()?;
        Some(Root { id, path: path.into() })
    }

    fn plan(&mut self) -> Option<Plan> {
        Some(Plan { steps: self.list(Self::step)?, attributes: self.list(Self::attributes)? })
    }

    fn step(&mut self) -> Option<Step> {
        Some(match self.u8()? {
            0 => Step::Remove {
                path: self.path()?,
                backup: self.temporary()?,
                dir_mode: self.option(Self::u32)?,
            },
            1 => Step::CreateDir { path: self.path()?, temporary: self.temporary()? },
            2 => Step::Place {
                path: self.path()?,
                temporary: self.temporary()?,
                backup: self.option(Self::temporary)?,
            },
            _ => return None,
        })
    }

    fn attributes(&mut self) -> Option<Attributes> {
        let path = self.path()?;
        let times = self.option(|part| {
            Some(Times { atim: part.u64()?, mtim: part.u64()?, ctim: part.u64()? })
        })?;
        let (mode, of) = (self.option(Self::u32)?, self.identity()?);
        Some(Attributes { path, times, mode, of })
    }

    #[expect(clippy::option_option, reason = "the outer one is whether it can be read")]
    fn identity(&mut self) -> Option<Option<Identity>> {
        self.option(|part| {
            let file_type = match part.u8()? {
                0 => FileType::Unknown,
                3 => FileType::Directory,
                4 => FileType::RegularFile,
                7 => FileType::SymbolicLink,
                _ => return None,
            };
            let (inode, size, mtime_ns) = (part.u64()?, part.u64()?, part.u64()?);
            Some(Identity { file_type, inode, size, mtime_ns })
        })
    }
}
